# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07, deeper · What does algebra leave for a search?
#
# You come from [lab 07](../07_gradvit.ipynb), or from lab 05, whose linear systems are equations for one photograph. What do they say about a batch, what do they leave unknown, and where does a search stop? Most of this notebook is beyond the papers.
#
# After this notebook you can
# - say where a system for one photograph breaks on a batch;
# - narrow a batch down by algebra before you search;
# - say what a search with curvature adds, and give its terms to its rival before you judge.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 1.4 | 1.3 GB |
# | class | 2.4 | 1.5 GB |
#
# (Estimated, on two CPU cores.)

# %% [markdown]
# *About 55 minutes. You need* labs 05 and 07.

# %%
from dataclasses import replace

from privlab import compute, data, experiments, metrics, models
from privlab.attacks.gradient_inversion import GaussNewton, closed_form
from privlab.experiments.victims.batches import CURVED, lbfgs
from privlab.leak import observe
from privlab.notebook import checks, plots, text, widgets

import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)

# %% [markdown]
# ## Two photographs in a system for one
#
# The client sends $\frac12(G_1 + G_2)$ and $\frac12(B_1 + B_2)$, with $B_k$ the right side of lab 05's system. It holds for each photograph alone, $G_k^\top X_k = B_k$, and
# not for the means. Our functions refuse a batch. An attacker may pretend not to know.
#
# ### Predict

# %%
ONE, MEAN, NEITHER = "one of the two", "their mean", "neither"
guess_two = widgets.choose(
    "Taken for one image, the mean gradient gives", [ONE, MEAN, NEITHER]
)
guess_two

# %%
pair, labels = data.load("cifar10_samples").take([2, 5])  # (2, 3, 32, 32) in [0, 1]
vit = models.april.build("b", depth=2, seed=seed)
sent = replace(observe(vit, pair, labels), batch_size=1)  # a pretence
answer = closed_form.patch_embedding(vit, sent).clamped
truths = {"the one": pair[:1], "the other": pair[1:]}
truths |= {"their mean": pair.mean(0, keepdim=True)}
near = {name: metrics.psnr(answer, one).item() for name, one in truths.items()}
titles = [f"{name}: {value:.1f} dB away" for name, value in near.items()]
plots.side_by_side(
    answer,
    *truths.values(),
    titles=["solved", *titles],
    alt=f"What the system returns for two photographs: PSNR to {near}.",
)

# %%
best = max(near, key=near.get)
found = MEAN if best == "their mean" else ONE
guess_two.against(found if near[best] > 20 else NEITHER)

# %% [markdown]
# Is that luck? The experiment does it many times, with the paper's system and architecture, and takes the error to the nearest photograph of the batch.

# %%
kept_solved = experiments.load("april_closed_form.solved")
mine_solved = experiments.run("april_closed_form.solved", profile, device=device)
solved = {"one image": "mse[closed_form, batch_1]"}
solved |= {f"the nearest of {k}": f"mse[closed_form, batch_{k}]" for k in (2, 4)}
plots.evidence(
    kept_solved, mine_solved, solved, xlabel="mean squared error in pixels", log=True
)

# %% [markdown]
# The paper calls the outcome an average. It is one that is weighted by the gradients, and it may leave the range of pixels.
#
# The row space of the first attention's gradient is a better start. With $B$ images of $n$ patches it has $Bn + 1$ dimensions, one of them for the class token, which enters the same in all.
# An attacker who counts right uses all of it. The equations are true then, and there are fewer of them.

# %%
opened = widgets.predict("Two images, 16 patches: directions that stay open", 0, 192)
opened

# %%
known = models.april.build("b", depth=2, seed=seed, position="random")
counts = {size: closed_form.hidden_directions(known, size) for size in (1, 2, 3, 4)}
opened.against(counts[2])

# %%
text(
    "With one image {} directions are open, with two {}, with three {} and with four "
    "{}: each image more opens as many as there are patches, *n(B - 1)* in all.",
    *counts.values(),
)

# %% [markdown]
# ## Narrow it down first
#
# A search among all pixels looks for 3,072 numbers an image. By lab 05 the weight gradient of the first attention gives one image away without a search. A *batch* leaves each patch
# an affine family of $n(B-1)$ dimensions, with $n$ patches and $B$ images: the patch plus any combination of the differences between the batch's own patches. For two images that is 16 of 192 numbers.
# All else of each patch is known exactly.
#
# So search there and nowhere else. Three things help:
#
# - Start at the best estimate. `expected` takes the patches of public photographs as Gaussian, and gives the most likely point on the family. This point is the same for all images of
#   the batch, so each gets a little noise that parts them.
# - Measure steps in units of what varies: one unit is one standard deviation of natural patches.
# - Sixteen numbers a patch and image, 512 in all for two images, are few enough for L-BFGS, on DLG's squared distance.
#
# ### Predict
#
# Four photographs. The search inside the family may ask for as many gradients of the network as the other searches.

# %%
guess = widgets.predict("PSNR inside the family, batches of four:", 5, 60, "dB")
guess

# %%
kept = experiments.load("batch_family.ways")
mine = experiments.run("batch_family.ways", profile, device=device)
shown = kept or mine
ways = {
    "inside, L-BFGS": "family",
    "pixels, L-BFGS": "pixels",
    "annealed": "annealed",
    "GradViT": "gradvit",
    "no search: likeliest point": "family, guess",
    "no search: mean photograph": "family, mean_photograph",
}
rows = {
    f"{size} images: {label}": f"psnr[{way}, batch_{size}]"
    for size in (2, 3, 4)
    for label, way in ways.items()
}
rows = {label: name for label, name in rows.items() if name in shown.table}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %%
guess.against(round(shown.mean("psnr[family, batch_4]"), 1))

# %%
strip = plots.tiles(shown.picture("picture[photographs_and_ways, batch_2]"), 32)
titles = ["photographs", "inside, L-BFGS", "pixels, L-BFGS", "annealed"]
titles += ["inside, Gauss-Newton", "GradViT", "pixels, Gauss-Newton"]
titles += ["pixels, L-BFGS, same terms"]
rows = dict(zip(titles, strip.split(2), strict=False))
alt = f"Two photographs, and what each search has of them: {', '.join(rows)}."
plots.images(rows, alt=alt)

# %% [markdown]
# ## Where it stops
#
# The family needs a ViT whose first block is a norm and an attention, the unharmed gradient of that weight, and a width above $3p^2 + Bn + 1$. It needs neither the labels nor a large position embedding. The *search* needs
# more. Here is a victim with a small position embedding, and a trained one.

# %%
kept_hard = experiments.load("batch_family.harder_victims")
mine_hard = experiments.run("batch_family.harder_victims", profile, device=device)
answers = {"no search: likeliest point": "guess", "L-BFGS": "lbfgs", "Adam": "adam"}
answers |= {"L-BFGS, other terms": "lbfgs_same_terms", "Gauss-Newton": "gauss_newton"}
cases = {"std 0.02": "std_0p02", "trained": "trained"}


def harder(*chosen):
    return {
        f"{case}: {label}": f"psnr[family, {answers[label]}, {key}]"
        for case, key in cases.items()
        for label in chosen
    }


first = harder(*list(answers)[:3])
plots.evidence(kept_hard, mine_hard, first, xlabel="PSNR in dB")

# %%
hard = kept_hard or mine_hard
text(
    "The point of the family that is nearest to the photographs, which only we can "
    "know, has {:.0f} dB behind the small embedding and {:.0f} dB behind the trained "
    "victim.",
    *(hard.mean(f"psnr[family, nearest_point, {case}]") for case in cases.values()),
)

# %% [markdown]
# Where that point is exact, a search has only to find it. How well it does depends on how smooth the loss is between the start and the photographs.
#
# Where it is not, a part of the photographs has left this gradient. A long training can make attention so sharp that a patch is looked at by no other. Such a patch sends nothing through
# the first attention's weight.
#
# ## A search that knows the curvature
#
# L-BFGS estimates curvature from a few gradients. Lab 04 has a search that asks for it: *Gauss-Newton*. With $r$ the differences between a candidate's gradient and the client's, $J = \partial r / \partial x$ and a *damping* $\lambda$, each step solves
#
# $$(J^\top J + \lambda I)\, s = -J^\top r .$$
#
# The cost is counted in *passes* through the network: each $J v$, each $J^\top u$ and each look at a point is one. A step of Adam takes two, and so does an evaluation of L-BFGS. So Gauss-Newton gets twice as many passes as L-BFGS had evaluations.
#
# It brings terms of its own: differences relative to the client's gradient, tensor by tensor, and a weak smoothness that fades as the gradients are matched. So *two* things change, the method and the terms.
# To tell them apart, L-BFGS gets the same terms. There the smoothness fades with time.

# %%
print(GaussNewton(200))
print(lbfgs(5, CURVED))

# %% [markdown]
# ### Predict

# %%
guess_curved = widgets.predict(
    "PSNR of Gauss-Newton less that of L-BFGS, inside, two photographs:", -10, 20, "dB"
)
guess_curved

# %%
rows = {"inside: Gauss-Newton": "gauss_newton, family", "inside: L-BFGS": "family"}
rows |= {"pixels: Gauss-Newton": "gauss_newton, pixels"}
rows |= {"pixels: L-BFGS, same terms": "lbfgs_same_terms, pixels"}
rows = {label: f"psnr[{name}, batch_2]" for label, name in rows.items()}
rows["pixels: annealed"] = "psnr[annealed, batch_2]"
plots.evidence(kept, mine, rows, xlabel="PSNR in dB, two images")

# %%
inside = "psnr[gauss_newton, family, batch_2] - psnr[family, batch_2]"
outside = (
    "psnr[gauss_newton, pixels, batch_2] - psnr[lbfgs_same_terms, pixels, batch_2]"
)
display(guess_curved.against(round(shown.mean(inside), 1)))
text(
    "Among all pixels Gauss-Newton differs from annealed by {:+.1f} dB, and from "
    "L-BFGS with the same terms by {:+.1f} dB.",
    shown.mean("psnr[gauss_newton, pixels, batch_2] - psnr[annealed, batch_2]"),
    shown.mean(outside),
)

# %% [markdown]
# Now the two harder victims again, with the other terms, for both methods.

# %%
plots.evidence(kept_hard, mine_hard, harder(*answers), xlabel="PSNR in dB")

# %% [markdown]
# Gauss-Newton takes back a step that makes things worse. That keeps it from falling. Behind the small embedding
# it ends above the guess. Behind the trained victim it is not ahead of Adam.

# %% [markdown]
# ### Exercise 1: one damped step *(difficulty 2, 15 minutes)*
#
# For a network nobody writes $J$ down. Here it is small enough: a tensor of shape (differences, unknowns). Write `step(J, r, damping)`, the $s$ of the equation above. It needs an answer also where there are fewer differences than unknowns.
#
# <details><summary>Hint</summary>$J^\top J$ has as many rows as there are unknowns. <code>torch.linalg.solve(A, b)</code> solves $A s = b$; <code>torch.eye(n, dtype=J.dtype)</code> is $I$.</details>


# %% tags=["exercise"]
def step(J, r, damping): ...


# %% tags=["solution"]
def step(J, r, damping):
    eye = torch.eye(J.shape[1], dtype=J.dtype)
    return torch.linalg.solve(J.T @ J + damping * eye, -J.T @ r)


# %%
checks.verify("07.damped", step)

# %% [markdown]
# Along a direction that $J$ stretches by $\sigma$ this step goes a share $\sigma^2 / (\sigma^2 + \lambda)$ of the way that would bring the differences to zero. Where the gradient hardly changes, $\sigma$ is next to nothing, and so is the step. What the gradient does
# not say, no curvature brings back.
#
# ## Read on
#
# Lu et al. 2022, section 4.1, on batches. The page on the second order in the book has longer searches. Lab 05 has the algebra, and a deeper notebook of lab 04 has Gauss-Newton.
