# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08, deeper · How few rows are enough?
#
# You come from [lab 08](../08_tracing_the_source.ipynb). There a client withheld whole tensors. Clients that save bandwidth send less: some rows, or the largest
# numbers. How little of one tensor still gives the photograph away?
#
# After this notebook you can
# - say which rows of a gradient a closed form needs, and how many;
# - tell a gradient that is small from one that is safe.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 0.3 | 1.2 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 20 minutes. You need* labs 05 and 08.

# %%
from dataclasses import replace

from privlab import data, experiments, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import observe
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
photos = data.load("cifar10_samples")
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
shape = dict(embed_dim=224, depth=3, position_std=1.0, seed=seed)
model = models.build("vit_cifar", **shape)  # on the CPU: it is quick enough
model.normalise = photos.normalise
QKV = "blocks.0.attn.qkv.weight"  # query, key and value of the first attention
whole = observe(model, photo, label, names=[QKV])

# %% [markdown]
# ## Some rows
#
# The closed form `subspace` needs the *row space* of the first attention's gradient (lab 05). Any rows of the matrix that span it will do. The matrix has three
# times the width rows, here 672. The client sends some of them, drawn at random, and nothing else at all.
#
# ### Predict

# %%
guess = widgets.predict("How many rows of 672 give 40 dB?", low=0, high=672)
guess


# %%
def cut(count):  # the leak with so many rows; the others are withheld, that is, zero
    matrix = whole[QKV]  # (3 width, width)
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(matrix), generator=draw)[:count]
    kept = torch.zeros_like(matrix).index_copy(0, rows, matrix[rows])
    return replace(whole, grads={QKV: kept})


# %%
kept = experiments.load("tracing_the_source.rows")
mine = experiments.run("tracing_the_source.rows", profile)
shown = kept or mine
counts = (8, 16, 17, 18, 20, 24, 34, 64, 128, 672)
by_rows = {"subspace": {n: f"psnr[rows, n{n}]" for n in counts}}
plots.evidence_lines(
    kept, mine, by_rows, xlabel="rows sent, of 672", ylabel="PSNR in dB", log="x"
)

# %%
enough = (n for n in counts if shown.mean(f"psnr[rows, n{n}]") >= 40)
guess.against(next(enough, float("nan")))

# %%
pictures = {n: closed_form.subspace(model, cut(n)).clamped for n in counts}


def sent(rows):
    near = metrics.psnr(pictures[rows], photo).item()
    title = f"{rows} of 672 rows: {near:.0f} dB"
    return plots.side_by_side(pictures[rows], titles=[title], alt=title)


widgets.explore(sent, start={"rows": counts[-1]}, rows=tuple(counts))

# %% [markdown]
# ### Exercise 1: where is the cliff? *(difficulty 2, 5 minutes)*
#
# Write `rows_needed(image_size, patch)`: the smallest number of rows (in exact arithmetic) of the first attention's gradient that can span what `subspace` needs,
# for one image and a ViT with a class token.
#
# <details><summary>Hint</summary>Find the cliff in the figure. How many vectors enter the first attention?</details>


# %% tags=["exercise"]
def rows_needed(image_size, patch): ...


# %% tags=["solution"]
def rows_needed(image_size, patch):
    return (image_size // patch) ** 2 + 1  # patches, and the class token


# %%
checks.verify("08.rows", rows_needed)

# %% [markdown]
# ## The largest numbers
#
# 34 rows are 7,616 numbers. Clients that save bandwidth send the *largest* numbers, wherever they stand. Now send the 7,616 largest numbers, and then the 76,160 largest.
#
# ### Predict

# %%
FEW, MANY, NEITHER = "7,616 are enough", "76,160 are enough", "neither is enough"
guess_largest = widgets.choose(
    "How many of the largest numbers give 40 dB?", [FEW, MANY, NEITHER]
)
guess_largest

# %%
largest = {"34 whole rows": "psnr[rows, twice_tokens]"}
largest |= {"the 7,616 largest numbers": "psnr[largest, as_many]"}
largest |= {"the 76,160 largest numbers": "psnr[largest, ten_times_as_many]"}
plots.evidence(kept, mine, largest, xlabel="PSNR in dB")

# %%
few, many = (shown.mean(name) for name in [*largest.values()][1:])
guess_largest.against(FEW if few >= 40 else MANY if many >= 40 else NEITHER)

# %%
total = sum(p.numel() for p in model.parameters())
text(
    "34 whole rows, {:.1%} of the update, give {:.0f} dB. As many of the largest "
    "numbers give {:.0f} dB, and ten times as many {:.0f} dB.",
    7616 / total,
    *(shown.mean(name) for name in largest.values()),
)

# %% [markdown]
# What protects is not how few numbers are sent, but which ones. Whole rows keep the row space. The largest numbers stand scattered, and do not keep it. That stops *this*
# closed form. What a search makes of them is another question, and lab 13's.
#
# ## The label
#
# The smallest set of gradients that gives the label away is an exercise of lab 08. Here is how often it is right:

# %%
name = next(name for name in mine.table if name.startswith("label_accuracy"))
text("{:.0%} of {} labels were read right.", shown.mean(name), len(shown))

# %% [markdown]
# ## Read on
#
# Lab 05 derives the closed form. Lab 13 attacks clients who send their largest numbers.
