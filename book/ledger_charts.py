"""Two charts of the ledger page: the verdicts of each paper as a bar, and the paper's numbers against ours, a dot a number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from dot_strips import number
from plain_names import plain

from privlab.ledger import report
from privlab.ledger.figures import IN_LOGS
from privlab.ledger.judging import VERDICTS, Judgement

_SIDE, _EDGE = 220, 42  # of a panel, and of the room for its letters, in the drawing's own units


def bars(of_paper: Mapping[str, Sequence[Judgement]]) -> str:
    """A row for each paper as HTML: its name, a bar, and how many of its claims have each verdict, with an icon."""
    rows = []
    for paper, mine in of_paper.items():
        found = Counter(j.verdict for j in mine)
        parts = [
            f'<span class="{_class(v)}" style="flex:{found[v]};background-color:{report.EDGES[v]}"></span>'
            for v in VERDICTS
            if found[v]
        ]
        rows.append(
            f'<li><strong>{escape(paper)}</strong><span class="privlab-bar" aria-hidden="true">{"".join(parts)}</span>'
            f"<span>{counted(found)}</span></li>"
        )
    return f'<ul class="privlab-bars">{"".join(rows)}</ul>'


def counted(found: Mapping[str, int]) -> str:
    """How many claims have each verdict, in words, each with its icon."""
    chip = '<span class="privlab-count" style="border-color:{}"><span aria-hidden="true">{}</span> {} {}</span>'
    return " ".join(chip.format(report.EDGES[v], report.ICONS[v], found[v], v) for v in VERDICTS if found.get(v))


def _class(verdict: str) -> str:
    return f"privlab-{verdict.replace(' ', '-')}"


Pairs = dict[str, tuple[float, float]]


def pairs(judgements: Iterable[Judgement]) -> dict[str, Pairs]:
    """Numbers that a paper prints and the evidence has: what a panel is about -> name -> (the paper's, ours).

    Numbers of one kind are compared: decibels, scores between 0 and 1, and errors, whose axes are logarithmic.
    """
    panels: dict[str, Pairs] = {"PSNR in dB": {}, "scores from 0 to 1": {}, "errors": {}}
    for j in judgements:
        printed = {n.name: n for n in j.claim.numbers}
        for figure in j.ours:
            if theirs := printed.get(figure.name):
                metric, both = figure.name.partition("[")[0], (theirs.mean, figure.centre)
                if metric in IN_LOGS:
                    panel = "errors" if min(both) > 0 else ""
                elif theirs.unit == "dB":
                    panel = "PSNR in dB"
                else:
                    panel = "scores from 0 to 1" if theirs.unit in ("score", "fraction") else ""
                if panel:
                    panels[panel][figure.name] = both
    return {title: dots for title, dots in panels.items() if dots}


def panel(title: str, dots: Pairs) -> str:
    """The paper's numbers to the right, ours upwards, on the same scale; on the line both are equal."""
    logs = title == "errors"
    scale = math.log10 if logs else float
    values = [scale(v) for both in dots.values() for v in both]
    low, high = (0.0, 1.0) if title.startswith("scores") else (math.floor(min(values)), math.ceil(max(values)))

    def at(value: float) -> float:
        return (scale(value) - low) / ((high - low) or 1) * (_SIDE - _EDGE - 10)

    def across(value: float) -> str:
        return f"{_EDGE + at(value):.1f}"

    def upwards(value: float) -> str:
        return f"{_SIDE - _EDGE - at(value):.1f}"

    ends = [10.0**low, 10.0**high] if logs else [low, high]
    parts = [
        f'<line class="equal" x1="{across(ends[0])}" y1="{upwards(ends[0])}" x2="{across(ends[1])}" y2="{upwards(ends[1])}"/>',
        f'<polyline points="{_EDGE},10 {_EDGE},{_SIDE - _EDGE} {_SIDE - 10},{_SIDE - _EDGE}"/>',
    ]
    for end in ends:
        parts.append(f'<text x="{across(end)}" y="{_SIDE - _EDGE + 15}">{_tick(end)}</text>')
        parts.append(f'<text class="side" x="{_EDGE - 5}" y="{float(upwards(end)) + 4:g}">{_tick(end)}</text>')
    middle = (_SIDE + _EDGE) / 2 - 5
    parts.append(f'<text x="{middle:g}" y="{_SIDE - 8}">the paper</text>')
    parts.append(f'<text x="12" y="{middle - 32:g}" transform="rotate(-90 12 {middle - 32:g})">here</text>')
    for name, (theirs, ours) in dots.items():
        told = f"{plain(name)}: the paper {theirs:g}, here {number(ours)}"
        parts.append(
            f'<circle cx="{across(theirs)}" cy="{upwards(ours)}" r="4.5"><title>{escape(told)}</title></circle>'
        )
    below = sum(ours < theirs for theirs, ours in dots.values())
    words = (
        f"{title}: {len(dots)} number{'s' * (len(dots) != 1)}; ours is below the paper's for {below or 'none'} of them."
    )
    return (
        f'<div><svg viewBox="0 0 {_SIDE} {_SIDE}" role="img" aria-label="{escape(words)}">{"".join(parts)}</svg>'
        f"<p>{escape(words)}</p></div>"
    )


def _tick(value: float) -> str:
    return number(value) if value == 0 or value >= 1e-3 else f"{value:f}".rstrip("0")
