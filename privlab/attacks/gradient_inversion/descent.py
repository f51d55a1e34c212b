"""One descent of a gradient attack, from a start to where it stops: the loop that every preset of `presets.py` shares."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.gradient_inversion.derivatives import LONG, Choice, Look, TwiceDifferentiable, check_twice
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.attacks.gradient_inversion.slopes import Slope, written
from privlab.attacks.gradient_inversion.terms import Term
from privlab.leak import Leak
from privlab.models.forward import Gradients

Checkpoint = dict[str, Tensor]
Step = Callable[[Tensor, Sequence[Term], Tensor], tuple[Tensor, Tensor]]  # (images, terms, weights) -> values, gradient


@dataclass(frozen=True)
class State:
    """Where a search stands. All in it belongs to one moment: these images have these losses.

    restart, step: counted from 0.  evaluations: gradients of the network taken so far in this restart.
    images: (batch, channels, height, width), clamped to [0, 1].  labels: (batch,), given, recovered or searched for.
    losses: term -> its value as it is weighted now.  Where several seeds are searched for together, images, labels and losses are
        those of the seed that stands best, and `members` holds the images of all, (group, batch, channels, height, width).
    score: the loss as it is weighted at the end of the run, by which states and restarts are compared; NaN as long as one of those
        terms does not count yet.
    reason: why the restart ends here: "steps" (all are done), "patience", "not finite"; empty while it goes on.
    derivatives: how often each way to take the derivative was used so far in this restart, "exact" and "difference".
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
    derivatives: dict[str, int] = field(default_factory=dict)

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

    forward: TwiceDifferentiable
    parameters: Mapping[str, Tensor]
    leak: Leak
    terms: Sequence[Term]
    steps: int
    lr: float
    optimiser: str
    schedule: Callable[[float], float]
    signed: bool
    boxed: bool
    patience: int | None
    restart: int
    x: Tensor
    labels: Tensor | None
    guess: Tensor | None = None
    space: Space = field(default_factory=Pixels)
    chunk: int | None = None
    compiled: Step | None = None
    choice: Choice = field(default_factory=lambda: Choice("exact", None))

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
                self._reason(sum(sum(row.values()) for row in losses)),
                members,
                self.pack,
                self.choice.counts,
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
        self.chosen = self.choice.pack()
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
        if matching:
            taken = self.choice.take(
                lambda: self._with_care(lambda: self._exactly(x, guess, terms, variables)),
                lambda: self._by_difference(x, guess, terms, variables),
            )
        else:
            taken = self._exactly(x, guess, terms, variables)
        return dict(zip((t.name for t in terms), taken.values.detach(), strict=True)), taken.gradients

    def _with_care(self, look: Callable[[], Look]) -> Look:
        """An exact look; a long search sees at its first, or at the second if that is by differences, whether it can do with less care."""
        mostly = self.choice.difference is None or (not self.choice.agrees and self.choice.exact_looks > 0)
        looks = self.steps * (20 if self.optimiser == "lbfgs" else 1)
        if self.forward.plain is None and mostly and looks >= LONG and self.latent.device.type == "cpu":
            return self.forward.compared(look)
        return look()

    def _exactly(self, x: Tensor, guess: Tensor | None, terms: Sequence[Term], variables: list[Tensor]) -> Look:
        """By differentiating twice."""
        matching = any(t.of == "gradients" for t in terms)
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
        return Look(values, gradients)

    def _by_difference(self, x: Tensor, guess: Tensor | None, terms: Sequence[Term], variables: list[Tensor]) -> Look:
        """By two first derivatives, chunk by chunk."""
        assert self.choice.difference is not None
        difference, chunks, pulled = self.choice.difference, self._chunks(), []
        tasks = [partial(self.task, x, guess, chunks[0])]
        inputs = [variables]
        if len(chunks) > 1:
            inputs = [[v[c].detach().requires_grad_() for v in variables] for c in chunks]
            tasks = [
                partial(self.task, i[0], None if guess is None else i[1], c)
                for i, c in zip(inputs, chunks, strict=True)
            ]
        whole = difference.first(tasks[0], variables) if len(chunks) == 1 else self._gradients_by_chunk(x, guess)
        values, direct, slope = self._slope(x, whole, terms, variables)
        for task, parts in zip(tasks, inputs, strict=True):
            if len(chunks) > 1:
                difference.first(task, parts)
            pulled.append(difference.pull(task, parts, slope))
        return Look(values, [torch.cat(parts) for parts in zip(*pulled, strict=True)], direct)

    def _slope(
        self, x: Tensor, grads: Gradients, terms: Sequence[Term], variables: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], Slope]:
        """The values of the terms, and the derivative of their weighted sum: by the variables, the update held, and by the update."""
        place = self.choice.difference.place  # type: ignore[union-attr]
        compared = [t for t in terms if t.of == "gradients"]
        known = written(compared[0].value) if len(compared) == 1 else None
        if known:
            distance, slope = known(self.leak, list(grads.values()), place)
            slope = slope.times(compared[0].weigh(self.progress))
            values = [x.new_tensor(distance) if t is compared[0] else t.value(x, {}, self.leak) for t in terms]
        else:
            grads = {n: g.requires_grad_() for n, g in grads.items()}
            values = [t.value(x, grads, self.leak) for t in terms]
        stacked = torch.stack(values)  # (terms,)
        total = self._weights(terms, stacked) @ stacked
        if not total.requires_grad:
            return stacked, [torch.zeros_like(v) for v in variables], slope
        inputs = variables if known else [*variables, *grads.values()]
        both = list(torch.autograd.grad(total, inputs, materialize_grads=True))
        return stacked, both[: len(variables)], slope if known else Slope.of(both[len(variables) :], place)

    def gradients(
        self, x: Tensor, guess: Tensor | None, rows: slice = slice(None), create_graph: bool = False
    ) -> Gradients:
        """What the client would have sent for these images, or the share of some rows of the batch in it."""
        task = self.task(x, guess, rows, self.forward)
        update = torch.autograd.grad(
            task, list(self.parameters.values()), create_graph=create_graph, materialize_grads=True
        )
        if create_graph and not any(self.choice.counts.values()):  # at the first look
            check_twice(update)
        return dict(zip(self.parameters, update, strict=True))

    def task(self, x: Tensor, guess: Tensor | None, rows: slice, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """The loss that the client differentiates, of these images by this forward pass; the share of some rows of the batch in it."""
        logits = forward(x)  # (rows, classes)
        if self.labels is not None:
            task = F.cross_entropy(logits, self.labels[rows])
        else:  # labels as free as the images: a softmax over logits that are searched for (Zhu et al. 2019)
            task = -(guess.softmax(1) * logits.log_softmax(1)).sum(1).mean()  # type: ignore[union-attr]
        if len(x) < self.batch:
            task = task * (len(x) / self.batch)
        return task

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
        optimiser = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
        return {"counts": counts, "best": best, "optimiser": optimiser, "choice": self.chosen, **variables}

    def unpack(self, checkpoint: Checkpoint) -> None:
        """Take up a descent where `pack` left it."""
        _, self.step, self.evaluations, self.since = checkpoint["counts"].tolist()
        self.best = checkpoint["best"].item()
        with torch.no_grad():
            for i, variable in enumerate(self.variables):
                variable.copy_(checkpoint[f"variable{i}"])
        if "choice" in checkpoint:  # which searches of earlier days did not have
            self.choice.unpack(checkpoint["choice"])
        rule = io.BytesIO(checkpoint["optimiser"].numpy().tobytes())
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

    def _reason(self, loss: float) -> str:
        if not math.isfinite(loss) or not all(v.grad.isfinite().all() for v in self.variables if v.grad is not None):
            return "not finite"
        if self.step == self.steps:
            return "steps"
        return "patience" if self.patience is not None and self.since >= self.patience else ""
