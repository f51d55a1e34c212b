# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06, deeper · What is APRIL's term worth?
#
# You come from [lab 06](../06_april_by_optimisation.ipynb). Its position term has a weight that the paper does not print. When does it change a search?
#
# After this notebook you can
# - say how much of a search its terms decide;
# - choose a weight by a rule, without a look at the result.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 1 | 1.4 GB |
#
# (Smoke measured on two CPU cores; class estimated.)

# %% [markdown]
# *About 35 minutes. You need* lab 06.

# %%
import warnings

import torch

from privlab import compute, data, experiments, metrics
from privlab.attacks import gradient_inversion
from privlab.experiments import sense_of_place
from privlab.leak import observe
from privlab.models import april
from privlab.notebook import player, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
device = compute.device(device)
steps = {"smoke": 3, "class": 40}.get(profile, 1500)  # of what is searched live
shape = {"smoke": dict(width=224, depth=2), "class": dict(depth=2)}.get(profile, {})


def victim(**changes):  # a fresh architecture B, or another one
    size = {"seed": seed, "position_std": 1.0} | shape | changes
    return april.build(**{"architecture": "b"} | size).to(device)


photos = data.load("cifar10_samples")
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
leak = observe(victim(), photo, label)


def measured(name):  # the committed evidence, and what is measured here and now
    name = f"april_by_optimisation.{name}"
    return experiments.load(name), experiments.run(name, profile, device=device)


# %%
four = gradient_inversion.presets.lu2022(steps)
for name, attack in four.items():
    print(f"{name}: {attack}", end="\n\n")

# %% [markdown]
# (IG keeps the sign and the falling step of Inverting Gradients, so it differs in more than its equation.)

# %% [markdown]
# ## Algorithm 2, line 3: the label
#
# APRIL reads the label off the last layer: of one image it is the row whose products with all other rows are not positive (lab 04). Is it right every time?

# %%
kept_rule, mine_rule = measured("label_rule")
rows = {
    set: f"label_accuracy[dot_product_rule, batch_1{keys}]"
    for set, keys in (("CIFAR-10", ""), ("MNIST", ", mnist"))
}
plots.evidence(kept_rule, mine_rule, rows, xlabel="share of labels that are read right")

# %% [markdown]
# ## Watch it
#
# *Play*, *Pause*, *Step*. The photograph on the right is for you alone.

# %%
player.watch(lambda: four["april"].search(victim(), leak, seed=seed), truth=photo)

# %% [markdown]
# ## What does the position term do?
#
# The cosine of the position gradients is to rise to 1 ("position" in the player is minus that). Where does it begin, with
# an image of pure noise? Predict it first.

# %%
guess = widgets.predict(
    "cosine between the position gradients of noise and photograph:", low=-1, high=1
)
guess

# %%
start = next(gradient_inversion.april(steps).search(victim(), leak, seed=seed))
print("the losses at the start:", start.losses)
guess.against(-start.losses["position"])

# %% [markdown]
# With an embedding of this size the position gradient hardly depends on the image, so noise has nearly the right one already. And what drives a search is
# not a loss but its *gradient*. So we measure the **gradient share** of the term: of the steepness of both terms over the pixels, how much is the
# position term's at $\alpha = 1$?

# %%
share = sense_of_place.gradient_share(victim(), leak, seed)
print(f"the position term's share of what drives this search: {share:.1e}")

# %% [markdown]
# So $\alpha = 1$ would be DLG under another name; the paper's $\alpha$, or its scale, must have been another. We choose $\alpha$ such that
# both terms have equally far to fall from where the search begins. That is a rule, not a choice by results; the attacker can follow it, since it needs
# only the leak.

# %%
weighed = gradient_inversion.presets.april_balanced(steps, victim(), leak, seed)
weighed

# %% [markdown]
# Now the same search at several $\alpha$, 0 being DLG.

# %%
ways = {
    "0": four["dlg"],
    "1": four["april"],
    "1e+04": gradient_inversion.april(steps, 1e4),
    "balanced": weighed,
}
by_alpha = {
    name: attack.run(victim(), leak, seed=seed, progress=False)
    for name, attack in ways.items()
}
for name, result in by_alpha.items():
    print(f"alpha {name:>8}: {metrics.psnr(result.images, photo).item():.2f} dB")


# %%
def at_alpha(alpha, step):
    result = by_alpha[alpha]
    shot = min(result.snapshots, key=lambda s: abs(s.step - step))
    decibels = metrics.psnr(shot.images, photo).item()
    said = f"alpha {alpha}, step {shot.step}: {decibels:.1f} dB"
    alt = f"The photograph, and what APRIL has of it: {said}."
    return plots.side_by_side(
        photo, shot.images, titles=["the photograph", said], alt=alt
    )


every = [s.step for s in by_alpha["0"].snapshots]
widgets.explore(
    at_alpha, start={"step": every[-1]}, alpha=tuple(by_alpha), step=tuple(every)
)

# %% [markdown]
# Over several photographs the ledger holds $\alpha = 1$ against DLG. The term is real, but it must be weighed in units of what it can
# change.

# %% [markdown]
# ## The paper's cheap defence
#
# Section 4.2 of the paper: do not send the position embedding's gradient, or freeze the embedding. Then, it reports, a search still *matches the gradients*, but finds
# **twin data**: images that look like nothing and send nearly the same gradient (Figures 7 and 8).
#
# What does APRIL do with such a gradient? It says so:

# %%
hidden = leak.without(["pos_embed"])
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    state = next(four["april"].search(victim(), hidden, seed=seed))
print(said[-1].message)
print("the losses that are left:", state.losses)
warnings.filterwarnings("ignore", "leak: it lacks the gradient of 'pos_embed'")

# %% [markdown]
# And freezing? Draw the same numbers, but do not learn them, and compare the gradients:

# %%
frozen = observe(victim(position="random"), photo, label)
same = all(torch.equal(frozen[name], leak[name]) for name in frozen.grads)
print(
    f"{len(leak.grads)} gradients where it learns, {len(frozen.grads)} where it is "
    f"frozen; all of these the same: {same}"
)

# %% [markdown]
# ## Read on
#
# Lu et al. 2022, sections 3.3 and 4.2.
