# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 01 · Membership inference: was this image in the training set?
#
# A model is asked about an image and answers with ten numbers. From these alone, can you tell whether the model was trained on the image? For a photograph of a cat the answer is worth little. For a scan, in a model trained on one clinic's patients, it is a diagnosis.
#
# You carry out the attack of Zhang et al. 2024 (section 3.1.1): train a model of your own that imitates the victim, let a small network learn how
# it treats images that it knows, and ask that network about the victim. Simpler attacks stand beside it.
#
# After it you can
# - say what a *shadow model* is for, and set up the four-way split without letting an answer slip in;
# - attack by a threshold, by a threshold for each class, by a network, and by labels alone;
# - read accuracy, ROC and the rate at few false alarms, and say which of them an attacker would care about;
# - hold two architectures against each other at the same *overfitting*.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.7 | 1.4 GB |
# | class | 10 | 2.7 GB |
# | gpu | 10 | 8 GB |
# | paper | 1000 | 12 GB |
#
# (Measured on two CPU cores, a second process included; the last two rows are estimates. The `gpu` row is one part: the trainings stop when its time is over, and
# the next run goes on from there.)

# %% [markdown]
# *You need* to know what a classifier, a loss and overfitting are. *Words that are new here*: **victim**, **member**, **attack accuracy**, **shadow model**, **keep matrix**, **overfitting level**, **ROC**,
# **true-positive rate**, **balanced accuracy**.

# %%
import itertools
import statistics
import time
import warnings
from functools import cache
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from scipy.stats import spearmanr

from privlab import data, ledger, models, training
from privlab.attacks import membership_inference
from privlab.metrics import roc
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"
victim = ""  # beside the profile's networks, another model of timm: "mobilenetv3_small_050"
part_minutes = 6  # at gpu: how long the trainings of one part may take

# %%
page = ledger.Page("01", profile=profile, seed=seed, device=device)
small = {
    "ResNet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "Swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
    "ConvNeXt": ("convnext_cifar", dict(dims=(24, 48, 96, 96))),
}
two = {name: small[name] for name in ("ResNet", "Swin")}
full = {"ResNet": ("resnet50_cifar", {}), "Swin": ("swin_tiny_cifar", {}), "ConvNeXt": ("convnext_tiny_cifar", {})}
larger = {"ResNet-101": ("resnet101_cifar", {}), "Swin-S": ("swin_small_cifar", {})}
# families, image sets, images of each, splits, recipe, epochs between two looks
family, sets, size, repeats, recipe, every = {
    "smoke": (two, ["cifar10"], 1_200, 1, "membership_smoke", 2),
    "class": (small, ["cifar10"], 8_000, 3, "membership_laptop", 6),
    "gpu": (full, ["cifar10"], 50_000, 1, "zhang2024_membership", 50),
    "paper": (full | larger, ["cifar10", "cifar100"], 50_000, 3, "zhang2024_membership", 50),
}[profile]
if victim:  # recorded under its own name: no claim is about it
    family = family | {victim: (victim, models.sized(victim, 32))}
key = {name: ledger.key(name) for name in family}
recipe = training.RECIPES[recipe]
deadline = time.monotonic() + 60 * part_minutes if profile == "gpu" else None

# %% [markdown]
# ## The game
#
# The **victim** is a model that somebody trained on some images, its **members**. The attacker gets an image and its label, asks the victim, and says
# "member" or "not". The **attack accuracy** is the share that he gets right. Half of the images that he is asked about are members, so a coin has one half.

# %% [markdown]
# The attacker has images of the same kind, which the victim never saw. He trains a model of his own on half of these, the **shadow model**. Of this one he
# knows every member, so he can see how a model answers for images that it knows. That takes four sets of one size which share no image:

# %%
print(getsource(data.four_way))

# %% [markdown]
# ### Before you go on: predict
#
# A small *ResNet*, convolutions whose blocks add to what came in, and a small *Swin*, a Transformer that looks through windows, are trained on the same images with the same recipe. What is the attack accuracy on the
# Swin, *less* that on the ResNet?

# %%
guess = widgets.predict("attack accuracy on the Swin less that on the ResNet:", low=-0.3, high=0.3)
guess

# %% [markdown]
# ## Victims and shadow models
#
# In each split victim and shadow model are trained alike, so each can play either part: we attack the one by the other, then the other by the one.
# Row 2k of the **keep matrix** is the victim of split k, row 2k + 1 its shadow model; True where a model is trained on an image.


# %%
def images_of(name):
    """The first `size` training images of a set, as a pair of pixels and labels."""
    return training.batches.subset(data.load(name), range(size))


labels = {name: images_of(name)[1] for name in sets}
parts = {name: [data.four_way(labels[name], seed=seed + k) for k in range(repeats)] for name in sets}


def keep_matrix(name):
    keep = torch.zeros(2 * repeats, size, dtype=torch.bool)
    for k, part in enumerate(parts[name]):
        keep[2 * k, part.victim_train] = True
        keep[2 * k + 1, part.shadow_train] = True
    return keep


# %% [markdown]
# The recipe is the paper's (Table 1), for small models with fewer epochs, smaller batches and a higher rate: AdamW, a rate that falls along a cosine, and, from `laptop` on, *mixup*
# and *cutmix*, which train on blends of two images. This is the slow part. It is done once; after that the models are read from disk.

# %%
print(recipe)
fleets = {}
for name, (architecture, (zoo_name, changes)) in itertools.product(sets, family.items()):
    fleets[name, architecture] = training.shadow_models.make(
        zoo_name, recipe, images_of(name), keep_matrix(name), model={**changes, "num_classes": len(data.load(name).classes)},
        normalise=data.NORMALISE[name], at=range(every, recipe.epochs, every), seed=seed, device=page.device,
    )  # fmt: skip
    fleets[name, architecture].train(budget=deadline and max(deadline - time.monotonic(), 0))

# %%
if unfinished := [fleet for fleet in fleets.values() if not all(run.complete for run in fleet.runs)]:
    raise TimeoutError(f"this part's time is over; run the lab again, and it goes on from here: {unfinished}")
for (name, architecture), fleet in fleets.items():
    parameters = sum(p.numel() for p in fleet.model(0).parameters())
    print(f"{name}, {architecture}: {parameters / 1e6:.2f} M parameters, {len(fleet.keep)} models")


# %% [markdown]
# Now everything is there that an attacker can ask for. `answers` gives, for model m's training images and as many others, the raw *logits* (the ten numbers before the softmax),
# the labels, and who is a member. Of the victim the attacker has the first two; the last is for the referee.


# %%
@cache
def answers(name, architecture, m, at=None):
    """Logits (n, classes), labels (n,) and membership (n,) of model m, after epoch `at`."""
    part = parts[name][m // 2]
    mine = part[:2] if m % 2 == 0 else part[2:]  # train and test images of the victim, or of the shadow model
    places = torch.cat(mine)
    fleet = fleets[name, architecture]
    return fleet.logits(m, at)[0][places], labels[name][places], fleet.keep[m][places]


def accuracies(name, architecture, m, at=None):
    """A model's accuracy on its training images and on its test images."""
    logits, truth, members = answers(name, architecture, m, at)
    right = (logits.argmax(1) == truth).double()
    return right[members].mean().item(), right[~members].mean().item()


main = sets[0]
victims = range(2 * repeats)
for architecture in family:
    train, test = np.array([accuracies(main, architecture, m) for m in victims]).T
    print(f"{architecture:>9}: {train.mean():.3f} of its training images right, {test.mean():.3f} of its test images")
    page.record("task_acc", [main, key[architecture]], test, mode="eval", victim=f"trained {recipe.epochs} epochs")

# %% [markdown]
# The difference of the two is the **overfitting level**. Every attack here lives on it: a model that treats known and unknown images alike gives nothing away.

# %% [markdown]
# ## The simplest attack: look at the loss
#
# Training makes the loss of the members small. In the paper's Figure 12 the losses of members and others lie near 0 for the ResNet and near .5 for the
# Swin. Where do yours lie?

# %%
histograms = []
for architecture in list(family)[:2]:
    logits, truth, members = answers(main, architecture, 0)
    losses = -membership_inference.signals.loss(logits, truth)
    histograms.append(
        plots.histogram(
            {f"members of {architecture}": losses[members], f"non-members of {architecture}": losses[~members]},
            xlabel="loss", alt=f"Loss of the {architecture} on members and non-members: the medians are "
            f"{losses[members].median():.2f} and {losses[~members].median():.2f}.",
        )
    )  # fmt: skip
display(*histograms)


# %%
def median_losses(name, architecture, m):
    """Of model m's members, and of the others."""
    logits, truth, members = answers(name, architecture, m)
    losses = -membership_inference.signals.loss(logits, truth)
    return torch.stack([losses[members].median(), losses[~members].median()])


gap = torch.stack([median_losses(main, "Swin", m) - median_losses(main, "ResNet", m) for m in victims])
for k, kind in enumerate(("members", "non_members")):
    page.record(
        "median_loss_difference",
        [main, "swin_less_resnet", kind],
        gap[:, k],
        mode="eval",
        victim=f"trained {recipe.epochs} epochs",
    )

# %% [markdown]
# Now be the attacker. Move the threshold: an image whose loss is below it is called a member. The **true-positive rate** (TPR) is the share of members that are found, the
# *false-positive rate* (FPR) the share of non-members accused. Can you find a place where you accuse almost nobody wrongly, and still find some members?

# %%
thresholds = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0]


def look(architecture, loss_below):
    logits, truth, members = answers(main, architecture, 0)
    losses = -membership_inference.signals.loss(logits, truth)
    called = losses < loss_below
    tp, fp = int((called & members).sum()), int((called & ~members).sum())
    fn, tn = int(members.sum()) - tp, int((~members).sum()) - fp
    said = f"{tp} of {tp + fn} members are found and {fp} of {fp + tn} non-members accused; balanced accuracy"
    said = f"{said} {(tp / (tp + fn) + tn / (fp + tn)) / 2:.3f}"
    alt = f"Threshold {loss_below} on the loss of the {architecture}: {said}."
    return widgets.Sentence(said), plots.confusion(tp, fn, fp, tn, alt=alt)


widgets.explore(look, start={"loss_below": 0.5}, architecture=tuple(family), loss_below=tuple(thresholds))

# %% [markdown]
# You chose the threshold with the answer in sight. An attacker chooses it on his *shadow model*, where he knows the members, and
# carries it over. The **balanced accuracy** is the mean of two rates: members found, and non-members left alone.
#
# Other scores can be read off the same logits. In all of them *higher means member*:

# %%
for score in (membership_inference.signals.loss, membership_inference.signals.margin):
    print(getsource(score))


# %%
def by_threshold(name, architecture, m, score, at=None):
    """Accuracy of a score on model m, its threshold from the other model of the split; and the oracle's."""
    said, truth, known = answers(name, architecture, m ^ 1, at)  # m ^ 1: the partner; 0 and 1, 2 and 3, ...
    threshold = roc.best_threshold(score(said, truth), known)
    said, truth, members = answers(name, architecture, m, at)
    scores = score(said, truth)
    return roc.accuracy(scores, members, threshold), roc.oracle_accuracy(scores, members)


table = {
    (architecture, name): np.mean([by_threshold(main, architecture, m, score) for m in victims], axis=0)
    for architecture in family for name, score in membership_inference.signals.SCORES.items()
}  # fmt: skip
pd.DataFrame(table, index=["threshold of the shadow model", "oracle's threshold"]).T.round(3)

# %% [markdown]
# The *oracle* takes the best threshold for the victim itself. That needs the answer; papers that report it report a little too much. `loss`, `confidence` and `margin` order the images alike here. In lab 02 that will change.

# %% [markdown]
# ## A threshold for each class
#
# Cats are harder than ships: a member cat may have a higher loss than a ship that was never seen. So Song & Mittal (2021) take one threshold for each class,
# again from the shadow model.


# %%
def with_class_thresholds(name, architecture, m, score=membership_inference.signals.modified_entropy, at=None):
    said, truth, known = answers(name, architecture, m ^ 1, at)
    thresholds = membership_inference.network_based.class_thresholds(score(said, truth), truth, known)
    said, truth, members = answers(name, architecture, m, at)
    return roc.accuracy(
        membership_inference.network_based.by_class(score(said, truth), truth, thresholds), members, 0.0
    )


# %% [markdown]
# ## The network-based attack
#
# This is the paper's. It is fed the *confidences*, the probabilities that the model gives to the classes, and one bit, whether the answer is right: eleven numbers for CIFAR-10. A network of three
# layers learns on the shadow model's answers who is a member.

# %%
print(
    getsource(membership_inference.network_based.network).split('"""')[0],
    "...",
    getsource(membership_inference.network_based.inputs),
    sep="\n",
)
said, truth, known = answers(main, "Swin", 1)
attack = membership_inference.network_based.network(said, truth, known, seed=seed)
attack


# %%
@cache
def by_network(name, architecture, m, at=None, sort=False):
    attack = membership_inference.network_based.network(*answers(name, architecture, m ^ 1, at), sort=sort, seed=seed)
    said, truth, members = answers(name, architecture, m, at)
    return roc.accuracy(attack(said, truth), members, 0.5)


# %% [markdown]
# ## An attack that sees labels only
#
# Suppose that the victim returns only the name of a class. Ask it five times: the image, and the image moved by one pixel to each side. A model
# is right about a member even when it is moved; about others it wavers (Choquette-Choo et al. 2021).

# %%
asked = training.queries.shifts(1)
some = min(size // 4, 500)  # of members and of non-members: five questions each take a while


def by_labels(name, architecture, m, pixels):
    """Accuracy on `some` members and as many others; the threshold is the one that is best for the shadow model."""
    found = []
    for model in (m ^ 1, m):
        part = parts[name][m // 2]
        mine = part[:2] if model % 2 == 0 else part[2:]
        places = torch.cat([place[:some] for place in mine])
        built = fleets[name, architecture].model(model).to(page.device)
        said = torch.stack([training.logits(built, x).cpu() for x in training.queries.apply(pixels[places], asked)])
        scores = membership_inference.network_based.augmentation_gap(said, labels[name][places])
        found.append((scores, fleets[name, architecture].keep[model][places]))
    return roc.accuracy(*found[1], roc.best_threshold(*found[0]))


# %% [markdown]
# ## All of them, on all victims

# %%
pixels = images_of(main)[0]
attacks = {
    "network": by_network,
    "network, sorted": lambda *victim: by_network(*victim, sort=True),
    "loss threshold": lambda *victim: by_threshold(*victim, membership_inference.signals.loss)[0],
    "class thresholds": with_class_thresholds,
    "right or wrong": lambda *victim: by_threshold(*victim, membership_inference.signals.correct)[0],
    "labels, five pictures": lambda *victim: by_labels(*victim, pixels),
}
found = {
    (architecture, kind): [attack(main, architecture, m) for m in victims]
    for architecture in family for kind, attack in attacks.items()
}  # fmt: skip
print(f"balanced accuracy over {len(victims)} victims each; .5 is a coin")
pd.DataFrame({k: [roc.over_targets(v, seed=seed)] for k, v in found.items()}, index=["mean"]).T.unstack()

# %%
plots.dots(
    {f"{architecture}: {kind}": values for (architecture, kind), values in found.items() if architecture != "ConvNeXt"},
    xlabel="attack accuracy (balanced; .5 is a coin)",
    alt="Attack accuracy of each attack on each architecture, one dot a victim: "
    + ", ".join(f"{a}, {k} {statistics.mean(v):.3f}" for (a, k), v in found.items() if a != "ConvNeXt"),
)

# %%
guess.against(statistics.mean(found["Swin", "network"]) - statistics.mean(found["ResNet", "network"]))

# %% [markdown]
# A threshold on one number is about as good as the network, which has that number and more: from one shadow model it learns little else. And five pictures do no better than one,
# because these models were never shown moved images, so they waver on members too.
#
# With so few victims the intervals are too narrow; take them as the least that the spread can be.

# %%
about = dict(
    mode="eval", victim=f"trained {recipe.epochs} epochs", note="; ".join(f"{k}: {v[0]}" for k, v in family.items())
)
for (architecture, kind), values in found.items():
    page.record("attack_acc", [main, key[architecture], kind.replace(",", "").replace(" ", "_")], values, **about)

for architecture in family:
    gain = [a - b for a, b in zip(found[architecture, "network"], found[architecture, "loss threshold"], strict=True)]
    page.record("attack_acc_difference", [main, key[architecture], "network_less_threshold"], gain, **about)

# %% [markdown]
# The paper compares two models of one size on the same data (Table 2). Ours share the split as well, so we compare victim by victim:

# %%
for name, (one, other) in itertools.product(
    sets, [("Swin", "ResNet"), ("ConvNeXt", "ResNet"), ("Swin-S", "ResNet-101")]
):
    if one in family:
        gap = [by_network(name, one, m) - by_network(name, other, m) for m in victims]
        keys = [name, f"{key[one]}_less_{key[other]}"]
        page.record("attack_acc_difference", keys, gap, **about)
        print(f"{name}: {one} less {other}: {roc.over_targets(gap, seed=seed)}")

if len(sets) == 2:
    for architecture in family:
        gap = [by_network("cifar100", architecture, m) - by_network("cifar10", architecture, m) for m in victims]
        page.record("attack_acc_difference", ["cifar100_less_cifar10", key[architecture]], gap, **about)

# %% [markdown]
# ## Along the training
#
# Is the Swin easier to attack at the end only, or at every epoch (Figure 1)? The models' answers were kept on the way.

# %%
epochs = fleets[main, "Swin"].at
network = {a: [[by_network(main, a, m, at) for at in epochs] for m in victims] for a in family}  # [victim][epoch]
levels = {a: [[accuracies(main, a, m, at) for at in epochs] for m in victims] for a in family}  # (train, test)
network, levels = ({a: np.array(v) for a, v in of.items()} for of in (network, levels))
overfitting = {a: v[..., 0] - v[..., 1] for a, v in levels.items()}  # (victims, epochs)

# %%
display(
    plots.lines(
        {f"{a}: {what}": (epochs, levels[a][..., k].mean(0)) for a in list(family)[:2] for k, what in enumerate(("train", "test"))},
        xlabel="epoch", ylabel="accuracy on the task",
        alt="Task accuracy by epoch: " + "; ".join(f"{a} ends at {v[:, -1].mean(0).round(2)} (train, test)" for a, v in levels.items()),
    ),
    plots.lines(
        {a: (epochs, v.mean(0), *([v.std(0, ddof=1)] if len(v) > 1 else [])) for a, v in network.items()},
        xlabel="epoch", ylabel="accuracy of the network-based attack",
        alt="Attack accuracy by epoch (band: one standard deviation over victims): "
        + "; ".join(f"{a} from {v[:, 0].mean():.3f} to {v[:, -1].mean():.3f}" for a, v in network.items()),
    ),
)  # fmt: skip

# %%
lead = network["Swin"] - network["ResNet"]  # (victims, epochs)
ahead = (lead > 0).mean(1)  # the share of the epochs, a victim each
page.record("share_of_epochs_ahead", [main, "swin_less_resnet"], ahead, **about)
print(f"share of the epochs at which the Swin is easier to attack: {roc.over_targets(ahead, seed=seed)}")

# %% [markdown]
# ## At the same overfitting
#
# After the same number of epochs one architecture knows its training images far better than the other, so epochs are no
# fair measure. Put the overfitting level on the axis instead (Figure 4a). If the architecture matters beyond it, the lines lie apart.

# %% [markdown]
# ### Before you look: predict
#
# How far apart?

# %%
matched_guess = widgets.predict("attack accuracy, Swin less ResNet, at the same overfitting:", low=-0.1, high=0.1)
matched_guess

# %%
plots.lines(
    {a: (overfitting[a].mean(0)[o], network[a].mean(0)[o]) for a in family for o in [overfitting[a].mean(0).argsort()]},
    xlabel="overfitting level (train less test accuracy)",
    ylabel="accuracy of the network-based attack",
    alt="Attack accuracy against overfitting level, a line for each architecture, a point for each epoch looked at: "
    + "; ".join(f"{a} reaches {network[a].mean(0).max():.3f} at {overfitting[a].mean(0).max():.2f}" for a in family),
)


# %%
def at_matched_gap(one, other, victim):
    """How much easier `one` is to attack than `other`, averaged over the overfitting levels that both went through."""
    curves = []
    for a in (one, other):
        order = overfitting[a][victim].argsort()
        curves.append((overfitting[a][victim][order], network[a][victim][order]))
    low, high = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if low >= high:  # at no level both
        return None
    grid = np.linspace(low, high, 50)
    return float(np.mean(np.interp(grid, *curves[0]) - np.interp(grid, *curves[1])))


matched = {a: [at_matched_gap(a, "ResNet", k) for k in victims] for a in family if a in ("Swin", "ConvNeXt")}
for architecture, pairs in matched.items():
    values = [value for value in pairs if value is not None]
    if not values:
        print(f"{architecture} and ResNet were never at the same level")
        continue
    page.record("attack_acc_at_matched_gap", [main, f"{key[architecture]}_less_resnet"], values, **about)
    print(
        f"{architecture} less ResNet at the same overfitting, in {len(values)} of {len(pairs)} pairs: {statistics.mean(values):.4f}"
    )
    if architecture == "Swin":
        display(matched_guess.against(round(statistics.mean(values), 5)))

# %% [markdown]
# How much of the leak does the overfitting level explain by itself? The rank correlation over all epochs and architectures says it in one number.

# %%
ours = [a for a in family if a != victim]
ranks = [
    spearmanr(np.concatenate([overfitting[a][k] for a in ours]), np.concatenate([network[a][k] for a in ours])).statistic
    for k in victims
]  # fmt: skip
page.record("rank_correlation", [main, "overfitting_attack_acc"], ranks, **about)
print(f"rank correlation of overfitting level and attack accuracy: {[round(float(r), 3) for r in ranks]}")

# %% [markdown]
# ## Is a mean accuracy what an attacker wants?
#
# An attack that is right about everybody six times in ten harms nobody in particular. One that finds a handful of people and is *never* wrong about them does. The
# **ROC** shows both: the true-positive rate at each false-positive rate. On logarithmic axes its left end can be seen.

# %%
scores_of = {
    a: [(membership_inference.signals.loss(*answers(main, a, m)[:2]), answers(main, a, m)[2]) for m in victims]
    for a in family
}
rates = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that few non-members make it rough; the interval says so
    for a, several in scores_of.items():
        rates[a] = [roc.tpr_at(scores, members, fpr=0.01) for scores, members in several]
        print(f"{a:>9}: {rates[a][0]}")
plots.roc(
    {a: [roc.curve(*each) for each in several] for a, several in scores_of.items()},
    mark=(0.01,),
    alt="ROC of the loss threshold on logarithmic axes; at 1% false positives it finds "
    + ", ".join(f"{statistics.mean(r.value for r in rates[a]):.1%} of the members of {a}" for a in family),
)

# %% [markdown]
# At 1% the threshold on the loss finds a few per cent of the members: it accuses whoever is easy, member or not. Lab 02 asks instead whether an image is *easier than it should be*, and that
# changes this end of the curve.

# %% [markdown]
# ## Exercise 1: sure and wrong
#
# The entropy of a prediction is low when the model is sure, even if it is *wrong* and does not know the image. Song & Mittal's *modified entropy* mends that. With $p$ the probabilities and $y$ the true class:
#
# $$M(p, y) = -(1 - p_y) \log p_y \;-\; \sum_{i \neq y} p_i \log (1 - p_i)$$

# %% [markdown]
# Write `modified_entropy(p, y)` for one image: `p` a tensor of probabilities (classes,), `y` the class, a whole number. It is 0 for "sure and right", large for "sure and wrong";
# members have a low one.
#
# <details><summary>Hint</summary>Two terms, one for the true class and one for all others, with y left out. Mind which logarithm goes with which probability.</details>


# %% tags=["exercise"]
def modified_entropy(p, y): ...


# %% tags=["solution"]
def modified_entropy(p, y):
    others = torch.arange(len(p)) != y
    return -(1 - p[y]) * p[y].log() - (p[others] * (1 - p[others]).log()).sum()


# %%
checks.verify("01.modified_entropy", modified_entropy)

# %% [markdown]
# ## Exercise 2: whose threshold?
#
# Write `attack_accuracy(victim_scores, victim_members, shadow_scores, shadow_members)`: the balanced accuracy, on the victim, of an attacker who cuts
# where it is best *as far as he can know*. A score at the threshold or above it means "member".
#
# <details><summary>Hint</summary>Which two of the four arguments may the threshold depend on? `roc.best_threshold` and `roc.accuracy` are all you need.</details>


# %% tags=["exercise"]
def attack_accuracy(victim_scores, victim_members, shadow_scores, shadow_members): ...


# %% tags=["solution"]
def attack_accuracy(victim_scores, victim_members, shadow_scores, shadow_members):
    return roc.accuracy(victim_scores, victim_members, roc.best_threshold(shadow_scores, shadow_members))


# %%
checks.verify("01.whose_threshold", attack_accuracy)

# %% [markdown]
# ## Exercise 3: what does right or wrong tell?
#
# A model gets 95% of its training images right and 75% of its test images. The attacker says "member" if the model is right, and is
# asked about as many members as non-members. What is his accuracy?
#
# <details><summary>Hint</summary>How often is he right about a member? How often about a non-member? Take the mean.</details>

# %% tags=["exercise"]
accuracy_of_right_or_wrong = ...

# %% tags=["solution"]
accuracy_of_right_or_wrong = (0.95 + (1 - 0.75)) / 2  # = 1/2 + overfitting level / 2

# %%
checks.verify("01.gap_attack", accuracy_of_right_or_wrong)

# %% [markdown]
# So from the overfitting level alone follows an attack of accuracy 1/2 + level/2, for *any* architecture. What an architecture gives away beyond
# that is what the paper's claim is about.

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. attack ResNet-50 and 101, Swin-T and S (Table 2, Figures 1, 4a and 12) and ConvNeXt-T (Table 7), 300 epochs each. Where this profile uses small members
# of the same families, the verdict is about the direction.

# %%
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and epochs.** At `smoke` and `laptop` the models are small, and of about equal size, since a larger model overfits sooner. `gpu` (one split, no larger pair) and `paper` train
#   the paper's models for its 300 epochs.
# - **Not trained to the end.** The paper's victims get more than .99 of their training images right (section 4.1). After 30 epochs at `laptop` our small Swin gets two thirds right
#   and the ResNet nine tenths: there a verdict on equal epochs speaks of unfinished training, and only the one at equal overfitting of the architecture.
# - **Both ways.** Each model is victim once and shadow model once: twice the victims for the same training, though not quite independent ones.
# - **The attack network.** The paper says "three-layer *MLP*", linear layers with a bend in between. Ours has 64 and 32 hidden units; wider ones did no better.
# - **Balanced accuracy.** The paper says "attack accuracy". With as many members as non-members the two are the same.
# - **CIFAR-100** stands in no package registry; `paper` fetches it from its own site.

# %% [markdown]
# ## Summary
#
# - *Membership inference* asks whether a model treats an image as one that it knows. A simple attack needs a model that overfits.
# - The attacker's threshold comes from his shadow model; the victim's own best one is an oracle's.
# - A network on all confidences is hardly better than a threshold on one number.
# - Compare architectures at the same overfitting level; equal epochs flatter whoever learns more slowly.
# - Mean accuracy says little about the few whom an attack is sure of: look at the left end of the ROC.

# %% [markdown]
# ## Where to read on
#
# Lab 02 does it with many shadow models. Lab 03 asks what a representation knows. Shokri et al. 2017 is the first paper on shadow models, Song &
# Mittal 2021 the one on metrics, Zhang et al. 2024, section 4.2, the one behind the question.
