"""What we found: findings with a figure each, what else was found, and what we do not know, from _templates/findings.yaml and findings.md.

Every number in these words, every dot, n and verdict is that of the evidence when the book is built. The page says where a verdict moved.
"""

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dots
import jinja2
import templates
import yaml
from dots import Dots
from markupsafe import Markup
from PIL import Image

from privlab.experiments import Evidence, load
from privlab.ledger import judging, papers
from privlab.ledger.judging import Judgement

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

    def dots(self, key: str) -> Dots:
        """What was measured under a key of the rows or the numbers, repeat by repeat."""
        words, name, *_ = {**self.numbers, **self.rows}[key]
        repeats = [float(value) * self.scale for value in self.evidence(key)[name]]
        return Dots(words, repeats, marks=() if self.mark is None else (self.mark,))

    def evidence(self, key: str) -> Evidence:
        _, _, *other = {**self.numbers, **self.rows}[key]
        return load(other[0] if other else self.of)

    def filled(self, words: str) -> str:
        """Words of this finding with its numbers in them, each a mean or its standard error."""
        values = {key: self.dots(key) for key in (*self.numbers, *self.rows)}
        told = {f"{key}_error": of.error for key, of in values.items()} | {key: of.mean for key, of in values.items()}
        return jinja2.Template(words, undefined=jinja2.StrictUndefined).render(told)

    def chart(self) -> Markup:
        return dots.chart([self.dots(key) for key in self.rows], self.axis)

    def measured(self) -> dict[str, list[str]]:
        """How many repeats there are of what, at which size and in which scope -> the labels of these rows."""
        readings = {name: c.reading for c in papers.claims() if c.reading for name in c.experiments}
        about: dict[str, list[str]] = {}
        for key in self.rows:
            e = self.evidence(key)
            scope = judging.scope(e.own, reading := readings.get(e.experiment, ""))
            text = f"{len(e)} repeats at size {e.size}, {scope}: {e.stands_for}."
            about.setdefault(f"{text} {reading}" if scope == judging.READING else text, []).append(self.rows[key][0])
        return about

    def tiles(self) -> list[tuple[str, str, int]]:
        """Of the picture, which the evidence keeps, the tiles that are shown: words, pixels as a data address, and how many columns."""
        if not self.picture:
            return []
        evidence, size = load(self.picture["of"]), self.picture["size"]
        whole = Image.fromarray(evidence.picture(self.picture["name"], evidence.repeats[self.picture.get("repeat", 0)]))
        found = []
        for row, column, words, *more in self.picture["tiles"]:
            columns, out = more[0] if more else 1, io.BytesIO()
            box = (column * size, row * size, (column + columns) * size, (row + 1) * size)
            whole.crop(box).save(out, "PNG", optimize=True)
            found.append((words, f"data:image/png;base64,{b64encode(out.getvalue()).decode()}", columns))
        return found


def findings() -> list[Finding]:
    return [Finding(**entry) for entry in yaml.safe_load(WORDS.read_text(encoding="utf-8"))["findings"]]


def page(judged: Sequence[Judgement], labs: Mapping[str, str]) -> str:
    """The Markdown that findings.md includes.  labs: number -> name."""
    words = yaml.safe_load(WORDS.read_text(encoding="utf-8")) | {"findings": findings()}
    return templates.fill("findings.md", judged=judged, labs=labs, **words)
