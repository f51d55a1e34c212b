"""The questions that a reader wants answered first, all of which the papers answer with yes, and what the verdicts answer so far.

yes: all claims that are judged are reproduced; no: none is; mixed: some are, some are not; equal: only those are that say that two things
differ by less than a margin; undecided: none of these; measuring: none is judged. A comparison that was chosen after a look at the data
gives no answer, and can take one away; book/ledger_guide.md tells how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from privlab.ledger.comparison import each, names, parse
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
        if mine := [j for j in judgements if j.claim.headline == number]:
            answer, words = _answer(mine)
            found.append(Headline(number, **asked, answer=answer, words=words, judgements=mine))
    return found


def count(judgements: Sequence[Judgement]) -> str:
    """How many of the questions have which answer, in one line."""
    found = Counter(one.answer for one in headlines(judgements))
    return f"of {found.total()} questions: {', '.join(f'{found[word]} {word}' for word in ANSWERS if found[word])}"


def _answer(claims: Sequence[Judgement]) -> tuple[str, str]:
    """One of ANSWERS, and in words, such as "No, in a stand-in (2 not reproduced); open: 1 measuring."."""
    firm, looked = ([j for j in claims if j.exploratory == after] for after in (False, True))
    answer = _said([j for j in firm if j.verdict != MEASURING], [j for j in looked if j.verdict != MEASURING])
    where, left = _counted(firm)
    words = [", ".join(filter(None, [answer.capitalize(), where]))]
    words += [f"open: {left}"] if left and answer != MEASURING else []
    words += [f"chosen after a look: {', '.join(filter(None, _counted(looked)))}"] if looked else []
    return answer, f"{'; '.join(words)}."


def _said(firm: Sequence[Judgement], looked: Sequence[Judgement]) -> str:
    orders = {j.verdict for j in firm if not _of_equality(j.claim)}
    equals = {j.verdict for j in firm if _of_equality(j.claim)}
    if not firm:
        return "undecided" if looked else MEASURING
    if orders and equals == {REPRODUCED} and REPRODUCED not in orders:
        return "equal"
    found, decided = orders or equals, {REPRODUCED, NOT_REPRODUCED}
    if found & decided and decided <= found | {j.verdict for j in looked}:
        return "mixed"
    return "yes" if found == {REPRODUCED} else "no" if found == {NOT_REPRODUCED} else "undecided"


def _counted(claims: Sequence[Judgement]) -> tuple[str, str]:
    """In which scope how many of these are decided, and how many are open, in words."""
    found, every = Counter((j.scope, j.verdict) for j in claims), Counter(j.verdict for j in claims)
    counts = {
        scope: " and ".join(f"{found[scope, v]} {v}" for v in VERDICTS[:2] if found[scope, v]) for scope in SCOPES
    }
    where = " and ".join(f"in {scope} ({count})" for scope, count in counts.items() if count)
    return where, ", ".join(f"{every[v]} {v}" for v in VERDICTS[2:] if every[v])


def _of_equality(claim: Claim) -> bool:
    """Whether it says that two things differ by less than a margin: `abs(difference) < margin`, which holds where all are alike."""
    alike = (dict.fromkeys(names(claim.compare), value) for value in (0.0, 1e3))
    return claim.compare.startswith("abs(") and all(each(parse(claim.compare), values) for values in alike)
