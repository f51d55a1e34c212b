# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08, deeper · How much does a part change with the image?
#
# You come from [lab 08](../08_tracing_the_source.ipynb). There a cosine over all gradients was mostly about one part. But a search follows how the gradient
# *changes* when the image changes. Which parts change most?
#
# After this notebook you can
# - measure how the gradient of a part changes with the image;
# - say what a part contributes to a search that uses all gradients;
# - tell a large part from a sensitive one.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.5 GB |
# | class | 0.4 | 1.6 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 08, and from linear algebra eigenvalues. *New words*: **sensitivity**, **pull**.

# %%
from privlab import data, experiments, models
from privlab.leak import observe
from privlab.notebook import plots, text, widgets

import pandas as pd
import torch
import torch.nn.functional as F
from IPython.display import display
from torch import func

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)

# %%
photos = data.load("cifar10_samples")
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
shape = dict(embed_dim=224, depth=3, position_std=1.0, seed=seed)
model = models.build("vit_cifar", **shape)  # on the CPU: it is quick enough
model.normalise = photos.normalise
leak = observe(model, photo, label)
groups = {"all": [*leak.grads], **models.parts.group(model)}

# %% [markdown]
# ## Near the photograph
#
# Let $u$ be the client's gradient $g$ divided by its length, and $J$ the *Jacobian*, which says how the gradient changes with the pixels. Near the
# photograph, for a small error $d$,
#
# $$1 - \cos \;\approx\; \tfrac12\, d^\top K d , \qquad K = \frac{J^\top (I - u u^\top) J}{|g|^2} .$$

# %% [markdown]
# A search minimises this. How well it does depends on $K$: on how large it is, and on how far its eigenvalues lie apart.

# %% [markdown]
# $J$ has a column for each of 3,072 numbers of the photograph. We compute its effect along a few directions only, by forward differentiation. There are two kinds: the colour of
# each patch as a whole (16 patches, 3 colours), which is the coarse picture, and 24 random directions, which are nearly all fine detail.


# %%
weights = {name: p.detach() for name, p in model.named_parameters()}


def sent(x):  # a normalised image -> its gradient
    def loss(w):
        return F.cross_entropy(func.functional_call(model, w, (x,)), label)

    return func.grad(loss)(weights)


def changes(along):  # how the gradient changes along some directions of the image
    x = model.normalise(photo)
    return [func.jvp(sent, (x,), (direction,))[1] for direction in along]


# %%
def curvature(moved, names):  # K along these directions, for a cosine over these names
    square, products, onto = leak.only(names).norm.double() ** 2, 0, 0
    for name in names:
        rows = torch.stack([change[name].flatten() for change in moved]).double()
        products = products + rows @ rows.T  # (directions, directions)
        onto = onto + rows @ leak[name].flatten().double()
    return (products - onto[:, None] * onto / square) / square


# %%
noise = torch.randn(photo.numel(), 24, generator=torch.Generator().manual_seed(seed))
fine = torch.linalg.qr(noise).Q.T.reshape(24, *photo.shape)  # orthonormal
patch = torch.ones(8, 8) / 8
coarse = torch.kron(torch.eye(48).reshape(-1, 3, 4, 4), patch)[:, None]
spectra, moved = {}, []
for kind, along in {"coarse": coarse, "random": fine}.items():
    moved.clear()  # a third of a gigabyte; those of the last kind are read again below
    moved += changes(along)
    for part, names in groups.items():
        values = torch.linalg.eigvalsh(curvature(moved, names))
        spectra[kind, part] = values.clamp(min=0).sqrt()

# %% [markdown]
# ### Predict
#
# A part's **sensitivity** is the root of its mean curvature over the random directions. It says how much the *direction* of this part's gradient changes when
# the image changes a little.

# %%
guess = widgets.choose(
    "Which is the most sensitive, seen alone?", [*models.parts.group(model)]
)
guess

# %%
shown = {part: spectra["coarse", part] for part in groups}
ends = [f"{part} from {s.max():.1e} to {s.min():.1e}" for part, s in shown.items()]
plots.spectrum(shown, alt=f"Singular values of the Jacobian. {'; '.join(ends)}.")

# %% [markdown]
# Each curve is a part, along the 48 coarse directions. The height is the sensitivity. A flat curve means that all directions are seen about equally well. Look
# for a drop after the third direction: the first three are nearly the mean colour of the image, and all that follows says *where* something is.

# %% [markdown]
# ## Length, pull and sensitivity
#
# The **pull** of a part is its share in the step of a search that looks at all gradients. Compare it with the share of the length.

# %%
unit = {name: g / leak.norm for name, g in leak.grads.items()}  # u


def square(names):  # squared changes of these, without what lies along u
    total = 0.0
    for change in moved:
        along = sum((unit[name] * change[name]).sum() for name in unit)
        across = [(change[name] - along * unit[name]).square().sum() for name in names]
        total += sum(across).item()
    return total


def facts(part, names):
    ratios = [s.max() / s.min() for s in (spectra[kind, part] for kind in KINDS)]
    return [
        100 * (leak.only(names).norm / leak.norm).item() ** 2,
        100 * square(names) / square(groups["all"]),
        1e3 * spectra["random", part].square().mean().sqrt().item(),
        *(ratio.item() for ratio in ratios),
    ]


# %%
KINDS = ("coarse", "random")
columns = ["length, %", "pull, %", "sensitivity, 1e-3"]
columns += [f"largest / smallest, {kind}" for kind in KINDS]
rows = {part: facts(part, names) for part, names in groups.items()}
measured = pd.DataFrame(rows, index=columns).T.round(2)
moved.clear()
measured

# %%
alone = measured.drop(index="all")
sensitive = alone["sensitivity, 1e-3"].idxmax()
display(guess.against(sensitive))
text(
    "On this photograph the largest share of the length is that of {} ({:.0f} %), and "
    "the largest pull is that of {} ({:.0f} %). The most sensitive part, {}, has "
    "{:.2g} % of the length and {:.2g} % of the pull, and seen alone it is {:.1f} "
    "times as sensitive as all gradients together.",
    alone["length, %"].idxmax(),
    alone["length, %"].max(),
    alone["pull, %"].idxmax(),
    alone["pull, %"].max(),
    sensitive,
    alone["length, %"][sensitive],
    alone["pull, %"][sensitive],
    alone["sensitivity, 1e-3"][sensitive] / measured["sensitivity, 1e-3"]["all"],
)

# %% [markdown]
# Read the last two columns row by row. They say how unevenly a part sees the directions: a search finds the well-seen ones first, and waits long for the others. So the
# part that is best after few steps need not be the part that is best in the end.

# %% [markdown]
# ## Read on
#
# [Another deeper notebook](08_regularisation_weight.ipynb) asks what these differences do to the regularisation weight. Lab 13 distributes noise by sensitivity.
