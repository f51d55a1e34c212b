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


def noise(noisy, clean):
    return {name: noisy.grads[name] - g for name, g in clean.grads.items()}


# -- how it is spent -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # energy (0.5 * 20)^2 = 100
        (UNIFORM, dict(a=math.sqrt(5), b=math.sqrt(5), c=math.sqrt(5))),
        ({"rest": 1}, dict(a=math.sqrt(5), b=math.sqrt(5), c=math.sqrt(5))),
        ({"b": 1.0}, dict(a=0, b=math.sqrt(10), c=0)),
        ({"c": 0.36, "rest": 0.64}, dict(a=2, b=2, c=3)),
        ({"c": 1, "rest": 0}, dict(a=0, b=0, c=5)),
        # in two groups: variances 60 / 6 + 40 / 20 for a, 40 / 20 for b and c
        ({"a": 0.6, "all": 0.4}, dict(a=math.sqrt(12), b=math.sqrt(2), c=math.sqrt(2))),
    ],
)
def test_deviations_by_hand(shares, expected):
    sent = update()
    found = deviations(sent, shares, 0.5)
    assert found == pytest.approx(expected) and [*found] == ["a", "b", "c"]
    energy = sum(found[name] ** 2 * g.numel() for name, g in sent.grads.items())
    assert energy == pytest.approx(100)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 3))
def test_the_energy_is_the_budget_whatever_the_shares(weights, relative):
    if not sum(weights):
        weights = [1.0, 0.0, 0.0]
    a, b, c = (weight / sum(weights) for weight in weights)
    sent = update()
    found = deviations(sent, {"a": a, "all": b, "c": c}, relative)
    energy = sum(found[name] ** 2 * g.numel() for name, g in sent.grads.items())
    assert energy == pytest.approx((relative * 20) ** 2, rel=1e-9)


def test_seeds_pair_two_ways_to_spend():
    """The same seed gives the same noise but for its size, so that what differs between two allocations is the allocation."""
    sent = update()
    one, other = spread(sent, UNIFORM, 0.1, 3), spread(sent, {"b": 1.0}, 0.1, 3)
    assert torch.equal(other.grads["a"], sent.grads["a"]) and torch.equal(other.grads["c"], sent.grads["c"])
    factor = math.sqrt(20 / 10)
    torch.testing.assert_close(noise(other, sent)["b"], factor * noise(one, sent)["b"])
    assert torch.equal(spread(sent, UNIFORM, 0.1, 3)["a"], one["a"])
    assert not torch.equal(spread(sent, UNIFORM, 0.1, 4)["a"], one["a"])
    assert all(torch.equal(spread(sent, UNIFORM, 0.0)[name], g) for name, g in sent.grads.items())
    short = spread(update(dtype=torch.float32), UNIFORM, 0.1)
    assert short["a"].dtype == torch.float32 and (short.batch_size, short.image_shape) == (1, (3, 4, 4))


# -- parts of a model ----------------------------------------------------------------------------------------------------------


def vit(**changes):
    return models.build("vit_cifar", **(dict(embed_dim=64, depth=2, num_heads=2) | changes))


PHOTO = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
LABEL = torch.tensor([3])


@pytest.fixture(scope="module")
def small():
    model = vit()
    return model, observe(model, PHOTO, LABEL)


def test_only_what_is_sent_counts(small):
    """Position withheld: the stem's share goes to what is left of it, and the norm is that of what is left."""
    model, sent = small
    less = sent.without(["pos_embed"])
    found = deviations(less, {"stem": 1.0}, 0.1, model)
    left = sum(less.grads[name].numel() for name in parts.stem(model) if name != "pos_embed")
    assert "pos_embed" not in found
    assert found["cls_token"] == pytest.approx(0.1 * less.norm.item() / math.sqrt(left), rel=1e-5)
    with pytest.raises(ValueError, match="shares: 'pos_embed' is no group"):
        deviations(less, {"pos_embed": 1.0}, 0.1, model)
    with pytest.raises(
        ValueError, match=r"shares\['position'\]=0.5: the update holds no parameter of it; leave it out"
    ):
        deviations(sent.without(parts.position(model)), {"position": 0.5, "rest": 0.5}, 0.1, model)


@pytest.mark.parametrize(
    ("shares", "message_", "more"),
    [
        ({}, "spends nothing; give group -> share", {}),
        ({"a": 0.5, "b": 0.4}, "shares add up to 0.9, and a budget is spent whole; divide each by 0.9", {}),
        ({"a": 1.5, "b": -0.5}, r"shares\['b'\]=-0.5 is no share of a budget; give 0 to 1", {}),
        ({"stm": 1}, "shares: 'stm' is no group; did you mean 'stem'.*rest, all", {}),
        ({"stem": 1}, "'stem' is a part of a model, which has to be looked at; give model=... too", {}),
        ({"all": 0.5, "rest": 0.5}, r"shares\['rest'\]=0.5: the update holds no parameter of it; leave it out", {}),
        (UNIFORM, "relative=-0.1 is no share of the update's norm", dict(relative=-0.1)),
        (UNIFORM, "relative=inf is no share of the update's norm", dict(relative=math.inf)),
    ],
)
def test_bad_budgets(shares, message_, more):
    with pytest.raises(ValueError, match=message_):
        spread(update(), shares, **(dict(relative=0.1) | more))


# -- what it does to an attack -------------------------------------------------------------------------------------------------


# -- shares by measured sensitivity: by an explicit Jacobian, least of what a weighing attacker learns, and bad models ------------


SHAPE = (3, 32, 32)
NAMES = ("1.weight", "1.bias", "3.weight", "3.bias")


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(3072, 6), nn.GELU(), nn.Linear(6, 3)).double()


def sensitivities(model, directions):
    """Name -> squared change of its gradient along the same directions, by the whole Jacobian."""
    weights = {name: p.detach() for name, p in model.named_parameters()}
    label, grey = torch.zeros(1, dtype=torch.int64), torch.full((1, *SHAPE), 0.5, dtype=torch.float64)

    def sent(x):
        return grad(lambda w: F.cross_entropy(functional_call(model, w, (x,)), label))(weights)

    jacobian = jacrev(sent)(grey)  # name -> (*shape of the parameter, 1, 3, 32, 32)
    along = [torch.randn(1, *SHAPE, generator=torch.Generator().manual_seed(i)).double() for i in range(directions)]
    return {n: sum((j.flatten(-4) @ d.flatten()).square().sum().item() for d in along) for n, j in jacobian.items()}


def test_shares_by_the_jacobian(model):
    told, numbers = sensitivities(model, noise_budget.DIRECTIONS), {n: p.numel() for n, p in model.named_parameters()}
    roots = {n: (told[n] * numbers[n]) ** 0.5 for n in NAMES}
    shares = noise_budget.measured(model)
    assert shares == pytest.approx({n: root / sum(roots.values()) for n, root in roots.items()}, rel=1e-5)
    assert sum(shares.values()) == pytest.approx(1) and min(shares.values()) > 0


def test_the_model_stays_as_it_was():
    net = models.build("resnet_cifar", layers=(1, 1, 1, 1), channels=(4, 4, 8, 8)).train()
    before = copy.deepcopy(net.state_dict())
    shares = noise_budget.measured(net)
    assert same(net, before) and net.training
    assert all(p.grad is None for p in net.parameters()) and shares.keys() == dict(net.named_parameters()).keys()
    leak = observe(net.eval(), torch.rand(1, 3, 32, 32), torch.tensor([1]))
    assert noise_budget.spread(leak, shares, 0.1).norm > 0  # they are shares that spread takes


def test_an_update_that_does_not_depend_on_the_image():
    class Deaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return self.bias.expand(len(x), 3) + 0 * x.sum()

    with pytest.raises(ValueError, match="no gradient changes with the image"):
        noise_budget.measured(Deaf())
