"""Gradient matching: look for images whose gradient is the one that the client sent.

The papers differ in what they compare and what they assume about images, not in how they search. So an attack is a tuple of `Term`s
and a handful of numbers, and one loop serves them all; `presets.py` holds the papers' own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import label_recovery
from privlab.attacks.gradient_inversion.derivatives import KINDS, Choice, Kind, TwiceDifferentiable, is_repeatable
from privlab.attacks.gradient_inversion.descent import OPTIMISERS, Descent
from privlab.attacks.gradient_inversion.differences import Difference
from privlab.attacks.gradient_inversion.results import Checkpoint, Result, State, record
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.compute import Run
from privlab.data.images import check_range
from privlab.leak import Leak
from privlab.models.forward import Gradients

Value = Callable[[Tensor, Gradients, Leak], Tensor]  # (normalised images, their gradients, the leak) -> scalar
Stages = tuple[tuple[float, float], ...]
Rule = Callable[[nn.Module, Leak], Tensor]  # (model, leak) -> labels (batch,)
ALWAYS: Stages = ((0.0, 1.0),)


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
    derivative: how the direction of a step is had, see `derivatives`. "exact": by differentiating twice. "auto": as a difference of two
        first derivatives, in about half the time and less memory and up to an error of about 1e-3, as long as it agrees with the exact one
        at the first step and at every fiftieth; else exactly. `Result.derivatives` says how often it was which. Models with dropout or
        BatchNorm in train mode, and batches in chunks, are taken exactly.
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
        forward, classes = TwiceDifferentiable(model, warn=self.derivative == "exact"), 0
        if leak.labels is None:
            like = next(iter(parameters.values()))
            classes = forward(like.new_zeros(leak.batch_size, *leak.image_shape)).shape[1]
        attack = replace(self, terms=tuple(_ready(self.terms, model, leak)))
        by_difference = self.derivative == "auto" and chunk == leak.batch_size and is_repeatable(model)
        for restart, x, label_logits in starts(leak, seed, restarts, start, self.group, classes):
            if resume and restart < resume["restart"]:
                continue
            choice = Choice(Difference(model, parameters) if by_difference else None)
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
            "leak holds no gradients, so there is nothing to match; select some: leak.only(parts.names(model, 'stem'))"
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
