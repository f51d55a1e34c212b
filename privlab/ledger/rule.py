"""What repeats can decide: chances for and against a comparison, where ignorance stays ignorance.

Each atom of a comparison is a number that has to lie above 0: `psnr[a] > psnr[b] + 1` is psnr[a] - psnr[b] - 1. It is tested on the
repeats' own values by Student's t, once for it and once against it. Names of one experiment are measured in the same repeats, so their
differences are paired; names of different experiments are independent samples (Welch). Then

    a and b    for: the larger chance of the two          against: k times the smallest, as one refuted part is enough (Bonferroni)
    a or b     for: k times the smallest                  against: the larger

where "chance" is that of values as clear as these, were the truth on the border. With no effect at all no comparison, of however many
parts, is decided wrongly in more than about 5% each way. Drawing the means and counting how often a compound holds refuted an order of
four that was never shown false in 74%.

Errors spread over decades, so an atom that is about errors alone is tested on the logarithms of its two sides. Values without any spread
decide nothing, unless every one of them is exact: an image that came back without an error. Of a share of people that is the same in every
repeat, 100% say, the claim may name how many different people were asked: then an atom about it alone is tested exactly, by the binomial
distribution (Clopper and Pearson), as if each of them had been asked once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from privlab.ledger.comparison import Atom, Tree, number
from privlab.ledger.figures import EXACT_ERROR, IN_PERCENT, exact

__all__ = ["Chances", "Table", "chances"]

_TINY = 1e-12  # of the values' own size: below this a spread is rounding

Table = Mapping[str, np.ndarray]  # name -> its values, one a repeat of one experiment: (repeats,)


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


def _open(why: str) -> Chances:
    return Chances(1.0, 1.0, why)


def chances(tree: Tree, tables: Sequence[Table], people: int = 0) -> Chances:
    """The chances of a parsed comparison.

    tables: one an experiment, each name in one of them.  people: of how many the shares in percent are; 0 if they are not counted.
    Raises KeyError for a name that is in none.
    """
    if isinstance(tree, Atom):
        return _tested(tree, tables, people)
    parts = [chances(part, tables, people) for part in tree.parts]
    parts = parts if tree.every else [part.turned() for part in parts]
    why = next((part.why for part in parts if part.why), "")
    both = Chances(max(part.holds for part in parts), min(1.0, len(parts) * min(part.fails for part in parts)), why)
    return both if tree.every else both.turned()


def _tested(atom: Atom, tables: Sequence[Table], people: int) -> Chances:
    """One atom, by Student's t."""
    if atom.op == "==":
        return _open("== is for identities, which have to hold in every repeat")
    if not atom.names:
        return Chances(0.0, 1.0) if atom.holds({}) else Chances(1.0, 0.0)
    used = [{name: np.asarray(table[name]) for name in atom.names if name in table} for table in tables]
    used = [table for table in used if table]
    if missing := {*atom.names}.difference(*used):
        raise KeyError(min(missing))
    rows = _gaps(atom, used)
    if not all(np.isfinite(gaps).all() for gaps in rows):
        return _open("a part is not finite in every repeat")
    if min(map(len, rows)) < 2:
        return _open("one repeat has no spread")
    # the mean of any experiment's rows is that of the whole atom, whose other names stand at their mean
    mean = float(rows[0].mean())
    errors = [0.0 if gaps.std() <= _TINY * max(1, abs(gaps).max()) else stats.sem(gaps) for gaps in rows]
    if any(errors):  # Welch and Satterthwaite; Student's own test for one experiment
        error = math.hypot(*errors)
        freedom = error**4 / sum(e**4 / (len(gaps) - 1) for e, gaps in zip(errors, rows, strict=True))
        return Chances(float(stats.t.sf(mean / error, freedom)), float(stats.t.cdf(mean / error, freedom)))
    if people and len(atom.names) == 1 and atom.names[0].partition("[")[0] in IN_PERCENT:
        return _of_people(atom, float(used[0][atom.names[0]][0]), people)
    if mean == 0 or not all(exact(name, value) for table in used for name in table for value in table[name]):
        return _open("a part has the same value in every repeat, which decides identities alone")
    return Chances(0.0, 1.0) if mean > 0 else Chances(1.0, 0.0)


def _gaps(atom: Atom, used: Sequence[Table]) -> list[np.ndarray]:
    """By how much the left side is above the right in every repeat of each experiment, the names of the others at their mean.

    Of errors it is the gap between the logarithms, where both sides are above 0 throughout.
    """
    if atom.logs:
        used = [{name: np.maximum(values, EXACT_ERROR) for name, values in table.items()} for table in used]
        sides = _sides(atom, used, stats.gmean)
        if all((side > 0).all() for pair in sides for side in pair):
            return [np.log(left) - np.log(right) for left, right in sides]
    return [left - right for left, right in _sides(atom, used, np.mean)]


def _sides(atom: Atom, used: Sequence[Table], centre: Callable) -> list[tuple[np.ndarray, np.ndarray]]:
    """Both sides in every repeat of each experiment, (repeats,) each."""
    middle = {name: centre(values) for table in used for name, values in table.items()}
    found = []
    for table in used:
        repeats = len(next(iter(table.values())))
        with np.errstate(all="ignore"):
            left, right = (number(side, {**middle, **table}) for side in (atom.left, atom.right))
        found.append((np.broadcast_to(left, repeats), np.broadcast_to(right, repeats)))
    return found


def _of_people(atom: Atom, share: float, people: int) -> Chances:
    """An atom about a share of people, in percent, that is the same in every repeat."""
    at_none, at_all = (
        float(number(atom.left, v) - number(atom.right, v)) for v in ({atom.names[0]: s} for s in (0, 100))
    )
    if at_none * at_all >= 0:
        return _open("a share is held against something that no share reaches")
    bound, count = at_none / (at_none - at_all), share * people / 100
    low, high = math.floor(count + _TINY), math.ceil(count - _TINY)  # whole people, to the side that says less
    above = float(stats.binomtest(low, people, bound, alternative="greater").pvalue)
    below = float(stats.binomtest(high, people, bound, alternative="less").pvalue)
    return Chances(above, below) if at_all > at_none else Chances(below, above)
