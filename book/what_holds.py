"""What holds: a page for each question that a reader wants answered first, with one paragraph and one figure, made from the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

import claim_pages

from privlab.ledger import headlines, history, judging, papers
from privlab.ledger.headlines import Headline
from privlab.ledger.judging import Judgement

_TOP = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"
_TEMPLATES = claim_pages.templates(Path(__file__).parent)


def pages(judged: list[Judgement]) -> Iterator[tuple[str, str]]:
    """Name and text of the chapter's front page and of a page a question; links lead from _generated/holds."""
    answered, shelf = headlines.headlines(judged), judging.Shelf()
    claims = {j.claim.id: j for j in judged}
    for one in answered:
        yield _name(one), _page(one, claims[one.question.figure], shelf)
    rows = [f"| [{one.question.asks}]({_name(one)}.md) | {one.words} |" for one in answered]
    listed = "\n".join(map(_name, answered))
    yield (
        "index",
        f"{_TOP}# What holds\n\nThe four papers answer each of these questions with yes. The answers below are those of the "
        f"committed evidence; it is {headlines.count(judged)}. A stand-in speaks of its own size, and not of the paper's. "
        'These are the papers\' headlines; <a href="../../findings.html">what we found</a> are our own.\n\n'
        "| question | answer |\n|---|---|\n" + "\n".join(rows) + f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n",
    )


def _name(one: Headline) -> str:
    return f"{one.question.number:02d}"


def _page(one: Headline, shown: Judgement, shelf: judging.Shelf) -> str:
    return (
        f"{_TOP}# {one.question.asks}\n\n**{one.words}** ({papers.PAPERS[one.question.paper]})\n\n{one.question.about}\n\n"
        f'```{{raw}} html\n<section class="privlab-claim">\n{_figure(shown, shelf)}\n<h2>The claims behind the answer</h2>\n'
        f"{claim_pages.listed(one.judgements, '../../')}\n</section>\n```\n"
    )


def _figure(shown: Judgement, shelf: judging.Shelf) -> str:
    """The strips of one claim's comparison; a table where its repeats are all alike; a sentence where there are none."""
    size, samples = claim_pages.measured(shown, shelf)
    if not samples:
        return "<p>Nothing is measured yet that a figure could show.</p>"
    setting = claim_pages.settings(shown.claim, history.registered(shown.claim), size)
    reading = f" {escape(shown.reading)}" if shown.reading else ""
    about = f"<p>{escape(shown.claim.statement)} Measured at size <code>{size}</code>: {escape(setting)}.{reading}</p>"
    pieces = _TEMPLATES.get_template("measured.html").module
    if charts := claim_pages.charts(shown.claim, samples):
        return f"{about}{pieces.legend()}{pieces.drawn(charts[0], needs=False)}"
    return f"{about}{pieces.listed(claim_pages.table(shown.claim, samples))}"
