"""Lab 01: was this image in the training set, and does the answer depend on the architecture? (Zhang et al. 2024, sections 4.2 and 5.2)

One repeat is a draw of images that no other repeat has, with a small fleet of its own for each architecture: complementary pairs of models,
each trained on half of the images. Every model is a victim once, and a repeat's number is the mean over its victims. The victim's shadow
model is of another pair; of the likelihood ratio all models are shadows but the victim's partner. So the shadow models know some of the
victim's images, as Carlini et al. 2022 have it; which ones says nothing about the victim's.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from privlab import data
from privlab.attacks.membership_inference import network_based, signals
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.victims import shadow_fleets
from privlab.experiments.victims.shadow_fleets import LEAKS, PROOF, RECIPE, Answers, Draw, accuracy, by_network
from privlab.metrics import roc

Score = Callable[[Answers, int], Tensor]  # of one model's answers on the audited images, (audited,); higher = member


def five_labels(said: Answers, model: int) -> Tensor:
    """Of an attacker who is told labels alone, of the image and of the image moved by a pixel to each side."""
    pictures = [0, *range(2, said.at().shape[1])]  # not the mirror image
    return signals.correct(said.at()[model, pictures, : said.audited], said.of(model)[1]).mean(0)


def by_threshold(said: Answers, victim: int, score: Score) -> float:
    """Accuracy of a score; its threshold is the one that is best for the shadow model."""
    shadow = said.shadow(victim)
    threshold = roc.best_threshold(score(said, shadow), said.members[shadow])
    return roc.accuracy(score(said, victim), said.members[victim], threshold)


def by_class_thresholds(said: Answers, victim: int) -> float:
    """Accuracy of the modified entropy with a threshold for each class, of the shadow model (Song & Mittal 2021)."""
    logits, labels, members = said.of(said.shadow(victim))
    thresholds = network_based.class_thresholds(signals.modified_entropy(logits, labels), labels, members)
    logits, labels, members = said.of(victim)
    return roc.accuracy(signals.modified_entropy(logits, labels) - thresholds[labels], members, 0.0)


SCORES: dict[str, Score] = {
    "loss_threshold": lambda said, model: signals.loss(*said.of(model)[:2]),
    "right_or_wrong": lambda said, model: signals.correct(*said.of(model)[:2]),
    "labels_five_pictures": five_labels,
}


def of_one(said: Answers, of: str, epochs: int = 50) -> Values:
    """All that is read off the trained models.  of: the first keys of each name.  epochs: of the attacking network's training."""
    yield from said.knows(of)
    yield f"attack_acc[{of}, network]", accuracy(by_network, said, epochs=epochs)
    yield f"attack_acc[{of}, network_sorted]", accuracy(by_network, said, epochs=epochs, sort=True)
    yield f"attack_acc[{of}, class_thresholds]", accuracy(by_class_thresholds, said)
    for kind, score in SCORES.items():
        yield f"attack_acc[{of}, {kind}]", accuracy(by_threshold, said, score=score)
    scores = said.scores()
    ratios = scores["likelihood_ratio"]
    cuts = roc.others_thresholds(ratios, said.members)  # of all other models, as an attacker must
    right = [roc.accuracy(*each) for each in zip(ratios, said.members, cuts, strict=True)]
    yield f"attack_acc[{of}, likelihood_ratio]", np.mean(right)
    yield from shadow_fleets.rated(of, scores, said.members)
    losses = torch.stack([-SCORES["loss_threshold"](said, model) for model in range(said.models)])
    yield f"median_loss[{of}, members]", losses[said.members].median()
    yield f"median_loss[{of}, non_members]", losses[~said.members].median()


@experiment("membership.architectures", on=shadow_fleets.draw, protocol=2)  # 1 asked about unseen mirror images
@Size("smoke", 2, PROOF, families="small", images=200, models=4, recipe=RECIPE["smoke"], every=1, attack_epochs=20)
@Size("class", 8, "networks of 0.3 M parameters, 4 of each family, 240 images a model", first=16,
    families="small", images=480, models=4, recipe=RECIPE["class"], every=5, attack_epochs=200)  # fmt: skip
@Size("night", 5, "networks of 2 to 3 M parameters, 4 of each family, 5,000 images a model, trained without mixup",
    families="medium", images=10_000, models=4, recipe=RECIPE["night"], every=8)  # fmt: skip
@Size("gpu", 5, "the papers' networks, 4 of each, 5,000 images a model, trained with mixup for 300 epochs",
    families="paper", images=10_000, models=4, recipe=RECIPE["paper"], every=20)  # fmt: skip
@Size("paper", 3, "the papers' networks and recipe, 64 of each on halves of CIFAR-10; the victims of Table 2 see a quarter",
    own=True, families="paper", images=50_000, models=64, recipe=RECIPE["paper"], every=20)  # fmt: skip
def architectures(block: Draw, families: str, recipe: Settings, every: int, attack_epochs: int = 50) -> Values:
    """ResNet, Swin and ConvNeXt on one draw of images: at the end, along the training, and at one overfitting level."""
    asked, curves = {}, {}
    for family, architecture in shadow_fleets.FAMILIES[families].items():
        said, of = shadow_fleets.answers(architecture, block, recipe, every), f"cifar10, {family}"
        yield from of_one(said, of, attack_epochs)
        asked[family], curves[family] = said, [shadow_fleets.look(said, epoch, attack_epochs) for epoch in said.logits]
        for epoch, values in zip(said.logits, curves[family], strict=True):
            for metric, value in values.items():
                yield f"{metric}[{of}{f', {LEAKS[metric]}' if metric in LEAKS else ''}, epoch_{epoch}]", value
    for metric, kind, matched in shadow_fleets.at_one_level(curves):
        for family, value in matched.items():
            yield f"{metric}_at_matched_gap[cifar10, {family}, {kind}]", value
    swin, resnet = ([look["attack_acc"] for look in curves[family]] for family in ("swin", "resnet"))
    yield "share_of_epochs_ahead[cifar10, swin_less_resnet]", np.greater(swin, resnet).mean()
    looks = [look for every in curves.values() for look in every]
    for metric in ("attack_acc", "auc"):
        rank = spearmanr([look["train_test_gap"] for look in looks], [look[metric] for look in looks]).statistic
        yield f"rank_correlation[cifar10, overfitting_{metric}]", np.nan_to_num(rank)
    # evenly on a log axis, from 10 false positives to where all curves meet
    grid = np.geomspace(10 / int((~asked["swin"].members).sum()), 0.5, 100)
    pair = (asked["swin"], asked["resnet"])
    above, below = (roc.curve(said.ratios().flatten(), said.members.flatten()).at(grid) for said in pair)
    yield "roc_share_above[cifar10, swin_less_resnet]", (above >= below).mean()


@experiment("membership.one_level")
@Size("smoke", 1, PROOF, families="small", counts=[50, 100], models=4, recipe=RECIPE["smoke"], mixed=100)
@Size("night", 8, "networks of 0.3 M parameters, 8 of each family, 120 to 960 images a model, all of which they know",
    families="small", counts=[120, 240, 480, 960], models=8, recipe=RECIPE["class"], mixed=480)  # fmt: skip
def one_level(
    repeat: int, families: str, counts: list[int], models: int, recipe: Settings, mixed: int, device: str = "cpu"
) -> Values:
    """ResNet and Swin at one overfitting level, which the number of training images sets, at the end of every training.

    The attack is regressed on the level, each family by a straight line over its counts, and read off in the middle of the levels that
    both families have. mixed: images a model of one further fleet each, trained with mixup and cutmix.
    """
    arms = {f"images_{count}": (count, recipe) for count in counts}
    arms["mixed"] = mixed, {**recipe, "mixup": 0.8, "cutmix": 1.0}
    looks: dict[str, dict[str, dict[str, float]]] = {"resnet": {}, "swin": {}}
    # no other repeat has any of these images
    whole = shadow_fleets.draw(repeat, 2 * max(counts), models, device=device)
    for family, found in looks.items():
        for arm, (count, how) in arms.items():
            n, of = 2 * count, f"cifar10, {family}, {arm}"
            keep = data.in_out(n, models, whole.seed, pairs=True)
            block = replace(whole, pixels=whole.pixels[:n], labels=whole.labels[:n], keep=keep, audited=n)
            said = shadow_fleets.answers(shadow_fleets.FAMILIES[families][family], block, how)
            known = dict(said.knows(of))
            yield from known.items()
            found[arm] = shadow_fleets.look(said, max(said.logits)) | {"least": float(known[f"train_acc[{of}]"])}
            yield from ((f"{metric}[{of}, {kind}]", found[arm][metric]) for metric, kind in LEAKS.items())
        del found["mixed"]
        yield f"train_acc[cifar10, {family}]", min(each["least"] for each in found.values())
    levels = {family: [each["train_test_gap"] for each in found.values()] for family, found in looks.items()}
    low, high = max(map(min, levels.values())), min(map(max, levels.values()))
    yield "shared_levels[cifar10]", high - low
    for family, found in looks.items():
        for metric, kind in LEAKS.items():
            line = np.polyfit(levels[family], [each[metric] for each in found.values()], 1)
            yield f"{metric}_at_one_level[cifar10, {family}, {kind}]", np.polyval(line, (low + high) / 2)
