"""Damped Gauss-Newton on gradient matching: a search that knows how the update bends the space of images, without ever forming a matrix.

The loss is a sum of squares of residuals r, such as (g - g*) / |g*| tensor by tensor, of the update g and the client's g*. A step s solves
(J^T J + damping) s = -J^T r, J = dr / d(images), by conjugate gradients (Martens 2010; Nocedal and Wright 2006, chapter 10). With the graph
of r kept, J^T u is one backward pass; it is linear in u, so the derivative of <J^T u, v> along u is J v, one more, whatever u: a third of
the time of PyTorch's forward mode. First-order searches see J^T r alone: where J is ill-conditioned they crawl. Not in the papers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import derivatives, label_recovery, objectives, priors
from privlab.attacks.gradient_inversion.results import Checkpoint, Search, Space, State
from privlab.attacks.gradient_inversion.search import edges, prepare, starts
from privlab.leak import Leak
from privlab.models.forward import Gradients

SMOOTHNESS = 0.3  # too weak for a smoother image to win: photographs differ in squared variation by 1 at most
DAMPING = 1e-2  # to begin with, in units of the mean diagonal of J^T J
LEAST = 8  # passes of the shortest step: a look, the graph, downhill, the unit, one iteration, what is promised, a look
INNER, TOLERANCE = 40, 0.05  # iterations of conjugate gradients at most, and the share of the residual that ends them
PAIRS = 100  # (v, J^T J v) of earlier iterations, from which the next system is preconditioned
Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class GaussNewton(Search):
    """Search, from noise, for images whose gradients are the leak's, by damped Gauss-Newton.

    The loss is `objectives.relative_distance` and 0.3 times `priors.squared_variation` times the least distance so far. The damping is a
    fourth of itself after a step that gained more than half of what was promised, four times it after one that gained less than a quarter;
    a step that loses is taken back. Pixels at an edge of [0, 1] that want to leave are held there while the rest is solved for.

    passes: at most, in each restart; see `search` for what counts as one.  Labels that are unknown `label_recovery.row_minimum` reads.
    """

    passes: int = 240

    def __post_init__(self) -> None:
        if self.passes < LEAST:
            raise ValueError(f"passes={self.passes}: give {LEAST} or more")

    @property
    def steps(self) -> int:  # type: ignore[override]
        """At most."""
        return self.passes

    @torch.enable_grad()
    def search(
        self, model: nn.Module, leak: Leak, seed: int = 0, restarts: int = 1, start: Tensor | None = None,
        resume: Checkpoint | None = None, space: Space | None = None,
    ) -> Iterator[State]:  # fmt: skip
        """Yield a `State` before each step and one after the last; for the arguments see `search.GradientMatching.search`.

        `evaluations` counts passes: one for the residuals at a point, one for the graph of J^T u there, one for each J v and each J^T u.
        (A step of a first-order search takes two: the gradient, and its derivative.)  `score` is the relative distance.
        A restart ends by "passes", "not finite", or "stuck": no step helps at any damping.
        Raises RuntimeError for a model that cannot be differentiated so often.
        """
        parameters, leak = prepare(model, leak, label_recovery.row_minimum)
        for restart, x, _ in starts(leak, seed, restarts, start, resume):
            yield from _Trajectory(self.passes, model, parameters, leak, space, restart, seed).states(x, resume)


class Point:
    """The residuals r at one latent, and products with their Jacobian J there; squares of the images' roughness count `rough`."""

    rough = 0.0
    transposed: Tensor | None = None  # J^T u, with a graph to u

    def __init__(self, of: "_Trajectory", latent: Tensor) -> None:
        of.passes += 1
        self.of, self.at = of, latent.detach().clone().requires_grad_()
        images = of.images(self.at)
        loss = F.cross_entropy(of.forward(images), of.leak.labels)  # type: ignore[arg-type]
        update = derivatives.gradients(loss, of.parameters, create_graph=True)
        derivatives.assert_twice_differentiable(update)
        differences, roughness = objectives.relative_differences(update, of.leak), priors.neighbours(images)
        self.count, self.residuals = len(differences), [*differences, *roughness]
        self.distance, self.roughness = _square(differences), _square(roughness)

    def vjp(self, u: Sequence[Tensor]) -> Tensor:
        """J^T u, of weighted residuals u, shaped like the latent."""
        self.of.passes += 1
        return torch.autograd.grad(self.residuals, self.at, self._weigh(u), retain_graph=True)[0]

    def jvp(self, v: Tensor) -> tuple[Tensor, ...]:
        """J v, shaped like the residuals."""
        if self.transposed is None:
            self.of.passes += 1
            self.dummies = [torch.zeros_like(r, requires_grad=True) for r in self.residuals]  # u
            self.transposed = torch.autograd.grad(self.residuals, self.at, self.dummies, create_graph=True)[0]
        self.of.passes += 1
        return torch.autograd.grad(self.transposed, self.dummies, v, retain_graph=True)

    def curvature(self, v: Tensor) -> float:
        """|J v|^2."""
        moved = self.jvp(v)
        return sum((m * w).sum().item() for m, w in zip(moved, self._weigh(moved), strict=True))

    def _weigh(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return [self.rough * part if k >= self.count else part for k, part in enumerate(parts)]


class _Trajectory:
    """One restart."""

    step, passes, damping = 0, 0, DAMPING
    scale = 0.0  # the mean diagonal of J^T J at the first point, which the damping is in units of
    least = math.inf  # the shortest distance so far

    def __init__(
        self, limit: int, model: nn.Module, parameters: Gradients, leak: Leak, space: Space | None, restart: int, seed: int
    ) -> None:  # fmt: skip
        self.limit, self.parameters, self.leak, self.space = limit, parameters, leak, space
        self.forward, self.restart, self.seed = derivatives.twice_differentiable(model), restart, seed
        self.low, self.high = edges(leak)
        self.images = (
            (lambda latent: latent) if space is None else space.images
        )  # normalised, with a graph to the latent
        self.pairs: Pairs = []

    def states(self, x: Tensor, resume: Checkpoint | None) -> Iterator[State]:
        """From normalised images x, or where a checkpoint of this restart was taken."""
        latent = x.clamp(self.low, self.high) if self.space is None else self.space.begin(x)
        if resume and resume["restart"] == self.restart:
            self.step, self.passes, self.damping, self.least, self.scale = resume["numbers"]
            latent = resume["latent"].to(latent)
            self.pairs = [(v.to(latent), product.to(latent)) for v, product in resume["pairs"]]
        self.point = Point(self, latent)
        while True:
            point, reason = self.point, self._reason()
            self.least = min(self.least, point.distance)
            point.rough = SMOOTHNESS * self.least
            losses = {"gradients": point.distance, "smoothness": point.rough * point.roughness}
            images = self.leak.normalise.inverse(self.images(point.at.detach())).clamp(0, 1)
            labels: Any = self.leak.labels  # known by now
            numbers = [self.step, self.passes - 1, self.damping, self.least, self.scale]
            checkpoint = dict(restart=self.restart, numbers=numbers, latent=point.at.detach(), pairs=self.pairs)
            yield State(
                self.restart, self.step, self.passes, 0, images, labels, losses, point.distance, reason, checkpoint
            )  # fmt: skip
            if reason:
                return
            self._advance()

    def _advance(self) -> None:
        """Solve for a step, take it if it helps, and learn from it how much to damp the next."""
        point, latent = self.point, self.point.at.detach()
        downhill = -point.vjp([r.detach() for r in point.residuals])
        free = torch.ones_like(downhill)
        if self.space is None:
            fixed = ((latent <= self.low) & (downhill < 0)) | ((latent >= self.high) & (downhill > 0))
            free = (~fixed).to(downhill)
        if not self.scale:  # of the first point; later the damping follows by itself
            signs = torch.randint(2, latent.shape, generator=torch.Generator().manual_seed(self.seed))
            self.scale = point.curvature((2.0 * signs - 1).to(latent)) / latent.numel() or 1.0
        goal = latent + self._solve(free * downhill, free, self.damping * self.scale)
        if self.space is None:
            goal = goal.clamp(self.low, self.high)
        promised = (downhill * (goal - latent)).sum().item() - 0.5 * point.curvature(goal - latent)
        there = Point(self, goal)
        before, behind = (each.distance + point.rough * each.roughness for each in (point, there))
        gained = 0.5 * (before - behind)
        ratio = gained / promised if promised > 0 else -1.0
        if gained > 0:  # NaN is not
            self.point = there
        least = torch.finfo(goal.dtype).eps  # less than this a float does not see
        self.damping = max(least, self.damping * (0.25 if ratio > 0.5 else 4.0 if not ratio > 0.25 else 1.0))
        self.step += 1

    def _solve(self, downhill: Tensor, free: Tensor, shift: float) -> Tensor:
        """Conjugate gradients for (J^T J + shift) step = downhill among the free numbers, from zero.  free: 1 where a number may move."""
        precondition = _preconditioner(self.pairs, free, shift)
        step, left = torch.zeros_like(downhill), downhill
        direction = free * precondition(left)
        size = (left * direction).sum()
        goal = TOLERANCE**2 * size
        for _ in range(INNER):
            if not size > goal or self.passes > self.limit - 4:
                break
            product = self.point.vjp(self.point.jvp(direction))
            total = free * (product + shift * direction)
            length = size / (direction * total).sum()
            step, left = step + length * direction, left - length * total
            self.pairs = [*self.pairs, (length * direction, length * product)][-PAIRS:]
            scaled = free * precondition(left)
            size, last = (left * scaled).sum(), size
            direction = scaled + (size / last) * direction
        return step

    def _reason(self) -> str:
        if not math.isfinite(self.point.distance):
            return "not finite"
        if self.passes + LEAST - 1 > self.limit:
            return "passes"
        return "stuck" if self.damping > 1e12 * DAMPING else ""


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
