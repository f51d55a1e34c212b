"""Verdicts as a page, or as a table for a spreadsheet; their counts; and what moved since other evidence.

Every function here takes judgements and returns text, or rows of it. No page says "not reproduced" without the scope beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from privlab.ledger import headlines
from privlab.ledger.evidence import LEVEL
from privlab.ledger.judging import NOT_REPRODUCED, REPRODUCED, SCOPES, VERDICTS, Judgement
from privlab.ledger.papers import PAPERS, Claim

EXPLORATORY = "chosen after a look"
# Okabe and Ito's colours, told apart by colour-blind readers, edge what says the verdict in words; an icon stands beside it
EDGES = dict(zip(VERDICTS, ("#0072B2", "#D55E00", "#E69F00", "#999999", "#999999"), strict=True))
ICONS = dict(zip(VERDICTS, "✓✗?○…", strict=True))


def counts(judgements: Iterable[Judgement]) -> list[list[str]]:
    """A head and a row for each paper and scope: how many claims have each verdict.

    What was chosen after a look at the data has rows of its own at the end; what is measured still has no scope yet.
    """
    found = Counter((EXPLORATORY if j.exploratory else j.claim.paper, j.scope, j.verdict) for j in judgements)
    places = [(paper, scope) for paper in (*PAPERS, EXPLORATORY) for scope in (*SCOPES, "")]
    rows = [[paper, scope or "-", *(str(found[paper, scope, v] or "-") for v in VERDICTS)] for paper, scope in places]
    return [["paper", "scope", *VERDICTS], *(row for row in rows if {*row[2:]} != {"-"})]


def holm(judgements: Iterable[Judgement]) -> tuple[int, int, int]:
    """(tested, reproduced, certain): claims about means, those of them that reproduced, and those that still do if all are asked together.

    Holm's correction of the p-values of Student's t, at 0.05 for all tests together (Holm 1979), without what was chosen after a look.
    """
    tested = sorted((j.p, j.verdict) for j in judgements if j.p is not None and not j.exploratory)
    failed = (k for k, (p, _) in enumerate(tested) if p > LEVEL / (len(tested) - k))
    return len(tested), sum(verdict == REPRODUCED for _, verdict in tested), next(failed, len(tested))


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


def printed(claim: Claim) -> str:
    """The paper's numbers, or what it shows in their place, and whether they contradict the claim."""
    numbers = "; ".join(map(str, claim.numbers)) or claim.printed or "no number in print"
    return numbers + ("; these contradict the claim" if claim.denied_in_print else "")


def ours(judgement: Judgement) -> str:
    """What was measured, in one line."""
    return "; ".join(map(str, judgement.ours)) or "nothing measured"


def verdict(judgement: Judgement) -> str:
    """The verdict with its scope, in words."""
    looked = "exploratory" if judgement.scope and judgement.exploratory else ""
    return ", ".join(filter(None, [judgement.verdict, judgement.scope, looked]))


def reasons(judgement: Judgement) -> list[str]:
    """Why the verdict is as it is, under which needs, at which size, and what other sizes say; a text each."""
    setting = f"{judgement.profile}: {judgement.stands_for}" if judgement.stands_for else judgement.profile
    reading = f"our reading: {judgement.reading}" if judgement.reading else ""
    return [text for text in (judgement.reason, needs(judgement), setting, reading, *judgement.beside) if text]


def needs(judgement: Judgement) -> str:
    """Each need and whether it holds, but for the one that the reason names; while nothing is measured, what will be needed."""
    states = [f"{need.text} {need.state}" for need in judgement.needs if need.text not in judgement.reason]
    states = states if judgement.needs else [*judgement.claim.needs]
    return f"needs: {'; '.join(states)}" if states else ""


def grid(rows: Sequence[Sequence[str]], escape: bool = True) -> list[str]:
    """A head and rows as the lines of a Markdown table."""
    head, *body = ([in_markdown(cell) for cell in row] if escape else row for row in rows)
    return [f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *(f"| {' | '.join(row)} |" for row in body)]


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table shows it."""
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", " ".join(text.split()))


def render(judgements: Sequence[Judgement], form: str = "md") -> str:
    """The ledger as a page ("md"), the questions first, or as "csv" with a row a claim."""
    table = pd.DataFrame([*map(_told, judgements)])
    if form == "csv":
        return table.to_csv(index=False, float_format="%.3g")
    tested, reproduced, certain = holm(judgements)
    lines = ["# The ledger", "", *grid(counts(judgements)), ""]
    lines += [
        f"Of {tested} claims about means {reproduced} reproduced; {certain} of them do if all are asked together (Holm's correction).",
        "A stand-in speaks of its own size, and not of the paper's.",
    ]
    if answered := headlines.headlines(judgements):
        rows = [["", "question", "answer"], *([str(one.number), one.asks, one.words] for one in answered)]
        lines += ["", "## What a reader wants answered first", "", *grid(rows)]
    shown = ["statement", "where", "printed", "ours", "verdict", "why", "id"]
    for paper in (paper for paper in PAPERS if paper in {*table["paper"]}):
        rows = table.loc[table["paper"] == paper, shown].to_numpy()
        lines += ["", f"## {in_markdown(PAPERS[paper])}", "", *grid([shown, *rows])]
    return "\n".join(lines) + "\n"


def _told(j: Judgement) -> dict[str, Any]:
    """All that is told of a claim, by the column in which it stands."""
    where = "; ".join(dict.fromkeys([j.claim.where, f"lab {j.claim.lab}"]))  # of ours it is the place
    about = dict(id=j.claim.id, paper=j.claim.paper, statement=j.claim.statement, where=where, compare=j.claim.compare)
    found = dict(printed=printed(j.claim), ours=ours(j), size=j.profile, verdict=verdict(j), p=j.p)
    return about | found | {"why": "; ".join(reasons(j))}
