"""LiRA, the likelihood-ratio attack (Carlini et al. 2022, "Membership Inference Attacks From First Principles", Algorithm 1).

Shadow models that were trained on a sample, and others that were not, are asked about it. A Gaussian is fitted to the scores of either
side, per sample and query, and the victim's score phi is held against them:

    online     log N(phi; mean_in, std_in) - log N(phi; mean_out, std_out)      Algorithm 1
    offline    -log P[Z > phi],  Z ~ N(mean_out, std_out)                       equation 4; no shadow need know the sample

and averaged over queries (an image and its mirror image, say). phi is `signals.margin`: near Gaussian, and it does not saturate.

    variance="fixed"        one std a side for all samples and queries: of all its scores, so it holds the spread *between* samples as well
    variance="per-example"  one for each sample and query, over models; the better one with 64 shadows or more
    variance="pooled"       root of the mean variance *within* a sample, degrees of freedom counted; ours, in neither paper nor reference

    protocol="paper"        protocol="reference", the authors' public code
    centre: mean            centre: median (of an even number, the mean of the two in the middle)
    all shadows             each side cut to the first c models of a sample, c the fewest that any sample has on that side
    std divides by n - 1    std divides by n ("pooled" by its degrees of freedom in both); the paper's text leaves it open
    std_out of out scores   online with "fixed", std_out is the std of the *in* scores
    offline as above        offline -log N(phi; mean_out, std_out): two-sided, so a very *low* phi looks like a member's too

Both average over queries, and both have our floor: no std is below 2^-24 max(1, |mean|), the rounding of a log-odds that comes from float32
logits. So scores stay finite where shadows agree to the last digit; the public code adds 1e-30 instead.

**A trap.** If each sample is in exactly half of M models and each model is the target in turn, the M - 1 others hold one model fewer on the
target's side: to count them tells members apart. No score counts, but what is fitted to fewer scores fits worse, so members look strange.
On Gaussian noise AUC and TPR at 1% FPR should be 0.500 and 1%; protocol="paper" gets (20,000 samples, 5 draws; "pooled" as "fixed")

    M                                 4        8       16       64
    online, AUC, "fixed"          0.412    0.475    0.492    0.499     standard errors up to 0.002
    ... "per-example"                 -    0.445    0.488    0.499     (0.433 at M = 8 with a std that divides by n)
    offline, TPR, "fixed"         0.35%    0.79%    0.92%     1.0%     with an AUC of 0.500, which does not tell
    ... "per-example"                 -    0.27%    0.78%    0.98%

`every_target(..., pairs=True)` gets 0.500 and 1% throughout, and so does protocol="reference", thanks to its cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from privlab.attacks.membership_inference import leave_one_out
from privlab.attacks.membership_inference.leave_one_out import Moments, choose

VARIANCES = ("fixed", "per-example", "pooled")
PROTOCOLS = ("paper", "reference")
FLOOR = 2.0**-24


class Fit(NamedTuple):
    """Two Gaussians for each sample and query; each field (n, queries)."""

    mean_in: Tensor
    std_in: Tensor
    mean_out: Tensor
    std_out: Tensor


def score(
    target: Tensor,
    shadows: Tensor,
    keep: Tensor,
    *,
    online: bool = True,
    variance: str = "fixed",
    protocol: str = "paper",
) -> Tensor:
    """How much better the victim's scores fit a member than a non-member, sample by sample.

    target: (n, queries), the victim's margins.  shadows: (models, n, queries), the shadow models'.
    keep: (models, n) bool, which shadow was trained on which sample.
    Returns (n,), float64, higher = member.
    Raises ValueError for shapes and types that do not fit, NaN or infinite margins, unknown options, and a sample without a shadow on a
    side that the attack looks at (with fewer than 2, where variance="per-example").
    """
    fit = gaussians(shadows, keep, variance, protocol, online=online)
    victim = torch.as_tensor(target).double()
    if victim.shape != fit.mean_out.shape or not victim.isfinite().all():
        raise ValueError(
            f"target: got shape {tuple(victim.shape)}, {int((~victim.isfinite()).sum())} values NaN or infinite; "
            f"give finite margins of shape {tuple(fit.mean_out.shape)}, as those of one shadow"
        )
    return statistic(victim, fit, online, protocol).mean(1)


def gaussians(
    shadows: Tensor, keep: Tensor, variance: str = "fixed", protocol: str = "paper", *, online: bool = True
) -> Fit:
    """The Gaussians that `score` holds a victim against. Arguments and errors are those of `score`.

    Returns mean_in, std_in, mean_out and std_out, each (n, queries). With online=False the in side is not looked at, and NaN.
    """
    phi, member = _checked("shadows", shadows, keep, online, variance, protocol)
    fit = _fit(*_moments_and_centre(phi, _sides(member, online), protocol), variance, protocol)
    return Fit(*(field.expand(phi.shape[1:]).T for field in fit))


def every_target(
    phi: Tensor,
    keep: Tensor,
    *,
    online: bool = True,
    variance: str = "fixed",
    protocol: str = "paper",
    pairs: bool = False,
) -> Tensor:
    """Each model as the target once, all others as its shadows: M attacks at the cost of a few, see `leave_one_out`.

    phi: (models, n, queries) margins.  keep: (models, n) bool, which model was trained on which sample; half of the models on each.
    pairs: rows 2k and 2k + 1 hold complementary halves, and a target's partner is no shadow of it either. Then either side has as many
    shadows whether the target is in or out, and the trap above is shut: prefer it.
    Returns (models, n), float64, higher = member; row t is score(phi[t], ...) with all other rows (but its partner's) as shadows.
    Raises ValueError as `score` does, for fewer than 2 models, and for rows that are no pairs where pairs=True.
    """
    phi, member = _checked("phi", phi, keep, online, variance, protocol, pairs)
    scores = phi.new_empty(member.shape)
    for t, (moments, centre) in enumerate(_without_each(phi, member, online, protocol, pairs)):
        scores[t] = statistic(phi[t], _fit(moments, centre, variance, protocol), online, protocol).mean(0)
    return scores


def statistic(phi: Tensor, fit: Fit, online: bool, protocol: str) -> Tensor:
    """The test statistic of one victim for each sample and query: a log-likelihood ratio online, a one-sided test offline.

    phi: the victim's margins, float64, of any shape that the fields of `fit` fit.  Returns the shape of phi, higher = member.
    """

    def log_density(mean: Tensor, std: Tensor) -> Tensor:
        return (phi - mean).div_(std).square_().div_(-2).sub_(std.log() + math.log(2 * math.pi) / 2)

    if online:
        return log_density(fit.mean_in, fit.std_in) - log_density(fit.mean_out, fit.std_out)
    if protocol == "paper":
        return -torch.special.log_ndtr((fit.mean_out - phi) / fit.std_out)  # P[Z > phi], by symmetry
    return -log_density(fit.mean_out, fit.std_out)


def _fit(moments: Moments, centre: Tensor, variance: str, protocol: str) -> Fit:
    """Gaussians of both sides, or of the out side alone; fields (queries, n), or (1, 1) where one value serves all."""
    std = _std(moments, variance, ddof=1 if protocol == "paper" else 0)
    if len(std) == 1:
        nothing = std.new_full((1, 1), torch.nan)
        return Fit(nothing, nothing, centre[0], std[0])
    same = protocol == "reference" and variance == "fixed"
    return Fit(centre[0], std[0], centre[1], std[0 if same else 1])


def _std(moments: Moments, variance: str, ddof: int) -> Tensor:
    size, mean, squares = moments

    def over_samples(x: Tensor) -> Tensor:
        return x.sum((1, 2), keepdim=True)  # (sides, 1, 1)

    if variance == "per-example":
        freedom = size - ddof
    else:
        scores = over_samples(size) * mean.shape[1]
        centre = over_samples(size * mean) / scores
        if variance == "fixed":
            squares = squares + (mean - centre).square_().mul_(size)  # between samples as well
        freedom = scores - ddof if variance == "fixed" else over_samples(size - 1) * mean.shape[1]
        mean, squares = centre, over_samples(squares)
    if not freedom.all():
        raise ValueError(
            f"keep: on one side no sample has 2 shadows, which leaves {variance=} nothing to measure; take more models, or samples"
        )
    return (squares / freedom).sqrt_().maximum(FLOOR * mean.abs().clamp(min=1))


def _sides(member: Tensor, online: bool) -> Tensor:
    """The sides that the attack looks at, in and out or out alone: (sides, models, n) bool."""
    return torch.stack([member, ~member] if online else [~member])


def _moments_and_centre(phi: Tensor, sides: Tensor, protocol: str) -> tuple[Moments, Tensor]:
    """What the Gaussians are made of, for one set of shadows; the centre is (sides, queries, n)."""
    if protocol == "paper":
        moments = leave_one_out.moments(phi, sides)
        return moments, moments[1]
    fewest = sides.sum(1).amin(1)
    sides = sides & (sides.cumsum(1) <= fewest[:, None, None])
    return leave_one_out.moments(phi, sides), leave_one_out.median(phi, sides)


def _without_each(
    phi: Tensor, member: Tensor, online: bool, protocol: str, pairs: bool
) -> Iterator[tuple[Moments, Tensor]]:
    """The same for each model as the target in turn, with the others as its shadows."""
    models = torch.arange(len(phi))
    alike = (2 * member.sum(0) == len(phi)).all() and member.any(1).all() and not member.all(1).any()
    if protocol == "reference" and not pairs and not alike:  # sides are cut to another size for another target
        for t in models:
            yield _moments_and_centre(phi[models != t], _sides(member[models != t], online), protocol)
        return

    sides = _sides(member, online)
    whole = leave_one_out.moments(phi, sides)
    if protocol == "reference":
        middle = leave_one_out.middle(phi, sides)
        last = len(phi) - 1 - sides.flip(1).byte().argmax(1)  # (sides, n)
        last_phi = torch.stack([leave_one_out.at(phi, who) for who in last])  # (sides, queries, n)
    other: int | Tensor
    for t in range(len(phi)):
        on = sides[:, t, None].double()  # (sides, 1, n). The side that the target is on loses it; what does the other?
        if pairs:  # the target's partner
            other, other_phi, gone = t ^ 1, phi[t ^ 1], torch.ones_like(on)
        elif protocol == "reference":  # its last model, to be of one size with the first
            other, other_phi, gone = last, last_phi, torch.ones_like(on)
        else:  # nothing
            other, other_phi, gone = t, phi[t], on
        who = other + sides[:, t] * (t - other)  # (sides, n)
        leaves = choose(on, phi[t], other_phi)  # (sides, queries, n)
        moments = leave_one_out.moments_without(phi, sides, whole, who, leaves, gone)
        yield moments, moments[1] if protocol == "paper" else leave_one_out.median_without(middle, leaves)


def _checked(
    name: str, phi: Tensor, keep: Tensor, online: bool, variance: str, protocol: str, pairs: bool | None = None
) -> tuple[Tensor, Tensor]:
    """Margins in float64, turned to (models, queries, n), and keep as a tensor, (models, n)."""
    for option, value, allowed in (("variance", variance, VARIANCES), ("protocol", protocol, PROTOCOLS)):
        if value not in allowed:
            raise ValueError(f"{option}={value!r} is not known; give {' or '.join(map(repr, allowed))}")
    values = torch.as_tensor(phi)
    if values.ndim != 3 or 0 in values.shape or not values.is_floating_point():
        raise ValueError(
            f"{name}: got shape {tuple(values.shape)} of {values.dtype}; give floats (models, n, queries), a query axis of 1 included"
        )
    if not torch.stack(values.aminmax()).isfinite().all():
        broken = int((~values.isfinite()).sum())
        raise ValueError(
            f"{name}: {broken:,} of {values.numel():,} margins are NaN or infinite; take signals.margin of the raw logits, in float64"
        )
    member = leave_one_out.checked(keep, values, online, 2 if variance == "per-example" else 1, f"{variance=}", pairs)
    return values.double().transpose(1, 2).contiguous(), member  # long rows are what tensors are fast on
