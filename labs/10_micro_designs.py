# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10 · Which micro design is to blame?
#
# Is there an activation behind an addition? What shape has the first convolution? Which norm stands in a block? Nobody would call such a choice an
# architecture. Yet in lab 09 a few of them made a gradient leak a photograph. There each change came on top of those before it. Here you switch each by itself, as
# Zhang et al. do, and then together with the others. Which one is to blame?
#
# After this lab you can
# - write a block with any of its activations left out;
# - change one design of a network, and say what else changes with it;
# - compute main effects and interactions, and say why single effects do not add up.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 2 | 1.1 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 60 minutes. You need* lab 09. *New words*: **pattern**, **confounded**, **switch**, **main effect**, **interaction**.

# %%
import itertools

from privlab import compute, experiments
from privlab.course.lab_10 import experiments as micro_designs
from privlab.course.lab_10 import switchboard
from privlab.experiments.victims import designs
from privlab.notebook import checks, drawings, plots, text, widgets

import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
torch.set_num_threads(1)  # networks as small as these are no faster with two
profile = experiments.profile(profile)
device = compute.device(device)
quick = profile == "smoke"  # fewer steps of the search, to try the code

# %% [markdown]
# ## One block, three places
#
# Our block comes from step 9 of lab 09. This is the last step with all three activations. `morph.build` makes any step, with any of its
# designs changed. Here is such a block beside one of step 10.

# %%
plots.morph_block(10)

# %% [markdown]
# A **pattern** says by three digits which activations are there: behind the first convolution, behind the second, behind the addition. 111 is the block on the left, 010 the one on the right.
# Pattern 000 has none. Then only convolutions, norms and averages remain. In evaluation mode such a network is *linear* in the image, up to the softmax behind it.

# %% [markdown]
# ### Exercise 1: a block for each pattern *(difficulty 2, 12 minutes)*
#
# Write `forward(x, layers, shortcut, act, pattern)`: the output of a block. `layers` are three functions, each a convolution with its norm. `shortcut` and `act`
# are functions too. `pattern` is a text such as `"110"`.
#
# <details><summary>Hint</summary>In Python the text <code>"0"</code> counts as true, so compare with <code>"1"</code>. And the third place stands
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
# ## All eight patterns
#
# Zhang et al., Figure 8 attacks all eight patterns, with ReLU and with GELU, by the search of lab 04. All designs have one weight of smoothness. The paper does
# not say on which network. We take step 9.
#
# ### Predict
#
# Keep the two ReLUs inside the block, and remove the one behind the addition: 111 becomes 110. How many decibels does this bring the attacker?

# %%
third = widgets.predict("PSNR of 110 minus PSNR of 111, ReLU:", -5, 10, "dB")
third

# %%
PATTERNS, KINDS = micro_designs.PATTERNS, {"ReLU": "relu", "GELU": "gelu"}
kept = experiments.load("micro_designs.activations")
mine = experiments.run("micro_designs.activations", profile, device=device)
shown = kept or mine
names = {
    name: [f"psnr[{kind}, act_{p}]" for p in PATTERNS] for name, kind in KINDS.items()
}
means = {name: [shown.mean(one) for one in row] for name, row in names.items()}
spoken = [f"{name} {', '.join(f'{x:.1f}' for x in row)}" for name, row in means.items()]
plots.heat(
    [*means.values()], rows=[*means], columns=PATTERNS, ylabel="kind",
    xlabel="pattern: first convolution, second, addition", unit="mean PSNR in dB",
    alt=f"Mean PSNR by pattern {', '.join(PATTERNS)}: {'; '.join(spoken)}.",
)  # fmt: skip

# %%
grid = plots.tiles(mine.picture("picture[patterns]"), 32).unflatten(0, (2, 9))
images = dict(zip(KINDS, grid[:, 1:], strict=True))  # the first is the photograph
captions = {
    name: [
        f"{p}: {mine.mean(one):.0f} dB" for p, one in zip(PATTERNS, row, strict=True)
    ]
    for name, row in names.items()
}
spoken = "; ".join(f"{name} {', '.join(row)}" for name, row in captions.items())
says = f"Your run: one photograph, reconstructed behind sixteen designs. {spoken}."
plots.images(images, captions=captions, alt=says)

# %%
alone = "psnr[{0}, act_110] - psnr[{0}, act_111]"
best = {name: PATTERNS[row.index(max(row))] for name, row in means.items()}
removed = {name: shown.mean(alone.format(kind)) for name, kind in KINDS.items()}
display(third.against(removed["ReLU"]))
text(
    "The paper says: the picture is much better without the third activation, GELU "
    "does not help, and the best pattern is 000. Here, with n = {} at {}, 110 less 111 "
    "is {:+.1f} dB with ReLU and {:+.1f} dB with GELU. GELU less ReLU is {:+.1f} dB, "
    "over the seven patterns that have an activation. The best pattern is {} with ReLU "
    "and {} with GELU. The mean photograph has {:.1f} dB.",
    len(shown),
    shown.size,
    *removed.values(),
    (sum(means["GELU"][:-1]) - sum(means["ReLU"][:-1])) / 7,
    *best.values(),
    shown.mean("psnr[cifar10, mean_photograph]"),
)

# %% [markdown]
# ## One word, and more than one change
#
# Zhang et al., Figure 9 has two more designs. Part a is the stem: a convolution with pooling, or patches. But two designs are **confounded** in a comparison if
# both change at once, and *patchify* is one word for several changes. The stem of a ResNet is a 7 x 7 convolution of stride 2, and behind it a pooling by maxima of stride 2.
# A patchified stem is a 4 x 4 convolution of stride 4.

# %% [markdown]
# ### Exercise 2: what else changed? *(difficulty 1, 8 minutes)*
#
# Which of these differ between the two stems, for a 32 x 32 image? Give a set of words.
#
# - `"resolution"`: of the map that the first block sees
# - `"channels"`: of that map
# - `"overlap"`: whether more than one window reads a pixel
# - `"weights"`: how many weights each channel of the stem has
# - `"maxima"`: whether the stem keeps only the largest value of a window
# - `"activation"`: whether the stem has a ReLU or GELU
#
# <details><summary>Hint</summary>Print <code>morph.build(9).stem</code> and <code>morph.build(9, patchify=False, pool=True).stem</code>.</details>

# %% tags=["exercise", "reading"]
differs = ...

# %% tags=["solution"]
differs = {"overlap", "weights", "maxima"}

# %%
checks.verify("10.confounded", differs)

# %%
WAYS = ["better", "worse", "about as good"]
patches = widgets.choose("On step 9 patchify makes the picture", WAYS)
patches

# %%
kept_stems = experiments.load("micro_designs.stems")
mine_stems = experiments.run("micro_designs.stems", profile, device=device)
change = "psnr[step_{0}, patchify] - psnr[step_{0}, conv_stem]"
rows = {f"step {n}: patchify": change.format(n) for n in (9, 14)}
rows |= {"step 9, calibrated weight": change.format("9").replace("[", "[fair, ")}
plots.evidence(kept_stems, mine_stems, rows, xlabel="what patches bring, in dB")


# %%
def word(gain):  # less than 1 dB is little
    return "better" if gain > 1 else "worse" if gain < -1 else "about as good"


shown_stems = kept_stems or mine_stems
patchify = shown_stems.mean(rows["step 9: patchify"])
patches.against(word(patchify))

# %% [markdown]
# In the paper patches make the picture better. [A deeper notebook](deeper/10_activations.ipynb) goes from one stem to the other in
# three steps, and asks which one hurts the attacker.
#
# ## What is BatchNorm, in this comparison?
#
# Part b of Figure 9 replaces BatchNorm by LayerNorm, and the picture becomes better. The paper does not say in which mode its networks are. Ours are fresh, and
# in evaluation mode.

# %%
norm = widgets.choose(
    "LayerNorm in place of BatchNorm, in evaluation mode, makes the picture", WAYS
)
norm

# %%
kept_norms = experiments.load("micro_designs.norms")
mine_norms = experiments.run("micro_designs.norms", profile, device=device)
rows = {}
for n in (9, 14):
    rows[f"step {n}, BatchNorm"] = f"psnr[step_{n}, bn]"
    rows[f"step {n}, LayerNorm"] = f"psnr[step_{n}, ln]"
rows["no gradient: grey picture"] = "psnr[cifar10, grey]"
plots.evidence(kept_norms, mine_norms, rows, xlabel="PSNR in dB")

# %%
shown_norms = kept_norms or mine_norms
layer_norm = shown_norms.mean("psnr[step_9, ln] - psnr[step_9, bn]")
norm.against(word(layer_norm))

# %% [markdown]
# A search that ends below the grey picture has found nothing, so an order with it says little. And what is BatchNorm here? In evaluation mode it normalises with stored averages. On a fresh network these are a mean of 0 and a variance of 1. So take all BatchNorms out of the network, and compare the logits.

# %%
kept_free = experiments.load("micro_designs.norm_free")
mine_free = experiments.run("micro_designs.norm_free", profile, device=device)
name = "relative_error[step_{}, bn_eval, no_norm]"
rows = {f"step {step}": name.format(step) for step in (9, 11)}
label = "change of the logits without BatchNorm, over their size"
plots.evidence(kept_free, mine_free, rows, xlabel=label, log=True)

# %% [markdown]
# So this compares no norm at all with LayerNorm. [The deeper notebook](deeper/10_activations.ipynb) has BatchNorm in training mode, too.
#
# ## Do these designs help the other attack?
#
# Zhang et al., Figure 10 has three designs under membership inference, the attack of lab 01: fewer activations, patches and LayerNorm, one at a time. In the
# paper each of them makes the attack stronger. Here are our small networks, after as many epochs as the plain one. (Your run does not repeat this experiment.)
#
# ### Predict

# %%
members = experiments.load("micro_designs.membership")
change = "attack_acc[{}, network] - attack_acc[plain, network]".format
rows = {"fewer activations": change("fewer_activations")}
rows |= {"patches": change("patchify"), "LayerNorm": change("ln")}
stronger = widgets.choose(
    "Which designs help the attack, on average?", [*rows], many=True
)
stronger

# %%
label = "attack accuracy, less that of the plain network"
display(plots.evidence(members, None, rows, xlabel=label))
display(stronger.against([n for n, one in rows.items() if members.mean(one) > 0]))
text(
    "The differences are {} on average, over n = {} repeats. The accuracy behind the "
    "plain network is {:.3f}. A design that overfits sooner is attacked more easily "
    "for this reason alone, so the deeper notebook compares at an equal level.",
    ", ".join(f"{members.mean(one):+.3f} ({name})" for name, one in rows.items()),
    len(members),
    members.mean("attack_acc[plain, network]"),
)

# %% [markdown]
# ## Four switches
#
# So far one design changed at a time. Do the changes add up? A **switch** is a choice between two designs, while everything else stays the same. We take four. Each has a ResNet's design and a ConvNeXt's:
#
# - *addition*: an activation behind the addition, or none;
# - *stem*: a convolution of 7 x 7 and pooling, or patches of 4 x 4;
# - *norm*: BatchNorm, or LayerNorm;
# - *kind*: ReLU, or GELU.
#
# Four switches have sixteen settings. Each gets the same attack.

# %%
drawings.show("00.client_and_server")

# %% [markdown]
# As in lab 09, each network now has a weight of smoothness that is calibrated for it. (In the paper's comparisons above all designs have one weight.)
#
# ### Predict

# %%
options = ["addition", "stem", "norm", "kind"]
blame = widgets.choose("Which switch brings the attacker most, on average?", options)
blame

# %%
trial = designs.trial(
    seed, "annealed", 3 if quick else 120, width=0.25, depths=(1,) * 4, device=device
)
found = {}
for setting in micro_designs.COMBINATIONS:  # such as (0, 1, 0, 0): only the stem is on
    changes = {}
    for ways, on in zip(micro_designs.SWITCHES.values(), setting, strict=True):
        changes |= ways[on]
    found[setting] = trial.calibrated(trial.design(9, **changes))

# %% [markdown]
# Flip them, with the mouse or with Tab and the space bar. You see the network that they make, and what the search found behind it. Start with one switch at a time. Then look
# for a switch whose effect changes when another one is on.

# %%
words = {
    "addition": ("an activation behind it", "none behind it"),
    "stem": ("7 x 7 and pooling", "patchify"),
    "norm": ("BatchNorm", "LayerNorm"),
    "kind": ("ReLU", "GELU"),
}
board = switchboard.Switchboard(9, micro_designs.SWITCHES, words, found, trial.images)
board

# %%
text(
    "On your photograph the setting that gives most away is: {} (SSIM {:.2f}). The "
    "one that gives least away is: {} (SSIM {:.2f}).",
    board.said(board.ranked[-1]),
    board.ssim[board.ranked[-1]],
    board.said(board.ranked[0]),
    board.ssim[board.ranked[0]],
)

# %% [markdown]
# ### Which switch matters most?
#
# If you flip one switch with all others off, you learn about one network only. A **main effect** is the difference that a switch makes, averaged over all settings of the others. An
# **interaction** is how much larger the effect of one switch is when another one is on than when it is off.

# %% [markdown]
# ### Exercise 3: a main effect *(difficulty 2, 12 minutes)*
#
# Write `effect(dB, switch)`. `dB` is a dict: a tuple of 0s and 1s, one for each switch, -> a list with a PSNR for each repeat. `switch` is a place in the tuple. Return a list: the main effect in each repeat.
#
# <details><summary>Hint</summary>In each repeat by itself, take the mean over all tuples with a 1 in that place, minus the mean over those with a 0. Photographs differ by more than
# designs do; what they share cancels in a difference on the same photograph.</details>


# %% tags=["exercise"]
def effect(dB, switch): ...


# %% tags=["solution"]
def effect(dB, switch):
    def mean(setting, repeat):
        chosen = [v[repeat] for s, v in dB.items() if s[switch] == setting]
        return sum(chosen) / len(chosen)

    count = len(next(iter(dB.values())))
    return [float(mean(1, repeat) - mean(0, repeat)) for repeat in range(count)]


# %%
checks.verify("10.effect", effect)

# %% [markdown]
# The experiment has all sixteen settings in each repeat, with other photographs and other weights, and a search of its own. Here are the four main effects:

# %%
kept = experiments.load("micro_designs.switches")
mine = experiments.run("micro_designs.switches", profile, device=device)
shown = kept or mine
label = "main effect on the PSNR in dB"
rows = {name: f"effect[{name}]" for name in options}
plots.evidence(kept, mine, rows, xlabel=label)

# %%
effects = {name: shown.mean(f"effect[{name}]") for name in options}
most = max(effects, key=effects.get)
display(blame.against(most))
text(
    "On your photograph, with your search, the main effects are {:+.1f} dB for "
    "*addition*, {:+.1f} dB for *stem*, {:+.1f} dB for *norm* and {:+.1f} dB for "
    "*kind*.",
    *board.effects.values(),
)

# %% [markdown]
# Do single effects add up? If they do, all six interactions are near 0.

# %%
adds = widgets.choose("The interactions are", ["all near 0", "not all near 0"])
adds

# %%
pairs = list(itertools.combinations(options, 2))
rows = {f"{a} with {b}": f"interaction[{a}, {b}]" for a, b in pairs}
plots.evidence(kept, mine, rows, xlabel="interaction in dB")

# %%
both = {pair: shown.mean(f"interaction[{pair[0]}, {pair[1]}]") for pair in pairs}
largest = max(both, key=lambda pair: abs(both[pair]))
display(adds.against("not all near 0" if abs(both[largest]) > 1 else "all near 0"))
text(
    "With n = {} at {}, *{}* brings the attacker most, {:+.1f} dB on average. The "
    "largest interaction is that of *{}* with *{}*, {:+.1f} dB. Every average "
    "includes settings with LayerNorm, and some of these end below a grey picture. A "
    "table that changes one design at a time, on one network, shows no interaction.",
    len(shown),
    shown.size,
    most,
    effects[most],
    *largest,
    both[largest],
)

# %% [markdown]
# ## The answer

# %%
text(
    "One at a time, on step 9 and at one weight, the missing activation behind the "
    "addition brings the attacker {:+.1f} dB, patches {:+.1f} dB and LayerNorm {:+.1f} "
    "dB over no norm. In all combinations, each at its own weight, *{}* brings most, "
    "{:+.1f} dB (n = {} at {}); single effects {}, as interactions reach {:+.1f} dB "
    "(all averages include settings with LayerNorm, some of which end below a grey "
    "picture), and a switch such as *stem* is itself more than one change.",
    *(removed["GELU"], patchify, layer_norm),
    most,
    effects[most],
    len(shown),
    shown.size,
    "do not add up" if abs(both[largest]) > 1 else "nearly add up",
    both[largest],
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. 2024, Figures 8 to 10. The paper does not say on which network its designs were switched; here it is step 9, and for stems and norms step 14 as well.
# The four switches together are our own.
# Up to `night` our networks have a quarter of the channels and one block in each stage, with fresh weights.

# %%
widgets.verdicts("10")

# %% [markdown]
# ## What would change our mind
#
# The same switches on networks of full size, or with weights that have learned, could give another order. So could a search that does not stop so early. A design that hides the photograph from this search, and
# not from a stronger one, is no defence.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, sections 5.3, 6.2 and 7; Liu et al. 2022 for why the designs are there. A deeper notebook of lab 13 swaps designs as a defence.
