"""Verdicts as a page, or as a table for a spreadsheet; their counts; and what moved since other evidence.

Every function here takes judgements and returns text, or rows of it. No page says "not reproduced" without the scope beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from privlab.ledger import headlines
from privlab.ledger.evidence import LEVEL
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, SCOPES, VERDICTS, Judgement
from privlab.ledger.papers import PAPERS, Claim

__all__ = [
    "EDGES",
    "FORMS",
    "ICONS",
    "changes",
    "counts",
    "grid",
    "holm",
    "in_markdown",
    "ours",
    "printed",
]
__all__ += ["reasons", "render", "verdict"]

FORMS = ("md", "csv")
EXPLORATORY = "chosen after a look"

# Okabe and Ito's colours, told apart by colour-blind readers. They only edge what says the verdict in words.
EDGES = dict.fromkeys(VERDICTS, "#999999") | {
    REPRODUCED: "#0072B2",
    NOT_REPRODUCED: "#D55E00",
    INCONCLUSIVE: "#E69F00",
}
ICONS = dict(zip(VERDICTS, "✓✗?○…", strict=True))  # beside the word, never in its place


# -- counted -------------------------------------------------------------------------------------------------------------


def counts(judgements: Iterable[Judgement]) -> list[list[str]]:
    """A head and a row for each paper and scope: how many claims have each verdict.

    What was chosen after a look at the data has rows of its own at the end; what is measured still has no scope yet.
    """
    found = Counter((EXPLORATORY if j.exploratory else j.claim.paper, j.scope, j.verdict) for j in judgements)
    rows = [["paper", "scope", *VERDICTS]]
    for paper in (*PAPERS, EXPLORATORY):
        for scope in (*SCOPES, ""):
            numbers = [found[paper, scope, verdict] for verdict in VERDICTS]
            if any(numbers):
                rows.append([paper, scope or "-", *(str(n or "-") for n in numbers)])
    return rows


def holm(judgements: Iterable[Judgement]) -> tuple[int, int, int]:
    """(tested, reproduced, certain): claims about means, those of them that reproduced, and those that still do if all are asked together.

    Holm's correction of the p-values of Student's t, at 0.05 for all tests together (Holm 1979), without what was chosen after a look.
    """
    tested = [j for j in judgements if j.p is not None and not j.exploratory]
    passed = 0
    for left, j in zip(range(len(tested), 0, -1), sorted(tested, key=lambda j: j.p or 0.0), strict=True):
        if (j.p or 0.0) > LEVEL / left:
            break
        passed += 1
    return len(tested), sum(j.verdict == REPRODUCED for j in tested), passed


def changes(now: Iterable[Judgement], before: Iterable[Judgement]) -> list[list[str]]:
    """A head and a row for each claim whose verdict is another, the worse first; worse: no longer reproduced, or newly not reproduced."""
    here, rows = {j.claim.id: j for j in now}, []
    for old in before:
        new = here.get(old.claim.id)
        if new is None or new.verdict != old.verdict:
            why = f"{verdict(new)}: {new.reason}" if new else "no longer a claim"
            worse = old.verdict == REPRODUCED or (new is not None and new.verdict == NOT_REPRODUCED)
            rows.append(["worse" if worse else "other", old.claim.id, old.verdict, why])
    return [["what", "claim", "before", "now"], *sorted(rows, key=lambda row: row[0], reverse=True)]


# -- words ---------------------------------------------------------------------------------------------------------------


def printed(claim: Claim) -> str:
    """The paper's numbers, or what it shows in their place, and whether they contradict the claim."""
    numbers = "; ".join(map(str, claim.numbers)) or claim.printed or "no number in print"
    return numbers + ("; these contradict the claim" if claim.holds_on_printed_numbers is False else "")


def ours(judgement: Judgement) -> str:
    """What was measured, in one line."""
    return "; ".join(map(str, judgement.ours)) or "nothing measured"


def _scope(judgement: Judgement) -> str:
    return f"{judgement.scope}, exploratory" if judgement.scope and judgement.exploratory else judgement.scope


def verdict(judgement: Judgement) -> str:
    """The verdict with its scope, in words."""
    return ", ".join(filter(None, [judgement.verdict, _scope(judgement)]))


def reasons(judgement: Judgement) -> list[str]:
    """Why the verdict is as it is, under which needs, at which size, and what other sizes say; a text each."""
    setting = f"{judgement.profile}: {judgement.stands_for}" if judgement.stands_for else judgement.profile
    reading = f"our reading: {judgement.reading}" if judgement.reading else ""
    return [text for text in (judgement.reason, _needs(judgement), setting, reading, *judgement.beside) if text]


def _needs(judgement: Judgement) -> str:
    """Each need and whether it holds, but for the one that the reason names; while nothing is measured, what will be needed."""
    told = [need for need in judgement.needs if need.text not in judgement.reason]
    states = [f"{need.text} {need.state}" for need in told] if judgement.needs else judgement.claim.needs
    return f"needs: {'; '.join(states)}" if states else ""


# -- the formats ---------------------------------------------------------------------------------------------------------


def render(judgements: Sequence[Judgement], form: str = "md") -> str:
    """The ledger as a page ("md"), the questions first, or as "csv" with a row a claim."""
    return _csv(judgements) if form == "csv" else _markdown(judgements)


def grid(rows: Sequence[Sequence[str]], escape: bool = True) -> list[str]:
    """A head and rows as the lines of a Markdown table."""
    cells = [[in_markdown(cell) for cell in row] if escape else row for row in rows]
    return [
        f"| {' | '.join(cells[0])} |",
        "|" + " --- |" * len(cells[0]),
        *(f"| {' | '.join(row)} |" for row in cells[1:]),
    ]


def _markdown(judgements: Sequence[Judgement]) -> str:
    tested, reproduced, certain = holm(judgements)
    lines = ["# The ledger", "", *grid(counts(judgements)), ""]
    lines += [
        f"Of {tested} claims about means {reproduced} reproduced; {certain} of them do if all are asked together (Holm's correction).",
        "A stand-in speaks of its own size, and not of the paper's.",
    ]
    if answered := headlines.headlines(judgements):
        rows = [["", "question", "answer"], *([str(h.question.number), h.question.asks, h.words] for h in answered)]
        lines += ["", "## What a reader wants answered first", "", *grid(rows)]
    for paper, name in PAPERS.items():
        rows = [["statement", "the paper's number", "ours", "verdict"]]
        for j in (j for j in judgements if j.claim.paper == paper):
            c = j.claim
            place = "; ".join(dict.fromkeys([in_markdown(c.where), f"lab {c.lab}"]))  # of ours the lab is the place
            about = f"{in_markdown(c.statement)} <br>{place}; `{c.id}`"
            why = " <br>".join([f"**{in_markdown(verdict(j))}**", *map(in_markdown, reasons(j))])
            rows.append([about, in_markdown(printed(c)), in_markdown(ours(j)), why])
        lines += ["", f"## {in_markdown(name)}", "", *grid(rows, escape=False)] if rows[1:] else []
    return "\n".join(lines) + "\n"


def _csv(judgements: Sequence[Judgement]) -> str:
    import pandas as pd

    rows = []
    for j in judgements:
        told = {
            name: getattr(j.claim, name) for name in ["id", "paper", "where", "lab", "kind", "statement", "compare"]
        }
        told |= {"printed": printed(j.claim), "ours": ours(j), "size": j.profile, "scope": _scope(j)}
        told |= {name: getattr(j, name) for name in ["stands_for", "reading", "verdict", "reason", "p"]}
        rows.append(told | {"needs": _needs(j)})
    return pd.DataFrame(rows).to_csv(index=False, float_format="%.3g")


# -- escaping ------------------------------------------------------------------------------------------------------------


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table shows it."""
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", " ".join(text.split()))
