"""The pictures that an attacker asks a model about for one image: the image, its mirror image, and small translations.

All of them are deterministic: "shift_1_0" is the same picture for the victim, for every shadow model and in every run. Random crops
have no place here, though a public tool numbers them as "query k": a crop drawn anew for each model makes the k-th answers of two
models answers to different questions, and what an attack then compares is partly the draw.

    image          as it is
    mirror         left to right
    shift_DX_DY    moved DX pixels to the right and DY down (negative: left, up), as in shift_1_0 or shift_-1_2
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from privlab.data.sources import nearest

SHIFT = re.compile(r"shift_(-?\d+)_(-?\d+)")


def shifted(pixels: Tensor, right: int, down: int) -> Tensor:
    """The images moved by whole pixels; the border that comes free repeats the image's own edge.

    The edge is repeated, rather than black put in, because the released code of Choquette-Choo et al. 2021 does so: a black
    border is something that no training image had, and part of the answer would be about that.
    pixels: (n, channels, height, width), of any type.
    """
    height, width = pixels.shape[-2:]
    rows = (torch.arange(height, device=pixels.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=pixels.device) - right).clamp(0, width - 1)
    return pixels[..., rows[:, None], columns]


def query(pixels: Tensor, name: str) -> Tensor:
    """What a query makes of pixels (n, channels, height, width), bytes or floats.  Raises ValueError for a name that is no query."""
    if name == "image":
        return pixels
    if name == "mirror":
        return pixels.flip(-1)
    if match := SHIFT.fullmatch(name):
        return shifted(pixels, int(match[1]), int(match[2]))
    raise ValueError(f"query={name!r} is not known{nearest(name, ['image', 'mirror', 'shift_DX_DY'])}, as in shift_1_0")


def apply(pixels: Tensor, names: Sequence[str]) -> Iterator[Tensor]:
    """The pictures of each query, one after the other, so that only one set of them is in memory at a time."""
    return (query(pixels, name) for name in names)


def shifts(d: int) -> list[str]:
    """The translations of the label-only attack: the image, then every shift of exactly d pixels in all, |DX| + |DY| = d.

    d: 0 or more; d = 0 is the image alone, which makes the attack the plain correctness gap.
    Returns 4 d + 1 names; for d = 1 the image and its four neighbours. Shifts of *less* than d are not among them.
    Source: Choquette-Choo et al. 2021, the data-augmentation attack by translation (N = 4d + 1), as their released code draws it.
    """
    around = [(x, y) for x in range(-d, d + 1) for y in sorted({abs(x) - d, d - abs(x)}) if d]
    return ["image", *(f"shift_{x}_{y}" for x, y in around)]
