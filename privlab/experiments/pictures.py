"""Pictures beside the evidence: small PNG strips, of the first repeats alone, so that the book shows what the numbers are about."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from privlab.ledger import evidence

SHOWN = 3  # so many repeats of a size have their pictures kept, the first ones


def tiled(rows: Iterable[Tensor | Sequence[Tensor]]) -> Tensor:
    """Images in [0, 1] as evidence keeps them, one row below the other: uint8 (height, width[, 3]).

    rows: each a batch (n, channels, height, width), or so many images (1, channels, height, width) beside one another.
    """
    batches = [row if isinstance(row, Tensor) else torch.cat([image.detach().cpu() for image in row]) for row in rows]
    whole = torch.cat([torch.cat([*batch.cpu()], -1) for batch in batches], -2)  # (channels, height, width)
    pixels = (whole.clamp(0, 1) * 255).round().to(torch.uint8)
    return pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous()


def place(experiment: str, size: str, repeat: int, name: str, root: Path | None = None) -> Path:
    """The PNG of a picture.  name: metric[key, ...], as its experiment yields it."""
    words = "-".join(re.findall(r"[a-z0-9_]+", name))
    return evidence.path(experiment, size, root).with_suffix("") / f"{repeat}-{words}.png"
