"""Defences of updates: the same function on an update and on each step of a training, and what an attacker is told of the noise."""

import pytest
import torch
from small_training import LABELS, PIXELS, build, fit
from torch import nn
from weights import same

from privlab.defences import perturbation, updates
from privlab.defences.updates import sent
from privlab.leak import Leak, observe
from privlab.models import parts
from privlab.training import Recipe, trainer

MOST = {"mlp": 0.8, "head.bias": 0.2}
# A defence of each kind, and the function (leak, model, seed) that it stands for.
WAYS = [
    (sent("gaussian", relative=0.1), lambda leak, model, seed: perturbation.gaussian(leak, 0.1, seed)),
    (sent("laplacian", relative=0.2), lambda leak, model, seed: perturbation.laplacian(leak, 0.2, seed)),
    (sent("spread", shares=MOST, relative=0.3), lambda *a: perturbation.spread(a[0], MOST, 0.3, a[2], a[1])),
    (sent("clipped", norm=0.01), lambda leak, model, seed: perturbation.clipped(leak, 0.01)),
    (sent("sparse", share=0.05), lambda leak, model, seed: perturbation.sparse(leak, 0.05)),
    (sent("low_bits", bits=3), lambda leak, model, seed: perturbation.low_bits(leak, 3)),
    (sent("bfloat16"), lambda leak, model, seed: leak.rounded(torch.bfloat16)),
    (sent("withheld", words=["position"]), lambda leak, model, seed: leak.without(parts.names(model, "position"))),
]
each_way = pytest.mark.parametrize(("defence", "function"), WAYS, ids=[str(defence) for defence, _ in WAYS])


PHOTO = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def small():
    model = build("vit_cifar")
    return model, observe(model, PHOTO, torch.tensor([2]))


def equal(one, other):
    about = ("batch_size", "image_shape", "labels", "normalise", "precision")
    return same(one.grads, other.grads) and all(getattr(one, name) == getattr(other, name) for name in about)


@each_way
def test_it_is_the_function_that_it_stands_for(defence, function, small):
    model, clean = small
    assert all(equal(defence(clean, model, seed), function(clean, model, seed)) for seed in (0, 3))
    assert equal(defence(clean, model), defence(clean, model, 0)) and not equal(defence(clean, model), clean)
    noisy = defence.by in ("gaussian", "laplacian", "spread")
    assert equal(defence(clean, model, 0), defence(clean, model, 3)) != noisy
    assert eval(repr(defence), {"updates": updates}) == defence


FLAT = nn.Identity()  # the synthetic updates are of no model


@pytest.mark.parametrize(
    ("defence", "rounds", "expected"),
    [
        # sizes 6 and 8, 10 together, of 4 and of 16 numbers; 3/4 of noise is 3/5 of what arrives
        (sent("gaussian", relative=0.75), 1, dict(a=1.8, b=1.2)),
        (sent("spread", shares={"a": 0.64, "b": 0.36}, relative=0.75), 1, dict(a=2.4, b=0.9)),
        (sent("spread", shares={"b": 1.0}, relative=3.0), 16, dict(a=0, b=1.5)),
        # from -3 to 3 and from 0 to 4: steps of 2 and of 4/3
        (sent("low_bits", bits=2), 9, dict(a=2 / 12**0.5, b=4 / 3 / 12**0.5)),
        (sent("bfloat16"), 1, {}),
    ],
    ids=str,
)
def test_deviations_by_hand(defence, rounds, expected):
    a, b = torch.tensor([[3.0, -3.0], [3.0, -3.0]]), torch.tensor([4.0, 0.0] * 2 + [0.0] * 10 + [4.0, 4.0])
    assert defence.deviations(Leak({"a": a, "b": b}, 1, (1, 1, 1)), FLAT, rounds) == pytest.approx(expected)


RECIPE = Recipe(epochs=2, batch_size=8, lr=2e-3, weight_decay=0.5, clip_norm=1.0, augment="flip")
STEP = Recipe(epochs=1, batch_size=20, optimiser="sgd", momentum=0.0, lr=0.5, weight_decay=0, schedule="constant")


@pytest.fixture(scope="module")
def whole_set():
    """The gradient of the whole set at the first weights, in double precision: the update of the one step of STEP."""
    model = build("vit_cifar").double()
    return model, observe(model, PIXELS.double() / 255, LABELS)


@each_way
def test_a_step_by_hand(defence, function, whole_set):
    """The weights move by the step length times the defended gradient; where none was sent, not at all. Noise is drawn by the epoch's
    seed, in the update's order."""
    before, clean = whole_set
    got = build("vit_cifar").double()
    fit(got, defence, recipe=STEP)
    with torch.random.fork_rng(devices=[]):
        trainer._seed(torch.device("cpu"), 0, 0)
        received = function(clean, before, None)
    assert not equal(received, clean)
    for name, p in got.named_parameters():
        step = 0.5 * received.grads[name] if name in received.grads else 0.0
        torch.testing.assert_close(p, before.get_parameter(name) - step, rtol=1e-9, atol=1e-13)


def test_what_is_withheld_stays_as_it_was_drawn():
    """No decay and no momentum touches it, and all else learns."""
    got, drawn = build("vit_cifar"), build("vit_cifar")
    fit(got, sent("withheld", words=("position", "mlp")), recipe=RECIPE)
    withheld = parts.names(drawn, "position", "mlp")
    for name, p in drawn.named_parameters():
        assert torch.equal(got.get_parameter(name), p) == (name in withheld), name


def test_what_does_not_fit_is_told_before_the_first_step():
    model = build("vit_cifar")
    with pytest.raises(ValueError, match="learns nothing in 'conv'; it has stem, attention, mlp, norm, head"):
        fit(model, sent("withheld", words=["conv"]))
    assert same(model, build("vit_cifar"))
