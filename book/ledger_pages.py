"""What the book tells of the ledger, from templates: all claims, every table and figure of the papers, and what holds."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import claim_pages
import templates

from privlab.ledger import papers, report
from privlab.ledger.judging import Judgement

RETIRED = Path(__file__).parent / "evidence" / "retired.yaml"
_ONE = r"(?:S\.?)?\d+[a-d]?"
_NAMED = re.compile(rf"\b(Theorem|Algorithm|Table|Figure)s? ({_ONE}(?:(?:, | and |, and ){_ONE})*)")


def pages(judged: Sequence[Judgement], marks: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Name and Markdown of each page below _generated.  marks: of equations.marks."""
    yield "ledger", templates.fill("ledger.md", judged=judged, retired=papers.entries("claims", RETIRED))
    yield "coverage", coverage(places(), judged)
    yield "equations", templates.fill("equations.md", listed=papers.entries("equations"), marks=marks)
    answered = report.headlines(judged)
    yield "holds/index", templates.fill("holds.md", answered=answered, judged=judged)
    figures = {j.claim.id: j for j in judged}
    for one in answered:
        j = figures[one.figure]
        told = templates.fill("question.md", one=one, j=j, charts=claim_pages.charts(j))
        yield f"holds/{one.number:02d}", told


def places() -> list[dict[str, Any]]:
    """Every numbered table, figure, theorem and algorithm of the papers, see coverage.yaml, with its `claims`: the ids of those whose
    `where` names it, or that rest on a number printed in it.
    """
    about: dict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in papers.claims():
        for name in named("; ".join([claim.where, *(number.where for number in claim.numbers)])):
            about[claim.paper, name].append(claim.id)
    listed = papers.entries("coverage")
    return [{"why_not": "", **entry, "claims": about[entry["paper"], entry["place"]]} for entry in listed]


def named(where: str) -> set[str]:
    """The places that a claim's `where`, or a printed number's, names; panels belong to their figure."""
    return {
        f"{kind} {re.sub(r'^S(?=[0-9])', 'S.', number)}"
        for kind, numbers in _NAMED.findall(where)
        for number in re.findall(r"(?:S\.?)?\d+", numbers)
    }


def coverage(places: Sequence[Mapping[str, Any]], judged: Sequence[Judgement]) -> str:
    """A table a paper: the claims about each place with their verdicts, or why nothing of it is tested."""
    ours = [j for j in judged if j.claim.paper != "privlab"]
    listed = {name for place in places for name in place["claims"]}
    alone = [j for j in ours if j.claim.id not in listed]
    return templates.fill("coverage.md", places=places, judged=ours, alone=alone)
