"""Mean and spread of repeats, and what they can decide: p-values for and against a comparison, where ignorance stays ignorance.

An atom is a number that has to lie above 0: `psnr[a] > psnr[b] + 1` is psnr[a] - psnr[b] - 1. It is tested on the repeats' own values by
Student's t, once for it and once against it. Names of one experiment are measured in the same repeats, so their differences are paired;
names of different experiments are independent samples (Welch). Of errors, which spread over decades, the logarithms are tested. Then

    a and b    for: the larger p-value of the two         against: k times the smallest, as one refuted part is enough (Bonferroni)
    a or b     for: k times the smallest                  against: the larger

With no effect at all no comparison, of however many parts, is decided wrongly in more than about 5% each way in one try, 10% over all.
"""

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import bdtr, bdtrc, stdtr, stdtrit  # scipy.stats takes 2 s to import

from privlab.ledger.comparison import bar, names, value
from privlab.ledger.evidence import EXACT_PSNR

EXACT_ERROR = 1e-32  # the mean squared error that goes with EXACT_PSNR
# One bad repeat would be all there is to the mean of such errors: they are averaged in logs, as PSNR has always done with MSE.
IN_LOGS = {"mse", "relative_error", "relative_residual", "max_abs_error", "from_grey"}
IN_PERCENT = {"acc", "attacc"}  # shares of people or of their photographs
TINY = 1e-12  # of the values' own size: below this a spread is rounding


def of_errors(*texts: str) -> bool:
    """Whether texts name errors alone, which are compared by their logarithms."""
    return set() < {name.partition("[")[0] for name in names(*texts)} <= IN_LOGS


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
    def of(cls, name: str, values: Any) -> Self:
        """Of the repeats of a name such as psnr[a, b], or of a number such as psnr[a] - psnr[b]."""
        logs, rows = of_errors(name), np.asarray(values, float)
        n, without_error = len(rows), sum(exact(name, row) for row in rows)
        rows = np.log(np.maximum(rows, EXACT_ERROR)) if logs else rows
        centre, deviation = rows.mean(), rows.std(ddof=1) if n > 1 else 0.0
        half = stdtrit(n - 1, 0.975) * deviation / n**0.5
        ends = [centre, deviation, centre - half, centre + half]
        centre, spread, low, high = map(float, np.exp(np.minimum(ends, 700)) if logs else ends)
        return cls(name, centre, spread if n > 1 else None, n, without_error, logs, (low, high) if n > 1 else None)


def p_values(tree: ast.expr, tables: Sequence[Mapping[str, Any]], people: int = 0) -> tuple[float, float, str]:
    """Of values as clear as these, were the truth on the border: for a parsed comparison, against it, and why where both are 1.

    tables: one an experiment, name -> its values, one a repeat.  people: of how many the shares in percent are; 0 if they are not counted.
    A share that is the same in every repeat is then tested exactly, by the binomial distribution, as if each had been asked once.
    """
    if not isinstance(tree, ast.BoolOp):
        return _tested(tree, tables, people)
    holds, fails, reasons = zip(*(p_values(part, tables, people) for part in tree.values), strict=True)
    why, k = next(filter(None, reasons), ""), len(reasons)
    if isinstance(tree.op, ast.And):
        return max(holds), min(1.0, k * min(fails)), why
    return min(1.0, k * min(holds)), max(fails), why


@np.errstate(all="ignore")
def _tested(atom: Any, tables: Sequence[Mapping[str, Any]], people: int) -> tuple[float, float, str]:
    left, right, asked = atom.left, atom.comparators[0], names(atom)
    logs = of_errors(*asked)
    # of errors it is the gap between the logarithms: they are compared as quotients, and a difference of theirs is not finite below 0
    scale, floor = (np.log, EXACT_ERROR) if logs else (np.asarray, -np.inf)
    used = [{name: np.maximum(np.asarray(table[name]), floor) for name in asked if name in table} for table in tables]
    means = {name: np.exp(np.log(v).mean()) if logs else v.mean() for table in used for name, v in table.items()}
    # in each experiment's gaps the names of the others stand at their mean, so that each has the mean of the whole atom
    gaps = [scale(value(left, means | table)) - scale(value(right, means | table)) for table in used if table]
    if not all(len(gap) > 1 and np.isfinite(gap).all() for gap in gaps):
        return 1.0, 1.0, "a part has one repeat, or is not finite in every repeat"
    mean = float(gaps[0].mean())
    errors = [0.0 if gap.std() <= TINY * max(1, abs(gap).max()) else gap.std(ddof=1) / len(gap) ** 0.5 for gap in gaps]
    if error := math.hypot(*errors):  # Welch and Satterthwaite; Student's own test for one experiment
        freedom = error**4 / sum(e**4 / (len(gap) - 1) for e, gap in zip(errors, gaps, strict=True))
        return float(stdtr(freedom, -mean / error)), float(stdtr(freedom, mean / error)), ""
    about, low, high = bar(atom)
    if people and asked == [about] and about.partition("[")[0] in IN_PERCENT:
        count, share = means[about] * people / 100, (high if low == -math.inf else low) / 100
        fewest, most = math.floor(count + TINY), math.ceil(count - TINY)  # whole people, to the side that says less
        more, less = float(bdtrc(fewest - 1, people, share)), float(bdtr(most, people, share))
        return (less, more, "") if low == -math.inf else (more, less, "")
    values = {name: table[name] for table in tables for name in asked if name in table}
    if mean and all(exact(name, number) for name, repeats in values.items() for number in repeats):
        return (0.0, 1.0, "") if mean > 0 else (1.0, 0.0, "")
    return 1.0, 1.0, "a part has the same value in every repeat, which decides identities alone"
