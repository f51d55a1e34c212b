"""Networks and what a search found behind each, as HTML: all images in a row with one marked, its layers in boxes, and numbers as bars."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from IPython.display import HTML
from torch import Tensor

from privlab.notebook.plots.architecture_drawing import FACES, kind, marks
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
    below = "".join(bars)
    return HTML(f"{mark}{title}{row([layers, f'<div>{images}{below}</div>'], gap=20)}")


def _grid(columns: int) -> str:
    return f"display:grid;gap:5px;grid-template-columns:repeat({columns},1fr);max-width:{columns * (THUMB + 5)}px"


def stack(parts: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> str:
    """Layers from top to bottom; what is new or changed is marked, and what is gone is named below.

    parts: what it is a stack of, such as "the stem" -> the layers it is compared with, and the layers, as `models.morph.outline` says them.
    """
    shown = []
    for name, (old, new) in parts.items():
        gone, mark = marks(old, new)
        boxes = "".join(_box(layer, word) for layer, word in zip(new, mark, strict=True))
        lost = ", ".join(layer for layer, word in zip(old, gone, strict=True) if word == "gone")
        below = f'<p style="margin:.2em 0">gone: {html.escape(lost)}</p>' if lost else ""
        shown.append(f'<p style="margin:.2em 0">{html.escape(name)}</p>{boxes}{below}')
    return f'<div style="width:17em;max-width:100%">{"".join(shown)}</div>'


def bar(name: str, value: float, most: float, words: str) -> str:
    """A number as a length, with its words above."""
    part = 100 * max(0.0, value) / most
    return (
        f'<div style="margin-top:.6em">{name}: {words}<div style="border:1px solid currentColor;height:8px;width:16em;max-width:100%">'
        f'<div style="background:{COLOURS[0]};height:8px;width:{part:.1f}%"></div></div></div>'
    )


def _box(layer: str, mark: str) -> str:
    """A layer on a light ground with black letters, in a dark theme as in a light one."""
    edge = f"3px solid {COLOURS[1]}" if mark else "1px solid #777777"
    word = f"<strong>{mark}: </strong>" if mark else ""
    return (
        f'<div style="background:{FACES[kind(layer)]};color:#000000;border:{edge};border-radius:5px;padding:1px 8px;margin-bottom:5px">'
        f"{word}{html.escape(layer)}</div>"
    )


def _image(one: Tensor, side: int, alt: str) -> str:
    """An image (1, 3, height, width), so many CSS pixels wide, its pixels as squares."""
    return replace(strip(one.cpu(), alt), width=side).tag(";image-rendering:pixelated;display:block;margin:0")
