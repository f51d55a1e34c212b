"""What we found: eleven findings with a figure each, what else was found, and what we do not know, made from _templates/findings.yaml.

The words are written there; every number in them, every dot, n and verdict is that of the evidence when the book is built. Where a verdict
has become another than the one for which the words were written, the page says so.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claim_pages
import dot_strips
import front_page
import jinja2
import numpy as np
import yaml
from dot_strips import Strip
from markupsafe import Markup
from PIL import Image

from privlab.experiments import Evidence, load
from privlab.ledger import judging, papers
from privlab.ledger.judging import Judgement
from privlab.runner.catalogue import Lab

WORDS = Path(__file__).parent / "_templates" / "findings.yaml"


@dataclass(frozen=True)
class Finding:
    """An entry of findings.yaml, see its head.  scale: what shares are multiplied with.  mark: where a dashed line stands."""

    heading: str
    lab: str
    short: str
    text: str
    of: str
    rows: Mapping[str, Sequence[str]]
    axis: str
    alt: str
    claims: Mapping[str, str]
    numbers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    picture: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    mark: float | None = None

    def strip(self, key: str) -> Strip:
        """What was measured under a key of the rows or the numbers, repeat by repeat."""
        words, name, *_ = {**self.numbers, **self.rows}[key]
        values = self.evidence(key)[name] * self.scale
        return Strip(words, tuple(values), marks=() if self.mark is None else (self.mark,))

    def evidence(self, key: str) -> Evidence:
        _, _, *other = {**self.numbers, **self.rows}[key]
        return load(other[0] if other else self.of)

    def filled(self, words: str) -> str:
        """Words of this finding with its numbers in them, each a mean or its standard error."""
        values = {key: self.strip(key) for key in (*self.numbers, *self.rows)}
        errors = {f"{key}_error": strip.error for key, strip in values.items()}
        means = {key: strip.mean for key, strip in values.items()}
        return jinja2.Template(words, undefined=jinja2.StrictUndefined).render(means | errors)


def findings(path: Path = WORDS) -> list[Finding]:
    return [Finding(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["findings"]]


def page(judged: Iterable[Judgement], labs: Iterable[Lab], path: Path = WORDS) -> str:
    """The Markdown that findings.md includes."""
    claims = {j.claim.id: j for j in judged}
    names = {lab.number: lab.name for lab in labs if not lab.goes_deeper}
    words = yaml.safe_load(path.read_text(encoding="utf-8"))
    parts = [_finding(Finding(**entry), claims, names) for entry in words["findings"]]
    parts.append("## What else was found\n\nClaims of this book, each with its verdict; a link leads to the repeats.")
    parts += [f"**{about}**\n\n{_listed(claims[name] for name in ids)}" for about, ids in words["also"].items()]
    parts.append(
        "## What we do not know\n\nAll of the above are stand-ins, but where a caption says otherwise: whether it holds at "
        "the papers' own sizes needs longer runs, most of them on a GPU; {doc}`/_generated/coverage` lists what is missing. Beyond that:"
    )
    parts += [f"{one['text']}\n\n{_listed(claims[name] for name in one['claims'])}" for one in words["open"]]
    return "\n\n".join(parts) + "\n"


def _finding(one: Finding, claims: Mapping[str, Judgement], names: Mapping[str, str]) -> str:
    moved = [
        f"This was written when a claim was {then}: it is now {claims[name].verdict} ({claim_pages.link(claims[name])})."
        for name, then in one.claims.items()
        if claims[name].verdict != then
    ]
    lab = front_page.to(f"Lab {one.lab}", one.lab, names)
    listed = claim_pages.listed(map(claims.get, one.claims))
    behind = f"```{{raw}} html\n<details><summary>The claims behind it</summary>{listed}</details>\n```"
    return "\n\n".join(
        [
            f"## {one.heading}",
            f"**{one.filled(one.short)}** {one.filled(one.text)}",
            f"```{{raw}} html\n{_figure(one)}\n```",
            *moved,
            f"{lab} lets you do this yourself.",
            behind,
        ]
    )


def _figure(one: Finding) -> str:
    strips = [one.strip(key) for key in one.rows]
    drawn, ticks = dot_strips.drawn(strips)
    template = claim_pages.templates(WORDS.parents[1]).get_template("finding.html")
    return template.render(
        alt=one.alt,
        tiles=_tiles(**one.picture) if one.picture else [],
        wide=any(len(tile) > 3 for tile in one.picture.get("tiles", ())),
        rows=zip(strips, map(Markup, drawn), strict=True),
        ticks=Markup(ticks),
        axis=one.axis,
        caption=_caption(one),
    )


def _caption(one: Finding) -> str:
    """How many repeats there are of what, at which size, and in which scope."""
    readings = {name: c.reading for c in papers.claims() if c.reading for name in c.experiments}
    about: dict[str, list[int]] = {}
    read: dict[str, None] = {}
    for row, key in enumerate(one.rows, 1):
        e = one.evidence(key)
        scope = judging.scope(e.own, readings.get(e.experiment, ""))
        if scope == judging.READING:
            read[readings[e.experiment]] = None
        about.setdefault(f"{len(e)} repeats at size {e.size}, {scope}: {e.stands_for}", []).append(row)
    line = "Dashed: no difference. " if one.mark == 0 else ""
    each = [f"{_rows(rows)}, {text}." if len(about) > 1 else f"{text}." for text, rows in about.items()]
    return f"Each dot is a repeat; the cross is their mean with its 95% interval. {line}{' '.join([*each, *read])}"


def _rows(rows: Sequence[int]) -> str:
    return f"Row {rows[0]}" if len(rows) == 1 else f"Rows {rows[0]} to {rows[-1]}"


def _tiles(of: str, name: str, size: int, tiles: Sequence[Sequence[Any]], repeat: int = 0) -> list[tuple[str, str]]:
    """Words and pixels, as a data address, of tiles of a kept picture: row, column, words, and how many columns if not one."""
    evidence = load(of)
    whole = evidence.picture(name, evidence.repeats[repeat])
    return [
        (words, _address(whole[row * size :][:size, column * size :][:, : size * (more[0] if more else 1)]))
        for row, column, words, *more in tiles
    ]


def _address(pixels: np.ndarray) -> str:
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG", optimize=True)
    return f"data:image/png;base64,{b64encode(out.getvalue()).decode()}"


def _listed(judgements: Iterable[Judgement]) -> str:
    return f"```{{raw}} html\n{claim_pages.listed(judgements)}\n```"
