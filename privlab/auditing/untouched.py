"""A model that is asked as if nobody had: whatever a pass, an exception or Ctrl-C leaves in it is put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Within it a model may change; afterwards its values, modes, gradients, hooks and attributes are what they were.

    So are torch's, NumPy's and Python's own random numbers. Gradients are on inside, whatever surrounds it.
    It holds a copy of all parameters and buffers. What a model keeps deeper than in a list, dict or set of its own is not put back.
    """
    tensors = [*model.parameters(), *model.buffers()]
    values = [(t, t.detach().clone(), t.grad, t.requires_grad) for t in tensors]
    attributes = [(vars(module), _shallow(vars(module))) for module in model.modules()]
    draws = Draws(model)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for own, before in attributes:
            _refill(own, before)
        with torch.no_grad():
            for tensor, value, grad, learns in values:
                if tensor.shape != value.shape:
                    tensor.data = value
                elif not torch.equal(tensor, value):
                    tensor.copy_(value)
                tensor.grad = grad
                if tensor.is_leaf:
                    tensor.requires_grad_(learns)
        draws.back()


class Draws:
    """The states of all random generators that a model can draw from: torch's, NumPy's, Python's, and those that it keeps itself."""

    def __init__(self, model: nn.Module) -> None:
        kept = [value for module in model.modules() for value in vars(module).values()]
        self.own = [g for g in kept if isinstance(g, torch.Generator | random.Random | np.random.Generator)]
        self.states = self._read()

    def _read(self) -> list[Any]:
        cards = [torch.cuda.get_rng_state(i) for i in _cards()]
        own = [_state(generator) for generator in self.own]
        return [torch.get_rng_state(), np.random.get_state(), random.getstate(), cards, own]

    def moved(self) -> bool:
        """Whether something was drawn since."""
        return repr(self._bytes(self.states)) != repr(self._bytes(self._read()))

    def back(self, *_: Any) -> None:
        """Every generator to where it stood."""
        torch_state, numpy_state, python_state, cards, own = self.states
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        random.setstate(python_state)
        for i, card in enumerate(cards):
            torch.cuda.set_rng_state(card, i)
        for generator, state in zip(self.own, own, strict=True):
            _restore(generator, state)

    def _bytes(self, states: Any) -> Any:
        if isinstance(states, torch.Tensor | np.ndarray):
            return bytes(states)
        if isinstance(states, dict):
            states = list(states.items())
        return [self._bytes(state) for state in states] if isinstance(states, list | tuple) else states


def reseed(seed: int) -> None:
    """All global generators at a seed."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    return generator.getstate() if isinstance(generator, random.Random) else generator.bit_generator.state


def _restore(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.bit_generator.state = state


def _cards() -> range:
    return range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)


def _shallow(own: dict[str, Any]) -> dict[str, Any]:
    """A module's attributes with copies of those that change in place: its parameters, buffers, hooks, lists and sets of its own."""
    return {
        name: (value, value.copy() if isinstance(value, dict | list | set) else None) for name, value in own.items()
    }


def _refill(own: dict[str, Any], before: dict[str, Any]) -> None:
    own.clear()
    for name, (value, copy) in before.items():
        if isinstance(value, dict | set):
            value.clear()
            value.update(copy)
        elif isinstance(value, list):
            value[:] = copy
        own[name] = value
