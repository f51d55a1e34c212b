"""What is compared: each distance by hand, its slope, what it does where nothing differs, and what it refuses."""

import math

import pytest
import torch

from privlab import models
from privlab.attacks.gradient_inversion import objectives
from privlab.attacks.gradient_inversion.objectives import cosine_distance, layer_norms, squared_distance, tag, weighted
from privlab.leak import Leak, observe
from privlab.models import parts

ALL = [squared_distance, objectives.relative_distance, cosine_distance, layer_norms, tag(0.1)]


def name_of(value):
    return getattr(value, "__name__", repr(value))


def two(a, b):
    """Gradients and a leak of two tensors each, w and b; and one gradient that the leak lacks."""
    a, b = torch.tensor(a).double(), torch.tensor(b).double()
    grads = {"withheld": torch.full((5,), 9.0), "w": a[:2].view(1, 2), "b": a[2:]}
    return grads, Leak({"w": b[:2].view(1, 2), "b": b[2:]}, 1, (1, 1, 1))


@pytest.fixture(scope="module")
def vit():
    model = models.build("vit_cifar", embed_dim=16, depth=2, num_heads=2).double()
    return model, observe(model, torch.rand(1, 3, 32, 32).double(), torch.tensor([1]))


@pytest.mark.parametrize(
    "value, expected",
    [
        (squared_distance, 3**2 + 4**2 + 2**2),
        (objectives.relative_distance, (3**2 + 4**2) / 1 + 2**2 / 2**2),
        (cosine_distance, 1 - (4 * 1 + 4 * 2) / (math.sqrt(16 + 16 + 16) * math.sqrt(1 + 0 + 4))),
        (layer_norms, 5 + 2),
        (tag(0.1), 29 + 0.1 * (1.0 * (3 + 4) + 0.5 * 2)),
        (weighted(squared_distance, {"w": 3.0}), 9 * 25 + 4),
        (weighted(layer_norms, {"w": 3.0, "b": 0.0}), 15),
        (weighted(cosine_distance, {"w": 0.0}), 0),
        (weighted(tag(0.1), {"b": 10.0}), 25 + 400 + 0.1 * (7 + 0.5 * 20)),
    ],
    ids=name_of,
)
def test_values_by_hand(value, expected):
    grads, leak = two([4.0, 4.0, 4.0], [1.0, 0.0, 2.0])
    assert value(None, grads, leak).item() == pytest.approx(expected, abs=1e-12)


def test_the_direction_of_the_position_embedding_by_hand():
    sent, ours = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]), torch.tensor([[[1.0, 1.0], [1.0, 1.0]]])
    leak = Leak({"other": torch.ones(1), "pos_embed": sent}, 1, (1, 1, 1))
    value = objectives.position_direction(None, {"pos_embed": ours, "other": torch.zeros(1)}, leak)
    assert value.item() == pytest.approx(-(3 + 4) / (5 * 2))
    for factor, expected in ((0.01, -1), (-7.0, 1)):
        assert objectives.position_direction(None, {"pos_embed": factor * sent}, leak).item() == pytest.approx(expected)


@pytest.mark.parametrize("value", [*ALL, weighted(layer_norms, {"b": 0.5})], ids=name_of)
def test_slopes_are_right_and_finite_where_nothing_differs(value):
    _, leak = two([0.0] * 3, [1.0, -2.0, 0.5])

    def of(w, b):
        return value(None, {"w": w, "b": b}, leak)

    w, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([[0.3, 1.0]], [-0.7]))
    assert torch.autograd.gradcheck(of, (w, b))
    same = [g.clone().requires_grad_() for g in leak.grads.values()]
    slopes = torch.autograd.grad(of(*same), same)
    assert all(s.isfinite().all() and s.abs().max() < 1e-12 for s in slopes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_cosine_near_equality(dtype):
    """Off by 1e-6 of the gradient at a right angle, the distance is 1e-12 / 2; float32 has no such number, and the right slope."""
    sent = {"w": torch.tensor([[3.0, 0.0]], dtype=dtype), "b": torch.tensor([4.0], dtype=dtype)}  # of length 5
    aside = {"w": torch.tensor([[0.0, 5e-6]], dtype=dtype), "b": torch.tensor([0.0], dtype=dtype)}
    ours = {n: (g + aside[n]).requires_grad_() for n, g in sent.items()}
    value = cosine_distance(None, ours, Leak(sent, 1, (1, 1, 1)))
    slopes = torch.autograd.grad(value, list(ours.values()))
    assert value.item() == pytest.approx(5e-13, abs=1e-15 if dtype is torch.float64 else 1e-6)
    for slope, off in zip(slopes, aside.values(), strict=True):
        torch.testing.assert_close(slope, off / 25, rtol=1e-4, atol=1e-12 if dtype is torch.float64 else 5e-8)


def test_a_weight_of_zero_withholds(vit):
    model, leak = vit
    grads = {n: g + 0.1 for n, g in leak.grads.items()}
    off = objectives.by_part(model, mlp=0.0)
    assert set(off) == set(parts.group(model)["mlp"]) and set(off.values()) == {0.0}
    for distance in (squared_distance, cosine_distance, layer_norms):
        part = distance(None, grads, leak.without(off))
        torch.testing.assert_close(weighted(distance, off)(None, grads, leak), part)
    both = objectives.by_part(model, attention=2.0, mlp=0.5)
    assert both == dict.fromkeys(parts.group(model)["attention"], 2.0) | dict.fromkeys(parts.group(model)["mlp"], 0.5)


def test_a_name_tells_any_two_apart():
    one, same, other = ({"a": 2.0, "b": 0.0}, {"b": 0.0, "a": 2.0}, {"a": 0.0, "b": 2.0})
    assert name_of(weighted(layer_norms, one)) == name_of(weighted(layer_norms, same))
    assert name_of(weighted(layer_norms, one)) != name_of(weighted(layer_norms, other))
    assert name_of(tag(0.2)) != name_of(tag(0.1))
