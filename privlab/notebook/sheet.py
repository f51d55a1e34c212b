"""The sheet of a game, as HTML: paragraphs, and images with words below them, in rows that a narrow page breaks."""

from __future__ import annotations

import html
from collections.abc import Iterable

from torch import Tensor

from privlab.notebook import plots

SIDE = 112  # CSS pixels of an image: three beside each other fit on a telephone
PLAIN = "line-height:1.5;margin:.2em 0 .4em;max-width:45em"
FIXED = f";width:{SIDE}px;overflow-wrap:anywhere"  # of a figure that is as wide as its image


def paragraph(words: str, status: bool = False) -> str:
    """A paragraph of HTML.  status: read aloud when it changes."""
    role = ' role="status"' * status
    return f'<p{role} style="{PLAIN}">{words}</p>'


def figure(picture: str, words: str, style: str = "") -> str:
    """A picture's tag with words below, both HTML.  style: more CSS, starting with a semicolon."""
    return f'<figure style="margin:0{style}">{picture}<figcaption style="color:inherit">{words}</figcaption></figure>'


def named(image: Tensor, name: str) -> str:
    """An image, (1, channels, height, width) in [0, 1], with its name below."""
    return figure(plots.face(image[0].cpu(), f"{name}.", SIDE).tag(";display:block"), html.escape(name), FIXED)


def row(figures: Iterable[str], gap: int = 8) -> str:
    """Figures beside each other, so many CSS pixels apart."""
    return f'<div style="display:flex;flex-wrap:wrap;gap:{gap}px">{"".join(figures)}</div>'
