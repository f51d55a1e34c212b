"""The ledger as a page of the book: the verdicts of the committed evidence at a glance, and every claim below its paper, to be opened.

The page is short until something is opened. Its filters are shown by a script; without it every claim is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

import ledger_charts
from dot_strips import number
from plain_names import plain

from privlab.ledger import headlines, papers, report
from privlab.ledger.judging import SCOPES, VERDICTS, Judgement

ANSWERS = dict(zip(headlines.ANSWERS, "✓✗±=?…", strict=True))  # the icon of each answer
NO_SCOPE = "nothing measured yet"
RETIRED = Path(__file__).parent / "evidence" / "retired.yaml"
FILTERS: dict[str, Callable[[Judgement], str]] = {
    "paper": lambda j: _short(papers.PAPERS[j.claim.paper]),
    "lab": lambda j: j.claim.lab,
    "verdict": lambda j: j.verdict,
    "scope": lambda j: j.scope or NO_SCOPE,
}


def page(judgements: Sequence[Judgement]) -> str:
    """The page in Markdown, most of it HTML."""
    grouped = {
        _short(name): mine
        for key, name in papers.PAPERS.items()
        if (mine := [j for j in judgements if j.claim.paper == key])
    }
    tested, reproduced, certain = report.holm(judgements)
    panels = "".join(ledger_charts.panel(*one) for one in ledger_charts.pairs(judgements).items())
    charts = [
        "## The paper's number against ours",
        "Each dot is a number that a paper prints. On the dashed line the two are equal. Point at a dot for its name.",
        _raw(f'<div class="privlab-panels">{panels}</div>'),
    ]
    parts = [
        "# The ledger",
        f"{len(judgements)} claims of four papers and of this book, each judged by the committed evidence alone. "
        "A stand-in speaks of its own size, and not of the paper's. "
        '<a href="../ledger_guide.html">How to read the ledger</a> says what a verdict is worth. '
        f"{len(papers.entries('claims', RETIRED))} more are asked no longer: "
        "{download}`each with its last verdict and the reason <../evidence/retired.yaml>`.",
        _raw(ledger_charts.bars(grouped) + _questions(judgements)),
        f"Of {tested} claims about means {reproduced} reproduced; {certain} of them do if all are asked together (Holm's correction).",
        *(charts if panels else []),
        "## The claims",
        _raw(_filters(judgements) + "".join(_group(name, mine) for name, mine in grouped.items())),
    ]
    return "\n\n".join(parts) + "\n"


def _short(paper: str) -> str:
    return paper.partition(", ")[0]


def _raw(text: str) -> str:
    return f"``````{{raw}} html\n{' '.join(text.split())}\n``````"  # one line, which no text can break off


def _questions(judgements: Sequence[Judgement]) -> str:
    answered = headlines.headlines(judgements)
    if not answered:
        return ""
    items = "".join(
        f'<li><strong><span aria-hidden="true">{ANSWERS[h.answer]}</span> {h.answer}</strong> '
        f"{escape(h.question.asks)} <small>{escape(h.words)}</small></li>"
        for h in answered
    )
    title = f"What a reader wants answered first: {headlines.count(judgements)}"
    return f'<details class="privlab-questions"><summary>{escape(title)}</summary><ol>{items}</ol></details>'


def _filters(judgements: Sequence[Judgement]) -> str:
    """A menu for each filter, hidden until the script shows them."""
    order: Mapping[str, Sequence[str]] = {"verdict": VERDICTS, "scope": (*SCOPES, NO_SCOPE)}
    menus = []
    for name, value in FILTERS.items():
        there = dict.fromkeys(map(value, judgements))
        options = [o for o in order[name] if o in there] if name in order else sorted(there)
        listed = "".join(f"<option>{escape(option)}</option>" for option in options)
        menus.append(f'<label>{name} <select name="{name}"><option value="">all</option>{listed}</select></label>')
    return f'<form class="privlab-filter" hidden>{"".join(menus)}<button type="reset">Show all</button> <output></output></form>'


def _group(name: str, mine: Sequence[Judgement]) -> str:
    found = ledger_charts.counted(Counter(j.verdict for j in mine))
    summary = f"<summary><strong>{escape(name)}</strong>, {len(mine)} claims: {found}</summary>"
    ranked = sorted(mine, key=lambda j: VERDICTS.index(j.verdict))
    return f'<details class="privlab-group">{summary}<ul>{"".join(map(_item, ranked))}</ul></details>'


def _item(j: Judgement) -> str:
    c = j.claim
    data = " ".join(f'data-{name}="{escape(value(j))}"' for name, value in FILTERS.items())
    theirs = (
        "; ".join(f"{plain(n.name)} {n.mean:g}{_unit(n.unit)}" for n in c.numbers) or c.printed or "no number in print"
    )
    against = " These contradict the claim." if c.holds_on_printed_numbers is False else ""
    ours = "; ".join(f"{plain(f.name)} {number(f.centre)} (n={f.n})" for f in j.ours) or "nothing measured"
    link = f'<a href="../{papers.page(c.id)}"><code>{c.id}</code></a>'
    return (
        f'<li {data} style="border-color:{report.EDGES[j.verdict]}"><p><span aria-hidden="true">{report.ICONS[j.verdict]}</span> '
        f"<strong>{escape(report.verdict(j))}</strong>: {escape(c.statement)}</p>"
        f"<p>The paper: {escape(theirs)}.{against} Here: {escape(ours)}.{escape(_why(j))}</p>"
        f"<p><small>{escape(c.where)}; lab {c.lab}; {link}</small></p></li>"
    )


def _why(j: Judgement) -> str:
    """What the numbers stand for, and what the rule said of them."""
    reason = plain(j.reason.removeprefix(f"does not appear in {j.stands_for}: "))
    reading = f" Our reading: {j.reading}" if j.reading else ""
    if j.stands_for:
        return f" In {j.stands_for}: {reason}.{reading}"
    return f" {reason[:1].upper()}{reason[1:]}." * bool(reason)


def _unit(unit: str | None) -> str:
    return f" {unit}" if unit in ("dB", "percent") else ""
