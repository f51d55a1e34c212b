"""The linear algebra of a Gauss-Newton step: products with the Jacobian of the residuals, and conjugate gradients over them.

Each product is a backward pass. With the graph of the residuals r(x) kept, J^T u is one; and since it is linear in u, the derivative of
<J^T u, v> along u is J v, one more, whatever u. PyTorch's forward mode gives the same J v in three to six times the time, since it
computes r anew for each v (on a CPU; `make bench` has the numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives, priors
from privlab.attacks.gradient_inversion.derivatives import assert_twice_differentiable
from privlab.attacks.gradient_inversion.search_spaces import Space
from privlab.leak import Leak
from privlab.models.forward import Gradients

Weights = tuple[float, float]  # what the square of the distance counts, and that of the roughness
INNER = 40  # iterations of conjugate gradients at most
TOLERANCE = 0.05  # fewer of them where so small a share of the residual is left
PAIRS = 100  # (v, J^T J v) of earlier iterations, from which the next system is preconditioned


@dataclass
class Problem:
    """What Gauss-Newton squares and adds up: how the update differs from the leak's, tensor by tensor, and the images' roughness."""

    forward: Callable[[Tensor], Tensor]
    parameters: Gradients
    leak: Leak
    space: Space
    passes: int = (
        0  # through the network: one for the residuals at a point, one for the graph of J^T u there, one a product
    )

    def residuals(self, latent: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Both parts, with a graph back to the latent."""
        images = self.space.images(latent)
        loss = F.cross_entropy(self.forward(images), self.leak.labels)  # type: ignore[arg-type]
        update = torch.autograd.grad(loss, list(self.parameters.values()), create_graph=True, materialize_grads=True)
        assert_twice_differentiable(update)
        ours = dict(zip(self.parameters, update, strict=True))
        return objectives.relative_differences(ours, self.leak), priors.neighbours(images)


class Point:
    """The residuals r at one latent, and products with their Jacobian J = dr / d(latent) there.

    values: the sum of squares of either part.
    """

    def __init__(self, problem: Problem, latent: Tensor) -> None:
        problem.passes += 1
        self.problem, self.at = problem, latent.detach().clone().requires_grad_()
        differences, rough = problem.residuals(self.at)
        self.count, self.residuals = len(differences), [*differences, *rough]
        self.values = _square(differences), _square(rough)
        self.dummies: list[Tensor] = []  # u, of which J^T u is linear
        self.transposed: Tensor | None = None  # J^T u with a graph to u

    def total(self, weights: Weights) -> float:
        """The weighted sum of squares."""
        return sum(w * v for w, v in zip(weights, self.values, strict=True))

    def vjp(self, vectors: Sequence[Tensor]) -> Tensor:
        """J^T u, shaped like the latent."""
        self.problem.passes += 1
        return torch.autograd.grad(self.residuals, self.at, vectors, retain_graph=True)[0]

    def jvp(self, direction: Tensor) -> tuple[Tensor, ...]:
        """J v, shaped like the residuals."""
        if self.transposed is None:
            self.problem.passes += 1
            self.dummies = [torch.zeros_like(r, requires_grad=True) for r in self.residuals]
            self.transposed = torch.autograd.grad(self.residuals, self.at, self.dummies, create_graph=True)[0]
        self.problem.passes += 1
        return torch.autograd.grad(self.transposed, self.dummies, direction, retain_graph=True)

    def downhill(self, weights: Weights) -> Tensor:
        """-J^T r, of the weighted residuals."""
        return -self.vjp(self._weigh([r.detach() for r in self.residuals], weights))

    def curvature(self, v: Tensor, weights: Weights) -> float:
        """|J v|^2."""
        moved = self.jvp(v)
        return sum((m * w).sum().item() for m, w in zip(moved, self._weigh(moved, weights), strict=True))

    def ggn_product(self, v: Tensor, weights: Weights) -> Tensor:
        """J^T J v."""
        return self.vjp(self._weigh(self.jvp(v), weights))

    def _weigh(self, parts: Sequence[Tensor], weights: Weights) -> list[Tensor]:
        return [weights[k >= self.count] * part for k, part in enumerate(parts)]


Pairs = list[tuple[Tensor, Tensor]]


def solve(
    point: Point, downhill: Tensor, free: Tensor, weights: Weights, shift: float, pairs: Pairs, limit: int | None
) -> Tensor:
    """Conjugate gradients for (J^T J + shift) step = downhill, among the free numbers, from zero.

    free: 1 where a number may move, 0 where it is held.  pairs: (v, J^T J v) of earlier calls; those of this one are added.
    limit: of the problem's passes, not to be passed.
    """
    precondition = _preconditioner(pairs, free, shift)
    step, left = torch.zeros_like(downhill), downhill
    scaled = free * precondition(left)
    direction, size = scaled, (left * scaled).sum()
    goal = TOLERANCE**2 * size
    for _ in range(INNER):
        if not size > goal or (limit is not None and point.problem.passes + 2 > limit):
            break
        product = point.ggn_product(direction, weights)
        total = free * (product + shift * direction)
        length = size / (direction * total).sum()
        step, left = step + length * direction, left - length * total
        pairs.append((length * direction, length * product))
        del pairs[:-PAIRS]
        scaled = free * precondition(left)
        size, last = (left * scaled).sum(), size
        direction = scaled + (size / last) * direction
    return step


def _preconditioner(pairs: Pairs, free: Tensor, shift: float) -> Callable[[Tensor], Tensor]:
    """An approximate inverse of J^T J + shift, from the pairs of earlier steps (Morales and Nocedal 2000): L-BFGS's two loops."""
    shifted = [(free * v, free * (product + shift * v)) for v, product in pairs]
    used = [(v, y, dot) for v, y in shifted if (dot := (v * y).sum()) > 1e-12 * v.norm() * y.norm()]
    if not used:
        return lambda q: q
    _, y, dot = used[-1]
    unit = dot / (y * y).sum()

    def precondition(q: Tensor) -> Tensor:
        parts = []
        for v, y, dot in reversed(used):
            parts.append((v * q).sum() / dot)
            q = q - parts[-1] * y
        q = unit * q
        for (v, y, dot), part in zip(used, reversed(parts), strict=True):
            q = q + (part - (y * q).sum() / dot) * v
        return q

    return precondition


def _square(parts: Sequence[Tensor]) -> float:
    return torch.stack([part.detach().square().sum() for part in parts]).sum().item()
