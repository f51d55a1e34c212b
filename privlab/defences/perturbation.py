"""What a client may do to its gradients before it sends them; to withhold some is leak.without(names), see `parts.names`.

The noise of `gaussian` and `laplacian` is stated relative to the gradient: `relative` is the expected norm of the noise over the norm of
the gradient, so each number of a tensor g gets noise of standard deviation relative * |g| / sqrt(numbers in g). Lu et al. 2022 (section
4.2, figure 6) compare a *variance* with a *norm*, which changes with the scale of the gradient; this is what their finding says in a form
that does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from privlab.leak import Leak

Draw = Callable[[Tensor, torch.Generator | None], Tensor]  # noise of variance 1, shaped like a tensor


def gaussian(leak: Leak, relative: float, seed: int | None = 0) -> Leak:
    """Normal noise on every gradient tensor, of `relative` times its norm (0 or more).  seed: None draws from torch's own generator."""
    return _noisy(leak, relative, seed, normal)


def laplacian(leak: Leak, relative: float, seed: int | None = 0) -> Leak:
    """Laplacian noise on every gradient tensor, of `relative` times its norm (0 or more); heavier tails at the same energy."""
    return _noisy(leak, relative, seed, laplace)


def clipped(leak: Leak, norm: float) -> Leak:
    """The whole update cut to a norm, above 0: all gradients times one factor where they are longer together.

    Source: Abadi et al. 2016, algorithm 1, where the gradient of each single image is cut like this.
    """
    if not 0 < norm < math.inf:
        raise ValueError(f"norm={norm} is no length to cut to; give a positive number, such as {leak.norm.item():.2g}")
    factor = (norm / leak.norm).clamp(max=1.0)
    return leak if factor == 1 else replace(leak, grads={name: g * factor.to(g) for name, g in leak.grads.items()})


def sparse(leak: Leak, share: float) -> Leak:
    """The largest numbers of the whole update, by magnitude, and 0 for all others.

    share: of the numbers that are kept, above 0 and at most 1; rounded to whole numbers, one at least.
    Source: Zhu et al. 2019, section 5 (gradient compression as a defence).
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share} of the numbers cannot be kept; give one above 0 and at most 1, such as 0.1")
    sizes = torch.cat([g.abs().flatten() for g in leak.grads.values()])  # (numbers,)
    mask = torch.zeros_like(sizes, dtype=torch.bool)
    mask[sizes.topk(max(1, round(share * len(sizes)))).indices] = True
    places = mask.split([g.numel() for g in leak.grads.values()])
    grads = {name: g.where(place.view_as(g), 0.0) for (name, g), place in zip(leak.grads.items(), places, strict=True)}
    return replace(leak, grads=grads)


def low_bits(leak: Leak, bits: int) -> Leak:
    """Each gradient tensor rounded to the nearest of 2^bits levels, 1 to 16 bits, evenly spread from its smallest number to its largest.

    Rounding errs like noise of the standard deviation (largest - smallest) / (2^bits - 1) / sqrt(12), where the levels lie
    close; with few bits a tensor's small numbers become one level, which need not be 0.
    Source: Zhu et al. 2019, section 5 (low precision as a defence).
    """
    if bits not in range(1, 17):
        raise ValueError(f"bits={bits!r} is no number of bits; give 1 to 16, such as 8")
    return replace(leak, grads={name: _rounded(g, 2**bits - 1) for name, g in leak.grads.items()})


def _rounded(g: Tensor, steps: int) -> Tensor:
    low, high = g.double().aminmax()
    if low == high:
        return g
    place = ((g.double() - low) / (high - low) * steps).round()  # in steps from the lowest level
    return (low + place / steps * (high - low)).to(g)


def _noisy(leak: Leak, relative: float, seed: int | None, draw: Draw) -> Leak:
    check_relative(relative)
    generator, grads = seeded(seed), {}
    for name, g in leak.grads.items():
        grads[name] = g + relative * g.norm() / g.numel() ** 0.5 * draw(g, generator).to(g)
    return replace(leak, grads=grads)


def normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Normal noise of variance 1, shaped like a tensor; drawn on its device from torch's own generator where none is given."""
    return torch.randn(like.shape, generator=generator, device=generator.device if generator else like.device)


def laplace(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Laplacian noise of variance 1, in float64; otherwise as `normal`."""
    device = generator.device if generator else like.device
    u = torch.rand(like.shape, generator=generator, device=device, dtype=torch.float64) - 0.5
    u = u.clamp(min=-0.5 + 2**-54)  # (-1/2, 1/2): the end itself would be infinite
    return -u.sign() * torch.log1p(-2 * u.abs()).div(2**0.5)


def seeded(seed: int | None) -> torch.Generator | None:
    """A generator on the CPU, so that noise is the same on every device; None, torch's own on the device, for no seed."""
    return None if seed is None else torch.Generator().manual_seed(seed)


def check_relative(relative: float) -> None:
    if not 0 <= relative < math.inf:
        raise ValueError(f"relative={relative} is no share of the gradient's norm; try 0.01")
