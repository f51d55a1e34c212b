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
from typing import Literal

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import label_recovery, objectives, priors
from privlab.attacks.gradient_inversion.curvature import Curvature, Residual, check_memory, metric, residuals
from privlab.attacks.gradient_inversion.curvature_by_differences import CurvatureByDifferences
from privlab.attacks.gradient_inversion.derivatives import KINDS, Kind, TwiceDifferentiable, why_exact
from privlab.attacks.gradient_inversion.results import Checkpoint, Result, State, record
from privlab.attacks.gradient_inversion.search import Rule, Term, Value, prepare, starts
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.compute import Run
from privlab.leak import Leak

SQUARES: dict[Value, Residual] = {
    objectives.squared_distance: lambda _, grads, leak: [grads[n] - g for n, g in leak.grads.items()],
    objectives.relative_distance: lambda _, grads, leak: objectives.relative_differences(grads, leak),
    priors.squared_variation: lambda images, _, leak: priors.neighbours(images),
}
PRECONDITIONS = ("none", "diagonal", "patches")
TERMS = (
    Term("gradients", 1.0, objectives.relative_distance),
    Term("smoothness", 0.3, priors.squared_variation, of="images"),
)  # so weak that a smoother image cannot win: photographs differ in squared variation by 1 at most (CIFAR-10), and .3 of that is below 1


@dataclass(frozen=True)
class GaussNewton:
    """Search, from noise, for images whose gradients are the leak's, by damped Gauss-Newton.

    terms: summands of the loss, all of them sums of squares, see `SQUARES`.
    steps: each solves one linear system.  passes: stop where so many are spent, if given; see `search` for what counts as one.
    inner: iterations of conjugate gradients in one step, at most; fewer where the system is solved to `tolerance`, a share of the
        residual that it begins with.
    damping: to begin with, in units of the mean diagonal of J^T J; a fourth of it after a step that gained more than half of what was
        promised, four times it after one that gained less than a quarter, or lost; a step that loses is taken back.
    recycle: pairs (v, J^T J v) of earlier steps that are kept, and make conjugate gradients start from what they have seen (Morales and
        Nocedal 2000); they cost no pass.  0 for none.
    precondition: in what units directions are measured. "none": all alike. "diagonal": short ones where the update moves much, by an
        estimate that takes eight passes a step. "patches": as the patch embedding of the model sees them.
    fading: terms of the images count as much as those of the gradients are worth: less and less while these are met, and no less than
        noise in the leak allows. False: as much as the terms say.
    boxed: pixels stay in [0, 1]: those at an edge that want to leave are held there while the rest is solved for, then all are clamped.
    labels: the rule that recovers labels where the leak holds none.
    derivative: how J v and J^T u are had: "exact", by differentiating twice and thrice; "difference", each by one more first derivative,
        see `curvature_by_differences`; "auto", by differences where they agree at the first point and at every tenth.
    """

    terms: tuple[Term, ...] = TERMS
    steps: int = 30
    inner: int = 40
    damping: float = 1e-2
    tolerance: float = 0.05
    recycle: int = 100
    precondition: Literal["none", "diagonal", "patches"] = "none"
    fading: bool = True
    boxed: bool = True
    labels: Rule = label_recovery.row_minimum
    passes: int | None = None
    derivative: Kind = "exact"

    def __post_init__(self) -> None:
        for term in self.terms:
            if not any(term.value is square for square in SQUARES):
                names = ", ".join(value.__name__ for value in SQUARES)
                raise ValueError(f"terms: {term!r} is no sum of squares, which Gauss-Newton needs; there are {names}")
        if not any(t.of == "gradients" and t.weigh(1.0) > 0 for t in self.terms):
            raise ValueError(
                "terms: none of them looks at the client's gradients to the end; give one of objectives a weight above 0"
            )
        for name in ("steps", "inner"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} searches nothing; give 1 or more")
        if not (self.damping > 0 and math.isfinite(self.damping)):
            raise ValueError(f"damping={self.damping} damps nothing; give a positive number, such as 0.01")
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance} is no share; give 0 to below 1, such as 0.05")
        if self.recycle < 0:
            raise ValueError(f"recycle={self.recycle} is no number of pairs; give 0 for none, or such as 100")
        if self.precondition not in PRECONDITIONS:
            raise ValueError(
                f"precondition={self.precondition!r} is not known; try {', '.join(map(repr, PRECONDITIONS))}"
            )
        if self.derivative not in KINDS:
            raise ValueError(f"derivative={self.derivative!r} is not known here; try {', '.join(map(repr, KINDS))}")
        if self.passes is not None and self.passes < self.least:
            raise ValueError(
                f"passes={self.passes} are not enough for a single step; give {self.least} or more, or None"
            )

    def __repr__(self) -> str:
        limit = f" or {self.passes:,} passes" if self.passes else ""
        return (
            f"GaussNewton: {' + '.join(map(repr, self.terms))};\n  {self.steps} steps{limit}, {self.inner} inner iterations each, "
            f"damping {self.damping:g}, {self.recycle} pairs recycled, preconditioned by {self.precondition}, "
            f"{'fading' if self.fading else 'not fading'}, {'boxed' if self.boxed else 'unboxed'}"
            + (f", derivative {self.derivative}" if self.derivative != "exact" else "")
            + (f", tolerance {self.tolerance:g}" if self.tolerance != GaussNewton.tolerance else "")
            + (f", labels by {self.labels.__name__}" if self.labels is not GaussNewton.labels else "")
        )

    @property
    def least(self) -> int:
        """Passes of the shortest step: a look, the graph, downhill, the unit, one inner iteration, what is promised, a look; and probes."""
        return 8 + 2 * PROBES * (self.precondition == "diagonal")

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
        (A step of a first-order search takes two: the gradient, and its derivative.)  `score` is the value of the gradients' terms.
        A restart ends by "steps", "passes", "not finite", or "stuck": no step helps at any damping.
        Raises ValueError for a leak without gradients, or a model with an operator that cannot be differentiated so often; MemoryError,
        with an estimate, where the batch would not fit.
        """
        parameters, leak = prepare(model, leak, self.labels)
        kind = self.derivative if why_exact(model) == "" else "exact"
        if kind != "difference":
            check_memory(model, leak)
        labels: Tensor = leak.labels  # type: ignore[assignment]  # known by now
        space = space or Pixels()
        values = [SQUARES[t.value] for t in self.terms]
        forward = TwiceDifferentiable(model, tell=kind == "exact")
        problem = partial(residuals, forward, parameters, leak, labels, space, values)
        for restart, images, _ in starts(leak, seed, restarts, start):
            if resume and restart < resume["restart"]:
                continue
            bend = Curvature(problem, self.recycle, metric(self.precondition, model, space))
            if kind != "exact":
                bend = CurvatureByDifferences(
                    problem, self.recycle, bend.metric, kind, model, parameters, leak, labels, space, values
                )
            walk = _Walk(self, bend, leak, labels, space, restart, images, seed)
            if resume and restart == resume["restart"]:
                walk.unpack(resume)
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

    def __init__(
        self, attack: GaussNewton, bend: Curvature, leak: Leak, labels: Tensor, space: Space, restart: int, images: Tensor, seed: int,
    ) -> None:  # fmt: skip
        self.attack, self.leak, self.labels, self.space, self.restart = attack, leak, labels, space, restart
        self.boxed = attack.boxed and isinstance(space, Pixels)
        self.low, self.high = (leak.normalise(torch.full_like(images[:1], value)) for value in (0.0, 1.0))
        self.latent = space.begin(self._inside(images)).detach().clone()
        self.bend = bend
        self.step, self.damping, self.stuck = 0, attack.damping, False
        self.worth = math.inf  # the least value that the gradients' terms have had
        self.probe = torch.Generator().manual_seed(seed)

    def states(self) -> Iterator[State]:
        self.bend.look(self.latent)
        while True:
            weights = self.weights()
            losses = {t.name: w * v for t, w, v in zip(self.attack.terms, weights, self.bend.values, strict=True)}
            score = sum(losses[t.name] for t in self.attack.terms if t.of == "gradients")
            images = self.leak.normalise.inverse(self.space.images(self.latent)).clamp(0, 1).detach()
            reason = self._reason(score)
            yield State(
                self.restart, self.step, self.bend.passes, images, self.labels, losses, score, reason, self.pack,
                self.bend.points.copy(),
            )  # fmt: skip
            if reason:
                return
            self.advance()

    @property
    def progress(self) -> float:
        spent = self.bend.passes / self.attack.passes if self.attack.passes else 0.0
        return min(1.0, max(self.step / self.attack.steps, spent))

    def weights(self) -> list[float]:
        """What each term counts now."""
        plain = [t.weigh(self.progress) for t in self.attack.terms]
        if not self.attack.fading:
            return plain
        terms = list(zip(self.attack.terms, plain, self.bend.values, strict=True))
        self.worth = min(self.worth, sum(w * value for t, w, value in terms if t.of == "gradients"))
        return [w if t.of == "gradients" else w * self.worth for t, w, _ in terms]

    def advance(self) -> None:
        """Solve for a step, take it if it helps, and learn from it how much to damp the next."""
        bend, weights = self.bend, self.weights()
        downhill = bend.downhill(weights)
        free = torch.ones_like(downhill)
        if self.boxed:
            fixed = ((self.latent <= self.low) & (downhill < 0)) | ((self.latent >= self.high) & (downhill > 0))
            free = (~fixed).to(downhill)
        if not bend.scale:  # of the first point; later the damping follows by itself
            bend.scale = (bend.length(self._signs(), weights) / self.latent.numel()) or 1.0
        if self.attack.precondition == "diagonal":
            bend.units = self._diagonal(weights)
        limit = None if self.attack.passes is None else self.attack.passes - 2
        step = bend.solve(free * downhill, free, weights, self.damping, self.attack.inner, self.attack.tolerance, limit)
        goal = self._inside(self.latent + step)
        promised = (downhill * (goal - self.latent)).sum().item() - 0.5 * bend.length(goal - self.latent, weights)
        before, here = bend.total(weights), bend.here()
        bend.look(goal)
        gained = 0.5 * (before - bend.total(weights))
        ratio = gained / promised if promised > 0 else -1.0
        if gained > 0:  # NaN is not
            self.latent = goal
        else:
            bend.back(here)
        least = torch.finfo(goal.dtype).eps  # less than this a float does not see
        self.damping = max(least, self.damping * (0.25 if ratio > 0.5 else 4.0 if not ratio > 0.25 else 1.0))
        self.stuck = self.damping > 1e12 * self.attack.damping
        self.step += 1

    def _diagonal(self, weights: Sequence[float]) -> Tensor:
        """An estimate of the diagonal of J^T J from random signs (Bekas et al. 2007), over its mean."""
        estimate = torch.zeros_like(self.latent)
        for _ in range(PROBES):
            signs = self._signs()
            estimate += signs * self.bend.squared(signs, weights) / PROBES
        mean = estimate.abs().mean()
        return (estimate.abs() / mean).clamp(min=0.1) if mean > 0 else torch.ones_like(estimate)

    def _signs(self) -> Tensor:
        return (2.0 * torch.randint(2, self.latent.shape, generator=self.probe) - 1).to(self.latent)

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.boxed else x

    def _reason(self, score: float) -> str:
        if not math.isfinite(score):
            return "not finite"
        if self.step == self.attack.steps:
            return "steps"
        if self.attack.passes is not None and self.bend.passes + self.attack.least - 1 > self.attack.passes:
            return "passes"
        return "stuck" if self.stuck else ""

    def pack(self) -> Checkpoint:
        numbers = [self.step, self.bend.passes - 1, self.stuck, self.damping, self.bend.scale, self.worth]
        checkpoint = {
            "restart": self.restart,
            "numbers": numbers,
            "latent": self.latent.clone(),
            "probe": self.probe.get_state(),
        }
        if isinstance(self.bend, CurvatureByDifferences):
            checkpoint["ways"] = self.bend.pack()
        if self.bend.pairs:
            checkpoint["pairs"] = torch.stack([torch.stack(pair) for pair in self.bend.pairs])  # (pairs, 2, ...)
        return checkpoint

    def unpack(self, checkpoint: Checkpoint) -> None:
        self.step, self.bend.passes, self.stuck, self.damping, self.bend.scale, self.worth = checkpoint["numbers"]
        self.latent = checkpoint["latent"].to(self.latent)
        self.probe.set_state(checkpoint["probe"].cpu())
        if isinstance(self.bend, CurvatureByDifferences):
            self.bend.unpack(checkpoint["ways"])
        self.bend.pairs = [(v, bent) for v, bent in checkpoint.get("pairs", torch.empty(0, 2)).to(self.latent)]


PROBES = 4  # random vectors for the diagonal, two passes each
