# %% [markdown]
# # 15 · Does a smaller photograph leak more?
#
# A client makes its photograph smaller before it computes a gradient. The gradient has as many numbers as before, and the photograph has fewer.
# Is that a reason to worry?
#
# After this lab you can
# - count how many numbers of a gradient there are for each number of a photograph;
# - say what an attack has to beat before it means anything.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1 GB |
# | class | 0.2 | 1 GB |
#
# (Estimates: nobody has measured this lab yet.)

# %% [markdown]
# *About 20 minutes. You need* lab 00.

# %%
from privlab import data, experiments, metrics
from privlab.notebook import checks, drawings, plots, text, widgets

import torch.nn.functional as F

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
photo, label = data.load("cifar10_samples").one(0)  # (1, 3, 32, 32) in [0, 1]

# %% [markdown]
# ## Fewer pixels, as many numbers
#
# The network does not change when the photograph does, so its gradient does not either.

# %%
drawings.show("15.smaller")

# %% [markdown]
# ### Predict
#
# The client averages squares of pixels, and sends a gradient of what is left.

# %%
guess = widgets.choose("Of a photograph of 8 x 8 pixels we see", ["nothing", "a cat"])
guess


# %%
def shrink(side):
    small = F.interpolate(F.interpolate(photo, side, mode="area"), 32)
    near = metrics.psnr(small, photo).item()
    alt = f"A photograph, and the same at {side} x {side}: {near:.0f} dB."
    return plots.images({"as it is": photo, f"at {side} x {side}": small}, alt=alt)


widgets.explore(shrink, side=(4, 8, 16))

# %% tags=["drawing"]
plots.images({"the photograph": photo}, alt="The photograph of a cat.")

# %%
guess.against("a cat")

# %% [markdown]
# ### Exercise 1: count *(difficulty 1, 5 minutes)*
#
# How many times fewer numbers has a photograph of 8 x 8 pixels than one of 32 x 32?
#
# <details><summary>Hint</summary>Both sides become shorter.</details>

# %% tags=["exercise"]
fewer = ...

# %% tags=["solution"]
fewer = 16

# %%
checks.verify("15.fewer", fewer)

# %% [markdown] tags=["printed"]
# ### Exercise 2: find the baseline *(difficulty 1, 3 minutes)*
#
# A search found a small photograph at 20 dB. What do you compare it with: a photograph of `noise`, or the `mean` of other small photographs?
#
# <details><summary>Hint</summary>Which of the two does a student reach who has no gradient?</details>

# %% tags=["exercise", "reading"]
baseline = ...

# %% tags=["solution"]
baseline = "mean"

# %%
checks.verify("15.baseline", baseline)

# %% [markdown]
# ### Exercise 3: what it shows *(difficulty 2, 5 minutes)*
#
# Which of these findings would speak for a smaller photograph as a defence? Give a set of letters.
#
# - **a** The same search finds the large photograph, and not the small one.
# - **b** The small photograph looks worse.
#
# <details><summary>Hint</summary>A defence changes what an attack finds.</details>

# %% tags=["exercise", "reading"]
shows = ...

# %% tags=["solution"]
shows = {"a"}

# %%
checks.verify("15.shows", shows)

# %% [markdown]
# ## The answer

# %%
text("That is not measured yet. Eight times eight is {} pixels.", 8 * 8)

# %% [markdown]
# ## The paper, and here

# %%
widgets.verdicts("15")

# %% [markdown]
# ## What would change our mind
#
# A measurement.

# %% [markdown]
# ## Read on
#
# Lab 04 searches for photographs.
