"""A 95% interval of the TPR at a low FPR, for both of its errors: the threshold is a score of the non-members, and members are few too.

Members are counted above the k-th highest of n non-members. That score's true FPR is u ~ Beta(k, n - k + 1), whatever the scores are, and
the count is Binomial(m, R(u)), R being the true ROC curve. For every TPR that may be the true one at the FPR asked for, the chances of a
count so high, and of one so low, are averages over u; the interval is where both exceed 2.5%. That is exact where R is known beside that
FPR. It is taken for a line there, on normal deviates (for two normal distributions it is one everywhere). Its slope is read between
the non-members of ranks k / 4 and 4 k, drawn towards 1 where few samples lie between, and raised by 0.3 / sqrt(k) for its own error.

No line will do where the curve leaps: a tie among many, or a heap of members between two non-members. There a bound is given that holds
for any distributions. The non-members above the true threshold are Binomial(n, fpr), so with a chance of 99.5% it lies between two of
them; Clopper and Pearson's bounds, at 95.5%, on the members above the one and above the other make 95% or more together.
"""

from __future__ import annotations

import math

import numpy as np

REACH = 4  # the slope is read from rank k / 4 to rank 4 k ...
RANKS = 20  # ... and at least to this one
PRIOR = 3.0  # samples that a slope of 1 counts as
STEEPEST = 4.0  # slope
MARGIN = 0.3  # times 1 / sqrt(k), added to the slope
POINTS = 200  # of u, each as likely as the others
TIED = 0.1  # of the samples among which the threshold may be: more of one score are a leap
HEAP = 0.8  # of the members among them: more between two neighbouring non-members are a leap, if they are ...
FEWEST = 20  # ... more than this


def interval(inside: np.ndarray, outside: np.ndarray, k: int, fpr: float) -> tuple[float, float]:
    """The interval for members counted above the k-th highest non-member.

    inside: (m,) members' scores, rising.  outside: (n,) non-members', falling.  k: in 2 to n.  fpr: the one asked for, in (0, 1).
    Returns its ends, in [0, 1]; the share counted lies between them.
    """
    from scipy.stats import binom

    m, n = len(inside), len(outside)
    edges = np.concatenate([[math.inf], outside, [-math.inf]])
    above = m - np.searchsorted(inside, edges, side="right")  # (n + 2,): members above the k-th highest non-member
    first, last = binom.ppf([0.0025, 0.9975], n, fpr).astype(int)
    ranks = slice(max(first, 1), min(last + 1, n) + 1)
    among = inside[(inside >= edges[ranks][-1]) & (inside <= edges[first])]
    if _leaps(edges[ranks], among, np.diff(above[ranks])):
        low, high = _proven(above[first].item(), above[last + 1].item(), m)
    else:
        low, high = _inverted(above[k].item(), m, n, k, fpr, _slope(above, m, n, k))
    return min(low, above[k] / m), max(high, above[k] / m)


def _leaps(rivals: np.ndarray, among: np.ndarray, between: np.ndarray) -> bool:
    """Whether the curve leaps beside the threshold.

    rivals: the non-members that may well be it, falling.  among: members beside them.  between: how many lie between each and the next.
    """
    ties = np.unique(np.concatenate([rivals, among]), return_counts=True)[1]
    return bool(ties.max() > max(1, TIED * ties.sum()) or between.max(initial=0) > max(FEWEST, HEAP * between.sum()))


def _proven(lowest: int, highest: int, m: int) -> tuple[float, float]:
    from scipy.stats import binomtest

    low, high = (binomtest(count, m).proportion_ci(0.955) for count in (lowest, highest))
    return float(low.low), float(high.high)


def _slope(above: np.ndarray, m: int, n: int, k: int) -> float:
    """Of the ROC curve on normal deviates, beside the k-th highest non-member."""
    from scipy.special import ndtri

    ranks = np.array([math.ceil(k / REACH), min(n, max(REACH * k, RANKS))])
    rise = np.diff(ndtri((above[ranks] + 0.5) / (m + 1))).item() / np.diff(ndtri(ranks / (n + 1))).item()
    between = np.array([*np.diff(ranks), *np.diff(above[ranks])], float)  # non-members, members
    weight = between.prod() / between.sum()
    return min(max(rise, (weight * rise + PRIOR) / (weight + PRIOR)), STEEPEST) + MARGIN / math.sqrt(k)


def _inverted(count: int, m: int, n: int, k: int, fpr: float, slope: float) -> tuple[float, float]:
    """The lowest TPR at which a count so high, and the highest at which one so low, has a chance of 2.5%."""
    from scipy.optimize import brentq
    from scipy.special import bdtr, bdtrc, ndtr, ndtri
    from scipy.stats import beta

    u = beta.ppf((np.arange(POINTS) + 0.5) / POINTS, k, n - k + 1)
    shift = slope * (ndtri(u) - ndtri(fpr))  # (points,)

    def so_high(deviate: float) -> float:
        return bdtrc(count - 1, m, ndtr(deviate + shift)).mean() - 0.025

    def so_low(deviate: float) -> float:
        return bdtr(count, m, ndtr(deviate + shift)).mean() - 0.025

    low = float(ndtr(brentq(so_high, -60, 60, xtol=1e-6))) if count else 0.0
    return low, float(ndtr(brentq(so_low, -60, 60, xtol=1e-6))) if count < m else 1.0
