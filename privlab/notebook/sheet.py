"""The sheet of a game, as HTML: paragraphs, and images with words below them, in rows that a narrow page breaks."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable

import torch
from PIL import Image
from torch import Tensor

from privlab.notebook import plots
from privlab.notebook.plots.image_grids import pixels

WIDTH, LARGEST = 560, 256  # CSS pixels that images side by side, and one of them, may take
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


def strip(batch: Tensor, alt: str) -> plots.Picture:
    """A batch (n, 1 or 3, height, width) in [0, 1] side by side, a white pixel between, in its own size: the browser enlarges it."""
    gap = torch.ones_like(batch[0, :, :, :1])
    joined = torch.cat([part for image in batch for part in (gap, image)][1:], 2)
    side, native = min(LARGEST, WIDTH // len(batch)), batch.shape[3]
    factor = side // native or side / native  # whole, unless the image has to shrink
    file = io.BytesIO()
    Image.fromarray(pixels(joined[None])[0]).save(file, "PNG", optimize=True)
    return plots.Picture(file.getvalue(), alt, round(joined.shape[2] * factor))
