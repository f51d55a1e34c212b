"""Statistics of models without one of them, for each one in turn: what it takes to make every model the target of an attack once.

One is taken out of a sum rather than the others summed anew, unless that would cost digits: 1 + 1e-40 - 1 is 0 in float64.

Scores are (models, queries, n) here, samples last. A sample has two sides: the models that were trained on it (in), and the others (out).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

Moments = tuple[Tensor, Tensor, Tensor]  # how many scores, their mean, and their squared distances to it summed up


def moments(phi: Tensor, sides: Tensor) -> Moments:
    """Of each side over models; a sample has one model or more on each.

    phi: (models, queries, n).  sides: (s, models, n) bool.  Returns (s, 1, n), then (s, queries, n) twice.
    """
    weight = sides.transpose(0, 1)[:, :, None].to(phi)  # (models, s, 1, n)
    size = weight.sum(0)
    total = phi.new_zeros(len(sides), *phi.shape[1:])
    squares = torch.zeros_like(total)
    for row, inside in zip(phi, weight, strict=True):  # row by row, which a processor's cache can hold
        total.addcmul_(row, inside)
    mean = total / size
    for row, inside in zip(phi, weight, strict=True):
        step = (row - mean).mul_(inside)
        squares.addcmul_(step, step)
    return size, mean, squares


def moments_without(phi: Tensor, sides: Tensor, whole: Moments, who: Tensor, leaves: Tensor, gone: Tensor) -> Moments:
    """The same once a model has left each side, where one has.

    phi, sides: as for `moments`.  whole: what it gave.  who: (s, n), the index of the model that leaves.
    leaves: (s, queries, n), its scores.  gone: (s, 1, n), 1.0 where it does leave, else 0.0.  Returns the shapes of `whole`.
    """
    size, mean, squares = whole
    left = size - gone
    step = (leaves - mean).mul_(gone / left)
    mean, less = mean - step, squares - step.square_().mul_(size * left)
    drowned = less < 1e-4 * squares  # it was so far off that what is left has lost 4 digits or more
    if drowned.any():
        side, query, i = drowned.nonzero(as_tuple=True)
        others = sides[side, :, i]  # (drowned, models)
        others[torch.arange(len(i)), who[side, i]] = False
        scores = phi[:, query, i].T
        mean[drowned] = (scores * others).sum(1) / others.sum(1)
        less[drowned] = ((scores - mean[drowned][:, None]) * others).square().sum(1)
    return left, mean, less


def median(phi: Tensor, sides: Tensor) -> Tensor:
    """Of each side over models, as many for each sample; of an even number the mean of the middle two, as in NumPy and not in torch.

    phi: (models, queries, n).  sides: (s, models, n) bool.  Returns (s, queries, n).
    """
    return torch.stack([(r[0] + r[-1]) / 2 for r in _ranks(phi, sides, lambda size: ((size - 1) // 2, size // 2 + 1))])


def middle(phi: Tensor, sides: Tensor) -> Tensor:
    """All that `median_without` must know of sides of one size: the scores of 2 or 3 ranks, (2 or 3, s, queries, n)."""
    return torch.stack(_ranks(phi, sides, lambda size: ((size - 2) // 2, (size - 1) // 2 + 2)), 1)


def median_without(middle: Tensor, leaves: Tensor) -> Tensor:
    """The medians of sides that a score has left: when one leaves a row, those behind it move up a place.

    leaves: (s, queries, n), the scores.  Returns the same shape.
    """
    moved = [choose((leaves > x).to(x), x, y) for x, y in pairwise(middle)]
    return (moved[0] + moved[-1]) / 2


def _ranks(phi: Tensor, sides: Tensor, places: Callable[[int], tuple[int, int]]) -> list[Tensor]:
    """Sorted scores of each side from one place to another; by NumPy, which sorts short rows far faster than torch."""
    scores = phi.permute(1, 2, 0).contiguous().cpu().numpy()  # (queries, n, models)
    ranks = []
    for side in sides.transpose(1, 2).cpu().numpy():  # (n, models)
        rows = scores[np.broadcast_to(side, scores.shape)].reshape(*scores.shape[:2], -1)
        rows.sort(-1)
        start, stop = places(rows.shape[-1])
        ranks.append(torch.from_numpy(rows[..., start:stop]).permute(2, 0, 1).contiguous().to(phi.device))
    return ranks


def choose(first: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where `first` is 1.0, y where it is 0.0: torch.where for finite numbers, five times as fast, since it does not branch."""
    return torch.lerp(y, x, first)  # it returns its ends exactly


def at(values: Tensor, model: Tensor) -> Tensor:
    """Of each sample the row of a model of its own.  values: (models, ..., n).  model: (n,).  Returns (..., n)."""
    return values.gather(0, model.expand(1, *values.shape[1:]))[0]


def sums_without(values: Tensor) -> Tensor:
    """For each row the sum of all others: of those before it and of those behind it, so of positive values every digit is kept.

    values: (rows, ...).  Returns the same shape.
    """
    nothing = torch.zeros_like(values[:1])
    before = torch.cat([nothing, values[:-1]]).cumsum(0)
    behind = torch.cat([nothing, values[1:].flip(0)]).cumsum(0).flip(0)
    return before + behind


def checked(keep: Tensor, like: Tensor, online: bool, need: int, why: str, pairs: bool | None = None) -> Tensor:
    """Which model was trained on which sample, as a bool tensor, (models, n).  Raises ValueError where an attack could not use it.

    like: scores, (models, n, ...).  online: shadows are needed on both sides of a sample, not on the out side alone.
    need: how many shadows, and `why` says who needs them.  pairs: not None if each model is to be the target in turn; True: with rows
    2k and 2k + 1 as complements.
    """
    keep, models = torch.as_tensor(keep, device=like.device), len(like)
    if keep.shape != like.shape[:2] or keep.dtype != torch.bool:
        raise ValueError(
            f"keep: got shape {tuple(keep.shape)} of {keep.dtype}; give bools of shape {tuple(like.shape[:2])}, a row for each model"
        )
    targets = 0 if pairs is None else 1
    if targets and models < 2:
        raise ValueError("keep: 1 model has no shadows; give 2 models or more, with each sample in half of them")
    if pairs and models % 2:
        raise ValueError(f"pairs=True, but {models} models leave one over; give an even number of them, or pairs=False")
    if pairs and (same := (keep[::2] == keep[1::2]).sum(1)).any():
        k = int(same.nonzero()[0])
        raise ValueError(
            f"pairs=True, but rows {2 * k} and {2 * k + 1} of keep agree on {int(same[k])} of {keep.shape[1]} samples; "
            "draw complementary halves, or give pairs=False"
        )
    for side, count in [("in", keep.sum(0))] * online + [("out", (~keep).sum(0))]:
        if (short := count < need + targets).any():
            i, spent = int(short.nonzero()[0]), ", one of which can be the target," if targets else ""
            raise ValueError(
                f"keep: sample {i} is {side} for {int(count[i])} of {models} models{spent} and {why} needs {need + targets}; "
                f"{int(short.sum()):,} of {len(count):,} samples fall short; put each in half of the models, and take enough models"
            )
    return keep
