"""What labs on membership share: their recipes, the attack of the papers, and where a fleet stands along its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from privlab.attacks.membership_inference import network_based
from privlab.experiments.victims.shadow_fleets import Answers, at_matched_gap, rates
from privlab.metrics import roc
from privlab.training import RECIPES

RECIPE: dict[str, dict[str, Any]] = {  # by size
    "smoke": dict(epochs=2, batch_size=32, lr=2e-3, warmup_epochs=1),
    "class": dict(epochs=30, batch_size=32, lr=2e-3, warmup_epochs=1),
    "night": dict(epochs=80, batch_size=64, lr=1e-3, warmup_epochs=2, precision="auto"),
    "paper": RECIPES["zhang2024_membership"].settings(),
}
PROOF = "0.3 M parameters, 100 images a model, 2 epochs: it proves the code"  # what smoke stands for


def by_network(said: Answers, victim: int, epoch: int | None = None, sort: bool = False, epochs: int = 50) -> float:
    """Accuracy of the paper's attack: a network that has learnt from the shadow model's answers who is a member.

    epoch: of the victim's training.  epochs: of the network's own, at most.
    """
    attack = network_based.network(*said.of(said.shadow(victim), epoch), sort=sort, epochs=epochs)
    logits, labels, members = said.of(victim, epoch)
    return roc.accuracy(attack(logits, labels), members, 0.5)


def accuracy(attack: Callable[..., float], said: Answers, **more: Any) -> float:
    """Mean over all victims."""
    return float(np.mean([attack(said, victim, **more) for victim in range(said.models)]))


def look(said: Answers, epoch: int, epochs: int = 50) -> dict[str, float]:
    """Where a fleet stands after an epoch.  epochs: of the attacking network's training."""
    train, test = (each.mean().item() for each in said.accuracies(epoch))
    ratio, network = rates(said.ratios(epoch), said.members), accuracy(by_network, said, epoch=epoch, epochs=epochs)
    attacks = {"network": network, "auc": ratio["auc"], "tpr": ratio["tpr_at_fpr_0p01"]}
    return {"train": train, "task": test, "level": train - test, **attacks}


def at_one_level(looks: Mapping[str, list[dict[str, float]]]) -> Iterator[tuple[str, str, str, dict[str, float]]]:
    """Metric, its name in a look, kind of attack, and what each network has at one overfitting level.  looks: network -> its looks."""
    for metric, what, kind, chance in (  # chance: of an untrained network, which leaks nothing
        ("attack_acc", "network", "network", 0.5),
        ("auc", "auc", "likelihood_ratio", 0.5),
        ("tpr_at_fpr_0p01", "tpr", "likelihood_ratio", 1.0),
    ):
        curves = {of: ([look["level"] for look in each], [look[what] for look in each]) for of, each in looks.items()}
        yield metric, what, kind, at_matched_gap(curves, dict.fromkeys(curves, chance))
