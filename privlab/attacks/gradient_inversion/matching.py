"""Gradient matching: look for images whose gradient is the one that the client sent.

The papers differ in what they compare and what they assume about images, not in how they search. So an attack is a tuple of `Term`s
and a handful of numbers; `presets.py` holds the papers' own.
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
from privlab.attacks.gradient_inversion.compiled import Compiled
from privlab.attacks.gradient_inversion.derivatives import KINDS, Kind, TwiceDifferentiable, choose
from privlab.attacks.gradient_inversion.descent import Checkpoint, Descent, State
from privlab.attacks.gradient_inversion.results import Result, record
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.attacks.gradient_inversion.starts import Rule, attacked, starts
from privlab.attacks.gradient_inversion.terms import ALWAYS, Term, ready
from privlab.compute import Run
from privlab.leak import Leak

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


@dataclass(frozen=True)
class GradientMatching:
    """Search, from noise, for images whose gradients look like the leak's.

    terms: summands of the loss.  steps: of the optimiser.  lr: its step length, in units of normalised pixels.
    optimiser: "adam", or "lbfgs" (up to 20 evaluations a step, as Zhu et al. 2019 run it).
    schedule: factor on `lr` over the run.  signed: step along the sign of the image gradient (Geiping et al. 2020).
    boxed: put pixels that leave [0, 1] back to its edge, at the start and after each step.
    labels: the rule that recovers labels where the leak holds none, or "search": look for them along with the images.
    patience: stop after so many steps without a lower `State.score`.
    group: seeds that are searched for together in each restart, so that terms of the "group" can hold them to one another.
    blind: a baseline that may do without the client's gradients, for what labels and priors alone give away.
    derivative: how the direction of a step is had, see `derivatives`. "exact": by differentiating twice. "difference": by two first
        derivatives, in about half the time and less memory, up to an error of about 1e-3. "auto": by a difference where it agrees with the
        exact one at the first step and at every fiftieth, else exactly; `Result.derivatives` says how often it was which. Models with
        dropout or BatchNorm in train mode are taken exactly.
    """

    terms: tuple[Term, ...]
    steps: int
    lr: float = 0.1
    optimiser: Literal["adam", "lbfgs"] = "adam"
    schedule: Callable[[float], float] = staircase
    signed: bool = False
    boxed: bool = True
    labels: Rule | Literal["search"] = label_recovery.row_minimum
    patience: int | None = None
    group: int = 1
    blind: bool = False
    derivative: Kind = "exact"

    def __post_init__(self) -> None:
        if not self.terms:
            raise ValueError("terms=() leaves nothing to minimise; try (Term('gradients', 1.0, cosine_distance),)")
        if len({t.name for t in self.terms}) < len(self.terms):
            raise ValueError(
                f"terms: the names {[t.name for t in self.terms]} repeat; a trace could not tell them apart"
            )
        if not any(t.active(1.0) for t in self.terms):
            raise ValueError(
                "terms: none of them lasts to the end of the run; give one a last stage with a factor above 0"
            )
        if not self.blind and not _uses_gradients(self.terms):
            raise ValueError(
                "terms: none of them ever looks at the client's gradients; give one of objectives a factor above 0, or blind=True "
                "for a baseline without them"
            )
        if isinstance(self.group, bool) or not isinstance(self.group, int) or self.group < 1:
            raise ValueError(f"group={self.group!r} searches nothing; give 1 or more seeds")
        if self.group == 1 and (shared := [t.name for t in self.terms if t.of == "group"]):
            raise ValueError(f"group=1, and {shared[0]!r} compares several seeds with one another; give 2 or more")
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps={self.steps!r} searches nothing; give 1 or more, such as 600")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise ValueError(f"lr={self.lr!r} is no step length; give a positive number, such as 0.1")
        if self.optimiser not in ("adam", "lbfgs"):
            raise ValueError(f"optimiser={self.optimiser!r} is not known here; try 'adam' or 'lbfgs'")
        if self.optimiser == "lbfgs" and self.signed:
            raise ValueError("signed=True hides the curvature that L-BFGS learns from; try signed=False, or 'adam'")
        if not callable(self.labels) and self.labels != "search":
            raise ValueError(f"labels={self.labels!r} is no rule; give one of label_recovery, or 'search'")
        if self.derivative not in KINDS:
            raise ValueError(f"derivative={self.derivative!r} is not known here; try {', '.join(map(repr, KINDS))}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience={self.patience} stops before the first step; give 1 or more, or None")

    def __repr__(self) -> str:
        schedule = getattr(self.schedule, "__name__", repr(self.schedule))
        rule = self.labels if isinstance(self.labels, str) else getattr(self.labels, "__name__", repr(self.labels))
        settings = [
            f"{self.steps} steps of {'signed ' * self.signed}{self.optimiser}, lr {self.lr:g} {schedule}",
            "boxed" if self.boxed else "unboxed",
            f"labels by {rule} where unknown",
        ]
        if self.patience is not None:
            settings.append(f"patience {self.patience}")
        if self.group > 1:
            settings.append(f"{self.group} seeds together")
        if self.blind:
            settings.append("may do without gradients")
        if self.derivative != "exact":
            settings.append(f"derivative {self.derivative}")
        return f"GradientMatching: {' + '.join(map(repr, self.terms))};\n  {'; '.join(settings)}"

    def without(self, *names: str) -> GradientMatching:
        """The same attack without these terms."""
        if unknown := [n for n in names if n not in {t.name for t in self.terms}]:
            raise ValueError(f"the attack has no term {unknown[0]!r}; it has {', '.join(t.name for t in self.terms)}")
        return replace(self, terms=tuple(t for t in self.terms if t.name not in names))

    def unscheduled(self) -> GradientMatching:
        """The same attack with every term at its full weight all along."""
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
        compiled: bool = False,
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
        compiled: have the whole step compiled: pays for runs of thousands of steps; takes minutes first, once more where other terms
            begin to count, and seconds when the same network is searched again. The result is the same up to rounding. For known
            labels and a whole batch; what a term does besides computing its value happens once, not in each step.
        Raises ValueError for a leak without gradients or that does not fit the model, and for labels or start of another batch.
        """
        _check(model, leak, chunk)
        _check_compiled(compiled, chunk, leak, self.labels, self.derivative)
        parameters, leak = attacked(model, leak, self.labels)
        like = next(iter(parameters.values()))
        forward, classes = TwiceDifferentiable(model, tell=self.derivative == "exact"), 0
        if leak.labels is None:
            classes = forward(like.new_zeros(leak.batch_size, *leak.image_shape)).shape[1]
        terms = ready(self.terms, model, leak)
        if not self.blind and not _uses_gradients(terms):
            raise ValueError("terms: nothing is left to compare gradients by in this leak; see the warning before this")

        step = Compiled(model, parameters, leak) if compiled else None
        for begin in starts(leak, seed, restarts, start, resume, self.group, classes):
            descent = Descent(
                forward, parameters, leak, terms, self.steps, self.lr, self.optimiser, self.schedule, self.signed, self.boxed,
                self.patience, begin.restart, begin.images, leak.labels, begin.guess, space or Pixels(), chunk, step,
                choose(self.derivative, model, parameters),
            )  # fmt: skip
            if begin.checkpoint:
                descent.unpack(begin.checkpoint)
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
        budget: float | None = None,
        progress: bool = True,
        space: Space | None = None,
        chunk: int | None = None,
        compiled: bool = False,
    ) -> Result:
        """Search to the end and keep the best images by the attack's own score.  Arguments not named here are those of `search`.

        snapshots: how many states to keep, evenly spread over the steps, or which steps to keep.
        store: a run of the store; the search is kept there every 20 seconds, and called again it goes on from there.
        budget: seconds after which to stop with a TimeoutError, the search being kept in `store`.
        progress: show a bar.
        """
        begin = partial(self.search, model, leak, seed, restarts, start, space=space, chunk=chunk, compiled=compiled)
        return record(begin, self.steps, restarts, snapshots, store, budget, progress)


def _uses_gradients(terms: Sequence[Term]) -> bool:
    return any(t.of == "gradients" and t.weight and any(factor for _, factor in t.stages) for t in terms)


def _check(model: nn.Module, leak: Leak, chunk: int | None) -> None:
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk} is no number of images; give 1 or more, or None for all at once")
    if (
        chunk is not None
        and chunk < leak.batch_size
        and any(isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training for m in model.modules())
    ):
        raise ValueError(
            f"chunk={chunk}: {type(model).__name__} has BatchNorm in train mode, which mixes the images of a batch, so it cannot be "
            "taken apart; give chunk=None, or a model in eval mode"
        )


def _check_compiled(
    compiled: bool, chunk: int | None, leak: Leak, rule: Rule | Literal["search"], derivative: Kind
) -> None:
    if compiled and derivative != "exact":
        raise ValueError(
            f"compiled=True differentiates twice, and derivative={derivative!r} is to avoid that; give derivative='exact' or compiled=False"
        )
    if compiled and leak.labels is None and rule == "search":
        raise ValueError(
            "compiled=True needs labels that are known, and labels='search' looks for them; give them with the leak, or a rule of "
            "label_recovery to the attack, or compiled=False"
        )
    if compiled and chunk is not None and chunk < leak.batch_size:
        raise ValueError(
            f"compiled=True takes the {leak.batch_size} images at once, and chunk={chunk} takes them apart; give chunk=None or "
            "compiled=False"
        )
