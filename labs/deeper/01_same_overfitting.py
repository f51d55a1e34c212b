# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 01, deeper · Which architecture leaks more at the same overfitting?
#
# You come from [lab 01](../01_membership.ipynb). After the same number of epochs one architecture knows its training pictures better than another. Is the
# architecture to blame, or the overfitting?
#
# After this notebook you can
# - compare two attacks along a training;
# - compare two ROC curves over all their rates;
# - compare architectures at the same overfitting level;
# - say why the network-based attack is no fair judge of that, and what else has to be equal.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured on two CPU cores; class estimated.)

# %% [markdown]
# *About 25 minutes. You need* labs 01 and 02.

# %%
from privlab import compute, experiments
from privlab.experiments.victims import shadow_fleets
from privlab.metrics import roc
from privlab.notebook import plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "membership.architectures"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)  # read from disk after lab 01
shown = kept or mine
family = {"ResNet": "resnet", "Swin": "swin", "ConvNeXt": "convnext"}

# %% [markdown]
# ## Along the training
#
# In the paper the Swin is easier to attack than the ResNet at nearly every epoch (Zhang et al., Figure 1). The models' answers were kept on the way.


# %%
def along(of, metric, kind=""):  # architecture -> {epoch: name of what is measured}
    looked = [e for e in range(1, 301) if f"task_acc[cifar10, swin, epoch_{e}]" in of]
    return {
        a: {e: f"{metric}[cifar10, {key}{kind}, epoch_{e}]" for e in looked}
        for a, key in family.items()
    }


for metric, kind, says in (
    ("task_acc", "", "accuracy on the task"),
    ("attack_acc", ", network", "accuracy of the attack"),
):
    lines = along(shown, metric, kind)
    display(plots.evidence_lines(kept, mine, lines, xlabel="epoch", ylabel=says))

# %%
ahead = {"Swin above the ResNet": "share_of_epochs_ahead[cifar10, swin_less_resnet]"}
plots.evidence(kept, mine, ahead, xlabel="share of the epochs looked at")

# %% [markdown]
# ## By the likelihood ratio
#
# One input of this attack is whether the answer is right. This bit alone gives an accuracy that follows from the overfitting level, see the lab's exercise on right or wrong.
# So a question about the architecture needs an attack that does not read the level. The *likelihood ratio*
# of [lab 02](../02_likelihood_ratio.ipynb) is one. It asks whether a picture is easier for the victim than for models that never saw it. In the paper
# it does better on a Swin than on the ResNet of its size, by AUC (Zhang et al., Table 3) and at every false-positive rate (Zhang et al., Figure 2).
#
# ### Predict

# %%
above = widgets.predict(
    "Share of the FPRs at which the Swin's curve is on or above the ResNet's:", 0, 1
)
above

# %%
pair = ("ResNet", "Swin")
auc = {a: f"auc[cifar10, {family[a]}, likelihood_ratio]" for a in pair}
share = {"Swin on or above the ResNet": "roc_share_above[cifar10, swin_less_resnet]"}
where = {"dataset": "CIFAR10", "metric": "auc"}
print_of = {"ResNet": "ResNet-50", "Swin": "Swin-T"}
printed = plots.published("zhang2024_table3", print_of, **where)
display(
    plots.evidence(kept, mine, auc, xlabel="AUC", published=printed),
    plots.evidence(kept, mine, share, xlabel="share of the FPRs"),
)

# %%
display(above.against(round(shown.mean(*share.values()), 2)))
text(
    "The AUC on the Swin is {:+.3f} away from that on the ResNet. In the paper it is "
    "{:+.3f}, with networks of full size that overfit far less, and the Swin's curve "
    "is above at every FPR.",
    shown.mean(f"{auc['Swin']} - {auc['ResNet']}"),
    printed["Swin"] - printed["ResNet"],
)

# %% [markdown]
# ## The curves of your networks
#
# Every network is the victim once. Each thin line is a victim.

# %%
asked = shadow_fleets.shown(NAME, profile, [family[a] for a in pair], device)
answers = dict(zip(pair, asked.values(), strict=True))


def curves_of(a):
    said = answers[a]
    scores = {
        "likelihood ratio": said.ratios(),
        "loss threshold": said.margins()[..., 0],  # orders pictures as the loss does
    }
    return {
        f"{a}, {kind}": [roc.curve(*of) for of in zip(each, said.members, strict=True)]
        for kind, each in scores.items()
    }


# %%
for a in pair:  # a figure for each: four bundles would lie over each other
    alt = f"ROC of two attacks on the {a}, logarithmic, a line for each victim."
    display(plots.roc(curves_of(a), alt=alt))

# %% [markdown] tags=["printed"]
# A rate at an FPR of 0.1% needs many non-members. Where they are too few, privlab refuses to name one. Else it prints an interval, which counts the uncertainty of the members found
# and that of the threshold.

# %%
for a, said in answers.items():
    first = said.ratios()[0], said.members[0]
    print(f"{a}, first victim, FPR 1%: {roc.tpr_at(*first, 0.01)}")
    try:
        print(f"  FPR 0.1%: {roc.tpr_at(*first, 0.001)}")
    except ValueError as refused:
        print(f"  FPR 0.1%: {refused}")

# %% [markdown]
# With the same pictures and the same epochs, the two do not overfit alike. So this difference may be one of the level.
#
# ## At the same overfitting
#
# Put the overfitting level on the axis instead of the epoch (Zhang et al., Figure 4, part a). If something beyond overfitting matters, the lines lie apart: the architecture, or how many pictures are known.


# %%
def by_level(of):  # architecture -> (overfitting levels, accuracies), by epoch
    both = along(of, "train_test_gap"), along(of, "attack_acc", ", network")
    return {
        a: [[of.mean(name) for name in names[a].values()] for names in both]
        for a in family
    }


plots.lines(
    by_level(shown),
    live=by_level(mine) if kept else {},
    yours=f"your run, at {mine.size}",
    xlabel=f"overfitting level ({len(shown)} repeats at {shown.size})",
    ylabel="accuracy of the attack",
    alt="Accuracy of the network-based attack against the overfitting level, a line "
    "for each architecture, and the points of your run.",
)

# %% [markdown]
# Each point is an epoch. At low levels the lines lie together; where nearly all pictures are known, they part. There the level stands still, and the attack still moves.
#
# Now the same for the likelihood ratio, which does not read the level.
#
# ### Predict

# %%
SWIN, ALIKE, RESNET = "the Swin", "none, within 0.01", "the ResNet"
guess = widgets.choose(
    "On average over the levels, whose AUC is larger?", [SWIN, ALIKE, RESNET]
)
guess

# %%
KEYS = "_at_matched_gap[cifar10, {}, likelihood_ratio]"
area = {a: f"auc{KEYS.format(key)}" for a, key in family.items()}
tail = {a: f"tpr_at_fpr_0p01{KEYS.format(key)}" for a, key in family.items()}
display(
    plots.evidence(kept, mine, area, xlabel="AUC at the same overfitting level"),
    plots.evidence(kept, mine, tail, xlabel="TPR in percent at an FPR of 1%"),
)

# %%
gap = shown.mean(f"{area['Swin']} - {area['ResNet']}")
display(guess.against(SWIN if gap > 0.01 else RESNET if gap < -0.01 else ALIKE))
text(
    "AUC is the probability that a member has a higher score than a non-member. "
    "That of the Swin is {:+.3f} away from that of the ResNet, with a standard "
    "deviation of {:.3f} over {} repeats. Of the ResNet's lead 80 to 100% lies at "
    "levels where the two do not know equally many of their pictures.",
    gap,
    shown.spread(f"{area['Swin']} - {area['ResNet']}"),
    len(shown),
)

# %% [markdown]
# Is the architecture the reason? Look at the networks where the lines part.

# %%
known = along(shown, "train_acc")
epochs = list(known["ResNet"])
part = next((e for e in epochs if shown.mean(known["ResNet"][e]) > 0.95), epochs[-1])
text(
    "After {} epochs the ResNet knows {:.1f}% of its training pictures, and the Swin "
    "{:.1f}%. At lower levels the lines lie together, and between this look and the "
    "one before there is one straight line. So where the lines part, two things "
    "differ: the architecture, and how many pictures are known. Which of the two "
    "gives more away at the same level is undecided.",
    part,
    *(100 * shown.mean(known[a][part]) for a in ("ResNet", "Swin")),
)

# %% [markdown]
# So we also trained both on 120, 240, 480 and 960 pictures, always until they know nearly all of them. Then the number of pictures sets the level. A straight
# line through the four, read in the middle of the levels that both reach, compares the two at one level.

# %%
full = experiments.load("membership.one_level", "night")
pair = ["resnet", "swin"]
least = [100 * full.mean(f"train_acc[cifar10, {a}]") for a in pair]
text("Where fewest are known, ResNets know {:.1f}%, Swins {:.1f}%.", *least)

# %%
right = [full.mean(f"attack_acc_at_one_level[cifar10, {a}, network]") for a in pair]
aucs = [full.mean(f"auc_at_one_level[cifar10, {a}, likelihood_ratio]") for a in pair]
text(
    "At one level the accuracy of the attack with a network is {:.3f} for the ResNet "
    "and {:.3f} for the Swin, and the AUC of the likelihood ratio {:.3f} and {:.3f}. "
    "The ResNet gives more away here, too.",
    *(*right, *aucs),
)

# %%
passed = full.above("train_acc[cifar10, swin]", 0.99)
text(
    "But before the first repeat we had asked for networks that know more than 99% of "
    "their pictures. The Swins pass in {} of {} repeats. So by our own rule lab 01 "
    "says *not tested*.",
    *(passed, len(full)),
)

# %% [markdown]
# ## How much does the level explain?
#
# The rank correlation over all epochs and architectures is 1 if the level alone puts the attacks into their order.

# %%
of = "rank_correlation[cifar10, overfitting_{}]"
ranks = {"network": of.format("attack_acc"), "likelihood ratio": of.format("auc")}
label = "rank correlation with the overfitting level"
display(plots.evidence(kept, mine, ranks, xlabel=label))
text(
    "The correlation is {:.2f} for the network and {:.2f} for the ratio. Once nearly "
    "all training pictures are known the level stands still, while the attacks still "
    "change.",
    *(shown.mean(name) for name in ranks.values()),
)

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 4.2, Figures 1, 2 and 4a. A deeper notebook of lab 10 asks which part of an architecture moves these numbers.
