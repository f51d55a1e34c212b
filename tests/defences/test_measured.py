"""Shares of a budget by measured sensitivity: by an explicit Jacobian, least of what a weighing attacker learns, and bad models."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jacrev

from privlab import models
from privlab.defences import noise_budget
from privlab.leak import observe

SHAPE = (1, 4, 4)
NAMES = ("1.weight", "1.bias", "3.weight", "3.bias")


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.GELU(), nn.Linear(6, 3)).double()


def sensitivities(model, directions):
    """Name -> squared change of its gradient along the same directions, by the whole Jacobian."""
    weights = {name: p.detach() for name, p in model.named_parameters()}
    label, grey = torch.zeros(1, dtype=torch.int64), torch.full((1, *SHAPE), 0.5, dtype=torch.float64)

    def sent(x):
        return grad(lambda w: F.cross_entropy(functional_call(model, w, (x,)), label))(weights)

    jacobian = jacrev(sent)(grey)  # name -> (*shape of the parameter, 1, 1, 4, 4)
    along = [torch.randn(1, *SHAPE, generator=torch.Generator().manual_seed(i)).double() for i in range(directions)]
    return {n: sum((j.flatten(-4) @ d.flatten()).square().sum().item() for d in along) for n, j in jacobian.items()}


@pytest.mark.parametrize("directions", [1, 5])
def test_shares_by_the_jacobian(model, directions):
    told, numbers = sensitivities(model, directions), {n: p.numel() for n, p in model.named_parameters()}
    roots = {n: (told[n] * numbers[n]) ** 0.5 for n in NAMES}
    shares = noise_budget.measured(model, SHAPE, directions)
    assert shares == pytest.approx({n: root / sum(roots.values()) for n, root in roots.items()}, rel=1e-5)
    assert sum(shares.values()) == pytest.approx(1) and min(shares.values()) > 0


def test_nothing_tells_less_to_somebody_who_weighs(model):
    """Sum of a / deviation^2 under one energy: no other division of it is below the measured one."""
    told, numbers = sensitivities(model, 3), {n: p.numel() for n, p in model.named_parameters()}

    def learnt(shares):
        deviations = noise_budget.rates(numbers, shares)
        return sum(told[n] / deviations[n] ** 2 for n in NAMES)

    least = learnt(noise_budget.measured(model, SHAPE, 3))
    draw = np.random.default_rng(0)
    others = [dict(zip(NAMES, draw.dirichlet(np.ones(4)) * 0.999 + 0.00025, strict=True)) for _ in range(300)]
    assert all(learnt(shares) >= least * (1 - 1e-6) for shares in others)
    assert learnt(noise_budget.UNIFORM) > 1.02 * least


def test_the_model_stays_as_it_was():
    net = models.build("resnet_cifar", layers=(1, 1, 1, 1), channels=(4, 4, 8, 8)).train()
    before = copy.deepcopy(net.state_dict())
    shares = noise_budget.measured(net, directions=1)
    assert all(torch.equal(before[n], t) for n, t in net.state_dict().items()) and net.training
    assert all(p.grad is None for p in net.parameters()) and shares.keys() == dict(net.named_parameters()).keys()
    leak = observe(net.eval(), torch.rand(1, 3, 32, 32), torch.tensor([1]))
    assert noise_budget.spread(leak, shares, 0.1).norm > 0  # they are shares that spread takes


def test_a_message_that_does_not_depend_on_the_image():
    class Deaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return self.bias.expand(len(x), 3) + 0 * x.sum()

    with pytest.raises(ValueError, match="no gradient changes with the image"):
        noise_budget.measured(Deaf(), SHAPE)
