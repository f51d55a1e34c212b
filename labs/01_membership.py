# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 01 · Can a model be asked whether it saw a picture?
#
# A clinic trains a network on scans of its patients, and lets others query it. If somebody can tell that *your* scan was in the training set, they know
# that you were a patient there.
#
# After this lab you can
# - set up the paper's attack: the four-way split, and what the attacking network reads;
# - attack a model with a threshold and with a network, and choose both as an attacker has to;
# - say what overfitting has to do with it;
# - say what a mean accuracy hides about such an attack.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 2.2 | 1.3 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 75 minutes. You need* lab 00, and to know what a classifier and a loss are. *New words*: **victim**, **member**, **attack accuracy**,
# **shadow model**, **overfitting level**, **true-positive rate**, **balanced accuracy**, **ROC**.

# %%
from privlab import compute, data, experiments, models
from privlab.attacks import membership_inference
from privlab.course.lab_01 import experiments as membership
from privlab.course.lab_01 import member_game
from privlab.experiments.victims import shadow_fleets
from privlab.metrics import roc
from privlab.notebook import checks, drawings, plots, text, widgets

import numpy as np
import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # one more model to attack, by its timm name: "mobilenetv3_small_050"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "membership.architectures"
kept = experiments.load(NAME)  # what was measured and committed
# Now your machine trains four Swins; the first is our victim. Read on.
said = shadow_fleets.shown(NAME, profile, ["swin"], device)["swin"]

# %% [markdown]
# ## One question
#
# The **victim** is a model that somebody trained. A picture of its training set is a **member**; all others are *non-members*. The attacker has a picture
# and its class. They show it to the victim, and get the victim's *confidences*, a probability for each class.

# %%
drawings.show("01.one_question")

# %% [markdown]
# The attacker then says "member" or "non-member". The **attack accuracy** is the share of pictures for which that is right. Here half of the pictures
# are members, so random guessing reaches one half.
#
# The attacker does not know what an answer about a member looks like. So they train a **shadow model**: a model like the victim, on pictures of
# their own. They know every member of its training set. (Zhang et al. write $\mathcal V$ for the victim, $\mathcal S$ for the shadow model, $\mathcal A$ for
# the attack, and $\mathcal D_V$, $\mathcal D_S$ for the pictures.)

# %%
drawings.show("01.who_trains_on_what")

# %% [markdown]
# ### Exercise 1: the four parts *(difficulty 1, 7 minutes)*
#
# Zhang et al. (section 4.1) cut the data set into four parts of one size: training and test pictures of the victim, $\mathcal D_V$, and the same of the
# shadow model, $\mathcal D_S$. Write
# `split(n, seed)`: the places, from 0 to n - 1, of the four parts in this order. No picture is in two parts, and up to three are left over. The data set may be
# sorted by class. The same seed draws the same parts.
#
# <details><summary>Hint</summary><code>torch.randperm(n, generator=torch.Generator().manual_seed(seed))</code> is an order drawn by a seed.</details>


# %% tags=["exercise"]
def split(n, seed): ...


# %% tags=["solution"]
def split(n, seed):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[: n // 4 * 4].chunk(4)


# %%
checks.verify("01.split", split)

# %% [markdown]
# ### Exercise 2: what the attack reads *(difficulty 1, 7 minutes)*
#
# The *network-based* attack of Zhang et al. 2024 (section 3.1.1) reads eleven numbers for each picture, $\mathcal P_S^i$: the victim's confidences in ten
# classes, and one bit that says whether the answer is right. A three-layer perceptron, $\mathcal A$, learns on the shadow model's answers what a member looks
# like. Write `attack_input(logits, labels)`. It turns (n, 10) raw logits and (n,) labels into (n, 11) numbers. The bit is the last of eleven.
#
# <details><summary>Hint</summary><code>softmax</code> turns logits into confidences. The answer is the class with the largest confidence. <code>torch.cat</code>
# joins columns.</details>


# %% tags=["exercise"]
def attack_input(logits, labels): ...


# %% tags=["solution"]
def attack_input(logits, labels):
    right = logits.argmax(1) == labels
    return torch.cat([logits.softmax(1), right[:, None]], 1)


# %%
checks.verify("01.input", attack_input)

# %%
logits, labels, members = said.of(0)  # (n, 10), (n,), (n,)
print(f"The victim was trained on {int(members.sum())} of {len(members)} pictures.")

# %% [markdown]
# ## Play against the attack
#
# You get 20 pictures, half of which are members. In the first ten rounds you see the picture. In the last ten you also see the victim's confidences. The
# network-based attack plays the same rounds. It never sees a picture, only its eleven numbers. (Tab and Enter work, too. After the game, run the cell below it.)
#
# ### Predict

# %%
alone = widgets.predict(
    "How often will you be right if you see only the picture?", 0, 10, "of 10"
)
alone

# %%
YOU, ATTACK, EQUAL = "you", "the attack", "both, equally often"
better = widgets.choose(
    "In the ten rounds with the victim's confidences, who is right more often?",
    [YOU, ATTACK, EQUAL],
)
better

# %%
epochs = 20 if profile == "smoke" else 200
shadow = said.of(said.shadow(0))  # another Swin: the attacker's own
attack = membership_inference.network_based.network(*shadow, epochs=epochs)
calls = attack(logits, labels) > 0.5  # (n,): True for "member"
photos, classes = said.pixels[: len(labels)] / 255, data.load("cifar10").classes
game = member_game.MemberGame(
    photos, labels, logits, classes, members, calls, seed=seed
)
game

# %%
played, half = game.played, game.blind
you, it = (sum(each[half:]) for each in (game.right, game.attack_right))
winner = YOU if you > it else ATTACK if it > you else EQUAL
display(alone.against(sum(game.right[:half]) if played else float("nan")))
better.against(winner if played else None)

# %% [markdown]
# Nothing in a picture says where it was used. What gives a member away is in the victim's answer. What exactly?
#
# ## What gives a member away?
#
# The loss of a picture is minus the logarithm of the confidence in its right class. Compare the losses of members and of non-members, as in
# Zhang et al., Figure 12.
#
# ### Predict

# %%
FEW, HALF, MOST = "hardly any", "about half", "nearly all"
overlap = widgets.choose(
    "How many non-members have a loss above that of a typical member?",
    [FEW, HALF, MOST],
)
overlap


# %%
answers = {"Swin": said}


def loss_of(architecture):  # of its first model, for every picture
    logits, labels, members = answers[architecture].of(0)
    signal = membership_inference.signals.loss(logits, labels)  # minus the loss
    return -signal, members


losses, members = loss_of("Swin")
groups = {"members": losses[members], "non-members": losses[~members]}
figure, ax = plots.chart("loss", "share of the group", log="x")
edges = np.geomspace(*map(float, losses.aminmax()), 41)  # the same for both groups
for (name, each), look in zip(groups.items(), plots.LOOKS[1::-1], strict=True):
    ax.hist(
        each, edges, weights=[1 / len(each)] * len(each), histtype="stepfilled",
        facecolor=(look["color"], 0.16), edgecolor=look["color"], linewidth=1.8,
        linestyle=look["linestyle"], label=f"{name} ({len(each):,})",
    )  # fmt: skip
says = ", ".join(f"{name} {each.median():.2f}" for name, each in groups.items())
plots.render(figure, f"Losses; medians: {says}.")

# %%
above = (losses[~members] > losses[members].median()).double().mean()
display(overlap.against(FEW if above < 0.25 else HALF if above < 0.75 else MOST))
# Now your machine trains the other networks, and attacks all of them: a minute.
mine = experiments.run(NAME, profile, device=device)
family = {"ResNet": "resnet", "Swin": "swin", "ConvNeXt": "convnext"}
guest = (victim, models.sized(victim, 32)) if victim else None
asked = shadow_fleets.shown(NAME, profile, [*family.values()], device, guest)
answers = dict(zip([*family, victim], asked.values(), strict=False))
medians = {
    f"{a}, {kind}": f"median_loss[cifar10, {family[a]}, {kind.replace('-', '_')}]"
    for a in ("ResNet", "Swin")
    for kind in ("members", "non-members")
}
display(plots.evidence(kept, mine, medians, xlabel="median loss"))
text("In the paper losses lie near 0 for the CNN, and near 0.5 for the Transformer.")

# %% [markdown]
# So here is an attack: a picture whose loss is below a threshold is called a member. The **true-positive rate** (TPR) is the share of members that
# are found. The *false-positive rate* (FPR) is the share of non-members that are accused. Move the threshold. Can you find many members, and accuse almost
# no one wrongly?

# %%
thresholds = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


def look(architecture, loss_below):
    losses, members = loss_of(architecture)
    called = losses < loss_below
    groups = {"members": called[members], "non-members": called[~members]}
    tpr, fpr = (each.double().mean().item() for each in groups.values())
    counts = [
        f"{each.sum():,} of {len(each):,} {name}" for name, each in groups.items()
    ]
    line = f"TPR {tpr:.0%}, FPR {fpr:.0%}: called members are {' and '.join(counts)}."
    table = plots.heat(
        [[100 * rate, 100 - 100 * rate] for rate in (tpr, fpr)],
        rows=[*groups], columns=["called a member", "called a non-member"],
        unit=f"percent of the group; balanced accuracy {(1 + tpr - fpr) / 2:.3f}",
        alt=f"Threshold {loss_below} on the loss of the {architecture}: {line}",
    )  # fmt: skip
    return widgets.Sentence(line), table


start = {"architecture": "Swin", "loss_below": 0.5}
widgets.explore(look, start, architecture=tuple(answers), loss_below=thresholds)

# %% [markdown]
# Why is that possible? Compare how often each network is right about its training pictures, and about others.

# %%
levels = {a: f"train_test_gap[cifar10, {family[a]}]" for a in family}
plots.evidence(kept, mine, levels, xlabel="training accuracy less test accuracy")

# %% [markdown] tags=["printed"]
# This difference is the **overfitting level**. It alone makes an attack possible that looks at one bit: the attacker says "member" where the victim
# names the right class, and "non-member" where it does not.
#
# ### Exercise 3: what does right or wrong tell? *(difficulty 1, 8 minutes)*
#
# A model gets 95% of its training pictures right and 75% of its test pictures. The attacker says "member" if the model is right. They are
# asked about as many members as non-members. What is their accuracy?
#
# <details><summary>Hint</summary>How often are they right about a member? How often about a non-member? Take the mean.</details>

# %% tags=["exercise"]
accuracy_of_right_or_wrong = ...

# %% tags=["solution"]
accuracy_of_right_or_wrong = (0.95 + (1 - 0.75)) / 2  # = 1/2 + overfitting level / 2

# %%
checks.verify("01.gap_attack", accuracy_of_right_or_wrong)

# %% [markdown]
# ## Whose threshold?
#
# You moved the threshold with the truth in sight. An attacker does not have it. They know the members of the shadow model.
#
# ### Exercise 4: an honest attack *(difficulty 2, 15 minutes)*
#
# The **balanced accuracy** is the mean of two rates: the share of members that are found, and the share of non-members that are left alone. Write
# `attack_accuracy(victim_scores, victim_members, shadow_scores, shadow_members)`: the balanced accuracy on the victim of an attacker who chooses the best
# threshold *that they can know*. A score at the threshold or above it means "member".
#
# <details><summary>Hint</summary>Which two of the four arguments may the threshold depend on? <code>roc.best_threshold</code> and
# <code>roc.accuracy</code> do the rest; <code>help(roc.accuracy)</code> says what it takes.</details>


# %% tags=["exercise"]
def attack_accuracy(victim_scores, victim_members, shadow_scores, shadow_members): ...


# %% tags=["solution"]
def attack_accuracy(victim_scores, victim_members, shadow_scores, shadow_members):
    threshold = roc.best_threshold(shadow_scores, shadow_members)
    return roc.accuracy(victim_scores, victim_members, threshold)


# %%
checks.verify("01.whose_threshold", attack_accuracy)

# %% [markdown]
# The attack of the game does the same with the eleven numbers.
#
# ### Predict

# %%
NETWORK, LOSS, BIT = "network", "threshold on the loss", "right or wrong"
strongest = widgets.choose(
    "Behind the Swin, which attack is best, or within 0.02 of the best?",
    [NETWORK, LOSS, BIT],
)
strongest

# %%
kinds = {NETWORK: "network", LOSS: "loss_threshold", BIT: "right_or_wrong"}
rows = {
    f"Swin: {label}": f"attack_acc[cifar10, {family['Swin']}, {kind}]"
    for label, kind in kinds.items()
}
plots.evidence(kept, mine, rows, xlabel="attack accuracy (0.5 is random guessing)")

# %%
shown = kept or mine
means = {name: shown.mean(rows[f"Swin: {name}"]) for name in kinds}
near = [name for name in kinds if means[name] > max(means.values()) - 0.02]
display(strongest.against(near))
text(
    "Behind the Swin the network is right for {:.3f} of the pictures, the threshold "
    "for {:.3f}, and the one bit for {:.3f}. The threshold needs one number.",
    *means.values(),
)

# %% [markdown]
# ## Does the architecture matter?
#
# Zhang et al. attack a *ResNet* and a *ConvNeXt*, made of convolutions, and a *Swin*, a Transformer. All three learned from the same images, and one
# shadow model stands behind each attack (Zhang et al., Table 2, with CIFAR-100 and two larger networks as well; Zhang et al., Table 7 adds the ConvNeXt).
#
# ### Predict

# %%
ALIKE = "all alike, within 0.02"
most = widgets.choose(
    "Against which is the network-based attack right most often?", [*family, ALIKE]
)
most

# %%
print_of = {"ResNet": "ResNet-50", "Swin": "Swin-T", "ConvNeXt": "ConvNeXt-T"}
where = {"attack": "network MIA", "metric": "attack_acc"}
printed = plots.published("zhang2024_table7", print_of, **where)
rows = {a: f"attack_acc[cifar10, {family[a]}, network]" for a in family}
label = "attack accuracy of the network"
plots.evidence(kept, mine, rows, xlabel=label, published=printed)

# %%
means = {a: shown.mean(name) for a, name in rows.items()}
alike = max(means.values()) - min(means.values()) < 0.02
display(most.against(ALIKE if alike else max(means, key=means.get)))
text(
    "The accuracy behind the Swin, less that behind the ResNet, is {:+.3f} ± {:.3f} "
    "(mean and standard deviation of {} repeats). In the paper it is {:+.3f}. "
    "Ours are {}.",
    shown.mean(f"{rows['Swin']} - {rows['ResNet']}"),
    shown.spread(f"{rows['Swin']} - {rows['ResNet']}"),
    len(shown),
    printed["Swin"] - printed["ResNet"],
    shown.stands_for,
)

# %% [markdown]
# The overfitting levels have another order than the attack. What does an architecture give away *at the same* level? "Transformers always
# suffer from higher attack accuracy" (Zhang et al., Figure 4, part a). We look at each network several times during its training, and take the mean over the
# levels that all three went through.

# %%
level = {a: f"attack_acc_at_matched_gap[cifar10, {family[a]}, network]" for a in family}
display(plots.evidence(kept, mine, level, xlabel=f"{label}, at the same level"))
change = f"{level['Swin']} - {level['ResNet']}"
told = "At the same level the Swin's accuracy, less the ResNet's, is {:+.3f} ± {:.3f}."
display(text(told, shown.mean(change), shown.spread(change)))
if victim:
    accuracy = membership.accuracy(membership.by_network, answers[victim])
    print(f"{victim}: accuracy of the network {accuracy:.3f}")

# %% [markdown] tags=["printed"]
# This does not decide the question. At one level a ResNet may know nearly all of its pictures already, and a Swin fewer.
# [A deeper notebook](deeper/01_same_overfitting.ipynb) looks at single epochs, and at networks that know nearly all.
#
# ## Who is harmed?
#
# An attack that is right about everybody six times in ten harms nobody in particular. An attack that finds five people, and is never wrong
# about them, harms these five. The **ROC** shows both: the TPR at every FPR. Its left end counts, so its axes are logarithmic.
#
# Each curve is of one network, trained on your machine. Few non-members are accused at the left end, so one more or less moves a curve
# far. The rows under it are over all networks of a family. The committed rows may come from larger networks, which know far more pictures. There a threshold finds a
# smaller share of the members at such a rate. So compare a curve with the dots of your own run.

# %%
scores = {a: [(-loss, member) for loss, member in [loss_of(a)]] for a in answers}
found = {a: roc.tpr_at(*each, fpr=0.01) for a, (each,) in scores.items()}
curves = {a: [roc.curve(*each)] for a, (each,) in scores.items()}
says = ", ".join(f"{rate.value:.0%} of the members of {a}" for a, rate in found.items())
alt = f"ROC of the loss threshold. At an FPR of 1% it finds {says}."
display(plots.roc(curves, mark=(1,), alt=alt))
rows = {a: f"tpr_at_fpr_0p01[cifar10, {family[a]}, loss_threshold]" for a in family}
plots.evidence(kept, mine, rows, xlabel="TPR in percent at an FPR of 1%")

# %% [markdown] tags=["printed"]
# ### Exercise 5: "nobody is at risk" *(difficulty 2, 10 minutes)*
#
# A hospital reports: "An attack on our model is right about 55% of the people, and random guessing about 50%. So nobody is at risk." Which of
# these facts speak *against* the conclusion? Give a set of letters, such as `{"a", "b"}`.
#
# - **a** At an FPR of 0.1% the attack finds 5% of the members.
# - **b** The attack was asked about as many members as non-members.
# - **c** About people with a rare disease, the attack is right in 95% of the cases.
# - **d** The threshold of the attack was chosen with the hospital's list of members.
# - **e** The model gets all of its training images right.
# - **f** Only the threshold on the loss was tried.
#
# <details><summary>Hint</summary>For each fact ask: could one person now be accused with good reason, or could a better attack do so? Then ask which facts only say how
# the 55% came about, and in which direction they move it.</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"a", "c", "f"}

# %%
checks.verify("01.nobody", against)

# %% [markdown]
# ## The answer

# %%
text(
    "Yes: in networks that memorise their training pictures, a threshold on the loss, "
    "chosen on a shadow model, is right for {:.3f} of the pictures behind the ResNet "
    "and {:.3f} behind the Swin. It works because the networks know these pictures far "
    "better than others: the overfitting level is {:.2f} and {:.2f}.",
    *(
        shown.mean(f"attack_acc[cifar10, {a}, loss_threshold]")
        for a in ("resnet", "swin")
    ),
    *(shown.mean(levels[a]) for a in ("ResNet", "Swin")),
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. train ResNets, Swins and a ConvNeXt on a quarter of the images, for 300 epochs, with mixup and cutmix (Zhang et al., Table 1). Ours are
# small, and trained on a half without both. Every network is a victim once, and its shadow model knows some of the same pictures.

# %%
widgets.verdicts("01")

# %% [markdown]
# ## What would change our mind
#
# A network with no overfitting, and with members that can still be found, would show that overfitting is not the reason. For the order of the
# architectures, networks of the paper's size would have to be trained to the paper's conditions.
#
# ## Read on
#
# The threshold on the loss accuses every picture that is easy, member or not. Lab 02 asks whether a picture is *easier than it should be*, and attacks with
# many shadow models. Lab 03 asks what a representation knows. Shokri et al. 2017 is the first paper on shadow models. Zhang et al.
# 2024 ask the question of this lab in sections 3.1.1 and 4.2.
