"""Verdicts from the committed evidence, by the rule of `rule`.

A claim is judged by exactly the registered repeats, when all of them are there, of the highest size that is complete: paper, gpu, night,
class. `smoke` proves that the code runs, and judges nothing. Where more repeats were registered after a look, the latest complete try
counts, at the level of its registration; earlier tries and other sizes stand beside the verdict.

    reproduced, not reproduced    the comparison, or its opposite, is shown by the repeats
    inconclusive                  neither is, or a need of the claim is undecided
    not tested                    a need is refuted: what would be compared is not there; or the claim has no experiment
    measuring                     registered repeats are missing, or nothing is registered yet

Of the needs, one about the accuracy of victims on their training data holds in every repeat, or fails. An identity must hold in every
repeat too. All else is about means. The ledger knows of an experiment only what stands in its registration and its lines.

A registration says whether a size is the paper's own setting. Where the paper leaves something open that may matter, the claim says how it
is read here (`reading`), and such a verdict is one of that reading: a scope of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from privlab.ledger import evidence, papers, rule
from privlab.ledger.evidence import SIZES, Registration, Repeat
from privlab.ledger.figures import EXACT_ERROR, IN_LOGS, IN_PERCENT, Figure, exact
from privlab.ledger.grammar import Comparison, parse
from privlab.ledger.papers import Claim

__all__ = [
    "EVERY_REPEAT",
    "SCOPES",
    "VERDICTS",
    "Judgement",
    "Need",
    "Shelf",
    "judge",
    "judgements",
    "repeats",
    "scope",
]

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive"
NOT_TESTED, MEASURING = "not tested", "measuring"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTED, MEASURING)
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "is undecided"  # of a need
OWN, READING, STAND_IN = SCOPES = (
    "the paper's own setting", "the paper's networks, our reading of what it leaves open", "a stand-in"
)  # fmt: skip
EVERY_REPEAT = frozenset(
    {"train_acc", "train_accuracy", "training_accuracy"}
)  # needs about these hold in every repeat or fail


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
    None where no mean was tested.  beside: what other sizes and earlier tries say.  when: its last repeat was measured, seconds since 1970,
    UTC.  needs: of the claim, each with its state; empty while measuring.
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
    when: float = 0.0
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
class _Try:
    """Registrations that are judged together, one an experiment, and the repeats that are there of each."""

    entries: tuple[Registration, ...]
    rows: tuple[tuple[Repeat, ...], ...]
    number: int

    @property
    def complete(self) -> bool:
        return all(len(rows) == entry.repeats for entry, rows in zip(self.entries, self.rows, strict=True))

    @property
    def level(self) -> float:
        return min(entry.level for entry in self.entries)

    def __str__(self) -> str:
        counts = " and ".join(
            f"{len(rows)} of {entry.repeats} repeats of {entry.experiment}"
            for entry, rows in zip(self.entries, self.rows, strict=True)
        )
        return f"{counts} at {self.entries[0].size}"


class Shelf:
    """The registrations and lines of a folder of evidence, each file read once.  root: the book's if not given."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root
        self._registered: dict[tuple[str, str], list[Registration]] = {}
        for entry in evidence.registrations(root):
            self._registered.setdefault((entry.experiment, entry.size), []).append(entry)
        self._rows: dict[Registration, tuple[Repeat, ...]] = {}

    def tries(self, experiments: Sequence[str], size: str) -> list[_Try]:
        """Of these experiments at one size, the first try first; none where one of them is not registered.

        In the k-th try each experiment has its k-th registration, or its last.
        """
        listed = [self._registered.get((name, size), []) for name in experiments]
        if not listed or not all(listed):
            return []
        tries = [tuple(every[min(k, len(every) - 1)] for every in listed) for k in range(max(map(len, listed)))]
        return [_Try(entries, tuple(map(self._of, entries)), k) for k, entries in enumerate(tries)]

    def _of(self, entry: Registration) -> tuple[Repeat, ...]:
        if entry not in self._rows:
            rows = evidence.read(entry.experiment, entry.size, entry.digest, self.root)
            self._rows[entry] = rows.of(entry.first, entry.repeats)
        return self._rows[entry]


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
    """A claim's verdict from the evidence.

    Raises ValueError for a comparison outside of the grammar, and for a name that two of the claim's experiments measure.
    """
    if not claim.experiments:
        return Judgement(claim, "", NOT_TESTED, "nothing in this book can measure it")
    judged, waiting = tries(claim, shelf or Shelf())
    if not judged:
        why = (
            "; ".join(lacks for _, lacks in waiting)
            or f"nothing is registered of {' and '.join(claim.experiments)} yet"
        )
        return Judgement(claim, waiting[0][0] if waiting else "", MEASURING, why)
    first, *others = judged
    beside = [f"{j.profile}: {j.verdict} ({j.reason})" for j in others] + [f"to come: {lacks}" for _, lacks in waiting]
    return replace(first, beside=tuple(beside))


def tries(claim: Claim, shelf: Shelf) -> tuple[list[Judgement], list[tuple[str, str]]]:
    """What every complete try says, the one that counts first; and of the others the size, and what is missing, in words."""
    judged: list[Judgement] = []
    waiting: list[tuple[str, str]] = []
    for size in reversed(evidence.SIZES[1:]):
        for one in reversed(shelf.tries(claim.experiments, size)):
            lacks = _lacks(claim, one) if one.complete else str(one)
            if lacks:
                waiting.append((size, lacks))
            else:
                judged.append(_judged(claim, one))
    return judged, waiting


def repeats(claim: Claim, size: str, shelf: Shelf) -> dict[str, rule.Sample]:
    """What is measured of a claim's names at one size, comparison first: what its verdict rests on, or as many repeats as are there yet."""
    tries = shelf.tries(claim.experiments, size) if size else []
    one = next((t for t in reversed(tries) if t.complete and not _lacks(claim, t)), tries[-1] if tries else None)
    if not one:
        return {}
    every = {name for rows in one.rows for row in rows for name in row.values}
    names = dict.fromkeys(n for comparison in _comparisons(claim) for n in comparison.names if n in every)
    return _samples(claim, one, list(names))[0]


def breaks(claim: Claim, measured: Mapping[str, Sequence[Repeat]]) -> str:
    """How repeats of any size break an identity, in words; nothing where it holds, or its names are not all there.

    measured: experiment -> its repeats.
    """
    compare = parse(claim.compare, claim.id)
    samples = {}
    for experiment in claim.experiments:
        for name in compare.names:
            rows = [row.values[name] for row in measured.get(experiment, ()) if name in row.values]
            if rows:
                samples[name] = rule.Sample(np.array(rows), experiment)
    if samples.keys() < set(compare.names):
        return ""
    verdict, why, _ = _each_repeat(compare, samples)
    return why if verdict == NOT_REPRODUCED else ""


def _comparisons(claim: Claim) -> list[Comparison]:
    return [parse(text, claim.id) for text in (claim.compare, *claim.needs)]


def _lacks(claim: Claim, one: _Try) -> str:
    """What a complete try does not measure of a claim's names, in words; nothing where all is there."""
    every = {name for rows in one.rows for row in rows for name in row.values}
    missing = dict.fromkeys(n for comparison in _comparisons(claim) for n in comparison.names if n not in every)
    near = difflib.get_close_matches(next(iter(missing)), every, n=1) if missing else []
    hint = f"; there is {near[0]}" if near else ""
    first, more = ", ".join([*missing][:3]), f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{first}{more} not measured at {one.entries[0].size}{hint}" if missing else ""


def _samples(claim: Claim, one: _Try, names: Sequence[str]) -> tuple[dict[str, rule.Sample], list[str]]:
    """The repeats of each name, and the names that some repeats lack."""
    samples, short = {}, []
    for name in names:
        owners = [
            (entry, rows)
            for entry, rows in zip(one.entries, one.rows, strict=True)
            if any(name in row.values for row in rows)
        ]
        if len(owners) > 1:
            both = " and ".join(entry.experiment for entry, _ in owners)
            raise ValueError(
                f"claim {claim.id}: {name} is measured by {both}; of a claim's experiments one measures a name "
                f"({papers.page(claim.id)} in the book)"
            )
        ((entry, rows),) = owners
        values = np.array([row.values[name] for row in rows if name in row.values])
        if len(values) < len(rows):
            short.append(f"{name} is measured in {len(values)} of {len(rows)} repeats")
        metric = name.partition("[")[0]
        people = claim.people if metric in IN_PERCENT else 0
        samples[name] = rule.Sample(
            values, entry.experiment, metric in IN_LOGS, all(exact(name, v) for v in values), people
        )
    return samples, short


def _judged(claim: Claim, one: _Try) -> Judgement:
    """A claim judged by one complete try."""
    compare, *needs = _comparisons(claim)
    names = list(dict.fromkeys(n for comparison in (compare, *needs) for n in comparison.names))
    samples, short = _samples(claim, one, names)
    own = all(entry.own for entry in one.entries)
    made = Judgement(
        claim,
        one.entries[0].size,
        INCONCLUSIVE,
        "; ".join(short),
        ours=tuple(Figure.of(name, sample.values.tolist()) for name, sample in samples.items()),
        scope=scope(own, claim.reading),
        stands_for="; ".join(dict.fromkeys(entry.stands_for for entry in one.entries)),
        when=max(row.when for rows in one.rows for row in rows),
    )
    if short:
        return made
    made = replace(made, needs=tuple(_need(need, samples, one.level) for need in needs))
    for state, verdict in ((FAILS, NOT_TESTED), (UNDECIDED, INCONCLUSIVE)):
        if stuck := [f"{need.text} {state} ({need.why})" for need in made.needs if need.state == state]:
            return replace(made, verdict=verdict, reason=f"needs {stuck[0]}")
    identity = claim.kind == "identity"
    verdict, why, p = _each_repeat(compare, samples) if identity else _means(compare, samples, one.level)
    if verdict == NOT_REPRODUCED and not own:
        why = f"does not appear in {made.stands_for}: {why}"
    again = f"try {one.number + 1}, judged at {one.level:g}: " if one.number else ""
    return replace(made, verdict=verdict, reason=f"{again}{why}", p=p)


def _need(need: Comparison, samples: Mapping[str, rule.Sample], level: float) -> Need:
    every = all(name.partition("[")[0] in EVERY_REPEAT for name in need.names)
    verdict, why, _ = _each_repeat(need, samples) if every else _means(need, samples, level)
    figures = "; ".join(str(Figure.of(name, samples[name].values.tolist())) for name in need.names)
    return Need(need.text, {REPRODUCED: HOLDS, NOT_REPRODUCED: FAILS}.get(verdict, UNDECIDED), f"{figures}: {why}")


def _each_repeat(comparison: Comparison, samples: Mapping[str, rule.Sample]) -> tuple[str, str, None]:
    """Verdict and reason by every repeat; of several experiments, by every pair of theirs."""
    used = {name: samples[name] for name in comparison.names}
    experiments = list(dict.fromkeys(sample.experiment for sample in used.values()))
    axes = {name: (-1, *[1] * (len(experiments) - 1 - experiments.index(s.experiment))) for name, s in used.items()}
    holds = np.asarray(comparison({name: sample.values.reshape(axes[name]) for name, sample in used.items()}))
    what = "repeats" if len(experiments) == 1 else "pairs of repeats"
    if holds.all():
        return REPRODUCED, f"holds in all {holds.size} {what}", None
    return NOT_REPRODUCED, f"fails in {int((~holds).sum())} of {holds.size} {what}", None


def _means(comparison: Comparison, samples: Mapping[str, rule.Sample], level: float) -> tuple[str, str, float | None]:
    """Verdict and reason by Student's t, see `rule`."""
    used = {
        name: replace(sample, values=sample.values.clip(EXACT_ERROR) if sample.logs else sample.values)
        for name, sample in ((name, samples[name]) for name in comparison.names)
    }
    chances = rule.chances(comparison.tree, used)
    if chances == rule.OPEN:
        return INCONCLUSIVE, chances.why, None
    if chances.holds < level:
        return REPRODUCED, f"p = {chances.holds:.2g}", chances.holds
    if chances.fails < level:
        return NOT_REPRODUCED, f"p = {chances.fails:.2g} against it", chances.holds
    return (
        INCONCLUSIVE,
        f"the spread covers the difference, p = {chances.holds:.2g} for it and {chances.fails:.2g} against it",
        chances.holds,
    )
