"""What a client can do to its gradients before it sends them. Every function maps a Leak to a Leak.

Noise is stated relative to the gradient: `relative` is the expected norm of the noise over the norm of the gradient, so each number
of a tensor g gets noise of standard deviation relative * |g| / sqrt(numbers in g). Lu et al. 2022 (section 4.2, figure 6) compare
a *variance* with a *norm*, which changes with the scale of the gradient; this is what their finding says in a form that does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from privlab.leak import Leak


def gaussian(leak: Leak, relative: float, seed: int = 0) -> Leak:
    """Normal noise on every gradient tensor, of `relative` times its norm (0 or more)."""
    return _noisy(leak, relative, seed, lambda like, generator: torch.randn(like.shape, generator=generator))


def laplacian(leak: Leak, relative: float, seed: int = 0) -> Leak:
    """Laplacian noise on every gradient tensor, of `relative` times its norm (0 or more); heavier tails at the same energy."""

    def draw(like: Tensor, generator: torch.Generator) -> Tensor:
        u = torch.rand(like.shape, generator=generator, dtype=torch.float64) - 0.5
        u = u.clamp(min=-0.5 + 2**-54)  # (-1/2, 1/2): the end itself would be infinite
        return -u.sign() * torch.log1p(-2 * u.abs()).div(2**0.5)  # a Laplacian of variance 1

    return _noisy(leak, relative, seed, draw)


def _noisy(leak: Leak, relative: float, seed: int, draw: Callable[[Tensor, torch.Generator], Tensor]) -> Leak:
    if not relative >= 0:
        raise ValueError(f"relative={relative} is no share of the gradient's norm; try 0.01")
    generator = torch.Generator().manual_seed(seed)
    grads = {}
    for name, g in leak.grads.items():
        size = relative * g.norm() / g.numel() ** 0.5
        grads[name] = g + size * draw(g, generator).to(g)
    return replace(leak, grads=grads)
