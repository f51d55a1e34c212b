"""What the book tells of the ledger, from templates: all claims, every table and figure of the papers, and what holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import claim_pages
import templates

from privlab.ledger import headlines, papers
from privlab.ledger.judging import Judgement, Shelf
from privlab.ledger.papers import Place

RETIRED = Path(__file__).parent / "evidence" / "retired.yaml"


def pages(judged: Sequence[Judgement]) -> Iterator[tuple[str, str]]:
    """Name and Markdown of each page below _generated."""
    yield "ledger", templates.fill("ledger.md", judged=judged, retired=papers.entries("claims", RETIRED))
    yield "coverage", coverage(papers.places(), judged)
    answered, shelf = headlines.headlines(judged), Shelf()
    yield "holds/index", templates.fill("holds.md", answered=answered, judged=judged)
    figures = {j.claim.id: j for j in judged}
    for one in answered:
        j = figures[one.question.figure]
        told = templates.fill("question.md", one=one, j=j, charts=claim_pages.charts(j, shelf))
        yield f"holds/{one.question.number:02d}", told


def coverage(places: Sequence[Place], judged: Sequence[Judgement]) -> str:
    """A table a paper: the claims about each place with their verdicts, or why nothing of it is tested."""
    ours = [j for j in judged if j.claim.paper != "privlab"]
    listed = {name for place in places for name in place.claims}
    alone = [j for j in ours if j.claim.id not in listed]
    return templates.fill("coverage.md", places=places, judged=ours, alone=alone)
