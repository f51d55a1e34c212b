"""Damped Gauss-Newton on gradient matching: a search that knows how the update bends the space of images, without ever forming a matrix.

The update is a function g of the images, and the client's is g*. Where the loss is a sum of squares of residuals r, such as
(g - g*) / |g*| parameter by parameter, a step s solves (J^T J + damping) s = -J^T r, J = dr / d(images). J^T u is a second backward pass,
J v the derivative of J^T u along u, and conjugate gradients need no more (Martens 2010 for networks; Nocedal and Wright 2006, chapter 10).
First-order searches, the papers' all, see J^T r alone: where J is ill-conditioned they crawl. Not in the papers of this book.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import label_recovery
from privlab.attacks.gradient_inversion.curvature import Pairs, Point, Problem, solve
from privlab.attacks.gradient_inversion.derivatives import TwiceDifferentiable, is_double_backward_error
from privlab.attacks.gradient_inversion.results import Checkpoint, Result, State, record
from privlab.attacks.gradient_inversion.search import prepare, starts
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.compute import Run
from privlab.leak import Leak

SMOOTHNESS = (
    0.3  # so weak that a smoother image cannot win: photographs differ in squared variation by 1 at most (CIFAR-10)
)
DAMPING = 1e-2  # to begin with, in units of the mean diagonal of J^T J
LEAST = 8  # passes of the shortest step: a look, the graph, downhill, the unit, one iteration, what is promised, a look


@dataclass(frozen=True)
class GaussNewton:
    """Search, from noise, for images whose gradients are the leak's, by damped Gauss-Newton.

    The loss is `objectives.relative_distance` and 0.3 times `priors.squared_variation`, which counts as much as the distance is worth: less
    and less while the distance falls, and no less than noise in the leak allows. The damping is a fourth of itself after a step that gained
    more than half of what was promised, four times it after one that gained less than a quarter, or lost; a step that loses is taken back.
    Pixels stay in [0, 1]: those at an edge that want to leave are held there while the rest is solved for, then all are clamped.

    steps: each solves one linear system.  passes: stop where so many are spent, if given; see `search` for what counts as one.
    Where the leak holds no labels, `label_recovery.row_minimum` reads them.
    """

    steps: int = 30
    passes: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 1 or (self.passes is not None and self.passes < LEAST):
            raise ValueError(
                f"steps={self.steps}, passes={self.passes}: give 1 step or more, and {LEAST} passes or more, or None"
            )

    def __repr__(self) -> str:
        limit = f" or {self.passes:,} passes" if self.passes else ""
        return f"GaussNewton: {self.steps} steps{limit} on the relative distance; labels by row_minimum where unknown"

    @torch.enable_grad()
    def search(
        self,
        model: nn.Module,
        leak: Leak,
        seed: int = 0,
        restarts: int = 1,
        start: Tensor | None = None,
        resume: Checkpoint | None = None,
        space: Space | None = None,
    ) -> Iterator[State]:
        """Yield a `State` before each step and one after the last, as the first-order searches do; see `search.GradientMatching.search`.

        start: images to begin with, in place of noise: what a first-order search has found, for a warm start.
        `evaluations` counts passes: one for the residuals at a point, one for the graph of J^T u there, one for each J v and each J^T u.
        (A step of a first-order search takes two: the gradient, and its derivative.)  `score` is the relative distance.
        A restart ends by "steps", "passes", "not finite", or "stuck": no step helps at any damping.
        Raises ValueError for a leak without gradients, or a model with an operator that cannot be differentiated so often.
        """
        parameters, leak = prepare(model, leak, label_recovery.row_minimum)
        forward = TwiceDifferentiable(model)
        for restart, images, _ in starts(leak, seed, restarts, start):
            if resume and restart < resume["restart"]:
                continue
            problem = Problem(forward, parameters, leak, space or Pixels())
            trajectory = _Trajectory(self, problem, restart, images, seed)
            if resume and restart == resume["restart"]:
                trajectory.resume(resume)
            try:
                yield from trajectory.states()
            except RuntimeError as error:
                if not is_double_backward_error(error):
                    raise
                raise ValueError(
                    f"model: a layer of it cannot be differentiated as often as Gauss-Newton needs ({str(error).splitlines()[0]}); put "
                    "another in its place"
                ) from error

    def run(
        self,
        model: nn.Module,
        leak: Leak,
        seed: int = 0,
        restarts: int = 1,
        snapshots: int | Sequence[int] = 5,
        start: Tensor | None = None,
        space: Space | None = None,
        store: Run | None = None,
        progress: bool = True,
    ) -> Result:
        """Follow the search to its end; see `search.GradientMatching.run`."""
        begin = partial(self.search, model, leak, seed, restarts, start, space=space)
        return record(begin, self.steps, restarts, snapshots, store, progress)


class _Trajectory:
    """One restart."""

    def __init__(self, attack: GaussNewton, problem: Problem, restart: int, images: Tensor, seed: int) -> None:
        self.attack, self.problem, self.restart = attack, problem, restart
        self.low, self.high = (problem.leak.normalise(torch.full_like(images[:1], value)) for value in (0.0, 1.0))
        self.boxed = isinstance(problem.space, Pixels)
        self.latent = problem.space.begin(self._inside(images)).detach().clone()
        self.step, self.points, self.damping, self.converged = 0, 0, DAMPING, False
        self.scale = 0.0  # the mean diagonal of J^T J at the first point, which the damping is in units of
        self.best_loss = math.inf  # the least distance so far
        self.pairs: Pairs = []
        self.generator = torch.Generator().manual_seed(seed)

    def states(self) -> Iterator[State]:
        leak, self.point = self.problem.leak, self._evaluate(self.latent)
        while True:
            weights, (distance, roughness) = self._weights(), self.point.values
            losses = {"gradients": weights[0] * distance, "smoothness": weights[1] * roughness}
            images = leak.normalise.inverse(self.problem.space.images(self.latent)).clamp(0, 1).detach()
            labels: Any = leak.labels  # known by now
            reason = self._reason(distance)
            yield State(
                self.restart, self.step, self.problem.passes, images, labels, losses, losses["gradients"], reason, self.checkpoint,
                {"exact": self.points, "difference": 0},
            )  # fmt: skip
            if reason:
                return
            self._advance()

    def _evaluate(self, latent: Tensor) -> Point:
        self.points += 1
        return Point(self.problem, latent)

    def _weights(self) -> tuple[float, float]:
        """What the distance and the smoothness count now."""
        self.best_loss = min(self.best_loss, self.point.values[0])
        return 1.0, SMOOTHNESS * self.best_loss

    def _advance(self) -> None:
        """Solve for a step, take it if it helps, and learn from it how much to damp the next."""
        point, weights = self.point, self._weights()
        downhill = point.downhill(weights)
        free = torch.ones_like(downhill)
        if self.boxed:
            fixed = ((self.latent <= self.low) & (downhill < 0)) | ((self.latent >= self.high) & (downhill > 0))
            free = (~fixed).to(downhill)
        if not self.scale:  # of the first point; later the damping follows by itself
            signs = (2.0 * torch.randint(2, self.latent.shape, generator=self.generator) - 1).to(self.latent)
            self.scale = (point.curvature(signs, weights) / self.latent.numel()) or 1.0
        limit = None if self.attack.passes is None else self.attack.passes - 2
        step = solve(point, free * downhill, free, weights, self.damping * self.scale, self.pairs, limit)
        goal = self._inside(self.latent + step)
        promised = (downhill * (goal - self.latent)).sum().item() - 0.5 * point.curvature(goal - self.latent, weights)
        there = self._evaluate(goal)
        gained = 0.5 * (point.total(weights) - there.total(weights))
        ratio = gained / promised if promised > 0 else -1.0
        if gained > 0:  # NaN is not
            self.latent, self.point = goal, there
        least = torch.finfo(goal.dtype).eps  # less than this a float does not see
        self.damping = max(least, self.damping * (0.25 if ratio > 0.5 else 4.0 if not ratio > 0.25 else 1.0))
        self.converged = self.damping > 1e12 * DAMPING
        self.step += 1

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.boxed else x

    def _reason(self, distance: float) -> str:
        if not math.isfinite(distance):
            return "not finite"
        if self.step == self.attack.steps:
            return "steps"
        if self.attack.passes is not None and self.problem.passes + LEAST - 1 > self.attack.passes:
            return "passes"
        return "stuck" if self.converged else ""

    def checkpoint(self) -> Checkpoint:
        """All that `resume` needs; the present point will be evaluated once more."""
        return {
            "restart": self.restart,
            "numbers": [self.step, self.points - 1, self.converged, self.damping, self.best_loss, self.scale],
            "passes": self.problem.passes - 1,
            "latent": self.latent.clone(),
            "generator": self.generator.get_state(),
            "pairs": self.pairs.copy(),
        }

    def resume(self, checkpoint: Checkpoint) -> None:
        """Take up a restart where `checkpoint` left it, on the device of the leak."""
        self.step, self.points, self.converged, self.damping, self.best_loss, self.scale = checkpoint["numbers"]
        self.problem.passes = checkpoint["passes"]
        self.latent = checkpoint["latent"].to(self.latent)
        self.generator.set_state(checkpoint["generator"].cpu())
        self.pairs = [(v.to(self.latent), product.to(self.latent)) for v, product in checkpoint["pairs"]]
