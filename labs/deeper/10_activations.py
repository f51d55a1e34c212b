# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10, deeper · Which activation hides the photograph?
#
# You come from [lab 10](../10_micro_designs.ipynb), where one switch took away the activation behind an addition. Zhang et al. 2024 try all eight patterns of activations, with ReLU and with GELU (Figure 8).
# They give all of them one weight of smoothness. Which activation hides the photograph, and does the answer depend on that weight, or on how the network's weights were drawn?
#
# After this notebook you can
# - compare patterns of activations at one weight, and at a calibrated one;
# - say whether a comparison depends on how the weights were drawn.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.8 | 1.1 GB |
# | class | 2 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 10. There is no new word.

# %%
from inspect import getsource

from privlab import data, experiments
from privlab.course.lab_10 import experiments as micro_designs
from privlab.experiments.victims import designs
from privlab.models import morph
from privlab.notebook import plots, widgets

import pandas as pd
import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
torch.set_num_threads(1)  # networks as small as these are no faster with two
KINDS, PATTERNS = micro_designs.KINDS, micro_designs.PATTERNS
called = {"relu": "ReLU", "gelu": "GELU"}

# %% [markdown]
# ## Sixteen networks, or fifteen?
#
# Without any activation there is nothing that could be of either kind:

# %%
photo, label = data.load("cifar10", "test").one(seed)  # (1, 3, 32, 32), and its class
for pattern in ("000", "001"):
    relu, gelu = (
        morph.build(9, activations=pattern, activation=kind, width=0.25)
        for kind in KINDS
    )
    apart = (relu(photo) - gelu(photo)).abs().max().item()
    print(f"pattern {pattern}: logits with ReLU and GELU are {apart:.3g} apart at most")

# %% [markdown]
# ### Predict
#
# Keep the ReLUs inside the block, and take only the one behind the addition away: 111 becomes 110. How many decibels does this bring the attacker?

# %%
third = widgets.predict("PSNR of 110 minus PSNR of 111, ReLU:", -5, 10, "dB")
third

# %%
kept = experiments.load("micro_designs.activations")
mine = experiments.run("micro_designs.activations", profile, device=device)
shown = kept or mine


def heat(rows, columns, ylabel):
    means = {name: [shown.mean(one) for one in names] for name, names in rows.items()}
    said = {name: ", ".join(f"{v:.1f}" for v in row) for name, row in means.items()}
    return plots.heat(
        torch.tensor([*means.values()]),
        rows=[*means],
        columns=columns,
        ylabel=ylabel,
        unit="mean PSNR in dB",
        xlabel="pattern: first convolution, second, addition",
        alt=f"Mean PSNR by pattern {', '.join(columns)}. {said}",
    )


one_weight = {called[k]: [f"psnr[{k}, act_{p}]" for p in PATTERNS] for k in KINDS}
heat(one_weight, PATTERNS, "kind")

# %%
third.against(kept.mean("psnr[relu, act_110] - psnr[relu, act_111]"))

# %% [markdown]
# The paper prints the MSE of normalised images, where lower is a better attack:

# %%
rows = {f"{called[k]} {p}": f"mse[{k}, act_{p}]" for k in KINDS for p in PATTERNS}
plots.evidence(kept, mine, rows, xlabel="MSE of normalised images", log=True)

# %%
grid = plots.tiles(mine.picture("picture[patterns]"), 32).unflatten(0, (2, 9))
images = dict(zip(called.values(), grid[:, 1:], strict=True))  # the first is the photo
captions = {
    called[k]: [f"{p}: {mine.mean(f'psnr[{k}, act_{p}]'):.0f} dB" for p in PATTERNS]
    for k in KINDS
}
says = f"One photograph, reconstructed behind sixteen designs: {captions}"
plots.images(images, captions=captions, alt=says)

# %% [markdown]
# ## A table of patterns, or of weights?
#
# The weight of smoothness is the same in every search. But it is added to a distance between gradients, and this distance has a size of its own in each design. How
# far is the gradient of a plain grey image from that of a photograph? The attacker can measure it on public photographs:

# %%
print(getsource(designs.DesignTrial.from_grey))

# %% [markdown]
# Here is the calibrated weight of five patterns, in units of that of step 9:

# %%
PLACES = micro_designs.PLACES
name = "fair_weight[fair, {}, act_{}]"
weights = {called[k]: {p: shown.mean(name.format(k, p)) for p in PLACES} for k in KINDS}
pd.DataFrame(weights)

# %%
turned = widgets.choose(
    "At calibrated weights the attacker does best with",
    ["all three activations", "the third alone (001)", "none (000)"],
)
turned

# %%
by_weight = (("one weight", ""), ("calibrated", "fair, "))
rows = {
    f"{called[k]}, {weight}": [f"psnr[{of}{k}, act_{p}]" for p in PLACES]
    for weight, of in by_weight
    for k in KINDS
}
heat(rows, PLACES, "kind and weight")

# %%
mean = {
    p: sum(shown.mean(f"psnr[fair, {k}, act_{p}]") for k in KINDS) / 2
    for p in ("111", "001", "000")
}
turned.against(turned.options[[*mean].index(max(mean, key=mean.get))])

# %%
gain = "psnr[{0}{1}, act_{2}] - psnr[{0}{1}, act_{3}]"
rows = {
    f"{called[k]}, {weight}: {a} minus {b}": gain.format(of, k, a, b)
    for a, b in (("110", "111"), ("000", "111"), ("000", "001"))
    for weight, of in by_weight
    for k in KINDS
}
plots.evidence(kept, mine, rows, xlabel="what it brings the attacker, in dB")

# %% [markdown]
# ## How were the weights drawn?
#
# PyTorch's own draw gives a convolution the variance 1 / (3 n), where n numbers go into an output. The *Kaiming* draw of 2015 gives it 2 / n, and ResNets are usually drawn this way.
# The paper does not say how its networks were drawn.

# %%
drawn = widgets.predict(
    "With the Kaiming draw, PSNR with GELU minus ReLU:", -5, 5, "dB"
)
drawn

# %%
changes = {
    "third ReLU away": ("relu, act_110", "relu, act_111"),
    "third GELU away": ("gelu, act_110", "gelu, act_111"),
    "GELU for ReLU, 111": ("gelu, act_111", "relu, act_111"),
    "GELU for ReLU, 110": ("gelu, act_110", "relu, act_110"),
}


rows = {
    f"{what}, {draw}": f"psnr[{of}, {a}] - psnr[{of}, {b}]"
    for what, (a, b) in changes.items()
    for of, draw in (("fair", "PyTorch's draw"), ("he", "Kaiming draw"))
}
plots.evidence(kept, mine, rows, xlabel="what it brings the attacker, in dB")

# %%
name = "psnr[he, gelu, act_{0}] - psnr[he, relu, act_{0}]"
drawn.against(sum(kept.mean(name.format(p)) for p in ("111", "110")) / 2)

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 5.3 and Figure 8. [The norms](10_norms.ipynb) are another deeper notebook.
