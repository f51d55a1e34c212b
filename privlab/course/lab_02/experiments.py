"""Lab 02: is this image easier for the model than it should be? What the likelihood ratio finds, and what its knobs are worth."""

from __future__ import annotations

from typing import Any

import torch

from privlab import data
from privlab.attacks.membership_inference import lira, rmia, signals
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.overfitting import CLASS, PAPER, SMOKE
from privlab.experiments.victims.shadow_fleets import FAMILIES, Answers, answers, draw, rates
from privlab.metrics import roc

PAIR = ("resnet", "swin")


@experiment(
    "likelihood_ratio.fleet",
    protocol=2,  # 1 asked about mirror images that no model had seen
    data=("cifar10",),
    smoke=Size(
        2,
        "0.3 M parameters, 100 images a model, 2 epochs: it proves the code",
        settings=dict(families="small", images=200, unseen=100, models=8, recipe=SMOKE),
    ),
    class_=Size(
        8,
        "networks of 0.3 M parameters, 8 of each family, 200 images a model",
        settings=dict(families="small", images=400, unseen=200, models=8, recipe=CLASS),
        first=16,
    ),
    gpu=Size(
        5,
        "ResNet-50 and Swin-T, 8 of each, 5,000 images a model, 300 epochs",
        settings=dict(families="paper", images=10_000, unseen=5_000, models=8, recipe=PAPER),
    ),
    paper=Size(
        3,
        "ResNet-50 and Swin-T, 64 of each, on halves of 40,000 images",
        own=True,
        settings=dict(families="paper", images=40_000, unseen=10_000, models=64, recipe=PAPER),
    ),
)
def fleet(
    repeat: int, families: str, images: int, unseen: int, models: int, recipe: dict[str, Any], device: str = "cpu"
) -> Values:
    """Online, offline, by fewer models, and by a threshold on the loss, on one draw of images."""
    block = draw(repeat, images, models, unseen=unseen)
    for family in PAIR:
        said, of = answers(FAMILIES[families][family], block, recipe, device=device), f"cifar10, {family}"
        train, test = said.accuracies()
        yield f"train_acc[{of}]", train.min()
        yield f"task_acc[{of}]", test.mean()
        yield f"train_test_gap[{of}]", said.gap()
        scores = {
            "likelihood_ratio": said.ratios(),
            "offline": said.ratios(online=False),
            "loss_threshold": said.margins()[..., 0],  # orders images as the loss does
            "right_or_wrong": torch.stack([signals.correct(*said.of(m)[:2]) for m in range(models)]),
        }
        for kind, each in scores.items():
            found = rates(each, said.members)
            yield f"auc[{of}, {kind}]", found["auc"]
            if kind != "right_or_wrong":  # one bit has no tail
                yield f"tpr_at_fpr_0p01[{of}, {kind}]", found["tpr_at_fpr_0p01"]
                yield f"tpr_at_fpr_0p001[{of}, {kind}]", found["tpr_at_fpr_0p001"]
        for count in (6, 8, 16, 32, 64):
            if count <= models:
                for kind, found in by_count(said, count).items():
                    yield f"auc[{of}, {kind}, models_{count}]", found["auc"]
                    yield f"tpr_at_fpr_0p01[{of}, {kind}, models_{count}]", found["tpr_at_fpr_0p01"]


def by_count(said: Answers, count: int) -> dict[str, dict[str, float]]:
    """Three attacks with the first `count` models alone; as they come in pairs, these are a fleet of their own."""
    margins, members = said.margins()[:count], said.members[:count]
    sure = torch.stack([signals.confidence(each[0], said.labels) for each in said.at()[:count]])  # (count, n)
    seen, unseen = sure[:, : said.audited], sure[:, said.audited :]
    scores = {
        "fixed": lira.every_target(margins, members, pairs=True),
        "pooled": lira.every_target(margins, members, variance="pooled", pairs=True),
        "rmia": rmia.every_target(seen, members, unseen, pairs=True),
    }
    return {kind: rates(each, members) for kind, each in scores.items()}


@experiment(
    "likelihood_ratio.noise",
    smoke=Size(2, "8 invented models, 2,000 images", settings=dict(images=2_000)),
    class_=Size(16, "8 invented models, 20,000 images whose margins are noise", settings=dict(images=20_000)),
)
def noise(repeat: int, images: int) -> Values:
    """The attack on margins that know nothing: an honest one has an AUC of one half, whichever way the images were dealt out."""
    seed = repeat % 2**31
    margins = torch.randn(8, images, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for pairs, name in ((False, "unpaired"), (True, "paired")):
        keep = data.in_out(images, 8, seed, pairs=pairs)
        scores = lira.every_target(margins, keep, variance="per-example", pairs=pairs)
        aucs = [roc.auc(*each) for each in zip(scores, keep, strict=True)]
        yield f"auc[noise, {name}]", sum(aucs) / len(aucs)
