"""What a network chose in one forward pass, given to another: which units are on, which pixel is the largest, what counts as constant.

Within one such pattern a network is smooth, so the difference between two passes with the same pattern is a derivative; between passes with
patterns of their own it is not, since units switch on or off between the two points, and autograd knows nothing of that.

    with Recorded() as pattern:
        first = model(x)
    with Replayed(pattern):
        second = model(moved)  # as if nothing had switched
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

Function = Callable[..., Any]
Replay = Callable[..., Any]  # the arguments of the second call -> what it gives


class OtherPattern(RuntimeError):
    """The second pass calls other functions, or on other shapes, than the first one."""


@dataclass(frozen=True)
class _Call:
    function: Function
    shape: torch.Size
    replay: Replay
    inplace: bool


class Recorded(TorchFunctionMode):
    """Notes, while it is entered, what each function chooses that `CHOICES` lists."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        choice = CHOICES.get(func)
        if choice is None:
            return func(*args, **(kwargs or {}))
        x = args[0] if args else kwargs["input"]
        shape = x.shape  # an operation in place may alter it
        out, replay = choice(func, *args, **(kwargs or {}))
        self.calls.append(_Call(func, shape, replay, out is x))
        return out


class Replayed(TorchFunctionMode):
    """Makes each function choose, while it is entered, what it chose when it was recorded.

    Raises OtherPattern where the passes are not alike, in calls of those functions and in the shapes of what they are called on.
    """

    def __init__(self, pattern: Recorded) -> None:
        super().__init__()
        self.calls = iter(pattern.calls)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in CHOICES:
            return func(*args, **(kwargs or {}))
        x = args[0] if args else kwargs["input"]
        call = next(self.calls, None)
        if call is None or call.function is not func or call.shape != x.shape:
            before = "nothing more" if call is None else f"{resolve_name(call.function)} of {tuple(call.shape)}"
            raise OtherPattern(f"{resolve_name(func)} of {tuple(x.shape)}, where the first pass had {before}")
        out = call.replay(*args, **(kwargs or {}))
        return x.copy_(out) if call.inplace and out is not x else out


# -- what a function chooses: each (function, its arguments) -> what it gives, and how to give it again -----------------------


def _rectified(func: Function, x: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """ReLU: a unit is on where its output is above 0. Autograd's own kernel for its derivative does just that, and in one go."""
    out = func(x, *args, **how)
    on = out.detach()
    return out, lambda x, *_, **__: torch.ops.aten.threshold_backward(x, on, 0)


def _linear_pieces(func: Function, x: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """Any function of each number alone, made of straight pieces: a slope and an offset a number."""
    with torch.enable_grad():
        at = x.detach().clone().requires_grad_()
        value = func(at * 1, *args, **how)  # * 1: for those that work in place
        (slope,) = torch.autograd.grad(value, at, torch.ones_like(value))
    offset = value.detach() - slope * at.detach()
    return func(x, *args, **how), lambda x, *_, **__: torch.addcmul(offset, slope, x)


def _hard_swish(func: Function, input: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """0, a parabola, the number itself."""
    low, high = input.detach() <= -3, input.detach() >= 3

    def replay(x: Tensor, *_: Any, **__: Any) -> Tensor:
        x = x.clone()  # which an operation in place is about to alter
        stays = ((x <= -3) == low) & ((x >= 3) == high)
        piece = torch.where(low, 0.0, torch.where(high, x, x * (x + 3) / 6))
        return torch.where(stays, F.hardswish(x), piece)

    return func(input, *args, **how), replay


def _exponential(func: Function, input: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """ELU, CELU, SELU: straight above 0, bent below."""
    on = input.detach() > 0
    scale, alpha = (1.0507009873554805, 1.6732632423543772) if func in (F.selu, torch.selu) else (1.0, 1.0)
    if func not in (F.selu, torch.selu):
        alpha = how.get("alpha", args[0] if args else 1.0)
    inner = alpha if func in (F.celu, torch.celu) else 1.0

    def replay(x: Tensor, *_: Any, **__: Any) -> Tensor:
        x = x.clone()
        return torch.where(on, scale * x, scale * alpha * torch.expm1(x.where(~on, 0.0) / inner))

    return func(input, *args, **how), replay


def _leaky(func: Function, x: Tensor, weight: Tensor) -> tuple[Any, Replay]:
    """PReLU, whose slope below 0 is a weight."""
    on = x.detach() > 0

    def replay(x: Tensor, weight: Tensor) -> Tensor:
        broad = weight.reshape(1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else weight
        return torch.where(on, x, broad * x)

    return func(x, weight), replay


def _pooled(func: Function, input: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """Max pooling: which pixel is the largest of each window."""
    name = func.__name__.removesuffix("_with_indices")
    both = name != func.__name__ or func is torch.adaptive_max_pool1d or how.get("return_indices", False)
    maps = int(name[-2])  # "max_pool2d"
    out, where = getattr(F, name)(input, *args, **how | {"return_indices": True})

    def replay(x: Tensor, *_: Any, **__: Any) -> Any:
        taken = x.flatten(-maps).gather(-1, where.flatten(-maps)).view_as(where)
        return (taken, where) if both else taken

    return ((out, where) if both else out), replay


def _picked(func: Function, input: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """The largest, the sorted, the middle along a dimension; of two tensors; of all numbers."""
    out = func(input, *args, **how)
    if isinstance(out, Tensor):
        if (args and isinstance(args[0], Tensor)) or "other" in how:
            return _larger(func, input, *args, **how)
        return _extreme(func, input, *args, **how)
    dim = how.get("dim", next((a for a in reversed(args) if isinstance(a, int) and not isinstance(a, bool)), -1))
    if func in (torch.topk, Tensor.topk, torch.kthvalue, Tensor.kthvalue):
        dim = how.get("dim", args[1] if len(args) > 1 else -1)
    keep, indices = out[0].ndim == input.ndim, out[1]
    where = indices if keep else indices.unsqueeze(dim)

    def replay(x: Tensor, *_: Any, **__: Any) -> Any:
        values = x.gather(dim, where)
        return type(out)((values if keep else values.squeeze(dim), indices))

    return out, replay


def _larger(func: Function, input: Tensor, other: Tensor) -> tuple[Any, Replay]:
    out = func(input, other)
    first, both = out.detach() == input.detach(), input.detach() == other.detach()
    share = first.to(out.dtype) - 0.5 * both.to(out.dtype)  # equals have half of the derivative each

    def replay(input: Tensor, other: Tensor) -> Tensor:
        return share * input + (1 - share) * other

    return out, replay


def _extreme(func: Function, input: Tensor, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """amax, amin, and the extremes of all numbers: a weighted sum, equals with equal weights."""
    with torch.enable_grad():
        at = input.detach().clone().requires_grad_()
        value = func(at, *args, **how)
        (share,) = torch.autograd.grad(value, at, torch.ones_like(value))
    dim = how.get("dim", args[0] if args else None)
    dim = tuple(range(input.ndim)) if dim is None or dim == () else dim
    keep = value.ndim == input.ndim

    def replay(x: Tensor, *_: Any, **__: Any) -> Tensor:
        return (share * x).sum(dim, keepdim=keep)

    return func(input, *args, **how), replay


def _constant(func: Function, *args: Any, **how: Any) -> tuple[Any, Replay]:
    """What autograd takes as constant: comparisons, rounded numbers, signs, what is detached."""
    out = func(*args, **how)
    noted = out.detach().clone() if func in (torch.detach, Tensor.detach) else out.detach()
    return out, lambda *_, **__: noted


_NAMES: dict[Function, tuple[str, ...]] = {
    _rectified: ("relu", "relu_"),
    _linear_pieces: (
        "relu6", "hardtanh", "hardtanh_", "hardsigmoid", "leaky_relu", "leaky_relu_", "threshold", "threshold_", "hardshrink",
        "softshrink", "rrelu", "abs", "abs_", "absolute", "__abs__", "clamp", "clamp_", "clamp_min", "clamp_min_", "clamp_max",
        "clamp_max_", "clip", "clip_",
    ),
    _hard_swish: ("hardswish",),
    _exponential: ("elu", "selu", "celu"),
    _leaky: ("prelu",),
    _pooled: (
        *(f"{kind}max_pool{maps}d{what}" for kind in ("", "adaptive_") for maps in "123" for what in ("", "_with_indices")),
    ),
    _picked: ("max", "min", "amax", "amin", "maximum", "minimum", "fmax", "fmin", "median", "sort", "topk", "kthvalue"),
    _constant: (
        "gt", "ge", "lt", "le", "eq", "ne", "greater", "greater_equal", "less", "less_equal", "__gt__", "__ge__", "__lt__", "__le__",
        "__eq__", "__ne__", "argmax", "argmin", "argsort", "sign", "sgn", "round", "floor", "ceil", "trunc", "heaviside", "bucketize",
        "detach", "signbit",
    ),
}  # fmt: skip

CHOICES: dict[Function, Function] = {
    function: choice
    for choice, names in _NAMES.items()
    for name in names
    for place in (F, torch, Tensor)
    if (function := getattr(place, name, None)) is not None
}
