"""Damped Gauss-Newton on gradient matching: a search that knows how the message bends the space of images, without ever forming a matrix.

The message is a function g of the images, and the client's is g*. Where the loss is a sum of squares of residuals r, such as
(g - g*) / |g*| parameter by parameter, a step s solves (J^T J + damping) s = -J^T r, J = dr / d(images). J v comes by forward over
reverse, J^T u by double backward, and conjugate gradients need no more (Martens 2010 for networks; Nocedal and Wright 2006, chapter 10).
First-order searches of the papers see J^T r alone: where J is ill-conditioned they crawl. Not in the papers of this book.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from privlab.attacks import labels as label_rules
from privlab.attacks import objectives, priors
from privlab.attacks.descent import Checkpoint, State
from privlab.attacks.recording import Result, record
from privlab.attacks.spaces import Pixels, Space
from privlab.attacks.terms import Term, Value
from privlab.leak import Gradients, Leak, functional
from privlab.store import Run

Residual = Callable[[Tensor, Gradients, Leak], list[Tensor]]  # tensors whose squares add up to a term's value

SQUARES: dict[Value, Residual] = {
    objectives.squared_distance: lambda _, grads, leak: [grads[n] - g for n, g in leak.grads.items()],
    objectives.relative_distance: lambda _, grads, leak: objectives.relative_differences(grads, leak),
    priors.squared_variation: lambda images, _, leak: priors.neighbours(images),
}


@dataclass(frozen=True)
class GaussNewton:
    """Search, from noise, for images whose gradients are the leak's, by damped Gauss-Newton.

    terms: summands of the loss, all of them sums of squares, see `SQUARES`.  steps: each solves one linear system.
    inner: iterations of conjugate gradients in one, at most; fewer where the system is solved to `tolerance`.
    damping: to begin with, in units of the mean diagonal of J^T J; a fourth of it after a step that gained what was promised, four
        times it after one that gained less than a quarter, or lost; a step that loses is taken back.
    precondition: "none", or "diagonal": directions in which the message moves much are measured in shorter units.
    boxed: pixels stay in [0, 1]: those at an edge that want to leave are held there while the rest is solved for, then all are clamped.
    labels: the rule that recovers labels where the leak holds none.  enough: stop at this score.
    """

    terms: tuple[Term, ...] = (Term("gradients", 1.0, objectives.relative_distance),)
    steps: int = 20
    inner: int = 40
    damping: float = 1e-2
    tolerance: float = 0.05
    precondition: Literal["none", "diagonal"] = "none"
    boxed: bool = True
    labels: Callable[[nn.Module, Leak], Tensor] = label_rules.row_minimum
    enough: float | None = None

    def __post_init__(self) -> None:
        for term in self.terms:
            if term.value not in SQUARES:
                known = ", ".join(value.__name__ for value in SQUARES)
                raise ValueError(f"terms: {term!r} is no sum of squares, which Gauss-Newton needs; there are {known}")
        if not any(t.of == "gradients" and t.weight for t in self.terms):
            raise ValueError(
                "terms: none of them looks at the client's gradients; give one of objectives a weight above 0"
            )
        for name in ("steps", "inner"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} searches nothing; give 1 or more")
        if not (self.damping > 0 and math.isfinite(self.damping)):
            raise ValueError(f"damping={self.damping} damps nothing; give a positive number, such as 0.01")
        if self.precondition not in ("none", "diagonal"):
            raise ValueError(f"precondition={self.precondition!r} is not known; try 'none' or 'diagonal'")

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
        """Yield a `State` before each step and one after the last, as the first-order searches do; see `matching.Inversion.search`.

        start: images to begin with, in place of noise: what a first-order search has found, for a warm start.
        `evaluations` counts passes: one for the residuals, one for each J v and each J^T u. (A step of a first-order search takes two.)
        A restart ends by "steps", "enough", "not finite", or "stuck": no step helps at any damping.
        """
        if not leak.grads:
            raise ValueError(
                "leak holds no gradients, so there is nothing to match; select some: leak.only(parts.stem(model))"
            )
        like = next(p for n, p in model.named_parameters() if n in leak.grads)
        leak = leak.to(like)
        labels = leak.labels if leak.labels is not None else self.labels(model, leak).to(like.device)
        space = space or Pixels()
        problem = partial(_residuals, model, leak, labels, space)
        noise = torch.Generator().manual_seed(seed)
        first = int(resume["counts"][0]) if resume else 0
        for restart in range(restarts):
            drawn = torch.randn(leak.batch_size, *leak.image_shape, generator=noise).to(like)
            if restart < first:
                continue
            begin = drawn if start is None else leak.normalise(start.to(like))
            walk = _Walk(self, problem, leak, labels, space, restart, begin, seed)
            if resume and restart == first:
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
        budget: float | None = None,
        progress: bool = True,
    ) -> Result:
        """Follow the search to its end; see `matching.Inversion.run`."""
        begin = partial(self.search, model, leak, seed, restarts, start, space=space)
        return record(begin, self.steps, restarts, snapshots, store, budget, progress)


def _residuals(
    model: nn.Module, leak: Leak, labels: Tensor, space: Space, terms: Sequence[tuple[Term, float]], latent: Tensor
) -> tuple[Tensor, ...]:
    """What Gauss-Newton squares and adds up, tensor by tensor, each term by the root of its weight."""
    parameters = {n: p.detach() for n, p in model.named_parameters() if n in leak.grads}
    forward, images = functional(model), space.images(latent)

    def task(parameters: Gradients) -> Tensor:
        return F.cross_entropy(forward(parameters, images), labels)

    with sdpa_kernel(SDPBackend.MATH):
        grads = grad(task)(parameters)
    found = []
    for term, weight in terms:
        found += [math.sqrt(weight) * part for part in SQUARES[term.value](images, grads, leak)]
    return tuple(found)


class _Walk:
    """One restart."""

    def __init__(
        self, attack: GaussNewton, problem: Callable[..., tuple[Tensor, ...]], leak: Leak, labels: Tensor, space: Space,
        restart: int, images: Tensor, seed: int,
    ) -> None:  # fmt: skip
        self.attack, self.problem, self.leak, self.labels, self.space, self.restart = (
            attack,
            problem,
            leak,
            labels,
            space,
            restart,
        )
        self.boxed = attack.boxed and isinstance(space, Pixels)
        self.low, self.high = (leak.normalise(torch.full_like(images[:1], value)) for value in (0.0, 1.0))
        self.latent = space.begin(self._inside(images)).detach().clone()
        self.step, self.passes, self.damping, self.scale, self.stuck = 0, 0, attack.damping, 0.0, False
        self.probe = torch.Generator().manual_seed(seed)

    def states(self) -> Iterator[State]:
        self.look()
        while True:
            losses = {t.name: value.item() for t, value in zip(self.attack.terms, self.values, strict=True)}
            score = sum(losses.values())
            images = self.leak.normalise.inverse(self.space.images(self.latent)).clamp(0, 1).detach()
            reason = self._reason(score)
            yield State(
                self.restart, self.step, self.passes, images, self.labels, losses, score, reason, images[None], self.pack
            )  # fmt: skip
            if reason:
                return
            self.advance()

    @property
    def progress(self) -> float:
        return self.step / self.attack.steps

    def weights(self) -> list[tuple[Term, float]]:
        return [(t, t.weigh(self.progress)) for t in self.attack.terms]

    def look(self) -> None:
        """Residuals at the present point, with the graph that J^T u needs."""
        self.at = self.latent.clone().requires_grad_()
        self.residual = self.problem(self.weights(), self.at)
        self.values = self._values(self.residual)
        self.passes += 1

    def pull(self, vectors: Sequence[Tensor]) -> Tensor:
        """J^T u."""
        self.passes += 1
        return torch.autograd.grad(self.residual, self.at, vectors, retain_graph=True)[0]

    def push(self, direction: Tensor) -> tuple[Tensor, ...]:
        """J v."""
        self.passes += 1
        return jvp(partial(self.problem, self.weights()), (self.latent,), (direction,))[1]

    def advance(self) -> None:
        """Solve for a step, take it if it helps, and learn from it how much to damp the next."""
        downhill = -self.pull([r.detach() for r in self.residual])
        free = torch.ones_like(downhill)
        if self.boxed:
            held = ((self.latent <= self.low) & (downhill < 0)) | ((self.latent >= self.high) & (downhill > 0))
            free = (~held).to(downhill)
        diagonal = self._diagonal(free)
        step = self.solve(free * downhill, free, diagonal)
        goal = self._inside(self.latent + step)
        taken = goal - self.latent
        promised = (downhill * taken).sum() - 0.5 * _square(self.push(taken))
        before, here, old = sum(self.values), self.latent, (self.at, self.residual, self.values)
        self.latent = goal
        self.look()
        gained = 0.5 * (before - sum(self.values))
        ratio = (gained / promised).item() if promised > 0 else -1.0
        if not gained > 0:  # NaN included
            self.latent, (self.at, self.residual, self.values) = here, old
        self.damping *= 0.25 if ratio > 0.5 else 4.0 if not ratio > 0.25 else 1.0
        self.stuck = self.damping > 1e12 * self.attack.damping
        self.step += 1
        if self._scheduled():
            self.look()

    def solve(self, downhill: Tensor, free: Tensor, diagonal: Tensor) -> Tensor:
        """Conjugate gradients for (J^T J + damping * diagonal) step = downhill, among the free numbers, from zero."""
        step, left = torch.zeros_like(downhill), downhill
        scaled = left / diagonal
        direction, size = scaled, (left * scaled).sum()
        goal = self.attack.tolerance**2 * size
        for _ in range(self.attack.inner):
            if not size > goal:
                break
            bent = free * self.pull(self.push(direction)) + self.damping * diagonal * direction
            length = size / (direction * bent).sum()
            step, left = step + length * direction, left - length * bent
            scaled = left / diagonal
            size, last = (left * scaled).sum(), size
            direction = scaled + (size / last) * direction
        return step

    def _diagonal(self, free: Tensor) -> Tensor:
        """The units of the damping: the mean diagonal of J^T J everywhere, or an estimate of each of its numbers (Bekas et al. 2007)."""
        if self.attack.precondition == "none":
            if not self.scale:  # of the first point; later the damping follows by itself
                self.scale = (_square(self.push(self._signs())) / self.latent.numel()).item() or 1.0
            return torch.full_like(free, self.scale)
        estimate = torch.zeros_like(free)
        for _ in range(PROBES):
            signs = self._signs()
            estimate += signs * self.pull(self.push(signs)) / PROBES
        return estimate.abs().clamp(min=0.1 * estimate.abs().mean().item() + 1e-30)

    def _signs(self) -> Tensor:
        return (2.0 * torch.randint(2, self.latent.shape, generator=self.probe) - 1).to(self.latent)

    def _values(self, residual: Sequence[Tensor]) -> list[Tensor]:
        """The weighted value of each term."""
        found, at = [], 0
        for term in self.attack.terms:
            count = len(self.leak.grads) if term.of == "gradients" else 2
            found.append(_square(residual[at : at + count]).detach())
            at += count
        return found

    def _scheduled(self) -> bool:
        """Whether the weights have changed with this step, so that the residuals must be seen anew."""
        before, now = (self.step - 1) / self.attack.steps, self.progress
        return any(t.weigh(before) != t.weigh(now) for t in self.attack.terms)

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.boxed else x

    def _reason(self, score: float) -> str:
        if not math.isfinite(score):
            return "not finite"
        if self.step == self.attack.steps:
            return "steps"
        if self.attack.enough is not None and score <= self.attack.enough:
            return "enough"
        return "stuck" if self.stuck else ""

    def pack(self) -> Checkpoint:
        counts = torch.tensor([self.restart, self.step, self.passes - 1, int(self.stuck)])
        return {
            "counts": counts,
            "damping": torch.tensor([self.damping, self.scale], dtype=torch.float64),
            "latent": self.latent.clone(),
            "probe": self.probe.get_state(),
        }

    def unpack(self, checkpoint: Checkpoint) -> None:
        _, self.step, self.passes, stuck = checkpoint["counts"].tolist()
        self.stuck = bool(stuck)
        self.damping, self.scale = checkpoint["damping"].tolist()
        self.latent = checkpoint["latent"].to(self.latent)
        self.probe.set_state(checkpoint["probe"].cpu())


PROBES = 4  # random vectors for the diagonal, two passes each


def _square(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([part.square().sum() for part in parts]).sum()
