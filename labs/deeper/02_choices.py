# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02, deeper · Which choices make the ratio stronger?
#
# You come from [lab 02](../02_likelihood_ratio.ipynb). There you changed the number of networks, the questions and the spread. There are more choices, there is a rival, and there is code that loses the attack.
#
# After this notebook you can
# - attack without having trained on the picture;
# - say which choices matter with few shadow models, and which do not;
# - name an attack that fits no Gaussian;
# - find four mistakes in an attack that runs and prints a number.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores. After lab 02 the networks are read from disk.)

# %% [markdown]
# *About 55 minutes. You need* lab 02. *New words*: **online**, **offline**, **reference models**.

# %%
from inspect import getsource

from privlab import compute, experiments
from privlab.attacks import membership_inference
from privlab.attacks.membership_inference import lira
from privlab.experiments.victims import shadow_fleets
from privlab.notebook import checks, plots, text, widgets

import pandas as pd
import torch
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
# ## Careless code
#
# The attack lives from a few pictures of which the networks are very sure. Careless code loses these first, and no exception is raised. The margin is the logit of the right class less the (soft) maximum of all others. That is the same as the logarithm of $p / (1 - p)$, but it never forms $p$.

# %%
signals = membership_inference.signals
print(getsource(signals.margin))

# %% [markdown]
# ### Predict
#
# A network is quite sure: its three logits are 20, 0 and 0, as float32, and the first class is right. The margin is a little above 19. Some code computes $p$ by a softmax, and then
# $\log (p / (1 - p))$.

# %%
CLOSE, SOME_OFF, LOST = "19.3", "19, off by at most 0.5", "no finite number"
printed = widgets.choose("What does it print?", [CLOSE, SOME_OFF, LOST])
printed

# %%
sure = torch.tensor([[20.0, 0.0, 0.0]])
p = sure.softmax(1)[0, 0]
careless = (p / (1 - p)).log().item()
careful = signals.margin(sure, torch.tensor([0])).item()
off = abs(careless - careful)
printed.against(CLOSE if off < 0.01 else SOME_OFF if off <= 0.5 else LOST)

# %%
text(
    "By the probability it is {:.4f}, and from the logits {:.4f}. In float32 the "
    "probability is {:.10f}.",
    careless,
    careful,
    p.item(),
)

# %% [markdown]
# In the tail such a score is infinite for many pictures, and they can no longer be told apart. To cut it off, or to add a small number, makes it finite, and equal for all
# of them.
#
# ### Exercise 1: four bugs *(difficulty 3, 30 minutes)*
#
# Here is an attack as one finds it on the net. It runs, and it prints a number. Four mistakes are in it, each of which has stood in public code. Mend these, and leave the rest.
# `keep` says which model was trained on which image, and comes from disk. `pixels` are normalised already. It returns one score for each image, higher for members.
# Show every model the image as it was given. Models may come in any mode.
#
# <details><summary>Hint</summary>In which mode is a model asked? Is each model asked the same question? What is left of a sure answer in float32? Is the score
# higher for members? The check tells which kind of mistake is left.</details>


# %% tags=["exercise"]
def attack_from_the_net(victim, models, keep, pixels, labels):
    def ask(model):
        with torch.no_grad():
            model.train()
            shift = torch.randint(-1, 2, (1,)).item()  # a random crop, as in training
            p = model(pixels.roll(shift, -1)).softmax(1)[
                torch.arange(len(labels)), labels
            ]
            return (p / (1 - p)).log()

    said = torch.stack([ask(model) for model in models])  # (models, n)
    outside = [said[~keep[:, i], i] for i in range(len(labels))]
    mean = torch.stack([each.mean() for each in outside])
    std = torch.stack([each.std() for each in outside])
    return (mean - ask(victim)) / std


# %% tags=["solution"]
def attack_from_the_net(victim, models, keep, pixels, labels):
    def ask(model):
        with torch.no_grad():
            model.eval()  # BatchNorm and dropout would answer differently in train mode
            logits = model(pixels)  # one question for all
            return membership_inference.signals.margin(logits, labels)

    said = torch.stack([ask(model) for model in models])  # (models, n)
    outside = [said[~keep[:, i], i] for i in range(len(labels))]
    mean = torch.stack([each.mean() for each in outside])
    std = torch.stack([each.std() for each in outside])
    return (ask(victim) - mean) / std  # unusually high for a non-member: a member


# %%
checks.verify("02.four_bugs", attack_from_the_net)

# %% [markdown]
# ## Read on
#
# Carlini et al. 2022, section V, for the choices, and section IV-C for what can be read off a model. Zarifzadeh et al. 2024 is the paper behind RMIA.
