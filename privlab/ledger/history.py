"""Every verdict that was ever due, in the order in which its last repeat was measured: other sizes, and tries before a further one.

The evidence is only ever appended to, so its history is in it: nothing of a verdict that was replaced is lost.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from privlab.ledger import evidence, judging, papers
from privlab.ledger.report import grid, in_latex

__all__ = ["FORMS", "Line", "lines", "registered", "render"]

FORMS = ("md", "json", "csv", "tex")


@dataclass(frozen=True)
class Line:
    """A verdict.  when: the day on which its last repeat was measured, ISO 8601, UTC."""

    when: str
    claim: str
    size: str
    verdict: str
    scope: str
    why: str


def lines(claims: Iterable[papers.Claim] | None = None, root: Path | None = None) -> list[Line]:
    """The verdicts of all complete tries, the oldest first.

    claims: the package's own if not given.  root: folder of the evidence, the book's if not given.
    """
    shelf, found = judging.Shelf(root), []
    for claim in papers.claims() if claims is None else claims:
        judged, _ = judging.tries(claim, shelf)
        for j in judged:
            day = datetime.fromtimestamp(j.when, UTC).date().isoformat()
            found.append(Line(day, claim.id, j.profile, j.verdict, j.scope, j.reason))
    return sorted(found, key=lambda line: (line.when, line.claim))


def registered(claim: papers.Claim, root: Path | None = None) -> list[tuple[evidence.Registration, int]]:
    """What was registered of a claim's experiments, in its order, and of each how many repeats are there.

    root: folder of the evidence, the book's if not given.
    """
    mine = [entry for entry in evidence.registrations(root) if entry.experiment in claim.experiments]
    rows = [evidence.read(entry.experiment, entry.size, entry.digest, root) for entry in mine]
    return [(entry, len(there.of(entry.first, entry.repeats))) for entry, there in zip(mine, rows, strict=True)]


def render(history: Sequence[Line], form: str = "md") -> str:
    """As a page ("md"), a tabular ("tex"), or a row a verdict ("csv", "json").  Raises ValueError for another form."""
    if form not in FORMS:
        raise ValueError(f"form={form!r}; try one of {', '.join(FORMS)}")
    rows = [[*asdict(line).values()] for line in history]
    head = ["when", "claim", "size", "verdict", "scope", "why"]
    if form == "json":
        return json.dumps([asdict(line) for line in history], indent=1, ensure_ascii=False) + "\n"
    if form == "md":
        return "\n".join(["# History", "", *grid([head, *rows])]) + "\n"
    if form == "tex":
        body = [" & ".join(map(in_latex, row)) + r" \\" for row in [head, *rows]]
        return "\n".join([rf"\begin{{tabular}}{{{'l' * len(head)}}}", *body, r"\end{tabular}"]) + "\n"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()
