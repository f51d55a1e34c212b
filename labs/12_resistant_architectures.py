# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 12 · Which architecture resists?
#
# In lab 11 you were the attacker. Now you are the defender: you have to ship a network that knows your staff. Can you choose or change its
# architecture so that fewer faces come out, and the door still opens for the right people?
#
# After this lab you can
# - write the three defences of Koh et al. (2024), RoLSS, SSF and TTS, train them, and attack them;
# - say what a defence costs, and compare it with the cheapest one: to stop the training earlier;
# - run a user study, and say what its answers can show.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 2.1 | 1.1 GB |
#
# (Estimated, for two CPU cores.)

# %% [markdown]
# *About 75 minutes. You need* lab 11. *New words*: **trade-off**, **Pareto front**.
#
# The faces are those of the ORL set again. Never show a reconstruction to somebody who may take it for a photograph.

# %%
from privlab import compute, experiments, models
from privlab.course.lab_12 import user_study, workbench
from privlab.experiments.victims import private_people
from privlab.notebook import checks, drawings, plots, text, widgets

import numpy as np
import pandas as pd
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
faces = ""  # "facescrub" or "celeba_people", prepared with data_scripts/prepare.py

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "resistant_architectures.defences"
kept = experiments.load(NAME)  # what was measured and committed
# Now your machine trains and attacks six networks: about a minute. Read on.
mine = experiments.run(NAME, profile, device=device)
settings = experiments.find(NAME).size(mine.size).settings
stage = {**settings["stage"], **({"faces": faces} if faces else {})}
here = private_people.People(mine.repeats[0] + seed, **stage, device=device)
whole = here.network(settings["networks"]["resnet"], at=settings["stops"])
bench = workbench.Workbench(here, whole)
epochs = here.recipe.epochs
found = {"no defence": bench.attacked(whole.model(0))}

# %% [markdown]
# ## RoLSS: cut the last skip connections
#
# The victim is a narrow ResNet that knows 20 people of the ORL set (8 at `smoke`). It is small, so that it trains in seconds. The attack and the judge are those
# of lab 11.
#
# In seven of the eight networks of Koh et al., Table 2 the skip connections of the *last* stage help the attacker most. The authors' explanation: the attack's
# gradient passes this stage first, so what is lost there is missing in all earlier stages. Their first defence follows from that (section 5.1). **RoLSS**, the
# *removal of last-stage skip connections*, trains the network without them from its first epoch. There is nothing to tune.

# %%
drawings.show("12.skips_cut")

# %% [markdown]
# ### Exercise 1: RoLSS in one line *(difficulty 1, 6 minutes)*
#
# Write `rolss(model)`: remove the skip connections of the last stage that has any, and return the model. The book has two functions for this in
# `models.skip_connections`. `stages(model)` lists the stages that have skip connections, such as `[1, 2, 3, 4]`. `cut(model, stage, k)` multiplies those of one
# stage by `k`, in place.
#
# <details><summary>Hint</summary>Do not write a 4: another network may have three stages. What does a factor of 0 leave?</details>


# %% tags=["exercise"]
def rolss(model): ...


# %% tags=["solution"]
def rolss(model):
    skips = models.skip_connections
    skips.cut(model, skips.stages(model)[-1], k=0)
    return model


# %%
removed = checks.verify("12.rolss", rolss)
removed

# %% [markdown]
# ### Predict
#
# Now your machine trains a network with *your* `rolss` on the same photographs, and attacks it. The *attack accuracy* is the share of the found faces that the
# judge names as the person searched for.

# %%
guess_cut = widgets.predict("Attack accuracy of your network:", 0, 100, "%")
display(widgets.Sentence(f"Without a defence: {found['no defence'].attacc:.0f}%."))
guess_cut

# %%
model = rolss(bench.fresh()) if removed.passed else bench.fresh()
bench.train(model, epochs)
found["your RoLSS"] = bench.attacked(model)
theirs = mine.mean("attacc[orl, resnet, rolss]")
display(bench.card(found), guess_cut.against(round(found["your RoLSS"].attacc)))
text(
    "Task accuracy, on new photographs: {:.0f}% without a defence, {:.0f}% with your "
    "RoLSS. The book's RoLSS on the same people has an attack accuracy of {:.0f}%.",
    *(one.acc for one in found.values()),
    theirs,
)

# %% [markdown]
# This is one draw of people and one training, which decides nothing. The charts below have more.
#
# ## SSF: turn them down
#
# Without its last skip connections a network may learn its task less well. So the paper's second defence keeps a part of them (section 5.2):
#
# $$z_{i+1} = g_i(z_i) + k \cdot z_i$$
#
# This is Koh et al., eq. 3. The **skip-connection scaling factor** $k$ is a dial: 1 is the full network, 0 is RoLSS. The paper takes 0.2 for ResNets. Where the
# skip connection is a projection, $k$ multiplies its output.
#
# ### Predict
#
# In Koh et al., Figure 9 both accuracies of a ResNet-101 rise with $k$. What do you expect here at $k = 0$, compared with $k = 1$? Then turn the dial. Each new value
# trains a network, which takes some seconds. (Your own `rolss` is $k = 0$.)

# %%
display(drawings.show("12.skips_by_k"))
FALLS, ALIKE, RISES = "lower by more than 5 points", "within 5 points", "higher"
guess_dial = widgets.choose("At k = 0 attack accuracy is", [FALLS, ALIKE, RISES])
guess_dial


# %%
def dial(k):
    name = {1.0: "no defence", 0.0: "your RoLSS"}.get(k, f"SSF, k = {k:g}")
    if name not in found:
        model = bench.fresh()
        models.skip_connections.cut(model, models.skip_connections.stages(model)[-1], k)
        bench.train(model, epochs)
        found[name] = bench.attacked(model)
    one = found[name]
    line = f"k = {k:g}: task accuracy {one.acc:.0f}%, attack accuracy {one.attacc:.0f}%"
    return bench.card({name: one}), widgets.Sentence(line)


widgets.explore(dial, start={"k": 0.2}, k=(0.0, 0.2, 0.5, 1.0))

# %%
turned = experiments.load("resistant_architectures.skip_factor")
names = {k: "k_" + f"{k:g}".replace(".", "p") for k in (0, 0.05, 0.2, 0.5, 1)}
lines = {
    label: {k: f"{metric}[orl, resnet, {name}]" for k, name in names.items()}
    for label, metric in (("task", "acc"), ("attack", "attacc"))
}
RANK = "rank_correlation[orl, resnet, k, attacc]"
change = turned.mean(f"{lines['attack'][0]} - {lines['attack'][1]}")
chart = plots.evidence_lines(
    turned, None, lines, xlabel="k, the factor of the last skips", ylabel="accuracy, %"
)
display(
    chart,
    guess_dial.against(FALLS if change < -5 else RISES if change > 5 else ALIKE),
    text(
        "Within a draw of people, k and attack accuracy have a rank correlation of "
        "{:.2f} ± {:.2f}.",
        turned.mean(RANK),
        turned.spread(RANK),
    ),
)

# %% [markdown]
# ### Joined features
#
# A block of a DenseNet does not add. It *joins* its output to its input, $[z_i, g_i(z_i)]$, channel after channel. There SSF keeps a part of the input
# (Koh et al., eq. 8):
#
# $$z_{i+1} = [z_i^{scale}, g_i(z_i)]$$
#
# Of the $n$ channels of $z_i$, $z_i^{scale}$ has $k \cdot n$. The paper does not say which: we keep the first ones of each earlier feature, as the authors' code
# does. Read literally, eq. 8 would scale the oldest features again in every block. The paper takes $k = 0.01$, which leaves nothing of our few channels.
# So turn the dial again.


# %%
dense = workbench.Workbench(here, here.network("densenet"))
last = models.skip_connections.stages(dense.fresh())[-1]


def join(k):
    model = dense.fresh() if k < 1 else dense.whole.model(0)
    models.skip_connections.cut(model, last, k)  # k = 1 changes nothing
    if k < 1:
        dense.train(model, epochs)
    layers = model.features.denseblock4.values()
    read = ", ".join(str(layer.conv1.in_channels) for layer in layers)
    one = dense.attacked(model)
    line = f"The layers of the last stage read {read} channels. "
    line += f"Task accuracy {one.acc:.0f}%, attack accuracy {one.attacc:.0f}%."
    return dense.card({f"DenseNet, k = {k:g}": one}), widgets.Sentence(line)


widgets.explore(join, start={"k": 0.2}, k=(0.0, 0.2, 0.5, 1.0))

# %% [markdown]
# In Koh et al., Table 6 a DenseNet-121 has a task accuracy of 94.67% and an attack accuracy of 78.09%. With SSF they are 91.73% and 56.32%, with RoLSS 86.86%
# and 24.48%. So a DenseNet needs its joined features more than a ResNet needs its sums.
#
# ## TTS: cut them later
#
# The third defence, the **two-stage training scheme** (section 5.3), removes the same skip connections, but later. Stage 1 trains the full network for $M$ epochs.
# Stage 2 removes the last skip connections and trains on for $N$ epochs, from the weights of stage 1. $M + N$ is the length of the usual training. The paper takes
# $M = 5$ and $N = 95$. Here $M = 2$.
#
# ### Exercise 2: two stages *(difficulty 2, 8 minutes)*
#
# Write `tts(model, train, cut, full, epochs)`, and return the model. `train(model, n)` trains it for `n` epochs, and `cut(model)` removes the last skip
# connections, both in place. `full` is $M$, and `epochs` is $M + N$.
#
# <details><summary>Hint</summary>These are three calls. How many epochs are left for the second stage?</details>


# %% tags=["exercise"]
def tts(model, train, cut, full, epochs): ...


# %% tags=["solution"]
def tts(model, train, cut, full, epochs):
    train(model, full)
    cut(model)
    train(model, epochs - full)
    return model


# %%
staged = checks.verify("12.tts", tts)
staged

# %% [markdown]
# ### Predict
#
# In the paper's four ResNets TTS gives more away than RoLSS. Does it here, over the committed repeats? (Your TTS starts a new learning-rate schedule in
# stage 2. That of the committed repeats keeps one schedule. The paper does not say which.)

# %%
MORE, NEAR, FEWER = "more than RoLSS", "within 5 points of it", "less"
guess_tts = widgets.choose("TTS gives away", [MORE, NEAR, FEWER])
guess_tts

# %%
if removed.passed and staged.passed:
    model = tts(bench.fresh(), bench.train, rolss, full=2, epochs=epochs)
    found["your TTS"] = bench.attacked(model)
    display(bench.card({"your TTS": found["your TTS"]}))
gap = kept.mean("attacc[orl, resnet, tts] - attacc[orl, resnet, rolss]")
display(guess_tts.against(MORE if gap > 5 else FEWER if gap < -5 else NEAR))
rates = [f"{k} {one.acc:.0f} and {one.attacc:.0f}" for k, one in found.items()]
text(
    "Task and attack accuracy of your networks, in percent: {}. This is one draw of "
    "people, so the order can be chance.",
    "; ".join(rates),
)

# %% [markdown]
# ## All defences, side by side
#
# Koh et al., Table 5 compares the three with **BiDO**, and Koh et al., Table 9 adds MID and DP-SGD. These change the *training*, not the architecture.
#
# | | what it changes | from |
# |---|---|---|
# | BiDO | the loss: features should depend little on the image, and much on the label | Peng et al. 2022 |
# | MID | the features: noise stands between them and the head | Wang et al. 2021 |
# | DP-SGD | the step: each image's gradient is clipped, and noise is added | Abadi et al. 2016 |
#
# [The deeper notebook](deeper/12_training_defences.ipynb) explains how they work. The chart has repeated draws of people, and the dots of your own machine.
#
# ### Predict

# %%
LABELS = {"rolss": "RoLSS", "ssf": "SSF", "tts": "TTS", "bido": "BiDO", "mid": "MID"}
guess_most = widgets.choose(
    "Which defence takes most from the attacker?", [*LABELS.values()]
)
guess_most

# %%
kinds = {"none": "no defence", **LABELS}
attack = {label: f"attacc[orl, resnet, {kind}]" for kind, label in kinds.items()}
TABLE9 = {"no defence": "No Def.", **{name: name for name in LABELS.values()}}
printed = plots.published(
    "koh2024_table9", TABLE9, architecture="ResNet-101", metric="attacc"
)
SEEN = "attack: faces that the judge knows, %"
display(plots.evidence(kept, mine, attack, published=printed, xlabel=SEEN))
least = min(LABELS.values(), key=lambda label: kept.mean(attack[label]))
guess_most.against(least)

# %% [markdown]
# A network that knows nothing gives nothing away. So look at the *task*, too: how often does each network name a person rightly on new photographs? The paper's
# tables print a ratio, $\Delta$: the points of attack accuracy that a defence takes, divided by the points of task accuracy that it costs (for a ResNet-101:
# RoLSS 9.89, SSF 11.16, TTS 8.20, BiDO 3.50, MID 7.58). Where the cost is nearly 0 it [says little](deeper/12_training_defences.ipynb).

# %%
task = {label: name.replace("attacc", "acc") for label, name in attack.items()}
chart = plots.evidence(
    kept, mine, task, xlabel="task: new photographs named rightly, %"
)
dp, without = (f"acc[orl, resnet, {kind}]" for kind in ("dp", "groupnorm"))
lost = {
    k: [kept.mean(f"{of['no defence']} - {of[k]}") for of in (attack, task)]
    for k in LABELS.values()
}
told = text(
    "DP-SGD is not in the chart: it needs a network with GroupNorm in place of"
    " BatchNorm. Of 100 new photographs this network names {:.0f} rightly, and with"
    " DP-SGD it names {:.0f}, so little is left to attack.",
    *(kept.mean(name) for name in (without, dp)),
)
ratios = ", ".join(
    f"{k} {by_attack / by_task:.1f}" for k, (by_attack, by_task) in lost.items()
)
display(chart, told, text("$\\Delta$ of these means: {}.", ratios))

# %% [markdown] tags=["printed"]
# ### The trade-off, in a plane
#
# Two numbers for each network: draw them as a plane. This is the **trade-off** between accuracy and privacy. To the right is better for you, down is worse
# for the attacker.
#
# A network is on the **Pareto front** if no other is both at least as accurate and leaks at most as much, and better in one of the two. [In the deeper
# notebook](deeper/12_training_defences.ipynb) you write a function that finds it.
#
# ### Predict
#
# Now we add other *architectures*, which were measured in lab 11 on the same people: the VGG, the ResNet with a fine stem, and the ResNet without any skip
# connection. And we add the undefended ResNet, *stopped* after a few epochs of training.
#
# Where will the defended networks lie? *On the band* means: within ten points of attack accuracy of an undefended network that was stopped where it is as
# accurate. Large marks will be means, small ones repeats, and the dashed line is the Pareto front of the means.

# %%
display(drawings.show("12.plane"))
BAND, BELOW, ABOVE = "on the band", "clearly below the band", "above it"
guess_band = widgets.choose("RoLSS, SSF and TTS will lie:", [BAND, BELOW, ABOVE])
guess_band

# %%
lab_11 = experiments.load("model_inversion.skips", kept.size)
others = {"VGG": "vgg, full", "fine stem": "resnet_fine, full"}
others["all skips cut"] = "resnet, none_left"
stopped = {
    f"stopped at {epoch}": f"resnet, stopped_{epoch}"
    for epoch in (4, 8)
    if f"acc[orl, resnet, stopped_{epoch}]" in kept
}
ours = {label: f"resnet, {kind}" for kind, label in kinds.items()} | stopped


def both(of, names):
    """(repeats, 2): task and attack accuracy, for each name that was measured."""
    pairs = {
        k: [f"{metric}[orl, {n}]" for metric in ("acc", "attacc")]
        for k, n in names.items()
    }
    return {
        k: np.stack([of[x] for x in two], 1) for k, two in pairs.items() if two[1] in of
    }


points = both(kept, ours) | both(lab_11, others)

# %%
means = [
    f"{k} {p[:, 0].mean():.1f} and {p[:, 1].mean():.1f}" for k, p in points.items()
]
chart = plots.scatter(
    points, front=True, xlabel="task accuracy (%)", ylabel="attack accuracy (%)",
    alt=f"Task accuracy and attack accuracy, means: {'; '.join(means)}.",
)  # fmt: skip

beyond = {
    label: kept[f"attacc_if_stopped[orl, resnet, {kind}]"] - kept[attack[label]]
    for kind, label in LABELS.items()
}
cuts = np.mean([beyond[label] for label in ("RoLSS", "SSF", "TTS")], 0)
display(chart)
guess_band.against(BELOW if cuts.mean() > 10 else ABOVE if cuts.mean() < -10 else BAND)

# %% [markdown]
# ## The cheapest defence
#
# You can defend your staff without any new idea: stop the training earlier, as in *stopped at 4* and *8* of the plane. The network is then worse at its task, and
# gives less away. So a defence has to beat the undefended network *stopped where it is as accurate* (as in Koh et al., Figure 3).

# %%
pairs = {}
for kind, label in LABELS.items():
    pairs[label] = attack[label]
    at_equal = f"attacc_if_stopped[orl, resnet, {kind}]"
    pairs[f"stopped at the accuracy of {label}"] = at_equal
plots.evidence(kept, mine, pairs, xlabel=SEEN)

# %% [markdown]
# A defence helps if its row lies left of the row below.
#
# Does it depend on the network? The next table has four, and two more defences. RoLSS+ (Koh et al., Table 9) also cuts a tenth of the stage before, here one
# block. And BiDO can train a network with RoLSS (Koh et al., Table 8).

# %%
NETS = {"18 layers": "resnet", "34 layers": "resnet_deep"}
NETS |= {"10 layers": "resnet_shallow", "18 wide layers": "resnet_wide"}
KINDS = {**{label: kind for kind, label in LABELS.items()}, "RoLSS+": "rolss_plus"}
KINDS["BiDO, RoLSS"] = "bido_plus_rolss"


def less(net, kind):  # faces of 100, beyond a network that is stopped as accurate
    return f"attacc_if_stopped[orl, {net}, {kind}] - attacc[orl, {net}, {kind}]"


def told(name):
    there = name in kept
    return f"{kept.mean(name):+.1f} ± {kept.spread(name):.1f}" if there else "…"


by_net = {
    n: {k: told(less(net, x)) for k, x in KINDS.items()} for n, net in NETS.items()
}
display(
    text(
        "Of 100 faces, how many fewer come out of a defended network than of the same"
        " ResNet, stopped where it is as accurate? (Mean ± standard deviation of {}"
        " draws of people; below zero, more come out. With ten layers the last skip"
        " connection is a projection. RoLSS+ cuts one more block: one of six with 34"
        " layers, one of two with 18, the only one with ten.)",
        len(kept),
    ),
    pd.DataFrame(by_net).T,
)

# %% [markdown] tags=["printed"]
# ### Exercise 3: a vendor's claim *(difficulty 2, 8 minutes)*
#
# A vendor writes: "An attack finds 20 points fewer faces in our network than in the usual one. Buy ours." Which of these facts do you need before you can
# believe that the *architecture* resists? Give their letters, such as `facts = {"a", "b"}`.
#
# - **a** How accurate are both networks at their task?
# - **b** How many faces does the attack find in the usual network if its training stops where it is as accurate as theirs?
# - **c** How much does the number vary from one training, and one draw of people, to the next?
# - **d** Were both attacked with the same attack, and judged by the same judge?
# - **e** What does the best reconstruction look like?
# - **f** How many faces does the *victim itself* take for the right person?
#
# <details><summary>Hint</summary>For each fact, imagine the answer that is worst for the vendor. Would the claim fall with it?</details>

# %% tags=["exercise", "reading"]
facts = ...

# %% tags=["solution"]
facts = {"a", "b", "c", "d"}

# %%
checks.verify("12.vendor", facts)

# %% [markdown]
# ## Ask people
#
# So far a network has judged. The paper also asked people (section 11). You see a person and two reconstructions, one from each network.
# Which is closer? You have 60 seconds.
#
# ### Predict
#
# You get twelve pairs, *no defence* against *your RoLSS*, from the networks that your machine has trained. The sides are drawn at random.

# %%
guess_study = widgets.predict("You will find the undefended closer in:", 0, 12, "of 12")
guess_study

# %%
two = [found[name].images for name in ("no defence", "your RoLSS")]
pairs_of = list(zip(here.private(12), *two, strict=False))
study = user_study.Study(pairs_of, names=("no defence", "your RoLSS"))
user_study.Game(study)

# %% [markdown]
# Your answers stay on this machine, in `runs/study`: one small file a game, without a name. For a whole class, everybody plays the *same* pairs. The teacher
# saves them with `save("study.safetensors")` of the study, and everybody loads the file with `user_study.load`. The games go into one folder. This board
# shows them as they come in:

# %%
board = user_study.Board(study)
own = [sum(game.choice == study.names[0]) for game in board.games]
display(board, guess_study.against(own[-1] if own else float("nan")))

# %% [markdown]
# (Run the cell again after your game.) The dashed line is what guessing would give. Twelve answers of one player show little: somebody who guesses may well
# favour one side in nine of twelve.
#
# In Koh et al., Table 10, 69.51% of the answers chose the full MaxViT over one without the skip connections of its first stage.

# %% [markdown] tags=["printed"]
# ### Exercise 4: where is the flaw? *(difficulty 2, 6 minutes)*
#
# Ten students play, twelve pairs each. Of their 120 answers 75 favour the undefended network. One of them writes: "If 120 coins are thrown, 75 heads or more
# come up less than once in a hundred times. So people see the difference between the two *networks*." Which sentence names the flaw?
#
# - **a** All saw the same twelve pairs, and other pairs might go the other way.
# - **b** 75 of 120 is less than the paper has.
# - **c** Nobody has recognised a person, so the answers do not count for anything.
# - **d** The sides were drawn at random. They should be the same for all.
#
# Give its letter, as in `flaw = "b"`.
#
# <details><summary>Hint</summary>One throw of a coin does not depend on another. What do the 120 answers share that 120 throws do not?</details>

# %% tags=["exercise", "reading"]
flaw = ...

# %% tags=["solution"]
flaw = "a"

# %%
checks.verify("12.players", flaw)

# %% [markdown]
# ## The answer

# %%
CUTS = ("rolss", "rolss_plus", "tts")
lost = "acc[orl, resnet_deep, none] - acc[orl, resnet_deep, {}]"
text(
    "It depends on the network: beyond what stopping the training earlier does, RoLSS,"
    " RoLSS+ and TTS keep {}, {} and {} of 100 faces from the attacker in the ResNet"
    " with 34 layers, at a cost of {:.0f}, {:.0f} and {:.0f} points of task accuracy,"
    " and {}, {} and {} in the ResNet of this lab, with 18. BiDO keeps {} with ten"
    " layers and {} in the wide network, where we cannot tell whether any cut helps:"
    " what resists in one architecture need not resist in the next.",
    *(told(less("resnet_deep", kind)) for kind in CUTS),
    *(kept.mean(lost.format(k)) if lost.format(k) in kept else np.nan for k in CUTS),
    *(told(less("resnet", kind)) for kind in CUTS),
    *(told(less(net, "bido")) for net in ("resnet_shallow", "resnet_wide")),
)

# %% [markdown]
# ## The paper, and here

# %%
widgets.verdicts("12")

# %% [markdown] tags=["printed"]
# ## What would change our mind
#
# - The paper's own setting, which has not been run here: ResNet-34 to 152, 530 people, a StyleGAN. There RoLSS costs the task 1.7 to 3.3 points, and at equal
#   accuracy the attacker finds 10 to 15 points less. Our pictures have 32 pixels, of which the last stage of a ResNet sees one.
# - A change that beats stopping earlier before every judge. GroupNorm in place of BatchNorm does so before our judge, which has BatchNorm itself. Before judges
#   with GroupNorm [no lead is left](deeper/12_training_defences.ipynb).
# - A stronger attack. What one attack finds is a lower bound: [attacks that ask the victim](deeper/12_stronger_attacks.ipynb).
# - Transformers. In Koh et al., Table 10 a cut takes 56 points of attack accuracy from [a MaxViT](deeper/11_skip_connections.ipynb), for 1.9 of task accuracy.
# - More depth and resolution. The cuts keep most where our network is deepest; finer pictures are being measured.

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, sections 5, 10 and 11. Peng et al. 2022 is BiDO, Wang et al. 2021 is MID. Lab 13 turns to gradients again, and to where noise is best
# spent.
