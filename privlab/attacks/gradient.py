"""Gradient inversion by search: look for images whose gradient is the one that the client sent.

The papers differ in what they compare and what they assume about images, not in how they search. So an attack is a tuple
of `Term`s and a handful of numbers, and a paper is a preset of a few lines at the end of this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from privlab.attacks import labels as label_rules
from privlab.attacks.descent import Checkpoint, Descent, State, Term, twice_differentiable
from privlab.attacks.objectives import cosine_distance, squared_distance, total_variation
from privlab.attacks.recording import FORMAT, Result, Snapshot, kept, record
from privlab.data import check_range
from privlab.leak import Leak
from privlab.store import Run

__all__ = [
    "FORMAT",
    "Inversion",
    "Result",
    "Snapshot",
    "State",
    "Term",
    "annealed",
    "constant",
    "cosine",
    "cosine_distance",
    "dlg",
    "idlg",
    "inverting_gradients",
    "kept",
    "squared_distance",
    "staircase",
    "total_variation",
]

Rule = Callable[[nn.Module, Leak], Tensor]  # (model, leak) -> labels (batch,)


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
class Inversion:
    """Search, from noise, for images whose gradients look like the leak's.

    terms: summands of the loss.  steps: of the optimiser.  lr: its step length, in units of normalised pixels.
    optimiser: "adam", or "lbfgs" (up to 20 evaluations a step, as Zhu et al. 2019 run it).
    schedule: factor on `lr` over the run.  signed: step along the sign of the image gradient (Geiping et al. 2020).
    boxed: put pixels that leave [0, 1] back to its edge, at the start and after each step.
    labels: the rule that recovers labels where the leak holds none, or "search": look for them along with the images.
    enough: stop at this score.  patience: stop after so many steps without a lower one. See `State.score`.
    """

    terms: tuple[Term, ...]
    steps: int
    lr: float = 0.1
    optimiser: Literal["adam", "lbfgs"] = "adam"
    schedule: Callable[[float], float] = staircase
    signed: bool = False
    boxed: bool = True
    labels: Rule | Literal["search"] = label_rules.row_minimum
    enough: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        if not self.terms:
            raise ValueError("terms=() leaves nothing to minimise; try (Term('gradients', 1.0, cosine_distance),)")
        if len({t.name for t in self.terms}) < len(self.terms):
            raise ValueError(
                f"terms: the names {[t.name for t in self.terms]} repeat; a trace could not tell them apart"
            )
        if not any(t.active(1.0) for t in self.terms):
            raise ValueError("terms: none of them lasts to the end of the run; give one a span that ends at 1")
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps={self.steps!r} searches nothing; give 1 or more, such as 600")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise ValueError(f"lr={self.lr!r} is no step length; give a positive number, such as 0.1")
        if self.optimiser not in ("adam", "lbfgs"):
            raise ValueError(f"optimiser={self.optimiser!r} is not known here; try 'adam' or 'lbfgs'")
        if self.optimiser == "lbfgs" and self.signed:
            raise ValueError("signed=True hides the curvature that L-BFGS learns from; try signed=False, or 'adam'")
        if not callable(self.labels) and self.labels != "search":
            raise ValueError(f"labels={self.labels!r} is no rule; give one of attacks.labels, or 'search'")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience={self.patience} stops before the first step; give 1 or more, or None")

    def __repr__(self) -> str:
        rule = self.labels if isinstance(self.labels, str) else getattr(self.labels, "__name__", repr(self.labels))
        settings = [
            f"{self.steps} steps of {'signed ' * self.signed}{self.optimiser}, lr {self.lr:g} {self.schedule.__name__}",
            "boxed" if self.boxed else "unboxed",
            f"labels by {rule} where unknown",
        ]
        if self.enough is not None:
            settings.append(f"until {self.enough:g}")
        if self.patience is not None:
            settings.append(f"patience {self.patience}")
        return f"Inversion: {' + '.join(map(repr, self.terms))};\n  {'; '.join(settings)}"

    def search(
        self,
        model: nn.Module,
        leak: Leak,
        seed: int = 0,
        restarts: int = 1,
        start: Tensor | None = None,
        resume: Checkpoint | None = None,
    ) -> Iterator[State]:
        """Yield a `State` before each step and one after the last, restart by restart; stop when you like, and go on.

        model: in the mode and with the weights that the client had.  leak: what the client sent.
        seed: of the noise that each restart begins with; it is drawn on the CPU, so that every device begins alike. The same seed
            gives the same images to the bit on a CPU; a GPU may add numbers in another order each time.
        start: images to begin with in place of noise, (batch, channels, height, width) in [0, 1].
        resume: go on from `State.checkpoint()` of the same search; that state comes first, once more.
        Raises ValueError for a leak without gradients or that does not fit the model, and for labels or start of another batch.
        """
        _check(model, leak, restarts, start)
        parameters = {n: p for n, p in model.named_parameters() if n in leak.grads}
        like = next(iter(parameters.values()))
        leak = leak.to(like)
        forward = twice_differentiable(model)
        labels = leak.labels
        if labels is None and callable(self.labels):
            labels = self.labels(model, leak).to(like.device)
        classes = forward(like.new_zeros(leak.batch_size, *leak.image_shape)).shape[1] if labels is None else 0

        noise = torch.Generator().manual_seed(seed)
        first = int(resume["counts"][0]) if resume else 0
        for restart in range(restarts):
            x = torch.randn(leak.batch_size, *leak.image_shape, generator=noise).to(like)
            x = x if start is None else leak.normalise(start.to(like))
            guess = None
            if labels is None:
                guess = torch.randn(leak.batch_size, classes, generator=noise).to(like)
            if restart < first:
                continue
            descent = Descent(
                forward, parameters, leak, self.terms, self.steps, self.lr, self.optimiser, self.schedule, self.signed,
                self.boxed, self.enough, self.patience, restart, x, labels, guess,
            )  # fmt: skip
            if resume and restart == first:
                descent.unpack(resume)
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
    ) -> Result:
        """Search to the end and keep the best images by the attack's own score.  The first arguments are those of `search`.

        snapshots: how many states to keep, evenly spread over the steps, or which steps to keep.
        store: a run of the store; the search is kept there every 20 seconds, and called again it goes on from there.
        budget: seconds after which to stop with a TimeoutError, the search being kept in `store`.
        progress: show a bar.
        """
        begin = partial(self.search, model, leak, seed, restarts, start)
        return record(begin, self.steps, restarts, snapshots, store, budget, progress)


def _check(model: nn.Module, leak: Leak, restarts: int, start: Tensor | None) -> None:
    shape = (leak.batch_size, *leak.image_shape)
    if not leak.grads:
        raise ValueError(
            "leak holds no gradients, so there is nothing to match; select some: leak.only(parts.stem(model))"
        )
    shapes = {n: p.shape for n, p in model.named_parameters()}
    for name, gradient in leak.grads.items():
        if shapes.get(name) != gradient.shape:
            found = f"has {tuple(shapes[name])}" if name in shapes else "has no such parameter"
            raise ValueError(
                f"leak: gradient {name!r} is {tuple(gradient.shape)}, and {type(model).__name__} {found}; observe this very model"
            )
    if leak.labels is not None and leak.labels.shape != (leak.batch_size,):
        raise ValueError(
            f"leak.labels: shape {tuple(leak.labels.shape)} for a batch of {leak.batch_size}; give one label an image, or None"
        )
    if restarts < 1:
        raise ValueError(f"restarts={restarts} searches nothing; give 1 or more")
    if start is not None and start.shape != shape:
        raise ValueError(f"start: shape {tuple(start.shape)}, and the leak is of {shape}; give images of that shape")
    if start is not None:
        check_range("start", start, "give images in [0, 1], not normalised ones")


# -- the papers ----------------------------------------------------------------------------------------------------------


def dlg(steps: int = 300) -> Inversion:
    """Deep Leakage from Gradients (Zhu et al. 2019): squared distance, L-BFGS, labels searched for along with the images."""
    terms = (Term("gradients", 1.0, squared_distance),)
    return Inversion(terms, steps, lr=1.0, optimiser="lbfgs", schedule=constant, boxed=False, labels="search")


def idlg(steps: int = 300) -> Inversion:
    """Improved DLG (Zhao et al. 2020): the same search, with the label read from the last layer first.

    One image, features that are not negative: see `labels.row_sum`; elsewhere give `replace(idlg(), labels=labels.row_products)`.
    """
    terms = (Term("gradients", 1.0, squared_distance),)
    return Inversion(
        terms, steps, lr=1.0, optimiser="lbfgs", schedule=constant, boxed=False, labels=label_rules.row_sum
    )


def inverting_gradients(steps: int = 3000, tv: float = 1e-4) -> Inversion:
    """Inverting Gradients (Geiping et al. 2020), with the settings of Zhang et al. 2024, Table 1.

    The table names Adam, .1, 3,000 iterations, similarity and a total variation of 1e-4; sign and staircase are Geiping's.
    """
    terms = (Term("gradients", 1.0, cosine_distance), Term("smoothness", tv, total_variation))
    return Inversion(terms, steps, signed=True)


def annealed(steps: int = 200, tv: tuple[float, float] = (0.02, 1e-5)) -> Inversion:
    """Ours, for few steps: inverting_gradients with a smoothness that fades from tv[0] to tv[1] and steps that shrink to nothing.

    Strong smoothness finds the coarse picture within tens of steps, and then hides the fine one. The first step is the longer the
    fewer there are, so that a pixel can always cross its range a few times.
    """
    terms = (Term("gradients", 1.0, cosine_distance), Term("smoothness", tv[0], total_variation, end=tv[1]))
    return Inversion(terms, steps, lr=min(30 / steps, 0.4), signed=True, schedule=cosine)
