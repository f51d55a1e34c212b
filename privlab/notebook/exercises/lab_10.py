"""Checks of lab 10: a block for each pattern, a confounded comparison, what BatchNorm averages, main effects, and a matched comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privlab.models.morph_steps import PATTERNS
from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import OPEN, a_function
from privlab.notebook.exercises.lab_00 import _number

# -- a block for each pattern --------------------------------------------------------------------------------------------

LAYERS = (lambda x: 2 * x - 1, lambda x: 3 - x, lambda x: 1.5 * x - 2)


def _shortcut(x: Tensor) -> Tensor:
    return 0.5 * x - 0.7


def _block(x: Tensor, pattern: str, third: str = "sum", add: str = "shortcut", first: bool = False) -> Tensor:
    """The block, and the slips: third activation on the "branch" or the "shortcut", what is added, activations in front of layers."""
    there = [torch.relu if digit == "1" else torch.nn.Identity() for digit in pattern]
    y = x
    for layer, act in zip(LAYERS[:2], there[:2], strict=True):
        y = layer(act(y)) if first else act(layer(y))
    y = LAYERS[2](y)
    beside = {"shortcut": _shortcut(x), "input": x, "nothing": torch.zeros_like(x)}[add]
    if third == "branch":
        return there[2](y) + beside
    return y + there[2](beside) if third == "shortcut" else there[2](y + beside)


@a_function
def block(answer: Callable[..., Any]) -> Iterator[str]:
    x = torch.tensor([[-2.0, -1.0, -0.2, 0.3, 0.9, 1.7, 2.6, 4.1]])
    maps = {}
    for pattern in reversed(PATTERNS):
        value = answers.tensor(answer(x.clone(), LAYERS, _shortcut, torch.relu, pattern))
        if value is None:
            yield OPEN
            return
        if not isinstance(value, Tensor) or value.shape != x.shape:
            what = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            yield f"forward(..., {pattern!r}) gives {what}; a block gives a map of the same shape here, {tuple(x.shape)}."
            return
        maps[pattern] = value.detach().to(x)
    if _same_maps(maps, lambda p: _block(x, p)):
        return
    flipped = str.maketrans("01", "10")
    for why, slip in (
        ('All three are there whatever the pattern says. (The text "0" counts as true: compare with "1".)', lambda p: _block(x, "111")),
        ("None is there, whatever the pattern says. Compare with the text \"1\", not with the number 1.", lambda p: _block(x, "000")),
        ("The pattern is read the other way round: the first digit belongs to the first convolution.", lambda p: _block(x, p[::-1])),
        ("0 means that an activation is gone, 1 that it is there.", lambda p: _block(x, p.translate(flipped))),
        ("The third activation stands behind the addition; yours stands on the branch, before it.", lambda p: _block(x, p, third="branch")),
        ("The third activation stands behind the addition; yours is on the shortcut alone.", lambda p: _block(x, p, third="shortcut")),
        ("Nothing is added: the shortcut is missing.", lambda p: _block(x, p, add="nothing")),
        ("You add x itself; the shortcut may change it (where the stride does), so add shortcut(x).", lambda p: _block(x, p, add="input")),
        ("An activation stands *behind* its convolution; yours stand in front.", lambda p: _block(x, p, first=True)),
        ("The third activation is missing, the one behind the addition.", lambda p: _block(x, p[:2] + "0")),
    ):  # fmt: skip
        if _same_maps(maps, slip):
            yield why
    wrong = next(p for p in maps if not torch.allclose(maps[p], _block(x, p), atol=1e-5))
    yield f"Pattern {wrong} comes out wrong; go through it layer by layer. (Patterns are tried from 111 down to 000.)"


def _same_maps(maps: dict[str, Tensor], right: Callable[[str], Tensor]) -> bool:
    return all(torch.allclose(value, right(pattern), atol=1e-5) for pattern, value in maps.items())


# -- a confounded comparison ---------------------------------------------------------------------------------------------

DIFFERS = {
    "overlap": "windows of 7 with stride 2 share pixels, squares of 4 with stride 4 do not",
    "weights": "a channel multiplies 3 x 7 x 7 numbers in the one stem and 3 x 4 x 4 in the other",
    "maxima": "the pooling keeps the largest of 9 values, and patchify has no pooling",
}
ALIKE = {
    "resolution": "32 / 2 / 2 and 32 / 4 are both 8",
    "channels": "both stems have as many, those of the first stage",
    "activation": "from step 8 on no stem has any",
}


def confounded(answer: object) -> Iterator[str]:
    words = answers.words(answer)
    if words is None:
        yield f"Give a set of words; this is a {type(answer).__name__}."
        return
    if strange := sorted(words - DIFFERS.keys() - ALIKE.keys()):
        yield f"'{strange[0]}' is not on the list above."
    for word, why in ALIKE.items():
        if word in words:
            yield f"Take out '{word}': {why}."
    for word, why in DIFFERS.items():
        if word not in words:
            yield f"Something is missing. Think of this: {why}."


# -- what BatchNorm averages ---------------------------------------------------------------------------------------------


def values(answer: object) -> Iterator[str]:
    for size, batch in ((64, 1), (32, 1), (64, 3), (32, 8), (224, 2), (96, 5)):
        side = size // 32
        mistakes = {
            float(side**2): "You left the batch out: the mean goes over all of its images too.",
            float(batch * side): "A map has two sides: square it.",
            float(batch * (size // 4) ** 2): "That is the map behind the stem. Three stages halve it after that.",
            float(batch * (size // 16) ** 2): "4 times 2 times 2 times 2 is 32.",
            float(batch * (size // 8) ** 2): "Three of the four stages halve the side.",
            float(batch * size**2): "Those are the pixels of the images; the last norm sees the map that is left of them.",
            float(batch): "That is right for 32 pixels only; larger images leave larger maps.",
            float(3 * batch * side**2): "Colours are gone behind the stem; count for one channel.",
        }  # fmt: skip
        mistakes.pop(float(batch * side**2), None)
        for reason in _number(answer, (size, batch), float(batch * side**2), mistakes):
            yield f"values(size={size}, batch={batch}): {reason}"


# -- main effects --------------------------------------------------------------------------------------------------------


def _table() -> dict[tuple[int, ...], list[float]]:
    """PSNR of eight combinations in three repeats, with interactions, so that no average stands for another."""
    photographs = (10.0, 14.0, 19.0)
    table: dict[tuple[int, ...], list[float]] = {}
    for a, b, c in itertools.product((0, 1), repeat=3):
        table[a, b, c] = [
            p + (3 + 0.5 * k) * a - (1 + 0.2 * k) * b + 0.4 * c + 1.6 * a * b + (0.9 - k) * b * c for k, p in enumerate(photographs)
        ]  # fmt: skip
    return table


def _effects(table: dict[tuple[int, ...], list[float]], switch: int) -> list[float]:
    def mean(setting: int, k: int) -> float:
        return float(np.mean([v[k] for s, v in table.items() if s[switch] == setting]))

    return [mean(1, k) - mean(0, k) for k in range(3)]


@a_function
def effect(answer: Callable[..., Any]) -> Iterator[str]:
    for switch in (0, 1, 2):
        table = _table()
        value, right = answer({s: list(v) for s, v in table.items()}, switch), _effects(table, switch)
        if value is None:
            yield OPEN
            return
        effects = np.asarray([float(v) for v in value] if isinstance(value, Sequence) else value, dtype=float)
        where = f"effect(dB, {switch})"
        if effects.ndim == 0:
            yield f"{where} gives one number; keep the repeats apart, and return a list of {len(right)}."
            return
        if effects.shape != (len(right),):
            yield f"{where} has the shape {effects.shape}; there are {len(right)} repeats, one effect each."
            return
        if np.allclose(effects, right, atol=1e-4):
            continue
        alone = tuple(int(i == switch) for i in range(3))
        slips = {
            "The sign: on less off, 1 less 0.": [-v for v in right],
            "Half of it: that is the distance from the overall mean. Take mean of 1 less mean of 0.": [v / 2 for v in right],
            "You added where a mean was asked for: four combinations have a 1 in that place, and four a 0.": [4 * v for v in right],
            "That is the effect with all others off. Average over *all* settings of the others.": [
                table[alone][k] - table[0, 0, 0][k] for k in range(3)
            ],
            "That is the mean of the combinations with a 1; subtract that of those with a 0.": [
                float(np.mean([v[k] for s, v in table.items() if s[switch]])) for k in range(3)
            ],
            "You averaged over the repeats, and gave that to each of them.": [float(np.mean(right))] * 3,
        }  # fmt: skip
        yield from (f"{where}: {why}" for why, slip in slips.items() if np.allclose(effects, slip, atol=1e-4))
        for other in {0, 1, 2} - {switch}:
            if np.allclose(effects, _effects(table, other), atol=1e-4):
                yield f"{where}: that is the effect of switch {other}."
        yield f"{where}: repeat 0 should be {right[0]:.4g}, and yours is {effects[0]:.4g}."


# -- at the same overfitting ---------------------------------------------------------------------------------------------

Curve = tuple[list[float], list[float]]
# Levels and accuracies on a straight line each, so that the mean over a range is the same on any even grid. The last pair is out of order.
CURVES: tuple[tuple[Curve, Curve], ...] = (
    (([0.1, 0.3, 0.4, 0.5], [0.55, 0.65, 0.70, 0.75]), ([0.2, 0.4, 0.8], [0.56, 0.64, 0.80])),
    (([0.0, 0.2, 0.4, 0.9], [0.5, 0.56, 0.62, 0.77]), ([0.1, 0.6], [0.55, 0.70])),
    (([0.5, 0.1, 0.3], [0.75, 0.55, 0.65]), ([0.2, 0.8, 0.4], [0.56, 0.80, 0.64])),
)  # fmt: skip


@a_function
def matched(answer: Callable[..., Any]) -> Iterator[str]:
    for number, (one, other) in enumerate(CURVES):
        copies = [(list(curve[0]), list(curve[1])) for curve in (one, other)]
        value = answer(*copies)
        if value is None:
            yield OPEN
            return
        effect = answers.number(value)
        if effect is None:
            yield f"Give one number; this has the shape {np.shape(value)}."
            return
        right = _over(one, other)
        if abs(effect - right) <= 1e-3:
            continue
        slips = {
            "The sign: one less other.": -right,
            "That compares epoch by epoch, whatever the levels are then. Compare at equal levels.": _by_epoch(one, other),
            "That compares the ends of the two trainings, at unequal levels.": one[1][-1] - other[1][-1],
            "That is the difference of the two mean accuracies, each over its own levels.": float(np.mean(one[1]) - np.mean(other[1])),
            "Your grid leaves a curve, and beyond its ends numpy.interp repeats the last value. Take what *both* went through.": (
                _over(one, other, inside=False)
            ),
            "numpy.interp wants the levels in rising order; these are not, since a gap may shrink from one epoch to the next.": (
                _over(one, other, ordered=False)
            ),
            "That is the sum over a grid; take its mean.": 200 * right,
        }  # fmt: skip
        for why, slip in slips.items():
            if abs(effect - slip) <= 2e-3 and abs(slip - right) > 2e-3:
                yield f"Pair {number + 1}: {why}"
        yield f"For levels {one[0]} with {one[1]} against {other[0]} with {other[1]} it should be {right:.4f}, and yours is {effect:.4f}."


def _over(one: Curve, other: Curve, inside: bool = True, ordered: bool = True) -> float:
    """Mean difference on a grid: over the levels of both, or (a slip) of either; in rising order, or (a slip) as they come."""
    points = [list(zip(*curve, strict=True)) for curve in (one, other)]
    sides = [np.array(sorted(p) if ordered else p).T for p in points]
    ends = [(min(side[0]), max(side[0])) for side in sides]
    low, high = (max(e[0] for e in ends), min(e[1] for e in ends))
    if not inside:
        low, high = (min(e[0] for e in ends), max(e[1] for e in ends))
    grid = np.linspace(low, high, 2001)
    return float(np.mean(np.interp(grid, *sides[0]) - np.interp(grid, *sides[1])))


def _by_epoch(one: Curve, other: Curve) -> float:
    return float(np.mean([a - b for a, b in zip(one[1], other[1], strict=False)]))


# -- how sharp -----------------------------------------------------------------------------------------------------------


def sharpness(answer: object) -> Iterator[str]:
    for gap in (0.1, 0.007):
        right = math.log(2) / gap
        yield from _number(answer, (gap,), right, {
            1 / gap: "At 0 softplus is log(1 + 1) / beta: not 1 / beta.",
            gap / math.log(2): "Upside down: the smaller the gap, the sharper.",
            gap * math.log(2): "Upside down, and the logarithm with it: at 0 the gap is log(2) / beta.",
            math.log10(2) / gap: "The logarithm is the natural one.",
            1.0 / gap * math.log2(math.e): "The logarithm is the natural one, and log 2 stands above.",
        })  # fmt: skip


CHECKS = {
    "10.block": block,
    "10.effect": effect,
    "10.confounded": confounded,
    "10.values": values,
    "10.matched": matched,
    "10.sharpness": sharpness,
}
DEEPER = {"norms": ("10.values",), "membership": ("10.matched",), "defences": ("10.sharpness",)}
