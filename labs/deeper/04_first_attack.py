# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 04, deeper · What has changed since the first attack?
#
# You come from [lab 04](../04_gradient_inversion.ipynb). The first attack that searched for a picture was DLG, in 2019. The attack of lab 04 has another
# distance, another optimiser, and is given the label. Here you run DLG on its own ground, and see why each of the three was changed.
#
# After this notebook you can
# - read three attacks as terms and settings, and name what differs;
# - read the label of one image off the last layer's gradient, behind any network;
# - say why a search steps along the sign of the gradient.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.3 GB |
# | class | 1 | 1.3 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 50 minutes. You need* lab 04.

# %%
from privlab import compute, experiments
from privlab.attacks import gradient_inversion
from privlab.notebook import checks, plots, widgets

import pandas as pd

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)

# %% [markdown]
# ## Three attacks
#
# Print an attack, and you read the method section of its paper.

# %%
for preset in ("dlg", "idlg", "inverting_gradients"):
    print(getattr(gradient_inversion, preset)(), end="\n\n")

# %% [markdown]
# - **DLG** (Zhu et al. 2019) compares gradients by their squared distance, and searches for the label along with the image. Its optimiser, *L-BFGS*, estimates the
#   curvature from the gradients that it has seen, and takes long steps. From some starts it diverges, so the attacker restarts from other noise.
# - **iDLG** (Zhao et al. 2020) reads the label from the last layer first.
# - **Inverting Gradients** (Geiping et al. 2020) takes a cosine, and its optimiser steps along the *sign* of the gradient.
#
# ## DLG on its own ground
#
# DLG attacked a small network with sigmoids. Here it attacks three copies of this network that differ in the *activation*, the non-linear function
# between two layers: sigmoid, GELU (smooth, too), and ReLU. We draw the weights from -0.1 to 0.1. From -0.5 to 0.5, as the paper has it, L-BFGS diverges behind GELU and ReLU.
#
# ### Predict

# %%
guess = widgets.choose(
    "Behind which activation does DLG recover least?", ["Sigmoid", "GELU", "ReLU"]
)
guess

# %%
kept = experiments.load("gradient_inversion.dlg")
mine = experiments.run("gradient_inversion.dlg", profile, device=device)
rows = {name: f"psnr[dlg, {name.lower()}]" for name in guess.options}
baseline = {"mean photograph": "psnr[dlg, mean_photograph]"}
plots.evidence(kept, mine, rows | baseline, xlabel="PSNR in dB")

# %%
shown = kept or mine  # the committed evidence, where there is some
guess.against(min(rows, key=lambda name: shown.mean(rows[name])))

# %% [markdown]
# A layer's gradient is a product of its input and of the derivative of the loss by its output. The input changes with the image. Behind a ReLU this
# derivative depends on which units are on. It does not change until a unit turns on or off, and then it jumps. So this factor does not guide the search.

# %% [markdown]
# ## The label, without a search
#
# Lab 04 *gave* the label to the search. Row $i$ of the last layer's weight gradient is $(p_i - [i = y])\, f$, with $f$ the features of the
# image, $p_i$ the model's probability of class $i$, and $y$ the label. The attacker can compute with these rows. Papers and code disagree on how.

# %%
kept = experiments.load("gradient_inversion.labels")
mine = experiments.run("gradient_inversion.labels", profile, device=device)
best = kept or mine
rules = gradient_inversion.label_recovery.RULES
networks = ("ResNet", "Swin", "ViT")
share = {
    name: [best.mean(f"label_accuracy[{rule}, {name.lower()}]") for rule in rules]
    for name in networks
}
pd.DataFrame(share, index=list(rules)).round(2)

# %% [markdown]
# The table has the share of labels that each rule reads right. iDLG's rule, as it is mostly coded, takes the row with the smallest *sum*. The idea: only the label's factor is
# negative, so its row has a negative sum, if the features have a positive one. A fresh Swin or ViT ends in a *LayerNorm*, which makes the mean of the features 0. Then every sum is zero up to rounding.
#
# ### Exercise 1: whose label? *(difficulty 2, 10 minutes)*
#
# Write `label_of(rows)`: given this gradient of one image, (classes, features), with three classes or more and features of *any* sign, return the label.
#
# <details><summary>Hint</summary>Which factor c = p - [i = y] is negative? What is the sign of the product of two rows, which is their factors times the squared length of f?</details>


# %% tags=["exercise"]
def label_of(rows): ...


# %% tags=["solution"]
def label_of(rows):
    away = rows @ rows.T < 0  # (classes, classes): whether two rows point apart
    return int(away.sum(1).argmax())  # the label's points away from all others


# %%
checks.verify("04.label", label_of)

# %% [markdown]
# The rule that APRIL prints compares rows like this, so it does not depend on the sign of the features. With two classes the rows are opposite to each
# other, and only the gradient of the bias can tell them apart. `privlab.attacks.gradient_inversion.label_recovery` derives each rule.

# %% [markdown]
# ## Steps along the sign
#
# Inverting Gradients gives *Adam*, its optimiser, the *sign* of each pixel's gradient. Adam divides by the size of the gradients anyway. So what
# is the sign good for?
#
# ### Exercise 2: why the sign? *(difficulty 3, 20 minutes)*
#
# Write `adam_lengths(gradients, signed)`: the length $|\text{step}| / \text{lr}$ of each of Adam's steps for *one* pixel, whose gradients are given as a list,
#
# $$\begin{gathered}
# m \leftarrow 0.9\,m + 0.1\,g, \\
# v \leftarrow 0.999\,v + 0.001\,g^2, \\
# \frac{|\text{step}|}{\text{lr}} = \frac{|m| / (1 - 0.9^t)}{\sqrt{v / (1 - 0.999^t)} + 10^{-8}} ,
# \end{gathered}$$
#
# with $t = 1, 2, \dots$ and $m = v = 0$ before the first step. $g$ is the gradient, or its sign if `signed`.
#
# <details><summary>Hint</summary>One loop is enough: <code>for t, g in enumerate(gradients, start=1)</code>. The first step has length 1 for every gradient that is not tiny.</details>


# %% tags=["exercise"]
def adam_lengths(gradients, signed): ...


# %% tags=["solution"]
def adam_lengths(gradients, signed):
    m, v, lengths = 0.0, 0.0, []
    for t, g in enumerate(gradients, start=1):
        if signed:
            g = (g > 0) - (g < 0)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        lengths.append(abs(m) / (1 - 0.9**t) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8))
    return lengths


# %%
checks.verify("04.sign", adam_lengths)

# %% [markdown]
# Now your function takes eight steps. The gradients shrink, or turn round, or are tiny. Look at the lengths of the steps.

# %%
ways = {"shrink": [10.0**-t for t in range(8)], "turn": [1, -1] * 4, "tiny": [1e-8] * 8}
lengths = {
    f"{name}, {'signed' if signed else 'plain'}": adam_lengths(gradients, signed)
    for name, gradients in ways.items()
    for signed in (False, True)
}
pd.DataFrame(lengths, index=range(1, 9)).T.round(2)

# %% [markdown]
# The first step has length 1 either way, unless the gradient is tiny. The difference comes later.
#
# - **Gradients shrink as the loss falls.** $v$ forgets a thousandth in each step, so the large squares of the beginning stay in it, and plain Adam takes short steps. With the sign,
#   a step has length 1 as long as the direction stays the same.
# - **Gradients can be tiny.** Behind a fresh ResNet they are as small as the $10^{-8}$ in the denominator, which then shortens even the first step.
# - **The sign has a cost.** Steps get shorter near the goal only where signs alternate. So the attack has to shorten its steps by itself, as the search goes on.

# %% [markdown]
# ## The answer
#
# The label can be read off, so nobody searches for it. The cosine ignores the length of a gradient, and the sign ignores its size, so one setting fits victims whose gradients differ by orders of magnitude.

# %% [markdown]
# ## Read on
#
# Zhu et al. 2019, Zhao et al. 2020 and Geiping et al. 2020 are the three papers. The ReLU comes back in lab 09, and the label of a whole batch in lab 07.
