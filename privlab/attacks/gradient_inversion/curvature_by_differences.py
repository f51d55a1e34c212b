"""J v and J^T u without a graph of a graph: each one more first derivative, at moved images or at moved weights; see `differences`.

J v = [g(x + e v) - g(x)] / e for the update g, in the activation pattern of x, and J^T u as for a first-order search. Residuals are plain
functions of images and update, so what they add is left to autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.activation_patterns import OtherPattern
from privlab.attacks.gradient_inversion.curvature import Curvature, Problem
from privlab.attacks.gradient_inversion.derivatives import ERROR, Kind
from privlab.attacks.gradient_inversion.differences import Difference
from privlab.attacks.gradient_inversion.slopes import Slope, length

EVERY = 10  # points between two comparisons


@dataclass
class _Point:
    """What a difference starts from: images with a graph to the latent and without, the update there, and how the model got there."""

    images: Tensor
    x: Tensor
    update: list[Tensor]
    noted: tuple


class CurvatureByDifferences(Curvature):
    """Residuals at a point, J v and J^T u as differences; exactly where `kind` is "auto" and the two do not agree."""

    def __init__(self, problem: Problem, kind: Kind, model: nn.Module) -> None:
        super().__init__(problem)
        self.kind, self.difference = kind, Difference(model, problem.parameters)
        self.agrees, self.resumed = kind == "difference", False
        self.point: _Point | None = None  # None: products are exact here

    def look(self, latent: Tensor) -> None:
        """Go to a point, and compare the two ways there now and then."""
        if self.kind == "auto" and not self.resumed and sum(self.points.values()) % EVERY == 0:
            self.agrees = self._agree(latent)
        self.resumed = False
        if not self.agrees:
            self.point = None
            super().look(latent)
            return
        self.passes += 1
        self.points["difference"] += 1
        self._go(latent)

    def here(self) -> tuple:
        """All of a point, for `back`."""
        return *super().here(), self.point

    def back(self, here: tuple) -> None:
        """Return to a point that was left."""
        *before, self.point = here
        super().back(tuple(before))

    def pull(self, vectors: Sequence[Tensor]) -> Tensor:
        """J^T u."""
        if self.point is None:
            return super().pull(vectors)
        self.passes += 1
        point, difference = self.point, self.difference
        difference.noted = point.noted
        direct, *slopes = torch.autograd.grad(
            self.residual, [self.at, *point.update], vectors, retain_graph=True, materialize_grads=True
        )
        slope = Slope.of(slopes, difference.place)
        (pulled,) = difference.pull(partial(self.problem.loss, point.x), [point.x], slope)
        return direct + torch.autograd.grad(point.images, self.at, pulled, retain_graph=True)[0]

    def push(self, direction: Tensor) -> tuple[Tensor, ...]:
        """J v."""
        if self.point is None:
            return super().push(direction)
        self.passes += 1
        point, difference = self.point, self.difference
        difference.noted = point.noted
        (moved,) = _along([point.images], [self.at], [direction])
        update = difference.push(
            lambda forward, x: self.problem.loss(x, forward), point.x, moved, [g.detach() for g in point.update]
        )
        return _along(self.residual, [self.at, *point.update], [direction, *update])

    def checkpoint(self) -> dict[str, Any]:
        """What decides between the two ways, too."""
        way = "exact" if self.point is None else "difference"
        gains = self.difference.gain, self.difference.push_gain
        points = self.points | {way: self.points[way] - 1}
        return super().checkpoint() | {"points": points, "agrees": self.agrees, "gains": gains}

    def resume(self, checkpoint: dict[str, Any]) -> None:
        super().resume(checkpoint)
        self.points, self.agrees, self.resumed = checkpoint["points"], checkpoint["agrees"], True
        self.difference.gain, self.difference.push_gain = checkpoint["gains"]

    def _go(self, latent: Tensor) -> None:
        self.at = latent.detach().clone().requires_grad_()
        images = self.problem.space.images(self.at)
        x = images.detach().requires_grad_()
        update = self.difference.first(partial(self.problem.loss, x), [x])
        update = {n: g.requires_grad_() for n, g in update.items()}
        self._take(*self.problem.residuals(images, update))
        self.point = _Point(images, x, list(update.values()), self.difference.noted)

    def _agree(self, latent: Tensor) -> bool:
        """Whether J^T u and J v are within ERROR of the exact ones, u the residuals and v = J^T u; both in passes of their own.

        Where there is no second derivative, nothing can be compared; but a step that does not pay is taken back anyway.
        """
        passes, gains = self.passes, (self.difference.gain, self.difference.push_gain)
        exact = Curvature(self.problem)
        try:
            exact.look(latent)
            vectors = [r.detach() for r in exact.residual]
            pulled = exact.pull(vectors)
            pushed = exact.push(pulled)
        except ValueError:
            return True
        try:
            self._go(latent)
            return _near([self.pull(vectors)], [pulled]) and _near(self.push(pulled), pushed)
        except OtherPattern:
            return False
        finally:
            self.passes = passes
            self.difference.gain, self.difference.push_gain = gains


def _near(some: Sequence[Tensor], exact: Sequence[Tensor]) -> bool:
    return length([a - b for a, b in zip(some, exact, strict=True)]) <= ERROR * length(exact)


def _along(of: Sequence[Tensor], at: Sequence[Tensor], directions: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The derivative of some tensors along directions at others, from their graph: that of J^T u, which is linear in u."""
    left_open = [torch.zeros_like(t, requires_grad=True) for t in of]
    slopes = torch.autograd.grad(of, at, left_open, create_graph=True, materialize_grads=True, retain_graph=True)
    used = [(s, d) for s, d in zip(slopes, directions, strict=True) if s.requires_grad]
    return torch.autograd.grad([s for s, _ in used], left_open, [d for _, d in used], materialize_grads=True)
