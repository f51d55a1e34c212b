"""Verdicts from the committed evidence, by the rule of `rule`; book/ledger_guide.md says what they are worth.

A claim is judged by exactly the registered repeats, when all of them are there, of the highest size that is complete: paper, gpu, night,
class. Where more repeats were registered after a look, the latest complete try counts, at the level of its registration. A need that is
refuted makes a claim not tested, one that is undecided inconclusive. Identities, and needs about the accuracy of victims on their training
data, have to hold in every repeat, of several experiments in every pair of theirs; all else is about means.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from privlab.ledger import evidence, papers, rule
from privlab.ledger.comparison import each, names, parse
from privlab.ledger.evidence import SIZES
from privlab.ledger.papers import Claim

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not tested", "measuring")
REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTED, MEASURING = VERDICTS
STATES = {REPRODUCED: "holds", NOT_REPRODUCED: "does not hold", INCONCLUSIVE: "is undecided"}  # of a need
SCOPES = ("the paper's own setting", "the paper's networks, our reading of what it leaves open", "a stand-in")
OWN, READING, STAND_IN = SCOPES
EVERY_REPEAT = {"train_acc", "train_accuracy", "training_accuracy"}  # needs about these hold in every repeat, or fail


class Need(NamedTuple):
    """A need of a claim, whether it "holds", "does not hold" or "is undecided", and by which numbers."""

    text: str
    state: str
    why: str


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict.

    profile: the size that decides, or that is waited for.  ours: what it was judged by.  scope: one of SCOPES, "" where nothing was
    measured.  stands_for: what a reader must know to place the numbers.  p: chance of values as clear as these, were the claim just false;
    None where no mean was tested.  beside: what other sizes and earlier tries say.  needs: empty while measuring.
    """

    claim: Claim
    profile: str
    verdict: str
    reason: str
    ours: Sequence[rule.Figure] = ()
    scope: str = ""
    stands_for: str = ""
    p: float | None = None
    beside: Sequence[str] = ()
    needs: Sequence[Need] = ()

    @property
    def reading(self) -> str:
        """What the paper leaves open, and how it is read here, where the verdict speaks of this reading; else ""."""
        return self.claim.reading if self.scope == READING else ""

    @property
    def exploratory(self) -> bool:
        """Whether the comparison was chosen after a look at the evidence that decides, or that is waited for."""
        looked = self.claim.exploratory
        return bool(looked and self.profile) and SIZES.index(self.profile) <= SIZES.index(looked)


class Try(NamedTuple):
    """Registrations that are judged together, one an experiment.  tables: of each, a row a repeat that is there, a column a name."""

    entries: Sequence[evidence.Registration]
    tables: Sequence[pd.DataFrame]

    def lacks(self, claim: Claim) -> str:
        """What is not there yet that the claim asks for, in words: repeats, or else names."""
        pairs = list(zip(self.entries, self.tables, strict=True))
        if any(len(table) < entry.repeats for entry, table in pairs):
            counts = (f"{len(table)} of {entry.repeats} repeats of {entry.experiment}" for entry, table in pairs)
            return f"{' and '.join(counts)} at {self.entries[0].size}"
        there = {name for table in self.tables for name in table.dropna(axis="columns")}
        missing = [name for name in names(claim.compare, *claim.needs) if name not in there]
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"{', '.join(missing[:3])}{more} not measured at {self.entries[0].size}" if missing else ""


class Shelf:
    """The registrations and lines of a folder of evidence, each file read once.  root: the book's if not given."""

    def __init__(self, root: Path | None = None) -> None:
        self._registered = defaultdict(list)
        for entry in evidence.registrations(root):
            self._registered[entry.experiment, entry.size].append(entry)
        self._table = functools.cache(functools.partial(_table, root))

    def tries(self, experiments: Sequence[str], size: str) -> list[Try]:
        """Of these experiments at one size, the first try first; none where one of them is not registered.

        In the k-th try each experiment has its k-th registration, or its last.
        """
        listed = [self._registered[name, size] for name in experiments]
        count = max(map(len, listed)) if all(listed) else 0
        together = [[every[min(k, len(every) - 1)] for every in listed] for k in range(count)]
        return [Try(entries, [self._table(entry) for entry in entries]) for entries in together]


def _table(root: Path | None, entry: evidence.Registration) -> pd.DataFrame:
    rows = evidence.read(entry.experiment, entry.size, entry.digest, root, entry.range)
    return pd.DataFrame([row.values for row in rows], index=[row.repeat for row in rows])


def scope(own: bool, reading: str) -> str:
    """Of what is registered as the paper's own setting, or is not, for a claim with this reading of it."""
    return STAND_IN if not own else READING if reading else OWN


def judgements(lab: str | None = None, root: Path | None = None) -> list[Judgement]:
    """A verdict for each claim of a lab ("04"), or of all labs.  root: folder of the evidence; the book's if not given."""
    shelf = Shelf(root)
    return [judge(claim, shelf) for claim in papers.claims(lab)]


def judge(claim: Claim, shelf: Shelf | None = None) -> Judgement:
    """A claim's verdict from the evidence."""
    if not claim.experiments:
        return Judgement(claim, "", NOT_TESTED, "nothing in this book can measure it")
    complete, waiting = tries(claim, shelf or Shelf())
    if complete:
        first, *others = (judge_by(claim, one) for one in complete)
        beside = [f"{j.profile}: {j.verdict} ({j.reason})" for j in others] + [f"to come: {why}" for _, why in waiting]
        return replace(first, beside=beside)
    why = "; ".join(why for _, why in waiting) or f"nothing is registered of {' and '.join(claim.experiments)} yet"
    return Judgement(claim, waiting[0][0] if waiting else "", MEASURING, why)


def tries(claim: Claim, shelf: Shelf) -> tuple[list[Try], list[tuple[str, str]]]:
    """The complete tries of a claim, the one that counts first; and of the others the size, and what is missing, in words."""
    every = [one for size in reversed(SIZES[1:]) for one in reversed(shelf.tries(claim.experiments, size))]
    waiting = [(one.entries[0].size, lacks) for one in every if (lacks := one.lacks(claim))]
    return [one for one in every if not one.lacks(claim)], waiting


def judge_by(claim: Claim, one: Try) -> Judgement:
    """A claim judged by one complete try."""
    ours = {n: rule.Figure.of(n, t[n]) for n in names(claim.compare, *claim.needs) for t in one.tables if n in t}
    stands_for = "; ".join(dict.fromkeys(entry.stands_for for entry in one.entries))
    own, attempt = all(entry.own for entry in one.entries), max(entry.attempt for entry in one.entries)
    level = evidence.LEVEL / 2**attempt

    def decided(text: str, every: bool) -> tuple[str, str, float | None]:
        return _every(text, one.tables) if every else _means(text, one.tables, level, claim.people)

    needs = []
    for text in claim.needs:
        verdict, why, _ = decided(text, every=all(name.partition("[")[0] in EVERY_REPEAT for name in names(text)))
        needs.append(Need(text, STATES[verdict], f"{'; '.join(str(ours[name]) for name in names(text))}: {why}"))
    size, where = one.entries[0].size, scope(own, claim.reading)
    made = Judgement(claim, size, INCONCLUSIVE, "", [*ours.values()], where, stands_for, needs=needs)
    refuted, undecided = ([n for n in needs if n.state == STATES[v]] for v in (NOT_REPRODUCED, INCONCLUSIVE))
    for need in refuted or undecided:
        why = f"needs {need.text} {need.state} ({need.why})"
        return replace(made, verdict=NOT_TESTED if refuted else INCONCLUSIVE, reason=why)
    verdict, why, p = decided(claim.compare, every=claim.kind == "identity")
    if verdict == NOT_REPRODUCED and not own:
        why = f"does not appear in {stands_for}: {why}"
    again = f"try {attempt + 1}, judged at {level:g}: " if attempt else ""
    return replace(made, verdict=verdict, reason=f"{again}{why}", p=p)


def breaks(claim: Claim, measured: Mapping[str, pd.DataFrame]) -> str:
    """How repeats of any size break an identity, in words; nothing where it holds, or its names are not all there.

    measured: experiment -> a row a repeat.
    """
    tables = [measured[name] for name in claim.experiments if name in measured]
    if not {*names(claim.compare)} <= {name for table in tables for name in table}:
        return ""
    verdict, why, _ = _every(claim.compare, tables)
    return why if verdict == NOT_REPRODUCED else ""


def _every(compare: str, tables: Sequence[pd.DataFrame]) -> tuple[str, str, None]:
    """Verdict and reason by every repeat; of several experiments, by every pair of theirs."""
    used = [table[mine] for table in tables if (mine := [name for name in names(compare) if name in table])]
    pairs = functools.reduce(lambda one, other: one.merge(other, how="cross"), used)
    holds = each(parse(compare), pairs)
    what = "repeats" if len(used) == 1 else "pairs of repeats"
    if holds.all():
        return REPRODUCED, f"holds in all {holds.size} {what}", None
    return NOT_REPRODUCED, f"fails in {(~holds).sum()} of {holds.size} {what}", None


def _means(compare: str, tables: Sequence[pd.DataFrame], level: float, people: int) -> tuple[str, str, float | None]:
    """Verdict, reason and chance by Student's t, see `rule`."""
    holds, fails, why = rule.chances(parse(compare), tables, people)
    if holds == fails == 1:
        return INCONCLUSIVE, why, None
    if holds < level:
        return REPRODUCED, f"p = {holds:.2g}", holds
    if fails < level:
        return NOT_REPRODUCED, f"p = {fails:.2g} against it", holds
    return INCONCLUSIVE, f"the spread covers the difference, p = {holds:.2g} for it and {fails:.2g} against it", holds
