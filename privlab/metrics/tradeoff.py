"""What a defence takes from the attacker and what it costs: the ratio of the two with its interval, and who is beaten by whom."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit


class Ratio(NamedTuple):
    """Points of attack accuracy lost to the attacker for each point of accuracy lost at the task."""

    value: float  # nan where none was lost at the task
    # both infinite where the loss at the task cannot be told from 0: the data then bear out any ratio
    low: float
    high: float
    n: int  # pairs

    def __repr__(self) -> str:
        if math.isinf(self.low):
            return f"{self.value:.3g}, of no known size: what it costs cannot be told from nothing (n={self.n})"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g}, n={self.n})"


def ratio(task_lost: Sequence[float] | np.ndarray, attack_lost: Sequence[float] | np.ndarray) -> Ratio:
    """Delta: the mean of what the attacker loses over the mean of what the task loses (Koh et al. 2024, Table 5).

    task_lost, attack_lost: undefended less defended, in the same unit, a pair for each draw; two pairs or more.
    The interval, which the paper lacks, is Fieller's (1954) of 95%: all r for which attack_lost - r task_lost may have a mean of 0.
    """
    x, y = np.asarray(task_lost, dtype=np.float64), np.asarray(attack_lost, dtype=np.float64)
    n, mx, my = len(x), x.mean(), y.mean()
    value = my / mx if mx != 0 else math.nan
    covariance = np.cov(x, y) * stdtrit(n - 1, 0.975) ** 2 / n
    a, b, c = mx**2 - covariance[0, 0], mx * my - covariance[0, 1], my**2 - covariance[1, 1]
    if a <= 0:  # the mean loss at the task is within its own interval of 0
        return Ratio(value, -math.inf, math.inf, n)
    half = math.sqrt(max(b**2 - a * c, 0.0))
    return Ratio(value, (b - half) / a, (b + half) / a, n)


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The defences that no other beats in both, from the most accurate on: the Pareto front. Of equals all stay.

    points: name -> (task accuracy, attack accuracy): more of the first and less of the second is better.
    """

    def beaten(one: tuple[float, float]) -> bool:
        return any(o[0] >= one[0] and o[1] <= one[1] and o != one for o in points.values())

    return sorted((name for name, point in points.items() if not beaten(point)), key=lambda name: -points[name][0])
