# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 01, deeper · Should every class have its own threshold?
#
# You come from [lab 01](../01_membership.ipynb). Cats are harder than ships. A cat that is a member may have a higher loss than a ship that the victim never saw. Does an
# attack gain from a threshold for each class?
#
# After this notebook you can
# - write a score that is not fooled by a model that is sure and wrong;
# - attack with a threshold for each class;
# - say which scores order the pictures alike.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured on two CPU cores; class estimated.)

# %% [markdown]
# *About 25 minutes. You need* lab 01.

# %%
from privlab import compute, data, experiments
from privlab.attacks import membership_inference
from privlab.experiments.victims import shadow_fleets
from privlab.metrics import roc
from privlab.notebook import checks, plots, text, widgets

import pandas as pd
import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "membership.architectures"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)  # read from disk after lab 01
family = {"ResNet": "resnet", "Swin": "swin", "ConvNeXt": "convnext"}
asked = shadow_fleets.shown(NAME, profile, [*family.values()], device)
answers = dict(zip(family, asked.values(), strict=True))

# %% [markdown]
# ## Sure, and wrong
#
# The entropy of a prediction is low when the model is sure, even if it is *wrong* and does not know the picture. Song and Mittal (2021) mend that with
# the *modified entropy*. With probabilities $p$ and the right class $y$:
#
# $$M(p, y) = -(1 - p_y) \log p_y - \sum_{i \neq y} p_i \log (1 - p_i)$$
#
# ### Exercise 1: the modified entropy *(difficulty 2, 15 minutes)*
#
# Write `modified_entropy(p, y)` for one picture: `p` a tensor of probabilities (classes,), `y` the right class, a whole number. It is 0 for "sure and
# right", and large for "sure and wrong". Members have a low one.
#
# <details><summary>Hint</summary>There are two terms, one for the right class, and one for all others, without y. Mind which logarithm goes with which
# probability.</details>


# %% tags=["exercise"]
def modified_entropy(p, y): ...


# %% tags=["solution"]
def modified_entropy(p, y):
    others = torch.arange(len(p)) != y
    return -(1 - p[y]) * p[y].log() - (p[others] * (1 - p[others]).log()).sum()


# %%
checks.verify("01.modified_entropy", modified_entropy)

# %% [markdown]
# ## Which score?
#
# The *oracle* takes the best threshold for the victim itself. It needs the truth, so it is no attack, and an upper bound for one. What does each score
# reach? In all of them a higher score means "member".

# %%
table = {}
for architecture, said in answers.items():
    (logits, labels, members), shadow = said.of(0), said.of(said.shadow(0))
    for name, score in membership_inference.signals.SCORES.items():
        threshold = roc.best_threshold(score(*shadow[:2]), shadow[2])
        values = score(logits, labels)
        table[architecture, name] = {
            "threshold of the shadow model": roc.accuracy(values, members, threshold),
            "threshold of the oracle": roc.oracle_accuracy(values, members),
        }
pd.DataFrame(table).T.round(3)

# %% [markdown]
# The loss, the confidence and the *margin* (the logit of the right class less the largest of the others, nearly) are increasing functions of each other, or nearly so. They order the pictures alike. In lab 02 the difference
# between them counts.
#
# ## Are some classes easier?

# %%
logits, labels, members = answers["ResNet"].of(0)
losses = -membership_inference.signals.loss(logits, labels)
classes = data.load("cifar10").classes
median = {
    name: losses[~members & (labels == k)].median().item()
    for k, name in enumerate(classes)
    if (~members & (labels == k)).any()
}
pd.Series(median, name="median loss of non-members").round(2).to_frame()

# %% [markdown]
# ### Predict

# %%
guess = widgets.predict(
    "Attack accuracy with class thresholds, less one threshold:", -0.1, 0.1
)
guess

# %%
kinds = {"one threshold": "loss_threshold", "class thresholds": "class_thresholds"}
rows = {
    f"{a}: {label}": f"attack_acc[cifar10, {family[a]}, {kind}]"
    for a in family
    for label, kind in kinds.items()
}
plots.evidence(kept, mine, rows, xlabel="attack accuracy (0.5 is random guessing)")

# %%
shown = kept or mine
GAIN = f"{rows['ResNet: class thresholds']} - {rows['ResNet: one threshold']}"
gain = shown.mean(GAIN)
guess.against(round(gain, 4))

# %%
text(
    "Class thresholds change the accuracy on the ResNet by {:+.3f} in the largest "
    "committed repeats, and by {:+.3f} in your run, where each of them rests on {:.0f} "
    "pictures of the shadow model on average.",
    gain,
    mine.mean(GAIN),
    len(labels) / len(classes),
)

# %% [markdown]
# ## Read on
#
# Song and Mittal 2021 compare such scores on many models. [Labels only](01_labels_only.ipynb) attacks with less.
