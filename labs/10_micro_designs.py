# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10 · Micro designs under the knife
#
# Between a ResNet and a ConvNeXt lie choices that nobody would call an architecture: is there an activation behind the addition, what shape has the
# first convolution, which norm stands in a block? Zhang et al. took three of them out, one at a time (section 5.3, Figures 8 to 10), and found that
# each changes what a network gives away. In lab 09 each step stands on those before it. Here each
# design is switched on and off by itself, and with the others, so that you can tell which does the work.
#
# After it you can
# - write a block for each of the eight patterns of activations, and say what each activation costs the attacker;
# - say why one price of smoothness is not the same for every design, and set a fair one;
# - list what else differs between two designs;
# - say what a BatchNorm does to a message in either of its modes;
# - compute main effects and interactions of several switches;
# - tell an effect of a design on membership inference from one of overfitting.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 1.0 | 1.3 GB |
# | class | 12 | 2.5 GB |
# | gpu | 10 | 8 GB |
# | paper | 10 | 12 GB |
#
# (Measured on two CPU cores, two more processes included; the last two rows are estimates, for one part. At `gpu` and `paper` every search
# and training is kept: the lab stops when a part's time is over, and run again it goes on from there. Where the text says what a search finds, it speaks of `laptop`; at `smoke` searches are too short to decide anything.)

# %% [markdown]
# *You need* lab 04 (a search, and its exercises 3 and 4 on BatchNorm) and lab 01 (membership inference). *Words that are new here*: **pattern**, **switch**,
# **fair price**, **main effect**, **interaction**, **confounded**.

# %%
import itertools
import time
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from torch import nn

from privlab import data, ledger, metrics, training
from privlab.attacks import gradient_inversion
from privlab.attacks.membership_inference import network_based
from privlab.leak import observe
from privlab.models import morph
from privlab.notebook import checks, flipbook, plots, widgets

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"
part_minutes = 9  # at gpu and paper: how long one part may take

# %%
if profile in ("smoke", "class"):
    torch.set_num_threads(
        1
    )  # networks as small as these are no faster with two, and far slower where other programs run
page = ledger.Page("10", profile=profile, seed=seed, device=device)
small = dict(width=0.25, depths=(1, 1, 1, 1))
# what is built; repeats and steps of a search; what the trained victims learn from, and for how long
shape, repeats, steps, train_images, epochs = {
    "smoke": (small, 2, 3, 64, 2),
    "class": (small, 4, 80, 800, 3),
    "gpu": ({}, 4, 1_000, 10_000, 15),
    "paper": ({}, 10, 3_000, 50_000, 50),
}[profile]
full_size = profile in ("gpu", "paper")
preset = "inverting_gradients" if full_size else "annealed"
fresh = dict(mode="eval", victim="fresh")

# %% [markdown]
# ## One block, three places
#
# Our block is that of step 9 of lab 09's fourteen, the last one in which all three activations are there. The stem is already "patchified" and has no
# activation. `morph.build` makes any step, with any of its designs changed. Here is such a block, beside one of step 10.

# %%
photos = data.load("cifar10", "test")


def victim(base=9, number=0, classes=10, **changes):
    """A fresh network: step `base` with these designs changed; `number` is that of its weights."""
    return morph.build(base, classes, seed=seed + number, **shape, **changes).to(page.device)


before, after = (morph.outline(victim(activations=pattern), stage=1, block=0) for pattern in ("111", "010"))
plots.blocks(
    before, after, titles=("pattern 111, step 9", "pattern 010, step 10"), shortcuts=("1 x 1 and BatchNorm",) * 2
)

# %% [markdown]
# A **pattern** says by three digits which activations are there: behind the first convolution, behind the second, behind the addition. 111 is this block,
# 010 a ConvNeXt's, 000 has none. What remains without any? Convolutions, norms in eval mode and averages: the whole network is then *linear* in the image,
# up to the softmax behind it.

# %% [markdown]
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
# In the package it is the same, with two things of ConvNeXt's in it: layer scale, a small factor on the branch, and stochastic depth, which drops blocks at random in training.

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
# Fifteen. Each is attacked on the same photographs, from the same starts, with weights of the same draw: PyTorch's own. (The paper does not say how
# its weights were drawn. It will matter.) Repeat k is photograph k in the message of fresh victim k.


# %%
def settings(price=1.0):
    """What the preset takes: steps, and so many times the usual price of smoothness."""
    return dict(steps=steps, tv=1e-4 * price if full_size else (0.02 * price, 1e-5 * price))


gradient_inversion.cases.PRESETS[preset](**settings())

# %% [markdown]
# A search is a `Case`: a network and what is changed in it, a photograph, an attack and two seeds. `cases.run` gives the cases to the machine's cores and keeps what they
# find.


# %%
def case(k, base=9, price=1.0, train=False, draw="pytorch", **changes):
    """The search for photograph k in the message of fresh victim k: step `base` with these designs changed."""
    own = morph.STEPS[base]
    if changes.get("activations") == "000" and not own.stem_activation:
        changes = {name: value for name, value in changes.items() if name != "activation"}  # of no kind
    changes = {name: value for name, value in changes.items() if getattr(own, name) != value}  # what differs
    changes |= shape if draw == "pytorch" else shape | dict(draw=draw)
    return gradient_inversion.Case(
        f"morph_{base}", (k,), preset, settings(price), changes, victim=seed + k, seed=seed + k, train=train
    )


def run(cases, title):
    """What these cases find; at gpu and paper for so long as this part may take."""
    left = max(deadline - time.monotonic(), 1) if full_size else None
    jobs = 1 if profile == "smoke" else None
    return gradient_inversion.run_cases(cases, title, device=page.device, jobs=jobs, budget=left, progress=False)


def search(designs, title, price=lambda base, changes: 1.0):
    """Name -> (base, changes) becomes name -> one result a repeat.  price: of smoothness, in each design."""
    priced = [(base, dict(changes, price=price(base, changes))) for base, changes in designs.values()]
    results = run([case(k, base, **changes) for base, changes in priced for k in range(repeats)], title)
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
# We compare repeat by repeat: the same photograph, the same start. (PSNR is a log of the MSE, so "the error falls" and "the PSNR
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
# With ReLU the order is roughly the paper's: 111 gives the attacker little, 000 and 010, the ConvNeXt's choice, give him most. With GELU it is another order: what helps is the
# third activation, best by itself (001). And GELU in place of ReLU helps in every pattern, where the paper has it otherwise. Now look at the *pictures*, at `laptop`: some are smooth, and some are full of grain.

# %% [markdown]
# ### A table of patterns, or of prices?
#
# The price of roughness is the same in every search. But it is weighed against a distance between messages, and these have a size of their own in each design. Measure it:
# how far is the message of a plain grey image from that of the photograph? The attacker can do something like it, with any image of his own.


# %%
def from_grey(build, source=photos, size=None):
    """Cosine distance between the messages of a grey image and of photograph k in victim `build(k)`, mean over the repeats."""
    apart = []
    for k in range(repeats):
        image, label = source.one(k, size=size)
        model = build(k)
        mine, theirs = (observe(model, x, label) for x in (torch.full_like(image, 0.5), image))
        apart.append(gradient_inversion.objectives.cosine_distance(image, mine.grads, theirs).item())
    return sum(apart) / repeats


PLACES = ("111", "110", "010", "001")
grey = {
    (k, p): from_grey(lambda n, k=k, p=p: victim(9, n, activation=k, activations=p))
    for k in KINDS
    for p in (*PLACES, "000")
}
pd.DataFrame({labels[kind]: {p: grey[kind, p] for p in (*PLACES, "000")} for kind in KINDS}).round(3)

# %% [markdown]
# They differ by a factor of thirty. In a GELU network with the third activation all messages point nearly the same way, so smoothness rules the search; without it smoothness hardly counts. So set the price in units of that distance: a **fair price** is to each design what 1 is to step 9.

# %%
UNIT = grey["gelu", "111"]


def fair(base, changes):
    """The price that is to this design what 1 is to step 9, to one digit."""
    return float(f"{from_grey(lambda k: victim(base, k, **changes)) / UNIT:.1g}")


fairly = {(kind, p): sixteen[kind, p] for kind in KINDS for p in (*PLACES, "000")}
at_fair = {name: scores(results) for name, results in search(fairly, "searches at a fair price", fair).items()}
rows = {
    f"{labels[kind]}, {price}": [of[kind, p]["psnr"].mean() for p in (*PLACES, "000")]
    for price, of in (("one price", by_pattern), ("fair price", at_fair)) for kind in KINDS
}  # fmt: skip
plots.heat(
    torch.tensor(list(rows.values())), rows=list(rows), columns=(*PLACES, "000"), ylabel="kind and price", unit="mean PSNR in dB",
    xlabel="pattern: behind the first convolution, the second, the addition",
    alt="Mean PSNR by pattern. " + "; ".join(f"{row}: " + ", ".join(f"{v:.1f}" for v in of) for row, of in rows.items()),
)  # fmt: skip

# %%
about = dict(note="fair price, repeat by repeat", **fresh)
for kind in KINDS:
    page.record(
        "psnr_difference",
        ["fair", kind, "act_110_less_act_111"],
        less(at_fair[kind, "110"], at_fair[kind, "111"]),
        **about,
    )
    for p in PLACES:
        page.record(
            "psnr_difference",
            ["fair", kind, f"act_000_less_act_{p}"],
            less(at_fair[kind, "000"], at_fair[kind, p]),
            **about,
        )
gains = [less(at_fair["gelu", p], at_fair["relu", p]) for p in PLACES]
page.record("psnr_difference", ["fair", "gelu_less_relu", "mean_of_four"], torch.stack(gains).mean(0), **about)

# %% [markdown]
# At a fair price the order is the paper's. With either kind, no activation at all serves the attacker best, on every photograph; and to take the one behind the addition away from 111 helps him, on every photograph. So our first table was wrong about GELU: it was a table of prices. What is left of GELU's lead is small but for 001, and in one pattern it is turned over.

# %% [markdown]
# The paper, too, has one price for all its designs. How much of its figure is due to that only its authors' networks could tell.
# From here on the paper's figures are redone at one price, as the paper has it, and all that we add at a fair one.

# %% [markdown]
# ### How were the weights drawn?
#
# PyTorch's own draw gives a convolution the variance 1 / (3 n), with n the numbers that go into
# an output. He et al. give it 2 / n, six times as much; ResNets are usually drawn so.
#
# Predict: by how much does GELU in place of ReLU help the attack with He's draw?

# %%
guess_kind = widgets.predict(
    "PSNR with GELU less with ReLU, He's draw, patterns 111 and 110:", low=-5, high=5, unit="dB"
)
guess_kind

# %%
four = list(itertools.product(KINDS, ("111", "110")))
drawn = {at: (9, sixteen[at][1] | dict(draw="he")) for at in four}
by_victim = {
    "pytorch": at_fair, "he": {name: scores(results) for name, results in search(drawn, "searches with He's draw", fair).items()}
}  # fmt: skip
for (kind, p), found in by_victim["he"].items():
    print(f"He's draw, {kind} {p}: {said(found)}")
guess_kind.against(
    sum(less(by_victim["he"]["gelu", p], by_victim["he"]["relu", p]).mean().item() / 2 for p in ("111", "110"))
)

# %% [markdown]
# And with victims that have learned a little? (They start from PyTorch's draw, and are kept in the run store. Made here and not by name, they are searched one after the other, in this process.)


# %%
def invert(build, k, about, price, source=photos, size=None, hide=None):
    """Search for photograph k in the message of `build(k)`; `about` says which victim that is.

    hide: model -> names of the parameters whose gradients are withheld.
    """
    attack = gradient_inversion.cases.PRESETS[preset](**settings(price))
    about = dict(victim=about, shape=shape, set=source.name, size=size, k=k, hidden=hide and hide.__name__)
    store = gradient_inversion.kept_run(attack, seed, page.device, **about) if full_size else None

    def one(**keep):
        model = build(k)
        leak = observe(model, *source.one(k, size=size))
        leak = leak.without(hide(model)) if hide else leak
        return attack.run(model, leak, seed=seed + k, snapshots=0, progress=False, **keep)

    return gradient_inversion.search_once(store, deadline, one)


# %%
recipe = replace(training.RECIPES["smoke"], epochs=epochs)
state = f"trained {epochs} epochs on {train_images} images"
by_victim["trained"], learned = {}, {}
for kind, p in four:
    network, history = training.victim(
        "morph_9", recipe, images=train_images, test=200, sample=200, seed=seed, device=page.device, progress=False,
        model=shape | dict(activation=kind, activations=p),
    )  # fmt: skip
    learned[kind, p] = network
    about, price = f"{kind} {p}, {state}, {recipe!r}", float(f"{from_grey(lambda k: learned[kind, p]) / UNIT:.1g}")  # noqa: B023
    found = scores([invert(lambda k: learned[kind, p], k, about, price) for k in range(repeats)])  # noqa: B023
    by_victim["trained"][kind, p] = found
    print(f"{kind} {p}: test accuracy {history.test_accuracy[-1]:.2f}; price {price:g}; {said(found)}")

# %%
third = {(how, kind): less(of[kind, "110"], of[kind, "111"]) for how, of in by_victim.items() for kind in KINDS}
gelu_gain = {
    how: torch.stack([less(of["gelu", p], of["relu", p]) for p in ("111", "110")]).mean(0) for how, of in by_victim.items()
}  # fmt: skip
for how in by_victim:
    about = dict(
        mode="eval", victim=state if how == "trained" else "fresh", note=f"weights: {how}; fair price, repeat by repeat"
    )
    for kind in KINDS:
        page.record("psnr_difference", [how, kind, "act_110_less_act_111"], third[how, kind], **about)
    page.record("psnr_difference", [how, "gelu_less_relu"], gelu_gain[how], **about)

# %%
plots.dots(
    {f"third {labels[kind]} away, {how}": gain for (how, kind), gain in third.items()}
    | {f"GELU for ReLU, {how}": gain for how, gain in gelu_gain.items()},
    xlabel="what it brings the attacker, in dB, at a fair price",
    alt="Gain in PSNR from taking the third activation away, and from GELU in place of ReLU, for three kinds of weights: "
    + ", ".join(f"{labels[k]} {how} {gain.mean():+.1f} dB" for (how, k), gain in third.items())
    + "; GELU for ReLU: " + ", ".join(f"{how} {gain.mean():+.1f} dB" for how, gain in gelu_gain.items()),
)  # fmt: skip

# %% [markdown]
# Why should that matter for GELU? Near 0 a GELU is x / 2, a straight line; only numbers of size 1 and more meet its bend. A ReLU has its kink at 0, whatever the size. So
# measure how bent an activation *is* in a network: the share of its output that no straight line through its input explains (one minus a squared correlation).


# %%
def bend(model, image):
    """Mean over a network's activations of the share of their output that is not a straight line of their input."""
    shares, hooks = [], []

    def note(_, arguments, out):
        pair = torch.stack([arguments[0].flatten(), out.flatten()])
        shares.append(1 - torch.corrcoef(pair)[0, 1].square().item())

    for module in model.modules():
        if isinstance(module, (nn.ReLU, nn.GELU)):
            hooks.append(module.register_forward_hook(note))
    with torch.no_grad():
        model(model.normalise(image.to(page.device)))
    for hook in hooks:
        hook.remove()
    return sum(shares) / len(shares)


# %%
bends = {}
for how, kind in itertools.product(by_victim, KINDS):
    fresh_one = partial(victim, draw=how, activation=kind) if how != "trained" else None
    networks = [learned[kind, "111"] if how == "trained" else fresh_one(number=k) for k in range(max(repeats, 4))]
    bends[how, kind] = [bend(network, photos.one(k)[0]) for k, network in enumerate(networks)]
    about = dict(mode="eval", victim=state if how == "trained" else "fresh", note="pattern 111, photograph k")
    page.record("bend", [how, kind], bends[how, kind], **about)
pd.DataFrame(
    {labels[kind]: {how: metrics.summary(bends[how, kind]).mean for how in by_victim} for kind in KINDS}
).round(3)

# %% [markdown]
# With He's draw a GELU is as bent as a ReLU; with PyTorch's it is nearly straight. So in a network that nobody initialised "GELU in place of ReLU" means "less of an activation". That fits what you see: with PyTorch's draw
# GELU is somewhat ahead, with He's it is not. (It fits; we did not show that it is the cause.)
#
# The third activation costs the attacker something with either draw. So "fewer activations leak more" holds here, once the price is fair,
# and "GELU does not help" holds where a GELU is a bend at all.

# %% [markdown]
# ## The stem: Figure 9a
#
# The stem of a ResNet is a 7 x 7 convolution of stride 2 and a pooling of stride 2 behind it. A ViT and a ConvNeXt patchify: they cut the image into squares of 4 x 4 pixels,
# a convolution of 4 x 4 with stride 4. Either way a map of 8 x 8 is left of a 32 x 32 image.

# %% [markdown]
# Figure 9 does not say on which network. So we ask on two: step 9 (all activations, three BatchNorms a block) and step 14, the ConvNeXt. And we ask twice: at one
# price, and at a fair one.

# %% [markdown]
# ### Predict
#
# Which of the two stems gives the attacker more?

# %%
guess_stem = widgets.predict("PSNR with patchify less PSNR with the convolution, step 9:", low=-5, high=10, unit="dB")
guess_stem

# %%
BASES = (9, 14)
STEM = {"conv_stem": dict(patchify=False, pool=True), "patchify": dict(patchify=True, pool=False)}
designs = {(base, name): (base, changes) for base in BASES for name, changes in STEM.items()}
by_stem = {at: scores(results) for at, results in search(designs, "searches for Figure 9a").items()}
fair_stem = {at: scores(results) for at, results in search(designs, "the same at a fair price", fair).items()}
for (base, name), found in by_stem.items():
    print(f"step {base}, {name}: {said(found)}; at a fair price {said(fair_stem[base, name])}")
    page.record("mse", [f"step_{base}", name], found["mse"], unit="normalised", **fresh)
for base in BASES:
    for key, of in (("", by_stem), ("fair_", fair_stem)):
        gap = less(of[base, "patchify"], of[base, "conv_stem"])
        page.record(
            "psnr_difference", [f"{key}step_{base}", "patchify_less_conv_stem"], gap, note="repeat by repeat", **fresh
        )
guess_stem.against(less(by_stem[9, "patchify"], by_stem[9, "conv_stem"]).mean().item())

# %% [markdown]
# ## Exercise 2: what else changed?
#
# Two designs are **confounded** in a comparison if both change at once. "Patchify" is one word, and more than one thing. Which of these differ between the two stems, for a 32 x 32 image?
# Give a set of words.

# %% [markdown]
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
# Between the two stems lie others (not in the paper), which differ in one of these each. First means in place of maxima. Then no pooling, but the same 7 x 7 weights with stride 4. Then 4 x 4, without overlap.


# %%
STEMS = ("7 x 7, maxima", "7 x 7, means", "7 x 7, stride 4", "4 x 4, stride 4")


def with_stem(kind, k):
    """Step 9 behind one of the two stems between; like the others, each leaves a map of a quarter of the side."""
    model = victim(9, k, **STEM["conv_stem"])
    model.stem.pool = nn.AvgPool2d(3, 2, 1) if "means" in kind else nn.Identity()
    model.stem.conv.stride = (2, 2) if "means" in kind else (4, 4)
    return model


def at_stem(kind):
    build = partial(with_stem, kind)
    price = float(f"{from_grey(build) / UNIT:.1g}")
    return scores([invert(build, k, f"step 9, stem {kind}", price) for k in range(repeats)])


ladder = {
    STEMS[0]: fair_stem[9, "conv_stem"],
    **{kind: at_stem(kind) for kind in STEMS[1:3]},
    STEMS[3]: fair_stem[9, "patchify"],
}
for before, after in itertools.pairwise(STEMS):
    print(f"{before} -> {after}: {metrics.summary(less(ladder[after], ladder[before]))} dB, repeat by repeat")

# %%
for key, (one, other) in {
    "means_less_maxima": (1, 0),
    "stride_less_means": (2, 1),
    "patches_less_overlap": (3, 2),
}.items():
    gap = less(ladder[STEMS[one]], ladder[STEMS[other]])
    page.record("psnr_difference", ["stem", key], gap, note="step 9, fair price, repeat by repeat", **fresh)
plots.dots(
    {kind: found["psnr"] for kind, found in ladder.items()}, xlabel="PSNR in dB, step 9",
    alt="PSNR of every search behind four stems: " + ", ".join(f"{n} {v['psnr'].mean():.1f} dB" for n, v in ladder.items()),
)  # fmt: skip

# %% [markdown]
# "Patchify" turns out to be two changes that work against each other. Pooling by *maxima* costs the attacker several decibels: of nine values it lets one through, and the other eight leave no trace.
# But a convolution of stride 4 looks at the image at a quarter as many places as one of stride 2, and that costs as much again. Squares without overlap cost a little more.
#
# Figure 9a is left with the difference of two larger numbers; no wonder that its sign changes from network to network and stays within the spread on both.

# %% [markdown]
# ## The norm: Figure 9b
#
# Now LayerNorm in place of BatchNorm. In `eval` mode, in which most attacks are run, a fresh BatchNorm takes running averages of 0 and 1 (lab 04). So take all of them out of the network, and compare.


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
# So on a fresh victim in eval mode "BatchNorm to LayerNorm" compares *no norm* with LayerNorm. In `train` mode mean and variance are taken over all positions of the
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

# %% [markdown]
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
# A single value is left of one image of 32 x 32. So the paper's "BN" of one CIFAR-10 image, if it
# attacked one at a time, was in eval mode. (It does not say.) With 64 x 64 pixels there are four values.

# %% [markdown]
# So here are photographs of 64 x 64, on step 11, the step before the paper's LN: both
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


def large_victim(k, train=False, norm="bn"):
    return victim(11, k, classes=1000, norm=norm).train(train)


def fair_large(build):
    return float(f"{from_grey(build, large, 64) / UNIT:.1g}")


prices = {kind: fair_large(partial(large_victim, **changes)) for kind, changes in NORMS.items()}
results = run(
    [large_case(k, price=prices[kind], **changes) for kind, changes in NORMS.items() for k in range(repeats)],
    "at 64 pixels",
)
of_norm = {kind: results[i * repeats : (i + 1) * repeats] for i, kind in enumerate(NORMS)}


# %%
def of_norms(model):
    """The parameters of the norms, by name."""
    return [n for n, _ in model.named_parameters() if "norm" in n]


def bare(k):
    return without_norms(large_victim(k))


layered, price = partial(large_victim, norm="ln"), fair_large(bare)
of_norm["no norm"] = [invert(bare, k, "step 11, no norm", price, large, 64) for k in range(repeats)]
of_norm["LN, withheld"] = [invert(layered, k, "step 11, LN", prices["LN"], large, 64, of_norms) for k in range(repeats)]
by_norm = {kind: scores(found, large, 64) for kind, found in of_norm.items()}
for kind, found in by_norm.items():
    print(f"{kind}: {said(found)}")

# %%
about = dict(victim="fresh", note="step 11, 64 x 64 pixels, fair price")
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
# And on 32 x 32 pixels, in eval mode, on steps 9 and 14, at one price and at a fair one? (Step 12 of the morph gives its convolutions a bias along with the LayerNorm. Here the norm is switched alone.)

# %%
designs = {(base, norm): (base, dict(norm=norm)) for base in BASES for norm in ("bn", "ln")}
pairs = {at: scores(results) for at, results in search(designs, "searches for Figure 9b").items()}
fair_pairs = {at: scores(results) for at, results in search(designs, "the same at a fair price", fair).items()}
for (base, norm), found in pairs.items():
    print(f"step {base}, {norm}: {said(found)}; at a fair price {said(fair_pairs[base, norm])}")
    page.record("mse", [f"step_{base}", norm], found["mse"], unit="normalised", **fresh)
for base in BASES:
    for key, of in (("", pairs), ("fair_", fair_pairs)):
        gap = less(of[base, "ln"], of[base, "bn"])
        page.record("psnr_difference", [f"{key}step_{base}", "ln_less_bn"], gap, note="repeat by repeat", **fresh)

# %% [markdown]
# A LayerNorm brings whatever enters it to size 1. So it undoes the draw, and with it the straight line that GELU was on small numbers:

# %%
for draw, norm in itertools.product(("pytorch", "he"), ("bn", "ln")):
    some = [bend(victim(9, k, norm=norm, draw=draw), photos.one(k)[0]) for k in range(max(repeats, 4))]
    page.record("bend", [draw, norm, "gelu"], some, note="step 9, pattern 111, photograph k", **fresh)
    print(f"{draw}, {norm}: bend of a GELU {metrics.summary(some).mean:.3f}")

# %% [markdown]
# So does LayerNorm leak more than BatchNorm? It hangs on the mode, and on the network.
#
# - Against BatchNorm in *train* mode it does, by some decibels, as Figure 9b has it. That mode takes away from each channel its mean and its size over the whole image; the attacker may well miss them.
# - Against BatchNorm in *eval* mode, which on a fresh victim is no norm at all, it leaks less on steps 9 and 14, at either price, and somewhat more on step 11 with 64 x 64 pixels.
# - What LayerNorm's own parameters send makes next to no difference: without their gradients the search does about as well.
#
# The paper's finding holds here for a client in train mode. Whoever attacks a fresh network in eval mode, as is usual, compares something else under the same two names.

# %% [markdown]
# ## Three switches, and a fourth
#
# Step 9, and four **switches**, each between a ResNet's way and a ConvNeXt's: the activation behind the addition, the stem, the norm, and the kind of activation. All sixteen
# combinations are attacked, each at its fair price.

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


sixteen_of = search({c: (9, combined(c)) for c in COMBINATIONS}, "all combinations, at a fair price", fair)
cube = {c: scores(results) for c, results in sixteen_of.items()}


# %%
def look(**chosen):
    combination = tuple(WORDS[name].index(chosen[name]) for name in SWITCHES)
    found, results = cube[combination], sixteen_of[combination]
    titles = [f"photograph {k}: {found['psnr'][k]:.1f} dB, SSIM {found['ssim'][k]:.2f}" for k in range(2)]
    mean = f"mean of {repeats}: {found['psnr'].mean():.1f} dB, normalised MSE {found['mse'].log().mean().exp():.2f}"
    design = ", ".join(f"{name}: {word}" for name, word in chosen.items())
    images = [image for k in range(2) for image in (photos.one(k)[0], results[k].images)]
    alt = f"Two photographs, and what the search has of each. {design}. {'; '.join(titles)}."
    return widgets.Sentence(mean), plots.side_by_side(*images, titles=["", titles[0], "", titles[1]], alt=alt)


widgets.explore(look, **WORDS)

# %% [markdown]
# The same as a flipbook, from the attacker's worst design to the best:

# %%
ranked = sorted(COMBINATIONS, key=lambda c: cube[c]["psnr"].mean().item())
words = {c: {name: WORDS[name][on] for name, on in zip(SWITCHES, c, strict=True)} for c in COMBINATIONS}
flipbook.show(
    [look(**words[c])[1] for c in ranked],
    captions=[f"{', '.join(words[c].values())}: {cube[c]['psnr'].mean():.1f} dB" for c in ranked],
    label="from the worst design to the best",
)

# %% [markdown]
# Which switch matters most? A **main effect** is the difference that a switch makes, averaged over all settings of the others. An **interaction** is by how much the effect of one switch is larger
# when another one is on than when it is off. Predict, switch by switch, from what you have seen:

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
# <details><summary>Hint</summary>In each repeat by itself: the mean over all tuples with a 1 in that place, less the mean over those with a 0. Photographs differ by more than
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


matters = effects(cube)
for name, gap in matters.items():
    kind = "interaction" if " with " in name else "effect"
    page.record(
        "psnr_difference", [kind, name.replace(" ", "_")], gap, note="step 9, fair price, repeat by repeat", **fresh
    )

# %%
plots.dots(
    matters, xlabel="effect on the PSNR in dB: four main effects, then six interactions",
    alt="Main effects and interactions, a dot a repeat: " + ", ".join(f"{n} {v.mean():+.1f} dB" for n, v in matters.items()),
)  # fmt: skip

# %%
for name in SWITCHES:
    gap = matters[name]
    print(f"{name:>8}: {metrics.summary(gap)} dB.", guesses[name].against(gap.mean().item()))

# %% [markdown]
# Of the four, the activation behind the addition matters most: to take it away helps the attacker, in every repeat. The norm comes next, with a wide spread and with the other sign than in the paper (in eval mode, fresh). The stem, with its two opposite halves, and the kind of activation matter little on average.

# %% [markdown]
# And the interactions: taking the third activation away helps the attacker more *with LayerNorm* than without, by about as much as the norm's whole main effect. A table that changes one design at a time on one
# network, as Figures 8 and 9 do, cannot show that. So single effects should not be added up to "a ConvNeXt leaks because of its three micro designs".

# %% [markdown]
# ## Defences, under a search that knows the curvature
#
# Lab 09 found a ReLU network that stops Gauss-Newton, and a GELU network that does not. So is the *kink* the defence? Put softplus in ReLU's place: $\log(1 + e^{\beta x}) / \beta$ is smooth for any $\beta$, and the **sharper** it is the less it
# differs from ReLU. Step 8, nothing else changed, both searches with as many passes.

# %% [markdown]
# ### Exercise 5: how sharp?
#
# Softplus of sharpness $\beta$ lies above ReLU everywhere. Where is it furthest away, and by how much? Write `sharpness(gap)`: the $\beta$ at which the two are never more than `gap` apart.
#
# <details><summary>Hint</summary>Look at 0.</details>


# %% tags=["exercise"]
def sharpness(gap): ...


# %% tags=["solution"]
def sharpness(gap):
    return torch.tensor(2.0).log().item() / gap


# %%
checks.verify("10.sharpness", sharpness)

# %%
guess_sharp = widgets.predict(
    "Gauss-Newton: PSNR with softplus of sharpness 1 less that with ReLU:", low=-10, high=20, unit="dB"
)
guess_sharp

# %%
passes = max(2 * steps, 12)
some = min(repeats, 3)
SHARP = (1.0, 1000.0) if profile == "smoke" else (1.0, 10.0, 100.0, 1000.0)
kinds = {f"{s:g}": dict(activation="softplus", sharpness=s) for s in SHARP} | {"ReLU": {}}


def curved(asked):
    """The same case, by Gauss-Newton."""
    return replace(asked, attack="gauss_newton", settings=dict(steps=passes, passes=passes))


sharp = {
    kind: [case(k, 8, price=price, **changes) for k in range(some)]
    for kind, changes in kinds.items()
    for price in [fair(8, changes)]
}


def at_64(k, base, mode="eval", noise=0.0):
    """Photograph k of 64 x 64 in the message of step `base`, by Adam at its fair price."""
    price = fair_large(lambda n: morph.build(base, 1000, seed=seed + n, **shape).to(page.device).train(mode == "train"))
    made = case(k, base, price=price, train=mode == "train")
    changes = {**made.changes, "num_classes": 1000}
    return replace(made, changes=changes, data=large.name, split="train", side=64, noise=noise)


# %%
guards = {(base, mode): dict(base=base, mode=mode) for base in (8, 9, 10) for mode in ("eval", "train")}
guards |= {(9, f"noise {n:g}"): dict(base=9, noise=n) for n in ((0.1,) if profile == "smoke" else (0.01, 0.1))}
guarded = {name: [at_64(k, **how) for k in range(1 if profile == "smoke" else 2)] for name, how in guards.items()}
asked = [one for cases in (sharp | guarded).values() for one in cases]
results = iter(run([*asked, *map(curved, asked)], "under both searches"))
by_adam, by_newton = (
    {name: [next(results) for _ in cases] for name, cases in (sharp | guarded).items()} for _ in range(2)
)

# %%
about = dict(note=f"{passes} passes", **fresh)
found = {
    way: {kind: scores(of[kind]) for kind in sharp} for way, of in (("adam", by_adam), ("gauss_newton", by_newton))
}
for way, of in found.items():
    for kind in sharp:
        page.record(
            "psnr", [way, "step_8", "relu" if kind == "ReLU" else f"softplus_{kind}"], of[kind]["psnr"], **about
        )
    page.record("psnr_difference", [way, "step_8", "softplus_1_less_relu"], less(of["1"], of["ReLU"]), **about)
    page.record("psnr_difference", [way, "step_8", "softplus_1000_less_relu"], less(of["1000"], of["ReLU"]), **about)
guess_sharp.against(less(found["gauss_newton"]["1"], found["gauss_newton"]["ReLU"]).mean().item())

# %%
searches = {"Adam": found["adam"], "Gauss-Newton": found["gauss_newton"]}
plots.lines(
    {way: (list(sharp), [of[kind]["psnr"].mean().item() for kind in sharp]) for way, of in searches.items()},
    xlabel="sharpness of the softplus; at the right end ReLU itself", ylabel="PSNR in dB, mean",
    alt="PSNR against sharpness: " + "; ".join(f"{way} " + ", ".join(f"{k} {of[k]['psnr'].mean():.1f}" for k in sharp) for way, of in searches.items()),
)  # fmt: skip

# %% [markdown]
# And what a client might do: BatchNorm in train mode, or noise on what it sends. Photographs of 64 x 64, since train mode fails on smaller ones:

# %%
rows, found_64 = {}, {}
for base, guard in guarded:
    one, other = (scores(of[base, guard], large, 64) for of in (by_adam, by_newton))
    rows[f"step {base}, {guard}"] = {"Adam": said(one), "Gauss-Newton": said(other)}
    found_64[base, guard] = other
    key = f"bn_{guard}" if guard in ("eval", "train") else guard.replace(" ", "_").replace(".", "p")
    at = dict(fresh, mode="train" if guard == "train" else "eval", note=f"{passes} passes, 64 x 64")
    page.record("psnr", ["gauss_newton", f"step_{base}", key], other["psnr"], **at)
    page.record("psnr_difference", ["gauss_newton_less_adam", f"step_{base}", key], less(other, one), **at)
for mode in ("eval", "train"):
    gap = less(found_64[9, mode], found_64[8, mode])
    page.record("psnr_difference", ["gauss_newton", f"bn_{mode}", "step_9_less_step_8"], gap, **dict(fresh, mode=mode))
gap = less(found_64[9, "train"], found_64[9, "eval"])
page.record("psnr_difference", ["gauss_newton", "step_9", "train_less_eval"], gap, **dict(fresh, mode="train"))
pd.DataFrame(rows).T

# %% [markdown]
# At `laptop` (a quarter of the channels, 160 passes, three repeats) softplus of sharpness 1 in place of ReLU gives Gauss-Newton 1.5 ± .7 dB more, and Adam 1.2 ± .5. From a sharpness of 100 on softplus is *worse* for the attacker than ReLU itself, for either search: what
# counts is how fast a slope turns, not whether every derivative exists.

# %% [markdown]
# BatchNorm in train mode takes about 4 dB from Gauss-Newton on step 9, ReLU or GELU then makes no difference, and on step 10 Adam stands 3.8 dB ahead of it. Noise of a tenth of the message's norm takes nothing away that
# 160 passes could have found. (Two repeats each, at 64 x 64 pixels.) So a defence may work against one search and hardly against another; a third search might do better.

# %% [markdown]
# ## Membership: Figure 10, and Table 7's first row
#
# The paper switches three designs for membership inference as well, and finds each of them to make it easier. The attack is lab 01's network. We start from step 9
# with a ResNet's stem, and add one design at a time. Beside them a ResNet, a ConvNeXt and a Swin (Table 7: .64, .75 and .69).

# %% [markdown]
# ### Predict
#
# Do members get easier to tell with LayerNorm?

# %%
guess_member = widgets.predict("attack accuracy with LayerNorm less with BatchNorm:", low=-0.2, high=0.2)
guess_member

# %%
plain, fewer = STEM["conv_stem"], dict(activations="010")
DESIGNS = {
    "plain": plain, "fewer_activations": plain | fewer, "patchify": STEM["patchify"], "ln": plain | dict(norm="ln"),
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
    "class": (of_designs | little, 2_400, 2, 4, 1),
    "gpu": (of_designs | full, 50_000, 1, 300, 50),
    "paper": (of_designs | full, 50_000, 3, 300, 50),
}[profile]
members_recipe = replace(members_recipe, epochs=members_epochs)

# %%
pixels, classes = training.batches.subset(data.load("cifar10"), range(size))
parts = [data.four_way(classes, seed=seed + k) for k in range(halves)]
keep = torch.zeros(2 * halves, size, dtype=torch.bool)  # row 2k: the victim of split k; row 2k + 1: its shadow model
for k, part in enumerate(parts):
    keep[2 * k, part.victim_train], keep[2 * k + 1, part.shadow_train] = True, True

fleets = {}
for name, (zoo_name, changes) in networks.items():
    fleets[name] = training.shadow_models.make(
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
    network = network_based.network(*answers(name, m ^ 1, at), seed=seed)
    logits, truth, members = answers(name, m, at)
    right = (logits.argmax(1) == truth).double()
    return metrics.roc.accuracy(network(logits, truth), members, 0.5), (
        right[members].mean() - right[~members].mean()
    ).item()


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
# The second column explains much of the first. So compare at the *same* gap.

# %% [markdown]
# ## Exercise 6: at the same overfitting
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
    {name.replace("_", " "): (c[:, 1][o], c[:, 0][o]) for name in list(curves)[:7] for c in [curves[name].mean(0)] for o in [c[:, 1].argsort()]},
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
# At equal epochs the designs differ by many hundredths, and not all in the paper's direction: with a patchified stem these small networks overfit sooner, with LayerNorm and with fewer activations later, and their attackers do better or worse by as much.
#
# At equal
# overfitting next to nothing is left of any difference, for the designs and for the three families alike: all lie on one line. So at this size the second column *is* the explanation. Whether the paper's networks, with
# mixup and 300 epochs, leave that line is for `gpu` and `paper` to say.

# %% [markdown]
# ## A defence?
#
# Section 7 of the paper turns it round: if a design leaks, leave it out. Its Figure 11 shows accuracy on the task hardly moving and the attacks getting weaker. Two cautions: what is gained against *this* search may not hold against another, and at equal overfitting little may be left to gain against membership inference. Lab 13 puts such swaps beside noise.

# %% [markdown]
# ## The paper, and here

# %%
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and steps.** At `smoke` and `laptop` the networks have one block a stage and a quarter of the channels, and the attack is lab 04's `annealed` with few steps. `gpu` and `paper` have the paper's networks and settings.
# - **Which network?** Figures 8 to 10 do not say on which of the fourteen steps the designs were switched. We switch on step 9, and stems and norms on step 14 as well.
# - **Eval mode**, but where it says train. The paper names no mode; one image of 32 x 32 leaves no other.
# - **Weights.** Fresh, and drawn for all designs alike: as PyTorch does, and for some designs as He et al. do. The paper says neither how its victims were drawn nor what they had learnt.
# - **MSE** is that of normalised images, as in the paper; decibels are of pixels in [0, 1].
# - **Membership** at `laptop`: small networks, hundreds of members, few epochs, no mixup, so that they overfit at all. Both of a pair are victim once.
# - The fair price, the fourth switch, the main effects, the stems between, no norm at all, and the comparison at equal overfitting are ours.

# %% [markdown]
# ## Summary
#
# - At one price for all, a table of designs is in part one of prices.
# - At a fair price the attacker does best with no activation and worst with all three; in between it hangs on which. Of four switches the one behind the addition matters most.
# - GELU in place of ReLU brings him little: something with PyTorch's draw, where it is nearly a straight line, nothing with He's.
# - "Patchify" is confounded: no maxima helps the attacker, a larger stride hurts him.
# - A fresh BatchNorm in eval mode is nothing. LayerNorm gives the attacker more than BatchNorm in train mode does; against none at all it hangs on the network.
# - Effects of single switches do not add up: measure interactions, repeat by repeat.
# - For membership these designs differ by how soon the network overfits, at this size.

# %% [markdown]
# ## Where to read on
#
# Zhang et al. 2024, sections 5.3, 6.2 and 7; Liu et al. 2022 for why the designs are there. Lab 09 has the fourteen steps, lab 13 the swap of a component as a defence.
