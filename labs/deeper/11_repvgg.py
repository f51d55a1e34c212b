# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11, deeper · Is it enough to fold the skip connections away?
#
# You come from [lab 11](../11_model_inversion.ipynb). Some networks have skip connections while they are trained, and none when they are shipped. The
# attacker gets the shipped one. Does that protect?
#
# After this notebook you can
# - fold a convolution and its BatchNorm into one convolution;
# - say which changes of a network an attack can notice, and which it cannot;
# - check an identity in floating point.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.1 GB |
# | class | 0.6 | 1.1 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 40 minutes. You need* lab 11. *New words*: **reparameterisation**.

# %%
from privlab import compute, experiments, models
from privlab.experiments.victims import private_people
from privlab.notebook import checks, plots, text, widgets

import pandas as pd

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
size = experiments.find("model_inversion.identities").size(
    "smoke" if profile == "smoke" else "class"
)
here = private_people.People(seed, **size.settings["stage"], device=device)

# %% [markdown]
# ## A network in two forms
#
# RepVGG trains blocks of three branches: a 3x3 convolution, a 1x1 convolution, and the identity, which is a skip connection. Each has a BatchNorm behind
# it. Before the network is shipped, the three are folded into *one* 3x3 convolution. This is called **reparameterisation**. Koh et al. (2024, section 9)
# ask whether it protects.

# %%
branched = here.network("repvgg").model(0).double()
folded = models.skip_connections.fold(branched)
branches = models.skip_connections.branches
print("branches:", branches(branched), "->", branches(folded))

# %% [markdown]
# ### Predict

# %%
SAME = "the same"
guess = widgets.choose(
    "The attack on the folded network, beside that on the branched one, finds:",
    ["fewer faces", SAME, "more faces"],
)
guess

# %% [markdown]
# ### Exercise 1: fold a branch *(difficulty 2, 20 minutes)*
#
# A convolution without a bias and the BatchNorm behind it, in eval mode, are *one* convolution (equation 6). Write
# `fold(weight, mean, var, gamma, beta, eps)`: the convolution's weight (out, in, k, k) and the norm's running mean, running variance, weight, bias and eps.
# Return the new weight and the new bias.
#
# <details><summary>Hint</summary>The norm computes $(y - \mu)\,\gamma / \sigma + \beta$ with $\sigma = \sqrt{\mathrm{var} + \mathrm{eps}}$, channel by
# channel. What multiplies $y$? What is left?</details>


# %% tags=["exercise"]
def fold(weight, mean, var, gamma, beta, eps): ...


# %% tags=["solution"]
def fold(weight, mean, var, gamma, beta, eps):
    scale = gamma / (var + eps).sqrt()
    return weight * scale[:, None, None, None], beta - mean * scale


# %%
checks.verify("11.fold", fold)

# %% [markdown]
# ## One function, one gradient
#
# The two forms compute the same function $f$. The attack needs $\partial f/\partial x$, the gradient with respect to the image. It belongs to the function,
# not to the way in which the function is written down. So it should be the same, too. Is it, in float64?

# %%
kept = experiments.load("model_inversion.identities")
mine = experiments.run("model_inversion.identities", profile, device=device)
names = {
    "output": "max_abs_error[repvgg, output]",
    "gradient at the image": "max_abs_error[repvgg, input_gradient]",
}
pd.DataFrame(
    {
        "largest difference, committed": {n: kept[k].max() for n, k in names.items()},
        "yours": {n: mine[k].max() for n, k in names.items()},
    }
)

# %% [markdown]
# ## The same attack on both
#
# Now PPA attacks both forms, in float32 as before.

# %%
found = [
    here.attack.run(net, here.prior, range(here.people), seed).best(here.shown)
    for net in (branched.float(), folded.float())
]
scores = [here.judge.score(one.images, one.targets) for one in found]
rows = dict(zip(("branched", "folded"), found, strict=True))
six = min(6, here.people)
plots.images(
    {name: one.images[one.places(six)] for name, one in rows.items()},
    smooth=True,
    alt=(
        "Six faces out of the branched RepVGG, and below them six out of the folded"
        " one."
    ),
)

# %%
points = [100 * score.accuracy for score in scores]
more = points[1] - points[0]
guess.against("fewer faces" if more < -5 else "more faces" if more > 5 else SAME)

# %%
text(
    "The judge knows {:.0f} of 100 faces from the branched form, and {:.0f} from the"
    " folded one.",
    *points,
)

# %% [markdown] tags=["printed"]
# In float32 the two forms round differently. So single faces can differ a little, and with them the count: up to 5 points are called
# the same above. In exact arithmetic nothing differs.

# %% [markdown]
# A defence has to change what the network *learned*. So it must be there in training. Cutting skip connections before training is such a change, folding
# them afterwards is none.

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, section 9 and Tables 4 and 7. Ding et al. 2021 is RepVGG. [Do skip connections help the attacker?](11_skip_connections.ipynb) cuts them
# before training.
