"""How much of an image a picture shows, by three measures, beside pictures that look at no gradient.

PSNR alone lets a picture pass whose places are right and whose colours are not. So a picture shows an image where its PSNR is above a
level, or where it is nearer to the image than every picture that looks at no gradient by both SSIM and LPIPS (one of them, where the
other cannot be had).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from privlab import metrics
from privlab.data import sources
from privlab.metrics import image_quality

SLACK = 0.5  # dB: what is so near to a flat picture's score shows no more than that
NEARER = 0.02  # the same of SSIM and LPIPS


@dataclass(frozen=True)
class Likeness:
    """Of one picture to one image.  psnr: in dB.  ssim: None for images below its window.  lpips: None where it cannot be had."""

    psnr: float
    ssim: float | None
    lpips: float | None


@dataclass(frozen=True)
class Level:
    """What a picture of one image has to stay below.  psnr: the target, or a flat picture's score where that is higher.

    score, ssim, lpips: the best of the pictures that look at no gradient, by each measure.
    """

    psnr: float
    score: float
    ssim: float | None
    lpips: float | None

    def nearer(self, picture: Likeness) -> bool:
        """Whether a picture is nearer to the image than all that look at no gradient, by SSIM and LPIPS, whatever its PSNR."""
        nearer = []
        if self.ssim is not None and picture.ssim is not None:
            nearer.append(picture.ssim > self.ssim + NEARER)
        if self.lpips is not None and picture.lpips is not None:
            nearer.append(picture.lpips < self.lpips - NEARER)
        return bool(nearer) and all(nearer)


def likeness(picture: Tensor, image: Tensor) -> Likeness:
    """A picture against an image, both (1, channels, height, width)."""
    side = min(image.shape[2:])
    ssim = metrics.ssim(picture, image).item() if side >= image_quality.SSIM_WINDOW else None
    lpips = None if without_lpips(image) else metrics.lpips(picture.cpu().float(), image).item()
    return Likeness(metrics.psnr(picture, image).item(), ssim, lpips)


def level(target: float, image: Tensor, blind: Sequence[Tensor], flat: Tensor) -> Level:
    """The level of one image.  target: in dB.  blind: pictures that look at no gradient, the flat one among them."""
    scores = [likeness(picture, image) for picture in blind]
    return Level(
        max(target, metrics.psnr(flat, image).item() + SLACK),
        max(s.psnr for s in scores),
        max((s.ssim for s in scores if s.ssim is not None), default=None),
        min((s.lpips for s in scores if s.lpips is not None), default=None),
    )


def without_lpips(image: Tensor) -> str | None:
    """Why LPIPS cannot be had for an image, or None."""
    if image.shape[1] not in (1, 3):
        return f"it is of 1 or 3 channels, and these images have {image.shape[1]}"
    if min(image.shape[2:]) < (least := image_quality.LPIPS_SIDE):
        return f"it needs sides of {least} pixels"
    if sources.complete("lpips"):
        return None
    return "its weights are not here: privlab.data.sources.fetch('lpips') brings them, once"
