# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 01, deeper · Does it help to return the label only?
#
# You come from [lab 01](../01_membership.ipynb). The attacks there read the victim's confidences. A victim can keep these for itself, and return the name of
# a class. Does that protect its members?
#
# After this notebook you can
# - attack a model that returns labels only;
# - say when more questions about the same picture help.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured on two CPU cores; class estimated.)

# %% [markdown]
# *About 10 minutes. You need* lab 01.

# %%
from privlab import compute, experiments
from privlab.attacks import membership_inference
from privlab.experiments.victims import shadow_fleets
from privlab.notebook import plots, text, widgets

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

# %% [markdown]
# ## Ask five times
#
# Show the victim the picture, and the picture moved by one pixel to each of four sides. The idea (Choquette-Choo et al. 2021): a model should be right about a member
# even when it is moved, and change its mind about other pictures. The score is the share of right answers.

# %%
said = shadow_fleets.shown(NAME, profile, ["resnet"], device)["resnet"]
five = [0, *range(2, said.at().shape[1])]  # without the mirror image
logits = said.at()[0, five, : said.audited]  # (5, n, 10), of the first model
labels, members = said.of(0)[1:]
share = membership_inference.network_based.augmentation_gap(logits, labels)  # (n,)
for name, side in {"members": members, "non-members": ~members}.items():
    print(f"{name:>11}: {share[side].mean():.3f} of five answers right")

# %% [markdown]
# ### Predict
#
# The attack of one bit looks at the picture alone.

# %%
MORE, ALIKE, LESS = "better than one", "as good as one, within 0.01", "worse than one"
guess = widgets.choose("For the ResNet, five questions are:", [MORE, ALIKE, LESS])
guess

# %%
kinds = {"loss": "loss_threshold", "one label": "right_or_wrong"}
kinds |= {"five labels": "labels_five_pictures"}
rows = {
    f"{a}: {label}": f"attack_acc[cifar10, {a.lower()}, {kind}]"
    for a in ("ResNet", "Swin", "ConvNeXt")
    for label, kind in kinds.items()
}
plots.evidence(kept, mine, rows, xlabel="attack accuracy (0.5 is random guessing)")

# %%
shown = kept or mine
gains = [
    shown.mean(f"{rows[f'{a}: five labels']} - {rows[f'{a}: one label']}")
    for a in ("ResNet", "Swin", "ConvNeXt")
]
guess.against(MORE if gains[0] > 0.01 else LESS if gains[0] < -0.01 else ALIKE)

# %%
text(
    "Five labels are {:+.3f} away from one label for the ResNet, {:+.3f} for the Swin "
    "and {:+.3f} for the ConvNeXt. For the ResNet one label is {:+.3f} away from the "
    "loss. Random guessing would be {:+.3f} away from it.",
    *gains,
    shown.mean(f"{rows['ResNet: one label']} - {rows['ResNet: loss']}"),
    0.5 - shown.mean(rows["ResNet: loss"]),
)

# %% [markdown]
# Our networks were never shown moved pictures while they were trained. This may be why the ResNet changes its mind about moved members, too. Networks that are trained
# with random crops are another case, which we did not measure.

# %% [markdown]
# ## Read on
#
# Choquette-Choo et al. 2021 attack with labels only. [A threshold for each class](01_class_thresholds.ipynb) attacks with more than a label.
