# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10, deeper · Does LayerNorm leak more than BatchNorm?
#
# You come from [lab 10](../10_micro_designs.ipynb). There BatchNorm was in evaluation mode, where on a fresh network it does next to nothing. Zhang et al. 2024 find that LayerNorm leaks more (Figure 9b), and do not
# name the mode. Does LayerNorm leak more than a BatchNorm that normalises?
#
# After this notebook you can
# - say what a BatchNorm does to a gradient in either of its modes;
# - say when training mode fails on a single image;
# - test whether a layer leaks by what it sends itself.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.9 | 1.1 GB |
# | class | 1 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 10. There is no new word.

# %%
from copy import deepcopy

from privlab import data, experiments
from privlab.leak import observe
from privlab.models import morph
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
torch.set_num_threads(1)  # networks as small as these are no faster with two
photos = data.load("cifar10", "test")


def fresh(step=9):
    return morph.build(step, seed=seed, width=0.25, depths=(1, 1, 1, 1))


# %% [markdown]
# ## Two modes
#
# In training mode a BatchNorm takes mean and variance over all places of the image, and over all images of the batch. So the logits of one image depend on the others:

# %%
two, other = (photos.normalise(photos.take(places)[0]) for places in ([0, 1], [0, 2]))
for train in (False, True):
    network = fresh().train(train)
    first, again = (deepcopy(network)(batch)[0].detach() for batch in (two, other))
    moved = ((first - again).norm() / first.norm()).item()
    mode = "training" if train else "evaluation"
    print(
        f"{mode} mode: another second image moves the first one's logits by {moved:.1e}"
    )

# %% [markdown]
# ### Exercise 1: when does training mode fail? *(difficulty 2, 10 minutes)*
#
# Our networks shrink the side of an image by 4 in the stem and by 2 in each of three stages. In training mode BatchNorm needs more than one value in a channel, or there is no variance.
#
# Write `values(size, batch)`: how many values does each channel of the *last* norm take its mean over, for a batch of square images, `size` a multiple of 32?
#
# <details><summary>Hint</summary>Count the places of the last map, and multiply by something.</details>


# %% tags=["exercise"]
def values(size, batch): ...


# %% tags=["solution"]
def values(size, batch):
    return batch * (size // 32) ** 2


# %%
checks.verify("10.values", values)

# %%
photo, label = photos.one(0)
try:
    observe(fresh().train(), photo, label)
except ValueError as refused:
    print(f"one image of 32 x 32: {refused}")

# %% [markdown]
# So if the paper attacked single images of CIFAR-10, its BatchNorm was in evaluation mode. It does not say.
#
# ## Five networks
#
# Here are photographs enlarged to 64 x 64, on step 11, the step before the paper's LayerNorm: both modes of BatchNorm, LayerNorm, and no norm at all. In a fifth one the
# client keeps the gradients of LayerNorm's own parameters to itself. If LayerNorm leaks by what it *sends*, this network leaks less.

# %% [markdown]
# ### Predict

# %%
guess = widgets.choose(
    "Which gives the attacker least?",
    ["BatchNorm, evaluation", "BatchNorm, training", "LayerNorm", "no norm"],
)
guess

# %%
kept = experiments.load("micro_designs.modes")
mine = experiments.run("micro_designs.modes", profile, device=device)
shown = kept or mine
keys = dict(zip(guess.options, ("bn_eval", "bn_train", "ln", "none"), strict=True))
keys["LayerNorm, its gradient withheld"] = "ln_withheld"
rows = {name: f"psnr[norm, {key}]" for name, key in keys.items()}
rows["mean photograph"] = "psnr[cifar10, mean_photograph]"
plots.evidence(kept, mine, rows, xlabel="PSNR in dB, step 11, 64 x 64 pixels")

# %%
psnr = {name: shown.mean(rows[name]) for name in keys}
guess.against(min(guess.options, key=psnr.get))

# %%
captions = ["", *(f"{name}: {mine.mean(rows[name]):.0f} dB" for name in keys)]
images = {"photograph and found": plots.tiles(mine.picture("picture[norms]"), 64)}
says = f"A photograph and five reconstructions: {', '.join(captions[1:])}"
plots.images(images, captions={"photograph and found": captions}, alt=says)

# %%
text(
    "LayerNorm minus BatchNorm in training mode, which ends at {:.1f} dB where the "
    "mean photograph has {:.1f} dB, is {:+.1f} dB, and minus BatchNorm in "
    "evaluation mode {:+.1f} dB. Withholding LayerNorm's own gradients changes the "
    "PSNR by {:+.1f} dB.",
    kept.mean("psnr[norm, bn_train]"),
    kept.mean("psnr[cifar10, mean_photograph]"),
    kept.mean("psnr[norm, ln] - psnr[norm, bn_train]"),
    kept.mean("psnr[norm, ln] - psnr[norm, bn_eval]"),
    kept.mean("psnr[norm, ln_withheld] - psnr[norm, ln]"),
)

# %% [markdown]
# ## Does it depend on the network?
#
# On 32 x 32 pixels, in evaluation mode, on steps 9 and 14, at the paper's one weight of smoothness and at a calibrated one. Step 12 of the morph gives its convolutions a bias along with LayerNorm. Here the norm is switched alone.

# %%
kept_norms = experiments.load("micro_designs.norms")
mine_norms = experiments.run("micro_designs.norms", profile, device=device)
rows = {
    f"step {step}, {weight}": f"psnr[{of}step_{step}, ln] - psnr[{of}step_{step}, bn]"
    for step in (9, 14)
    for weight, of in (("one weight", ""), ("calibrated", "fair, "))
}
label = "what LayerNorm in place of BatchNorm brings, in dB"
plots.evidence(kept_norms, mine_norms, rows, xlabel=label)

# %%
of = kept_norms or mine_norms
text(
    "On step 9 the search with LayerNorm ends at {:.2f} dB, and at {:.2f} dB by the "
    "calibrated weight. A grey picture has {:.2f} dB. A row with an end below that "
    "does not say what the norm costs.",
    *(of.mean(f"psnr[{fair}step_9, ln]") for fair in ("", "fair, ")),
    of.mean("psnr[cifar10, grey]"),
)

# %% [markdown]
# A comparison of "BatchNorm" and "LayerNorm" has to name the mode. A client in training mode normalises, and a fresh network in evaluation mode does not.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 5.3 and Figure 9b. Lab 04 and its deeper notebook on hidden choices have the modes on a ResNet.
