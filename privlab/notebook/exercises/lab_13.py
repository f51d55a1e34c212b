"""Checks of lab 13: noise for one number of a group, how often to send, what to believe more, what costs least, and a brochure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.lab_01 import OPEN, combine, compare
from privlab.notebook.exercises.reports import brochure

# -- noise for one number --------------------------------------------------------------------------------------------------

# fmt: off
GROUPS = [(0.25, 0.5, 12.0, 100), (0.5, 2.0, 0.75, 12), (0.0625, 0.25, 3.0, 768), (1.0, 0.125, 20.0, 50)]  # arguments, in order
PARTS: dict[str, Callable[[float, int], float]] = {  # of share and numbers
    "": lambda s, n: (s / n) ** 0.5,
    "`share` is one of energy, of squared lengths, and you use it as one of lengths: it belongs under the root.": lambda s, n: s / n**0.5,
    "`share / numbers` is a part of the energy, and energy is a square. The deviation goes with its root.": lambda s, n: s / n,
    "You divide by `numbers` where its root belongs: squares add up over a group, and deviations do not.": lambda s, n: s**0.5 / n,
    "`numbers` is missing. So long is the noise of the whole group; one number has only its part of it.": lambda s, n: s**0.5,
    "`numbers` is missing, and `share`, a share of energy, belongs under a root.": lambda s, n: s,
    "`share` is missing: with you the group gets all of the noise.": lambda s, n: n**-0.5,
    "Neither `share` nor `numbers` counts in yours, and this is about one number of one group.": lambda s, n: 1.0,
    "You multiply by `numbers`. But the more there are to share the noise, the less each of them gets.": lambda s, n: (s * n) ** 0.5,
    "Your fraction is upside down: a larger share is more noise, and more numbers leave less for each.": lambda s, n: (n / s) ** 0.5,
    "You took the root of `share / numbers` twice.": lambda s, n: (s / n) ** 0.25,
    "That is what is left for the other groups. This one gets `share`.": lambda s, n: ((1 - s) / n) ** 0.5,
    "You divide by `numbers - 1`, as where a deviation is guessed from the numbers. This one is known.": lambda s, n: (s / (n - 1)) ** 0.5,
    "You divide the share by 100. It lies between 0 and 1 already, and is no percents.": lambda s, n: (s / 100 / n) ** 0.5,
}
LENGTHS: dict[str, Callable[[float, float], float]] = {  # of relative and norm
    "": lambda r, norm: r * norm,
    "`norm` is missing: `relative` is how long the noise is *beside the update*, so a longer one gets more.": lambda r, norm: r,
    "`relative` is missing: your noise is as long as the update itself.": lambda r, norm: norm,
    "`relative` and `norm` are missing. The length of the noise is the one times the other.": lambda r, norm: 1.0,
    "`norm` is squared, outside the root. There it stands as it is.": lambda r, norm: r * norm**2,
    "`relative` is squared, outside the root. There it stands as it is.": lambda r, norm: r**2 * norm,
    "`relative * norm` is squared, outside the root. There it stands as it is.": lambda r, norm: (r * norm) ** 2,
    "You took the root of `relative * norm`, too. It is a length; under the root goes its square.": lambda r, norm: (r * norm) ** 0.5,
    "You took the root of `norm`, too. It is a length already; under the root goes its square.": lambda r, norm: r * norm**0.5,
    "You took the root of `relative`, too. It compares lengths; under the root goes its square.": lambda r, norm: r**0.5 * norm,
    "You divide by `norm`: the longer the update, the *longer* is the noise.": lambda r, norm: r / norm,
    "You divide by `relative`: the larger it is, the *longer* is the noise.": lambda r, norm: norm / r,
}
DEVIATIONS: dict[str, Callable[[float], float]] = {
    "": lambda d: d,
    "That is the variance; the deviation is its root.": lambda d: d**2,
    "That is the root of the deviation: one root too many.": lambda d: d**0.5,
}
# fmt: on


def deviation(answer: object) -> Iterator[str]:
    def by_parts(part: Callable, length: Callable, end: Callable) -> Callable[..., float]:
        return lambda share, relative, norm, numbers: end(length(relative, norm) * part(share, numbers))

    slips = combine(by_parts, PARTS, LENGTHS, DEVIATIONS)
    hint = "How much energy has all the noise, how much of it the group, and how much one number?"
    yield from compare(answer, GROUPS, slips.pop(""), slips, hint)


# -- how often to send -----------------------------------------------------------------------------------------------------

# fmt: off
COUNTS = [(1.0, 0.5), (0.75, 0.25), (1.25, 0.5), (0.875, 0.5), (3.25, 2.0), (2.0, 0.125), (1.75, 0.375)]  # relative, target
BELOW = [(0.25, 0.5), (0.5, 0.5), (0.0, 0.5)]  # the first update will do
ROOT = "The mean of n updates has noise that is smaller by the *root* of n"
RATIOS: dict[str, Callable[[float, float], float]] = {
    "": lambda r, t: (r / t) ** 2,
    f"{ROOT}, so n goes with the square of the ratio. You took the ratio itself.": lambda r, t: r / t,
    f"{ROOT}, so n goes with the square of the ratio. You took its root.": lambda r, t: (r / t) ** 0.5,
    "You squared the ratio twice.": lambda r, t: (r / t) ** 4,
    "Your ratio is upside down. It is `relative` that has to come down to `target`.": lambda r, t: (t / r) ** 2,
    "You squared `relative` alone; the square is that of the whole ratio.": lambda r, t: r**2 / t,
    "You squared `target` alone; the square is that of the whole ratio. Are brackets missing?": lambda r, t: r / t**2,
    "You took a difference. It matters how many *times* larger `relative` is.": lambda r, t: r - t,
    "You took a difference of squares. It matters how many *times* larger `relative` is.": lambda r, t: r**2 - t**2,
    "`target` plays no part in yours.": lambda r, t: r**2,
    f"You halve the noise with each update. {ROOT}: to halve it takes four.": lambda r, t: 1 + math.log2(r / t),
}
WHOLES: dict[str, Callable[[float], float]] = {
    "": math.ceil,
    "You round down. With so few updates the noise is still above `target`: round up.": math.floor,
    "You round to the nearest whole number. Where that goes down, the noise is still above `target`: round up.": round,
    "Nobody sends a part of an update: round up to a whole number.": lambda x: x,
    "Where the square of the ratio is whole you send one too many: noise of just `target` will do.": lambda x: math.floor(x) + 1,
    "Yours is one too many.": lambda x: math.ceil(x) + 1,
    "Yours is one too few. Do you count from 0, or stop one step before?": lambda x: math.ceil(x) - 1,
}
# fmt: on


def rounds(answer: object) -> Iterator[str]:
    slips = combine(lambda ratio, whole: lambda r, t: whole(ratio(r, t)), RATIOS, WHOLES)
    yield from compare(answer, COUNTS, slips.pop(""), slips, "How noisy is the mean of one update, of two, of four?")
    call: Any = answer
    for relative, target in BELOW:
        value = call(relative, target)
        where = f"For {(relative, target)}, where the first update is quiet enough,"
        if value is None or math.prod(np.shape(value)) != 1:
            yield f"{where} yours gives no number. It should be 1."
        if not (value := float(value)):
            yield f"{where} yours gives 0. But where nothing was sent there is no mean: it takes at least 1."
        if value != 1:
            yield f"{where} yours gives {value:.6g}. It should be 1."


# -- what to believe more --------------------------------------------------------------------------------------------------

# fmt: off
MEASURED = [(7.0, 0.5, 10.0, 1.0), (-1.5, 2.0, 3.0, 0.75), (0.5, 3.0, -2.25, 1.25), (6.0, 1.5, 5.0, 2.5)]  # arguments, in order
COUNT = "For the least variance each counts by 1 / sigma^2"
TURNED = "With you the noisier of the two counts more: your weights are upside down, or have changed places"
WEIGHTS: dict[str, Callable[[float], float]] = {
    "": lambda s: s**-2,
    f"You weigh by 1 / sigma. {COUNT}.": lambda s: 1 / s,
    "You squared twice: sigma is a deviation, and the variance is its square.": lambda s: s**-4,
    f"{TURNED}.": lambda s: s**2,
    f"{TURNED}; and sigma is not squared.": lambda s: s,
    "With you the noisier one counts as much as the other.": lambda s: 1.0,
}
TOTAL = "Divide by the sum of the weights, or two measurements that agree give something else."
TOGETHER: dict[str, Callable[[float, float, float, float], float]] = {  # of a measurement and its weight, and the other's
    "": lambda a, v, b, w: (a * v + b * w) / (v + w),
    f"Your weights do not add up to 1. {TOTAL}": lambda a, v, b, w: a * v + b * w,
    f"Your weights do not add up to 1, and each stands at the other measurement. {TOTAL}": lambda a, v, b, w: a * w + b * v,
    f"You divide by 2. {TOTAL}": lambda a, v, b, w: (a * v + b * w) / 2,
    f"You divide by the weight of `one` alone. {TOTAL}": lambda a, v, b, w: (a * v + b * w) / v,
    "Only the second product is divided. Are brackets missing above the line?": lambda a, v, b, w: a * v + b * w / (v + w),
    "You divide by one weight and add the other. Are brackets missing?": lambda a, v, b, w: (a * v + b * w) / v + w,
    "You take one measurement from the other. A mean adds them.": lambda a, v, b, w: (a * v - b * w) / (v + w),
    "Only `one` is in yours, with its weight. `other` is missing.": lambda a, v, b, w: a * v / (v + w),
    "Only `other` is in yours, with its weight. `one` is missing.": lambda a, v, b, w: b * w / (v + w),
    "That is how noisy the mean is, its variance. Asked for is the mean.": lambda a, v, b, w: 1 / (v + w),
    "That is how noisy the mean is, its standard deviation. Asked for is the mean.": lambda a, v, b, w: (v + w) ** -0.5,
}
ALONE: dict[str, Callable[[float, float, float, float], float]] = {
    "You keep the less noisy one alone. The other knows something, too.": lambda a, s, b, t: a if s < t else b,
    "You keep the noisier one alone, and throw the better one away.": lambda a, s, b, t: a if s > t else b,
    "You return `one`, whatever else was measured.": lambda a, s, b, t: a,
    "You return `other`, whatever else was measured.": lambda a, s, b, t: b,
    f"You divide by the sum of the variances. {TOTAL}": lambda a, s, b, t: (a / s**2 + b / t**2) / (s**2 + t**2),
    f"You weigh by 1 / sigma, and divide by the sum of both sigmas. {COUNT}.": lambda a, s, b, t: (a / s + b / t) / (s + t),
}
# fmt: on


def weigh(answer: object) -> Iterator[str]:
    slips = combine(lambda weight, end: lambda a, s, b, t: end(a, weight(s), b, weight(t)), WEIGHTS, TOGETHER)
    hint = "Where one is twice as noisy as the other, it counts a quarter as much."
    yield from compare(answer, MEASURED, slips.pop(""), ALONE | slips, hint)


# -- the defence that costs least ------------------------------------------------------------------------------------------

Row = tuple[float, float]  # points that it costs, dB of the strongest attack
Rows = dict[str, Row]
# fmt: off
TABLES: list[tuple[Rows, float]] = [
    ({"noise": (6.0, 12.5), "clipping": (0.5, 31.0), "shuffling": (9.0, 18.5), "pruning": (3.5, 20.0), "rounding": (1.25, 26.5),
      "dropping": (4.5, 16.0)}, 20.0),  # the cheapest that holds lies at the level
    ({"masking": (1.5, 17.0), "clipping": (0.625, 14.0), "rounding": (-1.0, 13.5), "noise": (-3.0, 11.0), "pruning": (0.75, 19.0),
      "flipping": (-0.5, 12.5), "dropping": (5.0, 9.5), "shuffling": (7.0, 12.0)}, 14.0),  # some gain accuracy
    ({"shuffling": (1.25, 17.0), "dropping": (2.5, 16.0), "noise": (1.5, 15.25), "clipping": (4.0, 10.0), "pruning": (3.0, 12.0),
      "rounding": (5.0, 22.0)}, 16.25),
]
EQUAL: Rows = {"clipping": (2.0, 15.0), "noise": (2.0, 12.0), "pruning": (2.0, 16.5), "rounding": (2.0, 21.0), "dropping": (3.0, 8.0)}
NONE: list[tuple[Rows, float]] = [({"noise": (1.5, 22.0), "clipping": (0.25, 30.0)}, 20.0), ({}, 20.0)]
HOLDS: dict[str, Callable[[Row, float], bool]] = {
    "": lambda row, level: row[1] <= level,
    "One that stays just *at* `level` holds, too.": lambda row, level: row[1] < level,
    "Your comparison is turned: those at or *below* `level` hold.": lambda row, level: row[1] >= level,
    "You take one of those that do *not* hold. They should stay at or below `level`.": lambda row, level: row[1] > level,
    "`level` decides nothing in yours. Is it left out, or held against the points, which stand first in a pair?": lambda row, level: True,
    "You leave out those with which the task *gains*. They are welcome.": lambda row, level: row[1] <= level and row[0] >= 0,
}
PICKS: dict[str, Callable[[Rows], str]] = {
    "": lambda r: min(r, key=lambda n: r[n]),
    "Yours leaves the attacker least, whatever it costs. The cost comes first in a pair.": lambda r: min(r, key=lambda n: r[n][1]),
    "Yours has the most dB. Among those that hold only the cost counts.": lambda r: max(r, key=lambda n: r[n][1]),
    "You take the dearest. Asked for is the cheapest.": lambda r: max(r, key=lambda n: r[n][0]),
    "You dropped the sign of the cost. Below 0 the task gains.": lambda r: min(r, key=lambda n: abs(r[n][0])),
    "A cost below 0 counts as 0 in yours. The more the task gains, the better.": lambda r: min(r, key=lambda n: max(0, r[n][0])),
    "You add points to dB. Among those that hold only the cost counts.": lambda r: min(r, key=lambda n: sum(r[n])),
    "You take the first name of the alphabet: so `min` does with a dictionary, unless told by what to compare.": min,
    "You take the first that holds. One that costs less may come later.": lambda r: next(iter(r)),
    "You take the last that holds. One that costs less may have come before.": lambda r: list(r)[-1],
}
# fmt: on


@a_function
def cheapest(answer: Callable[..., Any]) -> Iterator[str]:
    names: list[Any] = []
    for rows, level in TABLES:
        table = dict(rows)
        names.append(answer(table, level))
        if table != rows:
            yield "Your function changes the dictionary it is given, and whoever asks next gets something else. Build a new one."
        yield from _no_name(names[-1], rows)
    if set(names) == {None}:
        yield OPEN
        return

    def by_parts(holds: Callable, pick: Callable) -> Callable[[Rows, float], str]:
        return lambda rows, level: pick({name: row for name, row in rows.items() if holds(row, level)})

    slips = combine(by_parts, HOLDS, PICKS)
    right = slips.pop("")
    due = [right(*table) for table in TABLES]
    if names != due:
        yield from (why for why, slip in slips.items() if names == [slip(*table) for table in TABLES])
        yield from (_off(n, d, *table) for n, d, table in zip(names, due, TABLES, strict=True) if n != d)
    if (name := answer(dict(EQUAL), 18.0)) != "noise":
        yield f"Three that hold cost 2 points, and yours gives {name!r}. Of these the one that leaves the attacker less is 'noise'."
    for rows, level in NONE:
        where = "Where no defence holds" if rows else "Where the dictionary is empty"
        try:
            name = answer(dict(rows), level)
        except Exception as error:  # what stops it there is the reader's own
            yield f"{where}, yours stops with {type(error).__name__}: {error}. Give None there; `min` can be told so with `default`."
            return
        if name is not None:
            yield f"{where}, give None; yours gives {name!r}."


def _no_name(value: Any, rows: Rows) -> Iterator[str]:
    if isinstance(value, (tuple, list)) and tuple(value) in rows.values():
        yield "You give the pair of numbers; give the name that it belongs to."
    elif isinstance(value, (int, float)) and value in [cost for cost, _ in rows.values()]:
        yield "You give what it costs; give its name."
    elif isinstance(value, str) and value not in rows:
        yield f"{value!r} is no name in the dictionary; give one of its keys."
    elif value is not None and not isinstance(value, str):
        yield f"Give one name, and nothing else; this is a {type(value).__name__}."


def _off(name: str | None, due: str, rows: Rows, level: float) -> str:
    mine, better = ("none" if n is None else "{!r}, {:g} points and {:g} dB".format(n, *rows[n]) for n in (name, due))
    return f"At a level of {level:g} dB you choose {mine}. Look at {better}."


BECAUSE = {
    "13.weigh": "With weights w and 1 - w the variance is w^2 sigma_one^2 + (1 - w)^2 sigma_other^2. Its derivative is zero where the "
    "weights are in proportion to 1 / sigma_one^2 and 1 / sigma_other^2.",
    "13.brochure": "A part without noise (a), an attack that does not know the noise (b) and a mean over rounds (d) are about safety. "
    "Where the accuracy was measured (e) is about the cost. (c) and (f) are good practice, or harmless.",
}
CHECKS = {
    "13.deviation": deviation,
    "13.rounds": rounds,
    "13.weigh": weigh,
    "13.cheapest": cheapest,
    "13.brochure": brochure,
}
DEEPER = {"where_to_spend": ("13.deviation",)}
