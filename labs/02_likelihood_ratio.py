# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02 · The likelihood-ratio attack: is this image easier than it should be?
#
# In lab 01 you accused the images with the lowest loss. But a plain white ship on blue water has a low loss whether the model has seen it or not. Ask instead: *how would a model answer that has never seen this very image, and how one that has?*
#
# That is LiRA (Carlini et al. 2022), the second attack of Zhang et al. 2024 (Table 3, Figure 2). It needs many shadow models. In return it finds members
# with hardly a false accusation.
#
# After it you can
# - train a fleet in which each image is in exactly half of the models, interrupt it, and go on;
# - compute a likelihood ratio from raw logits, online and offline, and say why the logits must be raw;
# - read a true-positive rate at .1% false positives, with its interval, and refuse one that deserves none;
# - say what more shadow models buy, and what to do when there are few.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.7 | 1.4 GB |
# | class | 3 | 1.5 GB |

# %% [markdown]
# *You need* lab 01. *Words that are new here*: **keep matrix**, **fleet**, **margin**, **likelihood ratio**, **online**, **offline**, **reference models**.

# %%
import warnings
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from privlab import compute, data, experiments, ledger, models
from privlab.attacks import membership_inference
from privlab.experiments import shadow_fleets
from privlab.metrics import roc
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # beside the two networks, another model of timm: "mobilenetv3_small_050"

# %%
device = compute.device(device)
names = {"ResNet": "resnet", "Swin": "swin"}

# %% [markdown]
# ## The keep matrix
#
# The **keep matrix** says which model is trained on which image. It is drawn once and written to disk before any training. Each image must be in *exactly*
# half of the models. Drawn with a coin, some would be in almost none.

# %%
print(getsource(data.in_out))

# %% [markdown]
# Here the models come in *pairs*: what the one is trained on the other is not (the trap below says why).

# %%
print(data.in_out(10, 8, seed=0, pairs=True).int())

# %% [markdown]
# ## The fleets
#
# A **fleet** is many models of one architecture, trained alike on the rows of one matrix. Each is asked about every image twice: as it is, and mirrored. A fleet that was
# stopped goes on where it was; one that is there already is read from disk.

# %%
mine = experiments.run("likelihood_ratio.fleet", profile, device=device)
kept = experiments.load("likelihood_ratio.fleet")
print(kept, mine, sep="\n")

# %%
guest = (victim, models.sized(victim, 32)) if victim else None
shown = shadow_fleets.shown("likelihood_ratio.fleet", profile, [*names.values()], device, guest)
answers = dict(zip([*names, victim], shown.values(), strict=False))
for architecture, said in answers.items():
    train, test = (each.mean().item() for each in said.accuracies())
    print(f"{architecture}: {train:.3f} of members right, {test:.3f} of all others")

# %% [markdown]
# ## What is read off the logits
#
# The **margin** is the logit of the true class less the (soft) maximum of all others, $\varphi = \log \frac{p_y}{1 - p_y}$. Over models it is near a Gaussian,
# which probabilities, squeezed against 1, never are.

# %%
print(getsource(membership_inference.signals.margin), getsource(membership_inference.signals.log_odds), sep="\n\n")

# %%
phi = {architecture: said.margins() for architecture, said in answers.items()}  # (models, images, queries)
audited = answers["ResNet"].members  # (models, images)
fleet_size, size = audited.shape
print(f"{fleet_size} models; each image in {audited.sum(0).unique().tolist()} of them")

# %% [markdown]
# Why not compute $\log(p / (1 - p))$ from the probabilities? Here is an image of which a model is quite sure:

# %%
sure = torch.tensor([[20.0, 0.0, 0.0]])
p = sure.softmax(1)[0, 0]
print(f"float32: p = {p:.10f}, log(p / (1 - p)) = {(p / (1 - p)).log():.4f}")
print(f"from the logits, in float64: {membership_inference.signals.margin(sure, torch.tensor([0])).item():.4f}")

# %% [markdown]
# ## One image
#
# Model 0 is the *target*, the model under attack. Half of the others were trained on this image and half were not; their margins are the ticks. A Gaussian is fitted to either half.
# Find an image where the two lie apart: it leaves a mark on whoever is trained on it.

# %%
pixels, labels = shadow_fleets.pictures("likelihood_ratio.fleet", profile)
classes = data.load("cifar10").classes
others = torch.arange(fleet_size) > 1  # not the target, and not its partner, which holds the answer
shown = range(0, size, max(1, size // 20))


def look(architecture, image):
    said, inside = phi[architecture], audited[:, image]
    fit = [field[image, 0].item() for field in membership_inference.lira.gaussians(said[others], audited[others])]
    values = [said[others & side][:, image, 0] for side in (inside, ~inside)]
    truth = "was" if inside[0] else "was not"
    kind = classes[labels[image]]
    said_so = f"image {image}, {kind}: the target {truth} trained on it; in {fit[0]:.1f} ± {fit[1]:.1f}, out {fit[2]:.1f} ± {fit[3]:.1f}"
    photo = plots.side_by_side(pixels[image : image + 1] / 255, titles=[said_so], alt=f"Photograph {image}, {kind}.")
    alt = f"{architecture}, {said_so}."
    return photo, plots.gaussians(*values, fit, said[0, image, 0].item(), xlabel="margin of the true class", alt=alt)


widgets.explore(look, architecture=tuple(answers), image=tuple(shown))

# %% [markdown]
# The score of the image is the logarithm of the **likelihood ratio**: how many times likelier the target's margin is under "in" than under "out". It is averaged over the two queries.

# %%
print(getsource(membership_inference.lira.score).split('"""')[-1], getsource(membership_inference.lira.statistic))

# %% [markdown]
# ### Before you go on: predict
#
# Allow yourself 1% of false accusations. A coin then finds 1% of the members, and the loss threshold of lab 01 a few per cent. What percentage does the likelihood ratio find, on the
# ResNet?

# %%
guess = widgets.predict("true-positive rate at 1% false positives:", low=0, high=100, unit="%")
guess

# %% [markdown]
# ## All models as targets
#
# Every model of a fleet can be the target once, with all others but its partner as shadows: one fleet, many attacks.

# %%
scores = {}  # (architecture, attack) -> (models, images)
for architecture in answers:
    scores[architecture, "likelihood ratio"] = membership_inference.lira.every_target(
        phi[architecture], audited, pairs=True
    )
    scores[architecture, "loss threshold"] = phi[architecture][..., 0]  # orders images as the loss does
warnings.filterwarnings("ignore", "fpr=")  # few non-members make a rate rough; its interval says so


def tpr(scored, member, fpr):
    """The true-positive rate of one target, or why there is none."""
    try:
        return roc.tpr_at(scored, member, fpr)
    except ValueError as refused:
        return refused


for (architecture, kind), scored in scores.items():
    aucs = [roc.auc(s, member) for s, member in zip(scored, audited, strict=True)]
    print(f"{architecture}, {kind}: AUC {np.mean(aucs):.3f} over {len(aucs)} targets; model 0 alone:")
    print(*(f"  at {fpr:.1%}: {tpr(scored[0], audited[0], fpr)}" for fpr in (0.01, 0.001)), sep="\n")

# %% [markdown]
# A rate at 0.1% of some hundred non-members would rest on a fraction of one image, so it is refused. With a few thousand it rests on a handful, and the interval says how little
# that is: it counts both uncertainties, of the members found and of the threshold.

# %%
for architecture in names:  # one figure each: four bands would lie over each other
    curves = {
        f"{architecture}, {kind}": [roc.curve(s, member) for s, member in zip(scored, audited, strict=True)]
        for (a, kind), scored in scores.items() if a == architecture
    }  # fmt: skip
    display(plots.roc(curves, alt=f"ROC of two attacks on the {architecture}, on logarithmic axes, mean and range over targets."))  # fmt: skip

# %% [markdown]
# Over all targets of a repeat together, which makes thousands of non-members:

# %%
attacks = {"likelihood ratio": "likelihood_ratio", "loss threshold": "loss_threshold"}
for metric, words in (("tpr_at_fpr_0p01", "members found at 1% false positives, in percent"), ("auc", "AUC")):
    rows = {f"{a}: {kind}": f"{metric}[cifar10, {names[a]}, {key}]" for a in names for kind, key in attacks.items()}
    display(plots.evidence(kept, mine, rows, xlabel=words))
guess.against(mine.mean("tpr_at_fpr_0p01[cifar10, resnet, likelihood_ratio]"))

# %% [markdown]
# Whoever wants to harm somebody works on the left of the curve. These victims know all of their few images, so a threshold on the loss is a strong attack already; the fewer images
# a victim has seen, the less it matters whether one of them was easy.

# %% [markdown]
# ## The knobs
#
# **Online**, the attacker trains models with the image and without. **Offline**, he trains them before he knows whom he will ask about, so none is "in", and he asks only how
# unusual the margin would be for a non-member.

# %% [markdown]
# *Variance*: few models estimate the spread of each image badly. Then one spread for all images does better. `fixed` takes that of all scores, as the authors' code does; `pooled` (ours) the mean
# spread *within* an image.
#
# *Protocol*: the authors' public code departs from their paper at several places; `lira` has both, and says where they differ.

# %%
knobs = [
    dict(online=online, variance=variance, protocol=protocol)
    for online in (True, False) for variance in membership_inference.lira.VARIANCES for protocol in membership_inference.lira.PROTOCOLS
]  # fmt: skip
rows = []
for knob in knobs:
    row = dict(knob)
    for architecture in names:
        rates = shadow_fleets.rates(answers[architecture].ratios(**knob), audited)
        row[f"AUC, {architecture}"] = rates["auc"]
        row[f"TPR at 1%, {architecture}"] = rates["tpr_at_fpr_0p01"]
    rows.append(row)
pd.DataFrame(rows).set_index(["online", "variance", "protocol"]).round(3)

# %%
rows = {f"{a}: {kind}": f"auc[cifar10, {names[a]}, {key}]" for a in names for kind, key in (("online", "likelihood_ratio"), ("offline", "offline"))}  # fmt: skip
plots.evidence(kept, mine, rows, xlabel="AUC")

# %% [markdown]
# ## How many models?
#
# Because the models come in pairs, any even number from the start is a fleet of its own. So the question costs no training.

# %% [markdown]
# One more attack joins here: **RMIA** (Zarifzadeh et al. 2024) fits no Gaussian. It divides the target's confidence by the mean confidence of the shadow models, here called **reference models**, and
# asks for how many *other* images, which nobody was trained on, that ratio is at most half as large.

# %% [markdown]
# ### Before you look: predict
#
# How much AUC is lost if the fleet has only six models, the target included? (AUC, the area under the ROC, is the chance that a member scores above a non-member.)

# %%
loss_guess = widgets.predict("AUC of the whole fleet less AUC of six models, on the ResNet:", low=-0.05, high=0.2)
loss_guess


# %%
def by_count(architecture, measure):
    """For a chart: attack -> {number of models: name of what is measured there}."""
    metric, key = {"AUC": "auc", "TPR at 1%": "tpr_at_fpr_0p01"}[measure], names[architecture]
    counts = [n for n in (6, 8, 16, 32, 64) if f"auc[cifar10, {key}, fixed, models_{n}]" in mine.table]
    kinds = {"ratio, fixed": "fixed", "ratio, pooled": "pooled", "RMIA": "rmia"}
    return {kind: {n: f"{metric}[cifar10, {key}, {word}, models_{n}]" for n in counts} for kind, word in kinds.items()}


def over_counts(architecture, measure):
    series = by_count(architecture, measure)
    return plots.evidence_lines(kept, mine, series, xlabel="models in the fleet (the target included)", ylabel=measure)


few, all_of_them = "auc[cifar10, resnet, fixed, models_6]", "auc[cifar10, resnet, likelihood_ratio]"
display(loss_guess.against(round(mine.mean(all_of_them) - mine.mean(few), 4)))
widgets.explore(over_counts, architecture=tuple(names), measure=("AUC", "TPR at 1%"))

# %% [markdown]
# ## CNN and Transformer
#
# In the paper (Table 3, Figure 2) the attack on a Swin does better than that on the ResNet of its size, by AUC, and at every false-positive rate. Lab 01 has measured it: both architectures on one draw of images, four models of each.

# %%
pair = experiments.load("membership.architectures")
live = None if len(pair) else experiments.run("membership.architectures", profile, device=device)
rows = {a: f"auc[cifar10, {names[a]}, likelihood_ratio]" for a in names}
share = {"rates at which the Swin's curve lies on or above": "roc_share_above[cifar10, swin_less_resnet]"}
display(
    plots.evidence(pair, live, rows, xlabel="AUC", published={"ResNet": 0.6446, "Swin": 0.7384}),
    plots.evidence(pair, live, share, xlabel="share of the false-positive rates"),
)

# %%
if victim:
    rates = shadow_fleets.rates(answers[victim].ratios(), audited)
    print(f"{victim}: AUC {rates['auc']:.3f}, {rates['tpr_at_fpr_0p01']:.1f}% of members found at 1% false positives")

# %% [markdown]
# Mind the overfitting level, though: with the same images and the same epochs the two do not overfit alike. Lab 01 shows what to do about that.

# %% [markdown]
# ## A trap: exactly half
#
# Suppose that the models did not come in pairs. Each image is still in exactly half of, say, eight models. Take model 0 as the target and count how many of the *other seven* hold an image. If four, the
# target does not; if three, it does. So the answer stands in the shadows' own rows.
#
# No score should depend on it. Let us see with margins that are pure noise: an honest attack has an AUC of 0.5.

# %%
noise = experiments.run("likelihood_ratio.noise", profile, device=device)
rows = {"not in pairs": "auc[noise, unpaired]", "in pairs": "auc[noise, paired]"}
plots.evidence(experiments.load("likelihood_ratio.noise"), noise, rows, xlabel="AUC on noise (0.5 knows nothing)")

# %% [markdown]
# The AUC is *below* one half. A mean and a spread from three models lie further off than those from four, so the target fits its own side a little worse, whichever
# that is: members look like strangers, most of all with few models. In pairs, with the target's partner left out, both sides have three models, always.

# %% [markdown]
# ## Exercise 1: the ratio by hand
#
# Write `log_ratio(victim, inside, outside)`: the victim's margin, a number (a tensor without dimensions); the margins of models that were trained on the image, and of
# those that were not, two tensors. Fit a Gaussian to either (mean, and standard deviation over n - 1), and return the logarithm of how many times likelier the
# victim's margin is under "in". It should hold for a victim far out, too.
#
# <details><summary>Hint</summary>`torch.distributions.Normal(mean, std).log_prob(x)` is the logarithm of a Gaussian's density. What becomes of a ratio?</details>


# %% tags=["exercise"]
def log_ratio(victim, inside, outside): ...


# %% tags=["solution"]
def log_ratio(victim, inside, outside):
    fitted = [torch.distributions.Normal(side.mean(), side.std()) for side in (inside, outside)]
    densities = [fit.log_prob(torch.as_tensor(victim, dtype=inside.dtype)) for fit in fitted]
    return (densities[0] - densities[1]).item()


# %%
checks.verify("02.log_ratio", log_ratio)

# %% [markdown]
# ## Exercise 2: four bugs
#
# Here is an attack as one finds it on the net. It runs, and it prints a number. Four mistakes are in it, each of which has stood in public code. Mend these and leave the rest.
# `keep` says which model was trained on which image and comes from disk; `pixels` are normalised already. It returns one score an image, higher for members.
# Show every model the image as it was given. Models may come in any mode.
#
# <details><summary>Hint</summary>In which mode is a model asked? Is each model asked the same question? What is left of a sure answer in float32? Is the score higher for members? The check tells which kind of mistake is left.</details>


# %% tags=["exercise"]
def attack_from_the_net(victim, models, keep, pixels, labels):
    def ask(model):
        with torch.no_grad():
            model.train()
            shift = torch.randint(-1, 2, (1,)).item()  # a random crop, as in training
            p = model(pixels.roll(shift, -1)).softmax(1)[torch.arange(len(labels)), labels]
            return (p / (1 - p)).log()

    said = torch.stack([ask(model) for model in models])  # (models, n)
    outside = [said[~keep[:, i], i] for i in range(len(labels))]
    mean = torch.stack([each.mean() for each in outside])
    std = torch.stack([each.std() for each in outside])
    return (mean - ask(victim)) / std


# %% tags=["solution"]
def attack_from_the_net(victim, models, keep, pixels, labels):
    def ask(model):
        with torch.no_grad():
            model.eval()  # BatchNorm and dropout would answer differently in train mode
            return membership_inference.signals.margin(
                model(pixels), labels
            )  # one question for all, from the raw logits

    said = torch.stack([ask(model) for model in models])  # (models, n)
    outside = [said[~keep[:, i], i] for i in range(len(labels))]
    mean = torch.stack([each.mean() for each in outside])
    std = torch.stack([each.std() for each in outside])
    return (ask(victim) - mean) / std  # unusually *high* for a non-member: a member


# %%
checks.verify("02.four_bugs", attack_from_the_net)

# %% [markdown]
# ## Exercise 3: how many non-members?
#
# A colleague reports a true-positive rate at .1% false positives from 500 non-members. How many does it need so that one false positive is allowed? And so that ten are? Give a pair of numbers.
#
# <details><summary>Hint</summary>How many false positives does a rate of one in a thousand allow among n non-members?</details>

# %% tags=["exercise"]
for_one_and_for_ten = ...

# %% tags=["solution"]
for_one_and_for_ten = (1_000, 10_000)

# %%
checks.verify("02.non_members", for_one_and_for_ten)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. follow Carlini et al.'s protocol with ResNet-50 and 101, Swin-T and S on CIFAR-10 and CIFAR-100 (Table 3, Figure 2). With small members of the same families the verdict is about the direction. The last rows are ours.

# %%
ledger.show("02")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and number.** Eight small models of each architecture, which know 200 images each. So few images are all known by heart, and any attack finds most of them.
# - **Trained to the end**, as the paper's victims are (more than 0.99 of their training images right, section 4.1), but without its mixup and cutmix, which would take its 300 epochs.
# - **Pairs.** Complementary halves with the partner left out; see the trap.
# - **Fixed variance**, as Carlini et al. advise for fewer than 64 models. Scores follow the paper's formulas, not the public code; the table of knobs has both.
# - **Every model is a target.** The targets share their shadow models, so the true spread is a little wider than the one printed.
# - **Two queries**, the image and its mirror image, as Carlini et al.

# %% [markdown]
# ## Summary
#
# - Ask of each image how a model answers that has seen it, and one that has not.
# - Raw logits, float64, eval mode, one question for all models: each shortcut costs the tail first.
# - Report the true-positive rate at few false positives, with its interval and the number of non-members.
# - With few models share the variance. With none "in", ask offline or use reference models; with very few, try both.
# - Exactly half must be kept on resume, and kept from the attack.

# %% [markdown]
# ## Where to read on
#
# Carlini et al. 2022 is the paper behind the attack; Zarifzadeh et al. 2024 behind RMIA; Zhang et al. 2024, section 4.2, behind the question. Lab 10 asks which part of the architecture moves these numbers, lab 13 what to do about it.
