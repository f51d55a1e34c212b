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
# | class | 2 | 1.5 GB |

# %% [markdown]
# *You need* to know what a classifier, a loss and overfitting are. *Words that are new here*: **victim**, **member**, **attack accuracy**, **shadow model**, **keep matrix**, **overfitting level**, **ROC**,
# **true-positive rate**, **balanced accuracy**.

# %%
import statistics
import warnings
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from privlab import compute, data, experiments, ledger, models
from privlab.attacks import membership_inference
from privlab.experiments import membership, shadow_fleets
from privlab.metrics import roc
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # beside the three networks, another model of timm: "mobilenetv3_small_050"

# %%
device = compute.device(device)
names = {"ResNet": "resnet", "Swin": "swin", "ConvNeXt": "convnext"}

# %% [markdown]
# ## The game
#
# The **victim** is a model that somebody trained on some images, its **members**. The attacker gets an image and its label, asks the victim, and says
# "member" or "not". The **attack accuracy** is the share that he gets right. Half of the images that he is asked about are members, so a coin has one half.

# %% [markdown]
# The attacker has images of the same kind. He trains a model of his own on half of these, the **shadow model**. Of this one he
# knows every member, so he can see how a model answers for images that it knows. The paper cuts a set into four parts of one size which share no image:

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
# To get more victims out of the same training we deal the images out in another way, that of lab 02: models come in pairs, and of each pair the one is trained on a random half of the images, the
# other on the rest. Row m of the **keep matrix** is True where model m is trained on an image. Every model is a victim once; its shadow model is of another pair, so the shadow's row says nothing about the victim's.

# %%
print(data.in_out(8, 4, seed=0, pairs=True).int())

# %% [markdown]
# Four models of each architecture are trained with AdamW, a rate that falls along a cosine, until they know their images. This is the slow part. It is done once, on images that no committed number rests on; after that the models are read from disk.

# %%
mine = experiments.run("membership.architectures", profile, device=device)
kept = experiments.load("membership.architectures")
print(kept, mine, sep="\n")


# %% [markdown]
# Now everything is there that an attacker can ask for. `answers["Swin"].of(m)` gives, for model m and every image, the raw *logits* (the ten numbers before the softmax),
# the labels, and who is a member. Of the victim the attacker has the first two; the last is for the referee.

# %%
guest = (victim, models.sized(victim, 32)) if victim else None
asked = shadow_fleets.shown("membership.architectures", profile, [*names.values()], device, guest)
answers = dict(zip([*names, victim], asked.values(), strict=False))
logits, truth, members = answers["Swin"].of(0)
print(f"{len(answers['Swin'].keep)} models of each; model 0 knows {int(members.sum())} of {len(members)} images")

# %%
for architecture, said in answers.items():
    train, test = (each.mean().item() for each in said.accuracies())
    print(f"{architecture:>9}: {train:.3f} of its training images right, {test:.3f} of its test images")

# %% [markdown]
# The difference of the two is the **overfitting level**. Every attack here lives on it: a model that treats known and unknown images alike gives nothing away.

# %% [markdown]
# ## The simplest attack: look at the loss
#
# Training makes the loss of the members small. In the paper's Figure 12 the losses of members and others lie near 0 for the ResNet and near .5 for the
# Swin. Where do yours lie?


# %%
def loss_of(architecture):
    """Losses of model 0 on every image, and who is a member."""
    logits, truth, members = answers[architecture].of(0)
    return -membership_inference.signals.loss(logits, truth), members


for architecture in list(answers)[:2]:
    losses, members = loss_of(architecture)
    groups = {f"members of {architecture}": losses[members], f"non-members of {architecture}": losses[~members]}
    medians = " and ".join(f"{values.median():.2f}" for values in groups.values())
    display(plots.histogram(groups, xlabel="loss", alt=f"Loss of the {architecture}: the medians are {medians}."))

# %%
medians = {f"{a}, {kind.replace('_', '-')}": f"median_loss[cifar10, {names[a]}, {kind}]" for a in ("ResNet", "Swin") for kind in ("members", "non_members")}  # fmt: skip
plots.evidence(kept, mine, medians, xlabel="median loss")

# %% [markdown]
# Now be the attacker. Move the threshold: an image whose loss is below it is called a member. The **true-positive rate** (TPR) is the share of members that are found, the
# *false-positive rate* (FPR) the share of non-members accused. Can you find a place where you accuse almost nobody wrongly, and still find some members?

# %%
thresholds = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0]


def look(architecture, loss_below):
    losses, members = loss_of(architecture)
    called = losses < loss_below
    tp, fp = int((called & members).sum()), int((called & ~members).sum())
    fn, tn = int(members.sum()) - tp, int((~members).sum()) - fp
    said = f"{tp} of {tp + fn} members are found and {fp} of {fp + tn} non-members accused; balanced accuracy"
    said = f"{said} {(tp / (tp + fn) + tn / (fp + tn)) / 2:.3f}"
    alt = f"Threshold {loss_below} on the loss of the {architecture}: {said}."
    return widgets.Sentence(said), plots.confusion(tp, fn, fp, tn, alt=alt)


widgets.explore(look, start={"loss_below": 0.5}, architecture=tuple(answers), loss_below=tuple(thresholds))

# %% [markdown]
# You chose the threshold with the answer in sight. An attacker chooses it on his *shadow model*, where he knows the members, and
# carries it over. The **balanced accuracy** is the mean of two rates: members found, and non-members left alone.
#
# Other scores can be read off the same logits. In all of them *higher means member*:

# %%
for score in (membership_inference.signals.loss, membership_inference.signals.margin):
    print(getsource(score))


# %%
def by_threshold(architecture, score, m=0):
    """Accuracy of a score on model m, its threshold from the shadow model; and the oracle's."""
    said = answers[architecture]
    logits, truth, members = said.of(m)
    scores = score(logits, truth)
    return membership.by_threshold(said, m, score), roc.oracle_accuracy(scores, members)


print(getsource(membership.by_threshold))
table = {
    (architecture, name): by_threshold(architecture, score)
    for architecture in answers for name, score in membership_inference.signals.SCORES.items()
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
print(getsource(membership.by_class_thresholds))

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
said = answers["Swin"]
attack = membership_inference.network_based.network(*said.of(said.shadow(0)))
attack

# %% [markdown]
# ## An attack that sees labels only
#
# Suppose that the victim returns only the name of a class. Ask it five times: the image, and the image moved by one pixel to each side. A model
# is right about a member even when it is moved; about others it wavers (Choquette-Choo et al. 2021).

# %%
print(getsource(membership_inference.network_based.augmentation_gap).split('"""')[-1])

# %% [markdown]
# ## All of them, on all victims

# %%
kinds = {
    "network": "network", "network, sorted": "network_sorted", "loss threshold": "loss_threshold", "class thresholds": "class_thresholds",
    "right or wrong": "right_or_wrong", "labels, five pictures": "labels_five_pictures",
}  # fmt: skip
rows = {f"{a}: {label}": f"attack_acc[cifar10, {names[a]}, {kind}]" for a in ("ResNet", "Swin") for label, kind in kinds.items()}  # fmt: skip
printed = {"ResNet: network": 0.6385, "Swin: network": 0.6904}
plots.evidence(kept, mine, rows, xlabel="attack accuracy (0.5 is a coin)", published=printed)

# %%
guess.against(mine.mean(rows["Swin: network"]) - mine.mean(rows["ResNet: network"]))

# %%
if victim:
    print(f"{victim}: accuracy of the network {membership.accuracy(membership.by_network, answers[victim]):.3f}")

# %% [markdown]
# A threshold on one number is about as good as the network, which has that number and more: from one shadow model it learns little else. And five pictures do no better than one,
# because these models were never shown moved images, so they waver on members too.
#
# The paper compares two models of one size on the same data (Table 2), and a ConvNeXt beside them (Table 7). In each repeat ours share the images as well.

# %%
rows = {a: f"attack_acc[cifar10, {names[a]}, network]" for a in names}
plots.evidence(kept, mine, rows, xlabel="accuracy of the network", published={"ResNet": 0.6385, "Swin": 0.6904, "ConvNeXt": 0.7471})  # fmt: skip

# %% [markdown]
# ## Along the training
#
# Is the Swin easier to attack at the end only, or at every epoch (Figure 1)? The models' answers were kept on the way.


# %%
def along(metric, kind="", of=("ResNet", "Swin")):
    """For a chart: architecture -> {epoch: name of what is measured there}."""
    epochs = [e for e in range(1, 301) if f"task_acc[cifar10, swin, epoch_{e}]" in mine.table]
    return {a: {e: f"{metric}[cifar10, {names[a]}{kind}, epoch_{e}]" for e in epochs} for a in of}


display(
    plots.evidence_lines(mine, None, along("task_acc"), xlabel="epoch", ylabel="accuracy on the task"),
    plots.evidence_lines(mine, None, along("attack_acc", ", network", [*names]), xlabel="epoch", ylabel="accuracy of the network"),
)  # fmt: skip

# %%
ahead = "share_of_epochs_ahead[cifar10, swin_less_resnet]"
plots.evidence(kept, mine, {"Swin ahead of the ResNet": ahead}, xlabel="share of the epochs looked at")

# %% [markdown]
# ## At the same overfitting
#
# After the same number of epochs one architecture knows its training images far better than the other, so epochs are no
# fair measure. Put the overfitting level on the axis instead (Figure 4a). If the architecture matters beyond it, the lines lie apart.

# %% [markdown]
# ### Before you look: predict
#
# How far apart are Swin and ResNet, by an attack that does not read the level itself?

# %%
matched_guess = widgets.predict("AUC, Swin less ResNet, at the same overfitting:", low=-0.1, high=0.1)
matched_guess

# %%
levels, attacked = along("train_test_gap", of=[*names]), along("attack_acc", ", network", [*names])
curves = {a: ([mine.mean(n) for n in levels[a].values()], [mine.mean(n) for n in attacked[a].values()]) for a in names}
plots.lines(
    {a: tuple(np.array(sorted(zip(*curve, strict=True))).T) for a, curve in curves.items()},
    xlabel="overfitting level (train less test accuracy)", ylabel="accuracy of the network",
    alt="Accuracy of the network against overfitting level, a line for each architecture, a point for each epoch looked at.",
)  # fmt: skip

# %% [markdown]
# Mind what the network reads: one of its inputs is whether the answer is right, and from this bit alone follows an accuracy of 1/2 + level/2 (exercise 3), so its curves have to lie on one line. A question about the
# architecture needs an attack that is not handed the level. The *likelihood ratio* of lab 02 is one: it asks whether an image is easier for the victim than for models that never saw it. Here is its *AUC*, the chance that a member scores above a non-member, and the share of members
# that it finds at 1% false alarms, both averaged over the overfitting levels that all three went through.

# %%
at_level = {a: f"auc_at_matched_gap[cifar10, {names[a]}, likelihood_ratio]" for a in names}
tail = {a: f"tpr_at_fpr_0p01_at_matched_gap[cifar10, {names[a]}, likelihood_ratio]" for a in names}
display(
    plots.evidence(kept, mine, at_level, xlabel="AUC at the same overfitting"),
    plots.evidence(kept, mine, tail, xlabel="members found at 1% false alarms, in percent, at the same overfitting"),
)
matched_guess.against(round(mine.mean(at_level["Swin"]) - mine.mean(at_level["ResNet"]), 4))

# %% [markdown]
# How much of the leak does the overfitting level explain by itself? The rank correlation over all epochs and architectures says it in one number.

# %%
ranks = {"the network's accuracy": "rank_correlation[cifar10, overfitting_attack_acc]", "AUC of the likelihood ratio": "rank_correlation[cifar10, overfitting_auc]"}  # fmt: skip
plots.evidence(kept, mine, ranks, xlabel="rank correlation with the overfitting level")

# %% [markdown]
# ## Is a mean accuracy what an attacker wants?
#
# An attack that is right about everybody six times in ten harms nobody in particular. One that finds a handful of people and is *never* wrong about them does. The
# **ROC** shows both: the true-positive rate at each false-positive rate. On logarithmic axes its left end can be seen.


# %%
def scores_of(said):
    """Of each model: minus the loss of every image, and who is a member."""
    each = [said.of(m) for m in range(said.models)]
    return [(membership_inference.signals.loss(logits, truth), members) for logits, truth, members in each]


warnings.filterwarnings("ignore", "fpr=")  # that few non-members make it rough; the interval says so
rates = {a: [roc.tpr_at(*each, fpr=0.01) for each in scores_of(said)] for a, said in answers.items()}
for a, several in rates.items():
    print(f"{a:>9}: {several[0]}")

# %%
plots.roc(
    {a: [roc.curve(*each) for each in scores_of(said)] for a, said in answers.items()}, mark=(0.01,),
    alt="ROC of the loss threshold on logarithmic axes; at 1% false positives it finds "
    + ", ".join(f"{statistics.mean(r.value for r in several):.1%} of the members of {a}" for a, several in rates.items()),
)  # fmt: skip

# %% [markdown]
# A threshold on the loss accuses whoever is easy, member or not. Lab 02 asks instead whether an image is *easier than it should be*, and that
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
# Zhang et al. attack ResNet-50 and 101, Swin-T and S (Table 2, Figures 1, 4a and 12) and ConvNeXt-T (Table 7), 300 epochs each. Small members
# of the same families stand in for them: a verdict on them is about the direction.

# %%
ledger.show("01")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and epochs.** At `class` the models are small, of about equal size, and know a few hundred images each; at `night` larger ones are trained on 5,000. All are trained
#   until they get more than 0.99 of their training images right, as the paper's victims do (section 4.1), without its mixup and cutmix, which would take its 300 epochs.
# - **Halves, not quarters.** The paper's shadow model shares no image with the victim. Ours knows some of the victim's images; which ones says nothing about who is a member of the victim.
# - **A repeat is a draw of images** with models of its own. Its number is the mean over its four victims of an architecture.
# - **The attack network.** The paper says "three-layer *MLP*", linear layers with a bend in between. Ours has 64 and 32 hidden units; wider ones did no better.
# - **Balanced accuracy.** The paper says "attack accuracy". With as many members as non-members the two are the same.
# - **CIFAR-100** stands in no package registry; whoever measures it fetches it from its own site.

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
