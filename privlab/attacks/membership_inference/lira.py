"""LiRA, the likelihood-ratio attack (Carlini et al. 2022, Algorithm 1).

Shadow models that were trained on a sample, and others that were not, are asked about it. A Gaussian is fitted to the scores of either
side, per sample and query, and the victim's score phi is held against them:

    online     log N(phi; mean_in, std_in) - log N(phi; mean_out, std_out)      Algorithm 1
    offline    -log P[Z > phi],  Z ~ N(mean_out, std_out)                       equation 4; no shadow need know the sample

and averaged over queries (an image and its mirror image, say). phi is `signals.margin`: near Gaussian, and it does not saturate. The std is

    "fixed"        one a side for all samples and queries: of all its scores, so it holds the spread *between* samples as well
    "per-example"  one for each sample and query, over models; the better one with 64 shadows or more
    "pooled"       the root of the mean variance *within* a sample, degrees of freedom counted; ours, not the paper's

and not below 2^-24 max(1, |mean|), the rounding of a log-odds that comes from float32 logits; so scores stay finite.
**A trap.** If each sample is in exactly half of M models and each model is the target in turn, the M - 1 others hold one model fewer on the
target's side, and what is fitted to fewer scores fits worse: members look strange. On Gaussian noise, 8 models, the online AUC is 0.475
("fixed") or 0.445 ("per-example") and not 0.500; offline the TPR at 1% FPR is 0.79% or 0.27%. With `pairs` it is 0.500 and 1%.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

VARIANCES = ("fixed", "per-example", "pooled")
FLOOR = 2.0**-24


class Fit(NamedTuple):
    """Two Gaussians for each sample and query; each field (..., n, queries), NaN on a side without shadows."""

    mean_in: Tensor
    std_in: Tensor
    mean_out: Tensor
    std_out: Tensor


def gaussians(shadows: Tensor, keep: Tensor, variance: str = "fixed") -> Fit:
    """The Gaussians that `statistic` holds a victim against, fields (n, queries).

    shadows: (models, n, queries), the shadow models' margins.  keep: (models, n) bool, which of them was trained on which sample.
    """
    phi = shadows.double()
    return Fit(*(field[0] for field in _fit(phi, keep, phi.new_ones(1, len(phi)), variance)))


def every_target(
    phi: Tensor, keep: Tensor, *, online: bool = True, variance: str = "fixed", pairs: bool = False
) -> Tensor:
    """Each model as the target once, all others as its shadows; (models, n), float64, higher = member.

    phi: (models, n, queries) margins.  keep: (models, n) bool, which model was trained on which sample; half of the models on each.
    pairs: rows 2k and 2k + 1 hold complementary halves, and a target's partner is no shadow of it either. Then either side has as many
    shadows whether the target is in or out: prefer it.
    Raises ValueError for shapes that do not fit, margins that are not finite, an unknown variance, and too few shadows of a sample.
    """
    if phi.shape[:2] != keep.shape or phi.ndim != 3 or not phi.isfinite().all():
        raise ValueError(f"phi: got shape {tuple(phi.shape)}; give finite (models, n, queries), with keep (models, n)")
    need = 3 if variance == "per-example" else 2  # the target, and as many as a spread takes
    phi, shadows = phi.double(), shadows_of_each(keep, need, online, pairs)
    return statistic(phi, _fit(phi, keep, shadows, variance), online).mean(2)


def statistic(phi: Tensor, fit: Fit, online: bool) -> Tensor:
    """The test statistic of a victim's margins phi, of the shape of the fields of `fit`: a log-likelihood ratio, or a one-sided test."""

    def log_density(mean: Tensor, std: Tensor) -> Tensor:
        return ((phi - mean) / std).square() / -2 - std.log() - math.log(2 * math.pi) / 2

    if online:
        return log_density(fit.mean_in, fit.std_in) - log_density(fit.mean_out, fit.std_out)
    return -torch.special.log_ndtr((fit.mean_out - phi) / fit.std_out)  # P[Z > phi], by symmetry


def shadows_of_each(keep: Tensor, need: int, online: bool, pairs: bool) -> Tensor:
    """1.0 where a model is a shadow of a target, (targets, models): all but itself and, with pairs, its partner.

    need: models that each sample is out of, and online also in; ValueError for fewer, and for rows that are no pairs.
    """
    sides = [keep, ~keep] if online else [~keep]
    if min(int(side.sum(0).min()) for side in sides) < need:
        raise ValueError(f"keep: some sample is on one side of fewer than {need} models; put each in half of more")
    if pairs and (len(keep) % 2 or (keep[::2] == keep[1::2]).any()):
        raise ValueError("keep: pairs=True, but rows 2k and 2k + 1 are no complementary halves; draw such")
    group = torch.arange(len(keep), device=keep.device) // (2 if pairs else 1)
    return (group[:, None] != group).double()


def _fit(phi: Tensor, member: Tensor, shadows: Tensor, variance: str) -> Fit:
    """phi: (models, n, queries).  shadows: (targets, models), 1.0 or 0.0.  Fields (targets, n, queries)."""
    if variance not in VARIANCES:
        raise ValueError(f"variance={variance!r} is not known; try {', '.join(VARIANCES)}")
    member, shadows = member.to(phi.device), shadows.to(phi.device)  # a keep matrix is drawn on the CPU
    return Fit(*_gaussian(phi, member, shadows, variance), *_gaussian(phi, ~member, shadows, variance))


def _gaussian(phi: Tensor, side: Tensor, shadows: Tensor, variance: str) -> tuple[Tensor, Tensor]:
    """Mean and std of one side, (targets, n, queries): squares are about a sample's median, so a model that diverged costs no digit."""
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
    std = (squares / freedom).sqrt().maximum(FLOOR * level.abs().clamp(min=1))
    return mean, std.expand_as(mean)
