# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02 · Is this picture easier than it should be?
#
# In lab 01 you accused the pictures with the lowest loss. But a plain white ship on blue water has a low loss whether a network has seen it or not. You can train
# networks of your own, with this very picture and without it. What do they add to the threshold, picture by picture?
#
# After this lab you can
# - compute a likelihood ratio for one picture, from shadow models;
# - compare two attacks where it counts, at few false accusations;
# - say what makes such an attack weaker than it could be.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.3 GB |
# | class | 1.7 | 1.3 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 65 minutes. You need* lab 01. *New words*: **keep matrix**, **fleet**, **margin**, **likelihood ratio**.

# %%
from privlab import compute, data, experiments, models
from privlab.attacks.membership_inference import lira
from privlab.course.lab_02 import two_bells
from privlab.experiments.victims import shadow_fleets
from privlab.metrics import roc
from privlab.notebook import checks, drawings, plots, text, widgets

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
NAME = "likelihood_ratio.fleet"
kept = experiments.load(NAME)  # what was measured and committed
# Now your machine trains sixteen networks, and attacks them: a minute. Read on.
mine = experiments.run(NAME, profile, device=device)
shown = kept or mine

# %% [markdown]
# ## Easy, or known?
#
# The victim is a small ResNet. It was trained on half of the pictures. Here are six pictures of the *other* half, and of all these the victim is surest of them. So a
# threshold on the loss accuses them first, and wrongly.

# %%
names = {"ResNet": "resnet", "Swin": "swin"}
guest = (victim, models.sized(victim, 32)) if victim else None
asked = shadow_fleets.shown(NAME, profile, [*names.values()], device, guest)
answers = dict(zip([*names, victim], asked.values(), strict=False))
classes = data.load("cifar10").classes

# %%
said = answers["ResNet"]  # what eight ResNets answered; the first is our victim
photos = said.pixels[: said.audited] / 255  # (n, 3, 32, 32)
labels = said.labels
margins = said.margins()[..., 0]  # (models, n): how sure, see below
members = said.members  # (models, n): who was trained on what
sure = margins.sigmoid()  # (models, n): the confidence in the right class
strangers = sure[0].where(~members[0], -1).topk(6).indices
said_of = [f"{classes[labels[i]]}: {sure[0, i]:.0%} sure" for i in strangers]
alt = f"Six pictures that the victim was not trained on: {', '.join(said_of)}."
plots.images(
    {"the victim": photos[strangers]}, alt=alt, captions={"the victim": said_of}
)

# %% [markdown]
# ### Predict
#
# Other ResNets were not trained on these pictures either. Perhaps a picture is easy for all networks. Perhaps only this victim happens to be sure.

# %%
FEW, SOME, MOST = "of at most one", "of two, three or four", "of five or all six"
easy = widgets.choose(
    "Of how many of the six are other networks sure (above 50%), on average?",
    [FEW, SOME, MOST],
)
easy

# %%
others = torch.arange(said.models) > 1  # all but the victim and its partner, see below
never = sure[others].where(~members[others], torch.nan).nanmean(0)  # (n,)
count = int((never[strangers] > 0.5).sum())
by_others = [f"{classes[labels[i]]}: others {never[i]:.0%}" for i in strangers]
alt = f"The same pictures, and how sure other networks are: {', '.join(by_others)}."
display(easy.against(FEW if count < 2 else SOME if count < 5 else MOST))
plots.images({"others": photos[strangers]}, alt=alt, captions={"others": by_others})

# %% [markdown]
# Where the others are sure as well, the picture is easy, and the victim's confidence says nothing. So do not ask how sure the victim is. Ask whether it is *surer than
# networks that never saw this picture*.

# %% [markdown]
# ## With it, and without it
#
# An attacker trains many networks of the victim's kind, a **fleet**. Half of them are trained on the picture, and half are not.

# %%
drawings.show("02.in_and_out")

# %% [markdown]
# This would take a fleet for each picture. There is a better way: each network is trained on a random half of *all* pictures. The **keep matrix** says which network is
# trained on which picture. A column of it splits the fleet for one picture.

# %%
drawings.show("02.keep_matrix")

# %% [markdown] tags=["printed"]
# Here the networks come in pairs with opposite halves. The partner of the victim would give the answer away, so it is left out.
# [A deeper notebook](deeper/02_choices.ipynb) says what goes wrong without pairs.
#
# Confidences crowd near 0% and 100%. So the attack takes the **margin**, $\varphi = \log \frac{p}{1 - p}$, where $p$ is the confidence in the right class. It is 0
# at 50%, and has no upper end. Over many networks it is close to a Gaussian. The deeper notebook
# has a way in which code loses it, too, and an attack with four bugs to mend.

# %%
in_how_many = members.sum(0).unique().tolist()
print(f"{said.models} networks; a picture is in {in_how_many} of them")
wide = sure[0], margins[0]
print(*(f"{each.min():8.4f} to {each.max():.4f}" for each in wide), sep="\n")

# %% [markdown] tags=["printed"]
# ## Slide it
#
# Fit one Gaussian to the margins of the networks trained *with* the picture ("in") and one to the others ("out"). Both have a height, a *density*, at the victim's
# margin. The **likelihood ratio** is the height of "in" over that of "out". Above one, it says "member".
#
# ### Predict
#
# These six pictures go from hard to easy for networks that never saw them. But in which order? The victim is 60% sure of each.

# %%
ranked = never.argsort()[torch.linspace(0, said.audited - 1, 6).long()]
mixed = ranked[torch.randperm(6, generator=torch.Generator().manual_seed(seed + 1))]
called = [f"{k}: {classes[labels[i]]}" for k, i in zip("ABCDEF", mixed, strict=True)]
alt = f"Six pictures: {', '.join(called)}."
plots.images({"pictures": photos[mixed]}, alt=alt, captions={"pictures": called})

# %%
which = widgets.choose(
    "The victim is 60% sure. For which pictures does this speak for a member?",
    called,
    many=True,
)
which

# %% [markdown]
# Now slide. Green and solid is "in", blue and dashed is "out", and the short lines are the shadow models. Take picture after picture. Where does the verdict turn? The
# threshold is that of lab 01, chosen on a shadow model. It is the same for all pictures. Then give each picture a spread of its own,
# from three margins on each side. (Click the slider, then use the arrow keys.)

# %%
threshold = float(roc.best_threshold(margins[2], members[2]))
slider = two_bells.TwoBells(called, margins, members, mixed.tolist(), threshold)
slider

# %%
sixty = torch.tensor(0.6).logit().item()
speak = [name for k, name in enumerate(called) if slider.ratio(k, "fixed", sixty) > 0]
which.against(speak)

# %% [markdown]
# ### Exercise 1: the ratio by hand *(difficulty 2, 12 minutes)*
#
# Write `log_ratio(victim, inside, outside)`. `victim` is the victim's margin, a number (a tensor without dimensions). `inside` and `outside` are the margins of the
# networks that were trained on the picture and of those that were not, two tensors. Fit a Gaussian to each (mean, and standard deviation over n - 1), and return the
# *logarithm* of the likelihood ratio. It should hold for a victim far out, too.
#
# <details><summary>Hint</summary><code>torch.distributions.Normal(mean, std).log_prob(x)</code> is the logarithm of a Gaussian's density. What
# becomes of a ratio?</details>


# %% tags=["exercise"]
def log_ratio(victim, inside, outside): ...


# %% tags=["solution"]
def log_ratio(victim, inside, outside):
    sides = (inside, outside)
    fits = [torch.distributions.Normal(side.mean(), side.std()) for side in sides]
    x = torch.as_tensor(victim, dtype=inside.dtype)
    one, other = (fit.log_prob(x) for fit in fits)
    return (one - other).item()


# %%
checks.verify("02.log_ratio", log_ratio)

# %% [markdown]
# This is LiRA, the likelihood-ratio attack (Carlini et al. 2022), the second attack of Zhang et al. 2024.

# %% [markdown]
# ## All pictures
#
# Now every network of the fleet is the victim once, for every picture. The AUC, *the probability that a member scores higher than a non-member*, compares two attacks over all
# pictures. The paper prints that of the ratio (Zhang et al., Table 3). The threshold needed no fleet. The ratio needs six shadow models for each verdict.
#
# ### Predict

# %%
RATIO, ALIKE, LOSS = "likelihood ratio", "alike, within 0.005", "threshold on the loss"
overall = widgets.choose(
    "For the Swin, which attack has the higher AUC?", [RATIO, ALIKE, LOSS]
)
overall

# %%
attacks = {RATIO: "likelihood_ratio", LOSS: "loss_threshold"}


def rows_of(metric):  # for a chart: label -> name of what is measured
    return {
        f"{a}: {kind}": f"{metric}[cifar10, {names[a]}, {key}]"
        for a in names
        for kind, key in attacks.items()
    }


auc = rows_of("auc")
print_of = {f"ResNet: {RATIO}": "ResNet-50", f"Swin: {RATIO}": "Swin-T"}
printed = plots.published("zhang2024_table3", print_of, dataset="CIFAR10", metric="auc")
label = "AUC (0.5 is random guessing)"
plots.evidence(kept, mine, auc, xlabel=label, published=printed)


# %%
def ahead(of, a):  # by how much the ratio has the higher AUC
    return of.mean(f"{auc[f'{a}: {RATIO}']} - {auc[f'{a}: {LOSS}']}")


gap = ahead(shown, "Swin")
display(overall.against(RATIO if gap > 0.005 else LOSS if gap < -0.005 else ALIKE))
fours = experiments.load("membership.architectures")
text(
    "With eight networks of a kind the AUC of the ratio is {:+.3f} away from that of "
    "the threshold for the ResNet, and {:+.3f} for the Swin. In lab 01's experiment, "
    "with four larger ones that know far more pictures, the ratio has {:.3f} and the "
    "threshold {:.3f} for the ResNet, and {:.3f} and {:.3f} for the Swin.",
    ahead(shown, "ResNet"),
    gap,
    *(fours.mean(name) for name in auc.values()),
)

# %% [markdown]
# Is this much for so much training? Two questions are left. Which pictures does an attack get right? And what are the choices in it worth?

# %% [markdown]
# ## The few who are found
#
# Somebody who wants to harm people needs certainty. So look at the *true-positive rate* (TPR), the share of members that are found, where the *false-positive rate*
# (FPR) is small.
#
# ### Predict

# %%
strict = widgets.choose(
    "At an FPR of 0.1%, which attack finds more of the ResNet's members?",
    [RATIO, LOSS],
)
strict

# %%
loose, low = rows_of("tpr_at_fpr_0p01"), rows_of("tpr_at_fpr_0p001")
display(
    plots.evidence(kept, mine, loose, xlabel="TPR in percent at an FPR of 1%"),
    plots.evidence(kept, mine, low, xlabel="TPR in percent at an FPR of 0.1%"),
)

# %%
found = {kind: shown.mean(low[f"ResNet: {kind}"]) for kind in attacks}
display(strict.against(max(found, key=found.get)))
text(
    "At an FPR of 0.1% the ratio finds {:.1f}% of the ResNet's members, and the "
    "threshold {:.1f}%. Behind the Swin it is {:.1f}% and {:.1f}%. The repeats differ "
    "much: the standard deviation of the ratio's is {:.1f} points for the ResNet.",
    *(shown.mean(name) for name in low.values()),
    shown.spread(low[f"ResNet: {RATIO}"]),
)

# %% [markdown] tags=["printed"]
# The lower the FPR, the fewer non-members decide. How many does one need?
#
# ### Exercise 2: how many non-members? *(difficulty 1, 5 minutes)*
#
# A colleague reports a TPR at an FPR of 0.1%, from 500 non-members. How many non-members are needed so that one false positive is allowed? And how many for ten? Give a
# pair of numbers.
#
# <details><summary>Hint</summary>How many false positives does a rate of one in a thousand allow among n non-members?</details>

# %% tags=["exercise"]
for_one_and_for_ten = ...

# %% tags=["solution"]
for_one_and_for_ten = (1_000, 10_000)

# %%
checks.verify("02.non_members", for_one_and_for_ten)

# %% [markdown]
# ## How much is in its choices?
#
# The measured attack has three choices in it. It has *six shadow models*, three on each side. It takes *one spread* for all pictures, because three margins hardly say
# how far they spread. And it asks *one question*, about the picture. Carlini et al. ask about its mirror image as well, and take the mean.
#
# ### Predict
#
# Start with six networks of each kind, the victim and its partner included. You may change one thing.

# %%
MORE, OWN = "eight networks in place of six", "for each picture its own spread"
MIRROR = "a second question, about the mirror image"
best = widgets.choose("Which change helps the ratio most?", [MORE, OWN, MIRROR])
best


# %%
def area(a, networks, mirror=False, variance="fixed"):
    margins = answers[a].margins(mirror=mirror)[:networks]
    members = answers[a].members[:networks]
    scores = lira.every_target(margins, members, variance=variance, pairs=True)
    return shadow_fleets.rates(scores, members)["auc"]


# %%
def compare(architecture):
    lines = {
        "as measured": [area(architecture, n) for n in (4, 6, 8)],
        "two questions": [area(architecture, n, mirror=True) for n in (4, 6, 8)],
    }
    curves = {name: ((4, 6, 8), values) for name, values in lines.items()}
    own = [area(architecture, n, variance="per-example") for n in (6, 8)]
    curves["own spread"] = ((6, 8), own)
    every = answers[architecture]
    level = shadow_fleets.rates(every.margins()[..., 0], every.members)["auc"]
    alt = f"AUC for the {architecture} by number of networks. Eight: "
    alt += ", ".join(f"{name} {values[1][-1]:.3f}" for name, values in curves.items())
    return plots.lines(
        curves, xlabel="networks, the victim and its partner included", ylabel="AUC",
        thresholds={"threshold on the loss": level}, alt=f"{alt}; loss {level:.3f}.",
    )  # fmt: skip


widgets.explore(compare, architecture=tuple(answers))

# %%
start = area("ResNet", 6)
gains = {
    MORE: area("ResNet", 8) - start,
    OWN: area("ResNet", 6, variance="per-example") - start,
    MIRROR: area("ResNet", 6, mirror=True) - start,
}
display(best.against(max(gains, key=gains.get)))
mirror = said.margins(mirror=True)[..., 1]
text(
    "For your ResNets the AUC changes by {:+.3f} with eight networks, by {:+.3f} with "
    "an own spread, and by {:+.3f} with the mirror image. A threshold on the loss "
    "of the *mirror image* has an AUC of {:.3f}.",
    *gains.values(),
    shadow_fleets.rates(mirror, members)["auc"],
)

# %% [markdown]
# Carlini et al. *train* with mirror images, so their networks know them. Ours never saw one. Here the second answer says little about the picture, and the mean dilutes
# the first. An attacker asks about what the training showed.

# %%
if victim:
    rates = shadow_fleets.rates(answers[victim].ratios(), answers[victim].members)
    print(
        f"{victim}: AUC {rates['auc']:.3f}, TPR {rates['tpr_at_fpr_0p01']:.1f}% at 1%"
    )

# %% [markdown]
# There are more choices, and there is an attack for few shadow models: see [a deeper notebook](deeper/02_choices.ipynb). Whether a Swin leaks more than a ResNet by this
# attack is the question of [one of lab 01](deeper/01_same_overfitting.ipynb). You need neither for what follows.

# %% [markdown] tags=["printed"]
# ### Exercise 3: "shadow models add nothing" *(difficulty 2, 10 minutes)*
#
# An auditor attacks a hospital's model, which reads X-ray images, and reports: "Over all patients the likelihood ratio has an AUC of 0.71, and the threshold on the loss
# one of 0.74. So shadow models add nothing, and no patient is in more danger than the threshold shows." Which of these facts speak *against* the conclusion? Give a
# set of letters, such as `{"a", "b"}`.
#
# - **a** The shadow models have the architecture of the hospital's model, and were trained in the same way.
# - **b** At an FPR of 0.1% the ratio finds 8% of the members, and the threshold 0.2%.
# - **c** The hospital's model was not among those to which the Gaussians were fitted.
# - **d** Every model was asked about the image, and about the image turned by ten degrees. No training image was ever turned.
# - **e** Each patient had two shadow models on each side, and Gaussians whose spread came from these two.
# - **f** Both attacks were asked about the same patients.
#
# <details><summary>Hint</summary>For each fact ask: could the ratio do better than 0.71 if this were otherwise? Or is somebody found whom the
# AUC does not show?</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"b", "d", "e"}

# %%
checks.verify("02.auditor", against)

# %% [markdown]
# ## The answer

# %%
text(
    "Shadow models tell an easy picture from a known one: at an FPR of 1% the "
    "ratio finds {:.0f}% of the ResNet's members and the threshold {:.0f}%, and over "
    "all pictures its AUC is {:.3f} against {:.3f}, and {:.3f} against {:.3f} for the "
    "Swin. How it is asked matters as much: with a useless question about the mirror "
    "image its AUC is {:.3f} for the ResNets of your run, and {:.3f} without.",
    *(shown.mean(loose[f"ResNet: {kind}"]) for kind in attacks),
    *(shown.mean(name) for name in auc.values()),
    area("ResNet", 8, mirror=True),
    area("ResNet", 8),
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. follow Carlini et al. with ResNet-50 and 101, Swin-T and S, on CIFAR-10 and CIFAR-100 (Table 3, Figure 2). We have small networks of the same families. This lab's
# know 200 pictures each, and nearly all of these perfectly; lab 01's, by which most claims below are judged, know thousands, and all of them. Every network is a victim once, and the victims share their shadow models. So the
# true spread is a little wider than the printed one. The formulas are the paper's, not the public code's.

# %%
widgets.verdicts("02")

# %% [markdown]
# ## What would change our mind
#
# - Networks that are trained with mirror images. If a second question does not help the ratio even then, what the training showed is not the reason.
# - Dozens of shadow models. If an own spread for each picture is still worse then, three margins were not the reason.
# - A victim that has seen millions of pictures, and memorises few of them. There, easy pictures are the rule, and the threshold should suffer more.
#
# ## Read on
#
# Carlini et al. 2022 is the paper behind the attack, and section 4.2 of Zhang et al. 2024 is behind the question. Lab 03 asks what a representation knows. A deeper notebook of
# lab 10 asks which part of an architecture moves these numbers, and one of lab 13 what to do about it.
