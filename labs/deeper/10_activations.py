# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10, deeper · Does a design leak by itself?
#
# You come from [lab 10](../10_micro_designs.ipynb), which has the comparisons of Zhang et al. 2024: activations (Figure 8), stem and norm (Figure 9), and membership
# inference (Figure 10). Each keeps something equal: the weight of smoothness, the mode of BatchNorm, the number of epochs. Do the results hold if you keep something else equal?
#
# After this notebook you can
# - compare designs at a calibrated weight of smoothness, and in each mode of BatchNorm;
# - take one change of a stem apart into three;
# - compare two membership attacks at the same overfitting level.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 2 | 1.1 GB |
# | class | 5 | 1.2 GB |
#
# (Estimated on two CPU cores.)

# %% [markdown]
# *About 60 minutes. You need* labs 01, 02 and 10. There is no new word.

# %%
import itertools

from privlab import experiments
from privlab.course.lab_10 import experiments as micro_designs
from privlab.notebook import checks, plots, text, widgets

import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
torch.set_num_threads(1)  # networks as small as these are no faster with two
KINDS = micro_designs.KINDS
called = {"relu": "ReLU", "gelu": "GELU"}

# %% [markdown]
# ## At calibrated weights
#
# A search minimises the distance between gradients plus a weight times the total variation of the image. This distance has another size in each design. A calibrated weight is
# proportional to it, as in labs 09 and 10. Here are five of lab 10's eight patterns (Zhang et al., Figure 8) with calibrated weights.

# %%
kept = experiments.load("micro_designs.activations")
mine = experiments.run("micro_designs.activations", profile, device=device)
shown = kept or mine


def heat(rows, columns, ylabel):
    means = {name: [shown.mean(one) for one in names] for name, names in rows.items()}
    said = {name: ", ".join(f"{v:.1f}" for v in row) for name, row in means.items()}
    return plots.heat(
        torch.tensor([*means.values()]), rows=[*means], columns=columns, ylabel=ylabel,
        xlabel="pattern: first convolution, second, addition", unit="mean PSNR in dB",
        alt=f"Mean PSNR by pattern {', '.join(columns)}. {said}",
    )  # fmt: skip


# %%
turned = widgets.choose(
    "At calibrated weights the attacker does best with",
    ["all three activations", "the third alone (001)", "none (000)"],
)
turned

# %%
PLACES = micro_designs.PLACES
ways = {"one weight": "", "calibrated": "fair, "}
rows = {
    f"{called[k]}, {way}": [f"psnr[{of}{k}, act_{p}]" for p in PLACES]
    for way, of in ways.items()
    for k in KINDS
}
heat(rows, PLACES, "kind and weight")

# %%
mean = {
    p: sum(shown.mean(f"psnr[fair, {k}, act_{p}]") for k in KINDS) / 2
    for p in ("111", "001", "000")
}
turned.against(turned.options[[*mean].index(max(mean, key=mean.get))])

# %% [markdown]
# The weights of the network matter as well. PyTorch draws those of a convolution with variance 1 / (3 n), where n numbers go into an output; the *Kaiming* draw of 2015 has 2 / n. The paper names neither.

# %%
gain = "psnr[{0}, {1}, act_110] - psnr[{0}, {1}, act_111]"
draws = {"PyTorch's draw": "fair", "Kaiming draw": "he"}
rows = {
    f"third {called[k]} removed, {draw}": gain.format(of, k)
    for k in KINDS
    for draw, of in draws.items()
}
plots.evidence(kept, mine, rows, xlabel="what it brings the attacker, in dB")

# %% [markdown]
# ## Stems between the two
#
# Zhang et al., Figure 9 replaces a ResNet's stem by patches. Other stems lie between the two. First the mean replaces the maximum. Then the pooling is removed, and the 7 x 7 convolution gets stride 4. Last,
# 4 x 4 patches replace the 7 x 7 convolution. Each step is smaller than the whole. Which one *hurts* the attacker? All have calibrated weights.
#
# ### Predict

# %%
hurts = widgets.choose(
    "Which of the three brings the attacker least?",
    ["means for maxima", "stride 4 for pooling", "4 x 4 for 7 x 7"],
)
hurts

# %%
kept_stems = experiments.load("micro_designs.stems")
mine_stems = experiments.run("micro_designs.stems", profile, device=device)
rungs = ["maxima", "means", "stride", "patches"]
steps = zip(hurts.options, itertools.pairwise(rungs), strict=True)
rows = {name: f"psnr[stem, {b}] - psnr[stem, {a}]" for name, (a, b) in steps}
rows["all three: patchify"] = "psnr[stem, patches] - psnr[stem, maxima]"
plots.evidence(kept_stems, mine_stems, rows, xlabel="what a change brings, in dB")

# %%
shown_stems = kept_stems or mine_stems
brings = {name: shown_stems.mean(rows[name]) for name in hurts.options}
display(hurts.against(min(brings, key=brings.get)))
text(
    "With n = {} at {}, means in place of maxima bring the attacker {:+.1f} dB, "
    "stride 4 in place of pooling {:+.1f} dB, and patches {:+.1f} dB. A maximum passes "
    "one of nine values on. The gradient of the other eight is zero.",
    len(shown_stems),
    shown_stems.size,
    *brings.values(),
)

# %% [markdown]
# ## The two modes of BatchNorm
#
# Zhang et al., Figure 9 shows that LayerNorm leaks more than BatchNorm. The paper does not name the mode. In evaluation mode (lab 10) a fresh BatchNorm changes next to nothing. In training mode it takes mean and variance over all places of a channel's map, and over all images of the batch.
#
# ### Exercise 1: when does training mode fail? *(difficulty 2, 10 minutes)*
#
# Our networks shrink the side of an image by 4 in the stem and by 2 in each of three stages. In training mode BatchNorm needs more than one value in a channel, or there is no variance.
# Write `values(size, batch)`: over how many values does the *last* norm take the mean of each channel, for a batch of square images, `size` a multiple of 32?
#
# <details><summary>Hint</summary>Count the places of the last map, and multiply by something.</details>


# %% tags=["exercise"]
def values(size, batch): ...


# %% tags=["solution"]
def values(size, batch):
    return batch * (size // 32) ** 2


# %%
checks.verify("10.values", values)

# %% [markdown]
# A single image of 32 x 32 is too small for training mode. So here are photographs enlarged to 64 x 64, on step 11, the step before the paper's LayerNorm. In the fifth network
# the client withholds the gradients of LayerNorm's own parameters. If LayerNorm leaks by what it *sends*, this network leaks less.

# %%
guess = widgets.choose(
    "Which gives the attacker least?",
    ["BatchNorm, evaluation", "BatchNorm, training", "LayerNorm", "no norm"],
)
guess

# %%
norms = experiments.load("micro_designs.modes")
my_norms = experiments.run("micro_designs.modes", profile, device=device)
keys = dict(zip(guess.options, ("bn_eval", "bn_train", "ln", "none"), strict=True))
keys["LayerNorm, its gradient withheld"] = "ln_withheld"
rows = {name: f"psnr[norm, {key}]" for name, key in keys.items()}
rows["mean photograph"] = "psnr[cifar10, mean_photograph]"
plots.evidence(norms, my_norms, rows, xlabel="PSNR in dB, step 11, 64 x 64 pixels")

# %%
guess.against(min(guess.options, key=lambda name: norms.mean(rows[name])))

# %% [markdown]
# ## Members, at the same overfitting level
#
# Zhang et al., Figure 10 adds one design at a time, and finds that each makes membership inference easier. But a network that overfits more gives its members away more easily, whatever its design. The overfitting level is the gap between training and test accuracy.
#
# ### Exercise 2: at the same level *(difficulty 3, 15 minutes)*
#
# Write `matched(one, other)`. Each is a pair of lists, overfitting levels and attack accuracies, with one value for each epoch. Return how much easier `one` is to attack than `other`, on
# average over the levels that *both* went through, with straight lines between the points.
#
# <details><summary>Hint</summary><code>numpy.interp(grid, levels, accuracies)</code> wants rising levels, and repeats the last value beyond their ends. Choose a grid inside both curves.</details>


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

# %%
vanishes = widgets.choose(
    "At an equal level LayerNorm's difference (below two standard errors: no change)",
    ["shrinks", "grows", "keeps its size"],
)
vanishes

# %%
members = experiments.load("micro_designs.membership")
my_members = experiments.run("micro_designs.membership", profile, device=device)
name = "auc{0}[{1}, likelihood_ratio] - auc{0}[plain, likelihood_ratio]"
rows = {
    f"{design.replace('_', ' ')}, {when}": name.format(at, design)
    for design in [*micro_designs.MEMBERS][1:]
    for when, at in (("equal epochs", ""), ("equal level", "_at_matched_gap"))
}
plots.evidence(members, my_members, rows, xlabel="AUC, minus that of the plain design")

# %%
early, late = (members[rows[f"ln, {when}"]] for when in ("equal epochs", "equal level"))
grows = (late - early).mean() * (1 if early.mean() > 0 else -1)
clear = abs(grows) > 2 * (late - early).std(ddof=1) / len(members) ** 0.5
vanishes.against(vanishes.options[2 if not clear else int(grows > 0)])

# %% [markdown]
# An equal level does not mean that equally many pictures are known. Our networks are small, with few members, and without the paper's mixup and 300 epochs.
#
# ## Read on
#
# Zhang et al. 2024, section 5.3; labs 01 and 02 for the attacks on membership.
