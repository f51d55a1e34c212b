"""How a model is asked: as it was given and, where that is another gradient, in eval mode; what it draws at random held still."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privlab.auditing import validation
from privlab.auditing.untouched import Draws, reseed
from privlab.models.forward import Gradients

SAME = 1e-4  # of a gradient's length, or four units of its float format's rounding: nearer ones are one gradient


@dataclass(frozen=True)
class Way:
    """A way to ask a model for a gradient.  mode: "as given" or "eval mode".

    random: it draws at random, so that two gradients of one image differ: then its draws are held still, as for an attacker who knows
    them.  apart: how far two gradients of image 0 are from each other, over the length of one.  still: whether they agree once held.
    """

    mode: str
    random: bool
    apart: float
    still: bool


def ways(model: nn.Module, image: Tensor, label: Tensor, seed: int) -> list[Way]:
    """As given, then eval mode where a part of the model is in train mode and the gradient is random or another there."""
    given = _way("as given", model, image, label, seed)
    if not any(module.training for module in model.modules()):
        return [given]
    evaluated = Way("eval mode", False, 0.0, True)
    with asked(model, given, seed):
        before = validation.observed(model, image, label).grads
    with asked(model, evaluated, seed):
        try:
            after = validation.observed(model, image, label).grads
        except ValueError:  # what is asked of it fails there
            return [given]
        if not given.random and _apart(before, after) <= _same(after):
            return [given]
        evaluated = _way("eval mode", model, image, label, seed)
    return [given, evaluated]


@contextmanager
def asked(model: nn.Module, way: Way, seed: int) -> Iterator[None]:
    """Within it the model answers in this way; afterwards its modes are what they were."""
    modes = {module: module.training for module in model.modules()}
    hook = None
    if way.random:
        reseed(seed)
        hook = model.register_forward_pre_hook(Draws(model).back, prepend=True)
    try:
        for module in modes:
            module.training = module.training and way.mode != "eval mode"
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        if hook is not None:
            hook.remove()


def _way(mode: str, model: nn.Module, image: Tensor, label: Tensor, seed: int) -> Way:
    draws = Draws(model)
    first, second = (validation.observed(model, image, label).grads for _ in range(2))
    apart = _apart(first, second)
    way = Way(mode, draws.moved() or apart > _same(first), apart, True)
    if not way.random:
        return way
    with asked(model, Way("as given", True, apart, True), seed):
        first, second = (validation.observed(model, image, label).grads for _ in range(2))
    return Way(mode, True, apart, _apart(first, second) <= _same(first))


def _apart(first: Gradients, second: Gradients) -> float:
    change = sum((second[n] - g).double().square().sum().item() for n, g in first.items())
    length = sum(g.double().square().sum().item() for g in first.values())
    return math.sqrt(change / length) if length and math.isfinite(change) else 0.0


def _same(gradients: Gradients) -> float:
    return max(SAME, 4 * max(torch.finfo(g.dtype).eps for g in gradients.values()))
