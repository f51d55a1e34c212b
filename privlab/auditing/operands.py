"""What a model multiplies its parameters with, seen by watching torch's functions: a layer, `F.linear`, `@` or a recurrent cell alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from privlab.leak import Leak
from privlab.models.forward import stateless

PAIRS = (F.linear, F.conv1d, F.conv2d, F.conv3d)  # of which what leaves has the gradient of the bias


@dataclass(frozen=True)
class Operand:
    """A tensor that enters one of torch's functions beside parameters.

    place: among all operands of a pass.  size: its numbers.  parameters: names of those that it enters with, or that made what it enters
    with.  bias: the one whose gradient is that of all that leaves; "" where there is none.  function: of the operand alone.
    """

    place: int
    size: int
    parameters: tuple[str, ...]
    bias: str
    function: Callable[[Tensor], Tensor]


class Reached(Exception):
    """Carries an operand out of the pass."""


class _Watch(TorchFunctionMode):
    """Notes the operands of a pass, or ends it at one of them."""

    def __init__(self, model: nn.Module, end: int | None = None) -> None:
        super().__init__()
        self.names: dict[int, tuple[str, ...]] = {id(p): (n,) for n, p in model.named_parameters()}
        self.end, self.place, self.operands = end, 0, list[Operand]()
        self.alive: list[Any] = []  # what is in `names`: an id is of a tensor that lives

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        weights = [t for t in tensors if id(t) in self.names]
        entering = [t for t in tensors if id(t) not in self.names and t.requires_grad] if weights else []
        for operand in entering:
            if self.place == self.end:
                raise Reached(operand)
            self.place += 1
        output = function(*args, **kwargs)
        if weights and not entering:  # a view of parameters, or made of them alone
            names = tuple(dict.fromkeys(n for t in weights for n in self.names[id(t)]))
            for t in (t for t in tree_leaves(output) if isinstance(t, Tensor) and id(t) not in self.names):
                self.names[id(t)] = names
                self.alive.append(t)
        if weights and self.end is None:
            self._note(function, args, kwargs, entering, weights, output)
        return output

    def _note(self, function: Any, args: Any, kwargs: Any, entering: Any, weights: Any, output: Any) -> None:
        names = tuple(dict.fromkeys(n for t in weights for n in self.names[id(t)]))
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        alone = function in PAIRS and bias is not None and output.numel() == len(bias)
        own = self.names.get(id(bias), ()) if alone else ()
        for place, operand in enumerate(entering, self.place - len(entering)):

            def again(x: Tensor, operand: Tensor = operand) -> Tensor:
                return function(*tree_map(lambda t: x if t is operand else t, args), **kwargs)

            self.operands.append(Operand(place, operand.numel(), names, own[0] if len(own) == 1 else "", again))


def operands(model: nn.Module, leak: Leak, image: Tensor) -> list[Operand]:
    """Those of one pass, in its order."""
    with torch.enable_grad(), _Watch(model) as watch:
        stateless(model)(leak.normalise(image.detach().requires_grad_()))
    return watch.operands


def entering(model: nn.Module, leak: Leak, operand: Operand) -> Callable[[Tensor], Tensor]:
    """The model up to an operand, as a function of the image."""

    def enters(x: Tensor) -> Tensor:
        with torch.enable_grad(), _Watch(model, operand.place):
            try:
                stateless(model)(leak.normalise(x if x.requires_grad else x.detach().requires_grad_()))
            except Reached as stop:
                return stop.args[0] if x.requires_grad else stop.args[0].detach()
        raise ValueError(f"model: what enters with {operand.parameters[0]!r} did so once, and not a second time")

    return enters
