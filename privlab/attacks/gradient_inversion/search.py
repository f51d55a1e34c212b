"""Gradient matching: look for images whose gradient is the one that the client sent.

The papers differ in what they compare and assume, not in how they search: an attack is a tuple of `Term`s and some numbers, for one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import derivatives, label_recovery
from privlab.attacks.gradient_inversion.derivatives import Difference, Forward
from privlab.attacks.gradient_inversion.results import Checkpoint, Search, Space, State
from privlab.attacks.gradient_inversion.schedules import staircase
from privlab.data.images import check_range
from privlab.leak import Leak
from privlab.models.forward import Gradients

Stages = tuple[tuple[float, float], ...]
Rule = Callable[[nn.Module, Leak], Tensor]  # (model, leak) -> labels (batch,)
Tensors = Sequence[Tensor]
Evaluation = tuple[Tensor, list[Tensor]]  # values (terms,), and a gradient of their weighted sum for each variable
ALWAYS: Stages = ((0.0, 1.0),)
OPTIMISERS: dict[str, Any] = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}  # of up to 20 evaluations a step
LONG = 50  # exact evaluations behind which a search sees whether it can do with less care


@dataclass(frozen=True)
class Term:
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
            cure = "give pairs (part, factor) whose parts rise from 0 to below 1, such as ((0, 1), (0.5, 0.5))"
            raise ValueError(f"stages={self.stages} of term {self.name!r} do not divide a run; {cure}")

    def factor(self, progress: float) -> float:
        """What its weight is multiplied by at this part of the run, from 0 to 1."""
        return next(factor for part, factor in reversed(self.stages) if progress >= part)

    def weigh(self, progress: float) -> float:
        """Its weight at this part of the run."""
        glide = 1.0 if self.end is None else (self.end / self.weight) ** progress
        return self.weight * glide * self.factor(progress)

    def prepared(self, model: nn.Module, leak: Leak) -> Term:
        """The same, made ready for this victim; its value is None where it has nothing to look at."""
        return replace(self, value=self.value.prepare(model, leak)) if hasattr(self.value, "prepare") else self

    def __repr__(self) -> str:
        weight = f"{self.weight:g}" if self.end is None else f"{self.weight:g} to {self.end:g}"
        what = f"{weight} {self.name} ({getattr(self.value, '__name__', repr(self.value))})"
        later = ", ".join(f"x{factor:g} from {100 * part:g}%" for part, factor in self.stages)
        return what if self.stages == ALWAYS else f"{what} {later}"


@dataclass(frozen=True)
class GradientMatching(Search):
    """Search, from noise, for images whose gradients look like the leak's.

    terms: summands of the loss.  steps: of the optimiser.  lr: its step length, in units of normalised pixels.
    optimiser: "adam", or "lbfgs" (up to 20 evaluations a step, as Zhu et al. 2019 run it).
    schedule: factor on `lr` over the run.  signed: step along the sign of the image gradient (Geiping et al. 2020).
    boxed: put pixels that leave [0, 1] back to its edge, at the start and after each step.
    labels: the rule that recovers labels where the leak holds none, or "search": look for them along with the images.
    group: seeds that are searched for together in each restart, so that terms of the "group" can hold them to one another.
    blind: a baseline that may do without the client's gradients, for what labels and priors alone give away.
    derivative: how the direction of a step is had, see `derivatives`. "exact": by differentiating twice. "auto": as a difference of two
        first derivatives, in half the time and less memory, to about 1e-3, as long as it agrees with the exact one at the first step and at
        every fiftieth (`Result.derivatives` counts). Dropout or BatchNorm in train mode, and batches in chunks, are taken exactly.
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
    blind: bool = False
    derivative: derivatives.Kind = "exact"

    def __post_init__(self) -> None:
        names = [t.name for t in self.terms]
        if len({*names}) < len(names):
            raise ValueError(f"terms: the names {names} repeat; a trace could not tell them apart")
        if not self.blind and not any(t.of == "gradients" and t.weight for t in self.terms):
            raise ValueError(
                "terms: none of them looks at the client's gradients; weigh one that does, or give blind=True"
            )
        if min(self.steps, self.group) < 1:
            raise ValueError(f"steps={self.steps}, group={self.group}: give 1 or more steps and seeds")
        for name, known in (("optimiser", [*OPTIMISERS]), ("derivative", ["exact", "auto"])):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name}={value!r} is not known here; try {known[0]!r} or {known[1]!r}")

    def __repr__(self) -> str:
        schedule = getattr(self.schedule, "__name__", repr(self.schedule))
        rule = self.labels if isinstance(self.labels, str) else getattr(self.labels, "__name__", repr(self.labels))
        settings = [
            f"{self.steps} steps of {'signed ' * self.signed}{self.optimiser}, lr {self.lr:g} {schedule}",
            "boxed" if self.boxed else "unboxed",
            f"labels by {rule} where unknown",
            *[f"{self.group} seeds together"] * (self.group > 1),
            *["may do without gradients"] * self.blind,
            *[f"derivative {self.derivative}"] * (self.derivative != "exact"),
        ]
        return f"GradientMatching: {' + '.join(map(repr, self.terms))};\n  {'; '.join(settings)}"

    def without(self, *names: str) -> GradientMatching:
        """The same attack without these terms."""
        if unknown := set(names) - {t.name for t in self.terms}:
            raise ValueError(f"the attack has no term {min(unknown)!r}; it has {', '.join(t.name for t in self.terms)}")
        return replace(self, terms=tuple(t for t in self.terms if t.name not in names))

    def unscheduled(self) -> GradientMatching:
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
        chunk, repeatable = min(chunk or leak.batch_size, leak.batch_size), derivatives.is_repeatable(model)
        if chunk < leak.batch_size and not repeatable:
            why = f"{type(model).__name__} draws at random or mixes the images of a batch in train mode"
            raise ValueError(f"chunk={chunk}: {why}; give chunk=None, or a model in eval mode")
        by_difference = self.derivative == "auto" and chunk == leak.batch_size and repeatable
        difference = Difference(model, parameters) if by_difference else None
        forward, classes = Forward(model), 0
        if leak.labels is None:
            like = next(iter(parameters.values()))
            classes = forward(like.new_zeros(leak.batch_size, *leak.image_shape)).shape[1]
        terms = [t.prepared(model, leak) for t in self.terms]
        attack = replace(self, terms=tuple(t for t in terms if t.value is not None))
        for restart, x, label_logits in starts(leak, seed, restarts, start, resume, self.group, classes):
            descent = Descent(attack, forward, difference, parameters, leak, restart, x, label_logits, space, chunk)
            yield from descent.states(resume)


class Descent:
    """The images of one restart on their way down, from what `starts` gives.  attack: with its terms made ready for this victim."""

    def __init__(
        self, attack: GradientMatching, forward: Forward, difference: Difference | None, parameters: Gradients, leak: Leak, restart: int,
        x: Tensor, label_logits: Tensor | None, space: Space | None, chunk: int,
    ) -> None:  # fmt: skip
        self.attack, self.forward, self.parameters, self.leak, self.restart = attack, forward, parameters, leak, restart
        self.space, self.difference, self.batch = space, difference, leak.batch_size
        self.once = {t.name: replace(t, value=derivatives.once_differentiable(t.value)) for t in attack.terms}
        self.chunks = [slice(i, min(i + chunk, self.batch)) for i in range(0, self.batch, chunk)]
        self.step, self.evaluations = 0, 0
        self.counts, self.agrees = {"exact": 0, "difference": 0}, False  # whether a difference did when last compared
        self.low, self.high = (leak.normalise(torch.full_like(x[:1], value)) for value in (0.0, 1.0))
        with torch.no_grad():
            x = self._inside(x)
            latent = x if space is None else torch.cat([space.begin(part) for part in x.split(self.batch)])
        self.latent, self.label_logits = latent.clone().requires_grad_(), label_logits  # (group * batch, ...)
        self.variables = [self.latent] if label_logits is None else [self.latent, label_logits.requires_grad_()]
        self.optimiser: torch.optim.Optimizer = OPTIMISERS[attack.optimiser](self.variables, lr=attack.lr)

    def states(self, resume: Checkpoint | None) -> Iterator[State]:
        """A state before each step, and one after the last.  resume: a checkpoint, of this restart or an earlier one."""
        if resume and resume["restart"] == self.restart:
            with torch.no_grad():
                for variable, then in zip(self.variables, resume["variables"], strict=True):
                    variable.copy_(then)
            self.optimiser.load_state_dict(resume["optimiser"])
            self.step, self.evaluations, self.agrees, self.counts = resume["numbers"]
        while True:
            numbers = [self.step, self.evaluations, self.agrees, self.counts.copy()]
            rest = dict(variables=self.variables, optimiser=self.optimiser.state_dict())
            checkpoint = dict(restart=self.restart, numbers=numbers, **rest)
            self.evaluate()
            state = self._state(checkpoint)
            yield state
            if state.reason:
                return
            self._advance()

    @property
    def progress(self) -> float:
        return self.step / self.attack.steps

    def evaluate(self) -> Tensor:
        """The loss, over all seeds; its gradient is left in the variables' `.grad`, and `self.values` (terms, group) has its terms."""
        self.active = [t for t in self.attack.terms if t.factor(self.progress) > 0]
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
        self.evaluations += 1
        due = self.difference is not None and sum(self.counts.values()) % derivatives.EVERY == 0
        if due or self.agrees:
            values, direct, through = self._by_difference(terms, variables)
        if self.agrees and not due:
            self.counts["difference"] += 1
            return values, [d + t for d, t in zip(direct, through, strict=True)]
        values, gradients = self._exactly(terms, variables)
        self.agrees = due and derivatives.agree(gradients, direct, through)
        self.counts["exact"] += 1
        return values, gradients

    def _exactly(self, terms: Sequence[Term], variables: Tensors) -> Evaluation:
        """By differentiating twice. A long search that does so sees once whether it can do with less care."""
        if self.forward.plain is None and self.counts["exact"] >= LONG:
            self.forward.settle(lambda: self._exactly(terms, variables)[1])
        if len(self.chunks) == 1:
            return self._derived(terms, variables, self._update(variables, create_graph=True), variables)
        # The update g of a batch is the sum of those of its chunks. So the gradient of a distance D of g is had chunk by chunk: first g
        # without a graph, then u = dD/dg, then for each chunk c the gradient of <u, g_c>.
        grads = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        for rows in self.chunks:
            update = self._update([v[rows].detach() for v in variables], rows)
            grads = {n: g + update[n] for n, g in grads.items()}
        grads = {n: g.requires_grad_() for n, g in grads.items()}
        values, both = self._derived(terms, variables, grads, [*variables, *grads.values()])
        direct, u = both[: len(variables)], both[len(variables) :]
        for rows in self.chunks:
            inputs = [v[rows].detach().requires_grad_() for v in variables]
            share = self._update(inputs, rows, create_graph=True).values()
            for gradient, more in zip(direct, torch.autograd.grad([*share], inputs, u), strict=True):
                gradient[rows] += more
        return values, direct

    def _by_difference(self, terms: Sequence[Term], variables: Tensors) -> tuple[Tensor, Tensors, Tensors]:
        """By two first derivatives: values, and the parts of the gradients that do not go through the update, and that do."""
        difference = self.difference
        assert difference is not None

        def loss(forward: Forward) -> Tensor:
            return self._client_loss(forward, variables)

        terms = [self.once[t.name] for t in terms]
        grads = difference.update(loss, variables)
        values, both = self._derived(terms, variables, grads, [*variables, *grads.values()])
        return values, both[: len(variables)], difference.vjp(loss, variables, both[len(variables) :])

    def _derived(self, terms: Sequence[Term], variables: Tensors, grads: Gradients, by: Tensors) -> Evaluation:
        """The terms' values (terms,), and the gradients of their weighted sum by some tensors."""
        values = torch.stack([t.value(variables[0], grads, self.leak) for t in terms])
        total = self._weights(terms, values) @ values
        return values.detach(), list(torch.autograd.grad(total, by, materialize_grads=True))

    def _update(self, variables: Tensors, rows: slice = slice(None), create_graph: bool = False) -> Gradients:
        """What the client would have sent for these images, or the share of these rows of the batch in it."""
        loss, weights = self._client_loss(self.forward, variables, rows), [*self.parameters.values()]
        update = torch.autograd.grad(loss, weights, create_graph=create_graph, materialize_grads=True)
        if create_graph and not self.counts["exact"]:
            derivatives.assert_twice_differentiable(update)
        return dict(zip(self.parameters, update, strict=True))

    def _client_loss(self, forward: Forward, variables: Tensors, rows: slice = slice(None)) -> Tensor:
        """The loss that the client differentiates, by this forward pass."""
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
        lasting = [t for t in self.attack.terms if t.factor(1.0) > 0]
        scores = [sum(t.weigh(1.0) * of_seed.get(t.name, math.nan) for t in lasting) for of_seed in values]
        ranks = scores if all(map(math.isfinite, scores)) else [sum(of_seed.values()) for of_seed in losses]
        best = min(range(len(ranks)), key=ranks.__getitem__)
        images = self.leak.normalise.inverse(self.images.detach().split(self.batch)[best]).clamp(0, 1)
        labels: Any = self.leak.labels
        if self.label_logits is not None:
            labels = self.label_logits.split(self.batch)[best].argmax(1)
        known = math.isfinite(sum(sum(of_seed.values()) for of_seed in losses))
        finite = known and all(v.grad.isfinite().all() for v in self.variables if v.grad is not None)
        reason = "not finite" if not finite else "steps" if self.step == self.attack.steps else ""
        return State(
            self.restart, self.step, self.evaluations, images, labels, losses[best], scores[best], reason, checkpoint, self.counts.copy()
        )  # fmt: skip

    def _weights(self, terms: Sequence[Term], like: Tensor) -> Tensor:
        return like.new_tensor([t.weigh(self.progress) for t in terms])

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.attack.boxed else x


def prepare(model: nn.Module, leak: Leak, rule: Rule | Literal["search"]) -> tuple[Gradients, Leak]:
    """The parameters to differentiate by, and the leak on their device, with labels if it holds them or a rule reads them."""
    if not leak.grads:
        raise ValueError("leak holds no gradients, so there is nothing to match; withhold fewer names")
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    for name, g in leak.grads.items():
        if name not in learnable or learnable[name].shape != g.shape:
            what = f"{type(model).__name__} learns no {name!r} of shape {tuple(g.shape)}"
            raise ValueError(f"leak: {what}; observe this very model, or thaw it: model.requires_grad_(True)")
    parameters: Gradients = {n: p for n, p in learnable.items() if n in leak.grads}
    like = next(iter(parameters.values()))
    if torch.finfo(like.dtype).bits < 32:
        raise ValueError(f"model: {like.dtype} is too coarse to search in; give the attacker's copy: model.float()")
    leak = leak.to(like)
    if leak.labels is None and callable(rule):
        leak = replace(leak, labels=rule(model, leak).to(like.device))
    return parameters, leak


def starts(
    leak: Leak, seed: int, restarts: int, start: Tensor | None, resume: Checkpoint | None, group: int = 1, classes: int = 0
) -> Iterator[tuple[int, Tensor, Tensor | None]]:  # fmt: skip
    """Where each restart from that of `resume` on begins: its number, normalised images (group * batch, channels, height, width), and
    logits (group * batch, classes) of labels that are searched for.
    """
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
