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

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc, ndtr, ndtri
from scipy.stats import beta, binom, binomtest


def interval(inside: np.ndarray, outside: np.ndarray, k: int, fpr: float) -> tuple[float, float]:
    """Its ends, in [0, 1], for members counted above the k-th highest non-member; the share counted lies between them.

    inside: (m,) members' scores, rising.  outside: (n,) non-members', falling.  k: in 2 to n.  fpr: the one asked for, in (0, 1).
    """
    m, n = len(inside), len(outside)
    edges = np.concatenate([[math.inf], outside, [-math.inf]])
    above = m - np.searchsorted(inside, edges, side="right")  # (n + 2,): members above the k-th highest non-member
    first, last = binom.ppf([0.0025, 0.9975], n, fpr).astype(int)
    near = slice(max(first, 1), min(last + 1, n) + 1)  # the non-members that may well be the true threshold
    among = inside[(inside >= edges[near][-1]) & (inside <= edges[first])]
    ties = np.unique(np.concatenate([edges[near], among]), return_counts=True)[1]
    between = np.diff(above[near])
    # of the samples there a tenth share a score, or of the members four fifths lie between two neighbouring non-members
    if ties.max() > max(1, 0.1 * ties.sum()) or between.max(initial=0) > max(20, 0.8 * between.sum()):
        bounds = [binomtest(int(above[rank]), m).proportion_ci(0.955) for rank in (first, last + 1)]
        low, high = float(bounds[0].low), float(bounds[1].high)
    else:
        low, high = _smooth(above, m, n, k, fpr)
    return min(low, above[k] / m), max(high, above[k] / m)


def _smooth(above: np.ndarray, m: int, n: int, k: int, fpr: float) -> tuple[float, float]:
    """The lowest TPR at which a count so high, and the highest at which one so low, has a chance of 2.5%."""
    ranks = np.array([math.ceil(k / 4), min(n, max(4 * k, 20))])
    rise = np.diff(ndtri((above[ranks] + 0.5) / (m + 1))).item() / np.diff(ndtri(ranks / (n + 1))).item()
    between = np.array([*np.diff(ranks), *np.diff(above[ranks])], float)  # non-members, members
    weight = between.prod() / between.sum()  # a slope of 1 counts as three samples
    slope = min(max(rise, (weight * rise + 3) / (weight + 3)), 4.0) + 0.3 / math.sqrt(k)
    u = beta.ppf((np.arange(200) + 0.5) / 200, k, n - k + 1)  # each as likely as the others
    shift, count = slope * (ndtri(u) - ndtri(fpr)), above[k].item()
    low = brentq(lambda z: bdtrc(count - 1, m, ndtr(z + shift)).mean() - 0.025, -60, 60, xtol=1e-6) if count else -60
    high = brentq(lambda z: bdtr(count, m, ndtr(z + shift)).mean() - 0.025, -60, 60, xtol=1e-6) if count < m else 60
    return float(ndtr(low)), float(ndtr(high))
