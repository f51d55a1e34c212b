"""The pictures that an attacker asks a model about for one image: "image" as it is, "mirror" left to right, and "shift_DX_DY", moved DX
pixels to the right and DY down, as in shift_1_0 or shift_-1_2.

All are deterministic, the same for the victim and every shadow model: of a crop drawn anew for each, answers could not be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def apply(pixels: Tensor, names: Sequence[str]) -> Iterator[Tensor]:
    """Of pixels (n, channels, height, width), of any type, the pictures of each query, so that only one set of them is in memory."""
    for name in names:
        if name == "image":
            yield pixels
        elif name == "mirror":
            yield pixels.flip(-1)
        else:
            right, down = map(int, name.removeprefix("shift_").split("_"))
            yield shifted(pixels, right, down)


def shifted(pixels: Tensor, right: int, down: int) -> Tensor:
    """The images moved by whole pixels; the free border repeats the image's own edge, as in Choquette-Choo et al. 2021's released code."""
    height, width = pixels.shape[-2:]
    rows = (torch.arange(height, device=pixels.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=pixels.device) - right).clamp(0, width - 1)
    return pixels[..., rows[:, None], columns]


def shifts(d: int) -> list[str]:
    """The translations of the label-only attack: the image, then every shift with |DX| + |DY| = d; 4 d + 1 names.

    Source: Choquette-Choo et al. 2021, the data-augmentation attack by translation, as their released code draws it.
    """
    around = [(x, y) for x in range(-d, d + 1) for y in sorted({abs(x) - d, d - abs(x)}) if d]
    return ["image", *(f"shift_{x}_{y}" for x, y in around)]
