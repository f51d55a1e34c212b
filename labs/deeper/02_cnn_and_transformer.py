# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02, deeper · Does a Swin leak more than a ResNet, by this attack?
#
# You come from [lab 02](../02_likelihood_ratio.ipynb). In the paper (Zhang et al. 2024, Table 3, Figure 2) the likelihood ratio does better on a Swin than on the ResNet of its
# size, by AUC and at every false-positive rate. Is it so here?
#
# After this notebook you can
# - compare two ROC curves over all their rates;
# - say what stands in the way of blaming the architecture.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores. After lab 02 the networks are read from disk.)

# %% [markdown]
# *About 12 minutes. You need* lab 02.

# %%
from privlab import compute, experiments
from privlab.experiments.victims import shadow_fleets
from privlab.metrics import roc
from privlab.notebook import plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
pair = experiments.load("membership.architectures")  # both on one draw, four of each
NAME = "likelihood_ratio.fleet"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
names = {"ResNet": "resnet", "Swin": "swin"}

# %% [markdown]
# ## The attack on both
#
# ### Predict

# %%
guess = widgets.predict(
    "Share of the FPRs at which the Swin's curve is on or above the ResNet's:", 0, 1
)
guess

# %%
rows = {a: f"auc[cifar10, {key}, likelihood_ratio]" for a, key in names.items()}
printed = {"ResNet": 0.6446, "Swin": 0.7384}  # Table 3
share = {"Swin on or above the ResNet": "roc_share_above[cifar10, swin_less_resnet]"}
of, live = (pair, None) if pair else (kept, mine)
display(plots.evidence(of, live, rows, xlabel="AUC", published=printed))
if pair:
    display(plots.evidence(pair, None, share, xlabel="share of the FPRs"))

# %%
shown = pair or mine
display(guess.against(round(pair.mean(*share.values()), 2)))
text(
    "The AUC on the Swin is {:+.3f} away from that on the ResNet. In the paper it is "
    "{:+.3f}, with networks of full size that overfit far less, and the Swin's curve "
    "is above at every FPR (Figure 2).",
    shown.mean(f"{rows['Swin']} - {rows['ResNet']}"),
    printed["Swin"] - printed["ResNet"],
)

# %% [markdown]
# ## The curves of your networks
#
# Every network is the victim once. Each thin line is a victim.

# %%
asked = shadow_fleets.shown(NAME, profile, [*names.values()], device)
answers = dict(zip(names, asked.values(), strict=True))


def curves_of(a):
    said = answers[a]
    scores = {
        "likelihood ratio": said.ratios(),
        "loss threshold": said.margins()[..., 0],  # orders pictures as the loss does
    }
    return {
        f"{a}, {kind}": [roc.curve(*of) for of in zip(each, said.members, strict=True)]
        for kind, each in scores.items()
    }


# %%
for a in names:  # a figure for each: four bundles would lie over each other
    alt = f"ROC of two attacks on the {a}, logarithmic, a line for each victim."
    display(plots.roc(curves_of(a), alt=alt))

# %% [markdown] tags=["printed"]
# A rate at an FPR of 0.1% needs many non-members. Where they are too few, privlab refuses to name one. Else it prints an interval, which counts the uncertainty of the members found
# and that of the threshold.

# %%
first = {a: (said.ratios()[0], said.members[0]) for a, said in answers.items()}
for a, (scores, members) in first.items():
    print(f"{a}, first victim, FPR 1%: {roc.tpr_at(scores, members, 0.01)}")
    try:
        print(f"  FPR 0.1%: {roc.tpr_at(scores, members, 0.001)}")
    except ValueError as refused:
        print(f"  FPR 0.1%: {refused}")

# %% [markdown]
# With the same pictures and the same epochs, the two do not overfit alike. [A deeper notebook of lab 01](01_same_overfitting.ipynb) compares them at the same overfitting level.
#
# ## Read on
#
# Zhang et al. 2024, section 4.2. A deeper notebook of lab 10 asks which part of an architecture moves these numbers.
