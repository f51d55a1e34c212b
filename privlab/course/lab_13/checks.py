"""Checks of lab 13: noise for one number of a group, how often to send, what to believe more, what costs least, and a brochure."""

import math
import operator
from collections.abc import Callable
from functools import partial

from privlab.notebook.kit import function

# fmt: off
deviation = function(
    lambda share, relative, norm, n: relative * norm * (share / n) ** 0.5,
    [(0.25, 0.5, 12.0, 100), (0.5, 2.0, 0.75, 12), (0.0625, 0.25, 3.0, 768)],
    {
        "`share` is one of energy, of squared lengths, and you use it as one of lengths: it belongs under the root.":
            lambda share, relative, norm, n: relative * norm * share / n**0.5,
        "You divide by `numbers` where its root belongs: squares add up over a group, and deviations do not.":
            lambda share, relative, norm, n: relative * norm * share**0.5 / n,
    },
    "All the noise is `relative * norm` long. How much energy has it, how much of it the group, and how much one number?",
)


def _rounds(relative: float, target: float, power: float = 2.0, whole: Callable[[float], int] = math.ceil) -> int:
    return max(1, whole((relative / target) ** power))


rounds = function(
    _rounds,
    [(1.0, 0.5), (0.75, 0.25), (1.25, 0.5), (0.875, 0.5), (3.25, 2.0), (1.75, 0.375), (0.25, 0.5), (0.0, 0.5)],
    {
        "The mean of n updates has noise that is smaller by the *root* of n, so n goes with the *square* of the ratio.":
            partial(_rounds, power=1.0),
        "`relative` has to come down to `target`: your ratio is upside down.": lambda relative, target: _rounds(target, relative),
        "You round down. With so few updates the noise is still above `target`: round up.": partial(_rounds, whole=math.floor),
    },
    "How noisy is the mean of one update, of two, of four? Round up to a whole number; it takes at least 1.",
)


def _mean(one: float, counts: float, other: float, other_counts: float) -> float:
    return (one * counts + other * other_counts) / (counts + other_counts)


weigh = function(
    lambda one, sigma, other, tau: _mean(one, sigma**-2, other, tau**-2),
    [(7.0, 0.5, 10.0, 1.0), (-1.5, 2.0, 3.0, 0.75), (0.5, 3.0, -2.25, 1.25)],
    {
        "You weigh by 1 / sigma. For the least variance each counts by 1 / sigma^2.":
            lambda one, sigma, other, tau: _mean(one, 1 / sigma, other, 1 / tau),
        "With you the noisier of the two counts more: your weights are upside down, or have changed places.":
            lambda one, sigma, other, tau: _mean(one, sigma**2, other, tau**2),
        "Your weights do not add up to 1: divide by their sum.": lambda one, sigma, other, tau: one / sigma**2 + other / tau**2,
    },
    "Where one is twice as noisy as the other, it counts a quarter as much, and is not left out.",
)

# points that a defence costs, dB of the strongest attack on it
ROWS = {"noise": (6.0, 12.5), "clipping": (0.5, 31.0), "shuffling": (9.0, 18.5), "pruning": (3.5, 20.0)}  # one at the level
GAINS = {"masking": (1.5, 17.0), "clipping": (0.625, 14.0), "rounding": (-1.0, 13.5), "noise": (-3.0, 11.0)}
EQUAL = {"clipping": (2.0, 15.0), "noise": (2.0, 12.0), "pruning": (2.0, 16.5), "dropping": (3.0, 8.0)}


def _cheapest(rows: dict, level: float, holds: Callable = operator.le, by: Callable = lambda row: row) -> str | None:
    holding = [name for name, (_, dB) in rows.items() if holds(dB, level)]
    return min(holding, key=lambda name: by(rows[name]), default=None)


cheapest = function(
    _cheapest,
    [(ROWS, 20.0), (GAINS, 14.0), (EQUAL, 18.0), (ROWS, 10.0)],
    {
        "One that stays just *at* `level` holds, too.": partial(_cheapest, holds=operator.lt),
        "Yours leaves the attacker least, whatever it costs. The cost comes first in a pair.": partial(_cheapest, by=lambda row: row[1]),
        "Of some that cost the same, take the one that leaves the attacker less.": partial(_cheapest, by=lambda row: row[0]),
    },
    "Those at or *below* `level` hold: which of these costs least? Where none holds, give None; `min` can be told so with `default`.",
)
