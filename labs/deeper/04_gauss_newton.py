# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 04, deeper · Does a better optimiser find the picture?
#
# You come from [lab 04](../04_gradient_inversion.ipynb). There a search with Adam recovered the photograph behind some networks and not behind others.
# Is the photograph safe where Adam failed, or was Adam too weak? Here you give the attacker a stronger optimiser, behind lab 04's networks and on the
# way from ResNet to ConvNeXt ([lab 09](../09_fourteen_steps.ipynb)).
#
# After this notebook you can
# - write a gradient inversion attack as a system of equations;
# - multiply with a Jacobian that is too large to be stored;
# - compare two optimisers at the same cost, and tell a weak optimiser from a network that resists.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.8 | 1.3 GB |
# | class | 3 | 1.6 GB |
#
# (Estimated on two CPU cores.)

# %% [markdown]
# *About 45 minutes. You need* lab 04, and what a derivative of a vector by a vector is. *New words*: **Jacobian**, **Gauss-Newton**, **damping**,
# **conjugate gradients**.

# %%
from privlab import compute, experiments, models
from privlab.attacks import gradient_inversion
from privlab.course.lab_09 import experiments as fourteen_steps
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)

# %% [markdown]
# ## What Adam does not see
#
# Adam sees one number, the distance between two gradients, and how this number changes with each pixel. The server knows more. It has two vectors with
# thousands of entries each: the gradient $g^\star$ that the client sent, and the gradient $g(x)$ of the current image $x$. So it knows every single
# difference,
#
# $$r(x) = g(x) - g^\star .$$

# %% [markdown]
# It can also compute how each difference changes with each pixel. This table of derivatives is the **Jacobian**, $J = \partial r / \partial x$: one row
# for each entry of the gradient, one column for each pixel.

# %% [markdown]
# If the gradient were a linear function of the image, one step would solve $r(x + s) = 0$. The **Gauss-Newton** method takes this step, pretends that
# it was right, computes $r$ and $J$ again, and repeats:
#
# $$(J^\top J + \lambda D)\, s = -J^\top r$$
#
# The gradient is not linear, so a long step can be wrong. The **damping** $\lambda$ makes the step short, and $D$ is a diagonal matrix. The method raises
# $\lambda$ after a step that made the differences larger, and lowers it after a good one.

# %% [markdown]
# ## A matrix that nobody writes down
#
# $J$ has millions of rows. It does not fit into memory, and the method does not need it. The **conjugate gradients** method solves a linear system with
# products alone: $J^\top u$ for a given $u$, and $J v$ for a given $v$. The first is a backward pass. The second is your exercise.
#
# ### Exercise 1: the Jacobian, times a vector *(difficulty 3, 15 minutes)*
#
# You have `r`, the differences, computed from `x` with PyTorch, so `r` has a graph. PyTorch gives you $J^\top u$ for any $u$:
# `torch.autograd.grad(r, x, u)`. Write `push(r, x, v)`, which returns $J v$: the change of each difference as the image moves along $v$. Do not build
# $J$, and do not use finite differences.
#
# <details><summary>Hint</summary>$J^\top u$ is linear in $u$. So make a $u$ that requires a gradient (any values will do). Compute $J^\top u$ with
# <code>create_graph=True</code>, and ask how $\langle J^\top u, v \rangle$ changes with $u$.</details>


# %% tags=["exercise"]
def push(r, x, v): ...


# %% tags=["solution"]
def push(r, x, v):
    u = torch.zeros_like(r, requires_grad=True)
    pulled = torch.autograd.grad(r, x, u, create_graph=True)[0]  # J^T u, like x
    return torch.autograd.grad(pulled, u, v)[0]  # J v, like r


# %%
checks.verify("04.push", push)

# %% [markdown]
# The module `privlab.attacks.gradient_inversion.gauss_newton` does little more. `torch.func.jvp` computes the same product. On a CPU it takes several times
# as long here, because it computes $r$ again for each $v$.

# %% [markdown]
# ## A fair comparison
#
# None of the four papers attacks this way, and we know of no public tool that does. A step of Gauss-Newton costs many products, a step of Adam costs two.
# So we count *passes*: one gradient of the network, one $J v$ or one $J^\top u$ each. Both attackers get the same number of passes.

# %%
newton = gradient_inversion.GaussNewton(passes=240)  # as 120 steps of Adam
newton

# %% [markdown]
# Two terms differ from those of lab 04. The distance is relative: each tensor's differences are divided by the norm of the gradient that was sent. The
# regularisation is like total variation, but with squares, and its weight falls as the gradients come closer.

# %% [markdown] tags=["printed"]
# ## At the paper's size
#
# These are the networks that lab 04 attacks at the paper's size: ResNet-50 (one of two that can be the paper's), Swin-T and ConvNeXt-T, with the same
# photographs and weights. One photograph takes a CPU core a quarter of an hour, so they were measured at `night`: the paper's search with Adam, 1,000 steps,
# and as many passes of Gauss-Newton. (Your own run tries the lines on small networks. At `smoke` and `class` both searches are so short that they show little.)
#
# ### Predict
#
# Above 50 dB no pixel is visibly wrong. Behind which of them does Gauss-Newton get there on most photographs?

# %%
WHICH = ["none", "Swin-T and ConvNeXt-T", "all three"]
guess_full = widgets.choose("More than 50 dB on most photographs:", WHICH)
guess_full

# %%
NAME = "gradient_inversion.second_order_full"
full = experiments.load(NAME)
tried = experiments.run(NAME, profile, device=device)
methods = {"Adam": "adam", "Gauss-Newton": "gauss_newton"}
large = {"ResNet-50": "resnet_50", "Swin-T": "swin_t", "ConvNeXt-T": "convnext_t"}
rows = {
    f"{name}, {by}": f"psnr[{method}, {key}]"
    for name, key in large.items()
    for by, method in methods.items()
}
rows |= {"mean photograph": "psnr[second_order_full, mean_photograph]"}
plots.evidence(full, tried, rows, xlabel="PSNR in dB")

# %%
clear = {n: full.above(f"psnr[gauss_newton, {k}]", 50) for n, k in large.items()}
most = sum(count > len(full) / 2 for count in clear.values())
guess_full.against(WHICH[max(most - 1, 0)])

# %%
strip = plots.tiles(full.picture("picture[adam_above_gauss_newton]"), 32)
plots.images(
    {"Adam": strip[:4], "Gauss-Newton": strip[4:]},
    alt="A photograph, and what Adam and Gauss-Newton find behind three networks.",
    captions={by: ["photograph", *large] for by in methods},
)

# %% [markdown]
# ## Did it solve its equations?
#
# A poor picture can have two reasons. Either the search did not solve $r(x) = 0$, or it did, and a different image solves it as well. The residual tells
# them apart. It is the norm of the differences, divided by the norm of the gradient that was sent: 1 means that nothing was solved, 0 that everything was.

# %%
residuals = {n: f"relative_residual[gauss_newton, {k}]" for n, k in large.items()}
plots.evidence(full, tried, residuals, xlabel="residual of Gauss-Newton", log=True)

# %% [markdown]
# Look for poor pictures in the first chart, then for their residuals in the second. A poor picture with a large residual means that the search stopped
# early. This is what a network with ReLU does to it: the gradient jumps where a unit turns on or off, and a linear model is wrong beyond the jump.

# %%
text(
    "Gauss-Newton has {} of {} photographs above 50 dB behind Swin-T, {} behind "
    "ConvNeXt-T and {} behind ResNet-50. Behind this ResNet-50 (one of two) Adam ends "
    "at {:.1f} dB on average, Gauss-Newton at {:.1f} dB, and the mean photograph has "
    "{:.1f} dB. The residual that Gauss-Newton leaves there is {:.2f}.",
    *(clear["Swin-T"], len(full), clear["ConvNeXt-T"], clear["ResNet-50"]),
    *(full.mean(f"psnr[{method}, resnet_50]") for method in methods.values()),
    full.mean("psnr[second_order_full, mean_photograph]"),
    full.mean("relative_residual[gauss_newton, resnet_50]"),
)

# %% [markdown]
# ## A jump of the architecture, or of the optimiser?
#
# Zhang et al., Table 8 goes from ResNet to ConvNeXt in fourteen steps, and attacks each of them with Adam. If a jump of the PSNR belongs to the
# architecture, it should be there under either optimiser. So both attack seven of the steps, in small networks, with equal numbers of passes. Adam has a
# regularisation weight that is calibrated for each network, as in lab 09.
#
# ### Predict
#
# Step 9 replaces ReLU by GELU. In Table 8 this costs the attacker some decibels.

# %%
guess = widgets.predict("Gauss-Newton, PSNR of step 9 minus step 8:", -10, 20, "dB")
guess

# %%
morph, asked = experiments.load("fourteen_steps.searches"), fourteen_steps.CURVED
yours = experiments.run("fourteen_steps.searches", profile, device=device)
keys = {"Adam": "fair", "Gauss-Newton": "gauss_newton"}
rows = {
    f"{n}, {by}": f"psnr[{key}, step_{n}]" for n in asked for by, key in keys.items()
}
rows |= {"mean photograph": "psnr[cifar10, mean_photograph]"}
plots.evidence(morph, yours, rows, xlabel="PSNR in dB")

# %%
jump = "psnr[{0}, step_9] - psnr[{0}, step_8]"
guess.against(morph.mean(jump.format("gauss_newton")))

# %%
choice = widgets.choose(
    "Where does Gauss-Newton leave most of the gradient unmatched?",
    ["step 8 (ReLU)", "step 10 (GELU)", "both alike"],
)
choice

# %%
name_of = {n: f"{n}: {models.morph.STEPS[n].name}" for n in asked}
left = {
    what: f"relative_residual[gauss_newton, step_{n}]" for n, what in name_of.items()
}
plots.evidence(morph, yours, left, xlabel="residual of Gauss-Newton", log=True)

# %%
relu, gelu = (morph.mean(left[name_of[n]]) for n in (8, 10))
one = 0 if relu > 2 * gelu else 1 if gelu > 2 * relu else 2
choice.against(choice.options[one])

# %%
text(
    "From step 8 to step 9 the PSNR changes by {:+.1f} dB under Adam, and by "
    "{:+.1f} dB under Gauss-Newton. Gauss-Newton leaves {:.0%} of the gradient "
    "unmatched at step 8, and {:.0%} at step 10.",
    *(morph.mean(jump.format(key)) for key in keys.values()),
    relu,
    gelu,
)

# %% [markdown]
# ## The answer
#
# On smooth networks Adam was too weak: at the paper's size the stronger optimiser brings most photographs back behind Swin-T and ConvNeXt-T without a
# visible error. It does not help against ReLU, where it cannot solve the equations.

# %% [markdown]
# ## What would change our mind
#
# A search that solves the ResNet's equations and still returns another picture would show that the jumps are not the reason. The last row of the table
# in [lab 04](../04_gradient_inversion.ipynb) has our claim at the paper's size, and its verdict.

# %% [markdown]
# ## Read on
#
# The book's chapter *Beyond the papers* has the method and its measurements. Nocedal and Wright 2006, chapter 10, is the textbook.
