"""What a client may do to its gradients before it sends them; to withhold some is leak.without(names), see `parts.names`.

Noise is stated relative to the gradient: `relative` is the expected norm of the noise over the norm of the gradient. Lu et al. 2022
(section 4.2, figure 6) compare a *variance* with a *norm*, which changes with the scale of the gradient; this is what their finding says
in a form that does not. Its energy, the expected squared norm, can be spent in two ways:

    gaussian, laplacian    each tensor g gets energy in proportion to its own: a standard deviation of relative * |g| / sqrt(numbers in g)
    spread                 each group of tensors gets a share of one budget, (relative * |all gradients|)^2, over its numbers alike

Zhang et al. 2024 (section 7.2) propose more noise for the layers that leak more, without a formula; `spread` and `measured` are ours.
Noises are independent: a tensor in two groups has the sum of two variances.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp

from privlab.leak import Leak
from privlab.models import parts
from privlab.models.forward import functional, preprocessing

Shares = Mapping[str, float]  # a part of a model, one parameter's name, or "all" -> share of the noise's energy
DIRECTIONS = 8  # random ones, along which `measured` looks
NONE = nn.Identity()  # the model of shares that name no part of one
Draw = Callable[[Tensor, torch.Generator | None], Tensor]  # noise of variance 1, shaped like a tensor


def gaussian(leak: Leak, relative: float, seed: int | None = 0) -> Leak:
    """Normal noise on every gradient tensor, of `relative` times its norm (0 or more).  seed: None draws from torch's own generator."""
    return _noisy(leak, _own(leak, relative), seed, _normal)


def laplacian(leak: Leak, relative: float, seed: int | None = 0) -> Leak:
    """Laplacian noise on every gradient tensor, of `relative` times its norm (0 or more); heavier tails at the same energy."""
    return _noisy(leak, _own(leak, relative), seed, _laplace)


def spread(leak: Leak, shares: Shares, relative: float, seed: int | None = 0, model: nn.Module = NONE) -> Leak:
    """Normal noise on an update under one budget, spent group by group.

    shares: group -> share of the noise's energy, 0 or more, 1 together, such as {"stem": 0.5, "all": 0.5}. A group is a word of
        `parts.WORDS`, the name of one parameter, or "all". Only parameters that are in the update count; what is in no group gets no noise.
    relative: expected norm of the noise over the norm of the update, 0 or more, about: the root of its expected square.
    seed: as in `gaussian`; a tensor's noise is the same up to its size whatever the shares are, so two ways to spend compare pair by pair.
    Raises ValueError for shares that are not 1 together, and a group that does not exist or has no parameter in the update.
    """
    return _noisy(leak, deviations(leak, shares, relative, model), seed, _normal)


def deviations(leak: Leak, shares: Shares, relative: float, model: nn.Module = NONE) -> dict[str, float]:
    """Standard deviation of the noise in each number of a tensor: parameter name -> 0 or more. Arguments and errors as in `spread`.

    An attacker may know it, since a defence should not have to be secret. They receive the noisy update alone, of expected squared norm
    (1 + relative^2) |g|^2: its deviations at relative / sqrt(1 + relative^2) are, but for chance, those that the client added.
    """
    _check(relative)
    total, variances = math.fsum(shares.values()), dict.fromkeys(leak.grads, 0.0)
    if min(shares.values(), default=0) < 0 or not abs(total - 1) <= 1e-6:
        raise ValueError(f"shares={dict(shares)} add up to {total:g}; give each group 0 or more, and 1 together")
    for group, share in shares.items():
        words = [*leak.grads] if group == "all" else [group] if group in leak.grads else parts.names(model, group)
        members = [name for name in words if name in leak.grads]
        if not members:
            raise ValueError(f"shares[{group!r}]={share}: the update holds no parameter of it; give it to another")
        numbers = sum(leak.grads[name].numel() for name in members)
        for name in members:
            variances[name] += share / numbers
    norm = relative * leak.norm.item()
    return {name: norm * math.sqrt(variance) for name, variance in variances.items()}


def measured(model: nn.Module) -> dict[str, float]:
    """Shares of a budget by what each gradient tells of an image: parameter name -> share, 1 together.

    A tensor's sensitivity a is the squared change of its gradient along random directions in the image, at a grey one (of class 0), so it
    takes the model alone. Somebody who weighs each tensor by its noise learns the sum of a / deviation^2. Under one energy, the sum of
    numbers * deviation^2, that is least for deviation^2 in proportion to sqrt(a / numbers): shares in proportion to sqrt(a * numbers).
    The model takes images of 3 x 32 x 32.
    """
    learnable = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    first = next(iter(learnable.values()))
    grey, label = torch.full((1, 3, 32, 32), 0.5).to(first), torch.zeros(1, dtype=torch.int64, device=first.device)
    x, forward = preprocessing(model)(grey), functional(model)

    def sent(x: Tensor) -> dict[str, Tensor]:
        return grad(lambda parameters: F.cross_entropy(forward(parameters, x), label))(learnable)

    squares = dict.fromkeys(learnable, 0.0)
    for seed in range(DIRECTIONS):
        along = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(seed)).to(first)
        for name, change in jvp(sent, (x,), (along,))[1].items():
            squares[name] += change.square().sum().item()
    roots = {name: (squares[name] * p.numel()) ** 0.5 for name, p in learnable.items()}
    total = math.fsum(roots.values())
    return {name: root / total for name, root in roots.items()}


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

    With few bits a tensor's small numbers become one level, which need not be 0.
    Source: Zhu et al. 2019, section 5 (low precision as a defence).
    """
    if bits not in range(1, 17):
        raise ValueError(f"bits={bits!r} is no number of bits; give 1 to 16, such as 8")
    return replace(leak, grads={name: _rounded(g, 2**bits - 1) for name, g in leak.grads.items()})


def _rounded(g: Tensor, steps: int) -> Tensor:
    low, high = g.double().aminmax()
    place = ((g.double() - low) / (high - low) * steps).round()  # in steps from the lowest level
    return g if low == high else (low + place / steps * (high - low)).to(g)


def _own(leak: Leak, relative: float) -> dict[str, Tensor]:
    """The standard deviation of noise in proportion to each tensor's own norm."""
    _check(relative)
    return {name: relative * g.norm() / g.numel() ** 0.5 for name, g in leak.grads.items()}


def _noisy(leak: Leak, sizes: Mapping[str, Tensor | float], seed: int | None, draw: Draw) -> Leak:
    """Noise is drawn on the CPU, so that it is the same on every device; without a seed from torch's own generator, on the device."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    grads = {name: g + sizes[name] * draw(g, generator).to(g) for name, g in leak.grads.items()}
    return replace(leak, grads=grads)


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Normal noise of variance 1, shaped like a tensor."""
    return torch.randn(like.shape, generator=generator, device=generator.device if generator else like.device)


def _laplace(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Laplacian noise of variance 1, in float64."""
    device = generator.device if generator else like.device
    u = torch.rand(like.shape, generator=generator, device=device, dtype=torch.float64) - 0.5
    u = u.clamp(min=-0.5 + 2**-54)  # (-1/2, 1/2): the end itself would be infinite
    return -u.sign() * torch.log1p(-2 * u.abs()).div(2**0.5)


def _check(relative: float) -> None:
    if not 0 <= relative < math.inf:
        raise ValueError(f"relative={relative} is no share of the gradient's norm; try 0.01")
