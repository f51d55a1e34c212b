"""One budget of noise for a whole update, and where in the update it is spent; `updates` spends it on each step of a training.

The noise has an expected squared norm, its energy, of (relative * |g|)^2, g being all gradients as one long vector. `shares` says what
part of that energy goes to which group of parameters; inside a group every number gets noise of the same standard deviation:

    variance = share * (relative * |g|)^2 / (numbers in the group)

Noises are independent, so a parameter in two groups has the sum of two variances, and the energy is the budget's all the same. Zhang et
al. 2024 (section 7.2) propose more noise for the layers that leak more, at a lower total, and leave it to future work; they give no
formula, this one is ours. `perturbation.gaussian` is another way to spend: each tensor gets energy in proportion to its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp

from privlab.data.sources import nearest
from privlab.defences.perturbation import check_relative, normal, seeded
from privlab.leak import Leak
from privlab.models import parts
from privlab.models.forward import functional, preprocessing

Shares = Mapping[str, float]  # a part of a model, one parameter's name, "rest" or "all" -> share of the noise's energy

DIRECTIONS = 8  # random ones, along which `measured` looks
NONE = nn.Identity()  # the model of shares that name no part of one


def spread(leak: Leak, shares: Shares, relative: float, seed: int | None = 0, model: nn.Module = NONE) -> Leak:
    """Normal noise on an update under one budget, spent group by group.

    shares: group -> share of the noise's energy, 0 or more, 1 together, such as {"stem": 0.5, "rest": 0.5}. A group is a word of
        `parts.WORDS`, the name of one parameter, "rest" for what no other key names, or "all". Only parameters that are in the update
        count; what is in no group gets no noise.
    relative: expected norm of the noise over the norm of the update, 0 or more, about: the root of its expected square.
    seed: a tensor's noise is the same up to its size whatever the shares are, so that two ways to spend can be compared pair by pair. None
        draws from torch's own generator.
    Raises ValueError for numbers out of range, and a group that does not exist or has no parameter in the update.
    """
    sizes, generator = deviations(leak, shares, relative, model), seeded(seed)
    noise = {name: normal(g, generator).to(g) for name, g in leak.grads.items()}
    return replace(leak, grads={name: g + sizes[name] * noise[name] for name, g in leak.grads.items()})


def deviations(leak: Leak, shares: Shares, relative: float, model: nn.Module = NONE) -> dict[str, float]:
    """Standard deviation of the noise in each number of a tensor: parameter name -> 0 or more. Arguments and errors as in `spread`.

    An attacker may know it, since a defence should not have to be secret. They receive the noisy update alone, of expected squared norm
    (1 + relative^2) |g|^2: its deviations at relative / sqrt(1 + relative^2) are, but for chance, those that the client added.
    """
    check_relative(relative)
    check_shares(shares)
    groups = {group: _members(group, leak, model) for group in shares if group != "rest"}
    if "rest" in shares:
        groups["rest"] = leak.grads.keys() - set().union(*groups.values())
    variances = dict.fromkeys(leak.grads, 0.0)
    for group, share in shares.items():
        if not groups[group]:
            raise ValueError(
                f"shares[{group!r}]={share}: the update holds no parameter of it; give its share to another"
            )
        numbers = sum(leak.grads[name].numel() for name in groups[group])
        for name in groups[group]:
            variances[name] += share / numbers
    norm = relative * leak.norm.item()
    return {name: norm * math.sqrt(variance) for name, variance in variances.items()}


def measured(model: nn.Module) -> dict[str, float]:
    """Shares of a budget by what each gradient tells of an image: parameter name -> share, 1 together.

    A tensor's sensitivity a is the squared change of its gradient along random directions in the image, at a grey one (of class 0), so it
    takes the model alone. Somebody who weighs each tensor by its noise learns the sum of a / deviation^2. Under one energy, the sum of
    numbers * deviation^2, that is least for deviation^2 in proportion to sqrt(a / numbers): shares in proportion to sqrt(a * numbers).

    The model takes images of 3 x 32 x 32. Not in the papers.
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


def check_shares(shares: Shares) -> None:
    """Raise ValueError unless the shares are 0 or more, and 1 together."""
    total = math.fsum(shares.values())
    if min(shares.values(), default=0) < 0 or not abs(total - 1) <= 1e-6:
        raise ValueError(
            f"shares={dict(shares)} add up to {total:g}; a budget is spent whole: give each 0 or more, and 1 together"
        )


def _members(group: str, leak: Leak, model: nn.Module) -> set[str]:
    """The parameters of a group, of those in the update."""
    if group == "all":
        return {*leak.grads}
    if group in leak.grads:
        return {group}
    if group not in parts.WORDS:
        raise ValueError(f"shares: {group!r} is no group{nearest(group, [*parts.WORDS, 'rest', 'all'])}")
    return {*parts.names(model, group)} & leak.grads.keys()
