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
from privlab.attacks.gradient_inversion.curvature import Curvature, Problem
from privlab.attacks.gradient_inversion.curvature_by_differences import CurvatureByDifferences
from privlab.attacks.gradient_inversion.derivatives import KINDS, Kind, TwiceDifferentiable, why_exact
from privlab.attacks.gradient_inversion.results import Checkpoint, Result, State, record
from privlab.attacks.gradient_inversion.search import Rule, prepare, starts
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
    labels: the rule that recovers labels where the leak holds none.
    derivative: how J v and J^T u are had: "exact", by differentiating twice and thrice; "difference", each by one more first derivative,
        see `curvature_by_differences`; "auto", by differences where they agree at the first point and at every tenth.
    """

    steps: int = 30
    labels: Rule = label_recovery.row_minimum
    passes: int | None = None
    derivative: Kind = "exact"

    def __post_init__(self) -> None:
        if self.steps < 1 or (self.passes is not None and self.passes < LEAST):
            raise ValueError(
                f"steps={self.steps}, passes={self.passes}: give 1 step or more, and {LEAST} passes or more, or None"
            )
        if self.derivative not in KINDS:
            raise ValueError(f"derivative={self.derivative!r} is not known here; try {', '.join(map(repr, KINDS))}")

    def __repr__(self) -> str:
        limit = f" or {self.passes:,} passes" if self.passes else ""
        how = f"labels by {self.labels.__name__} where unknown, derivative {self.derivative}"
        return f"GaussNewton: {self.steps} steps{limit} on the relative distance; {how}"

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
        parameters, leak = prepare(model, leak, self.labels)
        kind = self.derivative if why_exact(model) == "" else "exact"
        problem = Problem(TwiceDifferentiable(model, tell=kind == "exact"), parameters, leak, space or Pixels())
        for restart, images, _ in starts(leak, seed, restarts, start):
            if resume and restart < resume["restart"]:
                continue
            curvature = Curvature(problem) if kind == "exact" else CurvatureByDifferences(problem, kind, model)
            walk = _Walk(self, curvature, restart, images, seed)
            if resume and restart == resume["restart"]:
                walk.resume(resume)
            yield from walk.states()

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


class _Walk:
    """One restart."""

    def __init__(self, attack: GaussNewton, curvature: Curvature, restart: int, images: Tensor, seed: int) -> None:
        self.attack, self.curvature, self.restart = attack, curvature, restart
        self.leak, self.space = curvature.problem.leak, curvature.problem.space
        self.low, self.high = (self.leak.normalise(torch.full_like(images[:1], value)) for value in (0.0, 1.0))
        self.boxed = isinstance(self.space, Pixels)
        self.latent = self.space.begin(self._inside(images)).detach().clone()
        self.step, self.damping, self.stuck = 0, DAMPING, False
        self.worth = math.inf  # the least distance so far
        self.probe = torch.Generator().manual_seed(seed)

    def states(self) -> Iterator[State]:
        curvature = self.curvature
        curvature.look(self.latent)
        while True:
            weights, (distance, roughness) = self._weights(), curvature.values
            losses = {"gradients": weights[0] * distance, "smoothness": weights[1] * roughness}
            images = self.leak.normalise.inverse(self.space.images(self.latent)).clamp(0, 1).detach()
            labels: Any = self.leak.labels  # known by now
            reason = self._reason(distance)
            yield State(
                self.restart, self.step, curvature.passes, images, labels, losses, losses["gradients"], reason, self.checkpoint,
                curvature.points.copy(),
            )  # fmt: skip
            if reason:
                return
            self._advance()

    def _weights(self) -> tuple[float, float]:
        """What the distance and the smoothness count now."""
        self.worth = min(self.worth, self.curvature.values[0])
        return 1.0, SMOOTHNESS * self.worth

    def _advance(self) -> None:
        """Solve for a step, take it if it helps, and learn from it how much to damp the next."""
        curvature, weights = self.curvature, self._weights()
        downhill = curvature.downhill(weights)
        free = torch.ones_like(downhill)
        if self.boxed:
            fixed = ((self.latent <= self.low) & (downhill < 0)) | ((self.latent >= self.high) & (downhill > 0))
            free = (~fixed).to(downhill)
        if not curvature.scale:  # of the first point; later the damping follows by itself
            signs = (2.0 * torch.randint(2, self.latent.shape, generator=self.probe) - 1).to(self.latent)
            curvature.scale = (curvature.length(signs, weights) / self.latent.numel()) or 1.0
        limit = None if self.attack.passes is None else self.attack.passes - 2
        step = curvature.solve(free * downhill, free, weights, self.damping, limit)
        goal = self._inside(self.latent + step)
        promised = (downhill * (goal - self.latent)).sum().item() - 0.5 * curvature.length(goal - self.latent, weights)
        before, here = curvature.total(weights), curvature.here()
        curvature.look(goal)
        gained = 0.5 * (before - curvature.total(weights))
        ratio = gained / promised if promised > 0 else -1.0
        if gained > 0:  # NaN is not
            self.latent = goal
        else:
            curvature.back(here)
        least = torch.finfo(goal.dtype).eps  # less than this a float does not see
        self.damping = max(least, self.damping * (0.25 if ratio > 0.5 else 4.0 if not ratio > 0.25 else 1.0))
        self.stuck = self.damping > 1e12 * DAMPING
        self.step += 1

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.boxed else x

    def _reason(self, distance: float) -> str:
        if not math.isfinite(distance):
            return "not finite"
        if self.step == self.attack.steps:
            return "steps"
        if self.attack.passes is not None and self.curvature.passes + LEAST - 1 > self.attack.passes:
            return "passes"
        return "stuck" if self.stuck else ""

    def checkpoint(self) -> Checkpoint:
        """All that the walk needs to look at its present point again and go on."""
        numbers = [self.step, self.stuck, self.damping, self.worth]
        state = {
            "restart": self.restart,
            "numbers": numbers,
            "latent": self.latent.clone(),
            "probe": self.probe.get_state(),
        }
        return state | {"curvature": self.curvature.checkpoint()}

    def resume(self, checkpoint: Checkpoint) -> None:
        """Take up a walk where `checkpoint` left it."""
        self.step, self.stuck, self.damping, self.worth = checkpoint["numbers"]
        self.latent = checkpoint["latent"].to(self.latent)
        self.probe.set_state(checkpoint["probe"].cpu())
        self.curvature.resume(checkpoint["curvature"])
