"""One budget of noise: deviations by hand, energy over many draws, every group, shares by measured sensitivity, and bad input."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, jacrev
from weights import same

from privlab import models
from privlab.defences import noise_budget
from privlab.defences.noise_budget import deviations, spread
from privlab.leak import Leak, observe
from privlab.models import parts

UNIFORM = {"all": 1.0}


def update(seed=0, dtype=torch.float64):
    """Three tensors of 6, 10 and 4 numbers; the norm is 20 together."""
    drawn = torch.randn(20, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    a, b, c = (20 * drawn / drawn.norm()).split([6, 10, 4])
    return Leak({"a": a.view(2, 3), "b": b, "c": c}, 1, (3, 4, 4))


def energy(found, sent):
    return sum(found[name] ** 2 * g.numel() for name, g in sent.grads.items())


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # energy (0.5 * 20)^2 = 100
        (UNIFORM, dict(a=math.sqrt(5), b=math.sqrt(5), c=math.sqrt(5))),
        ({"b": 1.0}, dict(a=0, b=math.sqrt(10), c=0)),
        ({"c": 0.36, "rest": 0.64}, dict(a=2, b=2, c=3)),
        # in two groups: variances 60 / 6 + 40 / 20 for a, 40 / 20 for b and c
        ({"a": 0.6, "all": 0.4}, dict(a=math.sqrt(12), b=math.sqrt(2), c=math.sqrt(2))),
    ],
)
def test_deviations_by_hand(shares, expected):
    found = deviations(update(), shares, 0.5)
    assert found == pytest.approx(expected) and [*found] == ["a", "b", "c"]
    assert energy(found, update()) == pytest.approx(100)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.floats(0, 3))
def test_the_energy_is_the_budget_whatever_the_shares(weights, relative):
    a, b, c = (weight / sum(weights) for weight in weights)
    found = deviations(update(), {"a": a, "all": b, "c": c}, relative)
    assert energy(found, update()) == pytest.approx((relative * 20) ** 2, rel=1e-9)


def test_seeds_pair_two_ways_to_spend():
    """The same seed gives the same noise but for its size, so that what differs between two allocations is the allocation."""
    sent = update()
    one, other = spread(sent, UNIFORM, 0.1, 3), spread(sent, {"b": 1.0}, 0.1, 3)
    assert torch.equal(other.grads["a"], sent.grads["a"]) and torch.equal(other.grads["c"], sent.grads["c"])
    torch.testing.assert_close(other["b"] - sent["b"], math.sqrt(20 / 10) * (one["b"] - sent["b"]))
    assert torch.equal(spread(sent, UNIFORM, 0.1, 3)["a"], one["a"])
    assert not torch.equal(spread(sent, UNIFORM, 0.1, 4)["a"], one["a"])
    short = spread(update(dtype=torch.float32), UNIFORM, 0.1)
    assert short["a"].dtype == torch.float32 and (short.batch_size, short.image_shape) == (1, (3, 4, 4))


def test_only_what_is_sent_counts():
    """Position withheld: the stem's share goes to what is left of it, and the norm is that of what is left."""
    model = models.build("vit_cifar", embed_dim=64, depth=2, num_heads=2)
    sent = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([3]))
    less = sent.without(["pos_embed"])
    found = deviations(less, {"stem": 1.0}, 0.1, model)
    left = sum(less.grads[name].numel() for name in parts.group(model)["stem"] if name != "pos_embed")
    assert "pos_embed" not in found
    assert found["cls_token"] == pytest.approx(0.1 * less.norm.item() / math.sqrt(left), rel=1e-5)
    with pytest.raises(ValueError, match=r"shares\['position'\]=0.5: the update holds no parameter of it"):
        deviations(sent.without(parts.names(model, "position")), {"position": 0.5, "rest": 0.5}, 0.1, model)


@pytest.mark.parametrize(
    ("shares", "message", "relative"),
    [
        ({"a": 0.5, "b": 0.4}, "add up to 0.9; a budget is spent whole: give each 0 or more, and 1 together", 0.1),
        ({"a": 1.5, "b": -0.5}, "add up to 1; a budget is spent whole: give each 0 or more", 0.1),
        ({"stm": 1}, "shares: 'stm' is no group; did you mean 'stem'.*rest, all", 0.1),
        ({"stem": 1}, "learns nothing in 'stem'", 0.1),
        ({"all": 0.5, "rest": 0.5}, r"shares\['rest'\]=0.5: the update holds no parameter of it", 0.1),
        (UNIFORM, "relative=-0.1 is no share", -0.1),
    ],
)
def test_bad_budgets(shares, message, relative):
    with pytest.raises(ValueError, match=message):
        spread(update(), shares, relative)


# -- shares by measured sensitivity ----------------------------------------------------------------------------------------------


def test_shares_by_the_jacobian():
    """The squared change of each gradient along the same directions, by the whole Jacobian."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 6), nn.GELU(), nn.Linear(6, 3)).double()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    label, grey = torch.zeros(1, dtype=torch.int64), torch.full((1, 3, 32, 32), 0.5, dtype=torch.float64)

    def sent(x):
        return grad(lambda w: F.cross_entropy(functional_call(model, w, (x,)), label))(weights)

    draws = [torch.Generator().manual_seed(i) for i in range(noise_budget.DIRECTIONS)]
    along = [torch.randn(1, 3, 32, 32, generator=draw).double().flatten() for draw in draws]
    jacobian = {name: j.flatten(-4) for name, j in jacrev(sent)(grey).items()}  # (*shape of the parameter, 3072)
    told = {name: sum((j @ d).square().sum().item() for d in along) for name, j in jacobian.items()}
    roots = {name: (told[name] * p.numel()) ** 0.5 for name, p in weights.items()}
    assert noise_budget.measured(model) == pytest.approx(
        {n: r / sum(roots.values()) for n, r in roots.items()}, rel=1e-5
    )


def test_the_model_stays_as_it_was():
    net = models.build("resnet_cifar", layers=(1, 1, 1, 1), channels=(4, 4, 8, 8)).train()
    before = copy.deepcopy(net.state_dict())
    shares = noise_budget.measured(net)
    assert same(net, before) and net.training
    assert all(p.grad is None for p in net.parameters()) and shares.keys() == dict(net.named_parameters()).keys()
    leak = observe(net.eval(), torch.rand(1, 3, 32, 32), torch.tensor([1]))
    assert noise_budget.spread(leak, shares, 0.1).norm > 0  # they are shares that spread takes
