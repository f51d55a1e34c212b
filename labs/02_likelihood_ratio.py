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
# | class | 10 | 2.7 GB |
# | gpu | 10 | 8 GB |
# | paper | 20000 | 12 GB |
#
# (Measured on two CPU cores, a second process included; the last two rows are estimates. The `gpu` row is one part: the trainings stop when its time is over, and
# the next run goes on from there. `paper` is for a cluster.)

# %% [markdown]
# *You need* lab 01. *Words that are new here*: **fleet**, **margin**, **likelihood ratio**, **online**, **offline**, **reference models**.

# %%
import statistics
import time
import warnings
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from privlab import data, ledger, models, training
from privlab.attacks import membership_inference
from privlab.metrics import roc
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"
victim = ""  # beside the profile's networks, another model of timm: "mobilenetv3_small_050"
part_minutes = 8  # at gpu: how long the trainings of one part may take

# %%
page = ledger.Page("02", profile=profile, seed=seed, device=device)
small = {
    "ResNet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "Swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
}
full = {"ResNet": ("resnet50_cifar", {}), "Swin": ("swin_tiny_cifar", {})}
larger = {"ResNet-101": ("resnet101_cifar", {}), "Swin-S": ("swin_small_cifar", {})}
# families, image sets, models, images, images that no model sees, recipe
family, sets, fleet_size, size, unseen, recipe = {
    "smoke": (small, ["cifar10"], 6, 400, 200, "membership_smoke"),
    "class": (small, ["cifar10"], 10, 4_000, 1_000, "membership_laptop"),
    "gpu": (full, ["cifar10"], 8, 20_000, 5_000, "zhang2024_membership"),
    "paper": (full | larger, ["cifar10", "cifar100"], 64, 50_000, 10_000, "zhang2024_membership"),
}[profile]
if victim:  # recorded under its own name: no claim is about it
    family = family | {victim: (victim, models.sized(victim, 32))}
short = {name: ledger.key(name) for name in family}
recipe = training.RECIPES[recipe]
deadline = time.monotonic() + 60 * part_minutes if profile == "gpu" else None

# %% [markdown]
# ## The keep matrix
#
# It says which model is trained on which image, and is drawn once and written to disk before any training. Each image must be in *exactly*
# half of the models. Drawn with a coin, some would be in almost none.

# %%
print(getsource(data.in_out))

# %% [markdown]
# Here the models come in *pairs*: what the one is trained on the other is not (the trap below says why). The last columns are images
# that no model sees; one attack needs them.

# %%
keep = torch.cat(
    [data.in_out(size, fleet_size, seed, pairs=True), torch.zeros(fleet_size, unseen, dtype=torch.bool)], dim=1
)
audited = keep[:, :size]  # the images that may be members
print(
    f"{fleet_size} models; each image in {audited.sum(0).unique().tolist()} of them; {audited.sum(1).tolist()} images a model"
)


def images_of(name):
    """The first training images of a set, then some of its test images: a pair of pixels and labels."""
    seen, other = (
        training.batches.subset(data.load(name), range(size)),
        training.batches.subset(data.load(name, "test"), range(unseen)),
    )
    return torch.cat([seen[0], other[0]]), torch.cat([seen[1], other[1]])


# %% [markdown]
# ## The fleets
#
# A **fleet** is many models of one architecture, trained alike on the rows of one matrix. Each is asked about every image twice: as it is, and mirrored. A fleet that was
# stopped goes on where it was; one that is there already is read from disk.

# %%
fleets = {}
for name in sets:
    for architecture, (zoo_name, changes) in family.items():
        fleets[name, architecture] = training.shadow_models.make(
            zoo_name, recipe, images_of(name), keep, model={**changes, "num_classes": len(data.load(name).classes)},
            normalise=data.NORMALISE[name], seed=seed, queries=("image", "mirror"), device=page.device,
        )  # fmt: skip
        fleets[name, architecture].train(budget=deadline and max(deadline - time.monotonic(), 0))

# %%
if unfinished := [fleet for fleet in fleets.values() if not all(run.complete for run in fleet.runs)]:
    raise TimeoutError(f"this part's time is over; run the lab again, and it goes on from here: {unfinished}")
main = sets[0]
about = dict(
    mode="eval", victim=f"trained {recipe.epochs} epochs", note="; ".join(f"{k}: {v[0]}" for k, v in family.items())
)
for (name, architecture), fleet in fleets.items():
    train, test = fleet.accuracy()
    print(f"{name}, {architecture}: {train.mean():.3f} of members right, {test.mean():.3f} of all others")
    page.record("task_acc", [name, short[architecture]], test, **about)

# %% [markdown]
# ## What is read off the logits
#
# The **margin** is the logit of the true class less the (soft) maximum of all others, $\varphi = \log \frac{p_y}{1 - p_y}$. Over models it is near a Gaussian,
# which probabilities, squeezed against 1, never are.

# %%
print(getsource(membership_inference.signals.margin), getsource(membership_inference.signals.log_odds), sep="\n\n")
phi = {
    key: fleet.signal(membership_inference.signals.margin)[:, :size] for key, fleet in fleets.items()
}  # (models, images, queries)

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
photos = data.load(main)
others = torch.arange(fleet_size) > 1  # not the target, and not its partner, which holds the answer
shown = range(0, size, max(1, size // 20))


def look(architecture, image):
    said, inside = phi[main, architecture], audited[:, image]
    fit = [field[image, 0].item() for field in membership_inference.lira.gaussians(said[others], audited[others])]
    values = [said[others & side][:, image, 0] for side in (inside, ~inside)]
    truth = "was" if inside[0] else "was not"
    kind = photos.classes[photos.labels[image]]
    said_so = f"image {image}, {kind}: the target {truth} trained on it; in {fit[0]:.1f} ± {fit[1]:.1f}, out {fit[2]:.1f} ± {fit[3]:.1f}"
    photo = plots.side_by_side(photos.one(image)[0], titles=[said_so], alt=f"Photograph {image}, {kind}.")
    alt = f"{architecture}, {said_so}."
    return photo, plots.gaussians(*values, fit, said[0, image, 0].item(), xlabel="margin of the true class", alt=alt)


widgets.explore(look, architecture=tuple(family), image=tuple(shown))

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
attacks = {
    "likelihood ratio": lambda key: membership_inference.lira.every_target(phi[key], audited, pairs=True),
    "loss threshold": lambda key: phi[key][..., 0],  # orders images as the loss does
}
scores = {(key, kind): attack(key) for key in fleets for kind, attack in attacks.items()}  # each (models, images)
warnings.filterwarnings("ignore", "fpr=")  # few non-members make a rate rough; its interval says so


def tprs(scored, fpr):
    """The true-positive rate of every target, or why there is none."""
    try:
        return [roc.tpr_at(s, member, fpr) for s, member in zip(scored, audited, strict=True)]
    except ValueError as refused:
        return str(refused)


for architecture in family:
    for kind in attacks:
        scored = scores[(main, architecture), kind]
        aucs = [roc.auc(s, member) for s, member in zip(scored, audited, strict=True)]
        print(f"{architecture}, {kind}\n  AUC {roc.over_targets(aucs, seed=seed)}")
        for fpr in (0.01, 0.001):
            rates = tprs(scored, fpr)
            print(f"  at {fpr:.1%}: {rates}" if isinstance(rates, str) else f"  model 0: {rates[0]}")

# %% [markdown]
# A rate at .1% of some hundred non-members would rest on a fraction of one image, so it is refused. With a few thousand it rests on a handful, and the interval says how little
# that is: it counts both uncertainties, of the members found and of the threshold.

# %%
curves = {
    f"{architecture}, {kind}": [roc.curve(s, member) for s, member in zip(scores[(main, architecture), kind], audited, strict=True)]
    for architecture in list(family)[:2] for kind in attacks
}  # fmt: skip
at_one = {name: np.mean([roc.band([c], [0.01])[1][0] for c in several]) for name, several in curves.items()}

for architecture in list(family)[:2]:  # one figure each: four bands would lie over each other
    shown = {name: several for name, several in curves.items() if name.startswith(architecture)}
    said = ", ".join(f"{name} {at_one[name]:.1%}" for name in shown)
    display(
        plots.roc(shown, alt=f"ROC on logarithmic axes, mean and range over targets; at 1% false positives: {said}.")
    )

# %%
guess.against(100 * at_one["ResNet, likelihood ratio"])

# %% [markdown]
# At `laptop` the ratio is somewhat better on the right of the curve, and on the left, at 1%, it finds about three to five times as many members. At `smoke`, with six models of 200
# images, no difference can be relied on. Whoever wants to harm somebody works on the left.


# %%
def rates_of(key, kind, fpr):
    rates = tprs(scores[key, kind], fpr)
    return None if isinstance(rates, str) else torch.tensor([rate.value for rate in rates])


for key in fleets:
    name, architecture = key[0], short[key[1]]
    for kind in attacks:
        aucs = [roc.auc(s, member) for s, member in zip(scores[key, kind], audited, strict=True)]
        page.record("auc", [name, architecture, kind.replace(" ", "_")], aucs, **about)
        for metric, fpr in (("tpr_at_fpr_0p01", 0.01), ("tpr_at_fpr_0p001", 0.001)):
            if (rates := rates_of(key, kind, fpr)) is not None:
                page.record(metric, [name, architecture, kind.replace(" ", "_")], 100 * rates, unit="percent", **about)
    if (rates := rates_of(key, "likelihood ratio", 0.01)) is not None:
        lead = 100 * (rates - rates_of(key, "loss threshold", 0.01))
        page.record(
            "tpr_at_fpr_0p01_difference", [name, architecture, "ratio_less_threshold"], lead, unit="percent", **about
        )

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
    for architecture in list(family)[:2]:
        scored = membership_inference.lira.every_target(phi[main, architecture], audited, pairs=True, **knob)
        row[f"AUC, {architecture}"] = np.mean([roc.auc(s, k) for s, k in zip(scored, audited, strict=True)])
        row[f"TPR at 1%, {architecture}"] = np.mean([r.value for r in tprs(scored, 0.01)])
    rows.append(row)
pd.DataFrame(rows).set_index(["online", "variance", "protocol"]).round(3)

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
counts = [count for count in (6, 8, 10, 16, 32, 64) if count <= fleet_size]
sure_of = {
    a: fleets[main, a].signal(membership_inference.signals.confidence)[..., 0] for a in list(family)[:2]
}  # (models, all images)


def by_count(architecture, count):
    """AUC of every target, for three attacks, with the first `count` models of a fleet."""
    said, inside, sure = phi[main, architecture][:count], audited[:count], sure_of[architecture][:count]
    found = {
        "ratio, fixed": membership_inference.lira.every_target(said, inside, pairs=True),
        "ratio, pooled": membership_inference.lira.every_target(said, inside, variance="pooled", pairs=True),
        "RMIA": membership_inference.rmia.every_target(sure[:, :size], inside, sure[:, size:], pairs=True),
    }
    return {
        kind: [(roc.auc(s, k), roc.tpr_at(s, k, 0.01).value) for s, k in zip(scored, inside, strict=True)]
        for kind, scored in found.items()
    }


by_counts = {(a, count): by_count(a, count) for a in list(family)[:2] for count in counts}


# %%
def over_counts(architecture, measure):
    column = ("AUC", "TPR at 1%").index(measure)
    series = {}
    for kind in ("ratio, fixed", "ratio, pooled", "RMIA"):
        values = [np.array(by_counts[architecture, count][kind])[:, column] for count in counts]
        series[kind] = (counts, [v.mean() for v in values], [v.std(ddof=1) for v in values])
    ends = ", ".join(f"{kind} {y[0]:.3f} to {y[-1]:.3f}" for kind, (_, y, _) in series.items())
    alt = f"{measure} on the {architecture} against the number of models, with one standard deviation over targets as a band: {ends}."
    return plots.lines(series, xlabel="models in the fleet (the target included)", ylabel=measure, alt=alt)


ends = [np.mean([a for a, _ in by_counts["ResNet", count]["ratio, fixed"]]) for count in (counts[-1], counts[0])]
display(loss_guess.against(round(float(ends[0] - ends[1]), 4)))
widgets.explore(over_counts, architecture=tuple(family)[:2], measure=("AUC", "TPR at 1%"))

# %%
for architecture in list(family)[:2]:
    online = scores[(main, architecture), "likelihood ratio"]
    offline = membership_inference.lira.every_target(phi[main, architecture], audited, online=False, pairs=True)
    gap = [roc.auc(a, k) - roc.auc(b, k) for a, b, k in zip(online, offline, audited, strict=True)]
    page.record("auc_difference", [main, short[architecture], "online_less_offline"], gap, **about)
    if (few := by_counts.get((architecture, 8))) is None:
        continue
    gap = np.array(few["ratio, pooled"])[:, 1] - np.array(few["ratio, fixed"])[:, 1]
    page.record(
        "tpr_at_fpr_0p01_difference",
        [main, short[architecture], "pooled_less_fixed", "models_8"],
        100 * gap,
        unit="percent",
        **about,
    )

# %% [markdown]
# ## CNN and Transformer
#
# In the paper (Table 3, Figure 2) the attack on a Swin does better than that on the ResNet of its size, by AUC, and at every false-positive rate. Ours are compared model by
# model, on the same images.

# %%
for name in sets:
    for one, other in (("Swin", "ResNet"), ("Swin-S", "ResNet-101")):
        if one not in family:
            continue
        keys = [name, f"{short[one]}_less_{short[other]}"]
        pair = [scores[(name, a), "likelihood ratio"] for a in (one, other)]
        gap = [roc.auc(a, k) - roc.auc(b, k) for a, b, k in zip(*pair, audited, strict=True)]
        page.record("auc_difference", keys, gap, **about)
        print(f"{name}: AUC of {one} less {other}: {roc.over_targets(gap, seed=seed)}")
        cuts = [roc.others_thresholds(scored, audited) for scored in pair]  # from all other models, as an attacker must
        right = [
            [roc.accuracy(s, k, cut) for s, k, cut in zip(scored, audited, at, strict=True)]
            for scored, at in zip(pair, cuts, strict=True)
        ]
        page.record("ratio_acc_difference", keys, np.subtract(*right), **about)
        rates = [rates_of((name, a), "likelihood ratio", 0.001) for a in (one, other)]
        if rates[0] is not None:
            page.record("tpr_at_fpr_0p001_difference", keys, 100 * (rates[0] - rates[1]), unit="percent", **about)
        lowest = 10 / (size / 2)  # ten non-members: left of that a curve is not resolved
        grid = np.geomspace(max(lowest, 0.001), 0.5, 100)  # on the right all curves meet
        tpr = [[roc.band([roc.curve(s, k)], grid)[1] for s, k in zip(scored, audited, strict=True)] for scored in pair]
        page.record("roc_share_above", keys, (np.array(tpr[0]) >= np.array(tpr[1])).mean(1), **about)

# %%
levels = {a: (train - test).mean().item() for a in family for train, test in [fleets[main, a].accuracy()]}
print("overfitting level:", ", ".join(f"{a} {level:.3f}" for a, level in levels.items()))

# %% [markdown]
# Mind the overfitting level, though: with the same images and the same epochs the two do not overfit alike. Lab 01 shows what to do about that.

# %% [markdown]
# ## A trap: exactly half
#
# Suppose that the models did not come in pairs. Each image is still in exactly half of, say, eight models. Take model 0 as the target and count how many of the *other seven* hold an image. If four, the
# target does not; if three, it does. So the answer stands in the shadows' own rows.
#
# No score should depend on it. Let us see with margins that are pure noise: an honest attack has an AUC of .5.


# %%
def on_noise(pairs, online=True, variance="per-example", count=8, images=20_000, repeats=5):
    found = []
    for repeat in range(repeats):
        noise = torch.randn(
            count, images, 1, generator=torch.Generator().manual_seed(seed + repeat), dtype=torch.float64
        )
        rows = data.in_out(images, count, seed + repeat, pairs=pairs)
        scored = membership_inference.lira.every_target(noise, rows, online=online, variance=variance, pairs=pairs)
        found.append(statistics.mean(roc.auc(s, k) for s, k in zip(scored, rows, strict=True)))
    return found


for pairs in (False, True):
    found = on_noise(pairs)
    page.record(
        "auc",
        ["noise", "paired" if pairs else "unpaired"],
        found,
        mode="eval",
        victim="none: noise in place of margins",
    )
    print(
        f"{'in pairs' if pairs else 'not in pairs'}: AUC on noise {statistics.mean(found):.4f} (std {statistics.stdev(found):.4f}, n={len(found)})"
    )

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
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and number.** Few and small models at `smoke` and `laptop`. Trained on little they would all leak alike, AUC near 1; so from `laptop` on there are several thousand images and the
#   paper's mixup. `gpu` has the paper's models and recipe with fewer of everything else.
# - **Not trained to the end.** The paper's victims get more than .99 of their training images right (section 4.1). After 30 epochs at `laptop` our small Swin gets two thirds right and
#   the ResNet nine tenths, so there a verdict on Swin against ResNet speaks of unfinished training.
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
