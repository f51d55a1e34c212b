"""The questions that a reader wants answered first, and what the verdicts of their claims answer so far.

The papers answer each question with yes. So a claim that reproduced speaks for yes, one that did not for no, and only in its scope: a
stand-in never answers for the paper's own size. Of the claims that are judged,

    yes          all are reproduced
    no           all are not reproduced
    mixed        some are reproduced, some are not
    equal        none is reproduced but those that say that two things differ by less than a margin, and these all are
    undecided    none of these: a claim is inconclusive, or not tested since a need of it fails
    measuring    no claim is judged yet

A claim whose comparison was chosen after a look at the data gives no answer. It can take one away: a question that only such claims ask is
undecided, and one of which they show the other half, beside claims that decide it, is mixed. They are counted apart in the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from privlab.ledger.comparison import each, names, parse
from privlab.ledger.judging import (
    INCONCLUSIVE,
    MEASURING,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    SCOPES,
    Judgement,
)
from privlab.ledger.papers import Claim, entries

__all__ = ["ANSWERS", "Headline", "Question", "answer", "count", "headlines", "questions"]

YES, NO, MIXED, EQUAL, UNDECIDED = "yes", "no", "mixed", "equal", "undecided"
ANSWERS = (YES, NO, MIXED, EQUAL, UNDECIDED, MEASURING)


@dataclass(frozen=True)
class Question:
    """One of the questions, which the claims with this number as their `headline` answer.

    about: what the book says beside the answer, a paragraph that is true whatever it is.  figure: id of the claim whose repeats are drawn.
    """

    number: int
    asks: str
    figure: str
    about: str

    @property
    def paper(self) -> str:
        return self.figure.partition(".")[0]


@dataclass(frozen=True)
class Headline:
    """A question with its answer.

    answer: one of ANSWERS.  words: the answer with its scope and how many claims have which verdict, a sentence.
    judgements: of the claims that answer it, in the order of claims.yaml.
    """

    question: Question
    answer: str
    words: str
    judgements: tuple[Judgement, ...]


def questions() -> list[Question]:
    """The questions in their order."""
    return [Question(number, **entry) for number, entry in sorted(entries("headlines").items())]


def headlines(judgements: Iterable[Judgement]) -> list[Headline]:
    """The questions that these verdicts answer, each with its answer; all of them where all claims were judged."""
    judged = list(judgements)
    mine = {q: tuple(j for j in judged if j.claim.headline == q.number) for q in questions()}
    return [Headline(q, _answer(claims), answer(claims), claims) for q, claims in mine.items() if claims]


def count(judgements: Iterable[Judgement]) -> str:
    """How many of the questions have which answer, in one line."""
    found = Counter(h.answer for h in headlines(judgements))
    return f"of {found.total()} questions: {', '.join(f'{n} {word}' for word in ANSWERS if (n := found[word]))}"


def answer(claims: Sequence[Judgement]) -> str:
    """What these verdicts answer, as a sentence: such as "No, in a stand-in (2 not reproduced); open: 1 measuring."."""
    if not claims:
        return "No claim asks this yet."
    said, looked = _answer(claims), [j for j in claims if j.exploratory]
    where, left = _counted([j for j in claims if not j.exploratory])
    words = [", ".join(filter(None, [said.capitalize(), where]))]
    words += [f"open: {left}"] if left and said != MEASURING else []
    words += [f"chosen after a look: {', '.join(filter(None, _counted(looked)))}"] if looked else []
    return f"{'; '.join(words)}."


def _counted(claims: Sequence[Judgement]) -> tuple[str, str]:
    """In which scope how many of these are decided, and how many are open, in words."""
    found, every = Counter((j.scope, j.verdict) for j in claims), Counter(j.verdict for j in claims)
    decided = (REPRODUCED, NOT_REPRODUCED)
    counts = {scope: " and ".join(f"{found[scope, v]} {v}" for v in decided if found[scope, v]) for scope in SCOPES}
    where = " and ".join(f"in {scope} ({count})" for scope, count in counts.items() if count)
    return where, ", ".join(f"{every[v]} {v}" for v in (INCONCLUSIVE, NOT_TESTED, MEASURING) if every[v])


def _answer(claims: Sequence[Judgement]) -> str:
    judged = [j for j in claims if j.verdict != MEASURING]
    firm = [j for j in judged if not j.exploratory]
    orders = [j.verdict for j in firm if not _of_equality(j.claim)]
    equals = [j.verdict for j in firm if _of_equality(j.claim)]
    if not firm:
        return UNDECIDED if judged else MEASURING
    if orders and equals and set(equals) == {REPRODUCED} and REPRODUCED not in orders:
        return EQUAL
    every, decided = set(orders or equals), {REPRODUCED, NOT_REPRODUCED}
    if every & decided and decided <= every | {j.verdict for j in judged if j.exploratory}:
        return MIXED
    return {frozenset({REPRODUCED}): YES, frozenset({NOT_REPRODUCED}): NO}.get(frozenset(every), UNDECIDED)


def _of_equality(claim: Claim) -> bool:
    """Whether it says that two things differ by less than a margin: `abs(difference) < margin`, which holds where all are alike."""
    compare = parse(claim.compare)
    alike = (dict.fromkeys(names(claim.compare), value) for value in (0.0, 1e3))
    return claim.compare.startswith("abs(") and all(bool(each(compare, values)) for values in alike)
