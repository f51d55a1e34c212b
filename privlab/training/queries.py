"""The pictures that an attacker asks a model about for one image: the image, its mirror image, and small translations.

All of them are deterministic: "shift_1_0" is the same picture for the victim, for every shadow model and in every run. Random crops
have no place here, though a public tool numbers them as "query k": a crop drawn anew for each model makes the k-th answers of two
models answers to different questions, and what an attack then compares is partly the draw.

    image               as it is
    mirror              left to right
    shift_DX_DY         moved DX pixels to the right and DY down (negative: left, up), as in shift_1_0 or shift_-1_2
    mirror_shift_DX_DY  mirrored first, then moved
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from privlab.data.sources import nearest

KNOWN = ["image", "mirror", "shift_DX_DY", "mirror_shift_DX_DY"]
_SHIFT = re.compile(r"(mirror_)?shift_(0|-?[1-9]\d*)_(0|-?[1-9]\d*)")


def shifted(pixels: Tensor, right: int, down: int) -> Tensor:
    """The images moved by whole pixels; the border that comes free repeats the image's own edge.

    The edge is repeated, rather than black put in, because the released code of Choquette-Choo et al. 2021 does so: a black
    border is something that no training image had, and part of the answer would be about that.
    pixels: (n, channels, height, width), of any type.  right, down: less than the width and the height, either way.
    Raises ValueError for a shift that leaves nothing of the image.
    """
    height, width = pixels.shape[-2:]
    if abs(right) >= width or abs(down) >= height:
        raise ValueError(
            f"shift_{right}_{down} leaves nothing of {height} x {width} pixels but the edge; shift by less"
        )
    rows = (torch.arange(height, device=pixels.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=pixels.device) - right).clamp(0, width - 1)
    return pixels[..., rows[:, None], columns]


def query(name: str) -> Callable[[Tensor], Tensor]:
    """The function behind a name: pixels (n, channels, height, width), bytes or floats, to as many of the same type and shape.

    Raises ValueError for a name that is no query, with the nearest that is; for "shift_0_0", which is the image again.
    """
    if name == "image":
        return lambda pixels: pixels
    if name == "mirror":
        return lambda pixels: pixels.flip(-1)
    match = _SHIFT.fullmatch(name)
    if match is None:
        raise ValueError(f"query={name!r} is not known{nearest(name, KNOWN)}, as in shift_1_0 or mirror_shift_-1_2")
    first, right, down = "mirror" if match[1] else "image", int(match[2]), int(match[3])
    if right == down == 0:
        raise ValueError(f"query={name!r} moves nothing; give {first!r}")
    return lambda pixels: shifted(query(first)(pixels), right, down)


def apply(pixels: Tensor, names: Sequence[str]) -> Iterator[Tensor]:
    """The pictures of each query, one query after the other, so that only one set of them is in memory at a time.

    pixels: (n, channels, height, width), bytes or floats.  names: queries, in the order wanted, none of them twice.
    Yields (n, channels, height, width) of the pixels' type for each name. Names are checked at the call.
    Raises ValueError for one that is not known (see `query`), or given twice.
    """
    if len(set(names)) < len(names):
        raise ValueError(f"names={list(names)}: the same question gets the same answer; give each once")
    functions = [query(name) for name in names]
    return (function(pixels) for function in functions)


def shifts(d: int) -> list[str]:
    """The translations of the label-only attack: the image, then every shift of exactly d pixels in all, |DX| + |DY| = d.

    d: 0 or more; d = 0 is the image alone, which makes the attack the plain correctness gap.
    Returns 4 d + 1 names; for d = 1 the image and its four neighbours. Shifts of *less* than d are not among them.
    Raises ValueError for a d below 0.
    Source: Choquette-Choo et al. 2021, the data-augmentation attack by translation (N = 4d + 1), as their released code draws it.
    """
    if d < 0:
        raise ValueError(f"d={d!r} is no distance in pixels; give 0 or more")
    around = [(x, y) for x in range(-d, d + 1) for y in sorted({abs(x) - d, d - abs(x)}) if d]
    return ["image", *(f"shift_{x}_{y}" for x, y in around)]
