"""The derivative of a distance between gradients as a difference of two first derivatives.

A distance D of the update g(x) = dL/d(weights) has the derivative J^T u by the images x, with u = dD/dg and J = dg/dx. Autograd takes it by
differentiating twice. But mixed derivatives commute, so J^T u is also the derivative of dL/dx along u in the *weights*:

    J^T u  =  lim  [ dL/dx (weights + e u) - dL/dx (weights) ] / e,

one more first derivative, at shifted weights. (Liu et al. 2019, DARTS, take their second-order term so; of gradient attacks breaching does,
in its Pearlmutter losses.) No graph of a graph is kept: less time, less memory, and layers need be differentiable once only.  What is ours:
the second pass replays the pattern of ReLUs and max pooling of the first, see `activation_patterns`. The forward
pass has to be deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.activation_patterns import Recorded, Replayed
from privlab.attacks.gradient_inversion.slopes import Slope, length
from privlab.models.forward import Gradients, forgetful, functional, kept, stateless

Task = Callable[[Callable[[Tensor], Tensor]], Tensor]  # a forward pass -> the loss that the client differentiates

FIRST = 1e-5  # the shift to begin with, over the length of the weights
GOAL = 8.0  # times the root of the float's precision: the share of itself by which what is differentiated should move
LONGEST = 1e-2  # the longest shift, in the unit of FIRST
REDO = 30.0  # a shift that moves dL/dx so many times more or less than it should is chosen again at once


@dataclass
class Difference:
    """J^T u by two first derivatives.

    model, parameters: whose weights are shifted.
    gain: how much dL/dx moves for each unit of shift, as it was last; None before the first. The shift follows it: rounding asks for a long
        one, curvature for a short one, and both errors are about equal where dL/dx moves by a few times the root of the float's precision.
    """

    model: nn.Module
    parameters: Mapping[str, Tensor]
    gain: float | None = None
    plain: bool | None = None  # whether this pass may go without the care of `stateless`; None before the first
    push_gain: float | None = None
    chooses: bool = True  # a model whose first pass has no pattern is not asked again
    _shifted: Gradients = field(default_factory=dict, repr=False)
    _may: dict[tuple[torch.Size, ...], bool] = field(default_factory=dict, repr=False)  # `plain`, by shapes of inputs

    def __post_init__(self) -> None:
        self._careful = (stateless(self.model), functional(self.model))
        names = {id(p): n for n, p in self.parameters.items()}
        self._slots: list[
            tuple[dict[str, Any], str, str]
        ] = [  # where each weight is kept; one may be under several names
            (module._parameters, slot, names[id(p)])
            for module in self.model.modules()
            for slot, p in module._parameters.items()
            if id(p) in names
        ]

    def _pass(self, x: Tensor, weights: Gradients | None = None) -> Tensor:
        """Logits, at the weights as they are or at others."""
        if not self.plain:
            return self._careful[0](x) if weights is None else self._careful[1](weights, x)
        if weights is None:
            return self.model(x)
        before = [places[slot] for places, slot, _ in self._slots]
        try:  # what torch.func.functional_call does, which takes a millisecond to find the places again
            for places, slot, name in self._slots:
                places[slot] = weights[name]
            return self.model(x)
        finally:
            for (places, slot, _), weight in zip(self._slots, before, strict=True):
                places[slot] = weight

    def first(self, task: Task, inputs: Sequence[Tensor]) -> Gradients:
        """The update dL/d(weights), without a graph; dL/d(inputs) and the pattern are noted for `pull`."""
        shapes = tuple(x.shape for x in inputs)  # a last chunk of one image may go another way through a kernel
        if shapes not in self._may:
            self._may[shapes] = self._may_be_plain(task, inputs)
        self.plain = self._may[shapes]
        self._pattern = Recorded()

        def forward(x: Tensor) -> Tensor:
            if not self.chooses:
                return self._pass(x)
            with self._pattern:
                return self._pass(x)

        both = torch.autograd.grad(task(forward), [*inputs, *self.parameters.values()], materialize_grads=True)
        self.chooses = bool(self._pattern.calls)
        self._here = both[: len(inputs)]
        return dict(zip(self.parameters, both[len(inputs) :], strict=True))

    def _may_be_plain(self, task: Task, inputs: Sequence[Tensor]) -> bool:
        """Whether a pass without the care of `models.forward` leaves no trace in any layer, and gives the same gradients to the bit."""
        if any(m.training for m in self.model.modules()):
            return False
        wanted = [*inputs, *self.parameters.values()]
        careful = torch.autograd.grad(task(self._careful[0]), wanted, materialize_grads=True)
        with forgetful(self.model):
            before = kept(self.model)
            loss = task(self.model)
            if kept(self.model) != before:
                return False
            plain = torch.autograd.grad(loss, wanted, materialize_grads=True)
        return all(map(torch.equal, careful, plain))

    @property
    def place(self) -> list[Tensor]:
        """Where the shifted weights are made."""
        if not self._shifted:
            self._shifted = {n: torch.empty_like(p) for n, p in self.parameters.items()}
            self._weights = length(self.parameters.values()) or sum(p.numel() for p in self.parameters.values()) ** 0.5
        return list(self._shifted.values())

    def pull(self, task: Task, inputs: Sequence[Tensor], slope: Slope) -> list[Tensor]:
        """J^T u for each of the inputs, at the point of the last `first`.  slope: u, made in `place`.

        Raises OtherPattern where the model takes another way at the shifted weights.
        """
        if not 0 < slope.length < math.inf:
            return [torch.full_like(h, 0.0 if slope.length == 0 else math.nan) for h in self._here]
        goal = GOAL * torch.finfo(self._here[0].dtype).eps ** 0.5 * length(self._here[:1])  # how far dL/dx should move

        def move(shift: float) -> list[Tensor]:
            return self._moved(task, inputs, slope, shift / slope.length)

        moved, shift, self.gain = steady(move, self.gain, goal, self._weights)
        return list(torch._foreach_mul(moved, slope.length / shift))

    def push(
        self,
        task: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor],
        x: Tensor,
        direction: Tensor,
        update: list[Tensor],
    ) -> list[Tensor]:
        """J v: how the update moves with the images, at the point of the last `first`.

        task: as elsewhere, with the images as its second argument.  direction: v, like x.  update: what `first` gave.
        """
        far = length([direction])
        if not 0 < far < math.inf:
            return [torch.full_like(g, 0.0 if far == 0 else math.nan) for g in update]

        def forward(images: Tensor) -> Tensor:
            if not self.chooses:
                return self._pass(images)
            with Replayed(self._pattern):
                return self._pass(images)

        def move(shift: float) -> list[Tensor]:
            there = torch.autograd.grad(
                task(forward, x.detach() + (shift / far) * direction), list(self.parameters.values())
            )
            return list(torch._foreach_sub(there, update))

        goal = GOAL * torch.finfo(x.dtype).eps ** 0.5 * length(update)

        def whole(shift: float) -> list[Tensor]:
            moved = move(shift)
            return [torch.stack(torch._foreach_norm(moved)), *moved]

        (_, *moved), shift, self.push_gain = steady(whole, self.push_gain, goal, length([x]))
        return list(torch._foreach_mul(moved, far / shift))

    @property
    def noted(self) -> tuple:
        """What `first` noted of its point."""
        return self._pattern, self._here

    @noted.setter
    def noted(self, noted: tuple) -> None:
        self._pattern, self._here = noted

    def _moved(self, task: Task, inputs: Sequence[Tensor], slope: Slope, step: float) -> list[Tensor]:
        """How dL/d(inputs) moves when the weights move by step * u, in the pattern of the first pass."""
        slope.shifted(list(self.parameters.values()), step)

        def forward(x: Tensor) -> Tensor:
            if not self.chooses:
                return self._pass(x, self._shifted)
            with Replayed(self._pattern):
                return self._pass(x, self._shifted)

        there = torch.autograd.grad(task(forward), inputs, materialize_grads=True)
        return [t - h for t, h in zip(there, self._here, strict=True)]


def steady(
    move: Callable[[float], list[Tensor]], gain: float | None, goal: float, size: float
) -> tuple[list[Tensor], float, float | None]:
    """What `move` gives at a shift that moves the first of it by about `goal`, the shift, and what a unit of shift moved it by.

    gain: as it was last.  size: of what is shifted.  A shift that misses the goal by far is chosen again, once.
    """

    def choose() -> float:
        return min(goal / gain, LONGEST * size) if gain and goal else FIRST * size

    shift = choose()
    moved = move(shift)
    far = length(moved[:1])
    gain = far / shift if math.isfinite(far) else None
    if not goal / REDO < far < goal * REDO and (other := choose()) != shift:
        shift, moved = other, move(other)
        gain = length(moved[:1]) / shift
    return moved, shift, gain
