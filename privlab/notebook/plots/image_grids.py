"""Images in rows, each row with its title and each image with its caption, as one `Picture`."""

from __future__ import annotations

import functools
import io
import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from PIL import Image
from torch import Tensor

from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import CHART, DPI, WIDTH, Picture


def side_by_side(*batches: Tensor, titles: Sequence[str], alt: str) -> Picture:
    """Single images next to each other, each with its title below it, such as "truth" and "recovered, 110 dB".

    batches: (1, channels, height, width) each, shown clamped to [0, 1]; sizes may differ.  titles: one an image.
    Raises ValueError for other shapes, NaN, a missing title or an empty alt.
    """
    cells = [pixels(batch) for batch in batches]
    if any(len(cell) != 1 for cell in cells):
        raise ValueError(f"batches: got {[len(cell) for cell in cells]} images; give single ones, or call plots.images")
    if len(cells) != len(titles):
        raise ValueError(f"titles: got {len(titles)} for {len(cells)} images; give one each")
    return _grid([("", [cell[0] for cell in cells], list(titles))], alt)


def images(rows: Mapping[str, Tensor], alt: str, captions: Mapping[str, Sequence[str]] | None = None) -> Picture:
    """Batches of images, a titled row each (more than eight wrap), for instance the truth above what was recovered.

    rows: title -> (batch, 1 or 3, height, width), shown clamped to [0, 1]. Small images are enlarged without smoothing.
    captions: row title -> one line an image, such as its PSNR; rows may be missing.
    Raises ValueError for other shapes, NaN, a caption too few or an empty alt.
    """
    captions = captions or {}
    if unknown := [title for title in captions if title not in rows]:
        raise ValueError(f"captions: there is no row {unknown[0]!r}; the rows are {list(rows)}")
    for title, texts in captions.items():
        if len(texts) != len(rows[title]):
            raise ValueError(f"captions: {len(texts)} for the {len(rows[title])} images of {title!r}; give one each")
    return _grid([(title, pixels(batch), list(captions.get(title, ()))) for title, batch in rows.items()], alt)


def tiles(strip: np.ndarray, side: int) -> Tensor:
    """The square images of a strip or grid, such as an experiment keeps as a picture, row by row: (n, 3, side, side) in [0, 1].

    strip: uint8 (rows * side, columns * side, 3).  Raises ValueError for sides that are no multiple.
    """
    height, width = strip.shape[:2]
    if height % side or width % side:
        raise ValueError(
            f"side={side} does not divide a strip of {height} x {width} pixels; give the side of one image"
        )
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
    """The images of a batch as (height, width, 3) bytes, clamped to [0, 1] as a screen would."""
    if batch.ndim != 4 or batch.shape[1] not in (1, 3) or batch.numel() == 0:
        raise ValueError(f"images: got shape {tuple(batch.shape)}; give (batch, 1 or 3, height, width)")
    if not batch.is_floating_point() or batch.isnan().any():
        what = "NaN among the pixels" if batch.is_floating_point() else str(batch.dtype)
        raise ValueError(f"images: got {what}; give floats, black at 0 and white at 1")
    rounded = (batch.detach().float().cpu().clamp(0, 1) * 255).round().byte().expand(-1, 3, -1, -1)
    return list(rounded.permute(0, 2, 3, 1).numpy())


def _grid(rows: list[tuple[str, list[np.ndarray], list[str]]], alt: str) -> Picture:
    """Titled rows of captioned images. They are pasted into one array first: an axes for each would take far longer."""
    rows = [
        (title if start == 0 else "", cells[start : start + 8], below[start : start + 8])
        for title, cells, below in rows
        for start in range(0, len(cells), 8)
    ]
    if not rows:
        raise ValueError("images: got none; give at least one")
    columns = max(len(cells) for _, cells, _ in rows)
    gap = 0.08  # inches
    side = min(2.4, (WIDTH - gap * (columns - 1)) / columns)
    width = columns * (side + gap) - gap
    if any(title for title, _, _ in rows):
        width = max(width, 4.0)  # room for a title over a single image
    size = 10 * max(1, width / CHART)  # points; a telephone shrinks it to the 9 pixels of a chart's
    longest = max((_inches(word) for *_, below in rows for text in below for word in text.split()), default=0.0)
    small = max(8.0, min(size, side / max(longest, 1e-6)))  # points; a word is rather smaller than broken
    line = 0.019 * size
    wrapped = [[_lines(text, side / small) for text in below] for _, _, below in rows]
    above = [line * 1.5 if title else 0.0 for title, _, _ in rows]  # heights: of the titles,
    tall = [side * max(cell.shape[0] / cell.shape[1] for cell in cells) for _, cells, _ in rows]  # of the images,
    under = [line * max(map(len, below), default=0) for below in wrapped]  # and of the captions
    total = sum(above) + sum(tall) + sum(under) + 2 * gap * len(rows)

    figure = Figure(figsize=(width, total), dpi=DPI)
    canvas = np.full((math.ceil(total * DPI), math.ceil(width * DPI), 3), 255, np.uint8)
    top = gap / 2
    for row, (title, cells, _) in enumerate(rows):
        top += above[row]
        if title:
            figure.text(0, 1 - (top - 0.05) / total, title, va="bottom", fontsize=size + 0.5, fontweight="bold")
        for i, cell in enumerate(cells):
            left = i * (side + gap)
            _paste(canvas, cell, left, top, side)
            if wrapped[row]:
                middle, below = (left + side / 2) / width, 1 - (top + tall[row] + 0.03) / total
                figure.text(middle, below, "\n".join(wrapped[row][i]), ha="center", va="top", fontsize=small)
        top += tall[row] + under[row] + 2 * gap
    figure.figimage(canvas, origin="upper")
    return picture.render(figure, alt)


@functools.cache
def _inches(text: str) -> float:
    """How wide a text is at a size of one point, as drawn: digits and capitals are far wider than an i."""
    wide = TextToPath().get_text_width_height_descent(text, FontProperties(size=100), ismath=False)[0] / 7200
    return 1.04 * wide  # small letters are drawn on whole pixels, and may take some more


def _lines(text: str, room: float) -> list[str]:
    """The text in lines no wider than `room` inches at a size of one point; only a word that is wider itself is broken."""
    lines: list[str] = []
    for word in text.split():
        if lines and _inches(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        else:
            letters = max(1, int(len(word) * min(1.0, room / _inches(word) + 1e-9)))  # one that just fits is not broken
            lines += textwrap.wrap(word, letters)
    return lines


def _paste(canvas: np.ndarray, cell: np.ndarray, left: float, top: float, side: float) -> None:
    """Put an image at (left, top), `side` wide (inches): enlarged as squares, shrunk smoothly."""
    size = round(side * DPI), round(side * DPI * cell.shape[0] / cell.shape[1])
    how = Image.Resampling.NEAREST if size[0] >= cell.shape[1] else Image.Resampling.LANCZOS
    x, y = round(left * DPI), round(top * DPI)
    area = canvas[y : y + size[1], x : x + size[0]]
    area[:] = np.asarray(Image.fromarray(cell).resize(size, how))[: area.shape[0], : area.shape[1]]
