"""Verdicts from the committed evidence, by the rule of `rule`.

A claim is judged by exactly the registered repeats, when all of them are there, of the highest size that is complete: paper, gpu, night,
class. `smoke` proves that the code runs, and judges nothing. Where more repeats were registered after a look, the latest complete try
counts, at the level of its registration; earlier tries and other sizes stand beside the verdict.

    reproduced, not reproduced    the comparison, or its opposite, is shown by the repeats
    inconclusive                  neither is, or a need of the claim is undecided
    not tested                    a need is refuted: what would be compared is not there; or the claim has no experiment
    measuring                     registered repeats are missing, or nothing is registered yet

Of the needs, one about the accuracy of victims on their training data holds in every repeat, or fails. An identity must hold in every
repeat too, of several experiments in every pair of theirs. All else is about means.

A registration says whether a size is the paper's own setting. Where the paper leaves something open that may matter, the claim says how it
is read here (`reading`), and such a verdict is one of that reading: a scope of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from privlab.ledger import evidence, papers, rule
from privlab.ledger.comparison import each, names, parse
from privlab.ledger.evidence import SIZES, Registration
from privlab.ledger.figures import Figure
from privlab.ledger.papers import Claim

__all__ = [
    "SCOPES",
    "VERDICTS",
    "Judgement",
    "Need",
    "Shelf",
    "Try",
    "breaks",
    "judge",
    "judge_by",
    "judgements",
    "scope",
    "tries",
]

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive"
NOT_TESTED, MEASURING = "not tested", "measuring"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTED, MEASURING)
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "is undecided"  # of a need
OWN, READING, STAND_IN = SCOPES = (
    "the paper's own setting", "the paper's networks, our reading of what it leaves open", "a stand-in"
)  # fmt: skip
EVERY_REPEAT = {"train_acc", "train_accuracy", "training_accuracy"}  # needs about these hold in every repeat, or fail


@dataclass(frozen=True)
class Need:
    """A need of a claim, and whether it holds: "holds", "does not hold" or "is undecided", and by which numbers."""

    text: str
    state: str
    why: str


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict.

    profile: the size that decides, or that is waited for.  ours: what it was judged by.  scope: one of SCOPES, "" where nothing was
    measured.  stands_for: what a reader must know to place the numbers.  p: chance of values as clear as these, were the claim just false;
    None where no mean was tested.  beside: what other sizes and earlier tries say.  needs: of the claim, each with its state; empty while
    measuring.
    """

    claim: Claim
    profile: str
    verdict: str
    reason: str
    ours: tuple[Figure, ...] = ()
    scope: str = ""
    stands_for: str = ""
    p: float | None = None
    beside: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()

    @property
    def reading(self) -> str:
        """What the paper leaves open, and how it is read here, where the verdict speaks of this reading; else ""."""
        return self.claim.reading if self.scope == READING else ""

    @property
    def exploratory(self) -> bool:
        """Whether the comparison was chosen after a look at the evidence that decides, or that is waited for."""
        looked = self.claim.exploratory
        return looked != "" and self.profile != "" and SIZES.index(self.profile) <= SIZES.index(looked)


@dataclass(frozen=True)
class Try:
    """Registrations that are judged together, one an experiment.  tables: of each, a row a repeat that is there, a column a name."""

    entries: tuple[Registration, ...]
    tables: tuple[pd.DataFrame, ...]
    number: int

    @property
    def complete(self) -> bool:
        return all(len(table) == entry.repeats for entry, table in zip(self.entries, self.tables, strict=True))

    def __str__(self) -> str:
        counts = " and ".join(
            f"{len(table)} of {entry.repeats} repeats of {entry.experiment}"
            for entry, table in zip(self.entries, self.tables, strict=True)
        )
        return f"{counts} at {self.entries[0].size}"


class Shelf:
    """The registrations and lines of a folder of evidence, each file read once.  root: the book's if not given."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root
        self._registered: dict[tuple[str, str], list[Registration]] = {}
        for entry in evidence.registrations(root):
            self._registered.setdefault((entry.experiment, entry.size), []).append(entry)
        self._table = functools.cache(self._read)

    def tries(self, experiments: Sequence[str], size: str) -> list[Try]:
        """Of these experiments at one size, the first try first; none where one of them is not registered.

        In the k-th try each experiment has its k-th registration, or its last.
        """
        listed = [self._registered.get((name, size), []) for name in experiments]
        if not listed or not all(listed):
            return []
        lined_up = [tuple(every[min(k, len(every) - 1)] for every in listed) for k in range(max(map(len, listed)))]
        return [Try(entries, tuple(map(self._table, entries)), k) for k, entries in enumerate(lined_up)]

    def _read(self, entry: Registration) -> pd.DataFrame:
        rows = evidence.read(entry.experiment, entry.size, entry.digest, self.root, entry.range)
        return pd.DataFrame([row.values for row in rows], index=[row.repeat for row in rows])


def scope(own: bool, reading: str) -> str:
    """Of what is registered as the paper's own setting, or is not, for a claim with this reading of it."""
    return STAND_IN if not own else READING if reading else OWN


def judgements(lab: str | None = None, root: Path | None = None) -> list[Judgement]:
    """A verdict for each claim of a lab ("04"), or of all labs, from the evidence.

    root: folder of the evidence; the book's if not given.
    """
    shelf = Shelf(root)
    return [judge(claim, shelf) for claim in papers.claims(lab)]


def judge(claim: Claim, shelf: Shelf | None = None) -> Judgement:
    """A claim's verdict from the evidence."""
    if not claim.experiments:
        return Judgement(claim, "", NOT_TESTED, "nothing in this book can measure it")
    complete, waiting = tries(claim, shelf or Shelf())
    if not complete:
        nothing = f"nothing is registered of {' and '.join(claim.experiments)} yet"
        why = "; ".join(lacks for _, lacks in waiting) or nothing
        return Judgement(claim, waiting[0][0] if waiting else "", MEASURING, why)
    first, *others = (judge_by(claim, one) for one in complete)
    beside = [f"{j.profile}: {j.verdict} ({j.reason})" for j in others] + [f"to come: {lacks}" for _, lacks in waiting]
    return replace(first, beside=tuple(beside))


def tries(claim: Claim, shelf: Shelf) -> tuple[list[Try], list[tuple[str, str]]]:
    """The complete tries of a claim, the one that counts first; and of the others the size, and what is missing, in words."""
    complete: list[Try] = []
    waiting: list[tuple[str, str]] = []
    for size in reversed(SIZES[1:]):
        for one in reversed(shelf.tries(claim.experiments, size)):
            lacks = _lacks(claim, one) if one.complete else str(one)
            if lacks:
                waiting.append((size, lacks))
            else:
                complete.append(one)
    return complete, waiting


def breaks(claim: Claim, measured: Mapping[str, pd.DataFrame]) -> str:
    """How repeats of any size break an identity, in words; nothing where it holds, or its names are not all there.

    measured: experiment -> a row a repeat.
    """
    tables = [measured[name] for name in claim.experiments if name in measured]
    if not {*names(claim.compare)} <= {name for table in tables for name in table}:
        return ""
    verdict, why, _ = _each_repeat(claim.compare, tables)
    return why if verdict == NOT_REPRODUCED else ""


def _lacks(claim: Claim, one: Try) -> str:
    """What a complete try does not measure of a claim's names, in words; nothing where all is there."""
    there = {name for table in one.tables for name in table.dropna(axis="columns")}
    missing = [name for name in names(claim.compare, *claim.needs) if name not in there]
    first, more = ", ".join(missing[:3]), f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{first}{more} not measured at {one.entries[0].size}" if missing else ""


def judge_by(claim: Claim, one: Try) -> Judgement:
    """A claim judged by one complete try."""
    own = all(entry.own for entry in one.entries)
    made = Judgement(
        claim,
        one.entries[0].size,
        INCONCLUSIVE,
        "",
        ours=tuple(Figure.of(n, t[n]) for n in names(claim.compare, *claim.needs) for t in one.tables if n in t),
        scope=scope(own, claim.reading),
        stands_for="; ".join(dict.fromkeys(entry.stands_for for entry in one.entries)),
    )
    level = min(entry.level for entry in one.entries)
    figures = {figure.name: figure for figure in made.ours}
    states = []
    for need in claim.needs:
        every = all(name.partition("[")[0] in EVERY_REPEAT for name in names(need))
        verdict, why, _ = _each_repeat(need, one.tables) if every else _means(need, one.tables, level, claim.people)
        state = {REPRODUCED: HOLDS, NOT_REPRODUCED: FAILS}.get(verdict, UNDECIDED)
        states.append(Need(need, state, f"{'; '.join(str(figures[name]) for name in names(need))}: {why}"))
    made = replace(made, needs=tuple(states))
    for state, verdict in ((FAILS, NOT_TESTED), (UNDECIDED, INCONCLUSIVE)):
        if stuck := [need for need in states if need.state == state]:
            return replace(made, verdict=verdict, reason=f"needs {stuck[0].text} {state} ({stuck[0].why})")
    identity = claim.kind == "identity"
    verdict, why, p = (
        _each_repeat(claim.compare, one.tables) if identity else _means(claim.compare, one.tables, level, claim.people)
    )
    if verdict == NOT_REPRODUCED and not own:
        why = f"does not appear in {made.stands_for}: {why}"
    again = f"try {one.number + 1}, judged at {level:g}: " if one.number else ""
    return replace(made, verdict=verdict, reason=f"{again}{why}", p=p)


def _each_repeat(compare: str, tables: Sequence[pd.DataFrame]) -> tuple[str, str, None]:
    """Verdict and reason by every repeat; of several experiments, by every pair of theirs."""
    asked = names(compare)
    used = [mine for table in tables if not (mine := table[[n for n in asked if n in table]]).columns.empty]
    pairs = functools.reduce(lambda one, other: one.merge(other, how="cross"), used)
    holds = each(parse(compare), pairs)
    what = "repeats" if len(used) == 1 else "pairs of repeats"
    if holds.all():
        return REPRODUCED, f"holds in all {holds.size} {what}", None
    return NOT_REPRODUCED, f"fails in {int((~holds).sum())} of {holds.size} {what}", None


def _means(compare: str, tables: Sequence[pd.DataFrame], level: float, people: int) -> tuple[str, str, float | None]:
    """Verdict and reason by Student's t, see `rule`."""
    found = rule.chances(parse(compare), tables, people)
    if found == rule.Chances(1.0, 1.0):
        return INCONCLUSIVE, found.why, None
    if found.holds < level:
        return REPRODUCED, f"p = {found.holds:.2g}", found.holds
    if found.fails < level:
        return NOT_REPRODUCED, f"p = {found.fails:.2g} against it", found.holds
    why = f"the spread covers the difference, p = {found.holds:.2g} for it and {found.fails:.2g} against it"
    return INCONCLUSIVE, why, found.holds
