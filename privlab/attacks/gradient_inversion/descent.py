"""One descent of a gradient attack, from a start to where it stops: the loop that every preset of `presets.py` shares."""

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

from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.attacks.gradient_inversion.terms import Term
from privlab.compute.store import from_bytes, to_bytes
from privlab.leak import Leak
from privlab.models.forward import Gradients, stateless

Checkpoint = dict[str, Tensor]
Look = Callable[[Tensor, Sequence[Term], Tensor], tuple[Tensor, Tensor]]  # (images, terms, weights) -> values, gradient


@dataclass(frozen=True)
class State:
    """Where a search stands. All in it belongs to one moment: these images have these losses.

    restart, step: counted from 0.  evaluations: gradients of the network taken so far in this restart.
    images: (batch, channels, height, width), clamped to [0, 1].  labels: (batch,), given, recovered or searched for.
    losses: term -> its value as it is weighted now.  Where several seeds are searched for together, images, labels and losses are
        those of the seed that stands best, and `members` holds the images of all, (group, batch, channels, height, width).
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
    members: Tensor = field(repr=False, compare=False)
    checkpoint: Callable[[], Checkpoint] = field(repr=False, compare=False)

    @property
    def loss(self) -> float:
        """What the search minimises now: the sum of its terms."""
        return sum(self.losses.values())


@dataclass
class Descent:
    """The images of one restart on their way down.

    x: normalised images, where it starts, (group * batch, channels, height, width).
    labels: (batch,), or None: then `guess`, (group * batch, classes) logits, is searched for too.
    The other arguments are those of `matching.GradientMatching` and its `search`.
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
    space: Space = field(default_factory=Pixels)
    chunk: int | None = None
    compiled: Look | None = None

    def __post_init__(self) -> None:
        self.step, self.evaluations, self.best, self.since = 0, 0, math.inf, 0
        self.batch = self.leak.batch_size
        self.low, self.high = (
            self.leak.normalise(torch.full_like(self.x[:1], value, requires_grad=False)) for value in (0.0, 1.0)
        )
        with torch.no_grad():
            parts = [self.space.begin(part) for part in self._inside(self.x).split(self.batch)]
        self.latent = torch.cat(parts).detach().clone().requires_grad_()  # (group * batch, ...)
        self.variables = [self.latent] if self.guess is None else [self.latent, self.guess.requires_grad_()]
        rules: dict[str, Any] = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}
        self.rule: torch.optim.Optimizer = rules[self.optimiser](self.variables, lr=self.lr)

    def states(self) -> Iterator[State]:
        """A state before each step, and one after the last."""
        while True:
            table = self.evaluate().T.tolist()  # (group, terms)
            values = [dict(zip((t.name for t in self.active), row, strict=True)) for row in table]
            losses = [{t.name: t.weigh(self.progress) * row[t.name] for t in self.active} for row in values]
            scores = [self._score(row) for row in values]
            stands = scores if all(map(math.isfinite, scores)) else [sum(row.values()) for row in losses]
            lead = min(range(len(stands)), key=stands.__getitem__)
            self._count(scores[lead])
            members = self.leak.normalise.inverse(self.images.detach()).clamp(0, 1).unflatten(0, (-1, self.batch))
            state = State(
                self.restart,
                self.step,
                self.evaluations,
                members[lead],
                self._labels(lead),
                losses[lead],
                scores[lead],
                self._reason(sum(sum(row.values()) for row in losses), scores[lead]),
                members,
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
        """The values (terms, group) of the active terms, unweighted; their weighted sum's gradient is left in the variables' `.grad`."""
        before = self.evaluations
        self.images = torch.cat([self.space.images(part) for part in self.latent.split(self.batch)])
        x = self.images.detach()
        values: dict[str, list[Tensor]] = {t.name: [] for t in self.active}
        gradients = []
        for i, part in enumerate(x.split(self.batch)):
            guess = None if self.guess is None else self.guess[i * self.batch : (i + 1) * self.batch].detach()
            terms, pulled = self.look(part, guess)
            for name, value in terms.items():
                values[name].append(value)
            gradients.append(pulled)
        pulls = [torch.cat(each) for each in zip(*gradients, strict=True)]  # towards images, and towards labels
        for term in (t for t in self.active if t.of == "group"):
            together = x.unflatten(0, (-1, self.batch)).clone().requires_grad_()
            apart = term.value(together, {}, self.leak)  # (group,)
            values[term.name] = list(apart.detach())
            (pull,) = torch.autograd.grad(term.weigh(self.progress) * apart.sum(), together)
            pulls[0] = pulls[0] + pull.flatten(0, 1)
        pulls[0] = torch.autograd.grad(self.images, self.latent, pulls[0])[0]
        for variable, gradient in zip(self.variables, pulls, strict=True):
            variable.grad = (gradient.sign() if self.signed else gradient).contiguous()  # L-BFGS takes no other
        table = torch.stack([torch.stack(values[t.name]) for t in self.active])  # (terms, group)
        self.total = self._weights(self.active, table) @ table.sum(1)
        self.last = self.evaluations - before
        return table

    def look(self, x: Tensor, guess: Tensor | None) -> tuple[dict[str, Tensor], list[Tensor]]:
        """For one seed: the values of its terms, and the gradients of their weighted sum at the images and at the guessed labels."""
        variables = [v.requires_grad_() for v in (x, guess) if v is not None]
        terms = [t for t in self.active if t.of != "group"]
        if not terms:
            return {}, [torch.zeros_like(v) for v in variables]
        matching = any(t.of == "gradients" for t in terms)
        self.evaluations += matching
        if self.compiled is not None:
            values, gradient = self.compiled(x, terms, self._weights(terms, x))
            return dict(zip((t.name for t in terms), values, strict=True)), [gradient]
        whole = not matching or self.chunk is None or self.chunk >= self.batch
        grads = {}
        if matching:
            grads = self.gradients(x, guess, create_graph=True) if whole else self._gradients_by_chunk(x, guess)
        values = torch.stack([t.value(x, grads, self.leak) for t in terms])  # (terms,)
        total = self._weights(terms, values) @ values
        inputs = variables if whole else [*variables, *grads.values()]
        gradients = list(torch.autograd.grad(total, inputs, materialize_grads=True))
        if not whole:
            gradients = self._pull_by_chunk(x, guess, gradients[: len(variables)], gradients[len(variables) :])
        return dict(zip((t.name for t in terms), values.detach(), strict=True)), gradients

    def gradients(
        self, x: Tensor, guess: Tensor | None, rows: slice = slice(None), create_graph: bool = False
    ) -> Gradients:
        """What the client would have sent for these images, or the share of some rows of the batch in it."""
        logits = self.forward(x)  # (rows, classes)
        if self.labels is not None:
            task = F.cross_entropy(logits, self.labels[rows])
        else:  # labels as free as the images: a softmax over logits that are searched for (Zhu et al. 2019)
            task = -(guess.softmax(1) * logits.log_softmax(1)).sum(1).mean()  # type: ignore[union-attr]
        if len(x) < self.batch:
            task = task * (len(x) / self.batch)
        update = torch.autograd.grad(
            task, list(self.parameters.values()), create_graph=create_graph, materialize_grads=True
        )
        return dict(zip(self.parameters, update, strict=True))

    # A batch in chunks: its gradient is the sum of those of its chunks. So the gradient of any distance D of that sum can be had chunk by
    # chunk: first the sum g without a graph, then dD/dg, and then for each chunk c the gradient of <dD/dg, g_c>. The memory is that of
    # one chunk, the cost one more gradient.

    def _chunks(self) -> list[slice]:
        size = self.chunk or self.batch
        return [slice(i, min(i + size, self.batch)) for i in range(0, self.batch, size)]

    def _gradients_by_chunk(self, x: Tensor, guess: Tensor | None) -> Gradients:
        total = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        for c in self._chunks():
            update = self.gradients(x[c].detach(), None if guess is None else guess[c].detach(), c)
            total = {n: g + update[n] for n, g in total.items()}
        return {n: g.requires_grad_() for n, g in total.items()}

    def _pull_by_chunk(
        self, x: Tensor, guess: Tensor | None, gradients: list[Tensor], pull: list[Tensor]
    ) -> list[Tensor]:
        for c in self._chunks():
            inputs = [v[c].detach().requires_grad_() for v in (x, guess) if v is not None]
            update = self.gradients(inputs[0], None if guess is None else inputs[1], c, create_graph=True).values()
            dot = torch.stack([(s * p).sum() for s, p in zip(update, pull, strict=True)]).sum()
            for gradient, more in zip(gradients, torch.autograd.grad(dot, inputs), strict=True):
                gradient[c] += more
        return gradients

    def advance(self) -> None:
        """One step of the optimiser, from where `evaluate` was called last."""
        self.rule.param_groups[0]["lr"] = self.lr * self.schedule(self.progress)
        present = [self.total]  # L-BFGS asks for the present point again: no need to compute it twice

        def closure() -> Tensor:
            if present:
                return present.pop()
            self.evaluate()
            return self.total

        self.rule.step(closure)  # type: ignore[arg-type]
        with torch.no_grad():
            if isinstance(self.space, Pixels):  # a box of pixels is none of what makes them
                self.latent.copy_(self._inside(self.latent))
        self.step += 1

    def pack(self) -> Checkpoint:
        """All that the descent needs to compute its present state again and go on, as tensors."""
        file = io.BytesIO()
        torch.save(self.rule.state_dict(), file)
        # The present state will be counted once more: its evaluations less, and one step less since the best score.
        counts = torch.tensor([self.restart, self.step, self.evaluations - self.last, self.since - 1])
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

    def _labels(self, member: int) -> Tensor:
        if self.labels is not None:
            return self.labels
        return self.guess.unflatten(0, (-1, self.batch))[member].argmax(1)  # type: ignore[union-attr]

    def _weights(self, terms: Sequence[Term], like: Tensor) -> Tensor:
        return like.new_tensor([t.weigh(self.progress) for t in terms])

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


def twice_differentiable(model: nn.Module, forward: Callable[..., Tensor] | None = None) -> Callable[..., Tensor]:
    """The model's forward pass without side effects, attention and hard sigmoids computed so that they have a second derivative.

    PyTorch's fused attention has none. Where the model uses it, the plain one takes its place, and a warning says so.
    forward: how to run the model; `stateless(model)` if not given.
    """
    run, watch = forward or stateless(model), _Twice()
    warned: list[bool] = []

    def plain(*args: Any) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH), watch:
            logits = run(*args)
        if watch.fused and not warned:
            warned.append(True)
            warnings.warn(
                f"model: {type(model).__name__} computes attention by a fused kernel, which cannot be differentiated twice; "
                "the search uses PyTorch's plain attention in its place (same function, slower)",
                stacklevel=2,
            )
        return logits

    return plain


class _Twice(TorchFunctionMode):
    """Notices calls of attention that PyTorch may fuse; puts for a hard sigmoid what it is made of, which has a second derivative."""

    fused = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.fused |= func in (F.scaled_dot_product_attention, F.multi_head_attention_forward)
        if func is F.hardsigmoid:
            return F.relu6((args[0] if args else (kwargs or {})["input"]) + 3) / 6
        return func(*args, **(kwargs or {}))
