"""Gradient matching: look for images whose gradient is the one that the client sent.

The papers differ in what they compare and assume, not in how they search: an attack is a tuple of `Term`s and some numbers, for one loop.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import derivatives, label_recovery, objectives
from privlab.attacks.gradient_inversion.derivatives import WHOLE, Forward, Tensors
from privlab.attacks.gradient_inversion.results import Checkpoint, Search, Space, State
from privlab.attacks.gradient_inversion.schedules import staircase
from privlab.data.images import check_range
from privlab.leak import Leak
from privlab.models.forward import Gradients

Stages = tuple[tuple[float, float], ...]
Rule = Callable[[nn.Module, Leak], Tensor]  # (model, leak) -> labels (batch,)
Evaluation = tuple[Tensor, list[Tensor]]  # values (terms,), and a gradient of their weighted sum for each variable
ALWAYS: Stages = ((0.0, 1.0),)
OPTIMISERS: dict[str, Any] = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}  # of up to 20 evaluations a step


class Named:
    """A dataclass that prints functions by their names: a kept search is known by what it prints."""

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        said = ", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in values.items())
        return f"{type(self).__name__}({said})"


@dataclass(frozen=True, repr=False)
class Term(Named):
    """One summand of an attack's loss.

    value: (normalised images, their gradients, the leak) -> scalar; or what has a method `prepare(model, leak)`, called before the search:
        it gives the value to use, or None to leave the term out.
    stages: pairs (part of the run from 0 to 1, factor): from there on the weight is multiplied by the factor; 0 switches it off.
    end: the weight that it has fallen or risen to at the end of the run, by the same factor in each step; None leaves it as it is.
    of: what it looks at: "gradients"; "images" alone; or "group": those of all seeds (group, batch, channels, height, width) at once, of
        which it makes one value a seed.
    """

    name: str
    weight: float
    value: Any
    stages: Stages = ALWAYS
    end: float | None = None
    of: Literal["gradients", "images", "group"] = "gradients"

    def __post_init__(self) -> None:
        parts = [part for part, _ in self.stages]
        if parts[:1] != [0] or parts != sorted({*parts}) or parts[-1] >= 1:
            raise ValueError(f"stages={self.stages} of {self.name!r}: parts begin at 0 and rise to below 1")

    def factor(self, progress: float) -> float:
        """What its weight is multiplied by at this part of the run, from 0 to 1."""
        return next(factor for part, factor in reversed(self.stages) if progress >= part)

    def weigh(self, progress: float) -> float:
        """Its weight at this part of the run, such as Hatamizadeh et al. 2022, eqs. 5 and 6, give gradients and statistics."""
        glide = 1.0 if self.end is None else (self.end / self.weight) ** progress
        return self.weight * glide * self.factor(progress)


@dataclass(frozen=True, repr=False)
class GradientMatching(Named, Search):
    """Search, from noise, for images whose gradients look like the leak's.

    terms: summands of the loss.  steps: of the optimiser.  lr: its step length, in units of normalised pixels.
    optimiser: "adam", or "lbfgs" (up to 20 evaluations a step, as Zhu et al. 2019 run it).
    schedule: factor on `lr` over the run.  signed: step along the sign of the gradient (Geiping et al. 2020).
    boxed: put pixels that leave [0, 1] back to its edge, at the start and after each step.
    labels: the rule that recovers labels where the leak holds none, or "search": look for them along with the images.
    group: seeds that are searched for together in each restart, so that terms of the "group" can hold them to one another.
    derivative: how the direction of a step is had, see `derivatives`. "exact": by differentiating twice. "auto": as a difference of two
        first derivatives, in half the time and less memory, to about 1e-3, as long as it agrees with the exact one at the first step and at
        every fiftieth (of a group, its first seed's). Dropout or BatchNorm in train mode, and batches in chunks, are taken exactly.
    """

    terms: tuple[Term, ...]
    steps: int
    lr: float = 0.1
    optimiser: Literal["adam", "lbfgs"] = "adam"
    schedule: Callable[[float], float] = staircase
    signed: bool = False
    boxed: bool = True
    labels: Rule | Literal["search"] = label_recovery.row_minimum
    group: int = 1
    derivative: Literal["exact", "auto"] = "exact"

    def __post_init__(self) -> None:
        names = [t.name for t in self.terms]
        if len({*names}) < len(names):
            raise ValueError(f"terms: the names {names} repeat; a trace could not tell them apart")
        if min(self.steps, self.group) < 1:
            raise ValueError(f"steps={self.steps}, group={self.group}: give 1 or more steps and seeds")
        for name, known in (("optimiser", [*OPTIMISERS]), ("derivative", ["exact", "auto"])):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name}={value!r} is not known here; try {known[0]!r} or {known[1]!r}")

    def without(self, *names: str) -> Self:
        """The same attack without these terms."""
        if unknown := set(names) - {t.name for t in self.terms}:
            raise ValueError(f"the attack has no term {min(unknown)!r}; it has {', '.join(t.name for t in self.terms)}")
        return replace(self, terms=tuple(t for t in self.terms if t.name not in names))

    def unscheduled(self) -> Self:
        """The same attack with all weights constant."""
        return replace(self, terms=tuple(replace(t, stages=ALWAYS, end=None) for t in self.terms))

    @torch.enable_grad()
    def search(
        self, model: nn.Module, leak: Leak, seed: int = 0, restarts: int = 1, start: Tensor | None = None,
        resume: Checkpoint | None = None, space: Space | None = None, chunk: int | None = None,
    ) -> Iterator[State]:  # fmt: skip
        """Yield a `State` before each step and one after the last, restart by restart; stop when you like, and go on.

        model: in the mode and with the weights that the client had.  leak: what the client sent.
        seed: of the noise that each restart begins with, drawn on the CPU, so that every device begins alike. The same seed gives the same
            images to the bit on a CPU, unless the model itself draws at random; a GPU may add in another order each time.
        start: images to begin with in place of noise, (batch, channels, height, width) in [0, 1]; for a group, that many batches.
        resume: go on from the `checkpoint` of a state of the same search; that state comes first, once more.
        space: look among its images only, see `search_spaces`; among all if not given. A box holds for pixels alone.
        chunk: differentiate twice through so many images at a time, which takes the memory of so many and a third more time; all
            at once if not given. The result is the same up to rounding.
        Raises ValueError for a leak without gradients or that does not fit the model, and for a start of another batch.
        """
        parameters, leak = prepare(model, leak, self.labels)
        descent, classes = Descent(self, model, parameters, leak, space, chunk), 0
        if leak.labels is None:
            like = next(iter(parameters.values()))
            classes = descent.forward(like.new_zeros(leak.batch_size, *leak.image_shape)).shape[1]
        for begin in starts(leak, seed, restarts, start, resume, self.group, classes):
            yield from descent.states(*begin, resume)


class Descent:
    """The images of one victim on their way down, one restart after another."""

    def __init__(
        self, attack: GradientMatching, model: nn.Module, parameters: Gradients, leak: Leak, space: Space | None, chunk: int | None
    ) -> None:  # fmt: skip
        self.attack, self.parameters, self.leak, self.space = attack, parameters, leak, space
        self.batch, self.box = leak.batch_size, edges(leak)
        size, repeatable = min(self.batch if chunk is None else chunk, self.batch), derivatives.is_repeatable(model)
        if size < 1:
            raise ValueError(f"chunk={chunk}: give 1 or more images at a time, or None for all")
        if size < self.batch and not repeatable:
            raise ValueError(f"chunk={chunk}: the model draws at random or mixes a batch's images; call model.eval()")
        values = [t.value.prepare(model, leak) if hasattr(t.value, "prepare") else t.value for t in attack.terms]
        self.terms = [replace(t, value=v) for t, v in zip(attack.terms, values, strict=True) if v is not None]
        self.forward = derivatives.twice_differentiable(model)
        self.chunks = derivatives.Chunks(self.forward, parameters, size, self.batch) if size < self.batch else None
        differs = attack.derivative == "auto" and self.chunks is None and repeatable
        self.difference = derivatives.Difference(model, parameters) if differs else None

    def states(self, restart: int, x: Tensor, logits: Tensor | None, resume: Checkpoint | None) -> Iterator[State]:
        """A state before each step, and one after the last, from what `starts` gives.  resume: of this restart or an earlier one."""
        self.restart, self.step, self.evaluations, self.differences = restart, 0, 0, 0
        self.agrees = False  # whether a difference did when last compared
        with torch.no_grad():
            x = self._inside(x)
            latent = x if self.space is None else torch.cat([self.space.begin(part) for part in x.split(self.batch)])
        self.latent, self.label_logits = latent.clone().requires_grad_(), logits  # (group * batch, ...)
        self.variables = [self.latent] if logits is None else [self.latent, logits.requires_grad_()]
        self.optimiser: torch.optim.Optimizer = OPTIMISERS[self.attack.optimiser](self.variables, lr=self.attack.lr)
        if resume and resume["restart"] == restart:
            with torch.no_grad():
                for variable, then in zip(self.variables, resume["variables"], strict=True):
                    variable.copy_(then)
            self.optimiser.load_state_dict(resume["optimiser"])
            self.step, self.evaluations, self.differences, self.agrees = resume["numbers"]
        while True:
            numbers = [self.step, self.evaluations, self.differences, self.agrees]
            rest = dict(variables=self.variables, optimiser=self.optimiser.state_dict())
            self.evaluate()
            state = self._state(dict(restart=restart, numbers=numbers, **rest))
            yield state
            if state.reason:
                return
            self._advance()

    def evaluate(self) -> Tensor:
        """The loss, over all seeds; its gradient is left in the variables' `.grad`, and `self.values` (terms, group) has its terms."""
        self.progress = self.step / self.attack.steps
        self.active = [t for t in self.terms if t.factor(self.progress) > 0]
        own = [t for t in self.active if t.of != "group"]
        latents = self.latent.split(self.batch)
        self.images = torch.cat([part if self.space is None else self.space.images(part) for part in latents])
        points = [v.detach().split(self.batch) for v in (self.images, *self.variables[1:])]
        seeds = [self._evaluate_seed(own, variables) for variables in zip(*points, strict=True)]
        values = {t.name: [of_seed[k] for of_seed, _ in seeds] for k, t in enumerate(own)}
        gradients = [torch.cat(each) for each in zip(*(each for _, each in seeds), strict=True)]  # a variable each
        for term in (t for t in self.active if t.of == "group"):
            together = self.images.detach().unflatten(0, (-1, self.batch)).clone().requires_grad_()
            apart = term.value(together, {}, self.leak)  # (group,)
            values[term.name] = list(apart.detach())
            (gradient,) = torch.autograd.grad(term.weigh(self.progress) * apart.sum(), together)
            gradients[0] = gradients[0] + gradient.flatten(0, 1)
        gradients[0] = torch.autograd.grad(self.images, self.latent, gradients[0])[0]
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.grad = (gradient.sign() if self.attack.signed else gradient).contiguous()  # L-BFGS takes no other
        self.values = torch.stack([torch.stack(values[t.name]) for t in self.active])
        self.loss = self._weights(self.active, self.values) @ self.values.sum(1)
        return self.loss

    def _evaluate_seed(self, terms: Sequence[Term], variables: Tensors) -> Evaluation:
        """variables: the images of one seed, and label logits if they are searched for."""
        variables = [v.requires_grad_() for v in variables]
        if not terms:
            return variables[0].new_zeros(0), [torch.zeros_like(v) for v in variables]
        if not any(t.of == "gradients" for t in terms):
            return self._derived(terms, variables, {}, variables)
        due = self.difference is not None and self.evaluations % derivatives.EVERY == 0
        if due or self.agrees:
            values, gradients, parts = self._in_two(self.difference, terms, variables)
        if self.agrees and not due:
            self.differences += 1
        elif self.chunks is not None:
            values, gradients, _ = self._in_two(self.chunks, terms, variables)
        else:
            loss = self._client_loss(self.forward, variables)
            update = derivatives.gradients(loss, self.parameters, create_graph=True)
            if not self.evaluations:
                derivatives.assert_twice_differentiable(update)
            values, gradients = self._derived(terms, variables, update, variables)
            self.agrees = due and derivatives.agree(gradients, *parts)
        self.evaluations += 1
        return values, gradients

    def _in_two(self, way: Any, terms: Sequence[Term], variables: Tensors) -> tuple[Tensor, list[Tensor], Any]:
        """Values, gradients, and their parts: beside the update g, and through it: J^T u with u = dD/dg, by this way to take it."""
        grads, asked = way.update(self._client_loss, variables), [t for t in terms if t.of == "gradients"]
        if isinstance(way, derivatives.Difference) and [t.value for t in asked] == [objectives.cosine_distance]:
            distance, slope = derivatives.cosine(grads, self.leak, asked[0].weigh(self.progress))
            known = [replace(t, value=lambda x, *_: distance + 0 * x.sum()) if t in asked else t for t in terms]
            values, direct = self._derived(known, variables, {}, variables)
            through = way.vjp(self._client_loss, variables, slope)
        else:
            values, both = self._derived(terms, variables, grads, [*variables, *grads.values()])
            direct, u = both[: len(variables)], both[len(variables) :]
            through = way.vjp(self._client_loss, variables, u)
        return values, [d + t for d, t in zip(direct, through, strict=True)], [direct, through]

    def _derived(self, terms: Sequence[Term], variables: Tensors, grads: Gradients, by: Tensors) -> Evaluation:
        """The terms' values (terms,), and the gradients by some tensors of their weighted sum (Hatamizadeh et al. 2022, eq. 1)."""
        values = torch.stack([t.value(variables[0], grads, self.leak) for t in terms])
        total = self._weights(terms, values) @ values
        return values.detach(), list(torch.autograd.grad(total, by, materialize_grads=True))

    def _client_loss(self, forward: Forward, variables: Tensors, rows: slice = WHOLE) -> Tensor:
        """The loss that the client differentiates, or the share of these rows of the batch in it."""
        logits = forward(variables[0])  # (rows, classes)
        if self.leak.labels is not None:
            loss = F.cross_entropy(logits, self.leak.labels[rows])
        else:  # labels as free as the images: a softmax over logits that are searched for (Zhu et al. 2019)
            loss = -(variables[1].softmax(1) * logits.log_softmax(1)).sum(1).mean()
        return loss if len(logits) == self.batch else loss * (len(logits) / self.batch)

    def _advance(self) -> None:
        """One step of the optimiser, from where `evaluate` was called last."""
        self.optimiser.param_groups[0]["lr"] = self.attack.lr * self.attack.schedule(self.progress)
        present = [self.loss]  # L-BFGS asks for the present point again: no need to compute it twice
        self.optimiser.step(lambda: present.pop() if present else self.evaluate())  # type: ignore[arg-type, return-value]
        if self.space is None:  # a box of pixels is none of what makes them
            with torch.no_grad():
                self.latent.copy_(self._inside(self.latent))
        self.step += 1

    def _state(self, checkpoint: Checkpoint) -> State:
        """Where it stands, by the seed that stands best."""
        names = [t.name for t in self.active]
        values = [dict(zip(names, row, strict=True)) for row in self.values.T.tolist()]  # seed by seed
        losses = [{t.name: t.weigh(self.progress) * of_seed[t.name] for t in self.active} for of_seed in values]
        lasting = [t for t in self.terms if t.factor(1.0) > 0]
        scores = [sum(t.weigh(1.0) * of_seed.get(t.name, math.nan) for t in lasting) for of_seed in values]
        totals = [sum(of_seed.values()) for of_seed in losses]
        ranks = scores if all(map(math.isfinite, scores)) else totals
        best = min(range(len(ranks)), key=ranks.__getitem__)
        images = self.leak.normalise.inverse(self.images.detach().split(self.batch)[best]).clamp(0, 1)
        labels: Any = self.leak.labels
        if self.label_logits is not None:
            labels = self.label_logits.split(self.batch)[best].argmax(1)
        slopes = [v.grad for v in self.variables if v.grad is not None]
        finite = math.isfinite(sum(totals)) and all(slope.isfinite().all() for slope in slopes)
        reason = "not finite" if not finite else "steps" if self.step == self.attack.steps else ""
        return State(
            self.restart, self.step, self.evaluations, self.differences, images, labels, losses[best], scores[best], reason, checkpoint
        )  # fmt: skip

    def _weights(self, terms: Sequence[Term], like: Tensor) -> Tensor:
        return like.new_tensor([t.weigh(self.progress) for t in terms])

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(*self.box) if self.attack.boxed else x


def prepare(model: nn.Module, leak: Leak, rule: Rule | Literal["search"]) -> tuple[Gradients, Leak]:
    """The parameters to differentiate by, and the leak on their device, with labels if it holds them or a rule reads them."""
    if not leak.grads:
        raise ValueError("leak holds no gradients, so there is nothing to match; withhold fewer names")
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    for name, g in leak.grads.items():
        if name not in learnable or learnable[name].shape != g.shape:
            what = f"the model learns no {name!r} of shape {tuple(g.shape)}"
            raise ValueError(f"leak: {what}; observe this very model, or thaw it: model.requires_grad_(True)")
    parameters: Gradients = {n: p for n, p in learnable.items() if n in leak.grads}
    like = next(iter(parameters.values()))
    if torch.finfo(like.dtype).bits < 32:
        raise ValueError(f"model: {like.dtype} is too coarse to search in; give the attacker's copy: model.float()")
    leak = leak.to(like)
    if leak.labels is None and callable(rule):
        leak = replace(leak, labels=rule(model, leak).to(like.device))
    return parameters, leak


def edges(leak: Leak) -> tuple[Tensor, Tensor]:
    """Black and white as the model takes them, (1, channels, height, width): between them are all images."""
    like = next(iter(leak.grads.values()))
    black, white = (leak.normalise(torch.full((1, *leak.image_shape), value).to(like)) for value in (0.0, 1.0))
    return black, white


def starts(
    leak: Leak, seed: int, restarts: int, start: Tensor | None, resume: Checkpoint | None, group: int = 1, classes: int = 0
) -> Iterator[tuple[int, Tensor, Tensor | None]]:  # fmt: skip
    """Where each restart from that of `resume` on begins: its number, normalised images, and logits of labels that are searched for."""
    shape = (group * leak.batch_size, *leak.image_shape)
    if restarts < 1:
        raise ValueError(f"restarts={restarts} searches nothing; give 1 or more")
    if start is not None and start.shape != shape:
        raise ValueError(f"start: shape {tuple(start.shape)}, and the leak is of {shape}; give images of that shape")
    if start is not None:
        check_range("start", start, "give images in [0, 1], not normalised ones")
    like, noise = next(iter(leak.grads.values())), torch.Generator().manual_seed(seed)
    for restart in range(restarts):
        seeds = [torch.randn(leak.batch_size, *leak.image_shape, generator=noise) for _ in range(group)]
        x = torch.cat(seeds).to(like) if start is None else leak.normalise(start.to(like))
        label_logits = torch.randn(len(x), classes, generator=noise).to(like) if classes else None
        if not resume or restart >= resume["restart"]:
            yield restart, x, label_logits
