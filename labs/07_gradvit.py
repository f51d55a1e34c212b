# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07 · GradViT: a batch of images from one gradient
#
# A real client sends the *mean* gradient of a batch. GradViT (Hatamizadeh et al. 2022) was the
# first attack that got recognisable batches out of Vision Transformers, by piling assumptions about images on top of gradient matching. You take the pile apart: which term does what, and is it the terms that do it? At the end you put something of ours beside it.
#
# After it you can
# - read the loss of GradViT term by term, and edit its schedule;
# - read the labels of a whole batch off the last layer, and say when that fails;
# - run an ablation with paired differences;
# - measure whether a blurred reconstruction still *identifies* its image among thousands;
# - narrow a batch down by algebra before you search, and say where that stops.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.6 | 1.4 GB |
# | class | 2.5 | 1.6 GB |

# %% [markdown]
# *You need* labs 04 and 05. *Words that are new here*: **schedule**, **image prior**, **registration**, **ablation**, **identifiability**.

# %%
import math
from dataclasses import replace
from inspect import getsource

import torch
import torch.nn.functional as F

from privlab import experiments, ledger, metrics
from privlab.attacks import gradient_inversion
from privlab.experiments.batch_family import CURVED, gauss_newton, lbfgs
from privlab.experiments.batch_inversion import STDS, gradvit, photographs, prior, vit
from privlab.experiments.gradvit import ablation_rows
from privlab.leak import observe
from privlab.notebook import checks, player, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
width, live_steps = (128, 20) if profile == "smoke" else (384, 40)  # of the searches that you watch


def both(name):
    """What is kept of an experiment, and what one repeat of it gives here and now."""
    return experiments.load(name), experiments.run(name, profile, device=device)


def best(kept, mine):
    """The committed repeats, or the one just measured where there are none yet."""
    return kept if len(kept) else mine


def strip(evidence, name, alt):
    """A picture that an experiment keeps."""
    image = torch.from_numpy(evidence.picture(name)) / 255
    image = image.permute(2, 0, 1) if image.ndim == 3 else image[None]
    return plots.side_by_side(image[None], titles=[""], alt=alt)


# %% [markdown]
# ## One gradient, several images
#
# The client averages over its batch: $g^\star = \frac1N \sum_b \nabla_\theta\, \ell(f_\theta(x_b), y_b)$. So the server looks for $N$ images at once. GradViT's loss
# (eq. 1 of the paper) has two main terms, each with a weight that depends on the step $t$, and a few helpers:
#
# $$\hat x = \arg\min_x \; \Gamma(t)\, \mathcal L_{\text{grad}}(x) \;+\; \Upsilon(t)\, \mathcal R_{\text{image}}(x) \;+\;
# \alpha_1 \mathcal R_{\text{patch}}(x) + \alpha_2 \mathcal R_{\text{reg}}(x) + \alpha_3 \mathcal R_{\text{prior}}(x) .$$

# %%
print(gradvit(120_000, image=0.2, relative=False, size=None))

# %% [markdown]
# Term by term:
#
# - **Gradients** (eq. 3): for each layer (here: each parameter tensor) the *length* of the difference, not its square, and the lengths added. A tensor with small gradients
#   pulls as hard as one with large ones.
# - **Labels** (eq. 2): read off the last layer before the search.
# - **Image prior** (eq. 4, `statistics`): a ViT has no BatchNorm, so a separate network lends its own. It was trained on photographs, and its BatchNorm layers
#   remember the mean and the variance of what entered them. Images that give others do not look like photographs.
# - **Schedule** (eqs. 5 and 6): the prior is off for the first half of the run. In the second half it is on, and the gradients count half.

# %% [markdown]
# - **Patch prior** (eq. 8, `patches`): a ViT hardly minds in which order its patches come. So pixels on both sides of a joint between patches should agree.
# - **Registration** (eqs. 9 and 10): several searches from different noise run at once. Each is shifted to where it fits their mean best, and is
#   pulled towards the mean of the shifted.
# - **Extra priors** (eq. 11): the length of the image and its total variation.

# %%
print(getsource(gradient_inversion.objectives.layer_norms))

# %% [markdown]
# ### The price of a prior
#
# The paper takes MoCo's ResNet-50 for its image prior, with a weight of 0.2. Its file is in no registry, so we
# take EfficientNet-lite0. Does the weight fit another network? Here is what the terms say of photographs, of the same blurred, and of noise.

# %%
images, classes = photographs(4, seed)
judge = vit(seed, width=width)
leak = observe(judge, images, classes)
blurred = F.interpolate(F.avg_pool2d(images, 4), 32, mode="bilinear")
noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
shown = {"photographs": images, "blurred": blurred, "noise": noise}


def statistics_of(pictures, **how):
    value = gradient_inversion.priors.BatchNormStatistics(prior(), **how).prepare(judge, leak)
    with torch.no_grad():
        return value(leak.normalise(pictures), {}, leak).item()


# %%
for how in (dict(), dict(size=64, relative=True), dict(size=128, relative=True)):
    values = {name: statistics_of(pictures, **how) for name, pictures in shown.items()}
    print(how or "as in eq. 4", {name: round(value, 1) for name, value in values.items()})
grads = observe(judge, noise, classes).grads
print(f"eq. 3 at the start: {gradient_inversion.objectives.layer_norms(None, grads, leak):.2f}")

# %% [markdown]
# EfficientNet-lite0's statistics come to more than ten thousand. At the paper's weights, 0.2 for the prior and 0.004 for the gradients, the client's gradient would hardly count.
# So here each mean counts in units of its running deviation and each variance in units of its running variance (`relative`),
# images are enlarged to 64 pixels, and the weight is 1e-4: our choice, not the paper's. And registration is off: more of that below.

# %% [markdown]
# ### Watch one
#
# Two photographs from one gradient. *Play* it past the half, where the prior comes in.

# %%
images, classes = photographs(2, seed)
two = vit(seed, width=width)
leak = observe(two, images, classes)
player.watch(
    lambda: gradvit(live_steps).search(two, leak, seed=seed), truth=images, stride=5 if profile == "smoke" else 10
)

# %% [markdown]
# ## The labels of a batch
#
# Row $i$ of the last layer's weight gradient is $\frac1N \sum_b (p_{bi} - [y_b = i])\, f_b^\top$, with $f_b$ the features of image $b$ and $p_{bi}$ its probability of class $i$.
# GradViT takes the $N$ rows that hold the most negative numbers (`row_minimum`, eq. 2), which presupposes $N$ *different* labels. `bias_minimum` reads the
# bias in place of the weight. `bias_counts` (after Wainakh et al. 2022) undoes the pull of one image, $1/N$, each time that it names a class, so it can name one twice.

# %% [markdown]
# Does it hold for a network that has learnt something? A small ResNet and a small ViT, trained for a few epochs:

# %% [markdown]
# ### Before you go on: predict
#
# Four images with labels drawn at random, so some repeat, behind the trained ViT. What share of the labels does GradViT's rule name? (A guess of four *different* labels gets a bit more than a third.)

# %%
guess_labels = widgets.predict("share of the labels that row_minimum finds:", low=0, high=1)
guess_labels

# %%
kept, mine = both("gradvit.labels")
shares = {
    f"{who}, {kind}: {rule.replace('_', ' ')}": f"label_accuracy[{rule}, {who}, {kind}]"
    for who, kind in (("vit, fresh", "distinct"), ("vit, trained", "distinct"), ("vit, trained", "repeated"), ("resnet, trained", "repeated"))
    for rule in ("row_minimum", "bias_minimum", "bias_counts")
}  # fmt: skip
plots.evidence(kept, mine, shares, xlabel="share of four labels found")

# %%
guess_labels.against(best(kept, mine).mean("label_accuracy[row_minimum, vit, trained, repeated]"))

# %% [markdown]
# With the fresh ViT and distinct labels, for which it was made, the rule fails. Why? Ask how much the features of two images differ, here and at timm's scale of the position
# embedding.

# %%
for std in STDS.values():
    model = vit(seed, std, width=width)
    with torch.no_grad():
        features = model.forward_head(model.forward_features(model.normalise(images)), pre_logits=True)  # (2, width)
    print(f"std {std:g}: cosine between the features of two images {torch.cosine_similarity(*features, dim=0):.2f}")

# %% [markdown]
# With a large embedding the class token sees mostly positions, all images leave nearly the same features, and these have either sign. Then a row is about $\sum_b (p_{bi} - [y_b = i])$ times *one* vector, and a class that is absent
# ($+p$ times the vector's lowest number) can reach further down than one that is present. The bias is blind to features, and stays right at either scale.
#
# The searches below are handed the labels in the order of the client's images, so that what comes back need not be sorted.

# %% [markdown]
# ### Exercise 1: labels that repeat
#
# Write `labels_of(gradient, batch)`: given the bias gradient of the last layer (one number a class) of a batch of so many images, the list of their labels, repeats included.
#
# <details><summary>Hint</summary>Each image pulls its class's number down by 1/batch. Name the class with the smallest number, undo one pull, look again.</details>


# %% tags=["exercise"]
def labels_of(gradient, batch): ...


# %% tags=["solution"]
def labels_of(gradient, batch):
    left, found = gradient.clone(), []
    for _ in range(batch):
        found.append(int(left.argmin()))
        left[found[-1]] += 1 / batch
    return found


# %%
checks.verify("07.counts", labels_of)

# %% [markdown]
# ## The schedule, by hand
#
# A schedule is a tuple of *stages*, each a part of the run (from 0 to 1) and a factor on the term's weight from there on.

# %% [markdown]
# ### Exercise 2: equations 5 and 6 as stages
#
# Write the schedules of both terms.
#
# <details><summary>Hint</summary>Factors, not weights: a term whose weight is as given has factor 1. Two stages each.</details>

# %% tags=["exercise"]
stages = {"gradients": ..., "statistics": ...}

# %% tags=["solution"]
stages = {"gradients": ((0, 1), (0.5, 0.5)), "statistics": ((0, 0), (0.5, 1))}

# %%
checks.verify("07.stages", stages)

# %% [markdown]
# Now edit it. When does the prior come on, how heavy is it, and to what share of its weight do the gradients fall then? Above the weights over the run, below
# what the search has at the end. (Each setting is searched once, for one photograph.)


# %%
def from_then_on(part, before, after):
    return ((0, after),) if part == 0 else ((0, before), (part, after))


def edited(prior_from, prior_weight, gradients_fall_to):
    """GradViT for one seed, its stages replaced."""
    attack = gradvit(live_steps, image=prior_weight)
    new = {"gradients": from_then_on(prior_from, 1, gradients_fall_to), "statistics": from_then_on(prior_from, 0, 1)}
    return replace(attack, terms=tuple(replace(t, stages=new.get(t.name, t.stages)) for t in attack.terms))


# %%
one_image, one_class = photographs(1, seed + 1)
one_vit = vit(seed + 1, width=192)
one_leak = observe(one_vit, one_image, one_class)


def try_schedule(prior_from, prior_weight, gradients_fall_to):
    attack = edited(prior_from, prior_weight, gradients_fall_to)
    run = [k / 100 for k in range(101)]
    curves = {
        t.name: (run, [t.weigh(p) or math.nan for p in run])
        for t in attack.terms
        if t.name in ("gradients", "statistics")
    }
    result = attack.run(one_vit, one_leak, seed=seed, snapshots=0, progress=False)
    said = f"prior from {prior_from:g} of the run, weight {prior_weight:g}; gradients then x {gradients_fall_to:g}"
    above = plots.lines(
        curves, xlabel="part of the run", ylabel="weight", log="y", alt=f"Weights over the run: {said}."
    )
    score = f"{metrics.psnr(result.images, one_image).item():.1f} dB, SSIM {metrics.ssim(result.images, one_image).item():.2f}"
    return above, plots.side_by_side(
        one_image,
        result.images,
        titles=["the client's", score],
        alt=f"The photograph, and what is found with {said}: {score}.",
    )


# %%
widgets.explore(
    try_schedule, start=dict(prior_from=0.5, prior_weight=1e-4, gradients_fall_to=0.5),
    prior_from=(0, 0.5, 0.8), prior_weight=(1e-5, 1e-4, 1e-3), gradients_fall_to=(0.1, 0.5, 1),
)  # fmt: skip

# %% [markdown]
# ## The patch prior
#
# ### Exercise 3: write equation 8
#
# `patch_prior(images, patch)`, for images of shape (batch, channels, height, width) cut into square patches: for each joint between two rows of patches, the norm of the jump of
# the pixels across it; the same for columns; all added.
#
# <details><summary>Hint</summary>The joints are at P, 2P, ... below the height, and below the width. Only the two rows of pixels that touch are compared; one norm a joint, over the whole batch.</details>


# %% tags=["exercise"]
def patch_prior(images, patch): ...


# %% tags=["solution"]
def patch_prior(images, patch):
    rows = [images[:, :, k] - images[:, :, k - 1] for k in range(patch, images.shape[2], patch)]
    columns = [images[..., k] - images[..., k - 1] for k in range(patch, images.shape[3], patch)]
    return sum(jump.norm() for jump in rows + columns)


# %%
checks.verify("07.joints", patch_prior)

# %% [markdown]
# The paper's reason for it is that patches come back in the wrong places. Do they? With a position embedding the places are part of what has to fit. Here is the loss of the
# *true* images, and of the same with two patches exchanged, as a share of that of noise.

# %%
kept, mine = both("gradvit.exchanged_patches")
rows = {f"standard deviation {std:g}": f"grad_loss_ratio[exchanged_over_noise, {name}]" for name, std in STDS.items()}
plots.evidence(kept, mine, rows, xlabel="gradient loss of two patches exchanged, over that of noise", log=True)

# %% [markdown]
# At timm's scale an exchange costs a few thousandths of what noise costs: that is the paper's point. At a standard deviation of 1 the share is some fifteen times as large.

# %% [markdown]
# ## Registration
#
# ### Exercise 4: find the bug
#
# The next function computes eq. 10 for a group of searches (without moving them first), and its values are right. Yet a search with it does exactly what it does without it. Such
# a line stands in a public re-implementation of GradViT. Write `mended`.
#
# <details><summary>Hint</summary>What is the slope of this term with respect to a member's pixels?</details>


# %%
def registration(members):
    consensus = members.mean(0)
    return (members.detach() - consensus.detach()).flatten(1).norm(dim=1)  # (group,)


# %% tags=["exercise"]
def mended(members): ...


# %% tags=["solution"]
def mended(members):
    return (members - members.mean(0)).flatten(1).norm(dim=1)


# %%
checks.verify("07.registration", mended)

# %% [markdown]
# ## The ablation
#
# An **ablation** adds the parts of a method, or takes them away, one at a time. Table 2 begins with gradients, registration and the extra priors. Then comes the image prior from the first step on, then the schedule, then the patch
# prior. Victims, batches and starts are the same in each row. Here registration is in none of these rows: early in a run two searches stand in different
# places, and their mean is a blur. It comes last, as a row of its own.

# %%
for row, attack in ablation_rows(600).items():
    print(f"{row:>17}: {', '.join(term.name for term in attack.terms)}")

# %% [markdown]
# ### Before you go on: predict
#
# The paper gains 2.1 dB by the schedule and 2.1 by the patch prior, after 120,000 steps on ViT-B/16. How much is the whole of GradViT above the first row here?

# %%
guess_table = widgets.predict("PSNR of the last row less that of the first:", low=-5, high=5, unit="dB")
guess_table

# %%
kept, mine = both("gradvit.ablation")
labels = {row: row.replace("_", " ") for row in ablation_rows(600)}
names = {f"{labels[row]}, std {std:g}": f"loss_terms_{row}, {name}" for name, std in STDS.items() for row in labels}
names |= {"mean photograph": "mean_photograph"}
printed = ledger.papers.table("hatamizadeh2022_table2").query("metric == 'psnr'").set_index("loss_terms")["mean"]
theirs = {"grad": "grad + reg", "plus_image": "+ image", "plus_schedule": "+ schedule", "plus_patch": "+ patch"}
published = {f"{labels[row]}, std 0.02": printed[name] for row, name in theirs.items()}
plots.evidence(kept, mine, {k: f"psnr[{v}]" for k, v in names.items()}, xlabel="PSNR in dB", published=published)

# %%
strip(
    best(kept, mine),
    "picture[photographs_and_rows, std_1]",
    "A batch of photographs, and below it what each row of the ablation has of it.",
)

# %% [markdown]
# The last row needs no attack: it answers every gradient with the mean of CIFAR-10's training photographs. Hold every PSNR of this size against such a row. LPIPS is not taken in so easily:

# %%
plots.evidence(kept, mine, {k: f"lpips[{v}]" for k, v in names.items()}, xlabel="LPIPS (lower is a better attack)")

# %% [markdown]
# Batches differ by more than rows do. So look at the *differences* between two rows, batch by batch. PSNR goes up where it gets better, FFT2D and LPIPS down. (FFT2D is the cosine distance of the
# complex Fourier transforms, a form that the paper does not name. By Parseval's theorem it equals the cosine distance of the pixels.)

# %%
steps_of_table_2 = [
    ("plus_image", "grad"),
    ("plus_schedule", "plus_image"),
    ("plus_patch", "plus_schedule"),
    ("plus_registration", "plus_patch"),
]
for name, (one, other) in ((name, pair) for name in STDS for pair in steps_of_table_2):
    gap = best(kept, mine)[f"psnr[loss_terms_{one}, {name}]"] - best(kept, mine)[f"psnr[loss_terms_{other}, {name}]"]
    print(f"{name}, {labels[one]} less {labels[other]}: {metrics.summary(torch.tensor(gap))} dB")

# %%
whole, first = (best(kept, mine).mean(f"psnr[loss_terms_{row}, std_1]") for row in ("plus_patch", "grad"))
guess_table.against(whole - first)

# %% [markdown]
# And the paper's weight of 0.2 as it stands, with the network at hand (one batch, few steps):

# %%
for name, attack in {
    "fitted": gradvit(live_steps),
    "weight 0.2": gradvit(live_steps, image=0.2, relative=False),
}.items():
    result = attack.run(two, leak, seed=seed, snapshots=0, progress=False)
    print(
        f"{name}: {metrics.psnr(result.images, images).mean():.1f} dB",
        {k: f"{v:.2g}" for k, v in result.trace[-1].items()},
    )

# %% [markdown]
# ## GradViT beside other attacks
#
# Table 1 holds it against earlier attacks, on a ViT and on a ResNet. The paper's victims are trained ones (section 6.2 implies it), so here small ones are trained for a few epochs,
# the ViT at both scales of its position embedding. No attack has registration.

# %% [markdown]
# - **GradInversion** (Yin et al. 2021) meets the BatchNorm statistics of the victim itself. A ViT has none, so there that term is left out.
# - **Inverting Gradients** is lab 04's.
# - **DeepInversion** looks at no gradient: it makes images that the victim takes for these labels. **Latent projection** matches gradients among the images of a *generator*, a map from a few numbers to an image. The paper's is
#   BigGAN; ours is linear, the principal components of public images.
# - **annealed**, ours, is from lab 04: no image prior, no patch prior, no registration.

# %%
kept, mine = both("gradvit.attacks")
of_vit, of_resnet = (
    ("gradvit", "gradinversion", "inverting_gradients", "annealed"),
    ("deep_inversion", "latent_projection"),
)
pairs = [(m, v) for v in ("vit", "vit_std_0p02", "resnet") for m in of_vit] + [(m, "resnet") for m in of_resnet]
rows = {f"{v.replace('_std_0p02', ', std 0.02')}: {m.replace('_', ' ')}": f"psnr[{m}, {v}]" for m, v in pairs}
rows |= {"random noise": "psnr[random_noise]", "mean photograph": "psnr[mean_photograph]"}
printed = {"vit, std 0.02: gradvit": 15.515, "vit, std 0.02: gradinversion": 10.824, "resnet: gradvit": 11.635, "resnet: gradinversion": 12.929,
           "resnet: inverting gradients": 11.703, "resnet: deep inversion": 10.131}  # fmt: skip
plots.evidence(kept, mine, rows, xlabel="PSNR in dB", published=printed)

# %% [markdown]
# Three rows see no gradient: noise, the mean photograph, and *DeepInversion*. What a method has above all three it owes to the gradient. Where *latent projection* is ahead, the assumption about images does more than the search.

# %% [markdown]
# ## Which ViT?
#
# Table 3 attacks ViTs and DeiTs of several sizes: smaller patches, larger models and *distillation* (training on another model's answers) are said to leak more. That needs the published
# weights (fresh, a ViT is a DeiT) and a GPU: `python -m privlab measure gradvit.zoo --size gpu --device cuda`.

# %%
experiments.load("gradvit.zoo")

# %% [markdown]
# A small version of the first statement: the same small ViT with patches of 4 and of 8 pixels, at both scales of the position embedding. (Without the image prior: the step of a ViT with 65 tokens is the dearer.) Lab 06 shows
# why the scale decides so much.

# %%
kept, mine = both("gradvit.patch_size")
rows = {
    f"patches of {side}, std {std:g}": f"psnr[patch_{side}, {name}]" for name, std in STDS.items() for side in (4, 8)
}
plots.evidence(kept, mine, rows | {"mean photograph": "psnr[mean_photograph]"}, xlabel="PSNR in dB")

# %% [markdown]
# ## Larger batches
#
# The more images share a gradient, the less of each is in it (section 6.3). The batches are nested: the first photograph is in all of them, and *that one* is compared.

# %%
guess_batch = widgets.predict("PSNR of a photograph in a batch of 2 less in one of 4:", low=-3, high=6, unit="dB")
guess_batch

# %%
kept, mine = both("gradvit.batches")
series = {
    f"standard deviation {std:g}": {size: f"psnr[first_photograph, batch_{size}, {name}]" for size in (1, 2, 4, 8)}
    for name, std in STDS.items()
}
plots.evidence_lines(kept, mine, series, xlabel="images in the batch", ylabel="PSNR of the first, in dB", log="x")

# %%
in_two, in_four = (best(kept, mine).mean(f"psnr[first_photograph, batch_{size}, std_1]") for size in (2, 4))
guess_batch.against(in_two - in_four)

# %%
strip(
    best(kept, mine),
    "picture[one_photograph_by_batch_size]",
    "A photograph, and what came back of it from batches of growing size.",
)

# %% [markdown]
# ## Does it still identify anyone?
#
# Appendix A of the paper asks: among many images, is the reconstruction nearest to *its own* original? **Image identifiability precision** (IIP) is the share for which it is. Candidates
# are the true images of the batches and **distractors**, images that were in none. A guess is right once in their number.

# %% [markdown]
# What *nearest* means is a choice. In pixels, a blur is as good as a picture. LPIPS looks at structure. (The paper uses features of a ResNet-50 and does not name the distance.)

# %%
guess_iip = widgets.predict("share of photographs identified by LPIPS, out of batches of four:", low=0, high=1)
guess_iip

# %%
series = {by: {size: f"iip[{by}, batch_{size}]" for size in (1, 2, 4, 8)} for by in ("pixels", "lpips")}
plots.evidence_lines(kept, mine, series, xlabel="images in the batch", ylabel="share identified", log="x")

# %%
guess_iip.against(best(kept, mine).mean("iip[lpips, batch_4]"))

# %% [markdown]
# ### A generator behind it
#
# The paper sends the faces that it has recovered through StyleGAN2, and identifies the nearest image that this can make. With faces it gains (87.5% against 75% at batch size 8). Here is the same
# step with the linear generator, the first components of public photographs. Trained ones are part of lab 11.

# %%
rows = {
    f"{by}{', refined' * bool(how)}": f"iip[{by}, batch_4{how}]"
    for by in ("pixels", "lpips")
    for how in ("", ", refined")
}
plots.evidence(kept, mine, rows, xlabel="share identified, out of batches of four")

# %% [markdown]
# ## Faces
#
# Table S.1 attacks a face Transformer with batches of four and eight. MS-Celeb-1M and weights for that model are in no registry; we have ORL, forty people in ten photographs each, and
# the same architecture, fresh, for a GPU. Here a small grey ViT looks at 32 x 32 pixels, one photograph a person. The guess to beat is the mean face of other people.

# %%
kept, mine = both("gradvit.faces")
rows = {
    "batch of four": "psnr[faces, batch_4]",
    "the same four in eight": "psnr[faces, batch_8]",
    "mean face": "psnr[faces, mean_face]",
}
published = {"batch of four": 27.370, "the same four in eight": 23.313}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB", published=published)

# %%
strip(best(kept, mine), "picture[faces, batch_8]", "Eight faces, and below them what came back from one gradient.")

# %% [markdown]
# ## Beyond the papers: narrow it down first
#
# So far each search looked among *all* images, 3,072 numbers each. By lab 05 the first attention's weight gradient gives one image away without a search, and a *batch* leaves each patch
# an affine family of $n(B-1)$ dimensions, with $n$ patches and $B$ images: the patch plus any combination of the differences between the batch's own patches. For two images that is 16 of 192 numbers. All else of each patch is known, exactly.

# %% [markdown]
# So search there and nowhere else. Three things help:
#
# - Start at the best guess: `expected` takes the patches of public photographs as Gaussian and gives each patch's most likely point on the family. It is the same for all images of
#   the batch, so each gets a little noise to part them.
# - Measure steps in units of what varies: one unit is one standard deviation of natural patches.
# - Sixteen numbers a patch and image, 512 in all for two images, are few enough for a method that guesses curvature: L-BFGS, on DLG's squared distance.

# %% [markdown]
# ### Before you go on: predict
#
# Two photographs. How many decibels has the search inside the family, for as many gradients of the network as GradViT had?

# %%
guess_hybrid = widgets.predict("PSNR inside the family, batch of 2:", low=5, high=60, unit="dB")
guess_hybrid

# %% [markdown]
# Four ways, alike in what they cost: each may ask for as many gradients of the network as L-BFGS did inside the family. (GradViT asks for two a step, and
# its image prior is not counted, so it gets more seconds.) The second way is the first without the algebra: L-BFGS from the same start, among all pixels.

# %%
kept, mine = both("batch_family.ways")
ways = {"inside, L-BFGS": "family", "pixels, L-BFGS": "pixels", "annealed": "annealed", "GradViT": "gradvit",
        "no search: likeliest point": "family, guess", "no search: mean photograph": "family, mean_photograph"}  # fmt: skip
rows = {f"{size} images: {label}": f"psnr[{way}, batch_{size}]" for size in (2, 3, 4) for label, way in ways.items()}
there = {label: name for label, name in rows.items() if name in best(kept, mine).table}
plots.evidence(kept, mine, there, xlabel="PSNR in dB")

# %%
guess_hybrid.against(best(kept, mine).mean("psnr[family, batch_2]"))

# %%
strip(
    best(kept, mine),
    "picture[photographs_and_ways, batch_2]",
    "Two photographs, and below them what each search has of them.",
)

# %% [markdown]
# ### Where it stops
#
# The family needs a ViT whose first block is a norm and an attention, that weight's gradient unharmed, and a width above $3p^2 + Bn + 1$. It asks nothing of the labels, of the scale of the position embedding, or of
# what the victim has learnt. The *search* asks more. Here it is at timm's scale of .02, and on the trained ViT, by L-BFGS and by Adam with the cosine.

# %%
kept_ways, mine_ways = kept, mine
kept, mine = both("batch_family.harder_victims")
answers = {"no search: likeliest point": "guess", "L-BFGS": "lbfgs", "Adam": "adam"}
cases = {"std 0.02": "std_0p02", "trained": "trained"}
rows = {
    f"{case}: {label}": f"psnr[family, {way}, {key}]" for case, key in cases.items() for label, way in answers.items()
}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %% [markdown]
# What the *algebra* says stands whatever the victim is; what a *search* adds to it hangs on how smooth the way is.

# %% [markdown]
# ## Beyond the papers: a search that knows the curvature
#
# L-BFGS guesses curvature from a few slopes. Lab 04 has a search that asks for it: Gauss-Newton. With $r$ the differences between a candidate's message and the client's, $J = \partial r / \partial x$ and a damping $\lambda$, each step solves
#
# $$(J^\top J + \lambda I)\, s = -J^\top r .$$

# %% [markdown]
# Does it find batches? We try it among all pixels, from noise, and inside the family, from the start that L-BFGS had. The price is counted in *passes* through the network: each $J v$, each $J^\top u$ and each look at a point is one. A step of Adam takes two,
# and so does an evaluation of L-BFGS. So Gauss-Newton gets twice as many passes as L-BFGS had evaluations.

# %% [markdown]
# It brings terms of its own, those of lab 04: differences relative to the client's gradient, parameter tensor by parameter tensor, and a weak wish for smooth images, which fades as the gradients are met. So *two* things change, the method and the terms. To tell them
# apart L-BFGS gets the same terms; there the wish fades by the clock.
#
# (We kept the wish after a look at batches 0 and 1: inside the family it was ahead in seven of eight comparisons, by 0.9 to 2.4 dB, and 3 behind in one. All is in float32: in float64 a pass takes 1.6 times as long, and on the one batch that we tried, at 0.02, it came no further.)

# %%
print(gauss_newton(200))
print(lbfgs(5, CURVED))

# %% [markdown]
# ### Before you go on: predict
#
# Inside the family, two photographs: who is ahead, Gauss-Newton or L-BFGS?

# %%
guess_curved = widgets.predict(
    "PSNR of Gauss-Newton less that of L-BFGS, both inside the family:", low=-10, high=20, unit="dB"
)
guess_curved

# %%
rows = {"inside: Gauss-Newton": "gauss_newton, family", "inside: L-BFGS": "family", "pixels: Gauss-Newton": "gauss_newton, pixels",
        "pixels: L-BFGS, same terms": "lbfgs_same_terms, pixels", "pixels: annealed": "annealed"}  # fmt: skip
plots.evidence(
    kept_ways, mine_ways, {k: f"psnr[{v}, batch_2]" for k, v in rows.items()}, xlabel="PSNR in dB, two images"
)

# %%
curved, slopes = (
    best(kept_ways, mine_ways).mean(f"psnr[{way}, batch_2]") for way in ("gauss_newton, family", "family")
)
guess_curved.against(curved - slopes)

# %% [markdown]
# A longer row, three times the passes (602; batches 0 and 1, one run each, outside this lab): inside the family 50.0 and 48.9 dB, and 51.2 and 48.1 for L-BFGS: level. Among pixels, from noise: `annealed` 19.4 and 20.2; L-BFGS on DLG's distance 25.5 and 25.1; Gauss-Newton without the
# wish 21.5 and 25.2, with it 30.5 and 33.0; L-BFGS on the same terms **34.9 and 37.7**. What helped there was the wish that fades, not the method.

# %% [markdown]
# ### Where it stopped
#
# Now the two harder victims again. With DLG's plain distance the tensor with the largest gradients decides. Here are the other terms, for both methods.

# %%
answers |= {"L-BFGS, other terms": "lbfgs_same_terms", "Gauss-Newton": "gauss_newton"}
rows = {
    f"{case}: {label}": f"psnr[family, {way}, {key}]" for case, key in cases.items() for label, way in answers.items()
}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %% [markdown]
# Gauss-Newton takes back a step that loses. That keeps it from falling, and does not find a way.

# %% [markdown]
# ### Exercise 5: one damped step
#
# For a network nobody writes $J$ down. Here it is small enough: a tensor of shape (differences, unknowns). Write `step(J, r, damping)`: the $s$ of the equation above. It has to have an answer also where there are fewer differences than unknowns.
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
# Along a direction that $J$ stretches by $\sigma$ this step goes a share $\sigma^2 / (\sigma^2 + \lambda)$ of the way that would bring the differences to zero. Where the gradient hardly moves $\sigma$ is next to nothing, and so is the step: what the gradient does not say, no
# curvature brings back. With a smaller $\lambda$ the step goes there all the same, wherever noise and bend of the message send it.

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("07")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and steps.** The victims are small, the batches of two, the steps tens (a night: hundreds) in place of 120,000. What a term does late in a run does not show there. Registries hold twenty ImageNet samples, so
#   there are five batches of four for the paper's models.
# - **The prior.** EfficientNet-lite0, relative, at 64 pixels and weight 1e-4, for want of MoCo's file.
# - **Registration** shifts by whole pixels, found by cross-correlation; the paper takes RANSAC-Flow, which is two networks of its own. It does not say how many seeds: two here, in one row of the ablation, and elsewhere none.
# - **Fresh victims** in the ablation and below it. The paper's are trained (section 6.2 implies it); Table 1's victims here are trained for a few epochs.
# - **Faces** are ORL's, and the face Transformer is fresh.
# - **Labels** are handed over, in the order of the images.

# %% [markdown]
# ## Summary
#
# - GradViT is gradient matching with a schedule, a borrowed BatchNorm, and three helpers; each can be taken away.
# - The labels of a batch can be read from the bias, repeats included; the row minimum assumes that they differ.
# - Weights of priors do not travel from network to network.
# - The mean of public photographs, which needs no attack, has a dozen decibels or more. Hold a PSNR against that row, and beside LPIPS and identifiability.
# - Algebra first, search second: inside the family a short search finds a small batch, where the victim is fresh and its position embedding large.
# - Before you credit a method, give its terms to the other one. Gauss-Newton is far ahead of `annealed` in a long row among pixels; L-BFGS on the same terms is further.

# %% [markdown]
# ## Where to read on
#
# Hatamizadeh et al. 2022, sections 3 and 6, appendices A, B and F; Yin et al. 2021 for GradInversion. Lab 08 asks which gradients GradViT owes most to; lab 11 has real generators; the page of benchmarks has the
# attacks at equal seconds.
