# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 09, deeper · What can a gradient tell apart, and how far does a network see?
#
# You come from [lab 09](../09_fourteen_steps.ipynb). Some of the fourteen steps leak more than others. Here are three explanations. Which of them goes with the leak?
#
# After this notebook you can
# - measure how well a gradient tells images apart;
# - measure whether a search is sent in the right direction;
# - measure how far a network sees, and hold all three against the leak.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.0 GB |
# | class | 2 | 1.3 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 30 minutes. You need* lab 09, and what singular values are. *New words*: **effective rank**, **effective receptive field**.

# %%
from inspect import getsource

from privlab import data, experiments, models
from privlab.attacks.gradient_inversion import sensitivity
from privlab.course.lab_09 import experiments as fourteen_steps
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
torch.set_num_threads(1)  # networks as small as these are no faster with two
STEPS = models.morph.STEPS
name_of = {n: f"{n}: {STEPS[n].name}" for n in STEPS}
kept = experiments.load("fourteen_steps.reasons")
mine = experiments.run("fourteen_steps.reasons", profile, device=device)
shown = kept or mine

# %% [markdown]
# ## First: how well does a gradient tell images apart?
#
# A search compares gradients. Change one pixel a little, and the gradient changes. The changes for all pixels, one column each, are a matrix, the *Jacobian*. Its singular values
# say how far the gradient moves for each direction in the space of images. If a few are large and the rest tiny, most of the image hardly shows. The **effective rank** counts the directions that matter: it is the exponential of
# the entropy of the singular values' shares.

# %% [markdown]
# ### Exercise 1: the effective rank *(difficulty 2, 10 minutes)*
#
# Write `effective_rank(values)` for a tensor of singular values: $p_i = \sigma_i / \sum_j \sigma_j$, and $\exp(-\sum_i p_i \log p_i)$, where a zero adds nothing.
#
# <details><summary>Hint</summary>torch.special.entr(p) is -p log p, and 0 at 0.</details>


# %% tags=["exercise"]
def effective_rank(values): ...


# %% tags=["solution"]
def effective_rank(values):
    shares = values / values.sum()
    return torch.special.entr(shares).sum().exp().item()


# %%
checks.verify("09.rank", effective_rank)

# %%
image, label = data.load("cifar10", "test").one(seed)
some = (1, 8, 9, 10, 12, 14)
block = 16 if profile == "smoke" else 4  # side of the squares of pixels that change
spectra = {}
for n in some:
    network = models.morph.build(n, seed=seed, width=0.25, depths=(1, 1, 1, 1))
    spectra[n] = sensitivity.spectrum(network, image, label, block=block)
ranks = [f"{n}: {sensitivity.effective_rank(v):.0f}" for n, v in spectra.items()]
shares = {name_of[n]: v[v > 0] / v[0] for n, v in spectra.items()}
says = f"Singular values over the largest. Effective rank by step: {', '.join(ranks)}."
plots.lines(
    {name: (range(1, len(v) + 1), v) for name, v in shares.items()},
    xlabel="number, from the largest", ylabel="singular value", log="y", alt=says,
)  # fmt: skip

# %% [markdown]
# ### Predict
#
# Does a higher effective rank go with a better reconstruction? Give a rank correlation over the steps: 1 is the same order, -1 the reverse.

# %%
guess = widgets.predict("Rank correlation of effective rank and PSNR:", -1, 1)
guess

# %%
asked = fourteen_steps.CURVED
rows = {name_of[n]: f"effective_rank[step_{n}]" for n in asked}
size = experiments.find("fourteen_steps.reasons").size(shown.size)
count = 3 * (32 // size.settings["block"]) ** 2
label = f"effective rank, of {count} directions (above: of {len(spectra[1])})"
plots.evidence(kept, mine, rows, xlabel=label)

# %%
guess.against(shown.mean("spearman[effective_rank, fair_psnr]"))

# %%
ways = experiments.load("fourteen_steps.searches")
points = {
    str(n): (shown.mean(name), ways.mean(f"psnr[fair, step_{n}]"))
    for n in asked
    if (name := f"effective_rank[step_{n}]") in shown
}
told = [f"step {n}: {x:.0f}, {y:.1f} dB" for n, (x, y) in points.items()]
says = f"PSNR over effective rank, a dot for each step. {'; '.join(told)}."
plots.scatter(points, xlabel="effective rank", ylabel="PSNR in dB", alt=says)

# %% [markdown]
# Look at the steps with GELU (9, 10, 12, 14) and those with ReLU (1, 4, 8) apart. The Jacobian is measured at the photograph. It knows nothing of what a search meets on its way there.

# %% [markdown]
# ## Second: is the search sent in the right direction?
#
# A search begins far away. So walk the straight line from the noise to the photograph, and measure a cosine: between the direction in which the loss falls fastest, and
# the direction to the photograph. At 1 a step down the loss goes straight to the photograph. At 0 it knows nothing of it.

# %%
print(getsource(fourteen_steps.homeward))

# %%
series = {
    name_of[n]: {
        part: f"bearing[step_{n}, at_{part:g}]".replace(".", "p")
        for part in (0.0, 0.5, 0.8, 0.95)
    }
    for n in some
}
part, cosine = (
    "part of the way from noise to the photograph",
    "cosine of the directions",
)
plots.evidence_lines(kept, mine, series, xlabel=part, ylabel=cosine)

# %% [markdown] tags=["printed"]
# ## Third: how far does a network see?
#
# The paper's section 6.1 offers a larger *receptive field* as a reason. Luo et al. 2016 measure it: take the centre of a feature map, and its gradient with respect to each pixel.
# The part of the pixels that holds 90 % of the gradient is the **effective receptive field**. We take photographs of 224 x 224 pixels, and the map behind the third stage. Beside the steps stand a Swin and a ViT.

# %%
field = widgets.choose(
    "Which sees furthest?", ["ResNet-50 (step 1)", "ConvNeXt (step 14)", "Swin", "ViT"]
)
field

# %%
rows = {name_of[n]: f"receptive_area[step_{n}]" for n in STEPS}
rows |= {name: f"receptive_area[{name.lower()}]" for name in ("ViT", "Swin")}
label = "effective receptive field, part of the image"
plots.evidence(kept, mine, rows, xlabel=label)

# %%
called = {"ResNet-50 (step 1)": "step_1", "ConvNeXt (step 14)": "step_14"}
called |= {"Swin": "swin", "ViT": "vit"}
area = {name: shown.mean(f"receptive_area[{key}]") for name, key in called.items()}
field.against(max(area, key=area.get))

# %% [markdown]
# A *fresh* ConvNeXt has layer scale: each branch is multiplied by one millionth. So next to nothing is left of its blocks, and a place of the last map looks at little more than its own patch.

# %% [markdown]
# ## Which of the three goes with the leak?
#
# Here is a rank correlation over the steps for each repeat. It is given for searches at the paper's single weight of smoothness, and at the calibrated weight of lab 09.

# %%
quantities = {"effective rank": "effective_rank", "direction": "bearing"}
quantities |= {"receptive field": "receptive_area"}
rows = {
    f"{name}, {weight}": f"spearman[{quantity}, {key}]"
    for name, quantity in quantities.items()
    for weight, key in (("one weight", "psnr"), ("calibrated", "fair_psnr"))
}
plots.evidence(kept, mine, rows, xlabel="rank correlation with the PSNR")

# %%
text(
    "At calibrated weights the rank correlation with the PSNR is {:.2f} for the "
    "effective rank, {:.2f} for the direction, and {:.2f} for the receptive field, on "
    "average over {} repeats.",
    *(kept.mean(f"spearman[{q}, fair_psnr]") for q in quantities.values()),
    len(kept),
)

# %% [markdown]
# The Jacobian is taken along squares of pixels, from random sums of its rows, and is exact to about an eighth. A rank correlation over seven steps has a wide spread. It can refute an explanation sooner than it can prove one.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, sections 6.1 and 6.2; Luo et al. 2016 for the receptive field; Roy and Vetterli 2007 for the effective rank.
