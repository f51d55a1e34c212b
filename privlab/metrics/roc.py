"""How well membership scores tell members from non-members: the curve, its area, accuracy, and the rate at few false alarms.

`scores`: (n,), finite, *higher = member*.  `members`: (n,), True for who was trained on.  NumPy arrays, tensors or lists; else ValueError.
A sample is called a member where score >= threshold, so samples of equal score go together.
"""

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor


class Curve(NamedTuple):
    """A ROC curve with every threshold kept: from (0, 0), whose threshold is inf, to (1, 1). Three arrays of (points,)."""

    fpr: np.ndarray  # in [0, 1], never falling
    tpr: np.ndarray
    thresholds: np.ndarray  # inf, then the distinct scores, falling

    def at(self, fpr: Any) -> np.ndarray:
        """The highest TPR whose FPR is at most each of these, of the same shape: a step, as nothing lies between two thresholds."""
        return self.tpr[np.searchsorted(self.fpr, fpr, side="right") - 1]


class Rate(NamedTuple):
    """The TPR at a low FPR, its 95% interval, all in [0, 1], and the counts that it stands on; see `tpr_at`."""

    value: float
    low: float
    high: float
    true_positives: int
    members: int
    false_positives: int
    non_members: int

    def __repr__(self) -> str:
        value, low, high = (f"{100 * share:.3g}%" for share in self[:3])
        said = f"{self.true_positives:,} of {self.members:,} members"
        said += f", {self.false_positives:,} of {self.non_members:,} non-members"
        return f"TPR {value} (95%: {low} to {high}; {said})"


def curve(scores: Any, members: Any) -> Curve:
    """The ROC curve, with no threshold dropped."""
    from sklearn.metrics import roc_curve  # not at the top: it takes a second to import, and scipy.stats two

    scores, members = _checked(scores, members)
    return Curve(*roc_curve(members, scores, drop_intermediate=False))


def auc(scores: Any, members: Any) -> float:
    """Area under the curve: how often a member scores above a non-member, ties counting half; 0.5 is a coin."""
    from sklearn.metrics import roc_auc_score

    scores, members = _checked(scores, members)
    return float(roc_auc_score(members, scores))


def accuracy(scores: Any, members: Any, threshold: float) -> float:
    """Balanced accuracy of "a member if score >= threshold", which the attacker has to know: the mean of TPR and TNR; 0.5 is a coin."""
    scores, members = _checked(scores, members)
    called = scores >= float(threshold)
    return float(called[members].mean() + (~called[~members]).mean()) / 2


def best_threshold(scores: Any, members: Any) -> float:
    """The threshold with the highest balanced accuracy on the data given: of shadow models. (Of the victim's own it would be no attack.)

    It lies halfway between two neighbouring scores. Of equally good ones the highest is taken: fewest are accused. Where each of them is
    worse than a coin, or all scores are equal, it is the lowest score: all are called members.
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


def others_thresholds(scores: Any, members: Any) -> np.ndarray:
    """For every model as the target, the best threshold of all other models' scores, pooled: what an attacker would use.

    scores: (models, n), row i those of model i as the target.  members: (models, n).  Two models or more.  Returns (models,).
    """
    scores, members = _checked(scores, members)
    rest = ~np.eye(len(scores), dtype=bool)  # a row for each target: all others
    return np.array([best_threshold(scores[row].ravel(), members[row].ravel()) for row in rest])


def tpr_at(scores: Any, members: Any, fpr: float = 0.001) -> Rate:
    """The highest TPR whose FPR, as counted, is at most the one asked for (Carlini et al. 2022), with a 95% interval of ours.

    The threshold is estimated, too, from a handful of non-members; an interval on the members' count alone forgets that, and may hold the
    true rate in 45% of trials, this one in 93% at worst (see `rate_interval`; in 74% where a heap of members lies just at the threshold).
    Rough below 10 / fpr non-members (10,000 at 0.1%).  Raises ValueError below 1 / fpr (1,000 at 0.1%), and for an fpr outside (0, 1).
    """
    from privlab.metrics import rate_interval

    scores, members = _checked(scores, members)
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])[::-1]  # rising, falling
    m, n = len(inside), len(outside)
    allowed = int(np.searchsorted(np.arange(1, n + 1) / n, fpr, side="right"))  # the most false positives within fpr
    if not 0 < allowed < n:
        raise ValueError(f"fpr={fpr:g} of {n:,} non-members allows {allowed:,}; give 1 / fpr or more, fpr in (0, 1)")
    low, high = rate_interval.interval(inside, outside, allowed + 1, fpr)
    true, false = (int((side > outside[allowed]).sum()) for side in (inside, outside))  # who is above is called
    return Rate(true / m, low, high, true, m, false, n)


def _checked(scores: Any, members: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scores as float64 and members as booleans, of one shape and of both classes."""
    given = (x.detach().cpu().double() if isinstance(x, Tensor) else x for x in (scores, members))
    values, inside = (np.asarray(x, np.float64) for x in given)
    inside = inside != 0
    if values.shape != inside.shape or not np.isfinite(values).all() or not 0 < np.count_nonzero(inside) < inside.size:
        got = f"shapes {values.shape} and {inside.shape}, {np.count_nonzero(inside):,} members"
        raise ValueError(f"scores, members: got {got}; give a finite score and a truth value each, with both kinds")
    return values, inside
