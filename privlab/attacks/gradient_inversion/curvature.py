"""The linear algebra of a Gauss-Newton step: the Jacobian of an update as a pair of functions, and conjugate gradients over them.

Each product is a backward pass. With the graph of the residuals r(x) kept, J^T u is one; and since it is linear in u, the derivative of
<J^T u, v> along u is J v, one more, whatever u. PyTorch's forward mode gives the same J v in three to six times the time, since it
computes r anew for each v (on a CPU; `make bench` has the numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives, priors
from privlab.attacks.gradient_inversion.derivatives import check_twice, once
from privlab.attacks.gradient_inversion.search_spaces import Space
from privlab.leak import Leak
from privlab.models.forward import Gradients

Weights = tuple[float, float]  # what the square of the distance counts, and that of the roughness
INNER, TOLERANCE = (
    40,
    0.05,
)  # iterations of conjugate gradients at most; fewer where so small a share of the residual is left
PAIRS = 100  # of earlier steps, which conjugate gradients start from


@dataclass(frozen=True)
class Problem:
    """What Gauss-Newton squares and adds up: how the update differs from the leak's, tensor by tensor, and the images' roughness."""

    forward: Callable[[Tensor], Tensor]
    parameters: Gradients
    leak: Leak
    space: Space

    def loss(self, images: Tensor, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """What the client differentiates."""
        return F.cross_entropy(forward(images), self.leak.labels)  # type: ignore[arg-type]

    def residuals(self, images: Tensor, update: Gradients) -> tuple[list[Tensor], list[Tensor]]:
        """Of normalised images and their update."""
        return objectives.relative_differences(update, self.leak), priors.neighbours(images)

    def exactly(self, latent: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The residuals with a graph back to the latent."""
        images = self.space.images(latent)
        parameters = list(self.parameters.values())
        update = torch.autograd.grad(
            self.loss(images, self.forward), parameters, create_graph=True, materialize_grads=True
        )
        try:
            check_twice(update)
        except RuntimeError as error:
            raise _refused(error) from error
        return self.residuals(images, dict(zip(self.parameters, update, strict=True)))


class Curvature:
    """Residuals at a point and what J says of them, each product counted in `passes`."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.passes, self.scale = problem, 0, 0.0
        self.pairs: list[tuple[Tensor, Tensor]] = []  # (v, J^T J v)
        self.points = {"exact": 0, "difference": 0}  # looked at, by how their products are had

    def look(self, latent: Tensor) -> None:
        """Go to a point: its residuals, and the value of each term."""
        self.passes += 1
        self.points["exact"] += 1
        self.at = latent.detach().clone().requires_grad_()
        self._take(*self.problem.exactly(self.at))

    def _take(self, differences: list[Tensor], rough: list[Tensor]) -> None:
        self.count, self.residual = len(differences), [*differences, *rough]
        self.values = square(differences).item(), square(rough).item()
        self.gradient: Tensor | None = None
        self.left_open: list[Tensor] = []

    def here(self) -> tuple:
        """All of a point, for `back`."""
        return self.at, self.residual, self.values, self.gradient, self.left_open

    def back(self, here: tuple) -> None:
        """Return to a point that was left."""
        self.at, self.residual, self.values, self.gradient, self.left_open = here

    def total(self, weights: Weights) -> float:
        """The weighted sum of squares."""
        return sum(w * v for w, v in zip(weights, self.values, strict=True))

    def pull(self, vectors: Sequence[Tensor]) -> Tensor:
        """J^T u."""
        self.passes += 1
        return _backward(self.residual, self.at, vectors, retain_graph=True)[0]

    def push(self, direction: Tensor) -> tuple[Tensor, ...]:
        """J v."""
        if self.gradient is None:
            self.passes += 1
            self.left_open = [torch.zeros_like(r, requires_grad=True) for r in self.residual]
            self.gradient = _backward(self.residual, self.at, self.left_open, create_graph=True)[0]
        self.passes += 1
        return _backward(self.gradient, self.left_open, direction, retain_graph=True)

    def downhill(self, weights: Weights) -> Tensor:
        """-J^T r, of the weighted residuals."""
        return -self.pull(self._weigh([r.detach() for r in self.residual], weights))

    def length(self, v: Tensor, weights: Weights) -> float:
        """|J v|^2."""
        moved = self.push(v)
        return sum((m * w).sum().item() for m, w in zip(moved, self._weigh(moved, weights), strict=True))

    def solve(self, downhill: Tensor, free: Tensor, weights: Weights, damping: float, limit: int | None) -> Tensor:
        """Conjugate gradients for (J^T J + damping) step = downhill, among the free numbers, from zero.

        free: 1 where a number may move, 0 where it is held.  limit: of `passes`, not to be passed.
        """
        shift = damping * self.scale
        shorten = self._recycled(free, shift)
        step, left = torch.zeros_like(downhill), downhill
        scaled = free * shorten(left)
        direction, size = scaled, (left * scaled).sum()
        goal = TOLERANCE**2 * size
        for _ in range(INNER):
            if not size > goal or (limit is not None and self.passes + 2 > limit):
                break
            bent = self.pull(self._weigh(self.push(direction), weights))  # J^T J v
            total = free * (bent + shift * direction)
            length = size / (direction * total).sum()
            step, left = step + length * direction, left - length * total
            self.pairs = [*self.pairs, (length * direction, length * bent)][-PAIRS:]
            scaled = free * shorten(left)
            size, last = (left * scaled).sum(), size
            direction = scaled + (size / last) * direction
        return step

    def _recycled(self, free: Tensor, shift: float) -> Callable[[Tensor], Tensor]:
        """An approximate inverse of J^T J + shift, from the pairs of earlier steps (Morales and Nocedal 2000): L-BFGS's two loops."""
        pairs = [(free * v, free * (bent + shift * v)) for v, bent in self.pairs]
        products = [(v, y, (v * y).sum()) for v, y in pairs]
        used = [(v, y, dot) for v, y, dot in products if dot > 1e-12 * v.norm() * y.norm()]
        if not used:
            return lambda q: q
        _, y, dot = used[-1]
        unit = dot / (y * y).sum()

        def shorten(q: Tensor) -> Tensor:
            parts = []
            for v, y, dot in reversed(used):
                parts.append((v * q).sum() / dot)
                q = q - parts[-1] * y
            q = unit * q
            for (v, y, dot), part in zip(used, reversed(parts), strict=True):
                q = q + (part - (y * q).sum() / dot) * v
            return q

        return shorten

    def checkpoint(self) -> dict[str, Any]:
        """What `resume` takes; the present point will be looked at once more."""
        return {"passes": self.passes - 1, "scale": self.scale, "pairs": self.pairs}

    def resume(self, checkpoint: dict[str, Any]) -> None:
        """Go on from here, pairs on the device of the leak."""
        self.passes, self.scale = checkpoint["passes"], checkpoint["scale"]
        like = next(iter(self.problem.parameters.values()))
        self.pairs = [(v.to(like), bent.to(like)) for v, bent in checkpoint["pairs"]]

    def _weigh(self, parts: Sequence[Tensor], weights: Weights) -> list[Tensor]:
        return [weights[k >= self.count] * part for k, part in enumerate(parts)]


def square(parts: Sequence[Tensor]) -> Tensor:
    """The sum of all squares, without a graph."""
    return torch.stack([part.detach().square().sum() for part in parts]).sum()


def _backward(
    of: Sequence[Tensor] | Tensor, at: Sequence[Tensor] | Tensor, vectors: Sequence[Tensor] | Tensor, **how: bool
) -> tuple[Tensor, ...]:
    """`torch.autograd.grad`.  Raises ValueError, with the operator's name, where one cannot be differentiated so often."""
    try:
        return torch.autograd.grad(of, at, vectors, **how)
    except RuntimeError as error:
        if not once(error):
            raise
        raise _refused(error) from error


def _refused(error: RuntimeError) -> ValueError:
    return ValueError(
        f"model: a layer of it cannot be differentiated as often as Gauss-Newton needs ({str(error).splitlines()[0]}); put another in its "
        "place, or give derivative='auto', which takes differences"
    )
