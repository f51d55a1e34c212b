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
UNMET = {"does not hold": NOT_TESTED, "is undecided": INCONCLUSIVE}  # the first of them speaks
SCOPES = ("the paper's own setting", "the paper's networks, our reading of what it leaves open", "a stand-in")
OWN, READING, STAND_IN = SCOPES
EVERY_REPEAT = {"train_acc", "train_accuracy", "training_accuracy"}  # needs about these hold in every repeat, or fail

# Registrations that are judged together, one an experiment, each with a row a repeat that is there, a column a name
Try = Sequence[tuple[evidence.Registration, pd.DataFrame]]
Shelf = Mapping[tuple[str, str], Try]  # (experiment, size) -> what was registered of it, the first try first


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
    found = [(one, _missing(claim, one)) for one in tries(claim, shelf() if have is None else have)]
    to_come = [why for _, why in found if why]
    if complete := [judge_by(claim, one) for one, why in found if not why]:
        first, *others = complete
        beside = [f"{j.profile}: {j.verdict} ({j.reason})" for j in others] + [f"to come: {why}" for why in to_come]
        return replace(first, beside=beside)
    why = "; ".join(to_come) or f"nothing is registered of {' and '.join(claim.experiments)} yet"
    return Judgement(claim, _size(found[0][0]) if found else "", MEASURING, why)


def tries(claim: Claim, have: Shelf) -> list[Try]:
    """What a claim can be judged by, once it is complete, at the sizes that all of its experiments are registered for: the largest first.

    In the k-th try of a size each experiment has its k-th registration, or its last; the last try stands first.
    """
    found = list[Try]()
    for size in reversed(SIZES[1:]):
        listed = [have.get((name, size), ()) for name in claim.experiments]
        for k in reversed(range(max(map(len, listed)) if all(listed) else 0)):
            found.append([every[min(k, len(every) - 1)] for every in listed])
    return found


def _size(one: Try) -> str:
    return one[0][0].size


def _missing(claim: Claim, one: Try) -> str:
    """What is not there yet that the claim asks of a try, in words: repeats, or else names."""
    if short := [f"{len(t)} of {e.repeats} repeats of {e.experiment}" for e, t in one if len(t) < e.repeats]:
        return f"{' and '.join(short)} at {_size(one)}"
    missing = [n for n in names(claim.compare, *claim.needs) if not any(n in table for _, table in one)]
    return f"{', '.join(missing)} not measured at {_size(one)}" if missing else ""


def judge_by(claim: Claim, one: Try) -> Judgement:
    """A claim judged by one complete try."""
    entries, tables = zip(*one, strict=True)
    values = {name: table[name] for table in tables for name in table}
    ours = {name: rule.Figure.of(name, values[name]) for name in names(claim.compare, *claim.needs)}
    own, attempt = all(entry.own for entry in entries), max(entry.attempt for entry in entries)
    level = evidence.LEVEL / 2**attempt

    def decided(text: str, every: bool) -> tuple[str, str, float | None]:
        """Verdict, reason and p-value of a comparison: by every repeat, or by means, see `rule`."""
        if every:
            held = each(parse(text), values)
            return REPRODUCED if held.all() else NOT_REPRODUCED, f"holds in {held.sum()} of {held.size} repeats", None
        holds, fails, why = rule.p_values(parse(text), tables, claim.people)
        if holds == fails == 1:
            return INCONCLUSIVE, why, None
        verdict = REPRODUCED if holds < level else NOT_REPRODUCED if fails < level else INCONCLUSIVE
        return verdict, f"p = {holds:.2g} for it, {fails:.2g} against it", holds

    needs = []
    for text in claim.needs:
        asked = names(text)
        state, why, _ = decided(text, all(name.partition("[")[0] in EVERY_REPEAT for name in asked))
        needs.append(Need(text, STATES[state], f"{'; '.join(str(ours[name]) for name in asked)}: {why}"))
    verdict, why, p = decided(claim.compare, claim.kind == "identity")
    stands_for = "; ".join(dict.fromkeys(entry.stands_for for entry in entries))
    if verdict == NOT_REPRODUCED and not own:
        why = f"does not appear in {stands_for}: {why}"
    if attempt:
        why = f"try {attempt + 1}, judged at {level:g}: {why}"
    if unmet := [need for state in UNMET for need in needs if need.state == state]:
        verdict, p = UNMET[unmet[0].state], None
        why = f"needs {unmet[0].text} {unmet[0].state} ({unmet[0].why})"
    figures, where = [*ours.values()], scope(own, claim.reading)
    return Judgement(claim, _size(one), verdict, why, figures, where, stands_for, p, (), needs, tables)
