"""The attacker who knows the defence: averages, weights by hand and as a law, what never came, searches that are told."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab import metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import closed_form, objectives
from privlab.attacks.gradient_inversion.adaptive import LEFT_OVER, arrived, averaged, compared, tempered, unclipped
from privlab.defences import updates
from privlab.defences.noise_budget import deviations, spread
from privlab.leak import Leak, observe
from privlab.models import april

SEARCH = gradient_inversion.annealed(10)


def leak(**grads):
    return Leak({n: torch.tensor(g, dtype=torch.float64) for n, g in grads.items()}, 1, (1, 1, 1))


def drawn(seed, *sizes):
    draw = torch.Generator().manual_seed(seed)
    grads = {
        n: size * torch.randn(3 + i, generator=draw).double()
        for i, (n, size) in enumerate(zip("abc", sizes, strict=False))
    }
    return Leak(grads, 1, (1, 1, 1))


def heard(search):
    """What a search compares."""
    return search.terms[0].value


@pytest.mark.parametrize("rounds", [1, 4, 25])
def test_n_rounds_cut_the_noise_by_the_root_of_n(rounds):
    sent = Leak({"a": torch.ones(20_000), "b": torch.ones(30_000)}, 1, (1, 1, 1))
    shares = {"a": 0.8, "b": 0.2}
    mean = averaged([spread(sent, shares, 0.5, seed) for seed in range(rounds)])
    for name, std in deviations(sent, shares, 0.5).items():
        left = (mean[name] - sent[name]).square().mean().sqrt().item()
        assert left == pytest.approx(std / rounds**0.5, rel=0.05)


# -- tempered weights ----------------------------------------------------------------------------------------------------------


def test_tempered_weights_by_hand():
    """|a| = 5 and noise of 2 LEFT_OVER on it, so 2 more; |b| = 3 and none; c is drowned, with noise of 60 on it."""
    update = leak(a=[3.0, 4.0, 0.0, 0.0], b=[1.0, 2.0, 2.0], c=[0.6, 0.8, 0.0, 0.0])
    value = heard(tempered(SEARCH, update, {"a": LEFT_OVER, "c": 30.0, "elsewhere": 7.0}))
    ours = {"a": update["a"] + 2, "b": update["b"] - 1, "c": update["c"] + 1}
    expected = 16 / (25 + 4) + 3 / 9 + 4 / (1 + (60 / LEFT_OVER) ** 2)
    assert value(None, ours, update).item() == pytest.approx(expected)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-8, 3))
def test_without_noise_it_is_the_relative_distance(seed, large, small):
    """Tensors below the floor included, and one of zeros, of which a search on a clean update keeps away likewise."""
    update, ours = drawn(seed, 10**large, 10**small, 0.0), drawn(seed + 1, 10**large, 10**small, 1e-7).grads
    expected = objectives.relative_distance(None, ours, update).item()
    for known in ({}, {"a": 0.0}):
        assert heard(tempered(SEARCH, update, known))(None, ours, update).item() == pytest.approx(expected, rel=1e-9)


@given(st.floats(-4, 4), st.integers(0, 10**6))
def test_the_unit_of_an_update_does_not_matter(exponent, seed):
    factor, known = 10**exponent, {"a": 0.3, "b": 0.02}
    update, ours = drawn(seed, 1.0, 0.1, 3.0), drawn(seed + 1, 1.0, 0.1, 3.0).grads
    longer = replace(update, grads={n: factor * g for n, g in update.grads.items()})
    one = heard(tempered(SEARCH, update, known))(None, ours, update)
    other = heard(tempered(SEARCH, longer, {n: factor * std for n, std in known.items()}))
    assert other(None, {n: factor * g for n, g in ours.items()}, longer).item() == pytest.approx(one.item(), rel=1e-9)


def test_only_terms_on_gradients_change_and_a_key_tells_what_became_of_them():
    told = tempered(SEARCH, leak(a=[1.0, 2.0]), {"a": 0.1})
    assert told.terms[1:] == SEARCH.terms[1:] and replace(told, terms=SEARCH.terms) == SEARCH
    assert replace(told.terms[0], value=SEARCH.terms[0].value) == SEARCH.terms[0]
    assert "what_arrived(weighted(squared_distance, 1 by " in repr(arrived(told))
    assert "at_its_length(cosine_distance)" in repr(unclipped(SEARCH))
    assert len({repr(tempered(SEARCH, leak(a=[1.0, 2.0]), {"a": std})) for std in (0.0, 0.1, 0.2)}) == 3


# -- what arrived --------------------------------------------------------------------------------------------------------------

each_objective = pytest.mark.parametrize(
    "objective",
    [objectives.squared_distance, objectives.cosine_distance, objectives.layer_norms, objectives.tag(0.1)],
    ids=objectives.name,
)


@each_objective
def test_what_did_not_arrive_is_not_compared(objective):
    """Neither its value nor its slope; what arrived is compared as it was, against the same update."""
    update = leak(a=[1.0, 0.0, -2.0], b=[0.0, 3.0])
    ours = {"a": [1.5, 9.0, -1.0], "b": [7.0, 2.0]}
    other = {"a": [1.5, -5.0, -1.0], "b": [-0.1, 2.0]}
    without = {"a": [1.5, 0.0, -1.0], "b": [0.0, 2.0]}
    ours, other, without = (
        {n: torch.tensor(g).double().requires_grad_() for n, g in g.items()} for g in (ours, other, without)
    )
    value = heard(arrived(compared(SEARCH, objective)))
    found = value(None, ours, update)
    assert torch.equal(found, value(None, other, update)) and torch.equal(found, objective(None, without, update))
    slopes = torch.autograd.grad(found, [*ours.values()])
    for slope, g in zip(slopes, update.grads.values(), strict=True):
        assert torch.equal(slope != 0, g != 0)


@each_objective
def test_a_clipped_update_is_searched_as_before(objective):
    """Value for value: what the search sees of an update at a tenth of its length is what it saw, in the update's units."""
    update, ours = drawn(1, 1.0, 2.0), drawn(2, 1.0, 2.0).grads
    value = heard(unclipped(compared(SEARCH, objective)))
    scaled = [value(None, {n: factor * g for n, g in ours.items()}, update) for factor in (0.1, 1.0, 30.0)]
    torch.testing.assert_close(scaled, [scaled[0]] * 3)
    same = value(None, {n: 7.0 * g for n, g in update.grads.items()}, update)
    assert same.item() == pytest.approx(0, abs=1e-6) and scaled[0].item() > 1e-3


# -- in an attack --------------------------------------------------------------------------------------------------------------


def test_rounds_undo_noise_in_the_closed_form():
    model = models.build("vit_cifar", embed_dim=64, depth=2, num_heads=2, position_std=1.0)
    photo = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    photo = torch.nn.functional.interpolate(photo, (32, 32), mode="bicubic").clamp(0, 1)
    sent = observe(model, photo, torch.tensor([3]))
    rounds = [spread(sent, {"stem": 1.0}, 3e-5, seed, model=model) for seed in range(16)]
    std = deviations(sent, {"stem": 1.0}, 3e-5, model)
    less = {name: size / 4 for name, size in std.items()}
    one = metrics.psnr(closed_form.patch_embedding(model, rounds[0], noise=std).images, photo)
    all_of_them = metrics.psnr(closed_form.patch_embedding(model, averaged(rounds), noise=less).images, photo)
    assert all_of_them > one + 3  # 12 dB, if the error were proportional to the noise


@pytest.fixture(scope="module")
def small():
    """A ViT on 8 x 8 pixels, a third of a second a search, and three smooth photographs."""
    model = april.build("b", width=32, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0)
    coarse = torch.rand(3, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    return model, torch.nn.functional.interpolate(coarse, (8, 8), mode="bicubic").clamp(0, 1)


def found(attack, model, update, photo):
    return metrics.psnr(attack.run(model, update, snapshots=0, progress=False).images, photo).item()


def test_one_who_knows_of_even_noise_ends_nearer(small):
    """The same noise in each number drowns small tensors first, which the relative distance hears as loud as all others. Three decibels."""
    model, photos = small
    defence, attack = updates.sent("spread", shares={"all": 1.0}, relative=0.005), gradient_inversion.quasi_newton(3)
    for seed, photo in enumerate(photos.split(1)[:2]):
        update = defence(observe(model, photo, torch.tensor([1])), model, seed)
        told = tempered(attack, update, defence.deviations(update, model))
        assert found(told, model, update, photo) > found(attack, model, update, photo) + 1.5


def test_one_who_knows_what_was_not_sent_ends_nearer(small):
    model, photos = small
    defence, attack = updates.sent("sparse", share=0.1), gradient_inversion.quasi_newton(3)
    for photo in photos.split(1)[2:3]:
        update = defence(observe(model, photo, torch.tensor([1])), model)
        told = arrived(tempered(attack, update, defence.deviations(update, model)))
        assert found(told, model, update, photo) > found(attack, model, update, photo) + 3
