# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10 · Micro designs under the knife
#
# Between a ResNet and a ConvNeXt lie choices that nobody would call an architecture: is there an activation behind the addition, what shape has the
# first convolution, which norm stands in a block? Zhang et al. took three of them out, one at a time (section 5.3, Figures 8 to 10), and found that
# each changes what a network gives away. Lab 09 walks the whole way in fourteen steps, where each step stands on those before it. Here each
# design is switched on and off by itself, and with the others, so that you can tell which of them does the work.
#
# After it you can
# - write a block for each of the eight patterns of activations, and say which of the three activations costs the attacker most;
# - read a comparison of two designs, and list what else differs between them;
# - say what a BatchNorm does to a message in either of its modes, and show by a number that in one of them it does nothing;
# - compute main effects and interactions of several switches from paired searches;
# - tell an effect of a design on membership inference from an effect of overfitting.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.7 | 1.5 GB |
# | laptop | 9 | 2.3 GB |
# | gpu | 10 | 8 GB |
# | paper | 10 | 12 GB |
#
# (Measured on two CPU cores, the memory of a second process included; the last two rows are estimates, for one part. At `gpu` and `paper` every search
# and every training is kept: when the time of a part is over the lab stops and says how far it is, and run again it goes on from there. At `smoke` the
# searches are far too short to decide anything: where the text says what a search finds, it speaks of `laptop`.)
#
# *You need* lab 04 (a search, and its exercises 3 and 4 on BatchNorm) and lab 01 (membership inference). *Words that are new here*: **pattern**, **switch**,
# **main effect**, **interaction**, **confounded**.

# %%
import itertools
import time
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from inspect import getsource

import numpy as np
import pandas as pd
import timm
import torch
from torch import nn

from privlab import checks, data, flipbook, inversions, ledger, metrics, plots, roc, shadows, splits, training, widgets
from privlab.attacks import gradient, membership
from privlab.drawing import blocks
from privlab.leak import observe
from privlab.models import morph
from privlab.store import Run

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"
part_minutes = 9  # at gpu and paper: how long one part may take

# %%
if profile in ("smoke", "laptop"):
    torch.set_num_threads(
        1
    )  # networks as small as these are no faster with two, and far slower where other programs run
page = ledger.Page("10", profile=profile, seed=seed, device=device)
small = dict(width=0.25, depths=(1, 1, 1, 1))
# what is built; repeats and steps of a search; what the trained victims learn from, and for how long
shape, repeats, steps, train_images, epochs = {
    "smoke": (small, 2, 5, 64, 2),
    "laptop": (small, 4, 100, 800, 3),
    "gpu": ({}, 4, 1_000, 10_000, 15),
    "paper": ({}, 10, 3_000, 50_000, 50),
}[profile]
full_size = profile in ("gpu", "paper")
preset = "inverting_gradients" if full_size else "annealed"
attack = inversions.PRESETS[preset](steps=steps)
fresh = dict(mode="eval", victim="fresh")

# %% [markdown]
# ## One block, three places
#
# Our block is that of step 9 of lab 09's fourteen, the last one in which all three activations are there. The stem is already "patchified" and has no
# activation. `morph.build` makes any step, with any of its designs changed; here is a block, read off the network that was built.

# %%
photos = data.load("cifar10", "test")


def victim(base=9, number=0, classes=10, **changes):
    """A fresh network: step `base` with these designs changed; `number` is that of its weights."""
    return morph.build(base, classes, seed=seed + number, **shape, **changes).to(page.device)


before, after = (morph.outline(victim(activations=pattern), stage=1, block=0) for pattern in ("111", "010"))
blocks(before, after, titles=("pattern 111, step 9", "pattern 010, step 10"), shortcuts=("1 x 1 and BatchNorm",) * 2)

# %% [markdown]
# A **pattern** says by three digits which activations are there: behind the first convolution, behind the second, behind the addition. 111 is this block,
# 010 a ConvNeXt's, 000 has none. What remains without any? Convolutions, norms in eval mode and averages: the whole network is then *linear* in the image,
# up to the softmax behind it.
#
# ## Exercise 1: a block for each pattern
#
# Write `forward(x, layers, shortcut, act, pattern)`: the output of a block. `layers` are three functions, each a convolution with its norm; `shortcut` and `act`
# are functions too; `pattern` is a text such as `"110"`.
#
# <details><summary>Hint</summary>In Python the text <code>"0"</code> counts as true: compare with <code>"1"</code>. And mind that the third place stands
# behind the addition, not before it.</details>


# %% tags=["exercise"]
def forward(x, layers, shortcut, act, pattern): ...


# %% tags=["solution"]
def forward(x, layers, shortcut, act, pattern):
    y = layers[0](x)
    y = act(y) if pattern[0] == "1" else y
    y = layers[1](y)
    y = act(y) if pattern[1] == "1" else y
    y = layers[2](y) + shortcut(x)
    return act(y) if pattern[2] == "1" else y


# %%
checks.verify("10.block", forward)

# %% [markdown]
# In the package it is the same, with two things of ConvNeXt's in it (layer scale and stochastic depth):

# %%
print(getsource(morph.Block.forward))

# %% [markdown]
# ## Eight patterns, two kinds: Figure 8
#
# The paper tries all eight patterns with ReLU and with GELU: sixteen networks. Or are they? Without any activation there is nothing that could be of either
# kind:

# %%
photo, label = (tensor.to(page.device) for tensor in photos.one(0))  # (1, 3, 32, 32) in [0, 1], and its class
for pattern in ("000", "001"):
    relu, gelu = (victim(activations=pattern, activation=kind) for kind in ("relu", "gelu"))
    apart = (relu(photo) - gelu(photo)).abs().max().item()
    print(f"pattern {pattern}: logits with ReLU and with GELU are at most {apart:.3g} apart")

# %% [markdown]
# Fifteen. Each is attacked on the same photographs, from the same starts, with weights of the same draw: PyTorch's own, in all designs. (The paper does not say how
# its weights were drawn. It will matter.) Repeat k is photograph k in the message of fresh victim k.

# %%
attack

# %% [markdown]
# A search is a `Case`: the name of a network and what is changed in it, a photograph, an attack and two seeds. `inversions.run` gives the cases to the machine's cores and keeps what each of them
# finds. No network is searched twice: a design that comes up again further down is read from disk.


# %%
def case(k, base=9, train=False, draw="pytorch", **changes):
    """The search for photograph k in the message of fresh victim k: step `base` with these designs changed."""
    own = morph.STEPS[base]
    if changes.get("activations") == "000" and not own.stem_activation:
        changes = {name: value for name, value in changes.items() if name != "activation"}  # of no kind
    changes = {name: value for name, value in changes.items() if getattr(own, name) != value}  # what differs
    changes |= shape if draw == "pytorch" else shape | dict(draw=draw)
    return inversions.Case(
        f"morph_{base}", (k,), preset, dict(steps=steps), changes, victim=seed + k, seed=seed + k, train=train
    )


def run(cases, title):
    """What these cases find; at gpu and paper for so long as this part may take."""
    left = max(deadline - time.monotonic(), 1) if full_size else None
    jobs = 1 if profile == "smoke" else None
    return inversions.run(cases, title, device=page.device, jobs=jobs, budget=left, progress=False)


def search(designs, title):
    """Name -> (base, changes) becomes name -> one result a repeat."""
    results = run([case(k, base, **changes) for base, changes in designs.values() for k in range(repeats)], title)
    return {name: results[i * repeats : (i + 1) * repeats] for i, name in enumerate(designs)}


# %%
def scores(results, source=photos, size=None):
    """PSNR, SSIM and MSE, one value a repeat; the MSE of normalised images, as the paper must have it."""
    truth = torch.cat([source.one(k, size=size)[0] for k in range(len(results))])
    images = torch.cat([r.images for r in results])
    apart = photos.normalise(images) - photos.normalise(truth)
    error = apart.square().mean((1, 2, 3))
    return {"psnr": metrics.psnr(images, truth), "ssim": metrics.ssim(images, truth), "mse": error}


def less(one, other):
    """By how many decibels the one is nearer, repeat by repeat."""
    return one["psnr"] - other["psnr"]


def said(found):
    return f"{metrics.summary(found['psnr'])} dB, SSIM {found['ssim'].mean():.2f}"


# %% [markdown]
# ### Before you go on: predict
#
# Keep the ReLUs inside the block, and take only the one behind the addition away: 111 becomes 110. By how many decibels does the picture get better?

# %%
guess_third = widgets.predict("PSNR of 110 less PSNR of 111, ReLU:", low=-5, high=10, unit="dB")
guess_third

# %%
deadline = time.monotonic() + 60 * part_minutes
KINDS, PATTERNS = ("relu", "gelu"), morph.PATTERNS[::-1]  # 111 first
sixteen = {(kind, p): (9, dict(activation=kind, activations=p)) for p in PATTERNS for kind in KINDS}
pictures = search(sixteen, "searches for Figure 8")
by_pattern = {name: scores(results) for name, results in pictures.items()}
for (kind, pattern), found in by_pattern.items():
    print(f"{kind} {pattern}: {said(found)}")

# %%
about = dict(note=f"step 9 with this pattern, {steps} steps, photograph k on fresh victim k", **fresh)
for (kind, pattern), values in by_pattern.items():
    for metric, each in values.items():
        page.record(metric, [kind, f"act_{pattern}"], each, unit="normalised" if metric == "mse" else None, **about)


# %% [markdown]
# Since all were attacked on the same photographs from the same starts, we compare repeat by repeat. (PSNR is a log of the MSE, so "the error falls" and "the PSNR
# rises" are one statement; the paper prints the MSE.)

# %%
about = dict(note="repeat by repeat", **fresh)
for kind in KINDS:
    of = {p: by_pattern[kind, p] for p in PATTERNS}
    for p in PATTERNS[1:]:  # all but 111 itself
        page.record("psnr_difference", [kind, f"act_{p}_less_act_111"], less(of[p], of["111"]), **about)
    for p in PATTERNS[1:-1]:  # 000 less 111 is there already
        page.record("psnr_difference", [kind, f"act_000_less_act_{p}"], less(of["000"], of[p]), **about)
guess_third.against(less(by_pattern["relu", "110"], by_pattern["relu", "111"]).mean().item())

# %%
gains = {p: less(by_pattern["gelu", p], by_pattern["relu", p]) for p in PATTERNS[:-1]}
for p, gain in gains.items():
    page.record("psnr_difference", ["gelu_less_relu", f"act_{p}"], gain, **about)
seven = torch.stack(list(gains.values())).mean(0)
page.record("psnr_difference", ["gelu_less_relu", "mean_of_seven"], seven, **about)

# %%
labels = {"relu": "ReLU", "gelu": "GELU"}
means = [[by_pattern[kind, p]["psnr"].mean() for p in PATTERNS] for kind in KINDS]
plots.heat(
    torch.tensor(means), rows=list(labels.values()), columns=PATTERNS, ylabel="kind", unit="mean PSNR in dB",
    xlabel="pattern: behind the first convolution, the second, the addition",
    alt="Mean PSNR by pattern. " + "; ".join(f"{labels[k]} {p}: {by_pattern[k, p]['psnr'].mean():.1f}" for k, p in by_pattern),
)  # fmt: skip

# %%
plots.dots(
    {f"{labels[k]} {p}": by_pattern[k, p]["mse"] for k in KINDS for p in PATTERNS},
    xlabel="MSE of normalised images (lower is a better attack)", log=True,
    alt="MSE of every search, a row for each design, geometric means: "
    + ", ".join(f"{labels[k]} {p} {by_pattern[k, p]['mse'].log().mean().exp():.2f}" for k, p in by_pattern),
)  # fmt: skip

# %%
plots.images(
    {labels[kind]: torch.cat([pictures[kind, p][0].images for p in PATTERNS]) for kind in KINDS},
    captions={labels[kind]: [f"{p}: {by_pattern[kind, p]['psnr'][0]:.0f} dB" for p in PATTERNS] for kind in KINDS},
    alt="One photograph as the search rebuilds it from the messages of sixteen designs: "
    + ", ".join(f"{labels[k]} {p} {by_pattern[k, p]['psnr'][0]:.1f} dB" for k, p in by_pattern),
)  # fmt: skip

# %% [markdown]
# @@FIG8@@
#
# ### How were the weights drawn?
#
# The weights of a fresh network are nothing but a draw. PyTorch's own, if you write nothing, gives a convolution the variance 1 / (3 n), with n the numbers that go into
# an output. He et al. give it 2 / n, six times as much; ResNets are usually drawn so. A ConvNeXt has a standard deviation of .02 everywhere ("narrow").
#
# Predict: does GELU in place of ReLU help the attack with He's draw as it does, or does not, with PyTorch's?

# %%
guess_kind = widgets.predict(
    "PSNR with GELU less with ReLU, He's draw, mean of seven patterns:", low=-5, high=5, unit="dB"
)
guess_kind

# %%
he = search({at: (base, changes | dict(draw="he")) for at, (base, changes) in sixteen.items()}, "Figure 8, He's draw")
by_he = {name: scores(results) for name, results in he.items()}
rows = {
    f"{labels[kind]}, {draw}": [of[kind, p]["psnr"].mean() for p in PATTERNS]
    for draw, of in (("PyTorch's draw", by_pattern), ("He's draw", by_he))
    for kind in KINDS
}
plots.heat(
    torch.tensor(list(rows.values())), rows=list(rows), columns=PATTERNS, ylabel="kind and draw", unit="mean PSNR in dB",
    xlabel="pattern: behind the first convolution, the second, the addition",
    alt="Mean PSNR by pattern. " + "; ".join(f"{row}: " + ", ".join(f"{v:.1f}" for v in of) for row, of in rows.items()),
)  # fmt: skip

# %%
about = dict(note="He's draw, repeat by repeat", **fresh)
for kind in KINDS:
    for p in PATTERNS[1:]:
        gap = less(by_he[kind, p], by_he[kind, "111"])
        page.record("psnr_difference", ["he", kind, f"act_{p}_less_act_111"], gap, **about)
    best = torch.stack([by_he[kind, p]["psnr"] for p in PATTERNS[1:-1]]).amax(0)
    page.record("psnr_difference", ["he", kind, "act_000_less_best_other"], by_he[kind, "000"]["psnr"] - best, **about)
he_seven = torch.stack([less(by_he["gelu", p], by_he["relu", p]) for p in PATTERNS[:-1]]).mean(0)
page.record("psnr_difference", ["he", "gelu_less_relu", "mean_of_seven"], he_seven, **about)
guess_kind.against(he_seven.mean().item())

# %% [markdown]
# And with the narrow draw? And with victims that have learned a little? (Those start from PyTorch's draw; they are kept in the run store, and reused when you run this again. They are
# made here and not by name, so they are searched one after the other, in this process. At `gpu` and `paper` they too are kept.)


# %%
def kept_run(**about):
    """Where a search is kept at gpu and paper, under a name made of all that it depends on."""
    versions = dict(torch=torch.__version__, timm=timm.__version__, search=gradient.FORMAT)
    settings = dict(attack=repr(attack), seed=seed, device=page.device, shape=shape, **versions, **about)
    return Run("inversion", settings) if full_size else None


def invert(build, k, about, source=photos, size=None, hide=None):
    """Search for photograph k in the message of `build(k)`; `about` says which victim that is.

    hide: model -> names of the parameters whose gradients are withheld.
    """
    kept = kept_run(victim=about, set=source.name, size=size, k=k, hidden=hide and hide.__name__)
    if kept is not None and kept.complete:
        return gradient.kept(kept)
    left = None if kept is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise TimeoutError("this part's time is over; what was found is kept: run the lab again, and it goes on")
    model = build(k)
    message = observe(model, *source.one(k, size=size))
    message = message.without(hide(model)) if hide else message
    return attack.run(model, message, seed=seed + k, snapshots=0, store=kept, budget=left, progress=False)


# %%
recipe = replace(training.RECIPES["smoke"], epochs=epochs)
state = f"trained {epochs} epochs on {train_images} images"
four = list(itertools.product(KINDS, ("111", "110")))
narrow = search(
    {(kind, p): (9, dict(draw="narrow", activation=kind, activations=p)) for kind, p in four}, "narrow draw"
)
by_victim = {
    "pytorch": by_pattern, "he": by_he, "narrow": {at: scores(found) for at, found in narrow.items()}, "trained": {},
}  # fmt: skip
for kind, p in four:
    network, history = training.victim(
        "morph_9", recipe, images=train_images, test=200, sample=200, seed=seed, device=page.device, progress=False,
        model=shape | dict(activation=kind, activations=p),
    )  # fmt: skip
    about = f"{kind} {p}, {state}, {recipe!r}"
    found = scores([invert(lambda k, network=network: network, k, about) for k in range(repeats)])
    by_victim["trained"][kind, p] = found
    print(f"{kind} {p}: test accuracy {history.test_accuracy[-1]:.2f}; {said(found)}")

# %%
third = {(how, kind): less(of[kind, "110"], of[kind, "111"]) for how, of in by_victim.items() for kind in KINDS}
gelu_gain = {how: less(of["gelu", "111"], of["relu", "111"]) for how, of in by_victim.items()}
for how in ("narrow", "trained"):
    about = dict(mode="eval", victim=state if how == "trained" else "fresh", note=f"weights: {how}, repeat by repeat")
    for kind in KINDS:
        page.record("psnr_difference", [how, kind, "act_110_less_act_111"], third[how, kind], **about)
for how in ("he", "narrow", "trained"):
    about = dict(mode="eval", victim=state if how == "trained" else "fresh", note=f"weights: {how}, repeat by repeat")
    page.record("psnr_difference", [how, "gelu_less_relu", "act_111"], gelu_gain[how], **about)

# %%
plots.dots(
    {f"third {labels[kind]} away, {how}": gain for kind in KINDS for (how, of), gain in third.items() if of == kind}
    | {f"GELU for ReLU, {how}": gain for how, gain in gelu_gain.items()},
    xlabel="what it brings the attacker, in dB",
    alt="Gain in PSNR from taking the third activation away, and from GELU in place of ReLU, for four kinds of weights: "
    + ", ".join(f"{labels[k]} {how} {gain.mean():+.1f} dB" for (how, k), gain in third.items())
    + "; GELU for ReLU: " + ", ".join(f"{how} {gain.mean():+.1f} dB" for how, gain in gelu_gain.items()),
)  # fmt: skip

# %% [markdown]
# @@TRAINED@@
#
# ## The stem: Figure 9a
#
# The stem of a ResNet is a 7 x 7 convolution of stride 2 and a pooling of stride 2 behind it. A ViT and a ConvNeXt cut the image into squares of 4 x 4 pixels instead, which is
# a convolution of 4 x 4 with stride 4: "patchify". Either way a map of 8 x 8 is left of a 32 x 32 image.
#
# On which network does the paper switch it? Figure 9 does not say. So we ask on three: step 9 (all activations, BatchNorm), step 11 (one activation, one BatchNorm a block) and step 14,
# the ConvNeXt.
#
# ### Predict

# %%
guess_stem = widgets.predict("PSNR with patchify less PSNR with the convolution, step 9:", low=-5, high=10, unit="dB")
guess_stem

# %%
BASES = (9, 11, 14)
STEM = {"conv_stem": dict(patchify=False, pool=True), "patchify": dict(patchify=True, pool=False)}
designs = {(base, name): (base, changes) for base in BASES for name, changes in STEM.items()}
by_stem = {at: scores(results) for at, results in search(designs, "searches for Figure 9a").items()}
for (base, name), found in by_stem.items():
    print(f"step {base}, {name}: {said(found)}")
    page.record("mse", [f"step_{base}", name], found["mse"], unit="normalised", **fresh)
for base in BASES:
    gap = less(by_stem[base, "patchify"], by_stem[base, "conv_stem"])
    page.record("psnr_difference", [f"step_{base}", "patchify_less_conv_stem"], gap, note="repeat by repeat", **fresh)
guess_stem.against(less(by_stem[9, "patchify"], by_stem[9, "conv_stem"]).mean().item())

# %% [markdown]
# ## Exercise 2: what else changed?
#
# Two designs are **confounded** in a comparison if both change at once. "Patchify" is one word, and more than one thing. Which of these differ between the two stems, for a 32 x 32 image?
# Give a set of words.
#
# - `"resolution"`: of the map that the first block sees
# - `"channels"`: of that map
# - `"overlap"`: whether a pixel is read by more than one window
# - `"weights"`: how many numbers each channel of the stem multiplies pixels with
# - `"maxima"`: whether the stem throws values away that are not the largest of theirs
# - `"activation"`: whether the stem has a ReLU or GELU
#
# <details><summary>Hint</summary>Print <code>victim(9).stem</code> and <code>victim(9, patchify=False, pool=True).stem</code>.</details>

# %% tags=["exercise"]
differs = ...

# %% tags=["solution"]
differs = {"overlap", "weights", "maxima"}

# %%
checks.verify("10.confounded", differs)

# %% [markdown]
# ### Take it apart
#
# Between the two stems lie others, which differ in one of these each. First means in place of maxima. Then no pooling, but the same 7 x 7 weights with stride 4. Then 4 x 4, without overlap.
# (Not in the paper.)


# %%
STEMS = ("7 x 7, maxima", "7 x 7, means", "7 x 7, stride 4", "4 x 4, stride 4")


def with_stem(kind, k):
    """Step 9 behind one of the two stems between; like the others, each leaves a map of a quarter of the side."""
    model = victim(9, k, **STEM["conv_stem"])
    model.stem.pool = nn.AvgPool2d(3, 2, 1) if "means" in kind else nn.Identity()
    model.stem.conv.stride = (2, 2) if "means" in kind else (4, 4)
    return model


between = {
    kind: scores([invert(partial(with_stem, kind), k, f"step 9, stem {kind}") for k in range(repeats)])
    for kind in STEMS[1:3]
}
ladder = {STEMS[0]: by_stem[9, "conv_stem"], **between, STEMS[3]: by_stem[9, "patchify"]}
for before, after in itertools.pairwise(STEMS):
    print(f"{before} -> {after}: {metrics.summary(less(ladder[after], ladder[before]))} dB, repeat by repeat")

# %%
for key, (one, other) in {
    "means_less_maxima": (1, 0),
    "stride_less_means": (2, 1),
    "patches_less_overlap": (3, 2),
}.items():
    gap = less(ladder[STEMS[one]], ladder[STEMS[other]])
    page.record("psnr_difference", ["stem", key], gap, note="step 9, repeat by repeat", **fresh)
plots.dots(
    {kind: found["psnr"] for kind, found in ladder.items()}, xlabel="PSNR in dB, step 9",
    alt="PSNR of every search behind four stems: " + ", ".join(f"{n} {v['psnr'].mean():.1f} dB" for n, v in ladder.items()),
)  # fmt: skip

# %% [markdown]
# @@STEM@@
#
# ## The norm: Figure 9b
#
# Now LayerNorm in place of BatchNorm. What does a fresh BatchNorm do in `eval` mode, in which most attacks are run? It takes running averages, which are 0 and 1 as long as nothing was
# learnt: see lab 04. So take all of them out of the network, and compare.


# %%
def without_norms(model):
    """The same network with nothing in the place of each BatchNorm."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())
    return model


for base in (9, 11):
    network = victim(base)
    bare = without_norms(deepcopy(network))
    images = photos.normalise(photos.take(range(8))[0]).to(page.device)
    logits, left = network(images).detach(), bare(images).detach()
    errors = ((logits - left).norm(dim=1) / left.norm(dim=1)).tolist()
    count = sum(isinstance(m, nn.BatchNorm2d) for m in network.modules())
    print(f"step {base}: {count} BatchNorms in eval mode change the logits by {max(errors):.1e} of their size")
    page.record(
        "relative_error", [f"step_{base}", "bn_eval", "no_norm"], errors, note="logits, one value a photograph", **fresh
    )

# %% [markdown]
# So on a fresh victim in eval mode "BatchNorm to LayerNorm" compares *no norm* with LayerNorm. In `train` mode it is another thing altogether: mean and variance are taken over all positions of the
# image, and over all images of the batch.

# %%
two = photos.normalise(photos.take([0, 1])[0]).to(page.device)
other = photos.normalise(photos.take([0, 2])[0]).to(page.device)
for mode, train_mode in (("eval", False), ("train", True)):
    network = victim(9).train(train_mode)
    first, again = deepcopy(network)(two)[0].detach(), deepcopy(network)(other)[0].detach()
    print(
        f"{mode:>5} mode: another second image moves the logits of the first by {((first - again).norm() / first.norm()):.1e}"
    )

# %% [markdown]
# ## Exercise 3: when does train mode fail?
#
# Our networks shrink the side of an image by 4 in the stem and by 2 in each of three stages. In train mode BatchNorm needs more than one value in a channel, or there is no variance to take.
# Write `values(size, batch)`: how many values does each channel of the *last* norm take its mean over, for a batch of square images, `size` a multiple of 32?
#
# <details><summary>Hint</summary>Positions of the last map, times something.</details>


# %% tags=["exercise"]
def values(size, batch): ...


# %% tags=["solution"]
def values(size, batch):
    return batch * (size // 32) ** 2


# %%
checks.verify("10.values", values)

# %%
try:
    observe(victim(9).train(), photo, label)
except ValueError as refused:
    print(f"one image of 32 x 32: {refused}")

# %% [markdown]
# A single value is left of one image of 32 x 32. A client who trains at batch size 1 on such images cannot be in train mode, and the paper's "BN" of one CIFAR-10 image, if it
# attacked one image at a time, was in eval mode. (It does not say.) With 64 x 64 pixels there are four values. So here are photographs of 64 x 64, on step 11, the step before the paper's LN: both
# modes of BatchNorm, LayerNorm, and no norm at all. And one more: LayerNorm, but the client keeps the gradients of the norms' own parameters to itself. If
# LayerNorm leaks because it *sends* something, that one will do worse.

# %%
guess_norm = widgets.predict("PSNR with LayerNorm less BatchNorm in eval mode:", low=-5, high=10, unit="dB")
guess_norm

# %%
large = data.load("imagenet_samples")
NORMS = {
    "BN, eval": dict(), "BN, train": dict(train=True), "LN": dict(norm="ln"),
}  # fmt: skip


def large_case(k, **changes):
    made = case(k, 11, **changes)
    return replace(made, changes={**made.changes, "num_classes": 1000}, data=large.name, split="train", side=64)


results = run([large_case(k, **changes) for changes in NORMS.values() for k in range(repeats)], "searches at 64 pixels")
of_norm = {kind: results[i * repeats : (i + 1) * repeats] for i, kind in enumerate(NORMS)}


# %%
def of_norms(model):
    """The parameters of the norms, by name."""
    return [n for n, _ in model.named_parameters() if "norm" in n]


def bare(k):
    return without_norms(victim(11, k, classes=1000))


layered = partial(victim, 11, classes=1000, norm="ln")
of_norm["no norm"] = [invert(bare, k, "step 11, no norm", large, 64) for k in range(repeats)]
of_norm["LN, withheld"] = [
    invert(lambda k: layered(number=k), k, "step 11, LN", large, 64, of_norms) for k in range(repeats)
]
by_norm = {kind: scores(found, large, 64) for kind, found in of_norm.items()}
for kind, found in by_norm.items():
    print(f"{kind}: {said(found)}")

# %%
about = dict(victim="fresh", note="step 11, 64 x 64 pixels, repeat by repeat")
norm_key = {
    "BN, eval": "bn_eval",
    "BN, train": "bn_train",
    "LN": "ln",
    "no norm": "none",
    "LN, withheld": "ln_withheld",
}
for kind, found in by_norm.items():
    mode = "train" if kind == "BN, train" else "eval"
    page.record("psnr", ["norm", norm_key[kind]], found["psnr"], mode=mode, **about)
    page.record("mse", ["norm", norm_key[kind]], found["mse"], mode=mode, unit="normalised", **about)
for one, other in (
    ("LN", "BN, eval"),
    ("LN", "BN, train"),
    ("LN", "LN, withheld"),
    ("BN, eval", "BN, train"),
    ("BN, eval", "no norm"),
):
    mode = "train" if other == "BN, train" else "eval"
    gap = less(by_norm[one], by_norm[other])
    page.record("psnr_difference", ["norm", f"{norm_key[one]}_less_{norm_key[other]}"], gap, mode=mode, **about)
guess_norm.against(less(by_norm["LN"], by_norm["BN, eval"]).mean().item())

# %%
row = "a photograph of 64 x 64, and what the search has of it"
plots.images(
    {row: torch.cat([large.one(0, size=64)[0], *(found[0].images for found in of_norm.values())])},
    captions={row: ["", *(f"{kind}: {found['psnr'][0]:.0f} dB" for kind, found in by_norm.items())]},
    alt="A photograph and five reconstructions: " + ", ".join(f"{kind} {found['psnr'][0]:.1f} dB" for kind, found in by_norm.items()),
)  # fmt: skip

# %% [markdown]
# And on 32 x 32 pixels, in eval mode, on the three steps? (Step 12 of the morph gives its convolutions a bias along with the LayerNorm. Here the norm is switched alone; the last row adds the bias.)

# %%
designs = {(base, norm): (base, dict(norm=norm)) for base in BASES for norm in ("bn", "ln")} | {(12, "ln"): (12, {})}
pairs = {at: scores(results) for at, results in search(designs, "searches for Figure 9b").items()}
for (base, norm), found in pairs.items():
    print(f"step {base}, {norm}: {said(found)}")
    if base in BASES:
        page.record("mse", [f"step_{base}", norm], found["mse"], unit="normalised", **fresh)
for base in BASES:
    gap = less(pairs[base, "ln"], pairs[base, "bn"])
    page.record("psnr_difference", [f"step_{base}", "ln_less_bn"], gap, note="repeat by repeat", **fresh)
gap = less(pairs[12, "ln"], pairs[11, "ln"])
page.record("psnr_difference", ["step_11", "bias_less_no_bias"], gap, note="LayerNorm, repeat by repeat", **fresh)

# %% [markdown]
# @@NORM@@
#
# ## Three switches, and a fourth
#
# Now all at once. Step 9, and four **switches**, each between a ResNet's way and a ConvNeXt's: the activation behind the addition, the stem, the norm, and the kind of activation. All sixteen
# combinations are attacked, with either draw of the weights; those from above are not done again.

# %%
SWITCHES = {  # name -> (a ResNet's way, a ConvNeXt's)
    "addition": (dict(activations="111"), dict(activations="110")),
    "stem": (STEM["conv_stem"], STEM["patchify"]),
    "norm": (dict(norm="bn"), dict(norm="ln")),
    "kind": (dict(activation="relu"), dict(activation="gelu")),
}
WORDS = {
    "addition": ("activation behind it", "none behind it"), "stem": ("7 x 7 and pooling", "patchify"),
    "norm": ("BatchNorm", "LayerNorm"), "kind": ("ReLU", "GELU"),
}  # fmt: skip
COMBINATIONS = list(itertools.product((0, 1), repeat=4))


def combined(combination):
    changes = {}
    for ways, on in zip(SWITCHES.values(), combination, strict=True):
        changes |= ways[on]
    return changes


sixteen_of, cubes = {}, {}
for draw in ("pytorch", "he"):
    designs = {c: (9, combined(c) | dict(draw=draw)) for c in COMBINATIONS}
    sixteen_of[draw] = search(designs, f"all combinations, {draw}")
    cubes[draw] = {c: scores(results) for c, results in sixteen_of[draw].items()}


# %%
def look(weights="pytorch", **chosen):
    combination = tuple(WORDS[name].index(chosen[name]) for name in SWITCHES)
    found, results = cubes[weights][combination], sixteen_of[weights][combination]
    titles = [f"photograph {k}: {found['psnr'][k]:.1f} dB, SSIM {found['ssim'][k]:.2f}" for k in range(2)]
    mean = f"mean of {repeats}: {found['psnr'].mean():.1f} dB, normalised MSE {found['mse'].log().mean().exp():.2f}"
    design = ", ".join(f"{name}: {word}" for name, word in chosen.items())
    images = [image for k in range(2) for image in (photos.one(k)[0], results[k].images)]
    alt = f"Two photographs, and what the search has of each. {design}. {'; '.join(titles)}."
    return widgets.Sentence(mean), plots.side_by_side(*images, titles=["", titles[0], "", titles[1]], alt=alt)


widgets.explore(look, weights=("pytorch", "he"), **WORDS)

# %% [markdown]
# The same as a flipbook (with PyTorch's draw), from the worst of the sixteen designs (for the attacker) to the best:

# %%
cube = cubes["pytorch"]
ranked = sorted(COMBINATIONS, key=lambda c: cube[c]["psnr"].mean().item())
words = {c: {name: WORDS[name][on] for name, on in zip(SWITCHES, c, strict=True)} for c in COMBINATIONS}
flipbook.show(
    [look(**words[c])[1] for c in ranked],
    captions=[f"{', '.join(words[c].values())}: {cube[c]['psnr'].mean():.1f} dB" for c in ranked],
    label="from the worst design to the best",
)

# %% [markdown]
# Which switch matters most? A **main effect** is the difference that a switch makes, averaged over all settings of the others. An **interaction** is by how much the effect of one switch is larger
# when another one is on than when it is off. Predict first, switch by switch, from what you have seen:

# %%
guesses = {name: widgets.predict(f"main effect of '{name}':", low=-5, high=10, unit="dB") for name in SWITCHES}
guesses["addition"]

# %%
guesses["stem"]

# %%
guesses["norm"]

# %%
guesses["kind"]

# %% [markdown]
# ## Exercise 4: a main effect
#
# Write `effect(dB, switch)`. `dB` is a dict: a tuple of 0s and 1s, one for each switch, -> a list with a PSNR for each repeat. `switch` is a place in the tuple. Return a list: the main effect in each repeat.
#
# <details><summary>Hint</summary>In each repeat by itself: the mean over all tuples with a 1 in that place, less the mean over those with a 0. Why keep the repeats apart? Photographs differ by more than
# designs do; what they share goes away in a difference on the same photograph.</details>


# %% tags=["exercise"]
def effect(dB, switch): ...


# %% tags=["solution"]
def effect(dB, switch):
    def mean(setting, repeat):
        chosen = [values[repeat] for settings, values in dB.items() if settings[switch] == setting]
        return sum(chosen) / len(chosen)

    count = len(next(iter(dB.values())))
    return [float(mean(1, repeat) - mean(0, repeat)) for repeat in range(count)]


# %%
checks.verify("10.effect", effect)


# %%
def effects(cube):
    """Main effects and interactions, one value a repeat."""
    y = torch.stack([cube[c]["psnr"] for c in COMBINATIONS]).reshape(2, 2, 2, 2, repeats)  # an axis a switch
    slopes = {name: y.select(i, 1) - y.select(i, 0) for i, name in enumerate(SWITCHES)}  # (2, 2, 2, repeats)
    found = {name: slope.flatten(0, -2).mean(0) for name, slope in slopes.items()}
    for (i, one), other in itertools.product(enumerate(SWITCHES), SWITCHES):
        if i < list(SWITCHES).index(
            other
        ):  # then `one` has place i among the axes that the slopes of `other` are left with
            swing = slopes[other].select(i, 1) - slopes[other].select(i, 0)
            found[f"{one} with {other}"] = swing.flatten(0, -2).mean(0)
    return found


matters = {draw: effects(cube) for draw, cube in cubes.items()}
for draw, found in matters.items():
    for name, gap in found.items():
        kind = "interaction" if " with " in name else "effect"
        page.record(
            "psnr_difference", [draw, kind, name.replace(" ", "_")], gap, note="step 9, repeat by repeat", **fresh
        )

# %%
plots.dots(
    {f"{name}, {draw}": matters[draw][name] for name in matters["he"] for draw in matters},
    xlabel="effect on the PSNR in dB: four main effects, six interactions, two draws",
    alt="Main effects and interactions, a dot a repeat: "
    + "; ".join(f"{draw}: " + ", ".join(f"{n} {v.mean():+.1f}" for n, v in found.items()) for draw, found in matters.items()),
)  # fmt: skip

# %%
for name in SWITCHES:
    gap = matters["pytorch"][name]
    print(f"{name:>8}: {metrics.summary(gap)} dB.", guesses[name].against(gap.mean().item()))

# %% [markdown]
# @@SWITCH@@
#
# ## Membership: Figure 10, and Table 7's first row
#
# The paper switches three designs for membership inference as well, and finds each of them to make it easier. The attack is lab 01's: victim and shadow model, and a small network that reads confidences. We start from step 9
# with a ResNet's stem, and add one design at a time; then all three. Beside them a ResNet, a ConvNeXt and a Swin (Table 7: .64, .75 and .69).
#
# ### Predict

# %%
guess_member = widgets.predict("attack accuracy with LayerNorm less with BatchNorm:", low=-0.2, high=0.2)
guess_member

# %%
plain, fewer = STEM["conv_stem"], dict(activations="010")
DESIGNS = {
    "plain": plain, "fewer_activations": plain | fewer, "patchify": STEM["patchify"], "ln": plain | dict(norm="ln"),
    "all_three": STEM["patchify"] | fewer | dict(norm="ln"),
}  # fmt: skip
of_designs = {name: ("morph_9", shape | changes) for name, changes in DESIGNS.items()}
little = {
    "resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "convnext": ("convnext_cifar", dict(dims=(24, 48, 96, 96))),
    "swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
}
full = {"resnet": ("resnet50_cifar", {}), "convnext": ("convnext_tiny_cifar", {}), "swin": ("swin_tiny_cifar", {})}
members_recipe = training.RECIPES["zhang2024_membership" if full_size else "membership_smoke"]
# networks, images, splits, epochs, epochs between two looks
networks, size, halves, members_epochs, every = {
    "smoke": (of_designs, 400, 1, 2, 1),
    "laptop": (of_designs | little, 3_200, 2, 6, 1),
    "gpu": (of_designs | full, 50_000, 1, 300, 50),
    "paper": (of_designs | full, 50_000, 3, 300, 50),
}[profile]
members_recipe = replace(members_recipe, epochs=members_epochs)

# %%
pixels, classes = training.subset(data.load("cifar10"), range(size))
parts = [splits.four_way(classes, seed=seed + k) for k in range(halves)]
keep = torch.zeros(2 * halves, size, dtype=torch.bool)  # row 2k: the victim of split k; row 2k + 1: its shadow model
for k, part in enumerate(parts):
    keep[2 * k, part.victim_train], keep[2 * k + 1, part.shadow_train] = True, True

fleets = {}
for name, (zoo_name, changes) in networks.items():
    fleets[name] = shadows.make(
        zoo_name, members_recipe, (pixels, classes), keep, model={**changes, "num_classes": 10}, normalise=data.NORMALISE["cifar10"],
        at=range(every, members_epochs, every), seed=seed, device=page.device,
    )  # fmt: skip
    left = max(deadline - time.monotonic(), 0) if full_size else None
    fleets[name].train(budget=left, jobs=1 if profile == "smoke" else None)

# %%
if unfinished := [fleet for fleet in fleets.values() if not all(run.complete for run in fleet.runs)]:
    raise TimeoutError(f"this part's time is over; run the lab again, and it goes on from here: {unfinished}")


@cache
def answers(name, m, at=None):
    """Logits, labels and membership of model m's own training and test images, after epoch `at`."""
    part = parts[m // 2]
    places = torch.cat(part[:2] if m % 2 == 0 else part[2:])
    return fleets[name].logits(m, at)[0][places], classes[places], keep[m][places]


@cache
def attacked(name, m, at=None):
    """Accuracy of the network-based attack on model m, fitted on its partner; and the model's overfitting level."""
    network = membership.network(*answers(name, m ^ 1, at), seed=seed)
    logits, truth, members = answers(name, m, at)
    right = (logits.argmax(1) == truth).double()
    return roc.accuracy(network(logits, truth), members, 0.5), (right[members].mean() - right[~members].mean()).item()


# %%
models = range(2 * halves)
at_end = {name: np.array([attacked(name, m) for m in models]) for name in networks}  # (models, 2)
about = dict(mode="eval", victim=f"trained {members_epochs} epochs on {len(parts[0][0])} images")
for name, found in at_end.items():
    page.record("attack_acc", [name], found[:, 0], **about)
    page.record("train_test_gap", [name], found[:, 1], **about)
pd.DataFrame(
    {name: {"attack accuracy": metrics.summary(found[:, 0].tolist()), "train-test gap": metrics.summary(found[:, 1].tolist())} for name, found in at_end.items()}
).T  # fmt: skip

# %%
comparisons = [(name, "plain") for name in DESIGNS if name != "plain"]
comparisons += [(name, "resnet") for name in ("convnext", "swin") if name in networks]
for one, other in comparisons:
    keys = [f"{one}_less_{other}"]
    difference = at_end[one] - at_end[other]
    page.record("attack_acc_difference", keys, difference[:, 0], note="victim by victim, at equal epochs", **about)
    page.record("gap_difference", keys, difference[:, 1], note="victim by victim, at equal epochs", **about)
guess_member.against((at_end["ln"] - at_end["plain"])[:, 0].mean())

# %% [markdown]
# The second column explains much of the first. Whoever overfits sooner is attacked more easily, whatever it is made of. So compare at the *same* gap.
#
# ## Exercise 5: at the same overfitting
#
# Write `matched(one, other)`: each is a pair of lists, overfitting levels and attack accuracies, one value for each epoch looked at. Return by how much `one` is easier to attack than `other`, on average over the levels
# that *both* went through, with straight lines between the points.
#
# <details><summary>Hint</summary><code>numpy.interp(grid, levels, accuracies)</code> wants the levels in rising order, and outside of them it holds the last value, which was never measured: choose
# the grid so that it never leaves either curve.</details>


# %% tags=["exercise"]
def matched(one, other): ...


# %% tags=["solution"]
def matched(one, other):
    import numpy as np

    (x, a), (z, b) = (np.array(sorted(zip(*curve, strict=True))).T for curve in (one, other))
    grid = np.linspace(max(x[0], z[0]), min(x[-1], z[-1]), 200)
    return float(np.mean(np.interp(grid, x, a) - np.interp(grid, z, b)))


# %%
checks.verify("10.matched", matched)

# %%
curves = {name: np.array([[attacked(name, m, at) for at in fleets[name].at] for m in models]) for name in networks}
plots.lines(
    {name: (c[:, 1][o], c[:, 0][o]) for name in list(curves)[:7] for c in [curves[name].mean(0)] for o in [c[:, 1].argsort()]},
    xlabel="overfitting level (train less test accuracy)", ylabel="accuracy of the attack",
    alt="Attack accuracy against overfitting level, a line for each network, a point for each epoch: "
    + "; ".join(f"{name} reaches {c[..., 0].mean(0).max():.3f} at {c[..., 1].mean(0).max():.2f}" for name, c in curves.items()),
)  # fmt: skip


# %%
def at_matched_gap(one, other, m):
    """How much easier `one` is to attack than `other`, over the overfitting levels that both went through; None if there are none."""
    sides = [curves[name][m][curves[name][m][:, 1].argsort()] for name in (one, other)]  # (epochs, 2), by level
    low, high = max(s[0, 1] for s in sides), min(s[-1, 1] for s in sides)
    grid = np.linspace(low, high, 50)
    found = [np.interp(grid, s[:, 1], s[:, 0]) for s in sides]
    return float(np.mean(found[0] - found[1])) if low < high else None


for one, other in comparisons:
    gaps = [gap for m in models if (gap := at_matched_gap(one, other, m)) is not None]
    if gaps:
        page.record("attack_acc_at_matched_gap", [f"{one}_less_{other}"], gaps, note="victim by victim", **about)
    print(f"{one} less {other} at the same overfitting: {metrics.summary(gaps) if gaps else 'never at one level'}")

# %% [markdown]
# @@MEMBER@@
#
# ## A defence?
#
# Section 7 of the paper turns it round: if a design leaks, leave it out. Its Figure 11 shows accuracy on the task hardly moving and the attacks getting weaker. Your table above has what such a decision needs,
# and two cautions: what is gained against *this* search may not hold against another, and at equal overfitting little may be left to gain against membership inference. Lab 13 puts such swaps beside noise.
#
# ## The paper, and here

# %%
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and steps.** At `smoke` and `laptop` the networks have one block a stage and a quarter or half of the channels, and the attack is lab 04's `annealed` with few steps. At `gpu` and `paper` they are the paper's, attacked by Inverting Gradients with the paper's settings.
# - **Which network?** Figures 8 to 10 do not say on which of the fourteen steps the designs were switched. We switch on step 9, and stems and norms on steps 11 and 14 as well.
# - **Eval mode**, but where the table says train. The paper names no mode; one image of 32 x 32 leaves no other.
# - **Weights.** Fresh, and drawn for all designs alike (He et al., over what goes out). The paper does not say what its victims had learnt.
# - **MSE** is that of normalised images, as in the paper; decibels are of pixels in [0, 1].
# - **Membership** at `laptop`: small networks, thousands of images, few epochs, no mixup, so that they overfit at all. Both of a pair are victim once.
# - The fourth switch, the main effects, the stems between, no norm at all, and the comparison at equal overfitting are ours.
#
# ## Summary
#
# @@SUMMARY@@
#
# ## Where to read on
#
# Zhang et al. 2024, sections 5.3, 6.2 and 7; Liu et al. 2022 for why the designs are there. Lab 09 has the fourteen steps, lab 13 the swap of a component as a defence.
