# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07, deeper · How much should a prior weigh?
#
# You come from [lab 07](../07_gradvit.ipynb). A paper prints the weights of its loss. What happens to them when the network behind the image prior is another one?
#
# After this notebook you can
# - measure what a term is worth before you add it to a loss;
# - read paired differences between the rows of an ablation;
# - say what the patch prior is for.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 2 | 1.6 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 30 minutes. You need* lab 07.

# %%
from inspect import getsource

from privlab import compute, experiments, metrics
from privlab.attacks import gradient_inversion
from privlab.course.lab_07.experiments import ablation_rows
from privlab.experiments.victims.batches import STDS, gradvit, photographs, prior, vit
from privlab.leak import observe
from privlab.notebook import plots, widgets

import torch
import torch.nn.functional as F

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
quick = profile == "smoke"
width, steps = (128, 20) if quick else (384, 40)

# %% [markdown]
# ## The loss as code
#
# Equation 3 adds the *norms* of the differences, not their squares. So a parameter tensor with small gradients pulls as hard as one with large gradients.

# %%
print(getsource(gradient_inversion.objectives.layer_norms))

# %%
print(gradvit(120_000, image=0.2, relative=False, size=None))

# %% [markdown]
# ## The terms, measured
#
# The paper takes the ResNet-50 of MoCo for its image prior, with a weight of 0.2. No package registry has its file, so we take EfficientNet-lite0. Does the weight fit another network?
# Here is the term for photographs, for the same photographs after a blur, and for noise.

# %%
images, classes = photographs(4, seed)
model = vit(seed, width=width)
leak = observe(model, images, classes)
blurred = F.interpolate(F.avg_pool2d(images, 4), 32, mode="bilinear")
noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
pictures = {"photographs": images, "blurred": blurred, "noise": noise}

# %% [markdown]
# ### Predict

# %%
FITS, LARGE, SMALL = "it fits", "it is far too large", "it is far too small"
guess_weight = widgets.choose(
    "The weight of 0.2 for EfficientNet-lite0:", [FITS, LARGE, SMALL]
)
guess_weight


# %%
def statistics_of(images, **how):
    term = gradient_inversion.priors.BatchNormStatistics(prior(), **how)
    value = term.prepare(model, leak)
    with torch.no_grad():
        return value(leak.normalise(images), {}, leak).item()


ways = {"as in equation 4": {}, "relative, 64 pixels": dict(size=64, relative=True)}
ways["relative, 128 pixels"] = dict(size=128, relative=True)
for name, how in ways.items():
    print(name, {k: round(statistics_of(x, **how), 1) for k, x in pictures.items()})
start = observe(model, noise, classes).grads
distance = gradient_inversion.objectives.layer_norms(None, start, leak)
print(f"equation 3 at the start: {distance:.2f}")

# %%
ratio = 0.2 * statistics_of(noise) / (0.004 * distance.item())
guess_weight.against(LARGE if ratio > 100 else SMALL if ratio < 0.01 else FITS)

# %% [markdown]
# At the paper's weights, 0.2 for this term and 0.004 for the gradients, the gradients would hardly count.
# So here each mean counts in units of its running deviation, and each variance in units of its running variance (`relative`).
# Images are enlarged to 64 pixels, and the weight is 1e-4. That is our choice, not the paper's.

# %% [markdown]
# ## Watch one
#
# Two photographs from one gradient, by GradViT's own search. Press *Play* until it is past the half, where the image prior begins to count.

# %%
images, classes = images[:2], classes[:2]
leak = observe(model, images, classes)
widgets.watch(
    {"GradViT": lambda: gradvit(steps).search(model, leak, seed=seed)},
    truth=images,
    stride=5 if quick else 10,
)

# %%
weights = {"ours": {}, "the paper's": dict(image=0.2, relative=False)}
for name, changes in weights.items():
    attack = gradvit(steps, **changes)
    result = attack.run(model, leak, seed=seed, snapshots=0, progress=False)
    decibels = metrics.psnr(result.images, images).mean()
    losses = {term: f"{value:.2g}" for term, value in result.trace[-1].items()}
    print(f"{name}: {decibels:.1f} dB", losses)

# %% [markdown]
# ## All rows of the ablation
#
# Table 2, behind a large position embedding and a small one (timm's).

# %%
kept = experiments.load("gradvit.ablation")
mine = experiments.run("gradvit.ablation", profile, device=device)
shown = kept or mine
rows = [*ablation_rows(600)]
names = {
    f"{row.replace('_', ' ')}, std {std:g}": f"loss_terms_{row}, {name}"
    for name, std in STDS.items()
    for row in rows
}
names["mean photograph"] = "mean_photograph"
values = {label: f"psnr[{name}]" for label, name in names.items()}
plots.evidence(kept, mine, values, xlabel="PSNR in dB")

# %%
strip = plots.tiles(shown.picture("picture[photographs_and_rows, std_1]"), 32)
pairs = strip.split(len(strip) // (len(rows) + 1))
titles = ["photographs", *(row.replace("_", " ") for row in rows)]
alt = f"Two photographs, and what each row has of them: {', '.join(titles)}."
plots.images(dict(zip(titles, pairs, strict=True)), alt=alt)

# %% [markdown]
# The mean of public photographs needs no gradient. A PSNR near it is no success. LPIPS compares structure, and is not so easily deceived by a grey image. It is deceived by texture: even noise has a better LPIPS than the mean photograph.

# %%
values = {label: f"lpips[{name}]" for label, name in names.items()}
plots.evidence(kept, mine, values, xlabel="LPIPS (lower is a better attack)")

# %% [markdown]
# Batches differ by more than rows do. So look at the *differences* between two rows, batch by batch.

# %%
for name in STDS:
    for one, other in zip(rows[1:], rows, strict=False):
        pair = [f"psnr[loss_terms_{row}, {name}]" for row in (one, other)]
        gap = torch.tensor(shown[f"{pair[0]} - {pair[1]}"])
        spread = f"{gap.mean():.2f} ± {gap.std():.2f} dB, n={len(gap)}"
        print(f"{name}, {one} less {other}: {spread}")

# %% [markdown]
# ## What the patch prior is for
#
# The paper says that patches come back in the wrong places. With a position embedding the places are part of what has to fit. Here is the gradient loss of
# the *true* images after two of their patches were exchanged, as a share of the loss of noise.

# %%
kept_swap = experiments.load("gradvit.exchanged_patches")
mine_swap = experiments.run("gradvit.exchanged_patches", profile, device=device)
swap = "grad_loss_ratio[exchanged_over_noise, {}]"
rows_swap = {f"std {std:g}": swap.format(name) for name, std in STDS.items()}
label = "gradient loss of exchanged patches, over that of noise"
plots.evidence(kept_swap, mine_swap, rows_swap, xlabel=label, log=True)

# %% [markdown]
# With a small embedding an exchange costs a search little: that is the paper's point. Compare it with the large one.
#
# ## What we did differently
#
# - The victims are small, the batches have two photographs, and the committed searches 600 steps, yours 20 to 40. A term that works late in a long run does not show here.
# - The image prior is EfficientNet-lite0, relative, at 64 pixels and a weight of 1e-4.
# - Registration shifts by whole pixels, found by cross-correlation. The paper uses RANSAC-Flow, and does not say how many seeds it takes.
#
# ## Read on
#
# Hatamizadeh et al. 2022, sections 3 and 6.
