"""A second pass in the first one's pattern: its difference is the derivative that autograd takes, whatever units switch between the two."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from privlab.attacks.gradient_inversion.activation_patterns import ActivationPattern

LAYERS = [
    nn.ReLU(), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True),
    nn.MaxPool2d(2, dilation=2), nn.Sequential(nn.ReLU(), nn.MaxPool2d(1, 2), nn.ReLU()),
]  # fmt: skip


class Between(nn.Module):
    """A layer, called twice, between two that can be moved."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)
        self.layer, self.last = layer, nn.LazyLinear(5)

    def forward(self, x):
        x = self.norm(self.first(x))
        return self.last(self.layer(x).flatten(1) - self.layer(2 - x).flatten(1))


def directions(layer, step, seed=0):
    """J^T u three ways: by a difference in one pattern, by one without, and by autograd."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Between(layer).double()
        x = torch.randn(2, 3, 8, 8, dtype=torch.float64).requires_grad_()
        model(x)
        model.eval()
        weights, labels = dict(model.named_parameters()), torch.tensor([1, 2])
        u = {n: torch.randn_like(p) for n, p in weights.items()}

    def loss(shift=0.0, mode=None):
        moved = {n: p + shift * u[n] for n, p in weights.items()}
        with mode or contextlib.nullcontext():
            return F.cross_entropy(functional_call(model, moved, (x,)), labels)

    def slope(*args):
        return torch.autograd.grad(loss(*args), x)[0]

    update = torch.autograd.grad(loss(), list(weights.values()), create_graph=True)
    (true,) = torch.autograd.grad(sum((g * u[n]).sum() for n, g in zip(weights, update, strict=True)), x)
    pattern = ActivationPattern(model)
    here = slope(0.0, pattern.recorded())
    assert torch.equal(here, slope())
    return (slope(step, pattern.replayed()) - here) / step, (slope(step) - here) / step, true


def error(one, true):
    return ((one - true).norm() / true.norm()).item()


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_the_difference_in_one_pattern_is_the_derivative(layer):
    """At a shift by which units switch, the error falls with the shift."""
    far, near = (directions(layer, step) for step in (1e-2, 1e-6))
    assert error(near[0], near[2]) < 1e-4
    assert error(far[0], far[2]) < 0.5


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.MaxPool2d(3, 2, 1)], ids=str)
def test_without_the_pattern_it_is_not(layer):
    errors = [
        (error(kept, true), error(plain, true)) for kept, plain, true in (directions(layer, 1e-3, s) for s in range(6))
    ]
    assert max(kept for kept, _ in errors) < 0.05
    assert max(plain for _, plain in errors) > 0.2


def test_a_layer_is_afterwards_what_it_was():
    model = nn.Sequential(nn.ReLU(), nn.Flatten())
    pattern, before = ActivationPattern(model), dict(vars(model[0]))
    for mode in (pattern.recorded(), pattern.replayed()):
        with pytest.raises((TypeError, IndexError)), mode:
            model(None)
    assert vars(model[0]) == before
