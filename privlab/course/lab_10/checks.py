"""Checks of lab 10: a block for each pattern, a confounded comparison, what BatchNorm averages, main effects, a matched comparison."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privlab.models.morph import PATTERNS
from privlab.notebook.kit import a_function, function

# fmt: off
MAPS = torch.tensor([[-2.0, -1.0, -0.2, 0.3, 0.9, 1.7, 2.6, 4.1]])
*LAYERS, SHORTCUT = (lambda x: 2 * x - 1, lambda x: 3 - x, lambda x: 1.5 * x - 2, lambda x: 0.5 * x - 0.7)


def _block(pattern: str, add: Callable[[Tensor], Tensor] = SHORTCUT, on_branch: bool = False) -> Tensor:
    """The block, and the slips: what is added, and whether the third activation stands before the addition."""
    first, second, third = (torch.relu if digit == "1" else torch.clone for digit in pattern)
    y = LAYERS[2](second(LAYERS[1](first(LAYERS[0](MAPS)))))
    return third(y) + add(MAPS) if on_branch else third(y + add(MAPS))


_blocks = function(
    _block,
    [(pattern,) for pattern in reversed(PATTERNS)],
    {
        'All three are there whatever the pattern says. (The text "0" counts as true: compare with "1".)': lambda p: _block("111"),
        "The third activation stands behind the addition; yours stands on the branch, before it.": partial(_block, on_branch=True),
        "You add x itself; the shortcut may change it (where the stride does), so add shortcut(x).": partial(_block, add=torch.clone),
    },
    "Go through this pattern layer by layer. An activation stands behind its convolution.",
)


def block(answer: Any) -> Iterator[str]:
    yield from a_function(answer)
    yield from _blocks(lambda pattern: answer(MAPS.clone(), LAYERS, SHORTCUT, torch.relu, pattern))


values = function(
    lambda size, batch: batch * (size // 32) ** 2,
    [(64, 1), (32, 1), (64, 3), (32, 8), (224, 2), (96, 5)],
    {
        "You left the batch out: the mean goes over all of its images too.": lambda size, batch: (size // 32) ** 2,
        "A map has two sides: square it.": lambda size, batch: batch * (size // 32),
        "That is the map behind the stem. Three stages halve it after that.": lambda size, batch: batch * (size // 4) ** 2,
    },
    "4 times 2 times 2 times 2 is 32. Colours are gone behind the stem; count for one channel.",
)

TABLE = {  # PSNR of eight combinations in three repeats, with interactions, so that no average stands for another
    (a, b, c): [p + (3 + k) * a - b + 0.4 * c + 1.6 * a * b + (0.9 - k) * b * c for k, p in enumerate((10, 14, 19))]
    for a, b, c in itertools.product((0, 1), repeat=3)
}


def _effect(table: dict[tuple[int, ...], list[float]], switch: int) -> Tensor:
    on, off = (torch.tensor([dB for key, dB in table.items() if key[switch] == setting]).mean(0) for setting in (1, 0))
    return on - off


effect = function(
    _effect,
    [(TABLE, 0), (TABLE, 1), (TABLE, 2)],
    {
        "That is the effect with all others off. Average over *all* settings of the others.":
            lambda dB, switch: torch.tensor(dB[tuple(int(i == switch) for i in range(3))]) - torch.tensor(dB[0, 0, 0]),
    },
    "In each repeat by itself: the mean over the four combinations with a 1 in that place, less that over the four with a 0.",
)

CURVES = [  # levels and accuracies, on straight lines: the mean is the same on any even grid. The last are out of order
    (([0.1, 0.3, 0.4, 0.5], [0.55, 0.65, 0.70, 0.75]), ([0.2, 0.4, 0.8], [0.56, 0.64, 0.80])),
    (([0.0, 0.2, 0.4, 0.9], [0.5, 0.56, 0.62, 0.77]), ([0.1, 0.6], [0.55, 0.70])),
    (([0.5, 0.1, 0.3], [0.75, 0.55, 0.65]), ([0.2, 0.8, 0.4], [0.56, 0.80, 0.64])),
]


def _matched(one: tuple, other: tuple, low: Callable = max, high: Callable = min, order: Callable = sorted) -> float:
    (x, a), (z, b) = (np.array(order(zip(*curve, strict=True))).T for curve in (one, other))
    grid = np.linspace(low(min(x), min(z)), high(max(x), max(z)), 2001)
    return (np.interp(grid, x, a) - np.interp(grid, z, b)).mean()


matched = function(
    _matched,
    CURVES,
    {
        "That compares epoch by epoch, whatever the levels are then. Compare at equal levels.":
            lambda one, other: np.mean([a - b for a, b in zip(one[1], other[1], strict=False)]),
        "Your grid leaves a curve, and beyond its ends numpy.interp repeats the last value. Take what *both* went through.":
            partial(_matched, low=min, high=max),
        "numpy.interp wants the levels in rising order; these are not, since a gap may shrink from one epoch to the next.":
            partial(_matched, order=list),
    },
    "A mean over the levels that both went through, on a grid with even steps.", rel=1e-2,
)
