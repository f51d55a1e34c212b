# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02, deeper · Can the shadow models give the answer away?
#
# You come from [lab 02](../02_likelihood_ratio.ipynb). There the networks come in pairs, and the victim's partner is left out. In most published fleets they do not.
#
# After this notebook you can
# - say how a fleet in which each picture is in exactly half of the networks gives the answer away;
# - test an attack on margins that know nothing.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.0 GB |
# | class | 0.5 | 1.1 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 15 minutes. You need* lab 02.

# %%
from inspect import getsource

from privlab import compute, data, experiments
from privlab.notebook import plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "likelihood_ratio.noise"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
shown = kept or mine

# %% [markdown]
# ## The keep matrix
#
# It is drawn once, and written to disk before any training. Each picture must be in *exactly* half of the networks. If a coin decided, some pictures would be in almost none.

# %%
print(getsource(data.in_out))

# %%
print("not in pairs:", data.in_out(10, 8, seed=0).int(), sep="\n")
print("in pairs:", data.in_out(10, 8, seed=0, pairs=True).int(), sep="\n")

# %% [markdown]
# Suppose that the networks do not come in pairs. Each picture is still in exactly half of eight. Take the first network as the victim, and count how many of the *other seven* hold
# a picture. If it is four, the victim does not hold it. If it is three, the victim does. So the answer stands in the shadow models' own rows.

# %% [markdown] tags=["printed"]
# ### Predict
#
# The attack does not count. It fits Gaussians. Give it margins that are pure noise, where nothing can be known. An honest attack then has an AUC of 0.5. (AUC is *the
# probability that a member scores higher than a non-member*.)

# %%
LESS, HALF, MORE = "below 0.49", "0.49 to 0.51", "above 0.51"
guess = widgets.choose("Not in pairs, its AUC on noise is", [LESS, HALF, MORE])
guess

# %%
rows = {"not in pairs": "auc[noise, unpaired]", "in pairs": "auc[noise, paired]"}
plots.evidence(kept, mine, rows, xlabel="AUC on noise (0.5 knows nothing)")

# %%
level = shown.mean(rows["not in pairs"])
display(guess.against(LESS if level < 0.49 else MORE if level > 0.51 else HALF))
text(
    "On noise the AUC is {:.3f} where networks do not come in pairs, and {:.3f} where "
    "they do. (Means over {} repeats.)",
    level,
    shown.mean(rows["in pairs"]),
    len(shown),
)

# %% [markdown]
# ## Why
#
# A mean and a spread from three networks are less certain than those from four. The side on which the victim stands has three, because the victim itself is missing there. So a victim
# fits its own side a little worse, whichever that is: members look like non-members. With few networks the effect is large. In pairs, with the partner left out, both sides have
# three networks, always.
#
# A real attack has the same error in it, on top of what it knows. It makes the attack look weaker than it is. The authors' public code escapes it: it uses equally many networks on both
# sides.

# %% [markdown]
# ## Read on
#
# Carlini et al. 2022, Algorithm 1, has the usual fleet. The docstring of `privlab.attacks.membership_inference.lira` has a table of the error by number of networks.
