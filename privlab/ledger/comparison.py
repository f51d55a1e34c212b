"""What moved between two runs of the book: verdicts, and the figures behind them, with tolerances that were measured.

Where seed, device and versions are the same, a run gives every figure back to the bit. One that differs all the same tells
of a change in code or data, and is counted as such. Elsewhere, under another torch or on another card, most figures differ
in some digit. Then the question is whether their true means may still be one:

    1. Each figure has its repeats, now and in the baseline. Welch's t test puts the difference of the two means against the
       spread of both, on the scale on which the record is averaged (logs for errors, see `records.IN_LOGS`).
    2. A run compares hundreds of figures, so some p-values are small by luck. Benjamini and Hochberg's rule says how small
       is small enough: where nothing moved, at most one run in twenty shows a moved figure; where something did, about one
       in twenty of the figures shown did not.
    3. A single repeat has no spread, and neither do repeats that all agree. Such a figure is equal or it differs; no more is
       said.

In simulations (normal, skewed and heavy-tailed repeats, 2 to 40 of them) it keeps that promise with room to spare. Where both runs
saw the same pictures it is more careful still: a picture's own level adds to the spread and not to the difference.

What this leaves out. Two repeats, as at smoke, bear witness to very large shifts only. Repeats that fall into a few tight
clusters, drawn anew for each run, can all land in one of them and look sure. The spread is that of repeats within a run: what
all of them share, such as the weights drawn from one seed, moves unseen by it when the seed is another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import stdtr

from privlab.ledger.records import Record
from privlab.ledger.report import in_markdown
from privlab.ledger.runs import Ledger
from privlab.ledger.verdicts import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, Judgement

__all__ = ["ALARM", "Change", "Drift", "Shift", "compare", "shifts", "verdicts"]

Row = tuple[str, str, str, str, str]  # what, name, before, now, why
ALARM = 0.05
EQUAL, WITHIN, MOVED, NO_SPREAD = "equal", "within its spread", "moved", "differs, no spread known"
OTHERWISE, GONE, NEW = "measured otherwise", "no longer recorded", "new"
WORSE, STOPPED, BETTER = "worse", "no longer run", "better"

_COUNTED = {  # how a sum of each is said
    EQUAL: "equal to the bit", WITHIN: "within their spread", MOVED: MOVED, NO_SPREAD: "other and without a spread", OTHERWISE: OTHERWISE,
    GONE: GONE, NEW: NEW,
}  # fmt: skip
_VERSIONS = ("python", "torch", "timm", "privlab")
_ABOUT = (
    "mode",
    "victim",
    "position_std",
    "unit",
)  # of two records that differ in these, neither is the other's baseline


@dataclass(frozen=True)
class Change:
    """A claim whose verdict is another.  what: "worse", "no longer run" or "better"; why: the reason given now."""

    what: str
    claim: str
    before: str
    now: str
    why: str


@dataclass(frozen=True)
class Shift:
    """A figure in both runs, or in one of them.

    what: one of the words above.  p: of Welch's test, where there was one.
    same: whether seed, device and versions are the same in both, so that it should be equal to the bit.
    """

    lab: str
    name: str
    what: str
    before: Record | None = None
    now: Record | None = None
    p: float | None = None
    same: bool = False
    why: str = ""


@dataclass(frozen=True, repr=False)
class Drift:
    """What became of a baseline.  head: when it was made, and what is different about the machine; str() is a page."""

    head: tuple[str, ...]
    changes: tuple[Change, ...]
    figures: tuple[Shift, ...]

    @property
    def status(self) -> int:
        """1 where a verdict got worse or stopped being run, else 0."""
        return int(any(change.what in (WORSE, STOPPED) for change in self.changes))

    @property
    def strict(self) -> int:
        """1 also where a figure moved, is measured otherwise, or is gone."""
        return int(bool(self.status or self.of(MOVED) or self.of(OTHERWISE) or self.of(GONE)))

    def of(self, what: str) -> list[Shift]:
        """The figures with one of the words, the surest first."""
        return sorted((s for s in self.figures if s.what == what), key=lambda s: 1.0 if s.p is None else s.p)

    def __str__(self) -> str:
        rows: list[Row] = [(c.what, f"`{c.claim}`", c.before, c.now, c.why) for c in self.changes]
        rows += [row for what in (MOVED, NO_SPREAD) for row in map(_row, self.of(what))]
        rows += [row for what in (OTHERWISE, GONE) for row in _together(self.of(what))]
        lines = [*self.head, ""]
        if rows:
            lines += ["| what | name | before | now | why |", "| --- | --- | --- | --- | --- |"]
            lines += [f"| {what} | {name} | {' | '.join(map(in_markdown, rest))} |" for what, name, *rest in rows] + [
                ""
            ]
        lines.append(("" if self.changes else "No verdict moved. ") + self._counts())
        if unequal := [s for s in self.figures if s.same and s.what in (WITHIN, MOVED, NO_SPREAD)]:
            labs = ", ".join(sorted({s.lab for s in unequal}))
            lines.append(
                f"{_figures(len(unequal))} (lab {labs}) not equal to the bit although seed, device and versions are: code or data changed."
            )
        return "\n".join(lines)

    def _counts(self) -> str:
        counts = {what: f"{len(figures)} {words}" for what, words in _COUNTED.items() if (figures := self.of(what))}
        both, others = (
            [text for what, text in counts.items() if (what in (GONE, NEW)) is alone] for alone in (False, True)
        )
        n = sum(s.what not in (GONE, NEW) for s in self.figures)
        return "; ".join([f"{_figures(n)} in both runs" + (f": {', '.join(both)}" if both else ""), *others]) + "."


def compare(now: Ledger, baseline: Ledger) -> Drift:
    """What became of each verdict and each figure of the baseline.

    Raises ValueError where the two were run at different profiles.
    """
    if now.profile != baseline.profile:
        raise ValueError(
            f"baseline: it was run at the profile {baseline.profile}, this at {now.profile}; compare runs of one profile"
        )
    return Drift(
        _head(now, baseline),
        tuple(verdicts(now.judgements, baseline.judgements)),
        tuple(shifts(now.records, baseline.records)),
    )


# -- verdicts ------------------------------------------------------------------------------------------------------------


def verdicts(now: Iterable[Judgement], baseline: Iterable[Judgement]) -> list[Change]:
    """The claims whose verdict is another, the worse first.

    Worse is reproduced -> inconclusive or not reproduced, and inconclusive -> not reproduced; the other way round is better.
    Stopped is any verdict -> not run, or a claim that is gone. Claims that the baseline did not run are no change,
    nor are those that are judged from evidence, which is not of a run.
    """
    order = [NOT_REPRODUCED, INCONCLUSIVE, REPRODUCED]
    current = {j.claim.id: j for j in now}
    changes = []
    for old in baseline:
        new = current.get(old.claim.id)
        if old.verdict == NOT_RUN or (new and (new.claim.experiments or new.verdict == old.verdict)):
            continue
        if new is None or new.verdict == NOT_RUN:
            why = new.reason if new else "not on the list of claims"
            changes.append(Change(STOPPED, old.claim.id, _verdict(old), NOT_RUN, why))
            continue
        what = WORSE if order.index(new.verdict) < order.index(old.verdict) else BETTER
        why = new.reason + ("" if new.claim.compare == old.claim.compare else "; and what it compares was changed")
        changes.append(Change(what, old.claim.id, _verdict(old), _verdict(new), why))
    return sorted(changes, key=lambda change: [WORSE, STOPPED, BETTER].index(change.what))


def _verdict(judgement: Judgement) -> str:
    return judgement.verdict + ("" if judgement.share is None else f" ({judgement.share:.1%})")


# -- figures -------------------------------------------------------------------------------------------------------------


def shifts(now: Iterable[Record], baseline: Iterable[Record], alarm: float = ALARM) -> list[Shift]:
    """What became of each figure, in the order of the baseline, then what is new.

    alarm: share of runs that may show a moved figure where none did.
    """
    here, there = ({(r.lab, r.name): r for r in records} for records in (now, baseline))
    pairs = {key: (old, here[key]) for key, old in there.items() if key in here}
    p_of = {key: p for key, (old, new) in pairs.items() if (p := _welch(old, new)) is not None}
    limit = _limit(list(p_of.values()), alarm)
    figures = []
    for key, old in there.items():
        if key not in here:
            figures.append(Shift(*key, GONE, before=old))
            continue
        new, p = here[key], p_of.get(key)
        what, why = EQUAL, ""
        if other := [f for f in _ABOUT if getattr(old, f) != getattr(new, f)]:
            what, why = OTHERWISE, "; ".join(f"{f}: {getattr(old, f)} before, {getattr(new, f)} now" for f in other)
        elif old.values != new.values:
            what = NO_SPREAD if p is None else MOVED if p <= limit else WITHIN
            why = "" if p is None else f"p = {p:.1g}"
        same = _circumstances(old) == _circumstances(new)
        figures.append(Shift(*key, what, old, new, p, same, why))
    return figures + [Shift(*key, NEW, now=new) for key, new in here.items() if key not in there]


def _welch(old: Record, new: Record) -> float | None:
    """The p-value of Welch's t test of two means; None for equal figures, other quantities, and where no spread is known."""
    a, b = old.scaled, new.scaled
    if old.values == new.values or any(getattr(old, f) != getattr(new, f) for f in _ABOUT) or min(len(a), len(b)) < 2:
        return None
    u, v = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if u + v == 0:
        return None
    freedom = 1 / ((u / (u + v)) ** 2 / (len(a) - 1) + (v / (u + v)) ** 2 / (len(b) - 1))
    t = (statistics.fmean(a) - statistics.fmean(b)) / math.sqrt(u + v)
    return float(2 * stdtr(freedom, -abs(t)))


def _limit(ps: Sequence[float], alarm: float) -> float:
    """The largest p-value that counts, by Benjamini and Hochberg 1995; 0 where none does."""
    ranked = enumerate(sorted(ps), start=1)
    return max((p for rank, p in ranked if p <= alarm * rank / len(ps)), default=0.0)


# -- what it was measured on ---------------------------------------------------------------------------------------------


def _circumstances(record: Record) -> dict[str, str]:
    """What has to be the same for a figure to be the same to the bit."""
    m = record.machine
    versions = {name: str(getattr(m, name)) for name in _VERSIONS}
    return {
        "seed": str(record.seed),
        "device": f"{record.device} ({m.device_name})",
        "threads": str(m.threads),
        **versions,
    }


def _head(now: Ledger, baseline: Ledger) -> tuple[str, ...]:
    here, there = (_all(ledger.records) for ledger in (now, baseline))
    lines = [f"Against the baseline of {baseline.when}, profile {baseline.profile}."]
    if other := [
        f"{name} {there[name]} -> {here[name]}" for name in here if name in there and here[name] != there[name]
    ]:
        lines.append(f"Not the same: {'; '.join(other)}.")
    if here.get("seed") != there.get("seed") and here and there:
        lines.append(
            "With another seed, what all repeats of a figure share is drawn anew too, and their spread does not know of it."
        )
    return tuple(lines)


def _all(records: Iterable[Record]) -> dict[str, str]:
    """Each circumstance with every value that it has in a run: labs may be run on several machines."""
    by_name: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in _circumstances(record).items():
            by_name.setdefault(name, {})[value] = None
    return {name: " and ".join(sorted(values)) for name, values in by_name.items()}


# -- on paper ------------------------------------------------------------------------------------------------------------


def _row(shift: Shift) -> Row:
    return shift.what, f"lab {shift.lab} `{shift.name}`", _centre(shift.before), _centre(shift.now), shift.why


def _together(figures: Sequence[Shift]) -> list[Row]:
    """One row for all figures of a lab that share a fate and its reason."""
    groups: dict[tuple[str, str], list[Shift]] = {}
    for shift in figures:
        groups.setdefault((shift.lab, shift.why), []).append(shift)
    rows = []
    for first, *others in groups.values():
        what, name, before, now, why = _row(first)
        rows.append((what, name + (f" and {len(others)} more" if others else ""), before, now, why))
    return rows


def _centre(record: Record | None) -> str:
    return "" if record is None else str(record.figure).partition(" = ")[2]


def _figures(n: int) -> str:
    return "1 figure" if n == 1 else f"{n:,} figures"
