"""A page for each claim of the ledger: verdict, what was measured, the paper's number, needs, scope, explanation and history.

They are no sources of Sphinx, which takes half as long again for those: each is filled in from _templates/claim.html and put into the
theme's layout. The search knows the ledger page, which has every statement and id, and leads here.
"""

from __future__ import annotations

import functools
import html
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dot_strips
import jinja2
import numpy as np
from dot_strips import Strip
from markupsafe import Markup
from sphinx.application import Sphinx

from privlab.ledger import evidence, headlines, history, judging, papers, report
from privlab.ledger.figures import exact
from privlab.ledger.grammar import parse
from privlab.ledger.judging import Judgement
from privlab.ledger.margins import Margin, margins
from privlab.ledger.papers import Claim
from privlab.ledger.rule import Sample

MEANS = {
    judging.REPRODUCED: "The repeats show it",
    judging.NOT_REPRODUCED: "The repeats show its opposite",
    judging.INCONCLUSIVE: "Neither it nor its opposite is shown",
    judging.NOT_TESTED: "It could not be put to the test",
    judging.MEASURING: "Not judged yet",
}
_WIDE = {"html_theme.sidebar_secondary.remove": "true"}
STATES = {judging.HOLDS: "✓", judging.FAILS: "✗", judging.UNDECIDED: "?"}
_NAME = re.compile(r"[a-z][a-z0-9_]*\[[^\]]*\]")
_ID = re.compile(r"\w+(\.\w+){2,}")


def collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all claims, for Sphinx's html-collect-pages."""
    template = templates(Path(app.srcdir)).get_template("claim.html")
    app.connect("html-page-context", _OneSidebar(), priority=400)  # before the theme asks for it
    labs = {Path(doc).name[:2]: doc for doc in app.env.found_docs if doc.startswith("_generated/labs/")}
    for about in every():
        claim: Claim = about["claim"]
        name = papers.page(claim.id).removesuffix(".html")
        to = {
            doc: app.builder.get_relative_uri(name, doc)
            for doc in ("_generated/ledger", "ledger_guide", *labs.values())
            if doc in app.env.found_docs
        }
        body = template.render(about, to=to, lab=labs.get(claim.lab), page=_file)
        beside = {way: _neighbour(about[way]) for way in ("prev", "next") if about[way]}
        yield name, {"title": html.escape(claim.statement), "body": body, "meta": _WIDE, **beside}, "page.html"


@functools.cache
def templates(book: Path) -> jinja2.Environment:
    """The book's own templates, those of claims among them.  book: the folder of its sources."""
    place = jinja2.FileSystemLoader(book / "_templates")
    fill_in = jinja2.Environment(loader=place, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    fill_in.filters["names"] = names
    return fill_in


class _OneSidebar:
    """One list of contents for the sidebars of all claims, which lie in one folder: it takes the theme most of a page's time."""

    def __init__(self) -> None:
        self.contents: Callable[..., str] | None = None

    def __call__(self, app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
        if page.startswith("claims/"):
            self.contents = self.contents or functools.cache(context["toctree"])
            context["toctree"] = self.contents


def _neighbour(claim: Claim) -> dict[str, str]:
    return {"link": _file(claim.id), "title": html.escape(claim.statement)}


def every(root: Path | None = None) -> Iterator[dict[str, Any]]:
    """What each claim's page says.  root: folder of the evidence; the book's if not given."""
    judged = {j.claim.id: j for j in judging.judgements(root=root)}
    claims = [j.claim for j in judged.values()]
    explained, shelf = papers.explanations(), judging.Shelf(root)
    questions = {h.question.number: h for h in headlines.headlines(judged.values())}
    earlier, beside = defaultdict(list), defaultdict(list)
    for line in history.lines(claims, root):
        earlier[line.claim].append(line)
    for claim in claims:
        beside[claim.paper, claim.where.partition(";")[0]].append(claim.id)
    for before, claim, after in zip([None, *claims], claims, [*claims[1:], None], strict=False):
        j = judged[claim.id]
        size, samples = measured(j, shelf)
        why, registered = explained.get(claim.id), history.registered(claim, root)
        yield {
            "claim": claim,
            "prev": before,
            "next": after,
            "ids": judged.keys(),
            "j": j,
            "reason": j.reason.removeprefix(f"does not appear in {j.stands_for}: "),  # which stands just above
            "verdict": report.verdict(j),
            "means": MEANS[j.verdict],
            "paper": papers.PAPERS[claim.paper],
            "printed": report.printed(claim),
            "question": questions.get(claim.headline),
            "size": size,
            "setting": settings(claim, registered, size),
            "charts": charts(claim, samples),
            "table": table(claim, samples),
            "why": why,
            "rests_on": [judged[name] for name in why.rests_on] if why else [],
            "explains": [judged[name] for name, e in explained.items() if claim.id in e.rests_on],
            "registered": [(entry, there, setting(claim, entry)) for entry, there in registered],
            "history": earlier[claim.id],
            "others": [judged[n] for n in beside[claim.paper, claim.where.partition(";")[0]] if n != claim.id],
            "icons": report.ICONS,
            "edges": report.EDGES,
            "states": STATES,
        }


def listed(judgements: Iterable[Judgement], root: str = "") -> str:
    """Claims, each with its verdict and a link to its page.  root: of the book, as seen from the page that has the list."""
    rows = (
        f'<li><span aria-hidden="true">{report.ICONS[j.verdict]}</span> {link(j, root)} {report.verdict(j)}</li>'
        for j in judgements
    )
    return f'<ul class="privlab-needs">{"".join(rows)}</ul>'


def link(j: Judgement, root: str = "") -> str:
    """A claim's statement, which leads to its page.  root: see `listed`."""
    return f'<a href="{root}{papers.page(j.claim.id)}">{html.escape(j.claim.statement)}</a>'


def setting(claim: Claim, entry: evidence.Registration) -> str:
    """The scope of a claim by what was registered, and what that stands for."""
    return f"{judging.scope(entry.own, claim.reading)}: {entry.stands_for}"


def settings(claim: Claim, registered: Iterable[tuple[evidence.Registration, int]], size: str) -> str:
    """The settings at a size of what is registered, with how many repeats are there; of those that have some."""
    return "; ".join(
        dict.fromkeys(setting(claim, entry) for entry, there in registered if entry.size == size and there)
    )


def measured(j: Judgement, shelf: judging.Shelf) -> tuple[str, dict[str, Sample]]:
    """The size that decides, or the highest that has repeats yet, and what is measured there of the claim's names."""
    for size in dict.fromkeys([j.profile, *reversed(evidence.SIZES[1:])]):
        if samples := judging.repeats(j.claim, size, shelf):
            return size, samples
    return "", {}


@dataclass(frozen=True)
class Chart:
    """Strips above one axis, and its drawing.  rows: strip, SVG, and whether only a need names it."""

    title: str
    rows: tuple[tuple[Strip, Markup, bool], ...]
    axis: Markup


def charts(claim: Claim, samples: Mapping[str, Sample]) -> list[Chart]:
    """What the comparison names, a chart a metric; the differences of which it is made; and what else its needs name."""
    compare = parse(claim.compare, claim.id)
    parts, dotted = margins(compare), _dotted(claim, samples)
    strips = _strips(claim, parts, samples, dotted)
    metrics = dict.fromkeys(strip.label.partition("[")[0] for strip in strips)
    groups = {metric: [s for s in strips if s.label.partition("[")[0] == metric] for metric in metrics}
    mine = {name.partition("[")[0] for name in compare.names}
    needed = {*samples} - {*compare.names}
    return [
        *(_chart("", groups[metric], needed) for metric in groups if metric in mine),
        *_differences(claim, parts, samples, dotted),
        *(_chart("What the needs name", groups[metric]) for metric in groups if metric not in mine),
    ]


def _strips(claim: Claim, parts: list[Margin], samples: Mapping[str, Sample], dotted: list[str]) -> list[Strip]:
    """A strip a name, with the bound of a part that is about this name alone."""
    printed = {n.name: (n.mean, n.std) for n in claim.numbers}
    ends = {m.text: (m.low, m.high) for m in parts}
    return [
        Strip(name, tuple(samples[name].values), samples[name].logs, printed.get(name), *ends.get(name, ()))
        for name in dotted
    ]


def _differences(claim: Claim, parts: list[Margin], samples: Mapping[str, Sample], dotted: list[str]) -> list[Chart]:
    """A chart for the parts that are about the same metrics, a strip a part of two names or more."""
    printed = {n.name: n.mean for n in claim.numbers}
    groups: dict[tuple[bool, str], list[Strip]] = defaultdict(list)
    for part in parts:
        values = part.repeats(samples) if {*dotted} >= {*part.names} and part.text not in part.names else np.array([])
        if values.size and np.isfinite(values).all() and not (part.factor and (values <= 0).any()):
            theirs = (float(part.value(printed)), None) if printed.keys() >= {*part.names} else None
            units = " ".join(dict.fromkeys(name.partition("[")[0] for name in part.names))
            groups[part.factor, units].append(Strip(part.text, tuple(values), part.factor, theirs, part.low, part.high))
    titles = {False: "The difference, repeat by repeat", True: "One divided by the other, repeat by repeat"}
    return [_chart(titles[factor], strips) for (factor, _), strips in groups.items()]


def _chart(title: str, strips: list[Strip], needed: Container[str] = ()) -> Chart:
    drawn, axis = dot_strips.drawn(strips)
    rows = ((strip, Markup(svg), strip.label in needed) for strip, svg in zip(strips, drawn, strict=True))
    return Chart(title, tuple(rows), Markup(axis))


def _dotted(claim: Claim, samples: Mapping[str, Sample]) -> list[str]:
    """The names that are worth dots: not those of an identity, and not metrics that are exact, or the same in every repeat."""
    metrics: dict[str, list[str]] = defaultdict(list)
    for name in samples:
        metrics[name.partition("[")[0]].append(name)
    return [
        name
        for mine in metrics.values()
        if claim.kind != "identity"
        if not any(exact(n, v) for n in mine for v in samples[n].values)
        if any(np.ptp(samples[n].values) > 0 for n in mine)
        for name in mine
    ]


def table(claim: Claim, samples: Mapping[str, Sample]) -> list[list[str]]:
    """A row for each name without dots: how many repeats, the smallest and the largest."""
    dotted = _dotted(claim, samples)
    return [
        [name, str(len(sample.values)), *(_told(name, v) for v in (sample.values.min(), sample.values.max()))]
        for name, sample in samples.items()
        if name not in dotted
    ]


def _told(name: str, value: float) -> str:
    return "exact" if exact(name, value) else dot_strips.number(value)


def names(text: str, ids: Container[str] = ()) -> Markup:
    """A text with each name of a measured value as code, and each id of a claim as a link to its page."""
    escaped = _NAME.sub(r"<code>\g<0></code>", str(Markup.escape(text)))
    link = '<a href="{}"><code>{}</code></a>'
    return Markup(_ID.sub(lambda m: link.format(_file(m[0]), m[0]) if m[0] in ids else m[0], escaped))


def _file(claim: str) -> str:
    return Path(papers.page(claim)).name
