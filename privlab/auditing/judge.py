"""How much of an image a picture shows: as it comes, and at its best brightness and contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from privlab import metrics

TARGET, SLACK = 15.0, 0.5  # dB: a picture shows its image above that, and so far above a flat one
GAIN = 1.0  # dB above all pictures that look at no gradient, each at its best brightness and contrast: a correlation of 0.45
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
        """At the picture start + step, where start is what an attacker knows without a gradient; a smaller step is held against squares."""
        if step.shape != self.image.shape:
            return self._at_a_square(step)
        picture, near = (start + step).clamp(0, 1), fitted(step, self.image, start)
        plain, best = _psnr(picture, self.image), _psnr(near, self.image)
        if plain > self.level:
            return Look(IMAGE, plain, best, picture)
        return Look(UP_TO if best > self.blind + GAIN else "", plain, best, near)

    def _at_a_square(self, step: Tensor) -> Look:
        """Beside that square of the image, of those side by side, which it fits best."""
        side, shape = step.shape[2], (-1, *step.shape[1:])
        squares = F.unfold(self.image, side, stride=side)[0].T.reshape(shape).split(1)
        pictures = [fitted(step, square) for square in squares]
        bests = [_psnr(near, square) for near, square in zip(pictures, squares, strict=True)]
        gains = [best - _psnr(fitted(0 * s, s), s) for best, s in zip(bests, squares, strict=True)]
        i = gains.index(max(gains))
        whole = F.interpolate(pictures[i], self.image.shape[2:])
        return Look(SQUARE if gains[i] > OF_A_SQUARE else "", _psnr(step, squares[i]), bests[i], whole)


def fitted(step: Tensor, image: Tensor, start: Tensor | float = 0.0) -> Tensor:
    """start + a step + b, nearest to the image, clamped to [0, 1]."""
    rest, centred = image - start, step - step.mean()
    factor = (centred * (rest - rest.mean())).sum() / centred.square().sum().clamp(min=1e-30)
    return (start + factor * centred + rest.mean()).clamp(0, 1)


def _psnr(picture: Tensor, image: Tensor) -> float:
    return min(metrics.psnr(picture, image).item(), EXACT)
