"""Verdicts from the committed evidence, by the rule of `rule`; book/ledger_guide.md says what they are worth.

A claim is judged by exactly the registered repeats, when all of them are there, of the highest size that is complete: paper, gpu, night,
class. Where more repeats were registered after a look, the latest complete try counts, at the level of its registration. A need that is
refuted makes a claim not tested, one that is undecided inconclusive. Identities, and needs about the accuracy of victims on their training
data, have to hold in every repeat of one experiment; all else is about means.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from privlab.ledger import evidence, papers, rule
from privlab.ledger.comparison import names, parse, value
from privlab.ledger.evidence import SIZES
from privlab.ledger.papers import Claim

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not tested", "measuring")
REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTED, MEASURING = VERDICTS
STATES = {REPRODUCED: "holds", NOT_REPRODUCED: "does not hold", INCONCLUSIVE: "is undecided"}  # of a need
SCOPES = ("the paper's own setting", "the paper's networks, our reading of what it leaves open", "a stand-in")
OWN, READING, STAND_IN = SCOPES
EVERY_REPEAT = {"train_acc", "train_accuracy", "training_accuracy"}  # needs about these hold in every repeat, or fail

# Registrations that are judged together, one an experiment, each with a row a repeat that is there, a column a name
Try = Sequence[tuple[evidence.Registration, pd.DataFrame]]
Shelf = Mapping[tuple[str, str], Try]  # (experiment, size) -> what was registered of it, the first try first


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict.

    profile: the size that decides, or that is waited for.  ours: what it was judged by.  scope: one of SCOPES, "" where nothing was
    measured.  stands_for: what a reader must know to place the numbers.  p: chance of values as clear as these, were the claim just false;
    None where no mean was tested.  beside: what other sizes and earlier tries say.  needs: of each whether it "holds", "does not hold" or
    "is undecided", and by which numbers.  tables: the repeats that decide, one an experiment.
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
    needs: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[pd.DataFrame] = field(default=(), repr=False, compare=False)

    @property
    def exploratory(self) -> bool:
        """Whether the comparison was chosen after a look at the evidence that decides, or that is waited for."""
        looked = self.claim.exploratory
        return bool(looked and self.profile) and SIZES.index(self.profile) <= SIZES.index(looked)


def scope(own: bool, reading: str) -> str:
    """Of what is registered as the paper's own setting, or is not, for a claim with this reading of it."""
    return STAND_IN if not own else READING if reading else OWN


def judgements(lab: str | None = None, root: Path | None = None) -> list[Judgement]:
    """A verdict for each claim of a lab ("04"), or of all labs.  root: folder of the evidence; the book's if not given."""
    have = shelf(root)
    return [judge(claim, have) for claim in papers.claims(lab)]


def shelf(root: Path | None = None) -> Shelf:
    """What a folder of evidence has, the book's if not given.  Of names that some repeats lack nothing is kept."""
    found = defaultdict(list)
    for entry in evidence.registrations(root):
        rows = evidence.read(entry.experiment, entry.size, entry.digest, root)
        table = pd.DataFrame([row.values for row in rows if row.repeat in entry.range]).dropna(axis="columns")
        found[entry.experiment, entry.size].append((entry, table))
    return found


def tries(claim: Claim, have: Shelf) -> Iterator[Try]:
    """What a claim is judged by at the sizes that all of its experiments are registered for: the largest first, and its last try."""
    for size in reversed(SIZES[1:]):
        listed = [have.get((name, size), ()) for name in claim.experiments]
        for k in reversed(range(max(map(len, listed)) if all(listed) else 0)):
            yield [every[: k + 1][-1] for every in listed]  # of one with fewer tries its last


def judge(claim: Claim, have: Shelf) -> Judgement:
    """A claim's verdict from the evidence on a shelf: of the first try that is complete, with the others beside it."""
    found = [judge_by(claim, one) for one in tries(claim, have)]
    if not found:
        return Judgement(claim, "", MEASURING, f"nothing is registered of {' and '.join(claim.experiments)} yet")
    said = next((j for j in found if j.verdict != MEASURING), found[0])
    return replace(said, beside=[f"{j.profile}: {j.verdict} ({j.reason})" for j in found if j is not said])


def judge_by(claim: Claim, one: Try) -> Judgement:
    """A claim judged by one try; measuring while repeats of it, or names, are missing."""
    entries, tables = zip(*one, strict=True)
    size, own, attempt = entries[0].size, all(e.own for e in entries), max(e.attempt for e in entries)
    level, asked = evidence.LEVEL / 2**attempt, names(claim.compare, *claim.needs)
    values = {name: table[name].to_numpy() for table in tables for name in asked if name in table}
    short = [f"{len(t)} of {e.repeats} repeats of {e.experiment}" for e, t in one if len(t) < e.repeats]
    if short or values.keys() < {*asked}:
        lacking = ", ".join(name for name in asked if name not in values)
        return Judgement(claim, size, MEASURING, " and ".join(short) or f"{lacking} not measured")

    def decided(text: str, every: bool) -> tuple[str, str, float | None]:
        """Verdict, reason and p-value of a comparison: by every repeat, or by means."""
        if every:
            held = value(text, values)
            return REPRODUCED if held.all() else NOT_REPRODUCED, f"holds in {held.sum()} of {held.size} repeats", None
        holds, fails, why = rule.p_values(parse(text), tables, claim.people)
        if holds == fails == 1:
            return INCONCLUSIVE, why, None
        verdict = REPRODUCED if holds < level else NOT_REPRODUCED if fails < level else INCONCLUSIVE
        return verdict, f"p = {holds:.2g} for it, {fails:.2g} against it", holds

    verdict, why, p = decided(claim.compare, claim.kind == "identity")
    stands_for = "; ".join(dict.fromkeys(entry.stands_for for entry in entries))
    if verdict == NOT_REPRODUCED and not own:
        why = f"does not appear in {stands_for}: {why}"
    if attempt:
        why = f"try {attempt + 1}, judged at {level:g}: {why}"
    ours = {name: rule.Figure.of(name, values[name]) for name in asked}
    needs, unmet = dict[str, str](), dict[str, str]()
    for text in claim.needs:
        found = names(text)
        met, because, _ = decided(text, {name.partition("[")[0] for name in found} <= EVERY_REPEAT)
        needs[text] = f"{STATES[met]} ({'; '.join(str(ours[name]) for name in found)}: {because})"
        unmet.setdefault(met, f"needs {text} {needs[text]}")  # the first that comes out so speaks
    if NOT_REPRODUCED in unmet:
        verdict, p, why = NOT_TESTED, None, unmet[NOT_REPRODUCED]
    elif INCONCLUSIVE in unmet:
        verdict, p, why = INCONCLUSIVE, None, unmet[INCONCLUSIVE]
    about = (scope(own, claim.reading), stands_for, p)
    return Judgement(claim, size, verdict, why, [*ours.values()], *about, needs=needs, tables=tables)
