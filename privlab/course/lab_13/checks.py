"""Checks of lab 13: noise for one number of a group, how often to send, what to believe more, what costs least, and a brochure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from privlab.notebook.kit import Check, function, in_turn, keeps, pick

# fmt: off
deviation = function(
    lambda share, relative, norm, numbers: relative * norm * (share / numbers) ** 0.5,
    [(0.25, 0.5, 12.0, 100), (0.5, 2.0, 0.75, 12), (0.0625, 0.25, 3.0, 768), (1.0, 0.125, 20.0, 50)],
    {
        "`share` is one of energy, of squared lengths, and you use it as one of lengths: it belongs under the root.":
            lambda share, relative, norm, n: relative * norm * share / n**0.5,
        "You divide by `numbers` where its root belongs: squares add up over a group, and deviations do not.":
            lambda share, relative, norm, n: relative * norm * share**0.5 / n,
        "`numbers` is missing. So long is the noise of the whole group; one number has only its part of it.":
            lambda share, relative, norm, n: relative * norm * share**0.5,
        "`norm` is missing: `relative` is how long the noise is *beside the update*, so a longer one gets more.":
            lambda share, relative, norm, n: relative * (share / n) ** 0.5,
        "That is the variance; the deviation is its root.": lambda share, relative, norm, n: (relative * norm) ** 2 * share / n,
    },
    "How much energy has all the noise, how much of it the group, and how much one number?",
)


def _rounds(relative: float, target: float, power: float = 2.0, whole: Callable[[float], float] = math.ceil) -> float:
    return max(1, whole((relative / target) ** power))


_above = function(
    _rounds,
    [(1.0, 0.5), (0.75, 0.25), (1.25, 0.5), (0.875, 0.5), (3.25, 2.0), (2.0, 0.125), (1.75, 0.375)],  # relative, target
    {
        "The mean of n updates has noise that is smaller by the *root* of n, so n goes with the square of the ratio. You took the ratio "
        "itself.": lambda relative, target: _rounds(relative, target, power=1.0),
        "Your ratio is upside down. It is `relative` that has to come down to `target`.":
            lambda relative, target: _rounds(relative, target, power=-2.0),
        "You round down. With so few updates the noise is still above `target`: round up.":
            lambda relative, target: _rounds(relative, target, whole=math.floor),
        "Nobody sends a part of an update: round up to a whole number.": lambda relative, target: _rounds(relative, target, whole=float),
        "Where the square of the ratio is whole you send one too many: noise of just `target` will do.":
            lambda relative, target: math.floor((relative / target) ** 2) + 1,
    },
    "How noisy is the mean of one update, of two, of four?",
)
_below = function(
    _rounds,
    [(1.0, 0.5), (0.25, 0.5), (0.5, 0.5), (0.0, 0.5)],
    {},
    "The first update is quiet enough. But where nothing was sent there is no mean: it takes at least 1.",
)
rounds = in_turn(_above, _below)


def _mean(one: float, v: float, other: float, w: float) -> float:
    return (one * v + other * w) / (v + w)


weigh = function(
    lambda one, sigma, other, tau: _mean(one, sigma**-2, other, tau**-2),
    [(7.0, 0.5, 10.0, 1.0), (-1.5, 2.0, 3.0, 0.75), (0.5, 3.0, -2.25, 1.25), (6.0, 1.5, 5.0, 2.5)],
    {
        "You weigh by 1 / sigma. For the least variance each counts by 1 / sigma^2.":
            lambda one, sigma, other, tau: _mean(one, 1 / sigma, other, 1 / tau),
        "With you the noisier of the two counts more: your weights are upside down, or have changed places.":
            lambda one, sigma, other, tau: _mean(one, sigma**2, other, tau**2),
        "With you the noisier one counts as much as the other.": lambda one, sigma, other, tau: (one + other) / 2,
        "Your weights do not add up to 1. Divide by the sum of the weights, or two measurements that agree give something else.":
            lambda one, sigma, other, tau: one / sigma**2 + other / tau**2,
        "You keep the less noisy one alone. The other knows something, too.":
            lambda one, sigma, other, tau: one if sigma < tau else other,
    },
    "Where one is twice as noisy as the other, it counts a quarter as much.",
)

Rows = dict[str, tuple[float, float]]  # points that a defence costs, dB of the strongest attack on it
ROWS: Rows = {  # the cheapest that holds lies at the level
    "noise": (6.0, 12.5), "clipping": (0.5, 31.0), "shuffling": (9.0, 18.5), "pruning": (3.5, 20.0), "rounding": (1.25, 26.5),
    "dropping": (4.5, 16.0),
}
GAINS: Rows = {
    "masking": (1.5, 17.0), "clipping": (0.625, 14.0), "rounding": (-1.0, 13.5), "noise": (-3.0, 11.0), "pruning": (0.75, 19.0),
    "flipping": (-0.5, 12.5), "dropping": (5.0, 9.5), "shuffling": (7.0, 12.0),
}
OTHERS: Rows = {
    "shuffling": (1.25, 17.0), "dropping": (2.5, 16.0), "noise": (1.5, 15.25), "clipping": (4.0, 10.0), "pruning": (3.0, 12.0),
    "rounding": (5.0, 22.0),
}
EQUAL: Rows = {"clipping": (2.0, 15.0), "noise": (2.0, 12.0), "pruning": (2.0, 16.5), "rounding": (2.0, 21.0), "dropping": (3.0, 8.0)}
NONE: Rows = {"noise": (1.5, 22.0), "clipping": (0.25, 30.0)}


def _cheapest(rows: Rows, level: float, holds: Any = lambda dB, level: dB <= level, by: Any = lambda row: row) -> str | None:
    holding = [name for name, (_, dB) in rows.items() if holds(dB, level)]
    return min(holding, key=lambda name: by(rows[name]), default=None)


_holding = pick(
    _cheapest,
    [(ROWS, 20.0), (GAINS, 14.0), (OTHERS, 16.25)],
    {
        "One that stays just *at* `level` holds, too.": lambda rows, level: _cheapest(rows, level, holds=lambda dB, level: dB < level),
        "Your comparison is turned: those at or *below* `level` hold.":
            lambda rows, level: _cheapest(rows, level, holds=lambda dB, level: dB >= level),
        "Yours leaves the attacker least, whatever it costs. The cost comes first in a pair.":
            lambda rows, level: _cheapest(rows, level, by=lambda row: row[1]),
        "You dropped the sign of the cost. Below 0 the task gains.":
            lambda rows, level: _cheapest(rows, level, by=lambda row: abs(row[0])),
        "You take the first that holds. One that costs less may come later.": lambda rows, level: _cheapest(rows, level, by=lambda row: 0),
    },
    "Which hold, and which of these costs least?",
)
_equal = pick(_cheapest, [(EQUAL, 18.0)], {}, "Of some that cost the same, take the one that leaves the attacker less.")
_none = pick(_cheapest, [(ROWS, 20.0), (NONE, 20.0), ({}, 20.0)], {}, "None holds, so give None; `min` can be told so with `default`.")
cheapest = in_turn(_holding, _equal, _none, keeps(ROWS, 20.0))
# fmt: on
CHECKS: dict[str, Check] = {
    "13.deviation": deviation,
    "13.rounds": rounds,
    "13.weigh": weigh,
    "13.cheapest": cheapest,
}
