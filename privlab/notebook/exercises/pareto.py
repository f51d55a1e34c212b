"""The check of lab 12's last exercise: of several defences those that no other beats, and what goes wrong on the way to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.lab_01 import OPEN

Pair = tuple[float, float]  # task accuracy, attack accuracy
Points = dict[str, Pair]
Choice = Callable[[Points], set[str]]
# fmt: off
PLANES: list[Points] = [
    {  # no two are level; c lies on the front, and above the straight line from b to d
        "f": (88.0, 45.0), "b": (95.0, 60.0), "h": (80.0, 42.0), "e": (92.0, 65.0), "d": (90.0, 40.0), "a": (97.0, 72.0),
        "g": (91.0, 58.0), "c": (93.0, 57.0),
    },
    {  # q is level with p at the task, r and t with others for the attacker; s and u are equal, and so are v and w
        "q": (95.0, 55.0), "v": (85.0, 60.0), "r": (93.0, 50.0), "s": (90.0, 30.0), "p": (95.0, 50.0), "w": (85.0, 60.0),
        "u": (90.0, 30.0), "o": (97.0, 80.0), "t": (88.0, 30.0), "n": (90.0, 35.0),
    },
    {"b": (80.0, 60.0), "a": (90.0, 50.0), "c": (85.0, 55.0)},
    {"a": (97.0, 50.0), "b": (95.0, 20.0), "c": (40.0, 15.0)},  # b is best by any sum or ratio
    {"a": (90.0, 50.0)},
]
# fmt: on


def unbeaten(beats: Callable[[Pair, Pair], bool]) -> Choice:
    """All that no other beats. beats: of the other's pair and one's own."""
    return lambda p: {n for n, x in p.items() if not any(beats(o, x) for m, o in p.items() if m != n)}


right = unbeaten(lambda o, x: o[0] >= x[0] and o[1] <= x[1] and o != x)


def _best(score: Callable[[Pair], float]) -> tuple[Choice, Choice]:
    """The best by one number, with all that are level or the first alone."""
    return (
        lambda p: {n for n, x in p.items() if score(x) == max(map(score, p.values()))},
        lambda p: {max(p, key=lambda n: score(p[n]))},
    )


def _either(one: Choice, other: Choice) -> Choice:
    return lambda p: one(p) | other(p)


def _neighbours(key: Callable[[Pair], Any], better: Callable[[Pair, Pair], bool]) -> Choice:
    """Those that are better than the one just before them, and the first."""

    def kept(p: Points) -> set[str]:
        order = sorted(p, key=lambda n: key(p[n]))
        return {order[0], *(n for before, n in itertools.pairwise(order) if better(p[n], p[before]))}

    return kept


def _sweep(level: bool) -> Choice:
    """By falling task accuracy those with which the attacker does less well than with any before, or (level) just as well."""

    def kept(p: Points) -> set[str]:
        names, least = set(), math.inf
        for n in sorted(p, key=lambda n: -p[n][0]):
            if p[n][1] < least or (level and p[n][1] == least):
                names.add(n)
                least = p[n][1]
        return names

    return kept


def _hull(p: Points, sides: tuple[int, ...] = (1,)) -> set[str]:
    """The corners of the convex hull, below (1) and above (-1)."""
    corners: set[Pair] = set()
    for side in sides:
        chain: list[Pair] = []
        for c in sorted(set(p.values())):
            while len(chain) > 1 and side * _turn(chain[-2], chain[-1], c) <= 0:
                chain.pop()
            chain.append(c)
        corners |= set(chain)
    return {n for n, x in p.items() if x in corners}


def _turn(a: Pair, b: Pair, c: Pair) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


LEVEL = "Some that you keep are beaten by one that is level with them in one number and better in the other."
EQUALS = "Of two that are equal neither beats the other"
# fmt: off
SLIPS: dict[str, tuple[Choice, ...]] = {
    "You keep all of them. Is there none that another beats?": (set,),
    "You keep none at all. Does each of yours beat itself? It is at least as good as itself in both.": (lambda p: set(),),
    "Those are the ones that *are* beaten; the others were asked for.": (lambda p: set(p) - right(p),),
    "Yours is the front of the worst. Either both comparisons are turned, or a pair begins with the task, and you have read it the "
    "other way.":
        (unbeaten(lambda o, x: o[0] <= x[0] and o[1] >= x[1] and o != x),),
    "You take a high attack accuracy for a good one. It is the attacker's: the less, the better.":
        (unbeaten(lambda o, x: o[0] >= x[0] and o[1] >= x[1] and o != x),),
    "You take a low task accuracy for a good one. It is the attacker alone who should do badly.":
        (unbeaten(lambda o, x: o[0] <= x[0] and o[1] <= x[1] and o != x),),
    f"{LEVEL} You ask for better in both.": (unbeaten(lambda o, x: o[0] > x[0] and o[1] < x[1]),),
    f"{LEVEL} To be level at the *task* can be enough to beat.": (unbeaten(lambda o, x: o[0] > x[0] and o[1] <= x[1]),),
    f"{LEVEL} To be level for the *attacker* can be enough to beat.": (unbeaten(lambda o, x: o[0] >= x[0] and o[1] < x[1]),),
    f"{EQUALS}, and yours throws both out.": (unbeaten(lambda o, x: o[0] >= x[0] and o[1] <= x[1]),),
    f"{EQUALS}, and yours throws one out.": (
        lambda p: set({p[n]: n for n in p if n in right(p)}.values()),
        lambda p: set({p[n]: n for n in reversed(p) if n in right(p)}.values()),
    ),
    "With you anyone is beaten by one that is better in *either* number, whatever the other says.":
        (unbeaten(lambda o, x: o[0] > x[0] or o[1] < x[1]),),
    "You keep the most accurate alone. One that is a little less so and far safer is beaten by nobody.": _best(lambda x: x[0]),
    "You keep the safest alone. One that is a little less so and far more accurate is beaten by nobody.": _best(lambda x: -x[1]),
    "You keep the most accurate and the safest. Between them stand some that neither of the two beats.":
        tuple(_either(*two) for two in itertools.product(_best(lambda x: x[0]), _best(lambda x: -x[1]))),
    "You rank by one number, and who says what a point of privacy is worth? Two that are good in different ways both stay.": (
        *_best(lambda x: x[0] / x[1]), *_best(lambda x: x[0] - x[1]), *_best(lambda x: x[0] * (100 - x[1])),
        *_best(lambda x: -math.hypot(100 - x[0], x[1])),
    ),
    "You compare each with its neighbour in the order alone. One that stands further off may beat it, too.": (
        *itertools.starmap(_neighbours, itertools.product(
            (lambda x: -x[0], lambda x: (-x[0], x[1])), (lambda x, before: x[1] < before[1], lambda x, before: x[1] <= before[1]))),
        *itertools.starmap(_neighbours, itertools.product(
            (lambda x: x[1], lambda x: (x[1], -x[0])), (lambda x, before: x[0] > before[0], lambda x, before: x[0] >= before[0]))),
    ),
    "You go from the most accurate on. Of some that are level at the task, the one that happens to come first then stays.":
        (_sweep(level=False), _sweep(level=True)),
    "You keep the corners of a convex hull. One that lies behind the line between two others is beaten by neither: on that line there is "
    "no defence.":
        (lambda p: _hull(p) & right(p), _hull, lambda p: _hull(p, (1, -1))),
}
# fmt: on


@a_function
def front(answer: Callable[..., Any]) -> Iterator[str]:
    fronts: list[set[str]] = []
    for points in PLANES:
        places = dict(points)
        value = answer(places)
        if value is None:
            yield OPEN
            return
        if isinstance(value, str) or not isinstance(value, Iterable):
            yield f"Give the set of all names on the front; this is a {type(value).__name__}."
            return
        names = list(value)
        if places != points:
            yield "Your function changes the dictionary it is given, and whoever asks next gets something else. Build a new set."
        if names and all(isinstance(x, (tuple, list)) and tuple(x) in points.values() for x in names):
            yield "You give the pairs of numbers; give the names that they belong to."
        if strange := [x for x in names if not isinstance(x, str) or x not in points]:
            yield f"{strange[0]!r} is no name in the dictionary; give its keys."
        fronts.append(set(names))
    if all(k == right(p) for k, p in zip(fronts, PLANES, strict=True)):
        return
    for why, choices in SLIPS.items():
        if any(all(k == choice(p) for k, p in zip(fronts, PLANES, strict=True)) for choice in choices):
            yield why
    for k, p in zip(fronts, PLANES, strict=True):
        yield from _off(k, p)


def _off(front: set[str], points: Points) -> Iterator[str]:
    due = right(points)
    for name, (task, attack) in points.items():
        if name in front - due:
            better = next(x for x in points.values() if right({"": (task, attack), "other": x}) == {"other"})
            yield f"You keep one at {(task, attack)}, and beside it there is {better}. Look at both numbers."
        if name in due - front:
            yield f"You throw out the one at {(task, attack)}. Which other is at least as good in both?"
