"""Networks and what a search found behind each, as HTML: all images in a row with one marked, its layers in boxes, and numbers as bars."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence

from IPython.display import HTML
from torch import Tensor

from privlab.notebook.sheet import SQUARES, figure, picture, row

LARGE, SMALL, THUMB = 160, 96, 34  # CSS pixels of what was found, of the photograph, and of an image in a row


def thumbs(found: Collection[Tensor]) -> str:
    """All images in a row as wide as the page, above what `panel` says of one. They are in the page once."""
    images = "".join(picture(one, f"Image {n} of {len(found)}.", THUMB, SQUARES) for n, one in enumerate(found, 1))
    return f'<div style="{_grid(len(found))}">{images}</div>'


def panel(
    place: int, count: int, found: Tensor, truth: Tensor, score: str, layers: str, bars: Sequence[str], title: str = ""
) -> HTML:
    """What was found behind one network, which has this place of so many. On a telephone its parts stand below each other.

    found, truth: (1, 3, height, width) in [0, 1].  score: how near they are, in words.  layers: of `stack`.  bars: of `bar`.
    title: HTML above all of it.
    """
    mark = f'<div style="{_grid(count)}"><div style="grid-column:{place};text-align:center" aria-hidden="true">▲</div></div>'
    best = picture(found, f"What the search found: {score}.", LARGE, SQUARES)
    photograph = picture(truth, "The photograph.", SMALL, SQUARES)
    images = row([figure(best, f"found: {html.escape(score)}"), figure(photograph, "the photograph")], gap=13)
    below = row([layers, f"<div>{images}{''.join(bars)}</div>"], gap=20)
    return HTML(f"{mark}{title}{below}")


def bar(name: str, value: float, most: float, words: str) -> str:
    """A number as a length, with its words above."""
    meter = f'<meter value="{max(0.0, value)}" max="{most}" style="width:16em;max-width:100%"></meter>'
    return f'<label style="display:block;margin-top:.6em">{name}: {words}<br>{meter}</label>'


def _grid(columns: int) -> str:
    return f"display:grid;gap:5px;grid-template-columns:repeat({columns},1fr);max-width:{columns * (THUMB + 5)}px"
