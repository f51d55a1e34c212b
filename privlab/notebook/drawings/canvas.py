"""What every schematic drawing is made of: boxes, arrows and labels, in a `Drawing` that carries its own description.

A drawing is SVG inside the page, so its letters and lines have the colour of the text around it, on a light ground as on a dark one. It is
380 units wide: on a telephone a unit is a pixel, and on a wider page it grows by a quarter. Colour is never the only cue: words and
outlines say the same.
"""

from __future__ import annotations

import html
import math
import textwrap
from dataclasses import dataclass
from typing import NamedTuple

from privlab.notebook.plots.picture import COLOURS

WIDTH, WIDEST = 380, 480  # of a drawing, in its own units and in CSS pixels
NAME, SMALL = 13.0, 12.0  # heights of letters
LETTER = 0.6  # width of a letter in heights, as an estimate to break lines by
LINE = 1.2  # from one line to the next, in heights

BLUE, RED, GREEN = COLOURS[:3]  # the client's or victim's; the attacker's; members, and what is shown to be right
PLAIN = "currentColor"

Point = tuple[float, float]


@dataclass(frozen=True, repr=False)
class Drawing:
    """An SVG with its alt text, which shows itself in a notebook, in nbconvert's pages and in the book."""

    svg: str
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.svg, "text/plain": self.alt}


class Box(NamedTuple):
    """Where a part lies; its edges' middles are where arrows begin and end."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> Point:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        return self.x + self.width / 2, self.y + self.height


class Canvas:
    """A sheet 380 units wide, with the origin at its upper left; what is put down later lies on top."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, element: str) -> None:
        """Any SVG."""
        self._parts.append(element)

    def box(
        self, x: float, y: float, width: float, height: float, name: str = "", note: str = "", *,
        colour: str = PLAIN, dashed: bool = False, bold: bool = True,
    ) -> Box:  # fmt: skip
        """A box with a name, and a note below it, broken into lines that fit.  Raises ValueError for words that do not fit."""
        rows = [(line, NAME, bold) for line in _broken(name, width - 10, NAME)]
        rows += [(line, SMALL, False) for line in _broken(note, width - 10, SMALL)]
        tall = sum(LINE * size for _, size, _ in rows)
        if tall > height or any(len(line) * LETTER * size > width - 2 for line, size, _ in rows):
            raise ValueError(
                f"{' '.join([name, note]).strip()!r} is too long for its box; say it in fewer or shorter words"
            )
        frame = 2.2 if colour == RED else 1.4  # an attacker's outline is heavier, for whoever does not see its red
        fill, line = (0.05, 0.6) if colour == PLAIN else (0.13, 1)
        self.add(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{colour}" fill-opacity="{fill}" '
            f'stroke="{colour}" stroke-opacity="{line}" stroke-width="{frame}"{DASHES * dashed}/>'
        )
        below = y + (height - tall) / 2
        for line_of, size, strong in rows:
            self.label(x + width / 2, below + 0.93 * size, line_of, size=size, bold=strong)
            below += LINE * size
        return Box(x, y, width, height)

    def label(
        self, x: float, y: float, words: str, *, anchor: str = "middle", size: float = SMALL, bold: bool = False,
        colour: str = PLAIN, width: float = math.inf,
    ) -> float:  # fmt: skip
        """Words whose first line stands on y, broken where they get wider than `width`.  anchor: "start", "middle" or "end".

        Returns where the next line would stand.
        """
        weight = ' font-weight="600"' * bold
        for row in _broken(words, width, size):
            self.add(
                f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"{weight}>{html.escape(row)}</text>'
            )
            y += LINE * size
        return y

    def line(self, *points: Point, colour: str = PLAIN, dashed: bool = False, width: float = 1.4) -> None:
        """A line through points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.add(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}" stroke-linejoin="round"{DASHES * dashed}/>'
        )

    def arrow(self, *points: Point, colour: str = PLAIN, dashed: bool = False, width: float = 1.4) -> None:
        """A line through points, with a head at the last."""
        (x0, y0), (x, y) = points[-2:]
        angle = math.atan2(y - y0, x - x0)

        def behind(back: float, aside: float) -> Point:
            c, s = math.cos(angle), math.sin(angle)
            return x - back * c - aside * s, y - back * s + aside * c

        self.line(*points[:-1], behind(6, 0), colour=colour, dashed=dashed, width=width)
        head = " ".join(f"{a:.4g},{b:.4g}" for a, b in ((x, y), behind(8, 4), behind(8, -4)))
        self.add(f'<polygon points="{head}" fill="{colour}"/>')

    def done(self, height: float, alt: str) -> Drawing:
        """The drawing, as high as given.  alt: what it shows, in words; it must say something."""
        if not alt.strip():
            raise ValueError(f"alt={alt!r} tells a listener nothing; say in a sentence what the drawing shows")
        style = f"display:block;width:100%;max-width:{WIDEST}px;height:auto;margin:.6em 0;font-family:inherit"
        return Drawing(
            f'<svg xmlns="http://www.w3.org/2000/svg" class="privlab-sketch" viewBox="-2 -2 {WIDTH + 4} {height + 4:g}" role="img" '
            f'aria-label="{html.escape(alt)}" style="{style}">{"".join(self._parts)}</svg>',
            alt,
        )


DASHES = ' stroke-dasharray="5 4"'


def _broken(words: str, width: float, size: float) -> list[str]:
    """Words in lines that are about so wide at most."""
    if math.isinf(width):
        return [words] if words else []
    return textwrap.wrap(words, max(1, int(width / (LETTER * size))), break_long_words=False, break_on_hyphens=False)
