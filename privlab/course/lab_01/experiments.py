"""Lab 01: was this image in the training set, and does the answer depend on the architecture? (Zhang et al. 2024, sections 4.2 and 5.2)

One repeat is a draw of images that no other repeat has, with a small fleet of its own for each architecture: complementary pairs of models,
each trained on half of the images. Every model is a victim once, and a repeat's number is the mean over its victims. The victim's shadow
model is of another pair; of the likelihood ratio all models are shadows but the victim's partner. So the shadow models know some of the
victim's images, as Carlini et al. 2022 have it; which ones says nothing about the victim's.

Protocol 2: the likelihood ratio asks about a mirror image only where the training showed it. Protocol 1 always did, and so asked networks
that were trained without augmentation about something they had never seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from privlab.attacks.membership_inference import network_based, signals
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.overfitting import (
    CLASS,
    LOOKS,
    NIGHT,
    PAPER,
    SMOKE,
    accuracy,
    at_one_level,
    by_network,
    look,
)
from privlab.experiments.victims.shadow_fleets import FAMILIES, Answers, answers, draw, rates
from privlab.metrics import roc

LOW = 10  # false positives below which a curve is not resolved

# -- attacks with one shadow model ------------------------------------------------------------------------------------------


def by_threshold(
    said: Answers, victim: int, score: Callable[[Tensor, Tensor], Tensor] = signals.loss, epoch: int | None = None
) -> float:
    """Accuracy of a score; its threshold is the one that is best for the shadow model."""
    logits, labels, members = said.of(said.shadow(victim), epoch)
    threshold = roc.best_threshold(score(logits, labels), members)
    logits, labels, members = said.of(victim, epoch)
    return roc.accuracy(score(logits, labels), members, threshold)


def by_class_thresholds(said: Answers, victim: int) -> float:
    """Accuracy of the modified entropy with a threshold for each class, of the shadow model (Song & Mittal 2021)."""
    logits, labels, members = said.of(said.shadow(victim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that no member has takes the threshold of all
        thresholds = network_based.class_thresholds(signals.modified_entropy(logits, labels), labels, members)
    logits, labels, members = said.of(victim)
    scores = network_based.by_class(signals.modified_entropy(logits, labels), labels, thresholds)
    return roc.accuracy(scores, members, 0.0)


def by_labels(said: Answers, victim: int) -> float:
    """Accuracy of an attacker who is told labels alone, of the image and of the image moved by a pixel to each side."""
    pictures = [0, *range(2, said.at().shape[1])]  # not the mirror image
    shares = {
        model: network_based.augmentation_gap(said.at()[model, pictures, : said.audited], said.of(model)[1])
        for model in (victim, said.shadow(victim))
    }
    threshold = roc.best_threshold(shares[said.shadow(victim)], said.members[said.shadow(victim)])
    return roc.accuracy(shares[victim], said.members[victim], threshold)


WITHOUT_NETWORK: dict[str, Callable[[Answers, int], float]] = {
    "loss_threshold": by_threshold,
    "class_thresholds": by_class_thresholds,
    "right_or_wrong": lambda said, victim: by_threshold(said, victim, signals.correct),
    "labels_five_pictures": by_labels,
}


# -- what is measured of one architecture -----------------------------------------------------------------------------------


def of_one(said: Answers, of: str, epochs: int = 50) -> Values:
    """Everything that is read off the trained models.

    of: the first keys of each name, "cifar10, swin".  epochs: of the attacking network's training.
    """
    train, test = said.accuracies()
    yield f"train_acc[{of}]", train.min()  # of the model that knows its images least
    yield f"task_acc[{of}]", test.mean()
    yield f"train_test_gap[{of}]", said.gap()
    yield f"attack_acc[{of}, network]", accuracy(by_network, said, epochs=epochs)
    yield f"attack_acc[{of}, network_sorted]", accuracy(by_network, said, epochs=epochs, sort=True)
    for kind, attack in WITHOUT_NETWORK.items():
        yield f"attack_acc[{of}, {kind}]", accuracy(attack, said)
    ratios = said.ratios()
    cuts = roc.others_thresholds(ratios, said.members)  # of all other models, as an attacker must
    right = [roc.accuracy(*each) for each in zip(ratios, said.members, cuts, strict=True)]
    yield f"attack_acc[{of}, likelihood_ratio]", np.mean(right)
    margins, labels = said.margins()[..., 0], said.labels[: said.audited]
    correct = torch.stack([signals.correct(said.of(m)[0], labels) for m in range(said.models)])
    for kind, scores in (("likelihood_ratio", ratios), ("loss_threshold", margins), ("right_or_wrong", correct)):
        for metric, value in rates(scores, said.members).items():
            if kind != "right_or_wrong" or metric == "auc":  # one bit has no tail
                yield f"{metric}[{of}, {kind}]", value
    losses = torch.stack([-signals.loss(said.of(m)[0], labels) for m in range(said.models)])
    yield f"median_loss[{of}, members]", losses[said.members].median()
    yield f"median_loss[{of}, non_members]", losses[~said.members].median()


def compared(curves: Mapping[str, list[dict[str, float]]], name: str) -> Values:
    """Architectures at one overfitting level, and epoch by epoch.  curves: architecture -> its looks."""
    columns = {of: {what: [each[what] for each in looks] for what in LOOKS} for of, looks in curves.items()}
    for metric, _, kind, matched in at_one_level(curves):
        yield from ((f"{metric}_at_matched_gap[{name}, {of}, {kind}]", value) for of, value in matched.items())
    ahead = np.array(columns["swin"]["network"]) > np.array(columns["resnet"]["network"])
    yield f"share_of_epochs_ahead[{name}, swin_less_resnet]", ahead.mean()
    levels = np.concatenate([each["level"] for each in columns.values()])
    for what, key in (("network", "overfitting_attack_acc"), ("auc", "overfitting_auc")):
        values = np.concatenate([each[what] for each in columns.values()])
        yield f"rank_correlation[{name}, {key}]", np.nan_to_num(spearmanr(levels, values).statistic)


def share_above(one: Answers, other: Answers) -> float:
    """The share of false-positive rates, evenly on a log axis from LOW false positives up to one half, where `one` has no lower TPR."""
    grid = np.geomspace(LOW / int((~one.members).sum()), 0.5, 100)  # on the right all curves meet
    curves = [roc.curve(said.ratios().flatten(), said.members.flatten()) for said in (one, other)]
    above, below = (roc.band([curve], grid)[1] for curve in curves)
    return float((above >= below).mean())


# -- experiments --------------------------------------------------------------------------------------------------------------


@experiment(
    "membership.architectures",
    protocol=2,
    data=("cifar10",),
    smoke=Size(
        2,
        "0.3 M parameters, 100 images a model, 2 epochs: it proves the code",
        settings=dict(families="small", images=200, models=4, recipe=SMOKE, every=1, attack_epochs=20),
    ),
    class_=Size(
        8,
        "networks of 0.3 M parameters, 4 of each family, 240 images a model",
        settings=dict(families="small", images=480, models=4, recipe=CLASS, every=5, attack_epochs=200),
        first=16,
    ),
    night=Size(
        5,
        "networks of 2 to 3 M parameters, 4 of each family, 5,000 images a model, trained without mixup",
        settings=dict(families="medium", images=10_000, models=4, recipe=NIGHT, every=8),
    ),
    gpu=Size(
        5,
        "the papers' networks, 4 of each, 5,000 images a model, trained with mixup for 300 epochs",
        settings=dict(families="paper", images=10_000, models=4, recipe=PAPER, every=20),
    ),
    paper=Size(
        3,
        "the papers' networks and recipe, 64 of each on halves of CIFAR-10; the victims of Table 2 see a quarter",
        own=True,
        settings=dict(families="paper", images=50_000, models=64, recipe=PAPER, every=20),
    ),
)
def architectures(
    repeat: int,
    families: str,
    images: int,
    models: int,
    recipe: dict[str, Any],
    every: int,
    attack_epochs: int = 50,
    device: str = "cpu",
) -> Values:
    """ResNet, Swin and ConvNeXt on one draw of images: at the end, along the training, and at one overfitting level."""
    block, curves, asked = draw(repeat, images, models), {}, {}
    for family, architecture in FAMILIES[families].items():
        said, of = answers(architecture, block, recipe, every, device), f"cifar10, {family}"
        yield from of_one(said, of, attack_epochs)
        asked[family], curves[family] = said, [look(said, epoch, attack_epochs) for epoch in said.logits]
        for epoch, values in zip(said.logits, curves[family], strict=True):
            yield from ((LOOKS[what].format(of=of, epoch=epoch), value) for what, value in values.items())
    yield from compared(curves, "cifar10")
    yield "roc_share_above[cifar10, swin_less_resnet]", share_above(asked["swin"], asked["resnet"])
