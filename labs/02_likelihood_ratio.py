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
# - say how many shadow models stand behind each likelihood, and what more of them add;
# - say what makes such an attack weaker than it could be.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.3 GB |
# | class | 3.4 | 1.2 GB |
#
# (Estimated, on two CPU cores.)

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
# Now your machine trains eight ResNets, about a minute. The first is the victim.
said = shadow_fleets.shown(NAME, profile, ["resnet"], device)["resnet"]

# %% [markdown]
# ## Easy, or known?
#
# The victim is a small ResNet. It was trained on half of the pictures. Here are six pictures of the *other* half. The victim is surer of these six than of any other
# picture in that half. So a threshold on the loss accuses them first, and wrongly.

# %%
classes = data.load("cifar10").classes
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
# Where the others are sure as well, the picture is easy, and the victim's confidence says nothing. So ask whether the victim is *surer than networks that never saw this
# picture*.
#
# ## With it, and without it
#
# An attacker trains many networks of the victim's kind, a **fleet**, $\mathcal S = \{S_1, \dots, S_n\}$. Half of them are trained on the picture, and half are not.

# %%
drawings.show("02.in_and_out")

# %% [markdown]
# This would take a fleet for each picture. There is a better way: each network is trained on a random half of *all* pictures. The **keep matrix** says which network is
# trained on which picture. A column of it splits the fleet for one picture.

# %%
drawings.show("02.keep_matrix")

# %% [markdown]
# Here the networks come in pairs with opposite halves. The partner of the victim would give the answer away, so it is left out.
# [A deeper notebook](deeper/02_choices.ipynb) says what goes wrong without pairs. All other networks are shadow models of this victim.
#
# ### Exercise 1: how many stand behind a likelihood? *(difficulty 1, 5 minutes)*
#
# Each network of a fleet is the victim once. Its shadow models are all others except its partner. How many shadow models were trained *with* a picture if the fleet has eight
# networks, as in this lab? And if it has four, as in lab 01? How many networks must a fleet have so that 64 shadow models were trained with the picture? Give three numbers.
#
# <details><summary>Hint</summary>Draw a column of the keep matrix with four rows. Who is left when the victim and its partner are gone?</details>

# %% tags=["exercise"]
eight_four_and_fleet_for_64 = ...

# %% tags=["solution"]
eight_four_and_fleet_for_64 = (3, 1, 130)

# %%
checks.verify("02.behind", eight_four_and_fleet_for_64)

# %% [markdown] tags=["printed"]
# Confidences crowd near 0% and 100%. So the attack takes the **margin**, $\varphi = \log \frac{p}{1 - p}$, where $p$ is the confidence in the right class. It is 0
# at 50%, and has no upper bound. Over many networks it is close to a Gaussian. The deeper notebook
# shows how code loses it, and has an attack with four bugs to mend.

# %%
side = said.models // 2 - 1  # half of all, without the victim's own pair
print(f"{said.models} networks: behind each likelihood stand {side}")
print(*(f"{x.min():8.4f} to {x.max():.4f}" for x in (sure[0], margins[0])), sep="\n")

# %% [markdown] tags=["printed"]
# ## Slide it
#
# Fit one Gaussian to the margins of networks trained *with* the picture ("in") and one to the others ("out"). At the victim's margin, the
# **likelihood ratio** is the density of "in" over that of "out". Above one means "member".
#
# ### Predict
#
# Networks that never saw these pictures find some hard, some easy. The victim is 60% sure of each.

# %%
ranked = never.argsort()[torch.linspace(0, said.audited - 1, 6).long()]
mixed = ranked[torch.randperm(6, generator=torch.Generator().manual_seed(seed + 1))]
called = [f"{k}: {classes[labels[i]]}" for k, i in zip("ABCDEF", mixed, strict=True)]
alt = f"Six pictures: {', '.join(called)}."
display(
    plots.images({"pictures": photos[mixed]}, alt=alt, captions={"pictures": called})
)
which = widgets.choose(
    "The victim is 60% sure. For which pictures does this speak for a member?",
    called,
    many=True,
)
which

# %% [markdown]
# Now slide. Green and solid is "in", blue and dashed is "out". The short lines are the shadow models, three on each side. Where does the verdict
# turn, picture by picture? The threshold is that of lab 01, and the same for all pictures. Then give each picture its own spread. (Click the slider, then use the arrow keys.)

# %%
threshold = float(roc.best_threshold(margins[2], members[2]))
slider = two_bells.TwoBells(called, margins, members, mixed.tolist(), threshold)
slider

# %%
sixty = torch.tensor(0.6).logit().item()
speak = [name for k, name in enumerate(called) if slider.ratio(k, "fixed", sixty) > 0]
which.against(speak)

# %% [markdown]
# ### Exercise 2: the ratio by hand *(difficulty 2, 12 minutes)*
#
# Write `log_ratio(victim, inside, outside)`. `victim` is the victim's margin, a number (a tensor without dimensions). `inside` and `outside` are the margins of the
# networks that were trained on the picture and of those that were not, two tensors. Fit a Gaussian to each (mean, and standard deviation over n - 1), and return the
# *logarithm* of the likelihood ratio. It should also work where the victim's margin is far from both Gaussians.
#
# <details><summary>Hint</summary><code>torch.distributions.Normal(mean, std).log_prob(x)</code> is the logarithm of a Gaussian's density. What
# does the logarithm make of a ratio?</details>


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
# This is LiRA, the likelihood-ratio attack (Carlini et al. 2022), the second attack of Zhang et al. 2024 (section 3.1.1).
#
# ## All pictures
#
# Now every network of the fleet is the victim once, for every picture. The AUC, *the probability that a member scores higher than a non-member*, compares two attacks over all
# pictures. The paper does not print how many shadow models it trained. Here each verdict of the ratio needs
# six: the charts say "3 in, 3 out", which are three networks with the picture and three without it. The threshold needs no fleet.
#
# By the ratio the paper's Swins give away more than its ResNets, by AUC, attack accuracy and TPR (Zhang et al., Table 3), and along the ROC (Zhang et al., Figure 2), on
# CIFAR-10 and CIFAR-100. We have no experiment on CIFAR-100. ResNet-50's attack accuracy and TPR on CIFAR-10 are not readable in our copy.
#
# ### Predict
#
# The second question is about the networks of lab 01. They are larger and know far more pictures, and one shadow model stands on each side. When you have answered, your
# machine trains eight Swins and attacks all sixteen networks, about a minute.

# %%
names = {"ResNet": "resnet", "Swin": "swin"}
RATIO = f"likelihood ratio ({side} in, {side} out)"
ALIKE, LOSS = "alike, within 0.005", "threshold on the loss"
ask = "For the Swin, which attack has the higher AUC?"
overall = widgets.choose(ask, [RATIO, ALIKE, LOSS])
ask = "By the ratio, which network of lab 01 has the higher AUC?"
family = widgets.choose(ask, [*names, ALIKE])
display(overall, family)

# %%
mine = experiments.run(NAME, profile, device=device)
shown = kept or mine
guest = (victim, models.sized(victim, 32)) if victim else None
asked = shadow_fleets.shown(NAME, profile, [*names.values()], device, guest)
answers = dict(zip([*names, victim], asked.values(), strict=False))
attacks = {RATIO: "likelihood_ratio", LOSS: "loss_threshold"}


def rows_of(metric):  # for a chart: label -> name of what is measured
    return {
        f"{a}: {kind}": f"{metric}[cifar10, {names[a]}, {key}]"
        for a in names
        for kind, key in attacks.items()
    }


auc = rows_of("auc")
plots.evidence(kept, mine, auc, xlabel="AUC (0.5 is random guessing)")


# %%
def ahead(of):  # for ResNet and Swin: by how much the ratio has the higher AUC
    return [of.mean(f"{auc[f'{a}: {RATIO}']} - {auc[f'{a}: {LOSS}']}") for a in names]


fours = experiments.load("membership.architectures")  # lab 01's
gap = ahead(shown)[1]
display(overall.against(RATIO if gap > 0.005 else LOSS if gap < -0.005 else ALIKE))
text(
    "With {} networks behind each likelihood the AUC of the ratio less that of the "
    "threshold is {:+.3f} for the ResNet and {:+.3f} for the Swin. With one behind "
    "each, for the networks of lab 01, it is {:+.3f} and {:+.3f}.",
    *(side, *ahead(shown), *ahead(fours)),
)


# %%
def in_print(metric, rows):  # by the ratio
    return plots.published("zhang2024_table3", rows, dataset="CIFAR10", metric=metric)


larger = {
    f"{a}: {what}": f"{metric}[cifar10, {names[a]}, likelihood_ratio]"
    for what, metric in {"AUC": "auc", "attack accuracy": "attack_acc"}.items()
    for a in names
}
printed = in_print("auc", {"ResNet: AUC": "ResNet-50", "Swin: AUC": "Swin-T"})
printed |= in_print("attack_acc", {"Swin: attack accuracy": "Swin-T"})
more = fours.mean(f"{larger['Swin: AUC']} - {larger['ResNet: AUC']}")
higher = "Swin" if more > 0.005 else "ResNet" if more < -0.005 else ALIKE
label = "by the ratio, for the networks of lab 01"
display(family.against(higher))
display(plots.evidence(fours, None, larger, xlabel=label, published=printed))
text(
    "The Swin's AUC less the ResNet's is {:+.3f}, and {:+.3f} in the paper, whose "
    "networks overfit less. Our Swin's ROC is as high at {:.0%} of the FPRs.",
    *(more, printed["Swin: AUC"] - printed["ResNet: AUC"]),
    fours.mean("roc_share_above[cifar10, swin_less_resnet]"),
)

# %% [markdown]
# Is this much for so much training? Two questions are left. Which pictures does an attack get right? And what do more shadow models add?
#
# ## The few who are found
#
# Somebody who wants to harm people needs certainty. So look at the *true-positive rate* (TPR), the share of members that are found, where the *false-positive rate*
# (FPR) is small.
#
# ### Predict

# %%
ask = "At an FPR of 0.1%, which attack finds more of the ResNet's members?"
strict = widgets.choose(ask, [RATIO, LOSS])
strict

# %%
loose, low = rows_of("tpr_at_fpr_0p01"), rows_of("tpr_at_fpr_0p001")
printed = in_print("tpr_at_fpr_0p001", {f"Swin: {RATIO}": "Swin-T"})
pairs = {a: (each.ratios(), each.members) for a, each in answers.items()}
curves = {a: [roc.curve(*map(torch.flatten, pair))] for a, pair in pairs.items()}
at_one = ", ".join(f"{a} {of.at(0.01):.0%}" for a, (of,) in curves.items())
rate = "TPR in percent at an FPR of"
display(
    plots.roc(curves, alt=f"ROC of the ratio. TPR at an FPR of 1%: {at_one}."),
    plots.evidence(kept, mine, loose, xlabel=f"{rate} 1%"),
    plots.evidence(kept, mine, low, xlabel=f"{rate} 0.1%", published=printed),
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
# ### Exercise 3: how many non-members? *(difficulty 1, 5 minutes)*
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
# ## How many shadow models?
#
# The paper follows Carlini et al. 2022, who train up to 256 shadow models. This lab's fleets have six for each victim, and lab 01's have two. How many does one need?
#
# The attack has two more choices in it. It takes *one spread* for all pictures, because three margins hardly say how far they spread. And it asks *one question*,
# about the picture. Carlini et al. also ask about its mirror image, and take the mean.
#
# ### Predict
#
# In the first question you start with four shadow models, and may change one thing. In the second, the attack stays as it is.

# %%
MORE, OWN = "sixteen shadow models", "for each picture its own spread"
MIRROR = "a second question, about the mirror image"
best = widgets.choose("Which change helps the AUC most?", [MORE, OWN, MIRROR])
gain = widgets.predict(
    "With 16 shadow models in place of 2, the TPR at an FPR of 1% rises by",
    *(-50, 50, "points"),
)
display(best, gain)

# %% [markdown]
# Now your machine trains ten more ResNets on halves of the same pictures, about a minute. Then each of them, as a victim, has up to 16 shadow models.

# %%
how = experiments.find(NAME).size(mine.size).settings
kind = shadow_fleets.FAMILIES[how["families"]]["resnet"]
crowd = shadow_fleets.enlarged(said, kind, how["recipe"], models=10)
fleets = answers | {"ResNet": crowd}


def attack(architecture, shadows, mirror=False, **knobs):
    fleet = fleets[architecture]
    keep, phi = fleet.members, fleet.margins(mirror=mirror)
    scores = []
    for pair in range(0, len(keep), 2):  # both are victims; the next pairs are shadows
        turned = (each.roll(-pair, 0)[: shadows + 2] for each in (phi, keep))
        scores.append(lira.every_target(*turned, pairs=True, **knobs)[:2])
    return shadow_fleets.rates(torch.cat(scores), keep)  # of all networks as victims


if victim:
    print(f"{victim}, six shadow models: {attack(victim, 6)}")


# %% [markdown]
# Slide. Each dot is the margin of one shadow model, the bar is the mean and the standard deviation, and the black triangle is the victim. Watch the two means as shadow models
# are added, and what the attack on *all* pictures gains.


# %%
def several(picture, shadow_models):
    at, half = mixed[called.index(picture)], shadow_models // 2
    there = slice(2, 2 + shadow_models)  # behind the victim and its partner
    keep, phi = crowd.members[there, at], crowd.margins()[there, at, 0]
    groups = {f"in: {half} with it": phi[keep], f"out: {half} without it": phi[~keep]}
    means = " and ".join(f"{values.mean():+.1f}" for values in groups.values())
    chart = plots.dots(
        groups, xlabel="margin", live=dict.fromkeys(groups, margins[:1, at]),
        each="one shadow model", yours="the victim",
        alt=f"{picture}, {shadow_models} shadow models; the means are {means}.",
    )  # fmt: skip
    rates = attack("ResNet", shadow_models)
    line = (
        f"Networks behind the likelihoods of this picture: {half} with it, {half} "
        f"without it. Cost: {shadow_models} times the training of the victim. "
        f"All pictures: AUC {rates['auc']:.3f}, and at an FPR of 1% a TPR of "
        f"{rates['tpr_at_fpr_0p01']:.0f}%."
    )
    return widgets.Sentence(line), chart


widgets.explore(several, picture=tuple(called), shadow_models=(2, 4, 8, 16))


# %%
def compare(architecture):
    counts = [n for n in (2, 4, 6, 8, 16) if n + 2 <= fleets[architecture].models]
    ways = {"as measured": {}, "two questions": {"mirror": True}}
    ways["own spread"] = {"variance": "per-example"}
    curves = {}
    for name, knobs in ways.items():  # one network on a side has no spread
        there = counts[name == "own spread" :]
        curves[name] = there, [attack(architecture, n, **knobs)["auc"] for n in there]
    said = fleets[architecture]
    level = shadow_fleets.rates(said.margins()[..., 0], said.members)["auc"]
    most = ", ".join(f"{name} {values[-1]:.3f}" for name, (_, values) in curves.items())
    return plots.lines(
        curves, xlabel="shadow models, half of them with the picture", ylabel="AUC",
        log="x", thresholds={"threshold on the loss": level},
        alt=f"AUC for the {architecture} with {counts[-1]} shadow models: {most}; "
        f"threshold on the loss {level:.3f}.",
    )  # fmt: skip


widgets.explore(compare, architecture=tuple(fleets))

# %%
start = attack("ResNet", 4)["auc"]
gains = {
    MORE: attack("ResNet", 16)["auc"] - start,
    OWN: attack("ResNet", 4, variance="per-example")["auc"] - start,
    MIRROR: attack("ResNet", 4, mirror=True)["auc"] - start,
}
two, sixteen = (attack("ResNet", n)["tpr_at_fpr_0p01"] for n in (2, 16))
display(best.against(max(gains, key=gains.get)), gain.against(round(sixteen - two, 1)))
owns = [attack("ResNet", n, variance="per-example")["auc"] for n in (4, 16)]
text(
    "For your ResNets the AUC changes by {:+.3f} with sixteen shadow models in place "
    "of four, by {:+.3f} with an own spread, and by {:+.3f} with the mirror image. The "
    "TPR at an FPR of 1% is {:.0f}% with two shadow models and {:.0f}% with sixteen. "
    "An own spread has an AUC of {:.3f} with four and {:.3f} with sixteen.",
    *(*gains.values(), two, sixteen, *owns),
)

# %% [markdown]
# One spread for all pictures can be estimated with one network on each side, because the margins of all pictures go into it. A spread for each picture comes from the few
# margins of this picture. With two of them on a side it is mostly chance.
#
# Carlini et al. *train* with mirror images, so their networks know them. Ours never saw one. Here the second answer says little about the picture, and the mean dilutes
# the first. An attacker asks about what the training showed.
#
# There are more choices, and there is an attack for few shadow models: see [a deeper notebook](deeper/02_choices.ipynb). Whether a Swin leaks more than a ResNet at
# the same overfitting level is the question of [one of lab 01](deeper/01_same_overfitting.ipynb). You need neither for what follows.

# %% [markdown] tags=["printed"]
# ### Exercise 4: "shadow models add nothing" *(difficulty 2, 10 minutes)*
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
    "Swin. More of them help less than the right question: for the ResNets of your run "
    "the AUC is {:.3f} with two shadow models, {:.3f} with sixteen, and {:.3f} with "
    "sixteen that are also asked about the mirror image, which the training never "
    "showed.",
    *(shown.mean(loose[f"ResNet: {kind}"]) for kind in attacks),
    *(shown.mean(name) for name in auc.values()),
    *(attack("ResNet", n)["auc"] for n in (2, 16)),
    attack("ResNet", 16, mirror=True)["auc"],
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. follow Carlini et al. with ResNet-50 and 101, Swin-T and S, on CIFAR-10 and CIFAR-100 (Zhang et al., Table 3; Zhang et al., Figure 2). We have small networks of the same families, and CIFAR-10. Each network of
# this lab is trained on 200 pictures, and knows nearly all of them. The networks of lab 01, by which most claims below are judged, are trained on thousands, and know all of them. Every network is a victim once, and the victims share their shadow models. So the
# true spread is a little wider than the printed one. The formulas are the paper's, not the public code's.

# %%
widgets.verdicts("02")

# %% [markdown]
# ## What would change our mind
#
# - Networks that are trained with mirror images. If a second question does not help the ratio even then, what the training showed is not the reason.
# - Dozens of shadow models. If an own spread for each picture is not better than one for all then, the few margins were not the reason.
# - A victim that has seen millions of pictures, and memorises few of them. There, easy pictures are the rule, and the threshold should suffer more.
#
# ## Read on
#
# The attack comes from Carlini et al. 2022, and the question from section 4.2 of Zhang et al. 2024. Lab 03 asks what a representation knows. A deeper notebook of
# lab 10 asks which part of an architecture moves these numbers, and one of lab 13 what to do about it.
