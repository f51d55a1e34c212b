"""The attacker who knows the defence: averages, weights by hand and as a law, what never came, searches that are told."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab import metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import closed_form, objectives
from privlab.attacks.gradient_inversion.adaptive import (
    Transformed,
    arrived,
    averaged,
    tempered,
    unclipped,
    what_arrived,
)
from privlab.defences import updates
from privlab.defences.noise_budget import deviations, spread
from privlab.leak import Leak, observe
from privlab.models import april


def leak(**grads):
    return Leak({n: torch.tensor(g, dtype=torch.float64) for n, g in grads.items()}, 1, (1, 1, 1))


# -- averages ------------------------------------------------------------------------------------------------------------------


def test_the_mean_by_hand():
    mean = averaged([leak(a=[1.0, 2.0], b=[0.0]), leak(a=[3.0, 2.0], b=[1.0]), leak(a=[5.0, 2.0], b=[2.0])])
    assert mean["a"].tolist() == [3, 2] and mean["b"].tolist() == [1]
    one = leak(a=[1.0, 2.0])
    assert torch.equal(averaged([one])["a"], one["a"])


@pytest.mark.parametrize("rounds", [4, 25])
def test_n_rounds_cut_the_noise_by_the_root_of_n(rounds):
    sent = Leak({"a": torch.ones(20_000), "b": torch.ones(30_000)}, 1, (1, 1, 1))
    shares = {"a": 0.8, "b": 0.2}
    mean = averaged([spread(sent, shares, 0.5, seed) for seed in range(rounds)])
    for name, std in deviations(sent, shares, 0.5).items():
        left = (mean[name] - sent[name]).square().mean().sqrt().item()
        assert left == pytest.approx(std / rounds**0.5, rel=0.05)


# -- tempered weights ----------------------------------------------------------------------------------------------------------

SEARCH = gradient_inversion.annealed(10)


def heard(update, known, **more):
    """What a tempered search compares."""
    return tempered(SEARCH, update, known, **more).terms[0].value


def drawn(seed, *sizes):
    draw = torch.Generator().manual_seed(seed)
    grads = {
        n: size * torch.randn(3 + i, generator=draw).double()
        for i, (n, size) in enumerate(zip("abc", sizes, strict=False))
    }
    return Leak(grads, 1, (1, 1, 1))


def test_tempered_weights_by_hand():
    """|a| = 5 and noise of 2 on it, so 2 / .5 = 4 more; |b| = 3 and none; c is drowned, with noise of 60 on it."""
    update = leak(a=[3.0, 4.0, 0.0, 0.0], b=[1.0, 2.0, 2.0], c=[0.6, 0.8, 0.0, 0.0])
    value = heard(update, {"a": 1.0, "c": 30.0, "elsewhere": 7.0}, share=0.5)
    assert value.weights == pytest.approx({"a": 1 / 41**0.5, "b": 1 / 3, "c": 0.5 / 60}, rel=1e-4)
    ours = {"a": update["a"] + 2, "b": update["b"] - 1, "c": update["c"] + 1}
    expected = 16 / 41 + 3 / 9 + 4 / (1 + 120**2)
    assert value(None, ours, update).item() == pytest.approx(expected)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-8, 3))
def test_without_noise_it_is_the_relative_distance(seed, large, small):
    """Tensors below the floor included, and one of zeros, of which a search on a clean update keeps away likewise."""
    update, ours = drawn(seed, 10**large, 10**small, 0.0), drawn(seed + 1, 10**large, 10**small, 1e-7).grads
    expected = objectives.relative_distance(None, ours, update).item()
    assert heard(update, {})(None, ours, update).item() == pytest.approx(expected, rel=1e-9)
    assert heard(update, {"a": 0.0}, share=1e-3)(None, ours, update).item() == pytest.approx(expected, rel=1e-9)


def test_next_to_nothing_is_not_blown_up():
    """A gradient that is zero but for rounding, such as that of a bias in front of a norm."""
    update = leak(a=[3.0, 4.0], b=[1e-12, 0.0])
    assert heard(update, {}).weights == pytest.approx({"a": 0.2, "b": 1 / 5e-6})


@given(st.floats(-3, 3), st.floats(0.01, 0.3), st.integers(0, 10**6))
def test_a_drowned_tensor_counts_as_its_noise_does(size, share, seed):
    update = drawn(seed, 1.0, 1e-4)
    known = 10**size * share  # |noise| / share is twice that or more, beside 1e-3 at most
    found = heard(update, {"b": known}, share=share).weights
    assert found["b"] == pytest.approx(share / (known * 4**0.5), rel=0.2 if size < -2 else 1e-3)
    assert found["a"] == pytest.approx(1 / update["a"].norm().item())  # whatever the noise elsewhere


@given(st.floats(-4, 4), st.integers(0, 10**6))
def test_the_unit_of_an_update_does_not_matter(exponent, seed):
    factor, known = 10**exponent, {"a": 0.3, "b": 0.02}
    update, ours = drawn(seed, 1.0, 0.1, 3.0), drawn(seed + 1, 1.0, 0.1, 3.0).grads
    longer = replace(update, grads={n: factor * g for n, g in update.grads.items()})
    one = heard(update, known)(None, ours, update)
    other = heard(longer, {n: factor * std for n, std in known.items()})
    assert other(None, {n: factor * g for n, g in ours.items()}, longer).item() == pytest.approx(one.item(), rel=1e-9)


def test_only_terms_on_gradients_are_tempered():
    told = tempered(SEARCH, leak(a=[1.0, 2.0]), {"a": 0.1})
    assert told.terms[1:] == SEARCH.terms[1:] and replace(told, terms=SEARCH.terms) == SEARCH
    assert replace(told.terms[0], value=SEARCH.terms[0].value) == SEARCH.terms[0]


# -- what arrived --------------------------------------------------------------------------------------------------------------

OBJECTIVES = [
    objectives.squared_distance,
    objectives.relative_distance,
    objectives.cosine_distance,
    objectives.layer_norms,
    objectives.tag(0.1),
    objectives.weighted(objectives.squared_distance, {"a": 3.0}),
]
each_objective = pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: getattr(o, "__name__", repr(o)))


@each_objective
def test_of_a_dense_update_all_counts(objective):
    update, ours = drawn(1, 1.0, 2.0), drawn(2, 1.0, 2.0).grads
    assert all(g.all() for g in update.grads.values())
    assert torch.equal(Transformed(objective, what_arrived)(None, ours, update), objective(None, ours, update))


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
    found = Transformed(objective, what_arrived)(None, ours, update)
    assert torch.equal(found, Transformed(objective, what_arrived)(None, other, update))
    assert torch.equal(found, objective(None, without, update)) and not torch.equal(
        found, objective(None, ours, update)
    )
    slopes = torch.autograd.grad(found, [*ours.values()])
    for slope, g in zip(slopes, update.grads.values(), strict=True):
        assert torch.equal(slope != 0, g != 0)


def test_arrived_by_hand():
    update = leak(a=[1.0, 0.0, -2.0], b=[0.0, 0.0])
    ours = leak(a=[2.0, 9.0, 1.0], b=[5.0, 5.0]).grads
    assert Transformed(objectives.squared_distance, what_arrived)(None, ours, update).item() == 1 + 9


@each_objective
def test_a_clipped_update_is_searched_as_before(objective):
    """Value for value: what the search sees of an update at a tenth of its length is what it saw, in the update's units."""
    update, ours = drawn(1, 1.0, 2.0), drawn(2, 1.0, 2.0).grads
    (term,) = [t.value for t in unclipped(SEARCH).terms if t.of == "gradients"]
    heard = replace(term, objective=objective)
    scaled = [heard(None, {n: factor * g for n, g in ours.items()}, update) for factor in (0.1, 1.0, 30.0)]
    torch.testing.assert_close(scaled, [scaled[0]] * 3)
    same = heard(None, {n: 7.0 * g for n, g in update.grads.items()}, update)
    assert same.item() == pytest.approx(0, abs=1e-6) and scaled[0].item() > 1e-3


def test_unclipped_by_hand():
    (term,) = [t.value for t in unclipped(SEARCH).terms if t.of == "gradients"]
    heard = replace(term, objective=objectives.squared_distance)
    found = heard(None, leak(a=[0.0, 30.0], b=[40.0]).grads, leak(a=[5.0, 0.0], b=[0.0]))
    assert found.item() == pytest.approx(5**2 + 3**2 + 4**2)


def test_a_search_for_what_arrived():
    """Terms on images stay; one that has to look at the model first does, or is left out."""
    attack = gradient_inversion.april(3)
    sparse = arrived(attack)
    assert [t.name for t in sparse.terms] == ["gradients", "position"]
    assert repr(sparse.terms[0].value) == "what_arrived(squared_distance)"
    assert repr(sparse.terms[1].value) == "what_arrived(position_direction)"
    assert arrived(SEARCH).terms[1:] == SEARCH.terms[1:] and arrived(SEARCH).terms[0].value == Transformed(
        objectives.cosine_distance, what_arrived
    )
    model = models.build("vit_cifar", embed_dim=16, depth=1, num_heads=2)
    sent = observe(model, torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1)), torch.tensor([3]))
    assert sparse.terms[1].value.prepare(model, sent) == sparse.terms[1].value
    with pytest.warns(UserWarning, match="so position_direction is left out"):
        assert sparse.terms[1].value.prepare(model, sent.without(["pos_embed"])) is None
    both = arrived(tempered(SEARCH, sent, {})).terms[0].value
    assert both.prepare(model, sent) == both
    with pytest.raises(ValueError, match="weights: the leak holds no gradient named"):
        both.prepare(model, sent.without(["pos_embed"]))


# -- in an attack --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def victim():
    model = models.build("vit_cifar", embed_dim=64, depth=2, num_heads=2, position_std=1.0)
    photo = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    photo = torch.nn.functional.interpolate(photo, (32, 32), mode="bicubic").clamp(0, 1)
    return model, photo, observe(model, photo, torch.tensor([3]))


def test_rounds_undo_noise_in_the_closed_form(victim):
    model, photo, sent = victim
    rounds = [spread(sent, {"stem": 1.0}, 3e-5, seed, model=model) for seed in range(16)]
    std = deviations(sent, {"stem": 1.0}, 3e-5, model)
    less = {name: size / 4 for name, size in std.items()}
    one = metrics.psnr(closed_form.patch_embedding(model, rounds[0], noise=std).images, photo)
    all_of_them = metrics.psnr(closed_form.patch_embedding(model, averaged(rounds), noise=less).images, photo)
    assert all_of_them > one + 3  # 12 dB, if the error were proportional to the noise


# -- searches behind defences of an update ---------------------------------------------------------------------------------------


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
