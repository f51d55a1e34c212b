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
# | smoke | 0.7 | 1.1 GB |
# | class | 2.5 | 1.2 GB |

# %% [markdown]
# *You need* lab 04 (a search, and its exercises 3 and 4 on BatchNorm) and lab 01 (membership inference). *Words that are new here*: **pattern**, **switch**,
# **fair price**, **main effect**, **interaction**, **confounded**.

# %%
import itertools
from copy import deepcopy
from functools import partial
from inspect import getsource

import pandas as pd
import torch

from privlab import data, experiments, ledger
from privlab.experiments import designs, micro_designs
from privlab.leak import observe
from privlab.models import morph
from privlab.notebook import checks, flipbook, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
torch.set_num_threads(1)  # networks as small as these are no faster with two
run = partial(experiments.run, size=profile, device=device)
shape = dict(width=0.25, depths=(1, 1, 1, 1))  # of the networks that you look at: a quarter of the channels

# %% [markdown]
# ## One block, three places
#
# Our block is that of step 9 of lab 09's fourteen, the last one in which all three activations are there. The stem is already "patchified" and has no
# activation. `morph.build` makes any step, with any of its designs changed. Here is such a block, beside one of step 10.

# %%
photos = data.load("cifar10", "test")


def victim(base=9, number=0, classes=10, **changes):
    """A fresh network: step `base` with these designs changed; `number` is that of its weights."""
    return morph.build(base, classes, seed=seed + number, **shape, **changes)


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
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
for pattern in ("000", "001"):
    relu, gelu = (victim(activations=pattern, activation=kind) for kind in ("relu", "gelu"))
    apart = (relu(photo) - gelu(photo)).abs().max().item()
    print(f"pattern {pattern}: logits with ReLU and with GELU are at most {apart:.3g} apart")

# %% [markdown]
# Fifteen. Each is attacked on the same photograph, from the same start, with weights of the same draw: PyTorch's own. (The paper does not say how
# its weights were drawn. It will matter.) A repeat has a photograph and a draw of weights of its own. This is what one costs here, and what stands in the ledger:

# %%
experiments.find("micro_designs.activations").size(profile)

# %% [markdown]
# ### Before you go on: predict
#
# Keep the ReLUs inside the block, and take only the one behind the addition away: 111 becomes 110. By how many decibels does the picture get better?

# %%
guess_third = widgets.predict("PSNR of 110 less PSNR of 111, ReLU:", low=-5, high=10, unit="dB")
guess_third

# %%
kept, mine = experiments.load("micro_designs.activations"), run("micro_designs.activations")
KINDS, PATTERNS = micro_designs.KINDS, micro_designs.PATTERNS
labels = {"relu": "ReLU", "gelu": "GELU"}
guess_third.against(mine.mean("psnr[relu, act_110] - psnr[relu, act_111]"))

# %% [markdown]
# We compare repeat by repeat: the same photograph, the same start. (PSNR is a log of the MSE, so "the error falls" and "the PSNR
# rises" are one statement; the paper prints the MSE.)


# %%
def heat(rows, columns, ylabel):
    """Mean PSNR, by the evidence where there is any: rows are label -> names."""
    best = kept if len(kept) else mine
    means = {label: [best.mean(name) for name in names] for label, names in rows.items()}
    return plots.heat(
        torch.tensor([*means.values()]), rows=[*means], columns=columns, ylabel=ylabel, unit="mean PSNR in dB",
        xlabel="pattern: behind the first convolution, the second, the addition",
        alt=f"Mean PSNR by pattern, {best!r}. " + "; ".join(f"{label}: " + ", ".join(f"{v:.1f}" for v in row) for label, row in means.items()),
    )  # fmt: skip


heat({labels[kind]: [f"psnr[{kind}, act_{p}]" for p in PATTERNS] for kind in KINDS}, PATTERNS, "kind")

# %%
rows = {f"{labels[k]} {p}": f"mse[{k}, act_{p}]" for k in KINDS for p in PATTERNS}
plots.evidence(kept, mine, rows, xlabel="MSE of normalised images (lower is a better attack)", log=True)

# %%
grid = plots.tiles(mine.picture("picture[patterns]"), 32).unflatten(0, (2, 9))
tiles = grid[:, 1:]  # (kinds, patterns, 3, 32, 32); the first of a row is the photograph
captions = {labels[k]: [f"{p}: {mine.mean(f'psnr[{k}, act_{p}]'):.0f} dB" for p in PATTERNS] for k in KINDS}
plots.images(
    dict(zip(labels.values(), tiles, strict=True)), captions=captions,
    alt=f"One photograph as the search rebuilds it from the gradients of sixteen designs: {captions}",
)  # fmt: skip

# %% [markdown]
# With ReLU and with GELU the orders differ. With GELU what helps is the third activation, best by itself or nearly so (001), where the paper has it otherwise. Now look at the *pictures*: some are smooth, and some are full of grain.

# %% [markdown]
# ### A table of patterns, or of prices?
#
# The price of roughness is the same in every search. But it is weighed against a distance between messages, and these have a size of their own in each design. Measure it:
# how far is the message of a plain grey image from that of a photograph? The attacker can do it with any image of their own; we take four public ones.

# %%
print(getsource(designs.Search.from_grey))

# %% [markdown]
# In units of that of step 9, with one digit:

# %%
PLACES = micro_designs.PLACES
weights = {labels[k]: {p: mine.mean(f"fair_weight[fair, {k}, act_{p}]") for p in PLACES} for k in KINDS}
pd.DataFrame(weights)

# %% [markdown]
# They differ by a factor of ten and more. In a GELU network with the third activation all messages point nearly the same way, so smoothness rules the search; without it smoothness hardly counts. So set the price in units of that distance: a **fair price** is to each design what 1 is to step 9.

# %%
rows = {
    f"{labels[kind]}, {price}": [f"psnr[{of}{kind}, act_{p}]" for p in PLACES]
    for price, of in (("one price", ""), ("fair price", "fair, "))
    for kind in KINDS
}
heat(rows, PLACES, "kind and price")

# %%
gains = {
    f"{labels[kind]}, {price}: {one} less {other}": f"psnr[{of}{kind}, act_{one}] - psnr[{of}{kind}, act_{other}]"
    for one, other in (("110", "111"), ("000", "111"), ("000", "001"))
    for price, of in (("one price", ""), ("fair price", "fair, "))
    for kind in KINDS
}
plots.evidence(kept, mine, gains, xlabel="what it brings the attacker, in dB")

# %% [markdown]
# At a fair price no activation at all is no longer the attacker's worst pattern; how far the paper's order comes out, the panel at the end decides on all repeats. So our first table was in part a table of prices.

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
he = [mine.mean(f"psnr[he, gelu, act_{p}] - psnr[he, relu, act_{p}]") for p in ("111", "110")]
guess_kind.against(sum(he) / 2)

# %% [markdown]
# And with victims that have learned a little? (They start from PyTorch's draw, each repeat on images of its own.)

# %%
kept_trained, mine_trained = experiments.load("micro_designs.trained"), run("micro_designs.trained")
gains = {
    f"{what}, {weights}": f"psnr[{weights}, {one}] - psnr[{weights}, {other}]"
    for what, one, other in (
        ("third ReLU away", "relu, act_110", "relu, act_111"),
        ("third GELU away", "gelu, act_110", "gelu, act_111"),
        ("GELU for ReLU, 111", "gelu, act_111", "relu, act_111"),
        ("GELU for ReLU, 110", "gelu, act_110", "relu, act_110"),
    )
    for weights in ("fair", "he", "trained")
}
fresh, learned = ({k: v for k, v in gains.items() if ("trained" in k) == late} for late in (False, True))
plots.evidence(
    kept, mine, fresh, xlabel="what it brings the attacker on fresh networks, in dB ('fair': PyTorch's draw)"
)

# %%
plots.evidence(kept_trained, mine_trained, learned, xlabel="what it brings the attacker on trained networks, in dB")

# %% [markdown]
# Why should that matter for GELU? Near 0 a GELU is x / 2, a straight line; only numbers of size 1 and more meet its bend. A ReLU has its kink at 0, whatever the size. So
# measure how bent an activation *is* in a network: the share of its output that no straight line through its input explains (one minus a squared correlation).


# %%
print(getsource(micro_designs.bend))

# %%
kept_bends, mine_bends = experiments.load("micro_designs.bends"), run("micro_designs.bends")
rows = {f"{labels[kind]}, {draw}": f"bend[{draw}, {kind}]" for kind in KINDS for draw in ("pytorch", "he")}
plots.evidence(kept_bends, mine_bends, rows, xlabel="how bent an activation is: 0 is a straight line")

# %% [markdown]
# With He's draw a GELU is as bent as a ReLU; with PyTorch's it is nearly straight. So in a network that nobody initialised "GELU in place of ReLU" means "less of an activation". That fits what you see: with PyTorch's draw
# GELU is somewhat ahead, with He's it is not. (It fits; we did not show that it is the cause.)
#
# So "GELU does not help" may hold where a GELU is a bend at all.

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
kept_stems, mine_stems = experiments.load("micro_designs.stems"), run("micro_designs.stems")
gains = {
    f"step {step}, {price}": f"psnr[{of}step_{step}, patchify] - psnr[{of}step_{step}, conv_stem]"
    for step in (9, 14)
    for price, of in (("one price", ""), ("fair price", "fair, "))
}
print(guess_stem.against(mine_stems.mean(gains["step 9, one price"])))
plots.evidence(kept_stems, mine_stems, gains, xlabel="what patches in place of convolution and pooling bring, in dB")

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
rungs = ("maxima", "means", "stride", "patches")
names = ("7 x 7, maxima", "7 x 7, means", "7 x 7, stride 4", "4 x 4, stride 4")
plots.evidence(
    kept_stems,
    mine_stems,
    {n: f"psnr[stem, {r}]" for n, r in zip(names, rungs, strict=True)},
    xlabel="PSNR in dB, step 9, fair price",
)

# %%
gains = {f"{a} less {b}": f"psnr[stem, {a}] - psnr[stem, {b}]" for b, a in itertools.pairwise(rungs)}
plots.evidence(kept_stems, mine_stems, gains, xlabel="what each change brings, in dB")

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
print(getsource(micro_designs.without_norms))

# %%
kept_free, mine_free = experiments.load("micro_designs.norm_free"), run("micro_designs.norm_free")
rows = {f"step {step}": f"relative_error[step_{step}, bn_eval, no_norm]" for step in (9, 11)}
plots.evidence(kept_free, mine_free, rows, xlabel="what BatchNorm in eval mode changes, of the logits' size", log=True)

# %% [markdown]
# So on a fresh victim in eval mode "BatchNorm to LayerNorm" compares *no norm* with LayerNorm. In `train` mode mean and variance are taken over all positions of the
# image, and over all images of the batch.

# %%
two = photos.normalise(photos.take([0, 1])[0])
other = photos.normalise(photos.take([0, 2])[0])
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
# So here are photographs enlarged to 64 x 64, on step 11, the step before the paper's LN: both
# modes of BatchNorm, LayerNorm, and no norm at all. And one more: LayerNorm, but the client keeps the gradients of the norms' own parameters to itself. If
# LayerNorm leaks because it *sends* something, that one will do worse.

# %%
guess_norm = widgets.predict("PSNR with LayerNorm less BatchNorm in eval mode:", low=-5, high=10, unit="dB")
guess_norm

# %%
kept_modes, mine_modes = experiments.load("micro_designs.modes"), run("micro_designs.modes")
NORMS = {"BN, eval": "bn_eval", "BN, train": "bn_train", "LN": "ln", "no norm": "none", "LN, withheld": "ln_withheld"}
print(guess_norm.against(mine_modes.mean("psnr[norm, ln] - psnr[norm, bn_eval]")))
rows = {name: f"psnr[norm, {key}]" for name, key in NORMS.items()} | {
    "mean photograph": "psnr[cifar10, mean_photograph]"
}
plots.evidence(kept_modes, mine_modes, rows, xlabel="PSNR in dB, step 11, 64 x 64 pixels, fair price")

# %%
row = "a photograph of 64 x 64, and what the search has of it"
captions = ["", *(f"{name}: {mine_modes.mean(f'psnr[norm, {key}]'):.0f} dB" for name, key in NORMS.items())]
plots.images(
    {row: plots.tiles(mine_modes.picture("picture[norms]"), 64)}, captions={row: captions},
    alt="A photograph and five reconstructions: " + ", ".join(captions[1:]),
)  # fmt: skip

# %% [markdown]
# And on 32 x 32 pixels, in eval mode, on steps 9 and 14, at one price and at a fair one? (Step 12 of the morph gives its convolutions a bias along with the LayerNorm. Here the norm is switched alone.)

# %%
kept_norms, mine_norms = experiments.load("micro_designs.norms"), run("micro_designs.norms")
gains = {
    f"step {step}, {price}": f"psnr[{of}step_{step}, ln] - psnr[{of}step_{step}, bn]"
    for step in (9, 14)
    for price, of in (("one price", ""), ("fair price", "fair, "))
}
plots.evidence(kept_norms, mine_norms, gains, xlabel="what LayerNorm in place of BatchNorm brings, in dB")

# %% [markdown]
# A LayerNorm brings whatever enters it to size 1. So it undoes the draw, and with it the straight line that GELU was on small numbers:

# %%
rows = {f"{norm.upper()}, {draw}": f"bend[{draw}, {norm}, gelu]" for draw in ("pytorch", "he") for norm in ("bn", "ln")}
plots.evidence(kept_bends, mine_bends, rows, xlabel="how bent a GELU is: 0 is a straight line")

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
WORDS = {
    "addition": ("activation behind it", "none behind it"), "stem": ("7 x 7 and pooling", "patchify"),
    "norm": ("BatchNorm", "LayerNorm"), "kind": ("ReLU", "GELU"),
}  # fmt: skip
kept_cube, mine_cube = experiments.load("micro_designs.switches"), run("micro_designs.switches")
best = kept_cube if len(kept_cube) else mine_cube
truth, *rebuilt = plots.tiles(mine_cube.picture("picture[combinations]"), 32).split(1)
COMBINATIONS = list(itertools.product((0, 1), repeat=4))
SWITCHES = list(WORDS)


# %%
def look(**chosen):
    combination = tuple(WORDS[name].index(chosen[name]) for name in SWITCHES)
    key = micro_designs.combined(combination)
    title = f"{mine_cube.mean(f'psnr[{key}]'):.1f} dB, SSIM {mine_cube.mean(f'ssim[{key}]'):.2f}"
    mean = f"{best.mean(f'psnr[{key}]'):.1f} dB on average ({best!r})"
    design = ", ".join(f"{name}: {word}" for name, word in chosen.items())
    image = rebuilt[COMBINATIONS.index(combination)]
    alt = f"A photograph, and what the search has of it. {design}. {title}."
    return widgets.Sentence(mean), plots.side_by_side(truth, image, titles=["the client's", title], alt=alt)


widgets.explore(look, **WORDS)

# %% [markdown]
# The same as a flipbook, from the attacker's worst design to the best:

# %%
level = {c: mine_cube.mean(f"psnr[{micro_designs.combined(c)}]") for c in COMBINATIONS}
words = {c: {name: WORDS[name][on] for name, on in zip(SWITCHES, c, strict=True)} for c in COMBINATIONS}
ranked = sorted(COMBINATIONS, key=level.get)
flipbook.show(
    [look(**words[c])[1] for c in ranked],
    captions=[f"{', '.join(words[c].values())}: {level[c]:.1f} dB" for c in ranked],
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
rows = {name: f"effect[{name}]" for name in SWITCHES}
rows |= {f"{one} with {other}": f"interaction[{one}, {other}]" for one, other in itertools.combinations(SWITCHES, 2)}
plots.evidence(kept_cube, mine_cube, rows, xlabel="effect on the PSNR in dB: four main effects, then six interactions")

# %%
for name in SWITCHES:
    print(f"{name:>8}: {best.mean(f'effect[{name}]'):+.1f} dB.", guesses[name].against(best.mean(f"effect[{name}]")))

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
kept_sharp, mine_sharp = experiments.load("micro_designs.sharpness"), run("micro_designs.sharpness")
kinds = [name.split(", ")[-1][:-1] for name in mine_sharp.table if name.startswith("psnr[adam")]
print(guess_sharp.against(mine_sharp.mean("psnr[gauss_newton, step_8, softplus_1] - psnr[gauss_newton, step_8, relu]")))
rows = {
    f"{way}, {kind.replace('_', ' ')}": f"psnr[{key}, step_8, {kind}]"
    for way, key in (("Adam", "adam"), ("Gauss-Newton", "gauss_newton"))
    for kind in kinds
}
plots.evidence(kept_sharp, mine_sharp, rows, xlabel="PSNR in dB, step 8, by sharpness of the softplus")

# %% [markdown]
# And what a client might do: BatchNorm in train mode, or noise on what it sends. Photographs of 64 x 64, since train mode fails on smaller ones:

# %%
kept_guards, mine_guards = experiments.load("micro_designs.guards"), run("micro_designs.guards")
rows = {
    f"step {step}, {guard.replace('_', ' ').replace('0p', '0.')}, {way}": f"psnr[{key}, step_{step}, {guard}]"
    for step in (8, 9)
    for guard in ("bn_eval", "bn_train", *(("noise_0p1",) if step == 9 else ()))
    for way, key in (("Adam", "adam"), ("Gauss-Newton", "gauss_newton"))
}
plots.evidence(kept_guards, mine_guards, rows, xlabel="PSNR in dB, 64 x 64 pixels")

# %% [markdown]
# A soft softplus gives either search more than ReLU does; a sharp one has every derivative, and is no better for the attacker than ReLU. What
# counts is how fast a slope turns, not whether every derivative exists.

# %% [markdown]
# BatchNorm in train mode takes decibels away under either search. Noise of a tenth of the gradient's norm takes little away that
# so few passes could have found. So a defence may work against one search and hardly against another; a third search might do better.

# %% [markdown]
# ## Membership: Figure 10
#
# The paper switches three designs for membership inference as well, and finds each of them to make it easier. The attack is lab 01's network. We start from step 9
# with a ResNet's stem, and add one design at a time. (ResNet, ConvNeXt and Swin, Table 7's first row, are lab 01's.)

# %% [markdown]
# ### Predict
#
# Do members get easier to tell with LayerNorm?

# %%
guess_member = widgets.predict("attack accuracy with LayerNorm less with BatchNorm:", low=-0.2, high=0.2)
guess_member

# %%
kept_members, mine_members = experiments.load("micro_designs.membership"), run("micro_designs.membership")
DESIGNS = [*micro_designs.MEMBERS]
print(guess_member.against(mine_members.mean("attack_acc[ln, network] - attack_acc[plain, network]")))
best_members = kept_members if len(kept_members) else mine_members
columns = {
    "training accuracy": "train_acc[{}]",
    "train-test gap": "train_test_gap[{}]",
    "attack accuracy": "attack_acc[{}, network]",
}
pd.DataFrame({d: {c: best_members.mean(name.format(d)) for c, name in columns.items()} for d in DESIGNS}).T.round(3)

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

# %% [markdown]
# The evidence has it with the strongest attack of lab 02, the likelihood ratio: the area under its curve, at the last epoch, and on average over the levels that all four designs went through.

# %%
rows = {
    f"{design.replace('_', ' ')} less plain, {when}": f"auc{at}[{design}, likelihood_ratio] - auc{at}[plain, likelihood_ratio]"
    for design in DESIGNS[1:]
    for when, at in (("equal epochs", ""), ("equal gap", "_at_matched_gap"))
}
plots.evidence(kept_members, mine_members, rows, xlabel="difference of the area under the curve")

# %% [markdown]
# Read the two together: where a difference at equal epochs is gone at an equal gap, the design only changed how soon the network overfits. What the repeats decide stands in the panel below. Whether the paper's networks, with
# mixup and 300 epochs, leave that line is for `gpu` and `paper` to say.

# %% [markdown]
# ## A defence?
#
# Section 7 of the paper turns it round: if a design leaks, leave it out. Its Figure 11 shows accuracy on the task hardly moving and the attacks getting weaker. Two cautions: what is gained against *this* search may not hold against another, and at equal overfitting little may be left to gain against membership inference. Lab 13 puts such swaps beside noise.

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("10")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and steps.** Up to `night` the networks have one block a stage and a quarter of the channels; at `smoke` and `class` the attack is lab 04's `annealed` with few steps, from `night` on the paper's. `gpu` and `paper` have the paper's networks.
# - **Which network?** Figures 8 to 10 do not say on which of the fourteen steps the designs were switched. We switch on step 9, and stems and norms on step 14 as well.
# - **Eval mode**, but where it says train. The paper names no mode; one image of 32 x 32 leaves no other.
# - **Weights.** Fresh, and drawn for all designs alike: as PyTorch does, and for some designs as He et al. do. The paper says neither how its victims were drawn nor what they had learnt.
# - **MSE** is that of normalised images, as in the paper; decibels are of pixels in [0, 1].
# - **Membership**: small networks, hundreds of members, no mixup; each repeat has images and models of its own.
# - **What the text says of results** comes from an earlier measurement with four repeats of other sizes; the panel judges by the evidence, and has the last word.
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
