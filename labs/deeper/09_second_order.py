# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 09, deeper · Was it the optimiser?
#
# You come from [lab 09](../09_fourteen_steps.ipynb). Every search there was Adam's, as in the paper. *Gauss-Newton*, a method for systems of equations, knows how each entry of the
# gradient changes with the image. If a jump on the way to the ConvNeXt belongs to the architecture, it should be there under either search. Is it?
#
# After this notebook you can
# - compare a jump between two architectures under two optimisers;
# - tell an optimiser's failure from a gradient that does not contain enough.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.0 GB |
# | class | 1 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 20 minutes. You need* lab 09. There is no new word. How Gauss-Newton works is in [a deeper notebook of lab 04](04_gauss_newton.ipynb); you can do without it.

# %%
from privlab import experiments, models
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
asked = fourteen_steps.CURVED  # seven of the fourteen steps
name_of = {n: f"{n}: {models.morph.STEPS[n].name}" for n in asked}

# %% [markdown]
# ## Two searches at the same cost
#
# Both get the same photographs, weights and initial noise, and as many *passes* through the network.

# %% [markdown]
# A gradient of the network is one pass, and so is a product with the matrix of its
# derivatives. A step of Adam takes two passes. Adam has a weight of smoothness that is calibrated for each network, as in lab 09.

# %% [markdown]
# ### Predict
#
# Step 9 replaces ReLU by GELU. In the paper's Table 8 this step costs the attacker some decibels. *Gauss-Newton* needs derivatives that change smoothly.

# %%
guess = widgets.predict("Gauss-Newton, PSNR of step 9 minus step 8:", -10, 20, "dB")
guess

# %%
kept = experiments.load("fourteen_steps.searches")
mine = experiments.run("fourteen_steps.searches", profile, device=device)
both = (("Adam", "fair"), ("Gauss-Newton", "gauss_newton"))
rows = {f"{n}, {name}": f"psnr[{key}, step_{n}]" for n in asked for name, key in both}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %%
guess.against(kept.mean("psnr[gauss_newton, step_9] - psnr[gauss_newton, step_8]"))

# %% [markdown]
# ### Exercise 1: whose jump is it? *(difficulty 2, 10 minutes)*
#
# `adam` and `newton` hold, step by step, one PSNR for each repeat, in the same order. Write `hidden(adam, newton, step)`: by how many decibels is the jump *from the step before* larger under
# Gauss-Newton than under Adam? Return one value for each repeat. A value above 0 is what Adam did not see.
#
# <details><summary>Hint</summary>It is a difference of two differences. Keep the repeats apart: each pairs the same photograph and weights.</details>


# %% tags=["exercise"]
def hidden(adam, newton, step): ...


# %% tags=["solution"]
def hidden(adam, newton, step):
    return (newton[step] - newton[step - 1]) - (adam[step] - adam[step - 1])


# %%
checks.verify("09.hidden", hidden)

# %% [markdown]
# ## Was the gradient matched?
#
# Two things can go wrong for an attacker. The search may stop with a gradient that is far from the client's: that is an optimiser's failure.

# %% [markdown]
# Or it may match the gradient, and find
# another image: then many images have nearly this gradient, and only the assumption about photographs decides between them. What is left of the difference tells the two apart.

# %%
choice = widgets.choose(
    "Where is most of the gradient left unmatched?", ["step 8", "step 10", "both alike"]
)
choice

# %%
rows = {
    name: f"relative_residual[gauss_newton, step_{n}]" for n, name in name_of.items()
}
label = "part of the gradient that is left unmatched by Gauss-Newton"
plots.evidence(kept, mine, rows, xlabel=label, log=True)

# %%
relu, smooth = (
    kept.mean(f"relative_residual[gauss_newton, step_{n}]") for n in (8, 10)
)
apart = relu / smooth
choice.against("step 8" if apart > 2 else "step 10" if apart < 0.5 else "both alike")

# %%
text(
    "Gauss-Newton leaves {:.0%} of the gradient unmatched at step 8, which has ReLU, "
    "and {:.0%} at step 10, which has GELU. A ReLU turns at 0, and the derivatives "
    "that the method relies on change there at once.",
    relu,
    smooth,
)

# %% [markdown]
# ## Read on
#
# The book's chapter *second order* has more passes and other networks. Lab 10 asks whether the kink of ReLU is a defence.
