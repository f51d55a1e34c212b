"""A square of the picture, at its own size again: what an attack looks at on its way."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def random_window(
    images: Tensor,
    share: tuple[float, float],
    draw: torch.Generator,
    ratio: tuple[float, float] = (1.0, 1.0),
    mirror: bool = False,
) -> Tensor:
    """One random window of these images, the same of each, enlarged to their size: what a shaky camera does.

    images: (n, channels, height, width).  share: of the area, drawn evenly from this range; (1, 1) leaves them as they are.
    ratio: of the window's width to its height, against the image's own.  mirror: flip every other view.
    """
    area, shape, down, right, flip = torch.rand(5, generator=draw).tolist()
    size, stretch = (low + (high - low) * x for (low, high), x in ((share, area), (ratio, shape)))
    height, width = images.shape[-2:]
    h = min(max(round(height * (size / stretch) ** 0.5), 1), height)
    w = min(max(round(width * (size * stretch) ** 0.5), 1), width)
    if (h, w) != (height, width):
        top, left = round(down * (height - h)), round(right * (width - w))
        some = images[..., top : top + h, left : left + w]
        images = F.interpolate(some, (height, width), mode="bilinear", align_corners=False, antialias=True)
    return images.flip(-1) if mirror and flip < 0.5 else images
