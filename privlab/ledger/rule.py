"""What repeats can decide: chances for and against a comparison, where ignorance stays ignorance.

A comparison is taken apart into atoms, each one number that has to lie above 0: `psnr[a] > psnr[b] + 1` is psnr[a] - psnr[b] - 1. An atom
is tested on the repeats' own values by Student's t, once for it and once against it. Names of one experiment are measured in the same
repeats, so their differences are paired; names of different experiments are independent samples (Welch). Then

    a and b      for: the larger chance of the two          against: k times the smallest, as one refuted part is enough (Bonferroni)
    a or b       for: k times the smallest                  against: the larger
    abs(x) < c   is x < c and -x < c: two one-sided tests   abs(x) > c is x > c or -x > c
    max, min     min(a, b) > c and c > max(a, b) are `and`, max(a, b) > c and c > min(a, b) are `or`
    not a        turned round

where "chance" is that of values as clear as these, were the truth on the border. Reproduced: the chance for is below 0.05; not
reproduced: the chance against is. Neither: inconclusive. With no effect at all no comparison, of however many parts, is decided wrongly in
more than about 5% each way. Drawing the means and counting how often a compound holds refuted an order of four that was never shown false
in 74%.

Errors spread over decades, so an atom all of whose names are in `figures.IN_LOGS` is tested on the logarithms of its two sides. Values
without any spread decide nothing, unless every one of them is exact (`exact`): an image that came back without an error. Of a share of
people that is the same in every repeat, 100% say, the claim may name how many different people were asked (`people`): then an atom about it
alone is tested exactly, by the binomial distribution (Clopper and Pearson), as if each of them had been asked once.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy.special import betainc, stdtr

from privlab.ledger import grammar
from privlab.ledger.evidence import LEVEL

__all__ = ["LEVEL", "Chances", "Sample", "Value", "chances", "names_in", "number", "taken_apart"]

_TINY = 1e-12  # of the values' own size: below this a spread is rounding

Value = Callable[[Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Chances:
    """Of values as clear as these, were the truth on the border: for the comparison, and against it; 1 where nothing can be said.

    why: of a part of which nothing can be said, the reason.
    """

    holds: float
    fails: float
    why: str = field(default="", compare=False)

    def turned(self) -> Chances:
        return Chances(self.fails, self.holds, self.why)


OPEN: Final = Chances(1.0, 1.0)


@dataclass(frozen=True)
class Sample:
    """The values of one name, one a repeat.  experiment: names of one experiment are paired.  logs: whether they are judged in logs.

    exact: whether every value is exact: the infinite PSNR, the error of 0.  people: of how many a share in percent is; 0 if of none.
    """

    values: np.ndarray
    experiment: str = ""
    logs: bool = False
    exact: bool = False
    people: int = 0


def chances(comparison: ast.expr, samples: Mapping[str, Sample]) -> Chances:
    """The chances of a parsed comparison.

    comparison: an expression of the grammar in `grammar`; ast.unparse of a name such as psnr[a, b] is its key in samples.
    samples: name -> its values; names of one experiment have the same repeats in the same order.
    Raises KeyError for a name that is not there, ValueError where names of one experiment differ in their number of repeats.
    """
    match comparison:
        case ast.BoolOp(op=op, values=values):
            return _joined([chances(v, samples) for v in values], every=isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return chances(operand, samples).turned()
        case ast.Compare(left=left, ops=ops, comparators=rest):
            sides = [left, *rest]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return _joined([_compared(a, op, b, samples) for a, op, b in pairs], every=True)
    raise ValueError(f"{ast.unparse(comparison)!r} is no comparison")


def _joined(parts: Sequence[Chances], every: bool) -> Chances:
    """Of all of these together (every), or of one of them at least."""
    if not every:
        return _joined([part.turned() for part in parts], every=True).turned()
    why = next((part.why for part in parts if part.why), "")
    return Chances(max(part.holds for part in parts), min(1.0, len(parts) * min(part.fails for part in parts)), why)


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr, samples: Mapping[str, Sample]) -> Chances:
    if isinstance(op, ast.Eq | ast.NotEq):
        return replace(OPEN, why="== is for identities, which have to hold in every repeat")
    if isinstance(op, ast.Lt | ast.LtE):
        left, right = right, left
    return _above(left, right, samples)


def _above(left: ast.expr, right: ast.expr, samples: Mapping[str, Sample]) -> Chances:
    """Whether left lies above right; extremes are taken apart first."""
    if apart := taken_apart(left, right):
        pairs, every = apart
        return _joined([_above(a, b, samples) for a, b in pairs], every)
    return _tested(left, right, samples)


def taken_apart(left: ast.expr, right: ast.expr) -> tuple[list[tuple[ast.expr, ast.expr]], bool] | None:
    """`left > right` with min, max or abs on a side, as comparisons without it, and whether all of them must hold, or one; None without."""
    for side, other, flip in ((left, right, False), (right, left, True)):
        match side:
            case ast.Call(func=ast.Name(id="abs"), args=[x]):
                parts: list[ast.expr] = [x, ast.UnaryOp(ast.USub(), x)]
                every = flip
            case ast.Call(func=ast.Name(id=("min" | "max") as extreme), args=parts):
                every = (extreme == "min") != flip
            case _:
                continue
        return [(other, part) if flip else (part, other) for part in parts], every
    return None


def _tested(left: ast.expr, right: ast.expr, samples: Mapping[str, Sample]) -> Chances:
    """One atom, by Student's t."""
    names = [name for name in samples if name in {*names_in(left), *names_in(right)}]
    if missing := {*names_in(left), *names_in(right)} - {*names}:
        raise KeyError(min(missing))
    used = {name: samples[name] for name in names}
    groups: dict[str, list[str]] = {}
    for name, sample in used.items():
        groups.setdefault(sample.experiment, []).append(name)
    counts = [_count(members, used) for members in groups.values()]
    a, b = number(left), number(right)
    logs = bool(used) and all(sample.logs for sample in used.values())
    centre, alone = _by_experiment(groups, used, logs)
    with np.errstate(all="ignore"):
        if logs and not all(np.all(side(values) > 0) for side in (a, b) for values in alone):
            logs, (centre, alone) = False, _by_experiment(groups, used, False)

    def value(values: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.log(a(values)) - np.log(b(values)) if logs else a(values) - b(values)

    if not used:
        return Chances(0.0, 1.0) if value({}) > 0 else Chances(1.0, 0.0)
    means, errors, degrees = [], [], []
    for count, values in zip(counts, alone, strict=True):
        with np.errstate(all="ignore"):
            rows = np.broadcast_to(value(values), (count,))
        if not np.isfinite(rows).all():
            return replace(OPEN, why="a part is not finite in every repeat")
        if count < 2:
            return replace(OPEN, why="one repeat has no spread")
        spread, size = rows.std(ddof=1), max(1.0, float(np.abs(rows).max()))
        means.append(float(rows.mean()))
        errors.append(0.0 if spread <= _TINY * size else float(spread / math.sqrt(len(rows))))
        degrees.append(len(rows) - 1)
    # a group's mean is that of the whole atom with the others at their middle: in a sum all of these are the same
    mean, error = (means[0] if len(means) == 1 else float(value(centre))), math.hypot(*errors)
    if error == 0 and len(names) == 1 and (people := used[names[0]].people):
        at_none, at_all = map(float, value({names[0]: np.array([0.0, 100.0])}))
        return _of_people(at_none, at_all, float(used[names[0]].values[0]), people)
    if error == 0:
        exact = all(sample.exact for sample in used.values())
        if not exact or mean == 0:
            return replace(OPEN, why="a part has the same value in every repeat, which decides identities alone")
        return Chances(0.0, 1.0) if mean > 0 else Chances(1.0, 0.0)
    freedom = error**4 / sum(
        e**4 / d for e, d in zip(errors, degrees, strict=True)
    )  # Welch and Satterthwaite; n - 1 for one group
    return Chances(float(stdtr(freedom, -mean / error)), float(stdtr(freedom, mean / error)))


def _of_people(at_none: float, at_all: float, share: float, people: int) -> Chances:
    """One atom about a share of people, in percent, that is the same in every repeat.  at_none, at_all: the atom at shares of 0 and 100."""
    if at_none * at_all >= 0:
        return replace(OPEN, why="a share is held against something that no share reaches")
    bound, count = at_none / (at_none - at_all), share * people / 100
    low, high = math.floor(count + _TINY), math.ceil(count - _TINY)  # whole people, to the side that says less
    above = 1.0 if low <= 0 else float(betainc(low, people - low + 1, bound))  # chance of so many or more
    below = 1.0 if high >= people else float(1 - betainc(high + 1, people - high, bound))  # of so many or fewer
    return Chances(above, below) if at_all > at_none else Chances(below, above)


def _count(members: Sequence[str], used: Mapping[str, Sample]) -> int:
    """How many repeats these names of one experiment have."""
    if len(counts := {len(used[name].values) for name in members}) > 1:
        raise ValueError(
            f"{', '.join(members)} have {' and '.join(map(str, sorted(counts)))} repeats; they are measured together"
        )
    return counts.pop()


def _by_experiment(
    groups: Mapping[str, Sequence[str]], used: Mapping[str, Sample], logs: bool
) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """The middle of each name, of its logs if so; and for each experiment its repeats, with the names of the others at their middle."""
    centre = {
        name: np.exp(np.log(sample.values).mean()) if logs else sample.values.mean() for name, sample in used.items()
    }
    return centre, [{**centre, **{name: used[name].values for name in members}} for members in groups.values()]


def number(node: ast.expr) -> Value:
    """A sum, difference, product or quotient of names and numbers, repeat by repeat.  Raises ValueError for an extreme inside of one."""
    if inside := [each for each in ast.walk(node) if isinstance(each, ast.Call)]:
        raise ValueError(
            f"{ast.unparse(inside[0])!r} stands inside of a sum or product; write min, max and abs alone on their side"
        )
    return grammar.number(node)


def names_in(node: ast.expr) -> list[str]:
    return list(dict.fromkeys(ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Subscript)))
