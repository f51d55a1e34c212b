"""Networks and what a search found behind each, as HTML: all images in a row with one marked, its layers in boxes, and numbers as bars."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from dataclasses import replace

from IPython.display import HTML
from torch import Tensor

from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sheet import row, strip

LARGE, SMALL, THUMB = 160, 96, 34  # CSS pixels of what was found, of the photograph, and of an image in a row


def thumbs(found: Collection[Tensor]) -> str:
    """All images in a row as wide as the page, above what `panel` says of one. They are in the page once."""
    images = "".join(_image(image, THUMB, f"Image {n} of {len(found)}.") for n, image in enumerate(found, 1))
    return f'<div style="{_grid(len(found))}">{images}</div>'


def panel(
    place: int, count: int, found: Tensor, truth: Tensor, score: str, layers: str, bars: Sequence[str], title: str = ""
) -> HTML:
    """What was found behind one network, which has this place of so many. On a telephone its parts stand below each other.

    found, truth: (1, 3, height, width) in [0, 1].  score: how near they are, in words.  layers: of `stack`.  bars: of `bar`.
    title: HTML above all of it.
    """
    mark = f'<div style="{_grid(count)}"><div style="grid-column:{place};text-align:center" aria-hidden="true">▲</div></div>'
    best = f"{_image(found, LARGE, f'What the search found: {score}.')}<div>found: {html.escape(score)}</div>"
    photograph = f"{_image(truth, SMALL, 'The photograph.')}<div>the photograph</div>"
    images = row([f"<div>{best}</div>", f"<div>{photograph}</div>"], gap=13)
    below = row([layers, f"<div>{images}{''.join(bars)}</div>"], gap=20)
    return HTML(f"{mark}{title}{below}")


def bar(name: str, value: float, most: float, words: str) -> str:
    """A number as a length, with its words above."""
    part = 100 * max(0.0, value) / most
    return (
        f'<div style="margin-top:.6em">{name}: {words}<div style="border:1px solid currentColor;height:8px;width:16em;max-width:100%">'
        f'<div style="background:{COLOURS[0]};height:8px;width:{part:.1f}%"></div></div></div>'
    )


def _grid(columns: int) -> str:
    return f"display:grid;gap:5px;grid-template-columns:repeat({columns},1fr);max-width:{columns * (THUMB + 5)}px"


def _image(one: Tensor, side: int, alt: str) -> str:
    """An image (1, 3, height, width), so many CSS pixels wide, its pixels as squares."""
    return replace(strip(one.cpu(), alt), width=side).tag(";image-rendering:pixelated;display:block;margin:0")
