"""Verdicts from the committed evidence, by the rule of `rule`; book/ledger_guide.md says what they are worth.

A claim is judged by exactly the registered repeats, when all of them are there, of the highest size that is complete: paper, gpu, night,
class. Where more repeats were registered after a look, the latest complete try counts, at the level of its registration. A need that is
refuted makes a claim not tested, one that is undecided inconclusive. Identities, and needs about the accuracy of victims on their training
data, name one experiment and have to hold in its every repeat; all else is about means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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

# (experiment, size) -> what was registered of it, the first try first, each with a row a repeat that is there
Shelf = Mapping[tuple[str, str], Sequence[tuple[evidence.Registration, pd.DataFrame]]]


class Try(NamedTuple):
    """Registrations that are judged together, one an experiment.  tables: of each, a row a repeat that is there, a column a name."""

    entries: Sequence[evidence.Registration]
    tables: Sequence[pd.DataFrame]


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
    tables: the repeats that decide, one an experiment.
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
    tables: Sequence[pd.DataFrame] = field(default=(), repr=False, compare=False)

    @property
    def reading(self) -> str:
        """What the paper leaves open, and how it is read here, where the verdict speaks of this reading; else ""."""
        return self.claim.reading if self.scope == READING else ""

    @property
    def exploratory(self) -> bool:
        """Whether the comparison was chosen after a look at the evidence that decides, or that is waited for."""
        looked = self.claim.exploratory
        return bool(looked and self.profile) and SIZES.index(self.profile) <= SIZES.index(looked)


def scope(own: bool, reading: str) -> str:
    """Of what is registered as the paper's own setting, or is not, for a claim with this reading of it."""
    return STAND_IN if not own else READING if reading else OWN


def shelf(root: Path | None = None) -> Shelf:
    """What a folder of evidence has, the book's if not given.  Of names that some repeats lack nothing is kept."""
    found = defaultdict(list)
    for entry in evidence.registrations(root):
        rows = evidence.read(entry.experiment, entry.size, entry.digest, root, entry.range)
        table = pd.DataFrame([row.values for row in rows]).dropna(axis="columns")
        found[entry.experiment, entry.size].append((entry, table))
    return found


def judgements(lab: str | None = None, root: Path | None = None) -> list[Judgement]:
    """A verdict for each claim of a lab ("04"), or of all labs.  root: folder of the evidence; the book's if not given."""
    have = shelf(root)
    return [judge(claim, have) for claim in papers.claims(lab)]


def judge(claim: Claim, have: Shelf | None = None) -> Judgement:
    """A claim's verdict from the evidence.  have: a `shelf`; the book's if not given."""
    complete, waiting = [], []
    for one in tries(claim, shelf() if have is None else have):
        if lacking := _lacking(claim, one):
            waiting.append((one.entries[0].size, lacking))
        else:
            complete.append(judge_by(claim, one))
    if complete:
        first, *others = complete
        beside = [f"{j.profile}: {j.verdict} ({j.reason})" for j in others] + [f"to come: {why}" for _, why in waiting]
        return replace(first, beside=beside)
    why = "; ".join(why for _, why in waiting) or f"nothing is registered of {' and '.join(claim.experiments)} yet"
    return Judgement(claim, waiting[0][0] if waiting else "", MEASURING, why)


def tries(claim: Claim, have: Shelf) -> list[Try]:
    """What a claim can be judged by, once it is complete, at the sizes that all of its experiments are registered for: the largest first.

    In the k-th try of a size each experiment has its k-th registration, or its last; the last try stands first.
    """
    found = []
    for size in reversed(SIZES[1:]):
        listed = [have.get((name, size), ()) for name in claim.experiments]
        for k in reversed(range(max(map(len, listed)) if all(listed) else 0)):
            found.append(Try(*zip(*(every[min(k, len(every) - 1)] for every in listed), strict=True)))
    return found


def _lacking(claim: Claim, one: Try) -> str:
    """What is not there yet that the claim asks of a try, in words: repeats, or else names."""
    size, pairs = one.entries[0].size, [*zip(one.entries, one.tables, strict=True)]
    if any(len(table) < entry.repeats for entry, table in pairs):
        counts = (f"{len(table)} of {entry.repeats} repeats of {entry.experiment}" for entry, table in pairs)
        return f"{' and '.join(counts)} at {size}"
    missing = [n for n in names(claim.compare, *claim.needs) if not any(n in table for table in one.tables)]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{', '.join(missing[:3])}{more} not measured at {size}" if missing else ""


def judge_by(claim: Claim, one: Try) -> Judgement:
    """A claim judged by one complete try."""
    ours = {n: rule.Figure.of(n, t[n]) for n in names(claim.compare, *claim.needs) for t in one.tables if n in t}
    stands_for = "; ".join(dict.fromkeys(entry.stands_for for entry in one.entries))
    own, attempt = all(entry.own for entry in one.entries), max(entry.attempt for entry in one.entries)
    level, needs = evidence.LEVEL / 2**attempt, list[Need]()
    for text in claim.needs:
        of_training = all(name.partition("[")[0] in EVERY_REPEAT for name in names(text))
        state, why, _ = _decided(text, one.tables, of_training, level, claim.people)
        needs.append(Need(text, STATES[state], f"{'; '.join(str(ours[name]) for name in names(text))}: {why}"))
    verdict, why, p = _decided(claim.compare, one.tables, claim.kind == "identity", level, claim.people)
    if verdict == NOT_REPRODUCED and not own:
        why = f"does not appear in {stands_for}: {why}"
    if attempt:
        why = f"try {attempt + 1}, judged at {level:g}: {why}"
    if unmet := sorted((n for n in needs if n.state != "holds"), key=lambda n: n.state):  # "does not hold" first
        need, p = unmet[0], None
        verdict = INCONCLUSIVE if need.state == STATES[INCONCLUSIVE] else NOT_TESTED
        why = f"needs {need.text} {need.state} ({need.why})"
    where = scope(own, claim.reading)
    size = one.entries[0].size
    return Judgement(claim, size, verdict, why, [*ours.values()], where, stands_for, p, (), needs, one.tables)


def _decided(
    text: str, tables: Sequence[pd.DataFrame], every: bool, level: float = evidence.LEVEL, people: int = 0
) -> tuple[str, str, float | None]:
    """Verdict, reason and chance of a comparison: by every repeat, or by means, see `rule`."""
    if every:
        held = each(parse(text), {name: table[name] for table in tables for name in table})
        if held.all():
            return REPRODUCED, f"holds in all {held.size} repeats", None
        return NOT_REPRODUCED, f"fails in {(~held).sum()} of {held.size} repeats", None
    holds, fails, why = rule.chances(parse(text), tables, people)
    if holds == fails == 1:
        return INCONCLUSIVE, why, None
    if holds < level:
        return REPRODUCED, f"p = {holds:.2g}", holds
    if fails < level:
        return NOT_REPRODUCED, f"p = {fails:.2g} against it", holds
    return INCONCLUSIVE, f"the spread covers the difference, p = {holds:.2g} for it and {fails:.2g} against it", holds
