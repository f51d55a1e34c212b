"""The check of lab 14's last exercise: which of many p-values are small enough, where each has its own chance to be small."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Set
from typing import Any

from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.lab_01 import OPEN, combine

P = dict[str, float]
# fmt: off
FAMILIES: list[tuple[P] | tuple[P, float]] = [  # p-values, and a level that is not the one by default
    ({"skips": 0.0206, "norm": 0.0492, "width": 0.0174},),
    ({"width": 0.0482, "noise": 0.0304, "labels": 0.0156},),
    ({"norm": 0.0272, "width": 0.101, "depth": 0.00858, "labels": 0.0236, "noise": 0.00889}, 0.1),
    ({"norm": 0.0028, "skips": 0.00721, "depth": 0.622, "noise": 0.0253, "stem": 0.0128, "labels": 0.0126, "width": 0.00926},),
    ({"noise": 0.00265, "width": 0.00243, "labels": 0.00505, "stem": 0.422, "norm": 0.00981, "patch": 0.00107, "depth": 0.000845}, 0.01),
    ({"norm": 0.00337, "noise": 0.0046, "depth": 0.781, "width": 0.532, "skips": 0.00231, "patch": 0.0122}, 0.01),
    ({"stem": 0.00309, "depth": 0.0033, "labels": 0.00454}, 0.01), ({"depth": 0.0343, "width": 0.0505, "labels": 0.0386}, 0.1),
    ({"labels": 0.00116, "skips": 0.00344, "depth": 0.00278, "patch": 0.00671}, 0.01), ({"noise": 0.381, "norm": 0.132, "stem": 0.0505},),
]
HELD = "Holm's bars are level / m for the smallest p-value, level / (m - 1) for the next, and so on to level / 1"
ORDERS: dict[str, Callable[[P], list[str]]] = {
    "": lambda p: sorted(p, key=lambda n: p[n]),
    "You begin with the largest p-value. Turn the order round: the smallest is held against the strictest bar.":
        lambda p: sorted(p, key=lambda n: -p[n]),
    "You take the names in the order of the dictionary. Sort them by p-value first.": list,
    "You sort by name: so `sorted` does with a dictionary, unless told by what.": sorted,
}
BARS: dict[str, Callable[[float, int, int], float]] = {  # of level, place from 0 on, number of p-values
    "": lambda level, k, m: level / (m - k),
    f"You hold each p-value against `level`, as if it were the only one: of 20 with nothing behind them one passes. {HELD}.":
        lambda level, k, m: level,
    f"You hold each p-value against level / m, and that is Bonferroni's correction. {HELD}: never stricter, and as safe.":
        lambda level, k, m: level / m,
    f"Your bars are level * k / m, those of Benjamini and Hochberg. They hold down a share of false ones, not the chance of any. {HELD}.":
        lambda level, k, m: level * (k + 1) / m,
    f"Your divisor is one too large. {HELD}.": lambda level, k, m: level / (m - k + 1),
    f"Your divisor is one too small. {HELD}.": lambda level, k, m: level / (m - k - 1) if m - k > 1 else math.inf,
    f"Your divisors grow. {HELD}: they fall.": lambda level, k, m: level / (k + 1),
    f"Your bars are those of Šidák, 1 - (1 - level) ** (1 / (m - k)), which are a little less strict. {HELD}.":
        lambda level, k, m: 1 - (1 - level) ** (1 / (m - k)),
}
PASSES: dict[str, Callable[[float, float], bool]] = {
    "": lambda p, bar: p <= bar,
    "Your comparison is turned: a name passes where its p-value lies at or *below* its bar.": lambda p, bar: p > bar,
}
RULES: dict[str, Callable[[list[str], list[bool]], set[str]]] = {  # of names in their order, and which of them pass
    "": lambda names, passed: {n for n, _ in itertools.takewhile(lambda row: row[1], zip(names, passed, strict=True))},
    "You do not stop at the first that fails. What comes after it does not pass any more, however far it lies below its own bar.":
        lambda names, passed: set(itertools.compress(names, passed)),
    "You look for the *last* that lies below its bar and let all before it pass, as Hochberg does. Holm stops at the first that fails.":
        lambda names, passed: set(names[: max((k + 1 for k, ok in enumerate(passed) if ok), default=0)]),
    "You let the first that fails pass as well. It stops the procedure, and does not pass itself.":
        lambda names, passed: set(names[: [*passed, False].index(False) + 1]),
    "You hold but the smallest against its bar. Where it passes, the next has its turn.":
        lambda names, passed: set(names[:1]) if passed and passed[0] else set(),
    "You return those that do *not* pass; asked for are the others.":
        lambda names, passed: set(names[[*passed, False].index(False) :]),
}
LEVELS: dict[str, Callable[[float], float]] = {
    "": lambda level: level,
    "`level` plays no part in yours: it is 0.05, whatever is asked.": lambda level: 0.05,
    "You halve `level`, as for a test on two sides. The p-values know their sides already.": lambda level: level / 2,
}
BH = ("That is Benjamini and Hochberg's procedure. It holds down the *share* of false ones among those that pass, and lets more through; "
      f"Holm's holds down the chance of *any*. {HELD}, and it stops at the first that fails.")  # fmt: skip
TIES: list[tuple[P, float, str]] = [
    ({"skips": 0.03125, "stem": 0.5}, 0.0625, "A p-value just *at* its bar passes, too: compare with <=."),
    ({"skips": 0.0078125, "stem": 0.0078125, "norm": 0.5}, 0.0625, "Where two names have the same p-value, yours loses one of them: look "
     "them up by p-value, and only one answers."),
]  # fmt: skip
# fmt: on


def _stepped(order: Callable, bar: Callable, passes: Callable, rule: Callable, of: Callable) -> Callable[..., set[str]]:
    def holm(p: P, level: float = 0.05) -> set[str]:
        names = order(p)
        return rule(names, [passes(p[n], bar(of(level), k, len(p))) for k, n in enumerate(names)])

    return holm


@a_function
def holm(answer: Callable[..., Any]) -> Iterator[str]:
    answers: list[Any] = []
    for p, *level in FAMILIES:
        values = dict(p)
        names = answer(values, *level)
        answers.append(set(names) if _names_alone(names) else names)
        if list(values.items()) != list(p.items()):
            yield "Your function changes the dictionary it is given, and whoever asks next gets something else. Work with a copy."
    if set(map(type, answers)) == {type(None)}:
        yield OPEN
        return
    for names, (p, *_) in zip(answers, FAMILIES, strict=True):
        yield from _no_names(names, p)
    slips = combine(_stepped, ORDERS, BARS, PASSES, RULES, LEVELS)
    right = slips.pop("")
    up = list(RULES)[2]
    slips = {BH: slips[" ".join([list(BARS)[3], up])]} | slips
    due = [right(*case) for case in FAMILIES]
    if answers != due:
        yield from (why for why, slip in slips.items() if answers == [slip(*case) for case in FAMILIES])
        yield from itertools.chain.from_iterable(map(_differs, answers, due, FAMILIES))
    for p, tie, why in TIES:
        names = answer(dict(p), tie)
        if (set(names) if _names_alone(names) else names) != right(p, tie):
            yield f"{why} For {p} at a level of {tie:g} yours gives {_said(names)}."
    yield from _empty(answer)


def _names_alone(names: Any) -> bool:
    """Whether it is a list or the like that holds each name once: as good as a set."""
    return (
        isinstance(names, list | tuple | Set)
        and all(isinstance(n, str) for n in names)
        and len(set(names)) == len(names)
    )


def _no_names(names: Any, p: P) -> Iterator[str]:
    if names is None:
        yield f"For {p} yours gives nothing. Is a `return` missing on one of its ways?"
    elif not isinstance(names, Set):
        yield f"Give a set of names, and nothing else; this is a {type(names).__name__}."
    elif any(isinstance(x, tuple) for x in names):
        yield "You give names with their p-values; give the names alone."
    elif any(x in p.values() for x in names):
        yield "You give p-values; give the names that they belong to."
    elif strange := [x for x in names if x not in p]:
        yield f"{strange[0]!r} is no name in the dictionary; give its keys."


def _differs(names: set[str], due: set[str], case: tuple) -> Iterator[str]:
    p, level = case[0], case[1] if len(case) > 1 else 0.05
    for k, n in enumerate(ORDERS[""](p)):
        if (n in names) != (n in due):
            verb = "let pass" if n in names else "do not let pass"
            reason = f"its p-value is {p[n]:g}, the bar of the {len(p) - k} that are left {level / (len(p) - k):.4g}"
            yield f"Among {len(p)} p-values at a level of {level:g} you {verb} {n!r}: {reason}. Did all before it pass?"


def _empty(answer: Callable[..., Any]) -> Iterator[str]:
    where = "Where the dictionary is empty,"
    try:
        names = answer({})
    except Exception as error:  # what stops it there is the reader's own
        yield f"{where} yours stops with {type(error).__name__}: {error}. Nothing passes there; give an empty set."
        return
    if isinstance(names, dict):
        yield f"{where} yours gives a dictionary: so Python reads {{}}. An empty set is set()."
    elif not isinstance(names, Set | list | tuple) or names:
        yield f"{where} yours gives {names!r}; it should be set()."


def _said(names: Any) -> str:
    return str(sorted(names)) if isinstance(names, Set) else repr(names)
