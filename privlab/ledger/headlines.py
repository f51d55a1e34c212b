"""The questions that a reader wants answered first, all of which the papers answer with yes, and what the verdicts answer so far.

yes: all claims that are judged are reproduced; no: none is; mixed: some are, some are not; equal: only those are that say that two things
differ by less than a margin; undecided: none of these; measuring: none is judged. A comparison that was chosen after a look at the data
gives no answer, and can take one away; book/ledger_guide.md tells how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from privlab.ledger.comparison import names, value
from privlab.ledger.judging import MEASURING, NOT_REPRODUCED, REPRODUCED, SCOPES, VERDICTS, Judgement
from privlab.ledger.papers import Claim, entries

ANSWERS = ("yes", "no", "mixed", "equal", "undecided", MEASURING)


class Headline(NamedTuple):
    """A question with its answer, one of ANSWERS; words: with its scope, and how many of its claims have which verdict.

    about: what the book says beside it, true whatever the answer is.  figure: id of the claim whose repeats are drawn.
    """

    number: int
    asks: str
    figure: str
    about: str
    answer: str
    words: str
    judgements: Sequence[Judgement]


def headlines(judgements: Sequence[Judgement]) -> list[Headline]:
    """The questions that these verdicts answer, in their order; all of them where all claims were judged."""
    found = []
    for number, asked in sorted(entries("headlines").items()):
        mine = [j for j in judgements if j.claim.headline == number]
        firm, looked = ([j for j in mine if j.exploratory == after] for after in (False, True))
        answer = _answer(firm, looked)
        words = answer.capitalize() + (f": {_counts(firm)}" if firm else "")
        words += f"; chosen after a look: {_counts(looked)}." if looked else "."
        found += [Headline(number, **asked, answer=answer, words=words, judgements=mine)] if mine else []
    return found


def count(judgements: Sequence[Judgement]) -> str:
    """How many of the questions have which answer, in one line."""
    found = Counter(one.answer for one in headlines(judgements))
    return f"of {found.total()} questions: {', '.join(f'{found[word]} {word}' for word in ANSWERS if found[word])}"


def _answer(firm: Sequence[Judgement], looked: Sequence[Judgement]) -> str:
    orders, equals, after = (
        {j.verdict for j in some} - {MEASURING}
        for some in ([j for j in firm if not _alike(j.claim)], [j for j in firm if _alike(j.claim)], looked)
    )
    if orders and equals == {REPRODUCED} and REPRODUCED not in orders:
        return "equal"
    found, decided = orders or equals, {REPRODUCED, NOT_REPRODUCED}
    if found & decided and decided <= found | after:
        return "mixed"
    if found | after == set():
        return MEASURING
    return {(REPRODUCED,): "yes", (NOT_REPRODUCED,): "no"}.get((*found,), "undecided")


def _alike(claim: Claim) -> bool:
    """Whether it says that two things differ by less than a margin: `abs(difference) < margin`, which holds where all are alike."""
    same = (dict.fromkeys(names(claim.compare), each) for each in (0.0, 1e3))
    return claim.compare.startswith("abs(") and all(value(claim.compare, values) for values in same)


def _counts(claims: Sequence[Judgement]) -> str:
    found = Counter((j.verdict, f" ({j.scope})" if j.scope else "") for j in claims)
    order = product(VERDICTS, [*(f" ({scope})" for scope in SCOPES), ""])
    return ", ".join(f"{found[kind]} {''.join(kind)}" for kind in order if found[kind])
