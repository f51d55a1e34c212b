"""The forward pass of a model, called without leaving a trace; and how the model wants its images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from privlab.data import Normalise
from privlab.models.memory_layout import RightGradients

Gradients = dict[str, Tensor]  # parameter name -> tensor, shaped like the parameter

# The first forward derivative of a process has torch compile rules of its own, and warn of the compiler: nothing a reader could mend.
warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)


def preprocessing(model: nn.Module) -> Normalise:
    """How the model wants its images: its `normalise` (zoo.build sets it), else the mean and std that timm notes, else none."""
    if isinstance(own := getattr(model, "normalise", None), Normalise):
        return own
    noted = getattr(model, "pretrained_cfg", {})
    return Normalise(tuple(noted["mean"]), tuple(noted["std"])) if noted.get("mean") else Normalise()


def stateless(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The forward pass of a model as it is now, leaving no trace: layers write into copies of their buffers, BatchNorm among them.

    What layers keep between calls they neither find nor leave, see `forgetful`; and gradients through it are right, see `RightGradients`.
    Raises ValueError, when called, where BatchNorm in train mode has a single value a channel to take the variance of.
    """

    def forward(x: Tensor) -> Tensor:
        try:
            with RightGradients(), forgetful(model):
                return model(x)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                f"model: {type(model).__name__} is in train mode, and its BatchNorm sees a single value a channel (a batch of "
                f"{len(x)}, a map of 1x1), which has no variance; use model.eval(), or 2 images or more"
            ) from error

    return forward


def functional(model: nn.Module) -> Callable[[Gradients, Tensor], Tensor]:
    """The forward pass as a function of parameters and images, leaving no trace, as that of `stateless`."""

    def forward(parameters: Gradients, x: Tensor) -> Tensor:
        with RightGradients(), forgetful(model):
            return functional_call(model, parameters, (x,))

    return forward


@contextmanager
def forgetful(model: nn.Module) -> Iterator[None]:
    """Inside, each layer computes anew what it would keep between calls, and has copies of its buffers; afterwards all is what it was.

    A tensor that a layer keeps (timm's LeViT its attention biases) belongs to the weights and the graph of the call that made it: with
    the graph freed, or made without one, it gives the next call an error, or no gradient. Put aside are tensors with a graph, alone or in
    a dict or list, `cached_property`s, and dicts with "cache" in their name. A tensor that was kept without a graph under another name
    cannot be told from a constant, and stays.
    """
    copies: dict[int, Any] = {}  # two layers may share a dict, or a buffer
    attributes, buffers = [], []
    for module in model.modules():
        buffers.append((own := module._buffers, held := dict(own.items())))
        for name, buffer in held.items():
            own[name] = None if buffer is None else copies.setdefault(id(buffer), buffer.clone())
        now = vars(module)
        before = {name: now[name] for name in now.keys() - OF_A_MODULE}
        attributes.append((now, before))
        for name, value in before.items():
            if isinstance(value, dict | list):
                now[name] = copies.setdefault(id(value), _fresh(name, value))
            elif isinstance(value, Tensor) and isinstance(getattr(type(module), name, None), cached_property):
                del now[name]
            elif _has_graph(value):
                now[name] = None
    try:
        yield
    finally:
        for now, before in attributes:
            for name in now.keys() - before.keys() - OF_A_MODULE:
                del now[name]
            now.update(before)
        for own, held in buffers:
            for name in set(own.keys()) - held.keys():
                del own[name]
            for name, buffer in held.items():
                own[name] = buffer


def kept(model: nn.Module) -> list[dict[str, tuple[int, int]]]:
    """What each layer holds, by identity, and how much is in it: equal before and after a pass that leaves no trace."""
    return [
        {name: (id(v), len(v) if isinstance(v, dict | list | set) else 0) for name, v in vars(module).items()}
        | {name: (id(b), b._version) for name, b in module._buffers.items() if b is not None}
        for module in model.modules()
    ]


OF_A_MODULE = frozenset(vars(nn.Module()))  # its parameters, hooks and mode


def _fresh(name: str, value: Any) -> Any:
    """A copy of a dict or list, without what an earlier call left in it."""
    fresh = copy(value)
    if isinstance(value, list):
        fresh[:] = [None if _has_graph(part) else part for part in value]
    else:
        for key in [key for key, part in value.items() if "cache" in name or _has_graph(part)]:
            del fresh[key]
    return fresh


def _has_graph(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
    return any(isinstance(part, Tensor) and part.grad_fn is not None for part in inside)
