"""Gradient matching: look for images whose gradient is the one that the client sent.

The papers differ in what they compare and what they assume about images, not in how they search. So an attack is a tuple of `Term`s
and a handful of numbers, and one loop serves them all; `presets.py` holds the papers' own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import label_recovery
from privlab.attacks.gradient_inversion.derivatives import (
    KINDS,
    LONG,
    Choice,
    Kind,
    Look,
    TwiceDifferentiable,
    check_twice,
    choose,
)
from privlab.attacks.gradient_inversion.results import Checkpoint, Result, State, record
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.attacks.gradient_inversion.slopes import Slope, written
from privlab.compute import Run
from privlab.data.images import check_range
from privlab.leak import Leak
from privlab.models.forward import Gradients

Value = Callable[[Tensor, Gradients, Leak], Tensor]  # (normalised images, their gradients, the leak) -> scalar
Stages = tuple[tuple[float, float], ...]
Rule = Callable[[nn.Module, Leak], Tensor]  # (model, leak) -> labels (batch,)
ALWAYS: Stages = ((0.0, 1.0),)
OPTIMISERS: dict[str, Any] = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}  # of up to 20 evaluations a step


@dataclass(frozen=True)
class Term:
    """One summand of an attack's loss.

    value: (normalised images, their gradients, the leak) -> scalar. One that has to know the victim has a method
        `prepare(model, leak)`, called before the search: it gives the value to use, or None to leave the term out.
    stages: pairs (part of the run from 0 to 1, factor): from there on the weight is multiplied by the factor; 0 switches it off.
    end: the weight that it has fallen or risen to at the end of the run, by the same factor in each step; None leaves it as it is.
    of: what it looks at: "gradients"; "images" alone; or "group": the images of all seeds (group, batch, channels, height, width)
        at once, of which it makes one value a seed.
    Raises ValueError for stages that do not divide a run.
    """

    name: str
    weight: float
    value: Value
    stages: Stages = ALWAYS
    end: float | None = None
    of: Literal["gradients", "images", "group"] = "gradients"

    def __post_init__(self) -> None:
        parts = [part for part, _ in self.stages]
        if not parts or parts[0] != 0 or parts != sorted(set(parts)) or parts[-1] >= 1:
            raise ValueError(
                f"stages={self.stages} of term {self.name!r} do not divide a run; give pairs (part of the run, factor) "
                "that begin at 0 and rise to below 1, such as ((0, 1), (0.5, 0.5))"
            )

    def factor(self, progress: float) -> float:
        """What its weight is multiplied by at this part of the run, 0 being its start and 1 its end."""
        return next(factor for part, factor in reversed(self.stages) if progress >= part)

    def weigh(self, progress: float) -> float:
        """Its weight at this part of the run."""
        glide = 1.0 if self.end is None else (self.end / self.weight) ** progress
        return self.weight * glide * self.factor(progress)

    def __repr__(self) -> str:
        weight = f"{self.weight:g}" if self.end is None else f"{self.weight:g} to {self.end:g}"
        what = f"{weight} {self.name} ({getattr(self.value, '__name__', repr(self.value))})"
        later = ", ".join(f"x{factor:g} from {100 * part:g}%" for part, factor in self.stages)
        return what if self.stages == ALWAYS else f"{what} {later}"


# -- how the step length falls: progress (0 to 1) -> factor on the learning rate --------------------------------------------


def constant(progress: float) -> float:
    """The same step length all along."""
    return 1.0


def staircase(progress: float) -> float:
    """A tenth at 3/8, 5/8 and 7/8 of the run each (Geiping et al. 2020)."""
    return 0.1 ** sum(progress >= drop for drop in (3 / 8, 5 / 8, 7 / 8))


def cosine(progress: float) -> float:
    """From 1 to 0 along half a cosine wave."""
    return (1 + math.cos(math.pi * progress)) / 2


# -- the attack --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradientMatching:
    """Search, from noise, for images whose gradients look like the leak's.

    terms: summands of the loss.  steps: of the optimiser.  lr: its step length, in units of normalised pixels.
    optimiser: "adam", or "lbfgs" (up to 20 evaluations a step, as Zhu et al. 2019 run it).
    schedule: factor on `lr` over the run.  signed: step along the sign of the image gradient (Geiping et al. 2020).
    boxed: put pixels that leave [0, 1] back to its edge, at the start and after each step.
    labels: the rule that recovers labels where the leak holds none, or "search": look for them along with the images.
    group: seeds that are searched for together in each restart, so that terms of the "group" can hold them to one another.
    blind: a baseline that may do without the client's gradients, for what labels and priors alone give away.
    derivative: how the direction of a step is had, see `derivatives`. "exact": by differentiating twice. "difference": by two first
        derivatives, in about half the time and less memory, up to an error of about 1e-3. "auto": by a difference where it agrees with the
        exact one at the first step and at every fiftieth, else exactly; `Result.derivatives` says how often it was which. Models with
        dropout or BatchNorm in train mode, and batches in chunks, are taken exactly.
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
    derivative: Kind = "exact"

    def __post_init__(self) -> None:
        if len({t.name for t in self.terms}) < len(self.terms):
            raise ValueError(
                f"terms: the names {[t.name for t in self.terms]} repeat; a trace could not tell them apart"
            )
        if not self.blind and not any(t.of == "gradients" and t.weight for t in self.terms):
            raise ValueError(
                "terms: none of them looks at the client's gradients; give one of objectives a weight above 0, or blind=True for a "
                "baseline without them"
            )
        if min(self.steps, self.group) < 1 or not self.lr > 0:
            raise ValueError(
                f"steps={self.steps}, group={self.group}, lr={self.lr}: give 1 or more steps and seeds, and a step length above 0"
            )
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser={self.optimiser!r} is not known here; try 'adam' or 'lbfgs'")
        if self.derivative not in KINDS:
            raise ValueError(f"derivative={self.derivative!r} is not known here; try {', '.join(map(repr, KINDS))}")

    def __repr__(self) -> str:
        schedule = getattr(self.schedule, "__name__", repr(self.schedule))
        rule = self.labels if isinstance(self.labels, str) else getattr(self.labels, "__name__", repr(self.labels))
        settings = [
            f"{self.steps} steps of {'signed ' * self.signed}{self.optimiser}, lr {self.lr:g} {schedule}",
            "boxed" if self.boxed else "unboxed",
            f"labels by {rule} where unknown",
        ]
        if self.group > 1:
            settings.append(f"{self.group} seeds together")
        if self.blind:
            settings.append("may do without gradients")
        if self.derivative != "exact":
            settings.append(f"derivative {self.derivative}")
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
        self,
        model: nn.Module,
        leak: Leak,
        seed: int = 0,
        restarts: int = 1,
        start: Tensor | None = None,
        resume: Checkpoint | None = None,
        space: Space | None = None,
        chunk: int | None = None,
    ) -> Iterator[State]:
        """Yield a `State` before each step and one after the last, restart by restart; stop when you like, and go on.

        model: in the mode and with the weights that the client had.  leak: what the client sent.
        seed: of the noise that each restart begins with; it is drawn on the CPU, so that every device begins alike. The same seed
            gives the same images to the bit on a CPU, unless the model itself draws at random; a GPU may add numbers in another
            order each time.
        start: images to begin with in place of noise, (batch, channels, height, width) in [0, 1]; for a group, that many batches.
        resume: go on from `State.checkpoint()` of the same search; that state comes first, once more.
        space: look among the images of this space only, see `search_spaces`; among all if not given. A box holds for pixels alone.
        chunk: differentiate twice through so many images at a time, which takes the memory of so many and a third more time; all
            at once if not given. The result is the same up to rounding. Not for BatchNorm in train mode, which mixes the batch.
        Raises ValueError for a leak without gradients or that does not fit the model, and for labels or start of another batch.
        """
        parameters, leak = prepare(model, leak, self.labels)
        chunk = _check_chunk(chunk, model, leak)
        forward, classes = TwiceDifferentiable(model, tell=self.derivative == "exact"), 0
        if leak.labels is None:
            like = next(iter(parameters.values()))
            classes = forward(like.new_zeros(leak.batch_size, *leak.image_shape)).shape[1]
        attack = replace(self, terms=tuple(_ready(self.terms, model, leak)))
        for restart, x, label_logits in starts(leak, seed, restarts, start, self.group, classes):
            if resume and restart < resume["restart"]:
                continue
            choice = choose("exact" if chunk < leak.batch_size else self.derivative, model, parameters)
            descent = Descent(
                attack, forward, parameters, leak, restart, x, label_logits, space or Pixels(), chunk, choice
            )
            if resume and restart == resume["restart"]:
                descent.resume(resume)
            yield from descent.states()

    def run(
        self,
        model: nn.Module,
        leak: Leak,
        seed: int = 0,
        restarts: int = 1,
        start: Tensor | None = None,
        snapshots: int | Sequence[int] = 10,
        store: Run | None = None,
        progress: bool = True,
        space: Space | None = None,
        chunk: int | None = None,
    ) -> Result:
        """Search to the end and keep the best images by the attack's own score.  Arguments not named here are those of `search`.

        snapshots: how many states to keep, evenly spread over the steps, or which steps to keep.
        store: a run of the store; the search is kept there every 20 seconds, and called again it goes on from there.
        progress: show a bar.
        """
        begin = partial(self.search, model, leak, seed, restarts, start, space=space, chunk=chunk)
        return record(begin, self.steps, restarts, snapshots, store, progress)


# -- how every search opens --------------------------------------------------------------------------------------------------


def prepare(model: nn.Module, leak: Leak, rule: Rule | Literal["search"]) -> tuple[Gradients, Leak]:
    """The parameters to differentiate by, and the leak on their device, with labels if it holds them or a rule reads them.

    Raises ValueError for a leak without gradients or that does not fit the model, and for labels of another batch.
    """
    if not leak.grads:
        raise ValueError(
            "leak holds no gradients, so there is nothing to match; select some: leak.only(parts.stem(model))"
        )
    shapes = {n: p.shape for n, p in model.named_parameters()}
    for name, gradient in leak.grads.items():
        if shapes.get(name) != gradient.shape:
            parameter = f"has {tuple(shapes[name])}" if name in shapes else "has no such parameter"
            raise ValueError(
                f"leak: gradient {name!r} is {tuple(gradient.shape)}, and {type(model).__name__} {parameter}; observe this very model"
            )
    if leak.labels is not None and leak.labels.shape != (leak.batch_size,):
        raise ValueError(
            f"leak.labels: shape {tuple(leak.labels.shape)} for a batch of {leak.batch_size}; give one label an image, or None"
        )
    parameters: Gradients = {n: p for n, p in model.named_parameters() if n in leak.grads}
    for name, weight in parameters.items():
        if torch.finfo(weight.dtype).bits < 32 or not weight.requires_grad:
            raise ValueError(
                f"model: {name!r} is {weight.dtype}{'' if weight.requires_grad else ' and frozen'}, and a search needs derivatives in "
                "float32 or better; give the attacker's copy: model.float().requires_grad_(True)"
            )
    like = next(iter(parameters.values()))
    leak = leak.to(like)
    if leak.labels is None and callable(rule):
        leak = replace(leak, labels=rule(model, leak).to(like.device))
    return parameters, leak


def starts(
    leak: Leak, seed: int, restarts: int, start: Tensor | None, group: int = 1, classes: int = 0
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Where each restart begins: its number, normalised images, and logits (group * batch, classes) of labels that are searched for.

    leak: as `prepare` gives it.  The other arguments are those of `GradientMatching.search`.
    Raises ValueError for no restart, and for a start of another shape or out of [0, 1].
    """
    if restarts < 1:
        raise ValueError(f"restarts={restarts} searches nothing; give 1 or more")
    shape = (group * leak.batch_size, *leak.image_shape)
    if start is not None and start.shape != shape:
        raise ValueError(f"start: shape {tuple(start.shape)}, and the leak is of {shape}; give images of that shape")
    if start is not None:
        check_range("start", start, "give images in [0, 1], not normalised ones")
    like, noise = next(iter(leak.grads.values())), torch.Generator().manual_seed(seed)
    for restart in range(restarts):
        seeds = [torch.randn(leak.batch_size, *leak.image_shape, generator=noise) for _ in range(group)]
        x = torch.cat(seeds).to(like) if start is None else leak.normalise(start.to(like))
        yield restart, x, torch.randn(len(x), classes, generator=noise).to(like) if classes else None


def _ready(terms: Sequence[Term], model: nn.Module, leak: Leak) -> Iterator[Term]:
    """The terms made ready for this victim, without those that have nothing to look at in this leak."""
    for term in terms:
        prepare_value = getattr(term.value, "prepare", None)
        value = prepare_value(model, leak) if prepare_value else term.value
        if value is not None:
            yield replace(term, value=value)


def _check_chunk(chunk: int | None, model: nn.Module, leak: Leak) -> int:
    if chunk is None or chunk >= leak.batch_size:
        return leak.batch_size
    if chunk < 1:
        raise ValueError(f"chunk={chunk} is no number of images; give 1 or more, or None for all at once")
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training for m in model.modules()):
        raise ValueError(
            f"chunk={chunk}: {type(model).__name__} has BatchNorm in train mode, which mixes the images of a batch, so it cannot be "
            "taken apart; give chunk=None, or a model in eval mode"
        )
    return chunk


# -- one restart -------------------------------------------------------------------------------------------------------------


class Descent:
    """The images of one restart on their way down.

    attack: with its terms made ready for this victim.  x: normalised images to begin with, (group * batch, channels, height, width).
    label_logits: (group * batch, classes) where labels are searched for too.  The others are those of `GradientMatching.search`.
    """

    def __init__(
        self, attack: GradientMatching, forward: TwiceDifferentiable, parameters: Gradients, leak: Leak, restart: int, x: Tensor,
        label_logits: Tensor | None, space: Space, chunk: int, choice: Choice,
    ) -> None:  # fmt: skip
        self.attack, self.forward, self.parameters, self.leak, self.restart = attack, forward, parameters, leak, restart
        self.space, self.choice, self.batch = space, choice, leak.batch_size
        self.chunks = [slice(i, min(i + chunk, self.batch)) for i in range(0, self.batch, chunk)]
        self.step = self.evaluations = 0
        self.low, self.high = (leak.normalise(torch.full_like(x[:1], value)) for value in (0.0, 1.0))
        with torch.no_grad():
            latent = torch.cat([space.begin(part) for part in self._inside(x).split(self.batch)])
        self.latent, self.label_logits = latent.clone().requires_grad_(), label_logits  # (group * batch, ...)
        self.variables = [self.latent] if label_logits is None else [self.latent, label_logits.requires_grad_()]
        self.optimiser: torch.optim.Optimizer = OPTIMISERS[attack.optimiser](self.variables, lr=attack.lr)

    def states(self) -> Iterator[State]:
        """A state before each step, and one after the last."""
        while True:
            self.evaluate()
            state = self._state()
            yield state
            if state.reason:
                return
            self._advance()

    @property
    def progress(self) -> float:
        return self.step / self.attack.steps

    def evaluate(self) -> Tensor:
        """The loss, over all seeds; its gradient is left in the variables' `.grad`, and `self.values` (terms, group) has its terms."""
        self.before = {"evaluations": self.evaluations, "choice": self.choice.pack()}
        self.active = [t for t in self.attack.terms if t.factor(self.progress) > 0]
        self.images = torch.cat([self.space.images(part) for part in self.latent.split(self.batch)])
        x = self.images.detach()
        values: dict[str, Sequence[Tensor]] = {}
        logits = (
            [None] * self.attack.group if self.label_logits is None else self.label_logits.detach().split(self.batch)
        )
        seeds = [self._evaluate_seed(*seed) for seed in zip(x.split(self.batch), logits, strict=True)]
        for k, term in enumerate(t for t in self.active if t.of != "group"):
            values[term.name] = [of_seed[k] for of_seed, _ in seeds]
        gradients = [
            torch.cat(each) for each in zip(*(each for _, each in seeds), strict=True)
        ]  # by images, by label logits
        for term in (t for t in self.active if t.of == "group"):
            together = x.unflatten(0, (-1, self.batch)).clone().requires_grad_()
            apart = term.value(together, {}, self.leak)  # (group,)
            values[term.name] = list(apart.detach())
            (gradient,) = torch.autograd.grad(term.weigh(self.progress) * apart.sum(), together)
            gradients[0] = gradients[0] + gradient.flatten(0, 1)
        gradients[0] = torch.autograd.grad(self.images, self.latent, gradients[0])[0]
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.grad = (gradient.sign() if self.attack.signed else gradient).contiguous()  # L-BFGS takes no other
        self.values = torch.stack([torch.stack(list(values[t.name])) for t in self.active])
        self.loss = self._weights(self.active, self.values) @ self.values.sum(1)
        return self.loss

    def _evaluate_seed(self, x: Tensor, label_logits: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """For one seed: the values of its terms, and the gradients of their weighted sum by the images and by the label logits."""
        variables = [v.requires_grad_() for v in (x, label_logits) if v is not None]
        terms = [t for t in self.active if t.of != "group"]
        if not terms:
            return x.new_zeros(0), [torch.zeros_like(v) for v in variables]
        exactly = partial(self._exactly, terms, *variables)
        if any(t.of == "gradients" for t in terms):
            self.evaluations += 1
            by_difference = partial(self._by_difference, terms, *variables)
            look = self.choice.take(partial(self._with_care, exactly), by_difference)
        else:
            look = exactly()
        return look.values.detach(), look.gradients

    def _with_care(self, exactly: Callable[[], Look]) -> Look:
        """An exact look; a long search sees at its first, or at the second if that is by differences, whether it can do with less care."""
        mostly = self.choice.difference is None or (not self.choice.agrees and self.choice.exact_looks > 0)
        looks = self.attack.steps * (20 if self.attack.optimiser == "lbfgs" else 1)
        if self.forward.plain is None and mostly and looks >= LONG and self.latent.device.type == "cpu":
            return self.forward.compared(exactly)
        return exactly()

    def _exactly(self, terms: Sequence[Term], *variables: Tensor) -> Look:
        """By differentiating twice.  variables: the images, and label logits if they are searched for."""
        matching, whole = any(t.of == "gradients" for t in terms), len(self.chunks) == 1
        grads: Gradients = {}
        if matching:
            grads = self.gradients(*variables, create_graph=True) if whole else self._gradients_by_chunk(*variables)
        values = torch.stack([t.value(variables[0], grads, self.leak) for t in terms])  # (terms,)
        total = self._weights(terms, values) @ values
        inputs = variables if whole or not matching else [*variables, *grads.values()]
        gradients = list(torch.autograd.grad(total, inputs, materialize_grads=True))
        if len(inputs) > len(variables):
            self._add_by_chunk(variables, gradients[: len(variables)], gradients[len(variables) :])
        return Look(values, gradients[: len(variables)])

    def _by_difference(self, terms: Sequence[Term], *variables: Tensor) -> Look:
        """By two first derivatives: dD/dg at the gradients g, and from there the derivative along it, see `differences`."""
        difference = self.choice.difference
        assert difference is not None

        def task(forward: Callable[[Tensor], Tensor]) -> Tensor:
            return self.client_loss(forward, *variables)

        grads = difference.first(task, variables)
        compared = [t for t in terms if t.of == "gradients"]
        known = written(compared[0].value) if len(compared) == 1 else None
        if known:
            distance, slope = known(self.leak, list(grads.values()), difference.place)
            slope = slope.times(compared[0].weigh(self.progress))
            values = [distance if t is compared[0] else t.value(variables[0], {}, self.leak) for t in terms]
            stacked = torch.stack([torch.as_tensor(v).to(variables[0]) for v in values])  # (terms,)
        else:
            grads = {n: g.requires_grad_() for n, g in grads.items()}
            stacked = torch.stack([t.value(variables[0], grads, self.leak) for t in terms])
        total = self._weights(terms, stacked) @ stacked
        direct = [torch.zeros_like(v) for v in variables]
        if total.requires_grad:
            inputs = variables if known else [*variables, *grads.values()]
            both = list(torch.autograd.grad(total, inputs, materialize_grads=True))
            direct = both[: len(variables)]
            slope = slope if known else Slope.of(both[len(variables) :], difference.place)
        return Look(stacked, difference.pull(task, variables, slope), direct)

    def gradients(
        self, x: Tensor, label_logits: Tensor | None = None, *, rows: slice = slice(None), create_graph: bool = False
    ) -> Gradients:
        """What the client would have sent for these images, or the share of some rows of the batch in it."""
        loss = self.client_loss(self.forward, x, label_logits, rows=rows)
        update = torch.autograd.grad(
            loss, list(self.parameters.values()), create_graph=create_graph, materialize_grads=True
        )
        if create_graph and not any(self.choice.counts.values()):  # at the first look
            check_twice(update)
        return dict(zip(self.parameters, update, strict=True))

    def client_loss(
        self,
        forward: Callable[[Tensor], Tensor],
        x: Tensor,
        label_logits: Tensor | None = None,
        *,
        rows: slice = slice(None),
    ) -> Tensor:
        """The loss that the client differentiates, of these images by this forward pass; the share of some rows of the batch in it."""
        logits = forward(x)  # (rows, classes)
        if self.leak.labels is not None:
            loss = F.cross_entropy(logits, self.leak.labels[rows])
        else:  # labels as free as the images: a softmax over logits that are searched for (Zhu et al. 2019)
            loss = -(label_logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()  # type: ignore[union-attr]
        return loss if len(x) == self.batch else loss * (len(x) / self.batch)

    # A batch in chunks: its gradient is the sum of those of its chunks. So the gradient of any distance D of that sum can be had chunk by
    # chunk: first the sum g without a graph, then dD/dg, and then for each chunk c the gradient of <dD/dg, g_c>. The memory is that of
    # one chunk, the cost one more gradient.

    def _gradients_by_chunk(self, *variables: Tensor) -> Gradients:
        total = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        for rows in self.chunks:
            update = self.gradients(*(v[rows].detach() for v in variables), rows=rows)
            total = {n: g + update[n] for n, g in total.items()}
        return {n: g.requires_grad_() for n, g in total.items()}

    def _add_by_chunk(self, variables: Sequence[Tensor], gradients: list[Tensor], slope: list[Tensor]) -> None:
        """Add to the gradients by the variables what goes through the update.  slope: dD/dg."""
        for rows in self.chunks:
            inputs = [v[rows].detach().requires_grad_() for v in variables]
            update = self.gradients(*inputs, rows=rows, create_graph=True).values()
            for gradient, more in zip(gradients, torch.autograd.grad([*update], inputs, slope), strict=True):
                gradient[rows] += more

    def _advance(self) -> None:
        """One step of the optimiser, from where `evaluate` was called last."""
        self.optimiser.param_groups[0]["lr"] = self.attack.lr * self.attack.schedule(self.progress)
        present = [self.loss]  # L-BFGS asks for the present point again: no need to compute it twice
        self.optimiser.step(lambda: present.pop() if present else self.evaluate())  # type: ignore[arg-type, return-value]
        with torch.no_grad():
            if isinstance(self.space, Pixels):  # a box of pixels is none of what makes them
                self.latent.copy_(self._inside(self.latent))
        self.step += 1

    def _state(self) -> State:
        """Where it stands, by the seed that stands best."""
        names = [t.name for t in self.active]
        values = [dict(zip(names, row, strict=True)) for row in self.values.T.tolist()]  # seed by seed
        losses = [{t.name: t.weigh(self.progress) * of_seed[t.name] for t in self.active} for of_seed in values]
        lasting = [t for t in self.attack.terms if t.factor(1.0) > 0]
        scores = [sum(t.weigh(1.0) * of_seed.get(t.name, math.nan) for t in lasting) for of_seed in values]
        ranks = scores if all(map(math.isfinite, scores)) else [sum(of_seed.values()) for of_seed in losses]
        best = min(range(len(ranks)), key=ranks.__getitem__)
        images = self.images.detach().split(self.batch)[best]
        labels: Any = self.leak.labels
        if self.label_logits is not None:
            labels = self.label_logits.split(self.batch)[best].argmax(1)
        known = math.isfinite(sum(sum(of_seed.values()) for of_seed in losses))
        finite = known and all(v.grad.isfinite().all() for v in self.variables if v.grad is not None)
        reason = "not finite" if not finite else "steps" if self.step == self.attack.steps else ""
        return State(
            self.restart, self.step, self.evaluations, self.leak.normalise.inverse(images).clamp(0, 1), labels, losses[best],
            scores[best], reason, self.checkpoint, self.choice.counts,
        )  # fmt: skip

    def checkpoint(self) -> Checkpoint:
        """All that the descent needs to evaluate its present state again and go on."""
        optimiser = copy.deepcopy(self.optimiser.state_dict())
        variables = [v.detach().clone() for v in self.variables]
        state = {"restart": self.restart, "step": self.step, "variables": variables, "optimiser": optimiser}
        return state | self.before

    def resume(self, checkpoint: Checkpoint) -> None:
        """Take up a descent where `checkpoint` left it."""
        self.step, self.evaluations = checkpoint["step"], checkpoint["evaluations"]
        with torch.no_grad():
            for variable, kept in zip(self.variables, checkpoint["variables"], strict=True):
                variable.copy_(kept)
        self.choice.unpack(checkpoint["choice"])
        self.optimiser.load_state_dict(checkpoint["optimiser"])

    def _weights(self, terms: Sequence[Term], like: Tensor) -> Tensor:
        return like.new_tensor([t.weigh(self.progress) for t in terms])

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.attack.boxed else x
