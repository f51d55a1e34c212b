"""How well membership scores tell members from non-members: the curve, its area, accuracy, and the rate at few false alarms.

Everywhere `scores` is (n,), finite, *higher = member*, and `members` is (n,), True for who was trained on; both are
NumPy arrays or tensors. A sample is called a member where score >= threshold, so samples of equal score go together.
All raise ValueError for lengths that differ, scores that are not finite, or where one of the two classes is missing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from privlab.metrics import rate_interval

FEW = 10  # false positives below which a rate is rough
QUANTILES = 40  # curves; of fewer, even the extremes lie within the quantiles of 2.5 and 97.5%


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """A ROC curve with every threshold kept: from (0, 0), whose threshold is inf, to (1, 1). Three arrays of (points,)."""

    fpr: np.ndarray  # in [0, 1], never falling
    tpr: np.ndarray
    thresholds: np.ndarray  # inf, then the distinct scores, falling

    def __repr__(self) -> str:
        return f"Curve: {len(self.thresholds):,} thresholds"


@dataclass(frozen=True, repr=False)
class Rate:
    """The TPR at a low FPR, its 95% interval, and the counts that it stands on; see `tpr_at`."""

    value: float  # the TPR, in [0, 1]
    low: float
    high: float
    threshold: float  # the lowest score that is called a member; inf where none can be
    true_positives: int
    members: int
    false_positives: int  # as counted
    non_members: int
    fpr: float  # the one asked for

    def __repr__(self) -> str:
        return (
            f"TPR {_percent(self.value)} at FPR {_percent(self.fpr)} (95%: {_percent(self.low)} to {_percent(self.high)}; "
            f"{self.true_positives:,} of {self.members:,} members, {self.false_positives:,} of {self.non_members:,} "
            f"non-members at or above the threshold {self.threshold:.4g})"
        )


def curve(scores: Any, members: Any) -> Curve:
    """The ROC curve, with no threshold dropped."""
    from sklearn.metrics import roc_curve  # not at the top: it takes a second to import, and scipy.stats two

    scores, members = _checked(scores, members)
    return Curve(*roc_curve(members, scores, drop_intermediate=False))


def auc(scores: Any, members: Any) -> float:
    """Area under the ROC curve: how often a member scores above a non-member, ties counting half; 0.5 is a coin."""
    from sklearn.metrics import roc_auc_score

    scores, members = _checked(scores, members)
    return float(roc_auc_score(members, scores))


def accuracy(scores: Any, members: Any, threshold: float) -> float:
    """Balanced accuracy of "a member if score >= threshold": the mean of TPR and TNR; 0.5 is a coin.

    threshold: one that the attacker could know, such as `best_threshold` of the shadow models; may be infinite, not NaN.
    """
    scores, members = _checked(scores, members)
    if math.isnan(threshold):
        raise ValueError(f"threshold={threshold} calls nobody anything; give a number, such as best_threshold's")
    called = scores >= float(threshold)
    return float(called[members].mean() + (~called[~members]).mean()) / 2


def best_threshold(scores: Any, members: Any) -> float:
    """The threshold with the highest balanced accuracy on the data given; to be found on shadow models, used on the victim.

    It lies halfway between two neighbouring scores. Of equally good ones the highest is taken: fewest are accused. Where
    each of them is worse than a coin, or all scores are equal, it is the lowest score: all are called members.
    """
    scores, members = _checked(scores, members)
    order = np.argsort(scores)[::-1]
    scores, members = scores[order], members[order]  # falling
    m = np.count_nonzero(members)
    # TP * non-members - FP * members, when called down to here; in whole numbers, so that equal is equal
    gain = (members * np.int64(len(members)) - m).cumsum()
    gain[:-1][scores[1:] == scores[:-1]] = -(m * len(members))  # no cut between equal scores; below all that exist
    last = int(gain.argmax())
    if last == len(scores) - 1:
        return float(scores[last])
    above, below = float(scores[last]), float(scores[last + 1])
    middle = (above + below) / 2
    return middle if below < middle <= above else above  # neighbouring floats, or overflow


def oracle_accuracy(scores: Any, members: Any) -> float:
    """Balanced accuracy at the target's own best threshold. Not an attack: who could choose it knows the members already.

    It is what `accuracy` could reach at most, and above 0.5 even for scores that say nothing; print it beside, so named.
    """
    return accuracy(scores, members, best_threshold(scores, members))


def others_thresholds(scores: Any, members: Any) -> np.ndarray:
    """For every model as the target, the best threshold of all other models' scores, pooled: what an attacker would use.

    scores: (models, n) finite, higher = member, row i those of model i as the target.  members: (models, n).
    Returns (models,) finite numbers, see `best_threshold`.
    Raises ValueError for fewer than two models.
    """
    scores, members = _checked(scores, members, shape="(models, n)")
    models = len(scores)
    if models < 2:
        raise ValueError("scores: 1 model has no others to choose its threshold on; give 2 or more")
    rest = ~np.eye(models, dtype=bool)  # a row for each target: all others
    return np.array([best_threshold(scores[row].ravel(), members[row].ravel()) for row in rest])


def tpr_at(scores: Any, members: Any, fpr: float = 0.001) -> Rate:
    """The highest TPR whose FPR, as counted, is at most the one asked for, with a 95% interval that knows of the threshold.

    The threshold is estimated too, from a handful of non-members; an interval on the members' count alone forgets that.
    `rate_interval` says how this one is made. Over 4,000 simulations a setting (50 to 5,000 of each kind, FPR 0.1 to 10%,
    AUC 0.5 to 0.95, curves of six shapes) it covers 95 to 97% from fifty false positives on; with fewer mostly 96 to 99%
    and up to 100, as the slope of the curve can hardly be read then; at worst 93%, where the members' scores spread half
    as far as the others'. Where scores are tied or the curve leaps, the bound holds for any distribution: 95% or more,
    mostly 98 to 100%. The book's page on notation has the table.
    Below 6 / fpr non-members a leap above all of them cannot be seen: there the interval rests on a smooth curve.

    fpr: in (0, 1).
    Warns below 10 / fpr non-members (10,000 at 0.1%).
    Raises ValueError below 1 / fpr non-members (1,000 at 0.1%), and for another fpr.
    Source: the measure is that of Carlini et al. 2022; the interval is ours.
    """
    scores, members = _checked(scores, members)
    if not 0 < fpr < 1:
        raise ValueError(f"fpr={fpr} is no rate between 0 and 1; try 0.001, which is 0.1%")
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])[::-1]  # rising, falling
    m, n = len(inside), len(outside)
    if n < (needed := _fewest(1, fpr)):
        larger = 10.0 ** math.ceil(math.log10(1 / n))
        remedy = f"give more, or ask for fpr={larger:g}" if larger < 1 else "give more"
        raise ValueError(f"fpr={fpr:g} needs {needed:,} non-members, got {n:,}; {remedy}")
    allowed = int(np.searchsorted(np.arange(1, n + 1) / n, fpr, side="right"))  # the most false positives within fpr
    if n < (needed := _fewest(FEW, fpr)):
        warnings.warn(
            f"fpr={fpr:g} of {n:,} non-members allows {allowed} false positive{'s' * (allowed > 1)}, so this TPR is rough; "
            f"{needed:,} non-members would allow {FEW}",
            stacklevel=2,
        )

    low, high = rate_interval.interval(inside, outside, allowed + 1, fpr)
    edge = outside[allowed]  # who is above it is called
    true = m - int(np.searchsorted(inside, edge, side="right"))
    above = scores[scores > edge]
    return Rate(
        value=true / m,
        low=low,
        high=high,
        threshold=float(above.min(initial=math.inf)),
        true_positives=true,
        members=m,
        false_positives=len(above) - true,
        non_members=n,
        fpr=float(fpr),
    )


def band(curves: Sequence[Curve], grid: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The TPRs of several curves at common FPRs, for a figure with a band: its lower edge, the mean, its upper edge.

    A curve's TPR at x is the highest with fpr <= x: a step, as nothing lies between two thresholds. The edges are the
    quantiles of 2.5 and 97.5% over the curves where there are 40 or more, and the lowest and highest where fewer.

    curves: one or more.  grid: (points,) FPRs in [0, 1].  Returns low, mean, high: (points,) each.
    """
    grid = _numbers("grid", grid, "(points,)")
    if grid.min() < 0 or grid.max() > 1:
        raise ValueError(f"grid goes from {grid.min():g} to {grid.max():g}; give false-positive rates in [0, 1]")
    tprs = np.stack([c.tpr[np.searchsorted(c.fpr, grid, side="right") - 1] for c in curves])  # (curves, points)
    low, high = np.quantile(tprs, [0.025, 0.975] if len(curves) >= QUANTILES else [0, 1], axis=0)
    return low, tprs.mean(axis=0), high


def _fewest(count: int, fpr: float) -> int:
    """The fewest non-members of whom `count` are a share of at most fpr."""
    n = round(count / fpr)
    return n if count / n <= fpr else n + 1


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _checked(scores: Any, members: Any, shape: str = "(n,)") -> tuple[np.ndarray, np.ndarray]:
    """Scores as float64 and members as booleans, of one shape and of both classes."""
    scores, members = _numbers("scores", scores, shape), _array(members)
    if members.shape != scores.shape or members.dtype.kind not in "bui" or not np.isin(members, (0, 1)).all():
        raise ValueError(
            f"members: got shape {members.shape} of {members.dtype} for scores {scores.shape}; give one for each score, "
            "True (or 1) for a member and False (or 0) for a non-member"
        )
    if (count := np.count_nonzero(members)) in (0, members.size):
        one, other = ("members", "non-members") if count else ("non-members", "members")
        raise ValueError(f"members: all {members.size:,} are {one}; give some {other} too")
    return scores, members.astype(bool)


def _numbers(argument: str, values: Any, shape: str) -> np.ndarray:
    """Finite float64 numbers, at least one, with as many dimensions as the shape has names."""
    values = _array(values).astype(np.float64)
    if values.ndim != len(shape.split(", ")) or not values.size:
        raise ValueError(f"{argument}: got shape {values.shape}; give {shape}, and 1 or more of each")
    if broken := np.count_nonzero(~np.isfinite(values)):
        raise ValueError(
            f"{argument}: {broken:,} of {values.size:,} are NaN or infinite; drop them, or compute them in float64"
        )
    return values


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    return np.asarray(values)
