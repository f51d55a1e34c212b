"""Noise relative to the gradient: its size, tails and seed, one budget by groups; updates cut, thinned out and rounded, by hand."""

import copy
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from weights import same

from privlab import models
from privlab.defences import perturbation
from privlab.defences.perturbation import deviations, spread
from privlab.leak import Leak, observe
from privlab.models import parts

UNIFORM = {"all": 1.0}


def leak(scale=1.0):
    generator = torch.Generator().manual_seed(0)
    grads = {"a": scale * torch.randn(200, 300, generator=generator), "b": torch.full((40_000,), scale)}
    return Leak(grads, 1, (3, 4, 4))


@pytest.mark.parametrize(("relative", "scale"), [(1e-3, 100.0), (1.0, 1.0), (10.0, 1e-3)])
@pytest.mark.parametrize(("kind", "kurtosis"), [(perturbation.gaussian, 3.0), (perturbation.laplacian, 6.0)])
def test_the_norm_of_the_noise_is_relative_to_the_gradients_and_its_tails(kind, kurtosis, relative, scale):
    clean = leak(scale)
    noisy = kind(clean, relative, seed=1)
    for name, g in clean.grads.items():
        noise = noisy.grads[name].double() - g.double()
        assert (noise.norm() / g.double().norm()).item() == pytest.approx(relative, rel=0.05)
        assert abs(noise.mean().item()) < 5 * relative * scale / g.numel() ** 0.5
        assert (noise.pow(4).mean() / noise.square().mean() ** 2).item() == pytest.approx(kurtosis, rel=0.1)
    assert same(kind(clean, relative, seed=1).grads, noisy.grads)
    assert not same(kind(clean, relative, seed=4).grads, noisy.grads)


def twenty():
    """Three tensors of 6, 10 and 4 numbers; the norm is 20 together."""
    drawn = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    a, b, c = (20 * drawn / drawn.norm()).split([6, 10, 4])
    return Leak({"a": a.view(2, 3), "b": b, "c": c}, 1, (3, 4, 4))


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # energy (0.5 * 20)^2 = 100
        (UNIFORM, dict(a=math.sqrt(5), b=math.sqrt(5), c=math.sqrt(5))),
        ({"c": 0.36, "b": 0.64}, dict(a=0, b=math.sqrt(6.4), c=3)),
        # in two groups: variances 60 / 6 + 40 / 20 for a, 40 / 20 for b and c
        ({"a": 0.6, "all": 0.4}, dict(a=math.sqrt(12), b=math.sqrt(2), c=math.sqrt(2))),
    ],
)
def test_deviations_by_hand(shares, expected):
    assert deviations(twenty(), shares, 0.5) == pytest.approx(expected)


def test_seeds_pair_two_ways_to_spend():
    """The same seed gives the same noise but for its size, so that what differs between two allocations is the allocation."""
    sent = twenty()
    one, other = spread(sent, UNIFORM, 0.1, 3), spread(sent, {"b": 1.0}, 0.1, 3)
    assert torch.equal(other["a"], sent["a"]) and torch.equal(other["c"], sent["c"])
    torch.testing.assert_close(other["b"] - sent["b"], math.sqrt(20 / 10) * (one["b"] - sent["b"]))
    assert not torch.equal(spread(sent, UNIFORM, 0.1, 4)["a"], one["a"])


def test_only_what_is_sent_counts():
    """Position withheld: the stem's share goes to what is left of it, and the norm is that of what is left."""
    model = models.build("vit_cifar", embed_dim=64, depth=2, num_heads=2)
    less = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([3])).without(["pos_embed", "cls_token"])
    found = deviations(less, {"stem": 1.0}, 0.1, model)
    left = sum(less.grads[name].numel() for name in parts.group(model)["stem"] if name in less.grads)
    assert found["patch_embed.proj.bias"] == pytest.approx(0.1 * less.norm.item() / math.sqrt(left), rel=1e-5)
    with pytest.raises(ValueError, match=r"shares\['position'\]=0.5: the update holds no parameter of it"):
        deviations(less, {"position": 0.5, "all": 0.5}, 0.1, model)


def test_shares_by_differences():
    """The squared change of each gradient along the same directions, by central differences; the model stays as it was."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 6), nn.GELU(), nn.Linear(6, 3)).double()
    before, grey = copy.deepcopy(model), torch.full((1, 3, 32, 32), 0.5, dtype=torch.float64)

    def sent(x):
        return torch.autograd.grad(F.cross_entropy(model(x), torch.tensor([0])), [*model.parameters()])

    told = [0.0] * 4
    for seed in range(perturbation.DIRECTIONS):
        step = 1e-4 * torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
        for k, (a, b) in enumerate(zip(sent(grey + step), sent(grey - step), strict=True)):
            told[k] += (a - b).square().sum().item() * a.numel()
    names = [name for name, _ in model.named_parameters()]
    expected = {name: each**0.5 for name, each in zip(names, told, strict=True)}
    expected = {name: root / sum(expected.values()) for name, root in expected.items()}
    assert perturbation.measured(model) == pytest.approx(expected, rel=1e-5)
    assert same(model, before) and all(p.grad is None for p in model.parameters())


def update(*numbers):
    """Two tensors: (1, 2) and the rest."""
    numbers = torch.tensor(numbers, dtype=torch.float64)
    return Leak({"w": numbers[:2].view(1, 2), "b": numbers[2:]}, 1, (3, 4, 4))


def held(leak):
    return torch.cat([g.flatten() for g in leak.grads.values()]).tolist()


def test_the_whole_update_is_cut_to_a_norm():
    """|(2, -4, 5, 6)| = 9: cut to 4.5 each number is halved, whichever tensor it is in."""
    sent = update(2, -4, 5, 6)
    assert held(perturbation.clipped(sent, 4.5)) == pytest.approx([1, -2, 2.5, 3])
    assert held(perturbation.clipped(sent, 9)) == held(perturbation.clipped(sent, 100)) == held(sent)


@pytest.mark.parametrize(("share", "expected"), [(0.6, [0, -4, 5, 6, 0]), (0.01, [0, 0, 0, 6, 0])])
def test_the_largest_of_the_whole_update_are_kept(share, expected):
    assert held(perturbation.sparse(update(2, -4, 5, 6, -1), share)) == expected


def test_low_bits_by_hand():
    """Two bits: four levels over each tensor's own range; 0 and 3 of w stay, b has the levels -6, -2, 2, 6."""
    sent = update(0, 3, -6, -3, 1, 5, 6)
    assert held(perturbation.low_bits(sent, 2)) == pytest.approx([0, 3, -6, -2, 2, 6, 6])
    constant = update(2, 2, 0, 0, 0)
    assert held(perturbation.low_bits(constant, 1)) == held(constant)


@pytest.mark.parametrize(
    ("defence", "bad", "message"),
    [
        (perturbation.clipped, 0, "norm=0 is no length to cut to; give a positive number, such as 9"),
        (perturbation.sparse, 1.1, "share=1.1 of the numbers cannot be kept; give one above 0 and at most 1"),
        (perturbation.low_bits, 17, "bits=17 is no number of bits; give 1 to 16, such as 8"),
        (perturbation.gaussian, -0.1, "relative=-0.1 is no share of the gradient's norm"),
        (partial(spread, relative=0.1), {"w": 0.5, "b": 0.4}, "add up to 0.9; give"),
        (partial(spread, relative=0.1), {"stm": 1}, "'stm' is no part .* mean 'stem'"),
    ],
)
def test_what_is_no_such_number_and_no_budget_is_refused(defence, bad, message):
    with pytest.raises(ValueError, match=message):
        defence(update(2, -4, 5, 6), bad)
