# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 13, deeper · What stops the algebra on a ViT-B/16 at 224 pixels?
#
# You come from [lab 13](../13_defences.ipynb). Its network was small. Here is one that people really use, `vit_base_patch16_224` of timm, with fresh random weights and one
# photograph of ImageNet.
#
# After this notebook you can
# - say how much noise, or how coarse a rounding, hides a photograph from the closed form;
# - say why a result on a small network need not hold for a large one.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.3 GB |
# | class | 1 | 2.3 GB |
#
# (Smoke measured, class estimated, on two CPU cores. At `smoke` the network is a `vit_small_patch32_224`, to save memory.)

# %% [markdown]
# *About 10 minutes. You need* labs 05 and 13.

# %%
from privlab import compute, experiments
from privlab.notebook import plots, text, widgets

import numpy as np
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)

# %% [markdown]
# ## Rounding and noise
#
# The closed form reads the gradient of the position embedding. The attacker knows the noise, and weighs by it.
#
# ### Predict

# %%
coarse = widgets.choose(
    "Which is the weakest of these that keeps the photograph below 15 dB?",
    ["bfloat16", "8 bits a number", "2 bits a number", "none of them"],
)
coarse

# %%
hundredth = widgets.predict("At even noise of a hundredth:", 0, 120, "dB")
hundredth

# %%
device = compute.device(device)
kept = experiments.load("defences.stock_vit")
mine = experiments.run("defences.stock_vit", profile, device=device)
shown = kept or mine
of = {
    name.split(", ")[1][:-1]: name for name in shown.table if name.startswith("psnr[")
}
rows = {kind.replace("_", " ").replace("0p", "0."): name for kind, name in of.items()}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %%
means = {kind: shown.mean(name) for kind, name in of.items()}
kinds = ("bfloat16", "rounded_to_8_bits", "rounded_to_2_bits")
low = [o for o, kind in zip(coarse.options, kinds, strict=False) if means[kind] < 15]
display(coarse.against(low[0] if low else "none of them"))
display(hundredth.against(round(means["even_0p01"], 1)))
text(
    "Undefended, the closed form reaches {:.0f} dB. Even noise of a thousandth leaves "
    "{:.0f} dB, and of a hundredth {:.0f} dB. Compare the lab's small network, behind "
    "noise of a hundredth.",
    *(means[kind] for kind in ("none", "even_0p001", "even_0p01")),
)

# %%
(strip,) = [image for key, image in mine.images.items() if key[0] == mine.repeats[0]][
    :1
]
titles = ["photograph", *rows]
found = plots.tiles(np.asarray(strip), strip.shape[0])
says = "The photograph, and what the closed form recovers behind each defence."
plots.images({"recovered": found}, alt=says, captions={"recovered": titles})

# %% [markdown]
# Why the photograph survives so much noise in the large network's gradient was not measured.
#
# ## No position gradient
#
# If the position embedding is withheld or fixed, it sends no gradient, and this closed form has nothing to solve. The other one, `subspace` of lab 05, needs
# $3p^2 \le$ width $- n - 1$, where $p$ is the side of a patch and $n$ the number of patches. A ViT-B/16 does not have that, with 768 on both sides. So for *this* network the
# advice of Lu et al. stops all algebra that we know of, at hardly any cost. For a ViT with small patches it stops nothing where the embedding is withheld, or random and fixed; a fixed sinusoid in two dimensions, and an embedding of low rank, withstand that algebra so far. See the row *position gradient withheld* of the
# lab's matrix: the closed form goes through attention.
#
# A search at 224 pixels finds nothing in the time that we gave it. Try `python -m privlab audit vit_base_patch16_224`.
#
# ## Read on
#
# Lu et al. 2022, sections 3 and 4.2. Lab 05 derives both closed forms.
