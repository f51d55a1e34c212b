# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 13 · What would you deploy?
#
# So far you have attacked. Now a hospital asks you for a defence. Its clients want to train a network together, and their gradients must not give the photographs away. You can add noise, send less, or change the network. Which of these holds against an attacker who knows your source code?
#
# After this lab you can
# - attack a defence as somebody who knows it;
# - say what a defence costs, and compare it with others under the strongest attack;
# - choose a defence for a given attacker and a given cost, and say how far the choice can be trusted.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.2 GB |
# | class | 2 | 1.3 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 70 minutes. You need* labs 04 and 05. *New words*: **budget**, **informed attacker**, **matrix**.

# %%
import math

from privlab import compute, experiments
from privlab.course.lab_13 import experiments as defended_client
from privlab.course.lab_13 import red_blue
from privlab.course.lab_13.experiments import spent, strength
from privlab.experiments.trial import mean_photograph
from privlab.notebook import checks, drawings, plots, text, widgets

import pandas as pd
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
kept = experiments.load("defences.one_update")  # what was measured and committed
kept_cost = experiments.load("defences.training_cost")
# Now your machine attacks defended gradients, and trains behind defences. Read on.
mine = experiments.run("defences.one_update", profile, device=device)
mine_cost = experiments.run("defences.training_cost", profile, device=device)

# %% [markdown]
# ## The client, and two attacks
#
# The client has one photograph, and a small Vision Transformer with fresh random weights. It sends the gradient. The server searches for the photograph.

# %%
drawings.show("00.client_and_server")

# %% [markdown]
# The server has two attacks. *Algebra* is the better of lab 05's two closed forms. The *search* is lab 04's, with a stronger optimiser, L-BFGS. To see what they are worth, you
# need a *baseline*, an image that was made without the gradient. Ours is the mean of 50,000 public photographs.

# %%
how = experiments.find("defences.one_update").size(mine.size).settings
steps = how["steps"] if profile == "smoke" else 6  # more than the experiment's
victim = (how["model"], how["changes"], how["attack"], steps, device)
client = defended_client.Client(mine.repeats[0] + seed, *victim)
found = {
    "algebra": client.algebra(client.update),
    "search": client.search(None),
    "baseline": mean_photograph(),
}
titles = [f"{name}: {client.psnr(image):.0f} dB" for name, image in found.items()]
says = f"The client's photograph, and what each attack recovers: {', '.join(titles)}."
titles = ["photograph", *titles]
plots.side_by_side(client.photograph, *found.values(), titles=titles, alt=says)

# %% [markdown]
# A defence of gradients cannot do more than this: no attack beats the baseline.
#
# ## Noise, and an attacker who knows it
#
# The simplest defence is *even* noise, of one size on all numbers of the gradient. Its strength is relative: "0.01" means that the noise, taken as one long vector, has a
# hundredth of the length of the gradient. This number is the **budget** of the defence.
#
# ### Predict
#
# Without noise, algebra is nearly perfect. The client adds noise of a *thousandth*.

# %%
thousandth = widgets.predict("What does algebra still reach?", 0, 150, "dB")
thousandth

# %%
thousandth.against(round(client.solved(spent("even", 0.001)), 1))

# %% [markdown]
# In lab 05 a thousandth did little harm. But there the noise was in proportion: each tensor had noise by its own length. Even noise has one size on all numbers, and the
# tensors that algebra reads have short gradients.
#
# An **informed attacker** knows the defence: its kind, its strength, and which tensors it touches. Only the random numbers are secret. A defence that holds only while nobody
# knows it does not hold. How can the attacker use this knowledge?
#
# ### Exercise 1: two reports of one number *(difficulty 2, 12 minutes)*
#
# Two tensors of the gradient say the same thing about a pixel, with different noise. So there are two measurements of one number, `one` and `other`, with
# independent noise of the standard deviations `sigma_one` and `sigma_other`. Write `weigh(one, sigma_one, other, sigma_other)`: the weighted mean with
# the least variance.
#
# <details><summary>Hint</summary>Give the first the weight w and the other 1 - w. What is the variance of the sum, and at which w is it least?</details>


# %% tags=["exercise"]
def weigh(one, sigma_one, other, sigma_other): ...


# %% tags=["solution"]
def weigh(one, sigma_one, other, sigma_other):
    one_counts, other_counts = 1 / sigma_one**2, 1 / sigma_other**2
    return (one * one_counts + other * other_counts) / (one_counts + other_counts)


# %%
checks.verify("13.weigh", weigh)

# %% [markdown]
# The informed search does this with all tensors: the more noise a tensor has, the less it counts. The naive search counts all tensors alike. There is one more trick. If
# the client sends the gradient of the same photograph several times, the attacker can take the mean.
#
# ### Exercise 2: how often may you send it? *(difficulty 2, 10 minutes)*
#
# Each time the noise is fresh, and has the strength `relative`. Write `rounds(relative, target)`: the smallest number of updates, at least 1, whose *mean* has noise of at
# most `target`.
#
# <details><summary>Hint</summary>Variances of independent noise add up, and a mean divides by the number. (Floating point: <code>(0.3 / 0.1) ** 2</code> is slightly less
# than 9, or slightly more.)</details>


# %% tags=["exercise"]
def rounds(relative, target): ...


# %% tags=["solution"]
def rounds(relative, target):
    return max(1, math.ceil((relative / target) ** 2 - 1e-9))


# %%
checks.verify("13.rounds", rounds)

# %% [markdown]
# ### Predict

# %%
WHO = {
    "algebra, informed": "algebra_informed",
    "algebra, informed, mean of 16 updates": "algebra_informed_16_rounds",
    "search": "search_naive",
    "search, informed": "search_informed",
}
toughest = widgets.choose("At noise of a tenth, which attack recovers most?", [*WHO])
toughest

# %%
levels = {0.01: strength(0.01), 0.1: strength(0.1)}
series = {
    who: {
        level: f"psnr[even, {at}, {key}] - psnr[guess]" for level, at in levels.items()
    }
    for who, key in WHO.items()
}
for who in ("algebra, informed", "search", "search, informed"):  # as long, too
    column = who.replace(", ", "_")
    series[who][1.0] = f"psnr[matrix, even_1, {column}] - psnr[guess]"
shown = kept or mine
label = "length of the noise over that of the gradient"
above = "dB above the baseline"
plots.evidence_lines(
    kept, mine, series, xlabel=label, ylabel=above, log="x", thresholds={"baseline": 0}
)

# %%
at_tenth = {who: shown.mean(names[0.1]) for who, names in series.items()}
display(toughest.against(max(at_tenth, key=at_tenth.get)))
text(
    "The noise of a tenth leaves the informed search {:.1f} dB above the baseline, and "
    "the naive search {:.1f} dB. A test with the naive search would say that the noise "
    "protects {:.1f} dB better than it does. These searches are short: without any "
    "noise they end {:.1f} dB above the baseline.",
    at_tenth["search, informed"],
    at_tenth["search"],
    at_tenth["search, informed"] - at_tenth["search"],
    shown.mean("psnr[matrix, none, search] - psnr[guess]"),
)

# %% [markdown]
# ## What it costs
#
# Noise disturbs the training, too. To see the cost, networks are trained in which *every* step takes the defended gradient. They are small, and learn from few images, so
# their accuracy is low. (Guessing among the ten classes is right once in ten times.)
#
# You know even noise. Noise *in proportion* gives each tensor noise of its own length. Other clients send only the *largest* numbers of the gradient. And one defence adds no
# noise. Lab 05 has shown that the *rank* of a fixed position embedding decides how much algebra finds. Here it is fixed, with rank 4.
#
# ### Predict

# %%
LITTLE, SOME, MUCH = "less than 2 points", "2 to 8 points", "more than 8 points"
guess_cost = widgets.choose(
    "Even noise as long as the gradient: how much accuracy does it cost?",
    [LITTLE, SOME, MUCH],
)
guess_cost

# %%
known = kept_cost or mine_cost
trained = {
    "no defence": "none",
    "even noise": "even_1",
    "noise in proportion": "own_1",
    "largest 1%": "largest_1_percent",
    "fixed embedding, rank 4": "fixed_rank_4",
}
rows = {
    name: f"task_acc[{kind}]"
    for name, kind in trained.items()
    if f"task_acc[{kind}]" in known
}
display(plots.evidence(kept_cost, mine_cost, rows, xlabel="accuracy in percent"))
cost = {name: known.mean(f"task_acc[none] - {row}") for name, row in rows.items()}
lost = cost["even noise"]
guess_cost.against(LITTLE if lost < 2 else SOME if lost < 8 else MUCH)

# %% [markdown]
# ## Red team, blue team
#
# Blue sets the defence, and Red picks the attack. Red scores a point for each dB above the baseline, 20 at most. Blue also loses a point for each point of
# accuracy that the defence costs. A defence can be used once. Red sees which one it is.
#
# The chart above has no accuracy for two of the defences. Your machine now trains networks with them. It also runs all attacks on all defences, so that you do not wait during the game.

# %%
desk = {
    "no defence": None,
    "even noise": spent("even", 1.0),
    "noise in proportion": spent("own", 1.0),
    "noise on attention only": spent("attention", 1.0),
    "largest 1%": defended_client.ROWS["largest_1_percent"],
    "position gradient withheld": defended_client.ROWS["position_withheld"],
}


def attacked(client, defence):  # attack -> image
    knows = defence is not None and defence.by in defended_client.KNOWN
    sent = client.sent(defence)
    noise = defence.deviations(sent, client.network) if knows else None
    images = {"algebra": client.algebra(sent)}
    images["algebra, informed"] = client.algebra(sent, noise)
    images["search"] = client.search(defence)
    images["search, informed"] = client.search(defence, knows)
    return images


board = {name: attacked(client, defence) for name, defence in desk.items()}
fixed = {**how["changes"], **defended_client.EMBEDDINGS["fixed_rank_4"]}
other = (how["model"], fixed, *victim[2:])  # the same photograph, a changed network
other = defended_client.Client(mine.repeats[0] + seed, *other)
board["fixed embedding, rank 4"] = attacked(other, None)

# %%
training = experiments.find("defences.training_cost").size(mine_cost.size).settings
draw = mine_cost.repeats[0]
pair = defended_client.Pair(draw, training["members"], training["epochs"], device)


def accuracy(*defences, **more):  # of two networks trained behind them, in percent
    network = training["model"], training["changes"]
    return pair.membership(pair.trained(*network, defences, **more))[0]


plain = accuracy(at=training["stops"])
for name in ("noise on attention only", "position gradient withheld"):
    cost[name] = plain - accuracy(desk[name])

# %% [markdown]
# ### Predict

# %%
safest = widgets.choose(
    "With which defence does Blue lose least, if Red plays the best attack?", [*board]
)
safest

# %% [markdown]
# Play with a neighbour, or against the machine. As Red the machine knows the outcome of every attack. So would a real attacker, who can run all of
# them, and look at the pictures.

# %%
game = red_blue.Duel(client.photograph, mean_photograph(), board, cost)
game

# %%
display(safest.against(game.worst.idxmin()))
worst = game.worst.sort_values()
name = "noise on attention only"
text(
    "On this photograph Blue's loss is {:.1f} with *{}* and {:.1f} with *{}*, under "
    "the best attack. The noise on attention is as long as the whole gradient, and the "
    "best attack still ends {:.0f} dB above the baseline.",
    *(worst.iloc[0], worst.index[0], worst.iloc[-1], worst.index[-1]),
    game.psnr.at[name, game.best[name]] - game.floor,
)

# %% [markdown] tags=["printed"]
# Noise in one part is no noise at all for an attacker who reads the other parts. Where in a network is a given budget best spent? Zhang et al. (section 7.2)
# propose the layers that leak: activations, stem, LayerNorm and attention. [A deeper notebook](deeper/13_where_to_spend.ipynb) tries eight ways.
#
# ### Exercise 3: a brochure *(difficulty 1, 8 minutes)*
#
# A company sells a defence. Its brochure says: "We add noise to the gradients of all attention layers. A published gradient inversion attack, run on the updates
# of 100 clients, falls from 25 dB to 12 dB. The accuracy stays the same. So your photographs are safe, at no cost." Which of these facts speak *against* its
# last sentence? Give a set of letters, such as `{"a", "b"}`.
#
# - **a** The gradient of the first layer is sent without noise.
# - **b** The attack treats all tensors alike, whatever their noise.
# - **c** The mean of public photographs reaches 12 dB, too.
# - **d** Clients send the gradient of the same photographs in each of 50 rounds, each time with fresh noise.
# - **e** The accuracy was measured on a network that was trained without the defence.
# - **f** There were 100 clients, not 10,000.
#
# <details><summary>Hint</summary>For each fact, ask: does it give an attacker a way around the defence, or leave a cost uncounted? A fact can also be
# harmless, or even good.</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"a", "b", "d", "e"}

# %%
checks.verify("13.brochure", against)

# %% [markdown]
# ## The matrix
#
# You played with one photograph. The experiment has attacked several, each behind new random weights. All defences and all attacks make a **matrix**. It has a
# row for each defence, and a cell says what an attack recovers on average. Two ways to spend the noise are new. *Where it was measured*: where a change of the image changes the
# gradient most. *On three tensors*: on those that the closed forms read.

# %%
inside = {
    "no defence": "matrix, none",
    "even noise": "matrix, even_1",
    "noise where it was measured": "matrix, measured_1",
    "noise on three tensors": "matrix, leaky_1",
    "noise on attention only": "matrix, attention_1",
    "largest 1%": "matrix, largest_1_percent",
    "position gradient withheld": "matrix, position_withheld",
}
inside = {n: key for n, key in inside.items() if f"psnr[{key}, search]" in shown.table}
columns = ("algebra", "algebra_informed", "search", "search_informed")
cells = {
    n: [shown.mean(f"psnr[{key}, {c}]") for c in columns] for n, key in inside.items()
}
both = [shown.mean(f"psnr[embedding, fixed_rank_4, {c}]") for c in columns[::2]]
cells["fixed embedding, rank 4"] = [both[0], both[0], both[1], both[1]]

spoken = [f"{n} {', '.join(f'{x:.0f}' for x in row)}" for n, row in cells.items()]
capped = [[min(x, 30.0) for x in row] for row in cells.values()]
plots.heat(
    capped, rows=[*cells], columns=[c.replace("_", ", ") for c in columns],
    xlabel="attack", ylabel="defence", unit="mean PSNR in dB (30: or more)",
    alt=f"Mean PSNR by defence and attack: {'; '.join(spoken)}.",
)  # fmt: skip

# %% [markdown]
# Read it row by row, and look for the *largest* number of each row. A defence is as good as its worst cell. (Three defences add no noise and drop no single numbers. For
# them the informed attack equals the naive one.)

# %% [markdown]
# ## Choose
#
# Put the strongest attack beside the cost. A defence is better if it lies further to the right and further down. A defence is on the *Pareto front* if no other is at least as good in both and better in one.

# %%
drawings.show("13.plane")

# %%
strongest = {
    "no defence": "psnr[strongest, none]",
    "even noise": "psnr[strongest, even_1]",
    "noise in proportion": "psnr[budget, relative_1, own]",
    "largest 1%": "psnr[strongest, largest_1_percent]",
    "fixed embedding, rank 4": "psnr[embedding, fixed_rank_4, strongest]",
}
strongest = {n: key for n, key in strongest.items() if key in shown and n in rows}
leak = {n: shown.mean(f"{key} - psnr[guess]") for n, key in strongest.items()}
points = {n: (known.mean(rows[n]), min(leak[n], 6.0)) for n in strongest}
spoken = [f"{n}: {x:.1f}% and {y:.1f} dB" for n, (x, y) in points.items()]
axes = {"xlabel": "accuracy at the task, in percent"}
axes |= {"ylabel": "strongest attack above the baseline, in dB (6: or more)"}
plots.scatter(
    points, **axes, alt=f"Accuracy and strongest attack. {'; '.join(spoken)}."
)

# %% [markdown]
# ### Exercise 4: the cheapest that holds *(difficulty 2, 10 minutes)*
#
# Write `cheapest(rows, level)`: `rows` maps the name of a defence to a pair, the points of accuracy that it costs and the dB of the *strongest* attack on it. Return the name
# of the one that costs least among those whose strongest attack stays at or below `level`. If two cost the same, return the one that leaves the attacker less. Return None if
# no defence holds.
#
# <details><summary>Hint</summary>First leave out the defences that do not hold. Then compare pairs: Python orders tuples by their first entry, and by the second if the first
# are equal. A cost can be below 0.</details>


# %% tags=["exercise"]
def cheapest(rows, level): ...


# %% tags=["solution"]
def cheapest(rows, level):
    holding = {name: row for name, row in rows.items() if row[1] <= level}
    return min(holding, key=holding.get, default=None)


# %%
checks.verify("13.cheapest", cheapest)

# %% [markdown]
# Choose how many points you can spend, and how many decibels you can bear. The sentence lists the defences that are left, the cheapest first.


# %%
def guide(points_to_spend, decibels_to_bear):
    fits = [
        name
        for name in sorted(leak, key=cost.get)
        if cost[name] <= points_to_spend and leak[name] <= decibels_to_bear
    ]
    told = [f"{n}: costs {cost[n]:.1f} points, leaves {leak[n]:.1f} dB" for n in fits]
    nothing = f"No defence leaves so little: the least is {min(leak.values()):.1f} dB."
    if min(leak.values()) <= decibels_to_bear:
        nothing = "A defence that leaves so little costs more points than you spend."
    return widgets.Sentence("; ".join(told) or nothing)


start = {"points_to_spend": 2, "decibels_to_bear": 4}
bear = (0, 2, 3, 3.5, 4, 6)
widgets.explore(guide, start, points_to_spend=(0, 1, 2, 5, 10), decibels_to_bear=bear)

# %% [markdown]
# This choice leaves two things out. An attacker who has the trained model can ask who was in its training set (lab 01), and a defence of gradients may help there,
# too: the book's page of claims has what we measured. And you may change the *design* instead.
#
# ### Another design
#
# Zhang et al., Figure 11 undoes the designs that leak, and finds both attacks weaker at nearly the same accuracy. Take step 12 of lab 09, a ConvNeXt in almost
# all. Go back to three ReLUs in a block, to BatchNorm, to a ResNet's stem, or to all three.

# %%
YES, NO = "weaker", "no weaker"
swap = widgets.choose("All three swaps make membership inference", [YES, NO])
swap

# %%
swaps = experiments.load("defences.design_swaps")
columns = {"accuracy": "task_acc", "membership AUC": "auc", "PSNR in dB": "psnr"}
designs = {"step 12": "as_it_is", "three ReLUs": "three_relus"}
designs |= {"BatchNorm": "batchnorm", "a ResNet's stem": "resnets_stem"}
designs["all three"] = "all_three"
found = {
    name: [swaps.mean(f"{metric}[swap, {key}]") for metric in columns.values()]
    for name, key in designs.items()
    if f"psnr[swap, {key}]" in swaps
}
change = swaps.mean("auc[swap, all_three] - auc[swap, as_it_is]")
display(swap.against(YES if change < 0 else NO))
display(pd.DataFrame(found, index=[*columns]).T.round(1))
said = "These are means of {} repeats. The mean photograph has {:.1f} dB."
text(said, len(swaps), swaps.mean("psnr[swap, mean_photograph]"))

# %% [markdown]
# Look at each swap alone: [the deeper notebook](deeper/13_where_to_spend.ipynb) asks why one of them helps the search.

# %% [markdown]
# ## The answer

# %%
held = [name for name in leak if leak[name] <= 1]  # within 1 dB of the baseline
harm = {n: max(0.0, min(20.0, leak[n])) + cost[n] for n in leak}
pick = min(harm, key=harm.get)
apart = f"{rows[pick]} - {rows['even noise']}"
text(
    "Of the defences whose cost was measured {} under the strongest attack on this "
    "small network: the least that any leaves is {:.1f} dB above the baseline, and "
    "undefended our short searches end only {:.1f} dB above it. The least loss, "
    "decibels and points together, is that of *{}*, which leaves {:.1f} dB where even "
    "noise leaves {:.1f}; in accuracy it is {:+.1f} ± {:.1f} points from even noise "
    "(mean and standard error of {} repeats).",
    f"only {', '.join(held)} holds" if held else "none holds",
    min(leak.values()),
    shown.mean("psnr[matrix, none, search] - psnr[guess]"),
    *(pick, leak[pick], leak["even noise"]),
    *(known.mean(apart), known.spread(apart) / len(known) ** 0.5, len(known)),
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. (2024, section 7) propose to change the designs that leak, and to add noise, most of all where a network leaks. They leave the noise to future work. Lu et al. (2022, section 4.2) propose to withhold the position gradient. The attacks and the matrix are ours.

# %%
widgets.verdicts("13")

# %% [markdown]
# ## What would change our mind
#
# - A stronger search. A defence that holds here holds *so far*.
# - Networks that have learned more. We measured the cost of noise on networks of low accuracy, after few steps.
# - A server that receives only the sum of many clients' updates. Then each client can add less noise.
#
# ## Read on
#
# Abadi et al. 2016 have a defence with a proof. Zhu et al. 2019, section 5, have the first list of cheap defences. `python -m privlab audit NAME` attacks a
# model of yours. Lab 14 asks what all these verdicts are worth.
