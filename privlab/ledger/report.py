"""Verdicts as a page, a table for a paper or a spreadsheet; their counts; and what moved since other evidence.

Every function here takes judgements and returns text, or rows of it. No page says "not reproduced" without the scope beside it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from privlab.ledger import headlines
from privlab.ledger.evidence import LEVEL
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, SCOPES, VERDICTS, Judgement
from privlab.ledger.papers import PAPERS, Claim, page

__all__ = [
    "EDGES",
    "FORMS",
    "ICONS",
    "changes",
    "counts",
    "grid",
    "holm",
    "id_in_markdown",
    "in_latex",
    "in_markdown",
    "ours",
    "printed",
    "reasons",
    "render",
    "verdict",
]

FORMS = ("md", "json", "csv", "tex")
_COLUMNS = "id paper where lab kind statement compare printed ours size scope stands_for reading verdict reason p needs"
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


def render(judgements: Sequence[Judgement], form: str = "md", book: str | None = None) -> str:
    """The ledger as a page ("md"), as "json", as "csv" with a row a claim, or as a tabular ("tex"); the headlines with the first two.

    book: of a page inside of the book, the way from there to its root, such as "../"; each claim's id is then a link to its page.
    Raises ValueError for another form.
    """
    if form not in FORMS:
        raise ValueError(f"form={form!r}; try one of {', '.join(FORMS)}")
    if form == "md":
        return _markdown(judgements, book)
    return {"json": _json, "csv": _csv, "tex": _latex}[form](judgements)


def grid(rows: Sequence[Sequence[str]], escape: bool = True) -> list[str]:
    """A head and rows as the lines of a Markdown table."""
    cells = [[in_markdown(cell) for cell in row] if escape else row for row in rows]
    return [
        f"| {' | '.join(cells[0])} |",
        "|" + " --- |" * len(cells[0]),
        *(f"| {' | '.join(row)} |" for row in cells[1:]),
    ]


def _of_paper(judgements: Sequence[Judgement]) -> list[tuple[str, list[Judgement]]]:
    listed = [(name, [j for j in judgements if j.claim.paper == key]) for key, name in PAPERS.items()]
    return [(name, mine) for name, mine in listed if mine]


def _markdown(judgements: Sequence[Judgement], book: str | None) -> str:
    tested, reproduced, certain = holm(judgements)
    lines = ["# The ledger", "", *grid(counts(judgements)), ""]
    lines += [
        f"Of {tested} claims about means {reproduced} reproduced; {certain} of them do if all are asked together (Holm's correction).",
        "A stand-in speaks of its own size, and not of the paper's.",
    ]
    if answered := headlines.headlines(judgements):
        rows = [["", "question", "answer"], *([str(h.question.number), h.question.asks, h.words] for h in answered)]
        lines += ["", "## What a reader wants answered first", "", *grid(rows)]
    for name, mine in _of_paper(judgements):
        rows = [["statement", "the paper's number", "ours", "verdict"]]
        for j in mine:
            c = j.claim
            place = "; ".join(dict.fromkeys([in_markdown(c.where), f"lab {c.lab}"]))  # of ours the lab is the place
            about = f"{in_markdown(c.statement)} <br>{place}; {id_in_markdown(c, book)}"
            why = " <br>".join([f"**{in_markdown(verdict(j))}**", *map(in_markdown, reasons(j))])
            rows.append([about, in_markdown(printed(c)), in_markdown(ours(j)), why])
        lines += ["", f"## {in_markdown(name)}", "", *grid(rows, escape=False)]
    return "\n".join(lines) + "\n"


def id_in_markdown(claim: Claim, book: str | None) -> str:
    """A claim's id, for a page in Markdown.

    book: the way from that page to the root of the book, such as "../", with which the id is a link to the claim's own page; or None.
    """
    return f"`{claim.id}`" if book is None else f'<a href="{book}{page(claim.id)}"><code>{claim.id}</code></a>'


def _json(judgements: Sequence[Judgement]) -> str:
    answered = [
        {**asdict(h.question), "answer": h.answer, "words": h.words, "claims": [j.claim.id for j in h.judgements]}
        for h in headlines.headlines(judgements)
    ]
    both = {"headlines": answered, "claims": [asdict(j) for j in judgements]}
    return json.dumps(both, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(judgements: Sequence[Judgement]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS.split())
    for j in judgements:
        c, p = j.claim, "" if j.p is None else f"{j.p:.3g}"
        about = [c.id, c.paper, c.where, c.lab, c.kind, c.statement, c.compare, printed(c), ours(j)]
        setting = [j.profile, _scope(j), j.stands_for, j.reading]
        writer.writerow([*about, *setting, j.verdict, j.reason, p, _needs(j)])
    return out.getvalue()


def _latex(judgements: Sequence[Judgement]) -> str:
    """For the booktabs package, to be put into a table or longtable; every text is escaped."""
    lines = [r"\begin{tabular}{p{.4\linewidth}p{.2\linewidth}p{.2\linewidth}l}", r"\toprule"]
    lines.append(r"claim & in print & ours & verdict \\")
    for name, mine in _of_paper(judgements):
        lines += [r"\midrule", rf"\multicolumn{{4}}{{l}}{{\emph{{{in_latex(name)}}}}} \\", r"\midrule"]
        for j in mine:
            told = ": ".join(filter(None, [verdict(j), j.reading]))
            cells = [f"{j.claim.statement} ({j.claim.where})", printed(j.claim), ours(j), told]
            lines.append(" & ".join(map(in_latex, cells)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


# -- escaping ------------------------------------------------------------------------------------------------------------

_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "÷": r"$\div$",
    **{c: rf"\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def in_latex(text: str) -> str:
    """Text as LaTeX sets it, on one line."""
    return "".join(_TEX.get(c, c) for c in " ".join(text.split()))


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table shows it."""
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", " ".join(text.split()))
