"""u = dD/dg, the derivative of a distance by the attacker's gradients g: by autograd, or written down, with fewer trips through memory.

For the distances in `SLOPES` u is, tensor by tensor, a multiple of g* + r g, where g* is the client's gradient. So it need not be stored
apart: it is made where the weights are shifted along it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives
from privlab.leak import Leak


@dataclass
class Slope:
    """u, tensor by tensor `factors` times (theirs + ratio * ours), or `theirs` alone where there are no `ours`.

    place: one tensor like each parameter, where the sum is made, and the shifted weights are.
    length: |u|.
    """

    theirs: Sequence[Tensor]
    place: Sequence[Tensor]
    ours: Sequence[Tensor]
    ratio: float
    factors: Sequence[float]
    length: float

    @classmethod
    def of(cls, vectors: Sequence[Tensor], place: Sequence[Tensor]) -> Slope:
        """Vectors as they are."""
        return cls(vectors, place, (), 0.0, [1.0] * len(vectors), length(vectors))

    def times(self, weight: float) -> Slope:
        """The slope of a distance that counts so much."""
        return replace(self, factors=[weight * f for f in self.factors], length=weight * self.length)

    def shifted(self, weights: Sequence[Tensor], step: float) -> None:
        """Write weights + step * u into `place`."""
        with torch.no_grad():
            for i, (w, part, factor, out) in enumerate(
                zip(weights, self.theirs, self.factors, self.place, strict=True)
            ):
                if self.ours:
                    part = torch.add(
                        part, self.ours[i], alpha=self.ratio, out=out
                    )  # still in the processor's cache for the next line
                torch.add(w, part, alpha=step * factor, out=out)


def length(tensors: Iterable[Tensor]) -> float:
    """Of all tensors taken as one long vector."""
    with torch.no_grad():
        return torch.stack(torch._foreach_norm(list(tensors))).norm().item()


def apart(theirs: Sequence[Tensor], ours: Sequence[Tensor], ratio: float, place: Sequence[Tensor]) -> list[float]:
    """|theirs + ratio * ours| of each tensor; numbers that nearly cancel are taken apart first, and squared then."""
    with torch.no_grad():
        for t, g, out in zip(theirs, ours, place, strict=True):
            torch.add(t, g, alpha=ratio, out=out)
        return torch.stack(torch._foreach_norm(list(place))).tolist()


Written = Callable[
    [Leak, Sequence[Tensor], Sequence[Tensor]], tuple[float, Slope]
]  # (leak, ours, place) -> distance, slope


def cosine(leak: Leak, ours: Sequence[Tensor], place: Sequence[Tensor]) -> tuple[float, Slope]:
    """Of `objectives.cosine_distance`: u = -(g* - (<g, g*> / |g|^2) g) / (|g| |g*|), of length sqrt(1 - cosine^2) / |g|."""
    theirs, size = list(leak.grads.values()), leak.norm.item()
    flat = [(g.flatten(), t.flatten()) for g, t in zip(ours, theirs, strict=True)]
    dot, square = torch.stack([torch.stack((torch.dot(g, t), torch.dot(g, g))) for g, t in flat]).sum(0).tolist()
    n = math.sqrt(square)
    if not 0 < n * size < math.inf:
        return math.nan, Slope(theirs, place, ours, math.nan, [math.nan] * len(theirs), math.nan)
    near, ratio = dot / (n * size), -dot / square
    left = 1 - near**2  # a length that is off by a percent makes another shift, and the same direction
    far = size * math.sqrt(left) if left > 1e-3 else math.hypot(*apart(theirs, ours, ratio, place))
    return 1 - near, Slope(theirs, place, ours, ratio, [-1 / (n * size)] * len(theirs), far / (n * size))


def squared(leak: Leak, ours: Sequence[Tensor], place: Sequence[Tensor]) -> tuple[float, Slope]:
    """Of `objectives.squared_distance`: u = -2 (g* - g)."""
    theirs = list(leak.grads.values())
    far = math.hypot(*apart(theirs, ours, -1.0, place))
    return far**2, Slope(theirs, place, ours, -1.0, [-2.0] * len(theirs), 2 * far)


def relative(leak: Leak, ours: Sequence[Tensor], place: Sequence[Tensor]) -> tuple[float, Slope]:
    """Of `objectives.relative_distance`: in each tensor u = -2 (g* - g) / |g*|^2."""
    theirs, floor = list(leak.grads.values()), objectives.FLOOR * leak.norm.item()
    sizes = [max(n, floor) for n in torch.stack(torch._foreach_norm(theirs)).tolist()]
    shares = [far / size for far, size in zip(apart(theirs, ours, -1.0, place), sizes, strict=True)]
    long = math.hypot(*(2 * share / size for share, size in zip(shares, sizes, strict=True)))
    return sum(share**2 for share in shares), Slope(theirs, place, ours, -1.0, [-2 / size**2 for size in sizes], long)


def layer_norms(leak: Leak, ours: Sequence[Tensor], place: Sequence[Tensor]) -> tuple[float, Slope]:
    """Of `objectives.layer_norms`: in each tensor u = -(g* - g) / |g* - g|, 0 where that is 0."""
    theirs = list(leak.grads.values())
    fars = apart(theirs, ours, -1.0, place)
    return sum(fars), Slope(
        theirs, place, ours, -1.0, [-1 / f if f else 0.0 for f in fars], sum(map(bool, fars)) ** 0.5
    )


SLOPES: dict[objectives.Objective, Written] = {
    objectives.cosine_distance: cosine,
    objectives.squared_distance: squared,
    objectives.relative_distance: relative,
    objectives.layer_norms: layer_norms,
}


def written(value: objectives.Objective) -> Written | None:
    """What stands in `SLOPES` for a distance, if anything does."""
    return next((slope for distance, slope in SLOPES.items() if distance is value), None)
