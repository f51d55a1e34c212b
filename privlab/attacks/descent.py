"""One descent of a gradient attack, from a start to where it stops: the loop that every preset of `gradient.py` shares."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from privlab.leak import Gradients, Leak, stateless
from privlab.store import from_bytes, to_bytes

Value = Callable[[Tensor, Gradients, Leak], Tensor]  # (normalised images, their gradients, the leak) -> scalar
Checkpoint = dict[str, Tensor]


@dataclass(frozen=True)
class Term:
    """One summand of an attack's loss: its weight, and the span of the run (from 0 to 1) in which it counts.

    end: the weight that it has fallen or risen to when its span ends, by the same factor in each step; None leaves it as it is.
    """

    name: str
    weight: float
    value: Value
    span: tuple[float, float] = (0.0, 1.0)
    end: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.span[0] < self.span[1] <= 1:
            raise ValueError(f"span={self.span} of term {self.name!r} is no part of a run; give 0 <= begin < end <= 1")
        if self.end is not None and not (self.weight > 0 and self.end > 0):
            raise ValueError(
                f"weight={self.weight} cannot go to end={self.end} by factors in {self.name!r}; give both above 0"
            )

    def active(self, progress: float) -> bool:
        """Whether the term counts at this part of the run, 0 being its start and 1 its end."""
        return self.span[0] <= progress < self.span[1] or progress == self.span[1] == 1

    def weigh(self, progress: float) -> float:
        """Its weight at this part of its span."""
        if self.end is None:
            return self.weight
        begin, end = self.span
        return self.weight * (self.end / self.weight) ** ((progress - begin) / (end - begin))

    def __repr__(self) -> str:
        weight = f"{self.weight:g}" if self.end is None else f"{self.weight:g} to {self.end:g}"
        what = f"{weight} {self.name} ({getattr(self.value, '__name__', repr(self.value))})"
        return what if self.span == (0, 1) else f"{what} from {self.span[0]:.0%} to {self.span[1]:.0%}"


@dataclass(frozen=True)
class State:
    """Where a search stands. All in it belongs to one moment: these images have these losses.

    restart, step: counted from 0.  evaluations: gradients of the network taken so far in this restart.
    images: (batch, channels, height, width), clamped to [0, 1].  labels: (batch,), given, recovered or searched for.
    losses: term -> its value as it is weighted now.
    score: the loss as it is weighted at the end of the run, by which states and restarts are compared; NaN as long as one of those
        terms does not count yet.
    reason: why the restart ends here: "steps" (all are done), "enough", "patience", "not finite"; empty while it goes on.
    checkpoint: call it, before the next step, for tensors from which `search` can go on.
    """

    restart: int
    step: int
    evaluations: int
    images: Tensor
    labels: Tensor
    losses: dict[str, float]
    score: float
    reason: str
    checkpoint: Callable[[], Checkpoint] = field(repr=False, compare=False)

    @property
    def loss(self) -> float:
        """What the search minimises now: the sum of its terms."""
        return sum(self.losses.values())


@dataclass
class Descent:
    """The images of one restart on their way down.

    x: normalised images, where it starts.  labels: (batch,), or None: then `guess`, (batch, classes) logits, is searched for too.
    The other arguments are those of `gradient.Inversion`.
    """

    forward: Callable[[Tensor], Tensor]
    parameters: Mapping[str, Tensor]
    leak: Leak
    terms: Sequence[Term]
    steps: int
    lr: float
    optimiser: str
    schedule: Callable[[float], float]
    signed: bool
    boxed: bool
    enough: float | None
    patience: int | None
    restart: int
    x: Tensor
    labels: Tensor | None
    guess: Tensor | None = None

    def __post_init__(self) -> None:
        self.step, self.evaluations, self.best, self.since = 0, 0, math.inf, 0
        self.low, self.high = (
            self.leak.normalise(torch.full_like(self.x[:1], value, requires_grad=False)) for value in (0.0, 1.0)
        )
        self.x = self._inside(self.x.detach().clone()).requires_grad_()
        self.variables = [self.x] if self.guess is None else [self.x, self.guess.requires_grad_()]
        rules: dict[str, Any] = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}
        self.rule: torch.optim.Optimizer = rules[self.optimiser](self.variables, lr=self.lr)

    def states(self) -> Iterator[State]:
        """A state before each step, and one after the last."""
        while True:
            values = dict(zip((t.name for t in self.active), self.evaluate().tolist(), strict=True))
            losses = {t.name: t.weigh(self.progress) * values[t.name] for t in self.active}
            score = self._score(values)
            self._count(score)
            state = State(
                self.restart,
                self.step,
                self.evaluations,
                self.leak.normalise.inverse(self.x.detach()).clamp(0, 1),
                self.guess.argmax(1) if self.labels is None else self.labels,  # type: ignore[union-attr]
                losses,
                score,
                self._reason(sum(losses.values()), score),
                self.pack,
            )
            yield state
            if state.reason:
                return
            self.advance()

    @property
    def progress(self) -> float:
        return self.step / self.steps

    @property
    def active(self) -> list[Term]:
        return [t for t in self.terms if t.active(self.progress)]

    def evaluate(self) -> Tensor:
        """The values (terms,) of the active terms, unweighted; the slope of their weighted sum is left in `x.grad` (and `guess.grad`)."""
        logits = self.forward(self.x)  # (batch, classes)
        if self.labels is not None:
            task = F.cross_entropy(logits, self.labels)
        else:  # labels as free as the images: a softmax over logits that are searched for (Zhu et al. 2019)
            task = -(self.guess.softmax(1) * logits.log_softmax(1)).sum(1).mean()  # type: ignore[union-attr]
        sent = torch.autograd.grad(task, list(self.parameters.values()), create_graph=True)
        grads = dict(zip(self.parameters, sent, strict=True))
        values = torch.stack([t.value(self.x, grads, self.leak) for t in self.active])  # (terms,)
        total = values @ values.new_tensor([t.weigh(self.progress) for t in self.active])
        for variable, slope in zip(self.variables, torch.autograd.grad(total, self.variables), strict=True):
            variable.grad = slope.sign() if self.signed else slope
        self.evaluations += 1
        self.total = total.detach()
        return values.detach()

    def advance(self) -> None:
        """One step of the optimiser, from where `evaluate` was called last."""
        self.rule.param_groups[0]["lr"] = self.lr * self.schedule(self.progress)
        known = [self.total]  # L-BFGS asks for the present point again: no need to compute it twice

        def closure() -> Tensor:
            if known:
                return known.pop()
            self.evaluate()
            return self.total

        self.rule.step(closure)  # type: ignore[arg-type]
        with torch.no_grad():
            self.x.copy_(self._inside(self.x))
        self.step += 1

    def pack(self) -> Checkpoint:
        """All that the descent needs to compute its present state again and go on, as tensors."""
        file = io.BytesIO()
        torch.save(self.rule.state_dict(), file)
        # The present state will be counted once more: one evaluation less, and one step less since the best score.
        counts = torch.tensor([self.restart, self.step, self.evaluations - 1, self.since - 1])
        best = torch.tensor(self.best, dtype=torch.float64)
        variables = {f"variable{i}": v.detach().clone() for i, v in enumerate(self.variables)}
        return {"counts": counts, "best": best, "optimiser": from_bytes(file.getvalue()), **variables}

    def unpack(self, checkpoint: Checkpoint) -> None:
        """Take up a descent where `pack` left it."""
        _, self.step, self.evaluations, self.since = checkpoint["counts"].tolist()
        self.best = checkpoint["best"].item()
        with torch.no_grad():
            for i, variable in enumerate(self.variables):
                variable.copy_(checkpoint[f"variable{i}"])
        rule = io.BytesIO(to_bytes(checkpoint["optimiser"]))
        self.rule.load_state_dict(torch.load(rule, weights_only=True, map_location="cpu"))

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.boxed else x

    def _score(self, values: dict[str, float]) -> float:
        return sum(t.weigh(1.0) * values.get(t.name, math.nan) for t in self.terms if t.active(1.0))

    def _count(self, score: float) -> None:
        """Remember the best score, and how many steps ago it was."""
        if score < self.best:
            self.best, self.since = score, 0
        else:
            self.since = self.since + 1 if math.isfinite(self.best) else 0

    def _reason(self, loss: float, score: float) -> str:
        if not math.isfinite(loss) or not all(v.grad.isfinite().all() for v in self.variables if v.grad is not None):
            return "not finite"
        if self.step == self.steps:
            return "steps"
        if self.enough is not None and score <= self.enough:
            return "enough"
        return "patience" if self.patience is not None and self.since >= self.patience else ""


def twice_differentiable(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model's forward pass without side effects, attention computed so that it has a second derivative.

    PyTorch's fused attention has none. Where the model uses it, the plain one takes its place, and a warning says so.
    """
    forward, watch = stateless(model), _Attention()
    told: list[bool] = []

    def plain(x: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            if told:
                return forward(x)
            with watch:
                logits = forward(x)
        told.append(True)
        if watch.fused:
            warnings.warn(
                f"model: {type(model).__name__} computes attention by a fused kernel, which cannot be differentiated twice; "
                "the search uses PyTorch's plain attention in its place (same function, slower)",
                stacklevel=2,
            )
        return logits

    return plain


class _Attention(TorchFunctionMode):
    """Notices calls of attention that PyTorch may fuse."""

    fused = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.fused |= func in (F.scaled_dot_product_attention, F.multi_head_attention_forward)
        return func(*args, **(kwargs or {}))
