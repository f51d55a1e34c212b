"""The direction as a difference: it is autograd's, whatever is compared, and `auto` takes the exact one where it is not."""

import functools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from awkward_networks import Sine
from hypothesis import given, settings
from hypothesis import strategies as st
from small_network import sent
from torch import nn

from privlab import data, models
from privlab.attacks.gradient_inversion import GradientMatching, Term, derivatives, objectives
from privlab.attacks.gradient_inversion.priors import total_variation
from privlab.data import Normalise
from privlab.leak import observe
from privlab.models import morph

SMOOTH = Term("smoothness", 1e-2, total_variation, of="images")
COSINE = Term("gradients", 1.0, objectives.cosine_distance)
DISTANCES = [objectives.cosine_distance, objectives.squared_distance, objectives.relative_distance]
DISTANCES += [objectives.layer_norms, objectives.tag(0.1)]


def convolutions(inside=nn.ReLU, norm=True, drop=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        norms = [nn.BatchNorm2d(8)] if norm else []
        layers = [nn.Conv2d(3, 8, 3, padding=1), *norms, inside(), nn.MaxPool2d(2), nn.Dropout(drop)]
        model = nn.Sequential(*layers, nn.Conv2d(8, 8, 3), inside(), nn.Flatten(), nn.Linear(8, 5))
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    return model.double().eval()


def by(attack, kind):
    return replace(attack, derivative=kind)


def two_ways(model, leak, distance, x):
    """J^T u by autograd and by a difference, at normalised images x."""
    weights = {n: p for n, p in model.named_parameters() if n in leak.grads}
    x = x.detach().requires_grad_()
    difference = derivatives.Difference(model, weights)

    def loss(forward, inputs, _):
        return F.cross_entropy(forward(inputs[0]), leak.labels)

    forward = derivatives.twice_differentiable(model)
    update = derivatives.gradients(loss(forward, [x], None), weights, create_graph=True)
    (exact,) = torch.autograd.grad(distance(x, update, leak), x)
    grads = {n: g.requires_grad_() for n, g in difference.update(loss, [x]).items()}
    u = torch.autograd.grad(distance(x, grads, leak), list(grads.values()))
    if distance is objectives.cosine_distance:
        near, u = derivatives.cosine(grads, leak, 2.0)
        vector = torch.cat([u.factor * (t + u.ratio * g).flatten() for t, g in zip(u.theirs, u.ours, strict=True)])
        torch.testing.assert_close([near, vector.norm().item()], [distance(x, grads, leak).detach(), u.length])
    (product,) = difference.vjp(loss, [x], u)
    return exact, product / (2 if isinstance(u, derivatives.Slope) else 1)


FAMILIES = {
    "resnet": functools.partial(models.build, "resnet_cifar", channels=(8, 16, 16, 32)),
    "vit": functools.partial(models.build, "vit_cifar", depth=1, embed_dim=48),
    "morph 8": functools.partial(morph.build, 8, width=0.125, depths=(1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", list(FAMILIES))
@settings(max_examples=5, deadline=None)
@given(st.sampled_from(DISTANCES), st.integers(0, 99), st.sampled_from([1e-3, 0.1, 1.0]))
def test_the_difference_is_the_derivative(name, distance, seed, near):
    model = FAMILIES[name](num_classes=10, seed=0).double().eval()
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 3, 32, 32, generator=generator, dtype=torch.float64)
    leak = observe(model, images, torch.tensor([seed % 10, 3]))
    start = images + near * (torch.rand(images.shape, generator=generator, dtype=torch.float64) - images)
    exact, product = two_ways(model, leak, distance, leak.normalise(start))
    assert (product - exact).norm() <= (5e-3 if distance is objectives.relative_distance else 1e-5) * exact.norm()


KINKS = [
    nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True),
    nn.Sequential(nn.ReLU(), nn.MaxPool2d(1, 2), nn.ReLU()),
]  # fmt: skip


@pytest.mark.parametrize("layer", KINKS, ids=str)
def test_the_pattern_of_the_first_pass_makes_the_difference_a_derivative(layer, monkeypatch):
    """At a shift by which units switch; without the replay it is none. The layers are afterwards what they were."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), layer, nn.Flatten(), nn.LazyLinear(5)
        model = nn.Sequential(*layers).double().eval()
        x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
        model(x)
    leak, before = observe(model, torch.rand(2, 3, 8, 8).double(), torch.tensor([1, 2])), dict(vars(layer))
    exact, near = two_ways(model, leak, objectives.layer_norms, x)
    monkeypatch.setattr(derivatives, "SHIFT", 3e6)
    _, kept = two_ways(model, leak, objectives.layer_norms, x)
    monkeypatch.setattr(derivatives, "_replay", lambda pattern, layer, x: type(layer).forward(layer, x))
    _, plain = two_ways(model, leak, objectives.layer_norms, x)
    errors = [((found - exact).norm() / exact.norm()).item() for found in (near, kept, plain)]
    assert errors[0] < 1e-5 and errors[1] < 0.2 and errors[2] > 2 * errors[1]
    assert vars(layer) == before


def fused():
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48, position_std=1.0).double()
    model.blocks[0].attn.fused_attn = True
    return model


LATE = Term("gradients", 1.0, objectives.cosine_distance, ((0.0, 0.0), (0.5, 1.0)))
INPLACE = functools.partial(convolutions, functools.partial(nn.ReLU, inplace=True))
SEARCHES = {
    **{d.__name__: (INPLACE, GradientMatching((Term("gradients", 1.0, d), SMOOTH), 5)) for d in DISTANCES},
    "fused attention": (fused, GradientMatching((COSINE,), 3)),
    "a group, no gradients for a while": (convolutions, GradientMatching((LATE, SMOOTH), 6, group=2)),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_by_differences_is_the_same(name):
    build, attack = SEARCHES[name]
    model = build()
    exact, other = (list(by(attack, kind).search(model, sent(model, 2)[1])) for kind in ("exact", "auto"))
    for a, b in zip(exact, other, strict=True):
        assert torch.allclose(a.images, b.images, atol=1e-5)
        assert a.losses == pytest.approx(b.losses, rel=1e-5, abs=1e-9) and a.evaluations == b.evaluations
    assert exact[-1].differences == 0 and other[-1].differences == exact[-1].evaluations - 1
    assert not torch.equal(exact[0].images, exact[-1].images)


def test_auto_looks_at_the_start_and_now_and_then(monkeypatch):
    monkeypatch.setattr(derivatives, "EVERY", 4)
    model = convolutions()
    states = by(GradientMatching((COSINE, SMOOTH), 8), "auto").search(model, sent(model, 2)[1])
    assert [s.evaluations - s.differences for s in states] == [1, 1, 1, 1, 2, 2, 2, 2, 3]


def test_two_terms_with_a_cosine_each_add_up():
    attack = by(GradientMatching((COSINE, replace(COSINE, name="once more", weight=0.5)), 3), "auto")
    model = convolutions()
    assert [*attack.search(model, sent(model, 2)[1])][-1].differences == 3  # the sum is that of the exact way


def test_a_difference_that_misses_a_pattern_is_turned_down():
    """A network with units enough that some switch at any shift that float32 allows."""
    model, attack = models.build("resnet_cifar", seed=0), GradientMatching((COSINE, SMOOTH), 2)
    leak = observe(model, *data.load("cifar10_samples").one(0))
    assert [*by(attack, "auto").search(model, leak)][-1].differences == 2
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, nn.ReLU):
                setattr(part, name, nn.Threshold(0.0, 0.0))  # a ReLU of another kind
    exact, auto = (list(by(attack, kind).search(model, leak)) for kind in ("exact", "auto"))
    assert auto[-1].differences == 0 and torch.equal(auto[-1].images, exact[-1].images)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_search_that_begins_at_the_truth_has_no_direction_there(distance):
    model, attack = convolutions(), by(GradientMatching((Term("gradients", 1.0, distance),), 2, lr=1e-9), "auto")
    images, leak = sent(model.float(), 2)
    assert [*attack.search(model, leak, start=images)][-1].reason == "steps"  # and not "not finite"


@pytest.mark.parametrize("what", ["0.5 dropped", "BatchNorm"])
def test_a_pass_that_cannot_be_repeated_is_taken_exactly_and_whole(what):
    model = convolutions(norm=what == "BatchNorm", drop=0.5 * (what != "BatchNorm")).train()
    attack = by(GradientMatching((COSINE,), 3), "auto")
    assert [*attack.search(model, sent(model, 2)[1])][-1].differences == 0
    with pytest.raises(ValueError, match=r"chunk=1: the model draws at random or mixes a batch's images"):
        next(attack.search(model, sent(model, 2)[1], chunk=1))
    assert [*attack.search(model.eval(), sent(model, 2)[1], chunk=1)][-1].differences == 0


@pytest.mark.parametrize("kind", ["exact", "auto"])
def test_a_model_that_cannot_be_differentiated_twice(kind):
    model = convolutions(Sine)
    with pytest.raises(RuntimeError, match=r"@once_differentiable; put another in its place"):
        next(by(GradientMatching((COSINE, SMOOTH), 60), kind).search(model, sent(model, 2)[1]))
