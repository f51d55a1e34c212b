# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06, deeper · Why is one ViT harder to search than another?
#
# You come from [lab 06](../06_april_by_optimisation.ipynb). The size of the position embedding decides what a search finds. What is the mechanism, and how far does it reach?
#
# After this notebook you can
# - say why a linear solve does not care about a condition number, and a search does;
# - say which published figures the size may explain.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 1.5 | 1.4 GB |
#
# (Smoke measured on two CPU cores; class estimated.)

# %% [markdown]
# *About 50 minutes. You need* lab 06.

# %%
import torch

from privlab import compute, experiments
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
device = compute.device(device)


# %%
def measured(name):  # the committed evidence, and what is measured here and now
    name = f"april_by_optimisation.{name}"
    return experiments.load(name), experiments.run(name, profile, device=device)


# %%
def best(kept, mine):  # the evidence, or the live run where there is none yet
    return kept if len(kept) else mine


# %%
def pictures(evidence, name, titles):  # a strip that an experiment keeps, cut apart
    strip = torch.from_numpy(evidence.picture(f"picture[{name}]")) / 255
    strip = strip if strip.ndim == 3 else strip[..., None]
    cut = [x.permute(2, 0, 1)[None] for x in strip.split(len(strip), dim=1)]
    alt = f"{name.replace('_', ' ')}: {', '.join(titles)}."
    return plots.side_by_side(*cut, titles=titles, alt=alt)


# %% [markdown]
# ## Why do some ViTs leak and others not?
#
# Published figures for searches on ViTs lie far apart (Zhang et al., Table 6; Hatamizadeh et al., Table 1, for batches). One number may explain much of it; this section is ours.
# We change only the *standard deviation of the position embedding*, and run the annealed search of lab 04 on each.

# %% [markdown]
# ### Before you go on: predict
#
# Which end is easier to search?

# %%
guess = widgets.predict(
    "PSNR at a standard deviation of 1 less that at 0.02:", low=-15, high=15, unit="dB"
)
guess

# %%
kept_scale, mine_scale = measured("scale")
shown = best(kept_scale, mine_scale)
guess.against(shown.mean("psnr[fresh, std_1]") - shown.mean("psnr[fresh, std_0p02]"))

# %%
scales = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def along(metric):
    """Names of what is measured at each scale."""
    return {std: metric.format(f"std_{std:g}".replace(".", "p")) for std in scales}


lines = {
    "with smoothness (annealed)": along("psnr[fresh, {}]"),
    "gradients alone": along("psnr[gradients_alone, {}]"),
}
line = {"mean photograph": shown.mean("psnr[cifar10, mean_photograph]")}
plots.evidence_lines(
    kept_scale,
    mine_scale,
    lines,
    xlabel="standard deviation of the position embedding",
    ylabel="PSNR in dB",
    log="x",
    thresholds=line,
)

# %% [markdown]
# (The mean photograph is the line to beat: below it a search has found noise.) Look at *which part* of the photograph goes first.

# %%
there = [
    f"std {std:g}"
    for std, name in along("psnr[fresh, {}]").items()
    if name in shown.table
]
pictures(shown, "photograph_and_scales", ["the client's", *there])

# %% [markdown]
# ### And the closed form?
#
# What does the scale do to the system of lab 05, $G^\top X = \partial\ell/\partial W$, in which $G$ holds the tokens' gradients?

# %%
plots.evidence_lines(
    kept_scale,
    mine_scale,
    {"closed form": along("psnr[patch_embedding, {}]")},
    xlabel="standard deviation of the position embedding",
    ylabel="PSNR in dB",
    log="x",
)

# %%
plots.evidence_lines(
    kept_scale,
    mine_scale,
    {"of the tokens' gradients": along("log10_condition[fresh, {}]")},
    xlabel="standard deviation of the position embedding",
    ylabel="log10 of the condition",
    log="x",
)

# %% [markdown]
# The condition number falls with the scale (tenfold from 0.02 to 1, of three images), and the closed form does not care: it is exact at either end. Here is why a search must care. Hold $G$ still. Then
# the part of the squared distance that belongs to the patch embedding is
#
# $$\lVert G^\top (X' - X) \rVert^2 = \sum_i s_i^2\, \lVert u_i^\top (X' - X) \rVert^2 ,$$
#
# with $s_i$ and $u_i$ the singular values and left singular vectors of $G$.

# %% [markdown]
# A solver divides by each $s_i$, and pays for a small one with digits: a condition of
# $10^3$ costs three of float32's seven. A descent pays with *steps*: along $u_i$ the valley is $s_i^2$ steep, so the number of steps grows with the *square* of the
# condition. (The exercise below. It is a sketch: $G$ moves with the image, and there are other gradients.)

# %% [markdown]
# What is the steepest direction? If the tokens' gradients were all equal, $u_1$ would be the same for all patches, and only $\sum_i x_i$, the **mean
# patch**, could be told. Are they? And is that what comes back?

# %%
for metric, unit in {
    "psnr[mean_patch, {}]": "PSNR in dB",
    "correlation[differences_between_patches, {}]": "r",
    "row_cosine[position_gradient, {}]": "cosine",
}.items():
    print(
        metric.format("..."),
        {
            std: round(shown.mean(n), 2)
            for std, n in along(metric).items()
            if n in shown.table
        },
        unit,
    )

# %% [markdown]
# Two answers. Yes, the mean patch comes back at *every* scale; what the scale decides is the differences between patches. But no, the
# tokens' gradients are not more alike at a small scale: their mean cosine hardly moves.

# %% [markdown]
# ### A sense of place
#
# So what else? Attention without a position embedding is blind to order: shuffle the patches, and the class token sees the same bag. Every gradient stays as it was, except
# for the position embedding's own, whose rows are shuffled along (lab 06, exercise 1). A *small* embedding is nearly none.

# %% [markdown]
# The **sense of place**, our word: how far the
# gradient moves when the photograph's patches are shuffled, over how far it is from that of noise, both as one minus cosine.

# %%
lines = {
    "sense of place": along("log10_sense_of_place[{}]"),
    "distance of noise": along("log10_distance_of_noise[{}]"),
}
plots.evidence_lines(
    kept_scale,
    mine_scale,
    lines,
    xlabel="standard deviation of the position embedding",
    ylabel="log10",
    log="x",
)

# %% [markdown]
# The mechanism has two ends.
#
# - **Too small**: which patch stands where makes next to no difference to the gradient. A search sees the bag first,
#   and runs out of steps before it sees the places.
# - **Too large**: the sense of place stays, but a LayerNorm divides by the size of the token, so the *whole* image drowns in the embedding: read off
#   the figure how near noise comes then. The smoothness, not weighted for that, flattens the
#   picture: compare the line without it above. A squared distance or a cosine in float32 has few digits left there.

# %% [markdown]
# ### Whose embedding?
#
# The class token has an embedding too, and `position_std` scales it along. Which of the two matters? All four combinations:

# %%
quarters = {
    "both 1": "fresh, std_1",
    "patches 1, class token 0.02": "patches_std_1, class_std_0p02",
    "patches 0.02, class token 1": "patches_std_0p02, class_std_1",
    "both 0.02": "fresh, std_0p02",
}
plots.evidence(
    kept_scale,
    mine_scale,
    {name: f"psnr[{key}]" for name, key in quarters.items()},
    xlabel="PSNR in dB",
)

# %% [markdown]
# Is either enough alone? The claims on this section hold both against one. A guess, not measured: a small class token drowns in the first
# thing that attention tells it, the mean over the patches.

# %% [markdown]
# ### Trained victims
#
# Does it outlast training? Two victims, drawn at 0.02 and at 1, are trained alike, then attacked as before.

# %%
kept_trained, mine_trained = measured("trained")
rows = {
    "drawn at 0.02": "trained, std_0p02",
    "drawn at 1": "trained, std_1",
    "mean photograph": "cifar10, mean_photograph",
}
plots.evidence(
    kept_trained,
    mine_trained,
    {name: f"psnr[{key}]" for name, key in rows.items()},
    xlabel="PSNR in dB, trained victims",
)

# %% [markdown]
# At the size `class` (400 images, four epochs) the searches find less than the mean photograph at *either* scale, as on the trained Swin of lab 04: a little training hid the image
# from this search, and an order between two searches that fail would say nothing.

# %% [markdown]
# ### Which published figures does it explain?
#
# *Measured here*: on one architecture, fresh weights, one search, the scale alone moves the outcome by the margin above. *Inferred*, and not more than that:
#
# - **Lu et al. 2022** see all attacks succeed on small images. The code that they name draws the embedding, the class token and all with 1. That fits, if their victims were fresh; they do not say.
# - **Zhang et al. 2024** (Table 6) recover the photograph from a ViT-B and print no scale. With timm's fresh 0.02 none of our searches got anywhere near. Another scale, a larger model, or more steps: we cannot tell.
# - **Hatamizadeh et al. 2022** attack *trained* ViTs and DeiTs with batches and reach much less. No pretrained ViT could be had where this
#   book was written; as training closes the door by itself, scale need not be the reason there.

# %% [markdown]
# ### Exercise 1: a narrow valley *(difficulty 3, 15 minutes)*
#
# A descent on $\sum_i s_i^2 z_i^2$ with one step length for all directions, and the best one, shrinks the worst of its directions by
# $\frac{s_1^2 - s_n^2}{s_1^2 + s_n^2}$ in each step.

# %% [markdown]
# Write `steps_needed(condition, factor)`: how many whole steps until every direction has shrunk by `factor` or more, if
# $s_1/s_n$ is `condition`? (Put in the conditions that the notebook showed above, at 1 and at 0.02.)
#
# <details><summary>Hint</summary>Divide above and below by the square of the smallest. Then how often do you multiply by that number until you are at 1/factor?</details>


# %% tags=["exercise"]
def steps_needed(condition, factor): ...


# %% tags=["solution"]
def steps_needed(condition, factor):
    rate = (condition**2 - 1) / (condition**2 + 1)
    steps = 0
    left = 1.0
    while left > 1 / factor:
        left *= rate
        steps += 1
    return steps


# %%
checks.verify("06.valley", steps_needed)

# %% [markdown]
# ## Read on
#
# Lab 04 asks for curvature in place of more steps.
