"""How much of an image a picture shows: as it comes, and at its best brightness and contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from privlab import metrics

TARGET, SLACK = 15.0, 0.5  # dB: a picture shows its image above that, and so far above a flat one
GAIN = 2.0  # dB above all pictures that look at no gradient, each at its best brightness and contrast: a correlation of 0.6
OF_A_SQUARE = 10.0  # the same of a square of the image, among which the best is sought
EXACT = 200.0  # dB: more than floats hold
IMAGE, UP_TO, SQUARE = "the image", "the image up to brightness and contrast", "a square of the image"


class Look(NamedTuple):
    """What a picture shows, `IMAGE`, `UP_TO`, `SQUARE` or ""; its PSNR in dB, as it comes and fitted; and the better picture."""

    shows: str
    psnr: float
    fitted: float
    picture: Tensor


class Judge:
    """Knows one image, (1, channels, height, width), and pictures that look at no gradient, a flat one first."""

    def __init__(self, image: Tensor, blind: Sequence[Tensor]) -> None:
        self.image, self.level = image, max(TARGET, _psnr(blind[0], image) + SLACK)
        self.blind = max(_psnr(fitted(picture, image), image) for picture in blind)

    def look(self, start: Tensor, step: Tensor) -> Look:
        """At the picture start + step, where start is what an attacker knows without a gradient; a step of another size is resized."""
        if step.shape != self.image.shape:
            if (square := self._square(step)) is not None:
                return square
            step = F.interpolate(step, self.image.shape[2:], mode="bilinear")
        picture, near = (start + step).clamp(0, 1), fitted(step, self.image, start)
        plain, best = _psnr(picture, self.image), _psnr(near, self.image)
        if plain > self.level:
            return Look(IMAGE, plain, best, picture)
        return Look(UP_TO if best > self.blind + GAIN else "", plain, best, near)

    def _square(self, step: Tensor) -> Look | None:
        """That square of the image, of those side by side, which a small picture fits best; None where it fits none."""
        side, shape = step.shape[2], (-1, *step.shape[1:])
        squares = F.unfold(self.image, side, stride=side)[0].T.reshape(shape).split(1)
        looks = [Look(SQUARE, _psnr(step, s), _psnr(near := fitted(step, s), s), near) for s in squares]
        gains = [look.fitted - _psnr(fitted(0 * s, s), s) for look, s in zip(looks, squares, strict=True)]
        return looks[gains.index(max(gains))] if max(gains, default=0.0) > OF_A_SQUARE else None


def fitted(step: Tensor, image: Tensor, start: Tensor | float = 0.0) -> Tensor:
    """start + a step + b, nearest to the image, clamped to [0, 1]."""
    rest, centred = image - start, step - step.mean()
    factor = (centred * (rest - rest.mean())).sum() / centred.square().sum().clamp(min=1e-30)
    return (start + factor * centred + rest.mean()).clamp(0, 1)


def _psnr(picture: Tensor, image: Tensor) -> float:
    return min(metrics.psnr(picture, image).item(), EXACT)
