"""Images in rows, each row with its title and each image with its caption, as one `Picture`."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import Picture

WIDTH, LARGEST, GAP, ROW = 864, 346, 12, 8  # pixels of a row, of one image, and between two; images in a row


def side_by_side(*batches: Tensor, titles: Sequence[str], alt: str) -> Picture:
    """Single images next to each other, each with its title below it, such as "truth" and "recovered, 110 dB".

    batches: (1, channels, height, width) each, shown clamped to [0, 1]; sizes may differ.  titles: one an image.
    Raises ValueError for NaN, more than one image in a batch, a missing title or an empty alt.
    """
    cells = [cell for batch in batches for cell in pixels(batch)]
    if not len(cells) == len(batches) == len(titles):
        raise ValueError(f"titles: {len(titles)} for {len(batches)} batches of {len(cells)} images; give one each")
    return _grid([("", cells, list(titles))], alt)


def images(rows: Mapping[str, Tensor], alt: str, captions: Mapping[str, Sequence[str]] | None = None) -> Picture:
    """Batches of images, a titled row each (more than eight wrap), for instance the truth above what was recovered.

    rows: title -> (batch, 1 or 3, height, width), shown clamped to [0, 1]. Small images are enlarged without smoothing.
    captions: row title -> one line an image, such as its PSNR; rows may be missing.
    Raises ValueError for NaN, a caption too few or an empty alt.
    """
    captions = captions or {}
    for title, words in captions.items():
        if len(words) != len(rows[title]):
            raise ValueError(f"captions: {len(words)} for the {len(rows[title])} images of {title!r}; give one each")
    return _grid([(title, pixels(batch), list(captions.get(title, ()))) for title, batch in rows.items()], alt)


def tiles(strip: np.ndarray, side: int) -> Tensor:
    """The square images of a strip or grid, such as an experiment keeps as a picture, row by row: (n, 3, side, side) in [0, 1].

    strip: uint8 (rows * side, columns * side, 3).
    """
    height, width = strip.shape[:2]
    grid = torch.from_numpy(strip / 255).float().view(height // side, side, width // side, side, 3)
    return grid.permute(0, 2, 4, 1, 3).reshape(-1, 3, side, side)


def smooth(batch: Tensor, width: int = 192) -> Tensor:
    """Images (n, channels, height, width) in [0, 1], enlarged to so many pixels a row, smoothly.

    For faces: among squares a reader sees the edges of the squares.
    """
    size = round(width * batch.shape[2] / batch.shape[3]), width
    return torch.nn.functional.interpolate(batch, size, mode="bicubic", antialias=True)


def face(image: Tensor, alt: str, width: int = 192) -> Picture:
    """One image (channels, height, width) in [0, 1] without a title, enlarged smoothly; so many CSS pixels wide."""
    (cell,) = pixels(smooth(image[None], width))
    file = io.BytesIO()
    Image.fromarray(cell).save(file, "PNG", compress_level=2)
    return Picture(file.getvalue(), alt, width)


def pixels(batch: Tensor) -> list[np.ndarray]:
    """The images of a batch (n, 1 or 3, height, width) as (height, width, 3) bytes, clamped to [0, 1] as a screen would."""
    if batch.ndim != 4 or batch.isnan().any():
        what = "NaN among the pixels" if batch.ndim == 4 else f"shape {tuple(batch.shape)}"
        raise ValueError(f"images: got {what}; give (batch, 1 or 3, height, width), black at 0 and white at 1")
    rounded = (batch.detach().float().cpu().clamp(0, 1) * 255).round().byte().expand(-1, 3, -1, -1)
    return list(rounded.permute(0, 2, 3, 1).numpy())


def _grid(rows: Sequence[tuple[str, Sequence[np.ndarray], Sequence[str]]], alt: str) -> Picture:
    """Titled rows of captioned images; what is longer than a row goes on below it."""
    columns = min(ROW, max(len(cells) for _, cells, _ in rows))
    side = min(LARGEST, (WIDTH + GAP) // columns - GAP)
    size = 24 if columns * side > 0.8 * WIDTH else 20  # of letters; a telephone shrinks a wide picture more
    words = [word for *_, below in rows for text in below for word in text.split()]
    longest = max(map(_font(size).getlength, words), default=1.0)
    small = _font(max(16, min(size, int(size * side / longest))))  # a word is rather smaller than broken
    parts = []
    for title, cells, below in rows:
        parts += [_words(title, _font(size + 1, ":bold"), _font(size + 1, ":bold").getlength(title))] if title else []
        shown = [_enlarged(cell, side) for cell in cells]
        if below:
            shown = [
                _joined([image, _words(text, small, side)], down=True) for image, text in zip(shown, below, strict=True)
            ]
        parts += [_joined(shown[start : start + ROW]) for start in range(0, len(shown), ROW)]
    file = io.BytesIO()
    grid = _joined(parts, down=True)
    grid.save(file, "PNG", compress_level=2)
    return Picture(file.getvalue(), alt, round(grid.width * 96 / picture.DPI))


@cache
def _font(size: int, style: str = "") -> ImageFont.FreeTypeFont:
    """The letters of the charts, so many pixels high."""
    return ImageFont.truetype(findfont(f"DejaVu Sans{style}"), size)


def _enlarged(cell: np.ndarray, side: int) -> Image.Image:
    """An image `side` pixels wide: enlarged as squares, shrunk smoothly."""
    how = Image.Resampling.NEAREST if side >= cell.shape[1] else Image.Resampling.LANCZOS
    return Image.fromarray(cell).resize((side, round(side * cell.shape[0] / cell.shape[1])), how)


def _words(text: str, font: ImageFont.FreeTypeFont, wide: float) -> Image.Image:
    """Words on lines that are so many pixels wide, in their middle."""
    lines = [""]
    for word in text.split():
        if lines[-1] and font.getlength(f"{lines[-1]} {word}") > wide:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    height = round(1.3 * font.size)
    canvas = Image.new("RGB", (math.ceil(max(wide, *map(font.getlength, lines))), height * len(lines)), "white")
    for number, line in enumerate(lines):
        ImageDraw.Draw(canvas).text((canvas.width / 2, number * height), line, "black", font, "ma")
    return canvas


def _joined(parts: Sequence[Image.Image], down: bool = False) -> Image.Image:
    """Pictures beside each other, or one below the other, on white."""
    wide, high = [part.width for part in parts], [part.height for part in parts]
    gaps = GAP * (len(parts) - 1)
    canvas = Image.new("RGB", (max(wide), sum(high) + gaps) if down else (sum(wide) + gaps, max(high)), "white")
    for k, part in enumerate(parts):
        canvas.paste(part, (0, sum(high[:k]) + k * GAP) if down else (sum(wide[:k]) + k * GAP, 0))
    return canvas
