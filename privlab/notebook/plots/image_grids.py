"""Images in rows, each row with its title and each image with its caption, as one `Picture`."""

import html
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from privlab.notebook import sheet
from privlab.notebook.plots.picture import Picture

WIDTH, LARGEST, GAP, ROW = 576, 230, 8, 8  # CSS pixels of a row, of one image, and between two; images in a row


def side_by_side(*shown: Tensor, titles: Sequence[str], alt: str) -> Picture:
    """Single images next to each other, each with its title below it, such as "truth" and "recovered, 110 dB".

    shown: (1, channels, height, width) each, clamped to [0, 1]; sizes may differ.  titles: one an image.
    """
    return images({"": shown}, alt, {"": titles})


def tiles(strip: np.ndarray, side: int) -> Tensor:
    """The square images of a strip or grid, such as an experiment keeps as a picture, row by row: (n, 3, side, side) in [0, 1].

    strip: uint8 (rows * side, columns * side, 3).
    """
    grid = torch.from_numpy(strip / 255).float().unflatten(0, (-1, side)).unflatten(2, (-1, side))
    return grid.permute(0, 2, 4, 1, 3).flatten(0, 1)


def images(
    rows: Mapping[str, Tensor | Sequence[Tensor]], alt: str, captions: Mapping[str, Sequence[str]] = {},
    smooth: bool = False,
) -> Picture:  # fmt: skip
    """Batches of images, a titled row each, for instance the truth above what was recovered.

    More than eight go on below, and on a telephone what is wider than two.
    rows: title -> (batch, 1 or 3, height, width), or single images, shown clamped to [0, 1]. Small images are enlarged.
    captions: row title -> one line an image, such as its PSNR; rows may be missing.  Raises ValueError for one too few or too many.
    smooth: enlarge without the edges of pixels, among which nobody sees a face.
    """
    side = min(LARGEST, (WIDTH + GAP) // min(ROW, max(map(len, rows.values()))) - GAP)
    look = f";width:min({side}px, 47%);min-width:min-content;text-align:center;line-height:1.3"
    pixels, parts = sheet.SMOOTH if smooth else sheet.SQUARES, []
    for title, batch in rows.items():
        cells = batch.split(1) if isinstance(batch, Tensor) else batch
        shown = [
            sheet.figure(sheet.picture(cell, f"{title} {text}".strip() or alt, side, pixels), html.escape(text), look)
            for cell, text in zip(cells, captions.get(title, [""] * len(cells)), strict=True)
        ]
        parts += [f'<p style="margin:.6em 0 .2em"><strong>{html.escape(title)}</strong></p>'] if title else []
        parts.append(sheet.row(shown, GAP))
    look = f"max-width:{WIDTH + 3 * GAP}px;margin:.3em 0"
    return Picture(f'<div role="img" aria-label="{html.escape(alt)}" style="{look}">{"".join(parts)}</div>', alt)
