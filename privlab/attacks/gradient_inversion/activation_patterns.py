"""The activation pattern of a forward pass, given to another: which units of ReLU are on, which pixel max pooling takes of each window.

Within one such pattern a network is smooth, so the difference between two passes with the same pattern is a derivative; between passes with
patterns of their own it is not, since units switch on or off between the two points, and autograd knows nothing of that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Layer = nn.ReLU | nn.MaxPool2d
Forward = Callable[[Layer, Tensor], Tensor]


class ActivationPattern:
    """That of a model's nn.ReLU and nn.MaxPool2d, call by call. Other kinks, and those of functions such as F.relu, are not known."""

    def __init__(self, model: nn.Module) -> None:
        self.layers: list[Layer] = [m for m in model.modules() if type(m) in (nn.ReLU, nn.MaxPool2d)]  # type: ignore[misc]
        self.calls: list[Tensor] = []  # of a ReLU its output, of a pooling the index that it took of each window

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Inside, the pattern is noted."""
        self.calls = []
        with self._instead(partial(_record, self.calls)):
            yield

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Inside, the layers are as they were when they were noted."""
        with self._instead(partial(_replay, deque(self.calls))):
            yield

    @contextmanager
    def _instead(self, forward: Forward) -> Iterator[None]:
        for layer in self.layers:
            vars(layer)["forward"] = partial(forward, layer)  # goes before that of its class
        try:
            yield
        finally:
            for layer in self.layers:
                del vars(layer)["forward"]


def _record(calls: list[Tensor], layer: Layer, x: Tensor) -> Tensor:
    if isinstance(layer, nn.ReLU):
        out = nn.ReLU.forward(layer, x)
        calls.append(out.detach())
        return out
    window = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
    out, indices = F.max_pool2d(x, *window, return_indices=True)
    calls.append(indices)
    return out


def _replay(calls: deque[Tensor], layer: Layer, x: Tensor) -> Tensor:
    noted = calls.popleft()
    if isinstance(layer, nn.ReLU):
        out = torch.ops.aten.threshold_backward(x, noted, 0)  # x where the unit was on, 0 where it was off
        return x.copy_(out) if layer.inplace else out
    return x.flatten(-2).gather(-1, noted.flatten(-2)).view_as(noted)
