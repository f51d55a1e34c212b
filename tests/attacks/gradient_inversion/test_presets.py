"""The papers' attacks: what each is made of, and that it finds what it should."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from small_network import network, sent
from torch import nn

from privlab import metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import Term, presets
from privlab.attacks.gradient_inversion.objectives import cosine_distance, relative_distance, squared_distance
from privlab.attacks.gradient_inversion.priors import squared_variation, total_variation
from privlab.leak import Leak, observe
from privlab.models import april


def two(a, b):
    """Gradients and a leak of two tensors each."""
    grads = {"w": torch.tensor(a[:2]), "b": torch.tensor(a[2:])}
    return grads, Leak({"w": torch.tensor(b[:2]), "b": torch.tensor(b[2:])}, 1, (1, 1, 1))


numbers = st.lists(st.floats(-10, 10).filter(lambda v: abs(v) > 1e-3), min_size=3, max_size=3)


@given(numbers, numbers, st.floats(0.01, 100))
def test_the_cosine_ignores_length_and_knows_direction(a, b, factor):
    grads, leak = two(a, b)
    longer = {n: factor * g for n, g in grads.items()}
    distance = cosine_distance(None, grads, leak)
    assert cosine_distance(None, longer, leak).item() == pytest.approx(distance.item(), abs=1e-5)
    assert cosine_distance(None, leak.grads, leak).item() == pytest.approx(0, abs=1e-6)
    opposite = {n: -g for n, g in leak.grads.items()}
    assert cosine_distance(None, opposite, leak).item() == pytest.approx(2, abs=1e-6)
    # |a/|a| - b/|b||^2 = 2 (1 - cos): the cosine is the squared distance between the two directions
    unit = {n: g / Leak(grads, 1, (1, 1, 1)).norm for n, g in grads.items()}
    target = replace(leak, grads={n: g / leak.norm for n, g in leak.grads.items()})
    assert squared_distance(None, unit, target).item() == pytest.approx(2 * distance.item(), abs=1e-5)


def test_inverting_gradients_finds_the_image():
    model = network()
    images, leak = sent(model)
    result = gradient_inversion.inverting_gradients(600, tv=0).run(model, leak, progress=False)
    assert metrics.psnr(result.images, images).item() > 30


def test_dlg_finds_image_and_label():
    model = network()
    images, leak = sent(model)
    result = gradient_inversion.dlg(60).run(model, replace(leak, labels=None), restarts=3, progress=False)
    assert metrics.psnr(result.images, images).item() > 40
    assert torch.equal(result.labels, leak.labels)


def test_idlg_reads_the_label_first():
    model = network()  # a sigmoid's features are positive, which is what the rule needs
    images, leak = sent(model)
    attack = gradient_inversion.idlg(60)
    first = next(attack.search(model, replace(leak, labels=None)))
    assert torch.equal(first.labels, leak.labels)
    result = attack.run(model, replace(leak, labels=None), restarts=4, progress=False)  # L-BFGS fails from some starts
    assert metrics.psnr(result.images, images).item() > 40


def test_quasi_newton_gets_further_than_first_order_on_a_vit():
    """For as many evaluations: on a small ViT ten decibels further than a descent along signs; here at half of the preset's steps."""
    model = april.build("b", width=32, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0)
    coarse = torch.rand(1, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    truth = F.interpolate(coarse, (8, 8), mode="bicubic").clamp(0, 1)
    leak = observe(model, truth, torch.tensor([1]))
    result = gradient_inversion.quasi_newton(4).run(model, leak, progress=False)
    assert 4 < result.evaluations <= 4 * 20 + 1
    other = gradient_inversion.annealed(result.evaluations).run(model, leak, progress=False)
    assert metrics.psnr(result.images, truth).item() > metrics.psnr(other.images, truth).item() + 5


def test_quasi_newton_in_its_own_words():
    """The relative distance, and a smoothness that falls by one factor a step, to its end."""
    attack = gradient_inversion.quasi_newton(4, (0.4, 0.1))
    assert [t.value for t in attack.terms] == [relative_distance, squared_variation]
    assert [attack.terms[1].weigh(p) for p in (0, 0.5, 1)] == pytest.approx([0.4, 0.2, 0.1])
    for word in (
        "1 gradients (relative_distance)",
        "0.3 to 0.01 smoothness (squared_variation)",
        "8 steps of lbfgs",
        "boxed",
    ):
        assert word in repr(gradient_inversion.quasi_newton())
    model = network()
    images, leak = sent(model)
    first, *_, last = attack.search(model, leak, start=images)
    roughness = squared_variation(leak.normalise(images)).item()
    assert first.losses == pytest.approx({"gradients": 0.0, "smoothness": 0.4 * roughness}, abs=1e-12)
    assert first.score == pytest.approx(0.1 * roughness) and last.score < first.score and last.reason == "steps"


def test_april_without_the_position_embedding_says_that_it_is_dlg():
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([3]))
    attack = gradient_inversion.april(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(next(attack.search(model, leak)).losses) == {"gradients", "position"}
    with pytest.warns(UserWarning, match="pos_embed"):
        states = list(attack.search(model, leak.without(["pos_embed"])))
    plain = replace(attack, terms=(attack.terms[0],))
    assert set(states[0].losses) == {"gradients"}
    assert torch.equal(states[-1].images, list(plain.search(model, leak.without(["pos_embed"])))[-1].images)


def test_gradvit_is_scheduled_as_equations_5_and_6():
    prior = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).double()
    attack = gradient_inversion.gradvit(10, prior, patch=3)
    weights = {t.name: [t.weigh(p) for p in (0, 0.49, 0.5, 1)] for t in attack.terms}
    assert weights == {
        "gradients": [4e-3, 4e-3, 2e-3, 2e-3], "statistics": [0, 0, 0.2, 0.2], "patches": [1e-4] * 4,
        "registration": [1e-2] * 4, "pixels": [1e-4] * 4, "smoothness": [1e-4] * 4,
    }  # fmt: skip
    flat = attack.unscheduled()
    assert {t.name: t.weigh(0) for t in flat.terms} == {t.name: t.weight for t in attack.terms}
    assert [t.name for t in attack.without("patches", "statistics").terms] == [
        "gradients",
        "registration",
        "pixels",
        "smoothness",
    ]
    with pytest.raises(ValueError, match="the attack has no term 'patch'; it has gradients, "):
        attack.without("patch")
    model = network()
    _, leak = sent(model)
    states = list(attack.search(model, leak))
    assert [set(s.losses) for s in (states[4], states[5])] == [set(weights) - {"statistics"}, set(weights)]
    assert [s.score == s.score for s in states] == [False] * 5 + [True] * 6


@pytest.mark.parametrize(
    "preset",
    [gradient_inversion.tag, gradient_inversion.april, gradient_inversion.gradinversion, gradient_inversion.gradvit],
)
def test_presets_print_their_settings_and_run_on_a_vit(preset):
    text = repr(preset())
    for word in ("gradients", "lr 0.1 cosine", "steps of adam", "labels by"):
        assert word in text
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = replace(observe(model, torch.rand(2, 3, 32, 32), torch.tensor([3, 5])), labels=None)
    attack = preset(4)
    states = list(attack.search(model, leak))
    distance = [
        s.losses["gradients"] / attack.terms[0].weigh(s.step / 4) for s in states
    ]  # without what the schedule takes off
    assert states[-1].reason == "steps" and distance[-1] < 0.9 * distance[0]


def test_labels_of_one_and_of_many():
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    for labels in ([3], [3, 5]):
        leak = observe(model, torch.rand(len(labels), 3, 32, 32), torch.tensor(labels))
        assert sorted(presets.one_or_many(model, leak).tolist()) == labels


def test_settings_are_printed_in_words():
    text = repr(gradient_inversion.inverting_gradients())
    for word in (
        "1 gradients (cosine_distance)",
        "0.0001 smoothness (total_variation)",
        "3000 steps of signed adam",
        "staircase",
        "boxed",
    ):
        assert word in text
    assert (
        "lbfgs" in repr(gradient_inversion.dlg())
        and "labels by search" in repr(gradient_inversion.dlg())
        and "unboxed" in repr(gradient_inversion.dlg())
    )
    assert "0.1 to 0.001 late" in repr(Term("late", 0.1, total_variation, end=1e-3))
    assert "x0 from 0%, x1 from 50%" in repr(Term("late", 1.0, total_variation, ((0.0, 0.0), (0.5, 1.0))))
    assert "2 seeds together" in repr(gradient_inversion.gradinversion(5))


def test_a_balanced_april_without_the_position_gradient_is_a_plain_one():
    model = models.build("vit_cifar", embed_dim=64, depth=1, num_heads=1)
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([1])).without(["pos_embed"])
    with pytest.warns(UserWarning, match="position"):
        assert presets.april_balanced(5, model, leak) == presets.april(5)
