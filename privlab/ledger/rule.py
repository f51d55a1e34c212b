"""Mean and spread of repeats, and what they can decide: chances for and against a comparison, where ignorance stays ignorance.

An atom is a number that has to lie above 0: `psnr[a] > psnr[b] + 1` is psnr[a] - psnr[b] - 1. It is tested on the repeats' own values by
Student's t, once for it and once against it. Names of one experiment are measured in the same repeats, so their differences are paired;
names of different experiments are independent samples (Welch). Of errors, which spread over decades, the logarithms are tested. Then

    a and b    for: the larger chance of the two          against: k times the smallest, as one refuted part is enough (Bonferroni)
    a or b     for: k times the smallest                  against: the larger

With no effect at all no comparison, of however many parts, is decided wrongly in more than about 5% each way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from privlab.ledger.comparison import Atom, Joined, names, value
from privlab.ledger.evidence import EXACT_PSNR

EXACT_ERROR = 1e-32  # the mean squared error that goes with EXACT_PSNR
# One bad repeat would be all there is to the mean of such errors: they are averaged in logs, as PSNR has always done with MSE.
IN_LOGS = {"mse", "relative_error", "relative_residual", "max_abs_error", "from_grey"}
IN_PERCENT = {"acc", "attacc"}  # shares of people or of their photographs
TINY = 1e-12  # of the values' own size: below this a spread is rounding


def of_errors(*texts: str) -> bool:
    """Whether texts name errors alone, which are compared by their logarithms."""
    found = names(*texts)
    return bool(found) and all(name.partition("[")[0] in IN_LOGS for name in found)


def exact(name: str, number: float) -> bool:
    """Whether a value says that there is no error at all: a PSNR of 320 dB, which stands for infinity, or an error of 0."""
    return number >= EXACT_PSNR if name.startswith("psnr[") else number == 0 and of_errors(name)


class Figure(NamedTuple):
    """What was measured under one name: mean and standard deviation of n repeats, and the 95% interval of the mean; None for one repeat.

    logs: of errors it is the geometric mean, and the factor that covers one standard deviation.  exact: repeats without any error.
    """

    name: str
    centre: float
    spread: float | None
    n: int
    exact: int
    logs: bool
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" {'×÷' if self.logs else '±'} {self.spread:.2g}"
        exact = f", {self.exact} of them exact" if self.exact else ""
        return f"{self.name} = {self.centre:.4g}{spread} (n={self.n}{exact})"

    @classmethod
    def of(cls, name: str, values: Sequence[float] | np.ndarray, logs: bool | None = None) -> Figure:
        """Of the repeats of a name such as psnr[a, b].  logs: whether they are averaged in logs; as its metric is if not given."""
        logs = of_errors(name) if logs is None else logs
        rows = np.log(np.maximum(values, EXACT_ERROR)) if logs else np.asarray(values, float)
        found = [rows.mean()]
        if len(rows) > 1:
            half = stats.t.ppf(0.975, len(rows) - 1) * stats.sem(rows)
            found += [rows.std(ddof=1), rows.mean() - half, rows.mean() + half]
        centre, *more = map(float, np.exp(np.minimum(found, 700)) if logs else found)
        spread, interval = (more[0], (more[1], more[2])) if more else (None, None)
        return cls(name, centre, spread, len(rows), sum(exact(name, number) for number in values), logs, interval)


class Chances(NamedTuple):
    """Of values as clear as these, were the truth on the border: for a comparison, and against it; 1 where nothing can be said, and why."""

    holds: float
    fails: float
    why: str = ""


def chances(tree: Atom | Joined, tables: Sequence[Mapping[str, np.ndarray]], people: int = 0) -> Chances:
    """The chances of a parsed comparison.  tables: one an experiment, name -> its values, one a repeat.

    people: of how many the shares in percent are; 0 if they are not counted.  A share that is the same in every repeat is then tested
    exactly, by the binomial distribution, as if each of them had been asked once.
    """
    if isinstance(tree, Atom):
        return _tested(tree, tables, people)
    holds, fails, reasons = zip(*(chances(part, tables, people) for part in tree.parts), strict=True)
    why, k = next(filter(None, reasons), ""), len(reasons)
    if tree.every:
        return Chances(max(holds), min(1.0, k * min(fails)), why)
    return Chances(min(1.0, k * min(holds)), max(fails), why)


def _tested(atom: Atom, tables: Sequence[Mapping[str, np.ndarray]], people: int) -> Chances:
    asked = names(atom.left, atom.right)
    used = [{name: np.asarray(table[name]) for name in asked if name in table} for table in tables]
    used = [table for table in used if table]
    rows = _gaps(atom, used)
    if not all(len(gaps) > 1 and np.isfinite(gaps).all() for gaps in rows):
        return Chances(1.0, 1.0, "a part has one repeat, or is not finite in every repeat")
    # the mean of any experiment's rows is that of the whole atom, whose other names stand at their mean
    mean = float(rows[0].mean())
    errors = [0.0 if gaps.std() <= TINY * max(1, abs(gaps).max()) else stats.sem(gaps) for gaps in rows]
    if any(errors):  # Welch and Satterthwaite; Student's own test for one experiment
        error = math.hypot(*errors)
        freedom = error**4 / sum(e**4 / (len(gaps) - 1) for e, gaps in zip(errors, rows, strict=True))
        return Chances(float(stats.t.sf(mean / error, freedom)), float(stats.t.cdf(mean / error, freedom)))
    if people and asked in ([atom.left], [atom.right]) and asked[0].partition("[")[0] in IN_PERCENT:
        over, share = asked == [atom.left], float(used[0][asked[0]][0])
        more, less = _of_people(share, people, value(atom.right if over else atom.left, {}))
        return Chances(more, less) if over else Chances(less, more)
    if mean == 0 or not all(exact(name, number) for table in used for name in table for number in table[name]):
        return Chances(1.0, 1.0, "a part has the same value in every repeat, which decides identities alone")
    return Chances(0.0, 1.0) if mean > 0 else Chances(1.0, 0.0)


def _gaps(atom: Atom, used: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
    """By how much the left side is above the right in every repeat of each experiment, the names of the others at their mean.

    Of errors it is the gap between the logarithms: they are compared as quotients, and a difference of theirs is not finite below 0.
    """
    centre: Callable = np.mean
    scale: Callable = np.asarray
    if of_errors(atom.left, atom.right):
        centre, scale = stats.gmean, np.log
        used = [{name: np.maximum(values, EXACT_ERROR) for name, values in table.items()} for table in used]
    middle = {name: centre(values) for table in used for name, values in table.items()}
    with np.errstate(all="ignore"):
        return [np.subtract(*(scale(value(s, {**middle, **table})) for s in (atom.left, atom.right))) for table in used]


def _of_people(share: float, people: int, bar: float) -> tuple[float, float]:
    """Chances that a share of people, in percent, is above a bar, and that it is below."""
    count = share * people / 100
    low, high = math.floor(count + TINY), math.ceil(count - TINY)  # whole people, to the side that says less
    above = stats.binomtest(low, people, bar / 100, alternative="greater")
    below = stats.binomtest(high, people, bar / 100, alternative="less")
    return float(above.pvalue), float(below.pvalue)
