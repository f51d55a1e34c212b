# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 09 · From ResNet-50 to ConvNeXt-T in fourteen steps
#
# In lab 04 a ResNet hid a photograph from a gradient search and a ConvNeXt did not. Between the two lie
# fourteen architectures, each one change away from the last (Zhang et al. 2024, section 5.2). You
# attack each on the same photographs, see *which* change opens the leak, and ask why.
#
# After it you can
# - read an architecture as data, and say what one step changes;
# - hold a table of fourteen attacks against the paper's;
# - tell a change of design from a change of resolution that comes along with it;
# - measure how well a gradient tells images apart, and how far a network sees;
# - say what one price of smoothness does to a comparison of architectures.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.4 GB |
# | class | 2 | 1.3 GB |

# %% [markdown]
# *You need* lab 04. *Words that are new here*: **stage**, **patchify**, **depthwise**, **inverted bottleneck**, **effective rank**, **effective receptive field**.

# %%
from functools import cache, partial
from inspect import getsource

import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from privlab import data, experiments, ledger, models
from privlab.attacks.gradient_inversion import sensitivity
from privlab.experiments import fourteen_steps
from privlab.notebook import checks, flipbook, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
torch.set_num_threads(1)  # networks as small as these are no faster with two
run = partial(experiments.run, size=profile, device=device)

# %% [markdown]
# ## Two ends, and what lies between
#
# Both networks have a *stem* that turns pixels into the first map of features, four **stages** of equal blocks, each stage at half the resolution of the
# one before, and a classifier. A block adds what its three convolutions make to what came in.

# %% [markdown]
# Three words for what differs. A convolution is **depthwise** if each channel has a filter of its own; a block is an **inverted bottleneck** if it is wide in the middle and narrow at its ends; and to **patchify** is to cut the image into patches that do not overlap, in the stem. Here is a block of the second stage of either end:


# %%
@cache
def look(number):
    """A step as the paper has it: millions of parameters, millions of multiplications for a 32 x 32 image, and its layers in words."""
    model = models.morph.build(number)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 3, 32, 32))
    layers = {
        place: models.morph.outline(model, *place) for place in ((-1, 0), (1, 0), (1, 1))
    }  # (stage, block); -1 is the stem
    return sum(p.numel() for p in model.parameters()) / 1e6, counter.get_total_flops() / 2e6, layers


plots.blocks(*(look(number)[2][1, 1] for number in (1, 14)), ["1: ResNet-50", "14: ConvNeXt-T"])

# %% [markdown]
# `privlab` has the fourteen steps as data: a `Step` names all that sets one apart, and one small network is built from it. Step 1 *is* timm's
# ResNet-50 and step 14 its ConvNeXt-T: with their weights put in, the outputs are equal (the tests hold that). This is the way from one to the other:

# %%
for number in range(2, 15):
    print(f"{number:2}. {models.morph.diff(number - 1, number).words.split(': ', 1)[1]}")

# %% [markdown]
# The paper's table (9) leaves some of this open: where the stride is, which activation stays in step 10, how step 6 is to be read. What we chose, and why, stands at the head
# of `privlab.models.morph`.
#
# Walk through it. Left the old block, right the new; where the stem changes you see the stem, and where downsampling does, the first block of a stage.

# %%
PLACES = {4: (-1, 0), 8: (-1, 0), 13: (1, 0)}  # step -> what to draw; a block of the second stage if not named


def change(step):
    """The drawing of a step: before, after, and what changed in words."""
    before, (params, macs, _) = max(1, step - 1), look(step)
    titles = [f"{n}: {models.morph.STEPS[n].name}" for n in (before, step)]
    drawn = plots.blocks(*(look(n)[2][PLACES.get(step, (1, 1))] for n in (before, step)), titles)
    words = models.morph.diff(before, step).words if step > 1 else "ResNet-50, where it begins."
    return widgets.Sentence(f"{words} {params:.2f} million parameters, {macs:.0f} million multiplications."), drawn


# %%
widgets.explore(change, start=dict(step=10), step=tuple(models.morph.STEPS))

# %%
pd.DataFrame(run("fourteen_steps.parameters").table)

# %% [markdown]
# ### Exercise 1: make a step yourself
#
# Start from step 9 and take away what step 10 takes away, with `morph.variant(step, activations=...)`: three digits, for the activation behind the first convolution, behind the second, and
# behind the addition; 1 where it stays.
#
# <details><summary>Hint</summary>Step 10 keeps one activation of three: the one between the two 1 x 1 convolutions, which are the second and the third of the block.</details>

# %% tags=["exercise"]
mine = ...

# %% tags=["solution"]
mine = models.morph.variant(9, activations="010")

# %%
checks.verify("09.variant", mine)

# %% [markdown]
# ### Exercise 2: what else does a step change?
#
# A map of 4 x 4 places says less about *where* than one of 8 x 8. Write `sides(step, side)`: the side of the map behind each of the four stages, for square images of `side` pixels.

# %% [markdown]
# - Stem: `step.patchify` says 4 x 4 with stride 4, no padding; else 7 x 7 with stride 2, padding 3. Then, if `step.pool`, maxima of 3 x 3 with stride 2, padding 1.
# - The first stage keeps the side. Each further one halves it: 2 x 2 with stride 2 and no padding where `step.downsampling` is `"between stages"`, else a convolution with stride 2 that rounds up.
#
# <details><summary>Hint</summary>A window of k with padding p and stride s leaves (side + 2p - k) // s + 1. For the 7 x 7 and the 3 x 3 above, that is side / 2 rounded up.</details>


# %% tags=["exercise"]
def sides(step, side): ...


# %% tags=["solution"]
def sides(step, side):
    side = side // 4 if step.patchify else (side + 1) // 2
    if step.pool:
        side = (side + 1) // 2
    found = [side]
    for _ in range(3):
        side = side // 2 if step.downsampling == "between stages" else (side + 1) // 2
        found.append(side)
    return found


# %%
checks.verify("09.sides", sides)

# %% [markdown]
# ### Exercise 3: which steps are not one change?
#
# For images of 32 x 32: name the steps at which the side of the map behind the first stage differs from the step before. Use your `sides`, or think.
#
# <details><summary>Hint</summary>Only the stem decides it, so only two steps can.</details>

# %% tags=["exercise"]
moved = {...}

# %% tags=["solution"]
moved = {4, 8}  # from 8 x 8 to 4 x 4, and back

# %%
checks.verify("09.moved", moved)

# %% [markdown]
# What these two gain or lose may be the design's, or the resolution's.

# %% [markdown]
# ## The attack, fourteen times
#
# The paper takes Inverting Gradients (cosine distance, total variation of 1e-4, Adam) with 3,000 iterations, and so do we from `night` on. Before that it is `annealed`, lab 04's variant for few
# iterations. In one repeat all steps get the same photograph, the same noise to begin with, and weights
# drawn in the same way; each repeat has its own.

# %% [markdown]
# ### Before you go on: predict
#
# One step removes two of a block's three activations and nothing else. How many decibels does the attack gain by it?

# %%
guess_jump = widgets.predict("PSNR of step 10 less that of step 9:", low=-5, high=25, unit="dB")
guess_jump


# %%
kept, mine = experiments.load("fourteen_steps.steps"), run("fourteen_steps.steps")
best = kept if len(kept) else mine
chosen = [n for n in models.morph.STEPS if f"psnr[step_{n}]" in mine]
name_of = {n: f"{n}. {models.morph.STEPS[n].name}" for n in models.morph.STEPS}
table = ledger.papers.table("zhang2024_table8")
published = table[table["metric"] == "psnr"].astype({"step": int}).set_index("step")["mean"]
print(guess_jump.against(mine.mean("psnr[step_10] - psnr[step_9]")))
rows = {name_of[n]: f"psnr[step_{n}]" for n in chosen} | {"mean photograph": "psnr[cifar10, mean_photograph]"}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB", published={name_of[n]: published.loc[n] for n in chosen})

# %% [markdown]
# The last row looks at no gradient at all: it is the mean of all public photographs. Means here, the paper's in brackets:

# %%
cells = {
    (name_of[n], metric): f"{best.mean(f'{metric}[step_{n}]'):.2f} ({row['mean']:.2f} ± {row['std']:.2f})"
    for n in chosen if f"psnr[step_{n}]" in best
    for metric in ("psnr", "ssim", "lpips")
    for row in [table[(table["step"] == str(n)) & (table["metric"] == metric)].iloc[0]]
}  # fmt: skip
pd.Series(cells).unstack(sort=False)

# %% [markdown]
# Photographs differ by more than steps do, so read the *differences* between neighbours:

# %%
pairs = [(n, n - 1) for n in chosen if n - 1 in chosen] + [(10, 8), (14, 1)]
label_of = {(one, other): f"{one} less {other}: {models.morph.STEPS[one].name}" for one, other in pairs}
rows = {label: f"psnr[step_{one}] - psnr[step_{other}]" for (one, other), label in label_of.items()}
printed = {label: published.loc[one] - published.loc[other] for (one, other), label in label_of.items()}
plots.evidence(kept, mine, rows, xlabel="difference of PSNR in dB", published=printed)

# %% [markdown]
# ### Walk through it, pictures included
#
# Everything is searched already: your own photograph.

# %%
truth, *rebuilt = plots.tiles(mine.picture("picture[steps]"), 32).split(1)
rebuilt = dict(zip(chosen, rebuilt, strict=True))
score = {n: f"{mine.mean(f'psnr[step_{n}]'):.1f} dB, SSIM {mine.mean(f'ssim[step_{n}]'):.2f}" for n in chosen}


@cache
def reconstruction(step):
    """Before, after and the truth, with their metrics."""
    both = dict.fromkeys((chosen[max(0, chosen.index(step) - 1)], step))
    titles = ["the client's", *(f"{n}: {score[n]}" for n in both)]
    return plots.side_by_side(truth, *(rebuilt[n] for n in both), titles=titles, alt="; ".join(titles))


def walk(step):
    return *change(step), reconstruction(step)


# %%
widgets.explore(walk, start=dict(step=10), step=tuple(chosen))

# %%
flipbook.show(
    list(rebuilt.values()),
    [f"step {name_of[n]}: {score[n]}" for n in chosen],
    [f"What the attack finds in step {n}: {score[n]}." for n in chosen],
    label="step from ResNet-50 to ConvNeXt-T",
)

# %% [markdown]
# The way there, as in the paper's Figure 7:

# %%
some = [n for n in fourteen_steps.CURVED if n in chosen]
way = plots.tiles(mine.picture("picture[way]"), 32).unflatten(0, (len(some), -1))  # (steps, moments, 3, 32, 32)
plots.images(
    {name_of[n]: row for n, row in zip(some, way, strict=True)},
    alt=f"One photograph on the way, from noise, in steps {some}.",
)

# %% [markdown]
# ## How much is the attacker's patience?
#
# A short search may stop too soon. Here are steps 8, 9 and 10 again, by the paper's own attack and with more iterations.

# %%
guess_long = widgets.predict("PSNR of step 10 less that of step 8, in the long search:", low=-5, high=25, unit="dB")
guess_long

# %%
three = fourteen_steps.PATIENT
print(guess_long.against(mine.mean("psnr[step_10, long] - psnr[step_8, long]")))
rows = {f"step {n}, {how}": f"psnr[step_{n}{key}]" for how, key in (("short", ""), ("long", ", long")) for n in three}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %% [markdown]
# A short search at one price can leave step 10 *behind* step 9, and a long one is still rising there when the others have stopped. And GELU, which costs the attacker 3 dB in the paper, need not cost them anything in networks as small as these.

# %% [markdown]
# ## How much is the resolution?
#
# Undo the two steps of exercise 3: *patchify without the pooling behind it* has the map of step 3, 8 x 8; and *step 8 with the pooling left in* has the map of step 7.

# %%
kept_map, mine_map = experiments.load("fourteen_steps.resolution"), run("fourteen_steps.resolution")
rows = {
    f"{name}, resolution unchanged": f"psnr[at_one_resolution, {key}] - psnr[at_one_resolution, before_{key}]"
    for name, key in (("patches", "patchify"), ("new stem", "stem"))
}
plots.evidence(kept_map, mine_map, rows, xlabel="difference of PSNR in dB")

# %% [markdown]
# ## Is it one and the same attack?
#
# A search weighs two things: how far the messages are apart, and how rough the picture is. The *price* of roughness was one number for all fourteen steps. But how far apart are messages? Take a grey
# image, and ask how far its message is from the photograph's:

# %%
kept_ways, mine_ways = experiments.load("fourteen_steps.searches"), run("fourteen_steps.searches")
rows = {name_of[n]: f"from_grey[step_{n}]" for n in models.morph.STEPS}
plots.evidence(kept_ways, mine_ways, rows, xlabel="cosine distance, grey image to photograph", log=True)

# %% [markdown]
# Where that distance is small, the same price buys more smoothness and less of the photograph. So a table at one price is partly a table of prices. The mend (lab 10 has it at length): let the price go with that distance, step 9 = 1. That is the *fair price*.

# %% [markdown]
# ### Before you go on: predict
#
# What does a fair price do for step 14?

# %%
guess_fair = widgets.predict("PSNR of step 14 at a fair price less that at one price:", low=-5, high=15, unit="dB")
guess_fair

# %%
looked_at = fourteen_steps.CURVED
print(guess_fair.against(mine_ways.mean("psnr[fair, step_14] - psnr[one_weight, step_14]")))
prices = (("one price", "one_weight"), ("fair price", "fair"))
rows = {f"{n}, {name}": f"psnr[{key}, step_{n}]" for n in looked_at for name, key in prices}
plots.evidence(kept_ways, mine_ways, rows, xlabel="PSNR in dB")

# %% [markdown]
# Once the price is fair, steps 10 to 14 stand ahead of step 8 after few iterations, too. In the first half hardly anything moves.

# %% [markdown]
# ## Was it the optimiser?
#
# Every search so far was Adam's, here and in the paper. Lab 04 has another: Gauss-Newton, which knows how each number of the message bends with the image. Same photographs, weights and starts, as many *passes* (a gradient of the network, a
# $J v$ or a $J^\top u$ is one; a step of Adam takes two). If a jump of the table is the architecture's, it should be there under either.

# %% [markdown]
# ### Before you go on: predict
#
# GELU in place of ReLU, step 8 to step 9: the paper says it costs the attacker 3 dB.

# %%
guess_curved = widgets.predict("Gauss-Newton, PSNR of step 9 less that of step 8:", low=-10, high=20, unit="dB")
guess_curved

# %%
print(guess_curved.against(mine_ways.mean("psnr[gauss_newton, step_9] - psnr[gauss_newton, step_8]")))
both = (("Adam, fair price", "fair"), ("Gauss-Newton", "gauss_newton"))
rows = {f"{n}, {name}": f"psnr[{key}, step_{n}]" for n in looked_at for name, key in both}
plots.evidence(kept_ways, mine_ways, rows, xlabel="PSNR in dB")

# %%
rows = {name_of[n]: f"relative_residual[gauss_newton, step_{n}]" for n in looked_at}
plots.evidence(kept_ways, mine_ways, rows, xlabel="left of the gradient, by Gauss-Newton: 1 is no idea", log=True)

# %% [markdown]
# ### Exercise 4: whose jump is it?
#
# `adam` and `newton` hold, step by step, one PSNR a repeat, in the same order. Write `hidden(adam, newton, step)`: by how many decibels is the jump *from the step before* larger under Gauss-Newton than under Adam? One value a repeat; above 0 is what Adam did not see.
#
# <details><summary>Hint</summary>A difference of two differences. Keep the repeats apart: each pairs the same photograph and weights.</details>


# %% tags=["exercise"]
def hidden(adam, newton, step): ...


# %% tags=["solution"]
def hidden(adam, newton, step):
    return (newton[step] - newton[step - 1]) - (adam[step] - adam[step - 1])


# %%
checks.verify("09.hidden", hidden)

# %% [markdown]
# Two things can go wrong for an attacker, and what is left of the gradient tells them apart. On a ReLU network the *message* is never met: the way there is full of kinks, and the search stops with a large part left. On a smooth one the message is met to one or two
# digits, and the picture may still be poor: many pictures send nearly this message, and where they differ only the assumption about photographs decides. The first is an optimiser's trouble. The second is the network's own.

# %% [markdown]
# On the ReLU steps, 1 to 8, most of the gradient is left unmet; on the smooth ones, 9 to 14, a few hundredths. GELU, which costs Adam 3 dB in the paper, helps this search. The book's chapter on it has more passes.

# %% [markdown]
# ## Why? First, how well the message tells images apart
#
# A search compares messages. Move one pixel a little, and the message moves: column by column that is the Jacobian. Its singular values say how far the message moves for each direction in the space of images.
# If a few are large and the rest tiny, most of the image hardly shows. Two numbers sum this up:
#
# - the **effective rank**, the exponential of the entropy of the singular values' shares: how many directions count;
# - the *condition*: the largest over the middle one (the very smallest may be zero).

# %% [markdown]
# ### Exercise 5: the effective rank
#
# Write `effective_rank(values)` for a tensor of singular values: $p_i = \sigma_i / \sum_j \sigma_j$, and $\exp(-\sum_i p_i \log p_i)$, where a zero adds nothing.
#
# <details><summary>Hint</summary>torch.special.entr(p) is -p log p, and 0 at 0.</details>


# %% tags=["exercise"]
def effective_rank(values): ...


# %% tags=["solution"]
def effective_rank(values):
    shares = values / values.sum()
    return torch.special.entr(shares).sum().exp().item()


# %%
checks.verify("09.rank", effective_rank)

# %% [markdown]
# ### Before you go on: predict
#
# Does the effective rank go with what the attack found, at a fair price? Say it as a rank correlation over the steps: 1 is the same order, -1 the reverse.

# %%
guess_rank = widgets.predict("rank correlation of effective rank and PSNR:", low=-1, high=1)
guess_rank

# %%
kept_why, mine_why = experiments.load("fourteen_steps.reasons"), run("fourteen_steps.reasons")
best_why = kept_why if len(kept_why) else mine_why
guess_rank.against(best_why.mean("spearman[effective_rank, fair_psnr]"))

# %%
image, label = data.load("cifar10", "test").one(seed)
spectra = {
    n: sensitivity.spectrum(models.morph.build(n, seed=seed, width=0.25, depths=(1, 1, 1, 1)), image, label, block=16 if profile == "smoke" else 4)
    for n in (1, 8, 9, 10, 12, 14)
}  # fmt: skip
ranks = {n: sensitivity.effective_rank(values) for n, values in spectra.items()}
plots.spectrum(
    {name_of[n]: values / values[0] for n, values in spectra.items()},
    alt="Singular values of the Jacobian, over the largest: effective rank " + ", ".join(f"step {n} {rank:.0f}" for n, rank in ranks.items()) + f" of {len(spectra[1])}.",
)  # fmt: skip

# %%
rows = {name_of[n]: f"effective_rank[step_{n}]" for n in looked_at}
plots.evidence(kept_why, mine_why, rows, xlabel=f"effective rank of the Jacobian, of {len(spectra[1])} directions")

# %%
asked = [n for n in looked_at if f"effective_rank[step_{n}]" in best_why]
best_ways = kept_ways if len(kept_ways) else mine_ways
points = {str(n): (best_why.mean(f"effective_rank[step_{n}]"), best_ways.mean(f"psnr[fair, step_{n}]")) for n in asked}
plots.scatter(
    points, xlabel="effective rank of the Jacobian", ylabel="PSNR at a fair price, in dB",
    alt="PSNR at a fair price over effective rank, a dot a step: " + ", ".join(f"step {n} {x:.0f} and {y:.1f} dB" for n, (x, y) in points.items()),
)  # fmt: skip

# %% [markdown]
# Look at the four steps with GELU (9, 10, 12, 14) and the three with ReLU (1, 4, 8) apart. GELU lowers the rank, and yet the search gets further. The Jacobian at the truth knows nothing of kinks on the way there.

# %% [markdown]
# ## Why? Second, whether downhill leads home
#
# The Jacobian speaks of the truth's neighbourhood. A search begins far away. So walk the straight line from the noise to the truth, and measure the cosine between *downhill* and *the way home*: 1 means that a step down the loss goes straight to the
# photograph, 0 that it knows nothing of it.


# %%
print(getsource(fourteen_steps.homeward))

# %%
parts = (0.0, 0.5, 0.8, 0.95)
series = {
    name_of[n]: {part: f"bearing[step_{n}, at_{part:g}]".replace(".", "p") for part in parts}
    for n in (1, 8, 9, 10, 12, 14)
}
plots.evidence_lines(
    kept_why,
    mine_why,
    series,
    xlabel="part of the way from noise to the photograph",
    ylabel="cosine of downhill and the way home",
)

# %% [markdown]
# Nowhere is downhill a good guide: the cosine is far below 1 in every step.

# %% [markdown]
# ## Or is it how far a network sees?
#
# The paper's section 6.1 offers another reason: a larger *receptive field*. How much of the image moves the centre of a map can be measured (Luo et al. 2016): the slope of the map's centre with respect to each pixel.
# The part of the pixels that holds 90% of the slope is the **effective receptive field**. We take photographs of 224 x 224 and the map behind the third stage. Beside the fourteen steps stand a Swin, which has attention, and a ViT.

# %%
rows = {name_of[n]: f"receptive_area[step_{n}]" for n in models.morph.STEPS}
rows |= {name: f"receptive_area[{name.lower()}]" for name in ("ViT", "Swin")}
plots.evidence(kept_why, mine_why, rows, xlabel="effective receptive field, part of the image")

# %% [markdown]
# Attention sees further. Among the steps the ConvNeXt sees least of all: its layer scale, a factor of one in a million on each branch, leaves next to nothing of a *fresh* network's blocks, so each place
# of the last map looks at little more than its own patch. And it gives most away.

# %% [markdown]
# Which of the three goes with the leak? A rank correlation over the steps, a number a repeat: 1 is the same order, -1 the reverse.

# %%
rows = {
    f"{name}, {price}": f"spearman[{quantity}, {key}]"
    for name, quantity in (
        ("effective rank", "effective_rank"),
        ("way home", "bearing"),
        ("receptive field", "receptive_area"),
    )
    for price, key in (("one price", "psnr"), ("fair price", "fair_psnr"))
}
plots.evidence(kept_why, mine_why, rows, xlabel="rank correlation with the PSNR over the steps")

# %% [markdown]
# ## What a step is for
#
# These steps are taken for accuracy. Table 8 has each step's on CIFAR-10, from .822 to .852. That takes hours of training, and runs at `gpu` (fewer images and epochs) and `paper`.

# %%
if profile in ("gpu", "paper"):
    run("fourteen_steps.task_accuracy")
table[table["metric"] == "task_acc"].set_index("step")["mean"]

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("09")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size.** At `smoke` and `class` the fourteen networks have a quarter of the channels and one block a stage, and the search is ours for few iterations. Step 3 changes depths, so at this size it changes nothing.
#   `night` has the paper's networks and iterations for eleven of the steps, `gpu` and `paper` for all.
# - **Repeats.** A photograph and a draw of weights each; the paper does not say how many it takes.
# - **What the text says of results** comes from an earlier measurement with four repeats of other sizes; the panel judges by the evidence, and has the last word.
# - **BatchNorm** is in eval mode, where on a fresh network it does next to nothing. The paper does not name its mode. Lab 10 measures both.
# - **What Table 9 leaves open** is ours; see the head of `privlab.models.morph`.
# - **Weights** are drawn alike in all steps, by PyTorch's default; lab 10 asks how much hangs on it.
# - **The Jacobian** is looked at along squares of pixels (4 x 4 at `class`), from random sums of its rows, exact to about an eighth; the condition is the largest over the *middle* singular value.

# %% [markdown]
# ## Summary
#
# - Fourteen steps, one change each, as data; two of them move the resolution of the maps along with the design.
# - A search has a patience and a price of smoothness, and each moves the table.
# - The Jacobian says how many directions of an image show in a message; among networks without kinks that goes with what a search finds.
# - The receptive field does not explain the leak here; whether downhill leads home nearly does.

# %% [markdown]
# ## Where to read on
#
# Zhang et al. 2024, sections 5.2, 6.1 and 6.2, appendix B; Liu et al. 2022 for the same way, taken for accuracy; Luo et al. 2016 for the receptive field; Roy and Vetterli 2007 for the effective rank.
# Lab 10 takes single designs out and puts them back, BatchNorm's two modes among them, and looks at membership.
