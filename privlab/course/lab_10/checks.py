"""Checks of lab 10: a block for each pattern, a confounded comparison, what BatchNorm averages, main effects, a matched comparison."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privlab.models.morph_steps import PATTERNS
from privlab.notebook.kit import Check, function

MAPS = torch.tensor([[-2.0, -1.0, -0.2, 0.3, 0.9, 1.7, 2.6, 4.1]])
LAYERS = (lambda x: 2 * x - 1, lambda x: 3 - x, lambda x: 1.5 * x - 2)


def _shortcut(x: Tensor) -> Tensor:
    return 0.5 * x - 0.7


def _block(pattern: str, third: str = "sum", add: Any = _shortcut, front: bool = False) -> Tensor:
    """The block, and the slips: the third activation on the "branch", what is added, activations in front of their layers."""
    y = MAPS
    acts = [torch.relu if digit == "1" else nn.Identity() for digit in pattern]
    for layer, act in zip(LAYERS[:2], acts, strict=False):
        y = layer(act(y)) if front else act(layer(y))
    y = LAYERS[2](y)
    return acts[2](y) + add(MAPS) if third == "branch" else acts[2](y + add(MAPS))


# fmt: off
_blocks = function(
    _block,
    [(pattern,) for pattern in reversed(PATTERNS)],
    {
        'All three are there whatever the pattern says. (The text "0" counts as true: compare with "1".)': lambda p: _block("111"),
        "The pattern is read the other way round: the first digit belongs to the first convolution.": lambda p: _block(p[::-1]),
        "The third activation stands behind the addition; yours stands on the branch, before it.": lambda p: _block(p, third="branch"),
        "You add x itself; the shortcut may change it (where the stride does), so add shortcut(x).": lambda p: _block(p, add=nn.Identity()),
        "An activation stands *behind* its convolution; yours stand in front.": lambda p: _block(p, front=True),
    },
    "Go through this pattern layer by layer.",
)
# fmt: on


def block(answer: Any) -> Iterator[str]:
    def of(pattern: str) -> Any:
        return answer(MAPS.clone(), LAYERS, _shortcut, torch.relu, pattern)

    yield from _blocks(of if callable(answer) else answer)


# fmt: off
values = function(
    lambda size, batch: batch * (size // 32) ** 2,
    [(64, 1), (32, 1), (64, 3), (32, 8), (224, 2), (96, 5)],
    {
        "You left the batch out: the mean goes over all of its images too.": lambda size, batch: (size // 32) ** 2,
        "A map has two sides: square it.": lambda size, batch: batch * (size // 32),
        "That is the map behind the stem. Three stages halve it after that.": lambda size, batch: batch * (size // 4) ** 2,
        "That is right for 32 pixels only; larger images leave larger maps.": lambda size, batch: batch,
        "Colours are gone behind the stem; count for one channel.": lambda size, batch: 3 * batch * (size // 32) ** 2,
    },
    "4 times 2 times 2 times 2 is 32.",
)
# fmt: on
# PSNR of eight combinations in three repeats, with interactions, so that no average stands for another
Table = dict[tuple[int, ...], list[float]]
TABLE: Table = {
    (a, b, c): [
        p + (3 + 0.5 * k) * a - (1 + 0.2 * k) * b + 0.4 * c + 1.6 * a * b + (0.9 - k) * b * c
        for k, p in enumerate((10.0, 14.0, 19.0))
    ]
    for a, b, c in itertools.product((0, 1), repeat=3)
}


def _mean(table: Table, switch: int, setting: int) -> Tensor:
    return torch.tensor([psnr for settings, psnr in table.items() if settings[switch] == setting]).mean(0)


def _effect(table: Table, switch: int) -> Tensor:
    return _mean(table, switch, 1) - _mean(table, switch, 0)


# fmt: off
effect = function(
    _effect,
    [(TABLE, switch) for switch in (0, 1, 2)],
    {
        "The sign: on less off, 1 less 0.": lambda dB, switch: -_effect(dB, switch),
        "Half of it: that is the distance from the overall mean. Take mean of 1 less mean of 0.":
            lambda dB, switch: _effect(dB, switch) / 2,
        "That is the effect with all others off. Average over *all* settings of the others.":
            lambda dB, switch: torch.tensor(dB[tuple(int(i == switch) for i in range(3))]) - torch.tensor(dB[0, 0, 0]),
        "That is the mean of the combinations with a 1; subtract that of those with a 0.": lambda dB, switch: _mean(dB, switch, 1),
        "You averaged over the repeats. Keep them apart, and return a list.": lambda dB, switch: _effect(dB, switch).mean(),
    },
    "In each repeat by itself: the mean over the four combinations with a 1 in that place, less that over the four with a 0.",
)
# fmt: on
# Levels and accuracies on a straight line each, so that the mean over a range is the same on any even grid. The last pair is out of order.
Curve = tuple[list[float], list[float]]
CURVES: list[tuple[Curve, Curve]] = [
    (([0.1, 0.3, 0.4, 0.5], [0.55, 0.65, 0.70, 0.75]), ([0.2, 0.4, 0.8], [0.56, 0.64, 0.80])),
    (([0.0, 0.2, 0.4, 0.9], [0.5, 0.56, 0.62, 0.77]), ([0.1, 0.6], [0.55, 0.70])),
    (([0.5, 0.1, 0.3], [0.75, 0.55, 0.65]), ([0.2, 0.8, 0.4], [0.56, 0.80, 0.64])),
]


def _over(one: Curve, other: Curve, low: Any = max, high: Any = min, order: Any = sorted) -> float:
    """The mean difference on a grid: over the levels of both, in rising order; and the slips."""
    (x, a), (z, b) = (np.array(order(zip(*curve, strict=True))).T for curve in (one, other))
    grid = np.linspace(low(min(x), min(z)), high(max(x), max(z)), 2001)
    return (np.interp(grid, x, a) - np.interp(grid, z, b)).mean()


# fmt: off
matched = function(
    _over,
    CURVES,
    {
        "The sign: one less other.": lambda one, other: -_over(one, other),
        "That compares epoch by epoch, whatever the levels are then. Compare at equal levels.":
            lambda one, other: np.mean([a - b for a, b in zip(one[1], other[1], strict=False)]),
        "That compares the ends of the two trainings, at unequal levels.": lambda one, other: one[1][-1] - other[1][-1],
        "Your grid leaves a curve, and beyond its ends numpy.interp repeats the last value. Take what *both* went through.":
            lambda one, other: _over(one, other, low=min, high=max),
        "numpy.interp wants the levels in rising order; these are not, since a gap may shrink from one epoch to the next.":
            lambda one, other: _over(one, other, order=list),
    },
    "A mean over the levels that both went through, on a grid with even steps.",
    rel=1e-2,
)


# fmt: on
CHECKS: dict[str, Check] = {
    "10.block": block,
    "10.effect": effect,
    "10.values": values,
    "10.matched": matched,
}
