# %% [markdown]
# # 15 · Does a smaller photograph leak more?
#
# After this lab you can
# - count how many numbers of a gradient there are for each number of a photograph;
# - say what an attack has to beat before it means anything.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1 GB |
# | class | 0.2 | 1 GB |

# %%
from privlab import data, experiments
from privlab.notebook import checks, drawings, plots, widgets

import torch.nn.functional as F

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
photo, label = data.load("cifar10_samples").one(0)  # (1, 3, 32, 32) in [0, 1]
drawings.show("15.smaller")


# %%
def shrink(side):
    small = F.interpolate(F.interpolate(photo, side, mode="area"), 32)
    return plots.images({f"at {side} x {side}": small}, alt=f"A photograph at {side} x {side}.")


widgets.explore(shrink, side=(4, 8, 16))

# %% [markdown]
# ### Exercise 1: count *(difficulty 1, 5 minutes)*
#
# How many times fewer numbers has a photograph of 8 x 8 pixels than one of 32 x 32?

# %% tags=["exercise"]
fewer = ...

# %% tags=["solution"]
fewer = 16

# %%
checks.verify("15.fewer", fewer)

# %% [markdown]
# ### Exercise 2: find the baseline *(difficulty 1, 3 minutes)*
#
# A search found a small photograph at 20 dB. What do you compare it with: a photograph of `noise`, or the `mean` of other small photographs?

# %% tags=["exercise", "reading"]
baseline = ...

# %% tags=["solution"]
baseline = "mean"

# %%
checks.verify("15.baseline", baseline)

# %%
widgets.verdicts("15")
