"""How much a gradient errs, as the attacker knows it: the backward pass, the float format on the wire, a defence's noise."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from privlab.leak import Leak

Noise = float | Mapping[str, float] | None

# Error of a backward pass in units of its float format's eps; measured at 7 to 30 on ViTs of 4 to 12 blocks.
BACKWARD = 8


def relative(leak: Leak, noise: Noise) -> float:
    """Size of the errors in a leak's gradients over their own size: the backward pass, the rounding for the wire, a known noise.

    Backward passes were measured to err by about 8 eps (BACKWARD); rounding adds eps / sqrt(12) of the number rounded.
    """
    computed = max(torch.finfo(g.dtype).eps for g in leak.grads.values()) * BACKWARD
    return math.hypot(computed + torch.finfo(leak.precision).eps / 12**0.5, share(noise))


def least(leak: Leak, noise: Noise) -> float:
    """What is certain of `relative`: the rounding for the wire and a known noise, without the backward pass."""
    return math.hypot(torch.finfo(leak.precision).eps / 12**0.5, share(noise))


def deviation(leak: Leak, noise: Noise, name: str, rows: Tensor | None = None) -> float:
    """Standard deviation of the errors in each number of one gradient that do not shrink with it; 0 where there are none to speak of.

    Noise that is known tensor by tensor; and the float format's last step, where a row's numbers lie below its smallest normal one: there
    rounding errs by a share of that step (2^-24 in float16), however small the number.
    rows: (rows, numbers), those of the gradient that are used, a row for each token; if not given, all of them by the first axis, and one
    small row is enough.
    """
    size = noise_of(noise, name)
    gradient = leak[name]
    sent, computed = torch.finfo(leak.precision), torch.finfo(gradient.dtype)
    sizes = (gradient.double().flatten(1) if rows is None else rows).square().mean(1).sqrt()
    small = sizes < max(sent.smallest_normal, computed.smallest_normal)
    if not small.any():
        return size
    last = sent.smallest_normal * sent.eps / 12**0.5 + BACKWARD * computed.smallest_normal * computed.eps
    return math.hypot(size, last if rows is None else last * small.double().mean().sqrt().item())


def noise_of(noise: Noise, name: str) -> float:
    """Standard deviation of the noise in each number of one gradient, where it is known gradient by gradient."""
    size = noise.get(name, 0.0) if isinstance(noise, Mapping) else 0.0
    if not 0 <= size < math.inf:
        raise ValueError(f"noise[{name!r}]={size} is no standard deviation; give 0 or more, or leave it out")
    return size


def share(noise: Noise) -> float:
    """Size of the noise over that of the gradients, where one number is known for all."""
    if isinstance(noise, Mapping):
        return 0.0  # see `noise_of`
    if noise is not None and not 0 <= noise < math.inf:
        raise ValueError(f"noise={noise} is no share of the gradient's size; try 0.01, or None if nothing is known")
    return noise or 0.0
