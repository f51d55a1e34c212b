"""The questions that a reader wants answered first, and what the verdicts of their claims answer so far; the counts as one sentence.

The papers answer each question with yes. So a claim that reproduced speaks for yes, one that did not for no, and only in its scope: a
stand-in never answers for the paper's own size. Claims whose comparison was chosen after a look at the data answer nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from privlab.ledger.judging import (
    INCONCLUSIVE,
    MEASURING,
    NOT_REPRODUCED,
    NOT_TESTED,
    OWN,
    REPRODUCED,
    STAND_IN,
    Judgement,
)
from privlab.ledger.papers import PAPERS

__all__ = ["Question", "answer", "questions", "sentence"]


@dataclass(frozen=True)
class Question:
    """One of the questions, which the claims with this number as their `headline` answer."""

    number: int
    paper: str
    asks: str


def questions(path: Path | None = None) -> list[Question]:
    """The questions in their order.

    path: another list in the same format; the package's own if not given.
    Raises ValueError for an entry that names no paper or asks nothing, with its number.
    """
    file = path or Path(__file__).parent / "papers" / "headlines.yaml"
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))["headlines"]
    for number, entry in entries.items():
        if entry.get("paper") not in PAPERS:
            raise ValueError(f"headline {number}: paper={entry.get('paper')!r}; try one of {', '.join(PAPERS)}")
        if not str(entry.get("asks") or "").endswith("?"):
            raise ValueError(
                f"headline {number}: asks={entry.get('asks')!r} is no question; give a sentence that ends in ?"
            )
    return [Question(number, entry["paper"], entry["asks"]) for number, entry in sorted(entries.items())]


def answer(claims: Sequence[Judgement]) -> str:
    """What these verdicts answer, in words: first the paper's own setting, then stand-ins, then what is open."""
    asked = [j for j in claims if not j.claim.exploratory]
    if not asked:
        return "No claim asks this yet."
    found = Counter((j.scope, j.verdict) for j in asked)
    said = []
    for scope, where in ((OWN, "in the paper's own setting"), (STAND_IN, "in stand-ins")):
        yes, no = found[scope, REPRODUCED], found[scope, NOT_REPRODUCED]
        if yes or no:
            word = f"In part ({yes} yes, {no} no)" if yes and no else f"Yes ({yes})" if yes else f"No ({no})"
            said.append(f"{word}, {where}.")
    open_ = Counter(j.verdict for j in asked)
    left = [f"{open_[verdict]} {verdict}" for verdict in (INCONCLUSIVE, NOT_TESTED, MEASURING) if open_[verdict]]
    if not said and open_[MEASURING] == len(asked):
        return f"Not measured yet ({len(asked)})."
    return " ".join([*(said or ["Undecided."]), *([f"Open: {', '.join(left)}."] if left else [])])


def sentence(judgements: Iterable[Judgement]) -> str:
    """How many of the four papers' claims have which verdict, in one sentence; the scopes apart."""
    asked = [j for j in judgements if j.claim.paper != "privlab"]
    late = sum(j.claim.exploratory for j in asked)
    found = Counter((j.scope, j.verdict) for j in asked if not j.claim.exploratory)
    every = Counter(j.verdict for j in asked if not j.claim.exploratory)
    own, stand_in = ([found[scope, verdict] for verdict in (REPRODUCED, NOT_REPRODUCED)] for scope in (OWN, STAND_IN))
    return (
        f"Of the {len(asked) - late} claims of the four papers, {own[0]} reproduced and {own[1]} did not in the paper's own setting; "
        f"in stand-ins, which speak of their own size alone, {stand_in[0]} appear and {stand_in[1]} do not; "
        f"{every[INCONCLUSIVE]} are inconclusive, {every[NOT_TESTED]} not tested, {every[MEASURING]} not measured yet."
    ) + (f" {late} more were chosen after a look at the data." if late else "")
