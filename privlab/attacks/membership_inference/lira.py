"""LiRA, the likelihood-ratio attack (Carlini et al. 2022, "Membership Inference Attacks From First Principles", Algorithm 1).

Shadow models that were trained on a sample, and others that were not, are asked about it. A Gaussian is fitted to the scores of either
side, per sample and query, and the victim's score phi is held against them:

    online     log N(phi; mean_in, std_in) - log N(phi; mean_out, std_out)      Algorithm 1
    offline    -log P[Z > phi],  Z ~ N(mean_out, std_out)                       equation 4; no shadow need know the sample

and averaged over queries (an image and its mirror image, say). phi is `signals.margin`: near Gaussian, and it does not saturate.

    variance="fixed"        one std a side for all samples and queries: of all its scores, so it holds the spread *between* samples as well
    variance="per-example"  one for each sample and query, over models; the better one with 64 shadows or more
    variance="pooled"       root of the mean variance *within* a sample, degrees of freedom counted; ours, not the paper's

No std is below 2^-24 max(1, |mean|), the rounding of a log-odds that comes from float32 logits; so scores stay finite.

**A trap.** If each sample is in exactly half of M models and each model is the target in turn, the M - 1 others hold one model fewer on the
target's side: to count them tells members apart. No score counts, but what is fitted to fewer scores fits worse, so members look strange.
On Gaussian noise, 8 models, the online AUC is 0.475 ("fixed") or 0.445 ("per-example") and not 0.500; offline the TPR at 1% FPR is 0.79%
or 0.27%. `every_target(..., pairs=True)` gets 0.500 and 1%.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

VARIANCES = ("fixed", "per-example", "pooled")
FLOOR = 2.0**-24


class Fit(NamedTuple):
    """Two Gaussians for each sample and query; each field (..., n, queries), NaN on a side that was not looked at."""

    mean_in: Tensor
    std_in: Tensor
    mean_out: Tensor
    std_out: Tensor


def score(target: Tensor, shadows: Tensor, keep: Tensor, *, online: bool = True, variance: str = "fixed") -> Tensor:
    """How much better the victim's scores fit a member than a non-member, sample by sample.

    target: (n, queries), the victim's margins.  shadows: (models, n, queries), the shadow models'.
    keep: (models, n) bool, which shadow was trained on which sample.
    Returns (n,), float64, higher = member.
    Raises ValueError for shapes and types that do not fit, NaN or infinite margins, an unknown variance, and a sample without a shadow on
    a side that the attack looks at (with fewer than 2, where variance="per-example").
    """
    fit = gaussians(shadows, keep, variance, online=online)
    victim = torch.as_tensor(target).double()
    if victim.shape != fit.mean_out.shape or not victim.isfinite().all():
        raise ValueError(
            f"target: got shape {tuple(victim.shape)}, {int((~victim.isfinite()).sum())} values NaN or infinite; "
            f"give finite margins of shape {tuple(fit.mean_out.shape)}, as those of one shadow"
        )
    return statistic(victim, fit, online).mean(1)


def gaussians(shadows: Tensor, keep: Tensor, variance: str = "fixed", *, online: bool = True) -> Fit:
    """The Gaussians that `score` holds a victim against, fields (n, queries). Arguments and errors are those of `score`."""
    phi, member = _checked("shadows", shadows, keep, online, variance)
    everyone = phi.new_ones(1, len(phi))
    return Fit(*(field[0] for field in _fit(phi, member, everyone, online, variance)))


def every_target(
    phi: Tensor, keep: Tensor, *, online: bool = True, variance: str = "fixed", pairs: bool = False
) -> Tensor:
    """Each model as the target once, all others as its shadows: M attacks at the cost of a few.

    phi: (models, n, queries) margins.  keep: (models, n) bool, which model was trained on which sample; half of the models on each.
    pairs: rows 2k and 2k + 1 hold complementary halves, and a target's partner is no shadow of it either. Then either side has as many
    shadows whether the target is in or out, and the trap above is shut: prefer it.
    Returns (models, n), float64, higher = member; row t is score(phi[t], ...) with all other rows (but its partner's) as shadows.
    Raises ValueError as `score` does, for fewer than 2 models, and for rows that are no pairs where pairs=True.
    """
    phi, member = _checked("phi", phi, keep, online, variance, pairs)
    fit = _fit(phi, member, shadows_of_each(phi, pairs), online, variance)
    return statistic(phi, fit, online).mean(2)


def statistic(phi: Tensor, fit: Fit, online: bool) -> Tensor:
    """The test statistic of a victim for each sample and query: a log-likelihood ratio online, a one-sided test offline.

    phi: the victim's margins, float64, of the shape of the fields of `fit`.  Returns that shape, higher = member.
    """

    def log_density(mean: Tensor, std: Tensor) -> Tensor:
        return ((phi - mean) / std).square() / -2 - std.log() - math.log(2 * math.pi) / 2

    if online:
        return log_density(fit.mean_in, fit.std_in) - log_density(fit.mean_out, fit.std_out)
    return -torch.special.log_ndtr((fit.mean_out - phi) / fit.std_out)  # P[Z > phi], by symmetry


def shadows_of_each(like: Tensor, pairs: bool) -> Tensor:
    """1.0 where a model is a shadow of a target, (targets, models): all but itself and, with pairs, its partner."""
    row = torch.arange(len(like), device=like.device)
    group = row // 2 if pairs else row
    return (group[:, None] != group).to(like)


def _fit(phi: Tensor, member: Tensor, shadows: Tensor, online: bool, variance: str) -> Fit:
    """phi: (models, n, queries).  shadows: (targets, models), 1.0 or 0.0.  Fields (targets, n, queries)."""
    mean_out, std_out = _gaussian(phi, ~member, shadows, variance)
    if online:
        return Fit(*_gaussian(phi, member, shadows, variance), mean_out, std_out)
    nothing = phi.new_full((1, 1, 1), torch.nan).expand_as(mean_out)
    return Fit(nothing, nothing, mean_out, std_out)


def _gaussian(phi: Tensor, side: Tensor, shadows: Tensor, variance: str) -> tuple[Tensor, Tensor]:
    """Mean and std of one side, each (targets, n, queries).

    A target's shadows are summed by a matrix product and never subtracted from a sum over all, so a model that diverged (scores of 1e9)
    costs the others no digit. Squares are summed about the median of a sample, for the same reason.
    """
    centre = phi.where(side[..., None], torch.nan).nanmedian(0).values  # (n, queries)
    weight = side[..., None].to(phi)  # (models, n, 1)
    apart = (phi - centre) * weight
    count = torch.tensordot(shadows, weight, 1)  # (targets, n, 1)
    mean = torch.tensordot(shadows, apart, 1) / count
    squares = torch.tensordot(shadows, apart.square_(), 1).sub_(count * mean.square()).clamp_(min=0)
    mean += centre

    if variance == "per-example":
        level, freedom = mean, count - 1
    else:
        scores = count.sum((1, 2), keepdim=True) * phi.shape[2]  # (targets, 1, 1)
        level = (count * mean).sum((1, 2), keepdim=True) / scores
        if variance == "fixed":
            squares += count * (mean - level).square()  # between samples as well
        squares = squares.sum((1, 2), keepdim=True)
        freedom = scores - 1 if variance == "fixed" else (count - 1).sum((1, 2), keepdim=True) * phi.shape[2]
    if not freedom.all():
        raise ValueError(
            f"keep: on one side no sample has 2 shadows, which leaves {variance=} nothing to measure; take more models, or samples"
        )
    std = (squares / freedom).sqrt().maximum(FLOOR * level.abs().clamp(min=1))
    return mean, std.expand_as(mean)


def _checked(
    name: str, phi: Tensor, keep: Tensor, online: bool, variance: str, pairs: bool | None = None
) -> tuple[Tensor, Tensor]:
    """Margins in float64, (models, n, queries), and keep as a tensor, (models, n)."""
    if variance not in VARIANCES:
        raise ValueError(f"variance={variance!r} is not known; give {' or '.join(map(repr, VARIANCES))}")
    values = torch.as_tensor(phi)
    if values.ndim != 3 or 0 in values.shape or not values.is_floating_point():
        raise ValueError(
            f"{name}: got shape {tuple(values.shape)} of {values.dtype}; give floats (models, n, queries), a query axis of 1 included"
        )
    if broken := int((~values.isfinite()).sum()):
        raise ValueError(
            f"{name}: {broken:,} of {values.numel():,} margins are NaN or infinite; take signals.margin of the raw logits, in float64"
        )
    return values.double(), checked(keep, values, online, 2 if variance == "per-example" else 1, f"{variance=}", pairs)


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
    if pairs and (keep[::2] == keep[1::2]).any():
        raise ValueError(
            "pairs=True, but rows 2k and 2k + 1 of keep agree on some sample; draw complementary halves, or give pairs=False"
        )
    for side, count in [("in", keep.sum(0))] * online + [("out", (~keep).sum(0))]:
        if (short := count < need + targets).any():
            i, spent = int(short.nonzero()[0]), ", one of which can be the target," if targets else ""
            raise ValueError(
                f"keep: sample {i} is {side} for {int(count[i])} of {models} models{spent} and {why} needs {need + targets}; "
                f"{int(short.sum()):,} of {len(count):,} samples fall short; put each in half of the models, and take enough models"
            )
    return keep
