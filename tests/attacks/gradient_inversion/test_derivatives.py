"""The direction as a difference: it is autograd's, whatever is compared, and `auto` takes the exact one where it is not."""

import functools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from awkward_networks import Sine
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privlab import data, models
from privlab.attacks.gradient_inversion import (
    GradientMatching,
    Term,
    derivatives,
    objectives,
    results,
)
from privlab.attacks.gradient_inversion.priors import total_variation
from privlab.compute import Run
from privlab.data import Normalise
from privlab.leak import observe
from privlab.models import morph

SMOOTH = Term("smoothness", 1e-2, total_variation, of="images")
COSINE = Term("gradients", 1.0, objectives.cosine_distance)
DISTANCES = {
    "cosine": objectives.cosine_distance,
    "squared": objectives.squared_distance,
    "relative": objectives.relative_distance,
    "norms": objectives.layer_norms,
    "tag": objectives.tag(0.1),
}


def convolutions(inside=nn.ReLU, norm=True, drop=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        norms = [nn.BatchNorm2d(8)] if norm else []
        layers = [nn.Conv2d(3, 8, 3, padding=1), *norms, inside(), nn.MaxPool2d(2), nn.Dropout(drop)]
        model = nn.Sequential(*layers, nn.Conv2d(8, 8, 3), inside(), nn.Flatten(), nn.Linear(8, 5))
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    return model.double().eval()


def transformer():
    return models.build("vit_cifar", seed=0, depth=1, embed_dim=48, position_std=1.0).double()


def sent(model, batch=2, seed=1):
    size = 32 if hasattr(model, "patch_embed") else 6
    images = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return observe(model, images, torch.arange(batch) + 1)


def by(attack, kind):
    return replace(attack, derivative=kind)


def together(attack, model, leak):
    """Hold the states of the exact search and of the one by differences close to one another."""
    exact, other = (list(by(attack, kind).search(model, leak)) for kind in ("exact", "auto"))
    for a, b in zip(exact, other, strict=True):
        assert torch.allclose(a.images, b.images, atol=1e-5)
        assert a.losses == pytest.approx(b.losses, rel=1e-5, abs=1e-9) and a.evaluations == b.evaluations
    assert exact[-1].differences == 0 and other[-1].differences == exact[-1].evaluations - 1
    assert not torch.equal(exact[0].images, exact[-1].images)


SMALL = dict(width=0.125, depths=(1, 1, 1, 1))
FAMILIES = {
    "resnet": functools.partial(models.build, "resnet_cifar", channels=(8, 16, 16, 32)),
    "vit": functools.partial(models.build, "vit_cifar", depth=1, embed_dim=48),
    "morph 8": functools.partial(morph.build, 8, **SMALL),
}


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
    u = torch.autograd.grad(derivatives.once_differentiable(distance)(x, grads, leak), list(grads.values()))
    (product,) = difference.vjp(loss, [x], u)
    return exact, product


@functools.cache
def family(name):
    return FAMILIES[name](num_classes=10, seed=0).double().eval()


@pytest.mark.parametrize("name", list(FAMILIES))
@settings(max_examples=5, deadline=None)
@given(st.sampled_from(list(DISTANCES)), st.integers(0, 99), st.sampled_from([1e-3, 0.1, 1.0]))
def test_the_difference_is_the_derivative(name, distance, seed, near):
    model = family(name)
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 3, 32, 32, generator=generator, dtype=torch.float64)
    leak = observe(model, images, torch.tensor([seed % 10, 3]))
    start = images + near * (torch.rand(images.shape, generator=generator, dtype=torch.float64) - images)
    exact, product = two_ways(model, leak, DISTANCES[distance], leak.normalise(start))
    assert (product - exact).norm() <= (5e-3 if distance == "relative" else 1e-5) * exact.norm()


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


@pytest.mark.parametrize("near", [1e-6, 1.0])
def test_the_cosine_that_is_written_down_is_autograds(near):
    leak = sent(convolutions())
    generator = torch.Generator().manual_seed(2)
    noise = {n: torch.randn(g.shape, generator=generator, dtype=g.dtype) for n, g in leak.grads.items()}
    ours = {n: (g + near * noise[n]).requires_grad_() for n, g in leak.grads.items()}
    true, written = (
        [value := 3 * f(None, ours, leak), *torch.autograd.grad(value, list(ours.values()))]
        for f in (objectives.cosine_distance, derivatives.once_differentiable(objectives.cosine_distance))
    )
    for one, other in zip(true, written, strict=True):
        assert (one - other).norm() <= 1e-9 * max(one.norm(), 1e-3)


@pytest.mark.parametrize("distance", list(DISTANCES))
def test_a_search_by_differences_is_the_same(distance):
    model = convolutions(functools.partial(nn.ReLU, inplace=True))
    together(GradientMatching((Term("gradients", 1.0, DISTANCES[distance]), SMOOTH), 5), model, sent(model))


def test_a_kept_search_and_its_result(tmp_path, monkeypatch, stop_behind_save):
    monkeypatch.setattr(derivatives, "EVERY", 4)
    model = convolutions()
    leak, attack = sent(model), by(GradientMatching((COSINE, SMOOTH), 9), "auto")
    plain = attack.run(model, leak, restarts=2, progress=False)
    assert (plain.evaluations, plain.differences) == (20, 14)
    monkeypatch.setattr(results, "EVERY", 0.0)
    store = Run("search", {"of": "auto"}, root=tmp_path)
    stop_behind_save(14)  # in the second restart
    with pytest.raises(KeyboardInterrupt):
        attack.run(model, leak, restarts=2, store=store, progress=False)
    kept = attack.run(model, leak, restarts=2, store=store, progress=False)
    assert torch.equal(kept.images, plain.images) and kept.differences == plain.differences


def test_auto_looks_at_the_start_and_now_and_then():
    model = convolutions()
    states = list(by(GradientMatching((COSINE, SMOOTH), 120), "auto").search(model, sent(model)))
    exact = [s.evaluations - s.differences for s in states]
    assert len(exact) == 121 and (exact[0], exact[49], exact[50], exact[100], exact[120]) == (1, 1, 2, 3, 3)


class Function(nn.Module):
    """A ReLU of another kind, as some networks call it."""

    def forward(self, x):
        return F.relu(x)


def test_a_difference_that_misses_a_pattern_is_turned_down():
    """A network with units enough that some switch at any shift that float32 allows."""
    model = models.build("resnet_cifar", seed=0)
    image, label = data.load("cifar10_samples").one(0)
    attack = GradientMatching((COSINE, SMOOTH), 4)
    *_, last = by(attack, "auto").search(model, observe(model, image, label))
    assert last.differences == 4
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, nn.ReLU):
                setattr(part, name, Function())
    exact, auto = (list(by(attack, kind).search(model, observe(model, image, label))) for kind in ("exact", "auto"))
    assert auto[-1].differences == 0
    assert all(torch.equal(a.images, b.images) for a, b in zip(exact, auto, strict=True))  # to the bit


@pytest.mark.parametrize("what", ["0.5 dropped", "BatchNorm"])
def test_a_pass_that_cannot_be_repeated_is_taken_exactly_and_whole(what):
    model = convolutions(norm=what == "BatchNorm", drop=0.5 * (what != "BatchNorm")).train()
    before = {n: b.clone() for n, b in model.named_buffers()}
    attack = by(GradientMatching((COSINE,), 3), "auto")
    *_, last = attack.search(model, sent(model))
    assert last.differences == 0
    assert all(torch.equal(b, before[n]) for n, b in model.named_buffers())
    with pytest.raises(ValueError, match=r"chunk=1: Sequential draws at random or mixes the images"):
        next(attack.search(model, sent(model), chunk=1))
    *_, last = attack.search(model.eval(), sent(model), chunk=1)
    assert last.differences == 0


def test_a_model_that_cannot_be_differentiated_twice():
    model = convolutions(Sine)
    for kind in ("exact", "auto"):
        with pytest.raises(RuntimeError, match=r"@once_differentiable; put another in its place"):
            next(by(GradientMatching((COSINE, SMOOTH), 60), kind).search(model, sent(model)))
    assert all(p.requires_grad for p in model.parameters())


def test_fused_attention_stays_as_it_is():
    model = transformer()
    for block in model.blocks:
        block.attn.fused_attn = True
    leak, attack = sent(model), GradientMatching((COSINE,), 3)
    exact = list(attack.search(model, leak))
    *_, last = by(attack, "auto").search(model, leak)
    assert last.differences == 3 and torch.allclose(last.images, exact[-1].images, atol=1e-5)


def test_a_group_and_no_gradients_for_a_while():
    model = convolutions()
    leak = sent(model)
    late = Term("gradients", 1.0, objectives.cosine_distance, ((0.0, 0.0), (0.5, 1.0)))
    attack = GradientMatching((late, SMOOTH), 6, group=2)
    exact, other = (list(by(attack, kind).search(model, leak)) for kind in ("exact", "auto"))
    assert torch.allclose(exact[-1].images, other[-1].images, atol=1e-5)
    assert (other[-1].evaluations, other[-1].differences) == (8, 7)
