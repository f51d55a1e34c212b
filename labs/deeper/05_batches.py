# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 05, deeper · What do the systems say about a batch?
#
# You come from [lab 05](../05_april_closed_form.ipynb). Both of its linear systems are equations for one photograph. What happens if the client sends the mean gradient of two?
#
# After this notebook you can
# - say where each of the systems breaks on a batch;
# - count the directions that stay open.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.2 GB |
# | class | 0.4 | 1.4 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 15 minutes. You need* lab 05.

# %%
from dataclasses import replace

from privlab import compute, data, experiments, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import observe
from privlab.notebook import drawings, plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
photos = data.load("cifar10_samples")
pair, labels = photos.take([2, 5])  # (2, 3, 32, 32) in [0, 1]
vit = models.april.build("b", depth=2, seed=seed)

# %% [markdown]
# ## Two photographs, one gradient

# %%
drawings.show("07.batch")

# %% [markdown]
# The client sends $\frac12(G_1 + G_2)$ and $\frac12(B_1 + B_2)$, with $B_k$ the right side of the system. The system holds for each photograph alone, $G_k^\top X_k = B_k$. It does
# not hold for the means. Our functions refuse a batch. An attacker may pretend not to know.
#
# ### Predict

# %%
ONE, MEAN, NEITHER = "one of the two", "their mean", "neither"
guess = widgets.choose(
    "Taken for one image, the mean gradient gives", [ONE, MEAN, NEITHER]
)
guess

# %%
sent = replace(observe(vit, pair, labels), batch_size=1)  # a pretence
answer = closed_form.patch_embedding(vit, sent).clamped
truths = {"the one": pair[:1], "the other": pair[1:]}
truths |= {"their mean": pair.mean(0, keepdim=True)}
near = {name: metrics.psnr(answer, one).item() for name, one in truths.items()}
titles = [f"{name}: {value:.1f} dB away" for name, value in near.items()]
plots.side_by_side(
    answer,
    *truths.values(),
    titles=["solved", *titles],
    alt=f"What the system returns for two photographs: PSNR to {near}.",
)

# %%
best = max(near, key=near.get)
found = MEAN if best == "their mean" else ONE
guess.against(found if near[best] > 20 else NEITHER)

# %% [markdown]
# ## Is that luck?
#
# The experiment does it many times, with the paper's system and architecture. It takes the error to the nearest photograph of the batch.

# %%
kept = experiments.load("april_closed_form.solved")
mine = experiments.run("april_closed_form.solved", profile, device=device)
rows = {"one image": "mse[closed_form, batch_1]"}
rows |= {f"the nearest of {k}": f"mse[closed_form, batch_{k}]" for k in (2, 4)}
plots.evidence(kept, mine, rows, xlabel="mean squared error in pixels", log=True)

# %% [markdown]
# The paper calls the outcome an average. It is one that is weighted by the gradients, and it may leave the range of pixels.
#
# ## The row space of a batch
#
# With $B$ images the row space of the first attention's gradient has $Bn + 1$ dimensions: $n$ for each image, and one for the class token, which enters the same in all.
#
# An attacker who takes the batch for one image gets this:

# %%
kept_fixed = experiments.load("april_closed_form.subspace")
mine_fixed = experiments.run("april_closed_form.subspace", profile, device=device)
rows = {"a batch of two, taken for one": "psnr[subspace, batch_2, float64]"}
rows |= {"mean photograph": "psnr[cifar10, mean_photograph]"}
plots.evidence(kept_fixed, mine_fixed, rows, xlabel="PSNR in dB of the nearer image")

# %% [markdown]
# One who counts right uses the whole row space. The equations are true then, and there are fewer of them. How many directions of each patch stay open?

# %%
opened = widgets.predict("Two images, 16 patches: directions that stay open", 0, 192)
opened

# %%
known = models.april.build("b", depth=2, seed=seed, position="random")
counts = {size: closed_form.hidden_directions(known, size) for size in (1, 2, 3, 4)}
opened.against(counts[2])

# %%
text(
    "With one image {} directions are open, with two {}, with three {} and with four "
    "{}: each image more opens as many as there are patches, *n(B - 1)* in all.",
    *counts.values(),
)

# %% [markdown]
# Lab 07 searches among these directions only, which is a far smaller space than all pixels.
#
# ## Read on
#
# Lu et al. 2022, section 4.1. Lab 07 takes batches apart.
