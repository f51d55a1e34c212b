"""The searches of Lu et al. 2022, Table 1, and ours beside them, on a repeat of lab 06."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from privlab.attacks.gradient_inversion import GradientMatching, label_recovery, objectives, presets
from privlab.attacks.gradient_inversion.results import Result
from privlab.experiments.trial import Trial
from privlab.experiments.victims.april import OWN_DRAW
from privlab.leak import Leak

FOUR = ("april", "dlg", "ig", "tag")
SNAPSHOTS = 30  # of a search, so that 1,500 steps are seen every 50
BALANCED = {  # April with alpha by rule -> what it compares gradients by
    "april": objectives.squared_distance,
    "april_by_the_bias": objectives.squared_distance,
    "april_tag": objectives.tag(),
    "april_relative": objectives.relative_distance,
}


def attack(by: str, steps: int, model: nn.Module, leak: Leak, seed: int) -> GradientMatching:
    """A search by its name: one of Table 1, "april" with alpha by rule, "april_alpha_1", or ours.

    Ours are "annealed", April with labels by the last layer's bias, "april_by_the_bias", and April's or DLG's with another distance:
    "april_tag", "relative", "april_relative".
    """
    if by in BALANCED:
        return presets.april_balanced(steps, model, leak, seed, BALANCED[by])
    if by == "relative":
        return presets.april(steps, distance=objectives.relative_distance).without("position")
    if by.startswith("annealed"):
        chosen = replace(presets.annealed(steps), labels=presets.one_or_many)
        return chosen.without("smoothness") if by == "annealed_bare" else chosen
    return presets.lu2022(steps)["april" if by == "april_alpha_1" else by]


def invert(by: str, trial: Trial, model: nn.Module, steps: int, hide: Sequence[str] = (), server: Any = None) -> Result:
    """One search that is told no label.  hide: gradients that are withheld.  server: the model that it has, if not the client's."""
    received, seed = replace(trial.leak(model).without(hide), labels=None), trial.number + OWN_DRAW
    server = server or model
    if by == "april_by_the_bias":
        received = replace(received, labels=label_recovery.bias_counts(server, received))
    search = attack(by, steps, server, received, seed)
    return trial.search(search, server, received, seed, snapshots=min(SNAPSHOTS, steps))


def final(result: Result) -> Tensor:
    """The images that a search ends with, as in the paper.

    Not those of its lowest score, which float32 no longer tells apart near the end: with APRIL's alpha by rule the rounding of the cosine
    is as large as the distance that is left.
    """
    return result.snapshots[-1].images


def fall(result: Result) -> float:
    """How far the squared distance of the gradients fell from the start to its least, in powers of ten."""
    least = min(step["gradients"] for step in result.trace)
    return math.log10(result.trace[0]["gradients"] / max(least, 1e-9))
