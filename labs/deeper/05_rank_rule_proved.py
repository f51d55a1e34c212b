# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 05, deeper · Why is the rank all that counts?
#
# You come from [lab 05](../05_april_closed_form.ipynb). It showed directions that the server cannot see, and claimed that there are no others. Is that so, behind a LayerNorm and
# with a class token?
#
# After this notebook you can
# - write the equations of the subspace form, norm included;
# - prove the rank rule in both directions, and name the cases that it leaves out;
# - design an embedding that hides as much as you want.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.2 GB |
# | class | 0.4 | 1.4 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 35 minutes. You need* lab 05, and linear algebra with row spaces.

# %%
from privlab import compute, data, experiments, metrics, models
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
device = compute.device(device)
photo, label = data.load("cifar10_samples").one(2)  # (1, 3, 32, 32) in [0, 1]
QKV = "blocks.0.attn.qkv.weight"


def client(**position):
    return models.april.build("b", depth=2, seed=seed, **position).double()


# %% [markdown]
# ## The equations
#
# Let the rows of $N^\top$ span what is outside of the row space $S$ of the first attention's weight gradient. Let $C$ subtract the mean, and write the norm out:
#
# $$\begin{gathered}
# \mathrm{LN}(z_i) = \gamma \odot C(z_i)/\sigma_i + \beta \quad\Rightarrow \\
# N^\top\big(\gamma \odot C(W x_i + b + e_i)\big) + \sigma_i N^\top\beta = 0 .
# \end{gathered}$$
#
# Everything except the patch $x_i$ is known, and the one number $\sigma_i$ where $\beta \ne 0$. The embedding $e_i$ is fixed, so it is public.

# %% [markdown]
# This is a linear system for each patch. It needs one image, a norm before attention, two blocks or more, and a width $w$ with $w - (n+1) > 3p^2$. One equation is lost, because the
# norm takes the mean out (or because $\sigma_i$ is one unknown more).

# %%
model = client(position="random", position_std=1.0)
gradient = observe(model, photo, label, names=[QKV])[QKV]
values = torch.linalg.svdvals(gradient)
tokens = int((values > 1e-10 * values[0]).sum())
alt = f"Singular values of the first attention's gradient; {tokens} are not zero."
plots.lines(
    {"gradient of the first attention": (torch.arange(1, 41), values[:40])},
    xlabel="number, from the largest", ylabel="singular value", log="y", alt=alt,
)  # fmt: skip

# %% [markdown]
# ## At least so many are hidden
#
# Take $\beta = 0$. (Otherwise $\sigma_i$ moves along, and the count is the same.) Take a combination $a$ of patches with $\sum_i a_i = 0$ and $\sum_i a_i e_i = 0$. Then
#
# $$\sum_i a_i (W x_i + b + e_i) = W \sum_i a_i x_i .$$
#
# So $\gamma \odot C(W d)$, with $d = \sum_i a_i x_i$, is a combination of normed tokens, each times its $\sigma_i$. It lies *in* $S$, and no equation contains the direction $d$.

# %% [markdown]
# ## And no more
#
# Conversely, let $\gamma\odot C(Wd) = \sum_t c_t \mathrm{LN}(z_t)$, and put $a_t = c_t/\sigma_t$. With $z_0$ the class token,
#
# $$\begin{aligned}
# C\big(W(\textstyle\sum_i a_i x_i - d)\big) + C\big(\sum_i a_i (b + e_i)\big) & \\
# {} + a_0 C(z_0) &= 0 .
# \end{aligned}$$
#
# Let the columns of $W$, the bias $b$, the class token and the embeddings be in general position. A width above $3p^2 + n + 1$ leaves room for that. Then each part is zero by
# itself: $a_0 = 0$, $\sum_i a_i = 0$, $\sum_i a_i e_i = 0$ and $d = \sum_i a_i x_i$. Different $a$ give different $d$ as long as the patches are independent, until all
# $3p^2$ are filled.

# %% [markdown]
# The combinations form a space of dimension $n - \mathrm{rank}[E\;\mathbf 1]$. Hence, for *every* patch,
#
# $$h = \min\big(3p^2,\; n - \mathrm{rank}[E\;\mathbf 1]\big). \qquad\blacksquare$$
#
# Two cases are left out. $C$ removes multiples of $\mathbf 1$, so an embedding that is one hides as if it were 0; the code counts that too. And an image whose patches *repeat*,
# such as a digit on black, hides less: where two patches are equal, their difference is no direction.

# %% [markdown]
# ## The rule against the solver
#
# `hidden_directions` looks at the model alone. `Recovery.hidden` counts the singular values that vanish in the system.
#
# ### Predict

# %%
apart = widgets.predict(
    "How far are the two apart, at most, over all photographs?", 0, 10, "directions"
)
apart

# %%
kept = experiments.load("april_closed_form.rank_rule")
mine = experiments.run("april_closed_form.rank_rule", profile, device=device)
shown = kept or mine
names = {f"rank {r}": f"hidden[rank_{r}]" for r in (1, 3, 5, 8, 12, 15, 16)}
names |= {"2-D sinusoid": "hidden[sinusoid_2d]", "none": "hidden[none]"}
names = {name: key for name, key in names.items() if key in shown}
plots.evidence(kept, mine, names, xlabel="hidden directions that the solver counts")

# %%
apart.against(float(max(shown["null_space_gap[rank_rule]"])))

# %% [markdown]
# ### Exercise 1: design it *(difficulty 2, 10 minutes)*
#
# You may choose a random embedding of any rank for $n$ patches. You want at least $k$ hidden directions in every patch, and $k$ is below the $3p^2$ numbers of a patch. Which is the *largest*
# rank that you can allow? Write `largest_rank(patches, k)`.
#
# <details><summary>Hint</summary>The rule asks for the rank of $[E\;\mathbf 1]$. What does the column of ones do to the rank of a random $E$?</details>


# %% tags=["exercise"]
def largest_rank(patches, k): ...


# %% tags=["solution"]
def largest_rank(patches, k):
    return patches - 1 - k


# %%
checks.verify("05.design", largest_rank)

# %% [markdown]
# ## Rounding undoes a rank
#
# A product of two random factors has low rank. Round it to float32, and it has full rank again, far below its size. Is that enough for the server, if the client sends float64?

# %%
rounded = widgets.choose("From the last bits comes back", ["nothing", "the photograph"])
rounded

# %%
exact = client(position="low_rank", position_rank=4, position_std=1.0)
draw = torch.Generator().manual_seed(seed)
left, right = (torch.randn(s, generator=draw) for s in ((16, 4), (4, 384)))
model = client(position="random", position_std=1.0)
model.pos_embed.data[0, 1:] = (left @ right / 2).double()  # a float32 product
answers = {
    name: closed_form.subspace(one, observe(one, photo, label, names=[QKV]))
    for name, one in {"exact": exact, "rounded": model}.items()
}
near = {name: metrics.psnr(a.images, photo).item() for name, a in answers.items()}
rounded.against(rounded.options[int(near["rounded"] > 20)])

# %%
text(
    "Behind an exact embedding of rank 4 the server reaches {:.0f} dB, with {} hidden "
    "directions. Behind the rounded one it reaches {:.0f} dB, with {} hidden.",
    near["exact"],
    answers["exact"].hidden,
    near["rounded"],
    answers["rounded"].hidden,
)

# %% [markdown]
# `position_embeddings.draw("low_rank")` therefore draws its factors with few bits, so that their product is exact.
#
# ## Read on
#
# The subspace form and the rank rule are ours; none of the four papers has them. The docstrings of `closed_form.subspace` and `closed_form.hidden_directions` say what the code
# counts.
