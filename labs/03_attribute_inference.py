# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03 · What does a representation know that nobody asked?
#
# A model is trained to say one thing of a photograph: animal or vehicle, man or woman. On the way it turns the photograph into a list of numbers.
# Apps send such lists to servers, and shops store them, because "they are only features". What else can be read from them?
#
# After this lab you can
# - carry out an attribute inference attack on any model, and leave no trace in it;
# - say what a probe has to beat before its accuracy means anything;
# - tell what a network leaks from what training adds to it;
# - narrow a representation until the attack fails, and say what that costs.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.6 | 1.3 GB |
# | class | 2.9 | 1.3 GB |
#
# (Estimated, on two CPU cores.)

# %% [markdown]
# *About 65 minutes. You need* lab 01, or to know what a classifier and overfitting are. *New words*: **representation**, **attribute**, **probe**,
# **auxiliary set**, **majority guess**, **bottleneck**.

# %%
from privlab import compute, data, experiments
from privlab.attacks import attribute_inference
from privlab.course.lab_03 import experiments as measured
from privlab.experiments.victims.shadow_fleets import FAMILIES
from privlab.models import representations
from privlab.notebook import checks, drawings, plots, text, widgets

import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # one more model to attack, by its timm name: "mobilenetv3_small_050"
faces = ""  # "utkface", "fairface" or "celeba", prepared with data_scripts/prepare.py

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "attribute_inference.architectures"
kept = experiments.load(NAME)  # what was measured and committed
# Now your machine trains the lab's networks, and attacks them: about a minute. Read on.
mine = experiments.run(NAME, profile, device=device)

# %% [markdown]
# ## Two questions about one photograph
#
# The victim is trained on a *task*. The numbers that enter its last layer are the **representation** $h$ of a photograph. The attacker wants to know
# something else about the photograph, an **attribute** $a$. They have other photographs whose attribute they know, and the representation of each.
# These pairs, $(h, a) \in \mathcal D_A$, are their **auxiliary set**. On it they train a **probe** $\mathcal A$, a small network from $h$ to $a$
# (Zhang et al., section 3.1.2).

# %%
drawings.show("03.probe")

# %% [markdown]
# Our task is *animal or vehicle*, and the attribute is *which of ten kinds*. Nobody is hurt if a frog is recognised. In the paper (Zhang et al. 2024,
# section 4.1) the photographs show faces, the task is gender, and the attribute is race. That cannot be quite so, because none of the 40 attributes of
# their set, CelebA, is race. If you have UTKFace or FairFace, set `faces` above, and run the lab on them.
#
# The paper cuts 20,000 photographs evenly into four parts, and the experiment does so with fewer. The victim is trained on one part and tested on another. The attacker
# has the two `shadow` parts. *Your*
# attacker, in this notebook, is stronger: they have a few thousand more, which no victim has seen.

# %%
asked = {"celeba": ("Male", "Young"), "cifar10": ("animal", "class")}
source = faces or "cifar10"
task, hidden = asked.get(source, ("gender", "race"))
how = experiments.find(NAME).size(mine.size).settings
draw, extra = mine.repeats[0] + seed, 1200 if profile == "smoke" else 4000
photos = data.attributes.load(source).few(how["images"] + extra, draw)
game = measured.game(draw, photos, how["images"], task, hidden)
public = photos.pixels[how["images"] :]  # (extra, 3, 32, 32), the attacker's
answers = {name: photos[name][how["images"] :] for name in (task, hidden)}


def words(name, column):  # numbers -> what they stand for
    return [photos.values[name][k] for k in column.tolist()]


print(source, {n: len(p) for n, p in game.parts._asdict().items()})
both = (words(name, answers[name][:8]) for name in (task, hidden))
named = [", ".join(pair) for pair in zip(*both, strict=True)]
eight = {f"Photographs of {source}": public[:8] / 255}
says = f"Eight photographs with task and attribute: {'; '.join(named)}."
plots.images(eight, alt=says, captions=dict.fromkeys(eight, named))

# %% [markdown]
# The victims are a small ResNet and a small Swin. They are trained until they know nearly all of their images.

# %%
names = {"ResNet": "resnet", "Swin": "swin"}
shapes = {name: FAMILIES[how["families"]][key] for name, key in names.items()}
shapes |= {victim: (victim, {})} if victim else {}
fleets = {
    name: game.victim(shape, how["recipe"], how["every"], device)
    for name, shape in shapes.items()
}
for name, fleet in fleets.items():
    right = fleet.right(0, game.parts.victim_test)
    print(f"{name}: {right:.3f} of its test images are right")

# %% [markdown]
# ## Read a layer, and probe it
#
# PyTorch can hand you what enters or leaves any layer, through a *hook*: a function that is called whenever the layer is used.
#
# ### Exercise 1: leave no trace *(difficulty 2, 15 minutes)*
#
# A hook that is never removed is called for ever, and keeps everything that it sees. Write `entering(model, layer, x)`. It returns what enters the
# module called `layer` when the model sees `x`, without a graph. Afterwards the model is as it was before.
#
# <details><summary>Hint</summary><code>model.get_submodule(layer).register_forward_pre_hook(f)</code> calls <code>f(module, inputs)</code>, where
# <code>inputs</code> is a tuple, and returns a handle with <code>remove()</code>. What if the pass fails? And was the model in train mode?</details>


# %% tags=["exercise"]
def entering(model, layer, x): ...


# %% tags=["solution"]
def entering(model, layer, x):
    seen = []
    module = model.get_submodule(layer)
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return seen[0]


# %%
checks.verify("03.entering", entering)

# %% [markdown]
# ### The probe
#
# What enters the last layer for many photographs is a table: each row is a photograph, and each column a feature. The victim needs the features for one of two answers.
# The probe is a *two-layer MLP* (Zhang et al., section 4.1): it says the attribute whose entry in $W_2 \max(0, W_1 h + b_1) + b_2$ is largest. The paper does not print its width.
# Ours has 64 hidden units, so $W_1$ has 64 rows, and $W_2$ has a row for each value of the attribute.
#
# ### Predict
#
# Think of an attacker who sees the victim's *answer* only, and suppose that it is always right. There are six kinds of animal and four of vehicle, all
# equally common. On what share of the photographs can this attacker name the kind?

# %%
alone = widgets.predict("Share named from the right answer alone:", 0, 1)
alone

# %%
one_hot = torch.nn.functional.one_hot
table = one_hot(answers[task]).T @ one_hot(answers[hidden])  # a row for each answer
ideal = (table.max(1).values.sum() / extra).item()  # say the most common kind of each
alone.against(round(ideal, 3))

# %% [markdown]
# ### Predict
#
# On what share can a probe name the kind from the representation? Random guessing is right for one photograph in ten.

# %%
beyond = widgets.predict("Share named from the Swin's features:", 0, 1)
beyond

# %%
features = {  # the same for many images: what enters the last layer of each victim
    name: representations.read(fleet.model(0), public)["last"]
    for name, fleet in fleets.items()
}
cut = 3 * extra // 4  # the probe is fitted on these, and judged on the rest


def probed(read, name, kind="mlp", width=None):
    probe = attribute_inference.probe(read[:cut], answers[name][:cut], kind, width)
    return probe, probe.score(read[cut:], answers[name][cut:])


attacks = {name: probed(read, hidden) for name, read in features.items()}
for name, (_, score) in attacks.items():
    about = f"{name}, {features[name].shape[1]} features"
    print(f"{about}: {score.accuracy:.3f}, macro-F1 {score.macro_f1:.3f}")
print(f"majority guess: {score.majority:.3f}, macro-F1 {score.majority_f1:.3f}")
print(attacks["Swin"][0].pipeline[-1])  # the two layers, as scikit-learn has them

# %% [markdown]
# The **majority guess** looks at nothing. It always says the most common value. *Macro-F1*, the mean of the F1 scores of
# all values, matters where one value is rare.

# %%
said = words(hidden, attacks["Swin"][0](features["Swin"][cut : cut + 8]))
truth = words(hidden, answers[hidden][cut : cut + 8])
verdict = ["right" if a == b else "wrong" for a, b in zip(said, truth, strict=True)]
marks = [f"{a}: {v}" for a, v in zip(said, verdict, strict=True)]
eight = {"What the probe says": public[cut : cut + 8] / 255}
says = f"Eight photographs and what the probe says: {', '.join(marks)}."
display(beyond.against(attacks["Swin"][1].accuracy))
plots.images(eight, alt=says, captions=dict.fromkeys(eight, marks))

# %% [markdown]
# ## What does a probe have to beat?
#
# An accuracy alone says little. Four things are worth a comparison: the majority guess; the victim's answer, here with its confidence and its mistakes; the same
# network with its first random weights, *untrained*; and the pixels themselves, shrunk to 8 x 8.
#
# ### Predict

# %%
ANSWER, TRAINED = "the victim's answer", "the trained representation"
UNTRAINED, PIXELS = "the untrained network", "the pixels, 8 x 8"
ask = "From which of these can a probe read the kind best, for the Swin?"
best = widgets.choose(ask, [ANSWER, TRAINED, UNTRAINED, PIXELS])
best

# %%
KEY = "attack_acc[cifar10, {}, {}]"
kinds = {TRAINED: "probe", UNTRAINED: "untrained_network", ANSWER: "the_answer_alone"}
rows = {f"{a}: {k}": KEY.format(names[a], kinds[k]) for a in names for k in kinds}
rows[PIXELS] = "attack_acc[cifar10, pixels]"
rows["the majority guess"] = "attack_acc[cifar10, majority]"
swin = {k: name for k, name in rows.items() if not k.startswith("ResNet")}
plots.evidence(kept, mine, swin, xlabel="share of the kinds that are named rightly")

# %%
shown = kept or mine
means = {k: shown.mean(rows[f"Swin: {k}"]) for k in kinds}
means[PIXELS] = shown.mean(rows[PIXELS])
display(best.against([k for k in means if means[k] > max(means.values()) - 0.01]))
images = experiments.find(NAME).size(shown.size).settings["images"]
text(
    "Here the attacker has {} photographs, fewer than yours. From the trained Swin the "
    "accuracy is {:.3f}, and from the untrained one {:.3f}. "
    "From the answer it is {:.3f}, and from the pixels {:.3f}.",
    *(images // 4, *means.values()),
)

# %% [markdown]
# An untrained network has learned nothing. Yet it passes on what is in the pixels. Training has to keep what the task needs. It may keep the
# rest, or throw it away.
#
# ## A mark that the task does not need
#
# Kinds go along with the task, because each kind belongs to one answer. Zhang et al. choose a pair in which this is not so: race does not follow from gender (Zhang et al., Table 4).
# Here a coin decides which photographs get a *mark*, a white square in a corner. Other victims are trained for animal or vehicle on such photographs. They have no use for the mark.
#
# ### Exercise 2: what did training add? *(difficulty 2, 10 minutes)*
#
# Write `adds(trained, untrained, attribute)`: the accuracy of a probe on the trained network's features, less that of a probe on the features of the same network before its
# training. Fit both on the first three quarters of the rows, and judge them on the rest. `attribute_inference.probe(features, attribute)` fits a probe. Call it with features (n, width), and it says the
# attribute of each row, (n,).
#
# <details><summary>Hint</summary>Which rows may the probe not have seen when it is judged? The features of the two networks mean different things, so fit a probe for each.</details>


# %% tags=["exercise"]
def adds(trained, untrained, attribute): ...


# %% tags=["solution"]
def adds(trained, untrained, attribute):
    cut = 3 * len(attribute) // 4
    right = []
    for x in (trained, untrained):
        probe = attribute_inference.probe(x[:cut], attribute[:cut])
        right.append(probe.score(x[cut:], attribute[cut:]).accuracy)
    return right[0] - right[1]


# %%
checks.verify("03.adds", adds)

# %%
MARK = "attribute_inference.mark"
kept_mark = experiments.load(MARK)
mine_mark = experiments.run(MARK, profile, device=device)  # half a minute
recipe = experiments.find(MARK).size(mine_mark.size).settings["recipe"]
marked = measured.marked(mine_mark.repeats[0], how["images"])
seers = {a: marked.victim(shape, recipe, device=device) for a, shape in shapes.items()}
eight = {"marked by a coin": marked.photos.pixels[:8] / 255}
plots.images(eight, alt="Eight photographs, some with a white square in a corner.")

# %% [markdown]
# ### Predict
#
# Half of the photographs have the mark, so random guessing is right for half of them.

# %%
GONE, PART, THERE = "about half, it is lost", "0.6 to 0.9", "more than 0.9"
UP, SAME, DOWN = "more", "as much, within 0.02", "less"
ask = "For what share of photographs is a probe on the trained ResNet right?"
guess_mark = widgets.choose(ask, [GONE, PART, THERE])
ask = "Compared with the same ResNet untrained, the trained one gives away"
guess_adds = widgets.choose(ask, [UP, SAME, DOWN])
display(guess_mark, guess_adds)

# %%
of_mark = {label: name.replace("cifar10", "mark") for label, name in rows.items()}
of = {label: (kept_mark or mine_mark).mean(name) for label, name in of_mark.items()}
carried = of[f"ResNet: {TRAINED}"]
added = carried - of[f"ResNet: {UNTRAINED}"]
share = GONE if carried < 0.6 else PART if carried <= 0.9 else THERE
change = UP if added > 0.02 else DOWN if added < -0.02 else SAME
display(guess_mark.against(share), guess_adds.against(change))
axis = "share of the marks that are named rightly"
display(plots.evidence(kept_mark, mine_mark, of_mark, xlabel=axis))
text(
    "A probe names the mark for {:.3f} of the photographs from the trained ResNet, for "
    "{:.3f} from the untrained one, and for {:.3f} from the answer. For the Swin these "
    "are {:.3f}, {:.3f} and {:.3f}. The pixels give {:.3f}, and a guess {:.3f}.",
    *of.values(),
)

# %% [markdown]
# Now stamp the attacker's photographs yourself. The victims saw squares of 4 x 4 pixels. How small may the mark be?


# %%
def stamp(architecture, side_of_the_mark):
    own = measured.marked(mine_mark.repeats[0], how["images"], side_of_the_mark)
    pixels, fleet = own.photos.pixels, seers[architecture]
    read = (representations.read(m, pixels) for m in (fleet.model(0), fleet.fresh(0)))
    right = (own.probed(each["last"]).accuracy for each in read)
    line = "From the trained network the mark is named for {:.2f} of the photographs, "
    line = text(line + "and from the untrained one for {:.2f}.", *right)
    return line, plots.images({"stamped": pixels[:8] / 255}, alt=line)


start = {"side_of_the_mark": 4}
widgets.explore(stamp, start, architecture=tuple(seers), side_of_the_mark=(1, 2, 4, 8))

# %% [markdown] tags=["printed"]
# The accuracy of the probe says what *leaks*. This accuracy less that of the untrained network says what training *adds*. If both networks give the same
# accuracy, training has added nothing and removed nothing. The attribute still leaks, because pixels and architecture let it through. A defender needs the first number. A claim that one architecture
# *learns* more about people needs the second.
#
# ### Exercise 3: what did training teach? *(difficulty 2, 8 minutes)*
#
# A clinic trains a network to find broken bones on X-ray images, and stores the features. A report says: "A probe reads the patient's sex from the features,
# with an accuracy of 0.86. So training has taught the network the sex of patients." Which of these facts speak *against* this conclusion? Give a set of
# letters, such as `{"a", "b"}`.
#
# - **a** Of 100 patients in the auxiliary set, 84 are women, and of the patients who are attacked as well.
# - **b** From the same network before its training, a probe reads the sex with an accuracy of 0.85.
# - **c** Most patients have several images, some of them in the auxiliary set and some among those that are attacked.
# - **d** The network was never trained on the attacker's images.
# - **e** The probe is linear.
# - **f** Broken bones are as common among women as among men.
#
# <details><summary>Hint</summary>For each fact, ask how a probe could reach 0.86 if the training had taught the network nothing about sex. Does the fact open
# such a way, or close one?</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"a", "b", "c"}

# %%
checks.verify("03.clinic", against)

# %% [markdown]
# ## Does the architecture matter?
#
# The paper says that a Transformer gives more away than a CNN, by accuracy and by macro-F1 (Zhang et al., Table 4), at every epoch (Zhang et al., Figure 3), and at the same
# overfitting level (Zhang et al., Figure 4, part b). Compare what a probe reads from our two networks. Then compare what *training* has
# changed in each: the accuracy less that of the untrained network.
#
# ### Predict

# %%
SWIN, ALIKE, RESNET = "the Swin", "both, within 0.02", "the ResNet"
more = widgets.choose("Training adds more (or takes less) in", [SWIN, ALIKE, RESNET])
more


# %%
def of_both(what, name, keys=names):  # rows of a chart
    return {f"{a}: {what}": name.format(keys[a]) for a in names}


def in_print(metric, what):  # for race, with full-size networks
    rows = of_both(what, "{}", {"ResNet": "ResNet-50", "Swin": "Swin-T"})
    return plots.published("zhang2024_table4", rows, metric=metric)


compared = of_both("accuracy", "attack_acc[cifar10, {}, probe]")
compared |= of_both("macro-F1", "macro_f1[cifar10, {}, probe]")
compared |= of_both("same overfitting", "attack_acc_at_matched_gap[cifar10, {}]")
change = KEY.format("{0}", "probe") + " - " + KEY.format("{0}", "untrained_network")
compared |= of_both("change by training", change)
printed = in_print("attack_acc", "accuracy") | in_print("macro_f1", "macro-F1")
plots.evidence(kept, mine, compared, xlabel="share, or difference", published=printed)

# %%
gained = [shown.mean(compared[f"{a}: change by training"]) for a in names]
gap = gained[1] - gained[0]
display(more.against(SWIN if gap > 0.02 else RESNET if gap < -0.02 else ALIKE))
text(
    "The probe's accuracy on the trained Swin is {:+.3f} away from that on the trained "
    "ResNet. In the paper it is {:+.3f}, for race, with full-size networks. Training "
    "changes it by {:+.3f} in our ResNet and by {:+.3f} in our Swin. The paper has no "
    "untrained networks. While the probe is trained, the Swin is ahead at {:.0%} of "
    "the epochs.",
    shown.mean(f"{compared['Swin: accuracy']} - {compared['ResNet: accuracy']}"),
    printed["Swin: accuracy"] - printed["ResNet: accuracy"],
    *gained,
    shown.mean("share_of_epochs_ahead[cifar10, probe, swin_less_resnet]"),
)

# %% [markdown]
# Where in a network is the attribute lost, and when in its training? [A deeper notebook](deeper/03_while_it_learns.ipynb) looks epoch by epoch and layer by
# layer. You do not need it for what follows.
#
# ## Narrow it
#
# One defence is to send less. *Animal or vehicle* needs one number. Suppose that the app sends only the first few principal components of the
# representation. These are the directions in which it varies most.
#
# ### Predict

# %%
LOST, HALFWAY, STAYS = "it is lost", "half of it is lost", "nearly all of it stays"
ask = "With one number, the accuracy at the task:"
guess_task = widgets.choose(ask, [LOST, HALFWAY, STAYS])
guess_kind = widgets.predict("With one number, share of kinds named:", 0, 1)
display(guess_task, guess_kind)

# %%
widest = min(read.shape[1] for read in features.values())
widths = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= widest]
told = {
    (name, n): (probed(read, task, "linear", n)[1], *probed(read, hidden, width=n))
    for name, read in features.items()
    for n in widths
}

# %% [markdown]
# Now slide. How many features may you send until the probe fails? (Click the slider, then use the arrow keys.)


# %%
def narrow(architecture, features):
    scores = [told[architecture, n] for n in widths]
    at_task, _, at_kind = told[architecture, features]
    line = f"{features} features: the task {at_task.accuracy:.2f}, the attribute "
    line += f"{at_kind.accuracy:.2f} (majority guess {at_kind.majority:.2f})"
    curves = {
        "the task": (widths, [score[0].accuracy for score in scores]),
        "what nobody asked": (widths, [score[2].accuracy for score in scores]),
    }
    chart = plots.lines(
        curves, xlabel="features that the probe may see", ylabel="accuracy", log="x",
        xthresholds={"yours": features}, alt=f"{architecture}, {line}.",
        thresholds={"majority guess": at_kind.majority, "the right answer": ideal},
    )  # fmt: skip
    return widgets.Sentence(line), chart


start = {"architecture": "Swin", "features": widths[-1]}
widgets.explore(narrow, start, architecture=tuple(features), features=tuple(widths))

# %%
least, most = told["Swin", 1], told["Swin", widths[-1]]
share = (least[0].accuracy - least[0].majority) / (most[0].accuracy - least[0].majority)
stays = LOST if share < 0.25 else HALFWAY if share < 0.75 else STAYS
display(guess_task.against(stays))
guess_kind.against(least[2].accuracy)

# %% [markdown]
# You cut a representation that was trained at full width. The network can also be *trained* with a narrow layer before its last one. Such a layer is
# a **bottleneck**. Here it has a width of one. It lets everything through that goes along with the task, and nothing else has a place.

# %%
drawings.show("03.bottleneck")

# %%
doors = {"open": "probe", "one number": "bottleneck_1", ANSWER: "the_answer_alone"}
through = {f"{a}: {d}": KEY.format(names[a], doors[d]) for a in names for d in doors}
left = of_both("open", "task_acc[cifar10, {}]")
left |= of_both("one number", "task_acc[cifar10, {}, bottleneck_1]")
printed = in_print("task_acc", "open")
display(
    plots.evidence(kept, mine, through, xlabel="share of the kinds named rightly"),
    plots.evidence(kept, mine, left, xlabel="accuracy at the task", published=printed),
)

# %% [markdown]
# (The paper's task is gender, and its networks have no bottleneck.) Compare the bottleneck with the answer alone. A defence of the representation cannot go below
# that, unless it changes the answers. And a bottleneck cannot choose: an attribute that goes along with the task stays. Lab 13 has defences for gradients.

# %% [markdown]
# ## The answer

# %%
changes = f"{left['Swin: one number']} - {left['Swin: open']}"
text(
    "A representation that was trained for animal or vehicle lets a probe name the "
    "kind for {:.3f} of the photographs behind the Swin (from the answer {:.3f}, from "
    "the untrained network {:.3f}), and a mark for {:.3f} behind the ResNet, although "
    "the task has no use for it. With a bottleneck of one number the kind is named for "
    "{:.3f}, and the accuracy at the task changes by {:+.3f} ± {:.3f} ({} repeats).",
    *(means[k] for k in (TRAINED, ANSWER, UNTRAINED)),
    carried,
    shown.mean(through["Swin: one number"]),
    *(shown.mean(changes), shown.spread(changes), len(shown)),
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. probe ResNet-50 and 101, Swin-T and S (Zhang et al., Table 4), over 100 epochs and at equal overfitting. Our task and our attribute are
# others, and our networks are small. So the verdicts are about directions. The victims are trained with AdamW until
# they know nearly all of their images.

# %%
widgets.verdicts("03")

# %% [markdown]
# ## What would change our mind
#
# - Networks of the paper's size in which training adds more to the Swin than to the ResNet. Then our networks would be too small.
# - An attribute of people that the task does not need, such as glasses. A white square is easier to see than glasses.
# - A probe that reads far more from the same features. Every number here is a lower bound.
#
# ## Read on
#
# Song and Shmatikov 2020 call this *overlearning*, and show how censoring fails. Elazar and Goldberg 2018 show why a probe that the victim is trained to fool
# is not enough. Hewitt and Liang 2019 ask what a probe has to beat. Zhang et al. 2024, section 4.3, is the paper behind this lab.
