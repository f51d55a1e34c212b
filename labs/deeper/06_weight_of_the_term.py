# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06, deeper · What is APRIL's term worth?
#
# You come from [lab 06](../06_april_by_optimisation.ipynb). APRIL's position term has a weight, which the paper does not print. At which weight does the term change a search?
#
# After this notebook you can
# - measure how much each term of a loss steers a search;
# - choose a weight by a rule that does not use the result.
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

from privlab import compute, data, experiments, metrics
from privlab.attacks import gradient_inversion
from privlab.course.lab_06 import sense_of_place
from privlab.leak import observe
from privlab.models import april
from privlab.notebook import plots, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
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
# (IG also has the signed gradient and the falling step length of Inverting Gradients, so it differs in more than its loss.)

# %% [markdown]
# ## Algorithm 2, line 3: the label
#
# APRIL reads the label from the last layer. For one image, the label's row is the one whose products with all other rows are not positive (lab 04). Is this right every time?

# %%
kept_rule, mine_rule = measured("label_rule")
rows = {
    set: f"label_accuracy[dot_product_rule, batch_1{keys}]"
    for set, keys in (("CIFAR-10", ""), ("MNIST", ", mnist"))
}
plots.evidence(kept_rule, mine_rule, rows, xlabel="share of labels that are read right")

# %% [markdown]
# ## What does the position term do?
#
# The search raises the cosine of the two position gradients towards 1. (The player below will show minus this cosine as "position".) The search starts from pure noise. Which cosine does
# it have there? Predict it first.

# %%
guess = widgets.predict(
    "Cosine between the position gradients of noise and photograph:", low=-1, high=1
)
guess

# %%
start = next(gradient_inversion.april(steps).search(victim(), leak, seed=seed))
print("the losses at the start:", start.losses)
guess.against(-start.losses["position"])

# %% [markdown]
# ### Watch it
#
# Press *Play*, *Pause* or *Step*. Only you see the photograph on the right, the attack does not.

# %%
widgets.watch(
    {"APRIL": lambda: four["april"].search(victim(), leak, seed=seed)}, truth=photo
)

# %% [markdown]
# With an embedding of this size the position gradient hardly depends on the image, so even noise has almost the right one. A search follows the *gradient* of its loss, not the
# loss. So we measure the **gradient share** of the position term. Add up the gradient norms of both terms with respect to the pixels: which share does the position term have at
# $\alpha = 1$?

# %%
share = sense_of_place.gradient_share(victim(), leak, seed)
print(f"the position term's share of what drives this search: {share:.1e}")

# %% [markdown]
# So APRIL with $\alpha = 1$ is almost DLG. The paper must have had another $\alpha$, or another scale of the embedding. We choose the $\alpha$ with which both terms can fall equally
# far from where the search begins. We choose it by this rule, not by the results. An attacker can follow the rule, since it needs only the leak.

# %%
weighed = gradient_inversion.presets.april_balanced(steps, victim(), leak, seed)
weighed

# %% [markdown]
# Now the same search runs with several $\alpha$. With $\alpha = 0$ it is DLG.

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
# The ledger compares $\alpha = 1$ with DLG over several photographs. The term holds information, but its weight must be set relative to how much the term can change.

# %% [markdown]
# ## The paper's cheap defence
#
# Section 4.2 of the paper proposes a defence: do not send the position embedding's gradient, or freeze the embedding. The paper reports that a search then still *matches the
# gradients*, but finds **twin data**: images that look like noise and have nearly the same gradient (Figures 7 and 8).
#
# What does APRIL do with such a gradient? It warns, and goes on without its position term:

# %%
hidden = leak.without(["pos_embed"])
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    state = next(four["april"].search(victim(), hidden, seed=seed))
print(said[-1].message)
print("the losses that are left:", state.losses)
warnings.filterwarnings("ignore", "leak: it lacks the gradient of 'pos_embed'")

# %% [markdown]
# And what does freezing do? Draw the same embedding, but do not train it, and compare the gradients:

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
