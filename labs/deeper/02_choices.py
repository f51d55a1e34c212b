# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02, deeper · Which choices make the ratio stronger?
#
# You come from [lab 02](../02_likelihood_ratio.ipynb). There you changed the number of networks, the questions and the spread. There are more choices, and there is a rival.
#
# After this notebook you can
# - attack without having trained on the picture;
# - say which choices matter with few shadow models, and which do not;
# - name an attack that fits no Gaussian.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores. After lab 02 the networks are read from disk.)

# %% [markdown]
# *About 20 minutes. You need* lab 02. *New words*: **online**, **offline**, **reference models**.

# %%
from inspect import getsource

from privlab import compute, experiments
from privlab.attacks.membership_inference import lira
from privlab.experiments.victims import shadow_fleets
from privlab.notebook import plots, text, widgets

import pandas as pd
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "likelihood_ratio.fleet"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
shown = kept or mine
names = {"ResNet": "resnet", "Swin": "swin"}
asked = shadow_fleets.shown(NAME, profile, [*names.values()], device)
answers = dict(zip(names, asked.values(), strict=True))

# %% [markdown]
# ## Without the picture
#
# **Online**, the attacker trains networks with the picture and without it. **Offline**, they train them before they know about whom they will ask. So no network is "in". They
# can only ask how unusual the victim's margin would be for a non-member.

# %%
print(getsource(lira.statistic))

# %% [markdown]
# ### Predict

# %%
SAME, LITTLE, MUCH = "at most 0.01", "0.01 to 0.05", "more than 0.05"
guess = widgets.choose(
    "How much AUC does the offline attack lose, on the ResNet?", [SAME, LITTLE, MUCH]
)
guess

# %%
auc = {
    f"{a}: {kind}": f"auc[cifar10, {names[a]}, {key}]"
    for a in names
    for kind, key in (("online", "likelihood_ratio"), ("offline", "offline"))
}
plots.evidence(kept, mine, auc, xlabel="AUC")

# %%
lost = shown.mean(f"{auc['ResNet: online']} - {auc['ResNet: offline']}")
display(guess.against(SAME if lost <= 0.01 else LITTLE if lost <= 0.05 else MUCH))
text(
    "Offline costs {:.3f} of the AUC for the ResNet and {:.3f} for the Swin.",
    lost,
    shown.mean(f"{auc['Swin: online']} - {auc['Swin: offline']}"),
)

# %% [markdown]
# ## The spread
#
# *Variance*: few networks estimate the spread of each picture badly. Then one spread for all pictures does better. `fixed` takes that of all scores, as the authors' code does.
# `pooled` (ours) takes the mean spread *within* a picture. `per-example` takes that of each picture alone.
#
# The table is of your own networks.

# %%
knobs = [
    dict(online=online, variance=variance)
    for online in (True, False)
    for variance in lira.VARIANCES
]

# %%
rows = []
for knob in knobs:
    row = dict(knob)
    for a, said in answers.items():
        rates = shadow_fleets.rates(said.ratios(**knob), said.members)
        row[f"AUC, {a}"] = rates["auc"]
        row[f"TPR at 1%, {a}"] = rates["tpr_at_fpr_0p01"]
    rows.append(row)
pd.DataFrame(rows).set_index(["online", "variance"]).round(3)

# %% [markdown]
# ## How many networks?
#
# The networks come in pairs. So any even number of them, from the first on, is a fleet of its own, and the question costs no training.
# (Without pairs the shadow models give the answer away: of seven others, three hold a picture that the victim holds, and four one that it does not.)
#
# One more attack joins here. **RMIA** (Zarifzadeh et al. 2024) fits no Gaussian. It divides the victim's confidence by the mean confidence of the shadow models, here called
# **reference models**. Then it asks for how many *other* pictures, which no network was trained on, this ratio is at most half as large.
#
# ### Predict

# %%
FIXED, POOLED, RMIA = "ratio, fixed", "ratio, pooled", "RMIA"
rival = widgets.choose(
    "With six networks, which attack has the highest AUC on the ResNet, to 0.002?",
    [FIXED, POOLED, RMIA],
)
rival

# %%
KINDS = {FIXED: "fixed", POOLED: "pooled", RMIA: "rmia"}
METRICS = {"AUC": "auc", "TPR at 1%": "tpr_at_fpr_0p01"}


def over_counts(architecture, measure):
    of = f"{METRICS[measure]}[cifar10, {names[architecture]}, {{}}, models_{{}}]"
    there = [n for n in (6, 8, 16, 32, 64) if of.format("fixed", n) in mine]
    series = {kind: {n: of.format(k, n) for n in there} for kind, k in KINDS.items()}
    label = "networks, the victim and its partner included"
    return plots.evidence_lines(kept, mine, series, xlabel=label, ylabel=measure)


widgets.explore(over_counts, architecture=tuple(names), measure=tuple(METRICS))

# %%
six = {
    kind: shown.mean(f"auc[cifar10, resnet, {k}, models_6]")
    for kind, k in KINDS.items()
}
display(rival.against([k for k in six if six[k] > max(six.values()) - 0.002]))
text(
    "With six ResNets the AUC is {:.3f} (fixed), {:.3f} (pooled) and {:.3f} (RMIA).",
    *six.values(),
)

# %% [markdown]
# ## Read on
#
# Carlini et al. 2022, section V, for the choices. Zarifzadeh et al. 2024 is the paper behind RMIA.
