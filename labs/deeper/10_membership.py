# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10, deeper · Do micro designs give members away?
#
# You come from [lab 10](../10_micro_designs.ipynb). Zhang et al. 2024 switch three designs for membership inference as well, and find that each makes it easier (Figure 10). But a network that overfits more gives its
# members away more easily, whatever its design. Does the design matter when both overfit equally?
#
# After this notebook you can
# - compare two attacks at the same overfitting;
# - tell an effect of a design from one of training longer.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.8 | 1.1 GB |
# | class | 2 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 30 minutes. You need* labs 01, 02 and 10. There is no new word.

# %%
from privlab import experiments
from privlab.course.lab_10 import experiments as micro_designs
from privlab.notebook import checks, plots, text, widgets

import pandas as pd
import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
torch.set_num_threads(1)  # networks as small as these are no faster with two
DESIGNS = [*micro_designs.MEMBERS]

# %% [markdown]
# ## Three designs, one at a time
#
# We start from step 9 of the morph with a ResNet's stem, and add one design at a time: fewer activations, patches, LayerNorm. The first attack is lab 01's network.

# %% [markdown]
# ### Predict

# %%
guess = widgets.choose(
    "With LayerNorm in place of BatchNorm, members are (1 in 100 is no difference)",
    ["easier to tell", "harder", "as hard"],
)
guess

# %%
kept = experiments.load("micro_designs.membership")
mine = experiments.run("micro_designs.membership", profile, device=device)
shown = kept or mine
columns = {
    "training accuracy": "train_acc[{}]",
    "train-test gap": "train_test_gap[{}]",
    "attack accuracy": "attack_acc[{}, network]",
}
cells = {
    design: {name: shown.mean(value.format(design)) for name, value in columns.items()}
    for design in DESIGNS
}
pd.DataFrame(cells).T.round(3)

# %%
gain = shown.mean("attack_acc[ln, network] - attack_acc[plain, network]")
words = ("easier to tell", "harder", "as hard")
guess.against(words[0] if gain > 0.01 else words[1] if gain < -0.01 else words[2])

# %% [markdown]
# Look at the second and the third column together. Then compare at the *same* gap.

# %% [markdown]
# ### Exercise 1: at the same overfitting *(difficulty 3, 15 minutes)*
#
# Write `matched(one, other)`. Each is a pair of lists: overfitting levels and attack accuracies, one value for each epoch looked at. Return by how much `one` is easier to attack than `other`, on average over the levels
# that *both* went through, with straight lines between the points.
#
# <details><summary>Hint</summary><code>numpy.interp(grid, levels, accuracies)</code> wants the levels in rising order. Outside of them it repeats the last value, which was never measured. So choose
# the grid so that it never leaves either curve.</details>


# %% tags=["exercise"]
def matched(one, other): ...


# %% tags=["solution"]
def matched(one, other):
    import numpy as np

    (x, a), (z, b) = (
        np.array(sorted(zip(*curve, strict=True))).T for curve in (one, other)
    )
    grid = np.linspace(max(x[0], z[0]), min(x[-1], z[-1]), 200)
    return float(np.mean(np.interp(grid, x, a) - np.interp(grid, z, b)))


# %%
checks.verify("10.matched", matched)

# %% [markdown]
# ## A stronger attack
#
# The likelihood ratio of lab 02 holds each picture against networks that never saw it. The chart has the area under its curve at the last epoch, and on average over the levels that all four designs went through.

# %%
vanishes = widgets.choose(
    "At an equal gap LayerNorm's difference (below two standard errors: no change)",
    ["shrinks", "grows", "keeps its size"],
)
vanishes

# %%
name = "auc{0}[{1}, likelihood_ratio] - auc{0}[plain, likelihood_ratio]"
rows = {
    f"{design.replace('_', ' ')}, {when}": name.format(at, design)
    for design in DESIGNS[1:]
    for when, at in (("equal epochs", ""), ("equal gap", "_at_matched_gap"))
}
plots.evidence(kept, mine, rows, xlabel="area under the curve, minus that of plain")

# %%
early, late = (shown[rows[f"ln, {when}"]] for when in ("equal epochs", "equal gap"))
grows = (late - early).mean() * (1 if early.mean() > 0 else -1)
error = (late - early).std(ddof=1) / len(shown) ** 0.5
words = ("shrinks", "grows", "keeps its size")
unclear = not abs(grows) > 2 * error
vanishes.against(words[2] if unclear else words[1] if grows > 0 else words[0])

# %%
text(
    "At equal epochs the area differs from that of the plain design by {:+.3f}, "
    "{:+.3f} and {:+.3f} for fewer activations, patches and LayerNorm. At an equal "
    "gap it differs by {:+.3f}, {:+.3f} and {:+.3f}.",
    *(
        kept.mean(rows[f"{design.replace('_', ' ')}, {when}"])
        for when in ("equal epochs", "equal gap")
        for design in DESIGNS[1:]
    ),
)

# %% [markdown]
# Where a difference at equal epochs is gone at an equal gap, the design, by this comparison, only changed how soon the network overfits. An equal gap does not mean that equally many pictures are known. Our networks are small, with few members and no mixup. Whether the paper's networks, with
# mixup and 300 epochs, behave in the same way is for `gpu` to say.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 5.3 and Figure 10; labs 01 and 02 for the two attacks.
