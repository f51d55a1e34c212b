"""Pictures beside the evidence: small PNG strips, of the first repeats alone, so that the book shows what the numbers are about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from privlab.ledger import evidence

SHOWN = 3  # so many repeats of a size have their pictures kept, the first ones


def tiled(rows: Iterable[Tensor | Sequence[Tensor]]) -> Tensor:
    """Images in [0, 1] as evidence keeps them, one row below the other: uint8 (height, width[, 3]).

    rows: each a batch (n, channels, height, width), or so many images (1, channels, height, width) beside one another.
    """
    batches = [row if isinstance(row, Tensor) else torch.cat([image.detach().cpu() for image in row]) for row in rows]
    strips = [torch.cat([*batch.cpu()], -1) for batch in batches]  # each (channels, height, width * n)
    whole = torch.cat(strips, -2)
    pixels = (whole.clamp(0, 1) * 255).round().to(torch.uint8)
    return pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous()


def _place(experiment: str, size: str, repeat: int, name: str, root: Path | None) -> Path:
    """Where a picture lies.  name: metric[key, ...], as its experiment yields it."""
    words = "-".join(re.findall(r"[a-z0-9_]+", name))
    return evidence.path(experiment, size, root).with_suffix("") / f"{repeat}-{words}.png"


def save(experiment: str, size: str, repeat: int, images: Mapping[str, Tensor], root: Path) -> None:
    """Keep pictures of a repeat, uint8 (height, width[, 3])."""
    for name, image in images.items():
        file = _place(experiment, size, repeat, name, root)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.numpy()).save(file, optimize=True)


def load(experiment: str, size: str, repeat: int, name: str) -> np.ndarray | None:
    """A kept picture, uint8 (height, width[, 3]); None where there is none."""
    file = _place(experiment, size, repeat, name, None)
    return np.array(Image.open(file)) if file.exists() else None
