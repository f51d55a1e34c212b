"""Inversions in plain values: the same as by hand, and kept under all that they depend on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from weights import same

from privlab import data
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import Case, GaussNewton, adaptive, presets, results
from privlab.attacks.gradient_inversion.cases import searched
from privlab.compute import store
from privlab.defences import perturbation, updates
from privlab.leak import observe
from privlab.models import morph

SMALL = dict(width=0.05, depths=(1, 1, 1, 1))
EVEN = updates.sent("spread", shares={"all": 1.0}, relative=0.1)


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))


def case(**changes) -> Case:
    return replace(Case("morph_10", (3,), settings=dict(steps=4), changes=SMALL, victim=5, seed=6), **changes)


def by_hand(steps: int = 4) -> results.Result:
    model = morph.build(10, seed=5, **SMALL)
    leak = observe(model, *data.load("cifar10", "test").one(3))
    return gradient_inversion.inverting_gradients(steps).run(model, leak, seed=6, snapshots=[0, 2], progress=False)


def test_the_same_as_by_hand_and_its_pictures():
    found, expected = searched(case(), snapshots=[0, 2]), by_hand()
    assert torch.equal(found.images, expected.images)
    assert [s.step for s in found.snapshots] == [s.step for s in expected.snapshots]
    for change in (dict(seed=7), dict(attack="annealed")):
        assert not torch.equal(searched(case(**change)).images, found.images)


def test_gauss_newton_against_noise_as_by_hand():
    settings = dict(steps=2)
    found = searched(case(attack="gauss_newton", settings=settings, noise=0.1))
    model = morph.build(10, seed=5, **SMALL)
    leak = perturbation.gaussian(observe(model, *data.load("cifar10", "test").one(3)), 0.1, seed=5)
    expected = GaussNewton(**settings).run(model, leak, seed=6, progress=False)
    assert torch.equal(found.images, expected.images) and found.evaluations == expected.evaluations


def test_a_case_by_differences():
    by_auto, exact = (
        searched(case(attack="annealed", settings=dict(steps=2), derivative=kind)) for kind in ("auto", "exact")
    )
    assert (by_auto.derivatives, exact.derivatives) == ({"exact": 1, "difference": 2}, {"exact": 3})
    assert not torch.equal(by_auto.images, exact.images)
    assert (by_auto.images - exact.images).abs().mean() < 0.01  # a sign that turned is a whole step, in few pixels
    with pytest.raises(ValueError, match="derivative='central' is not known here; try 'exact'"):
        case(derivative="central")


def test_what_is_kept_is_not_searched_for_again(monkeypatch):
    first = searched(case())
    monkeypatch.setattr(gradient_inversion.cases, "PRESETS", {"inverting_gradients": None})  # a search would fail
    assert torch.equal(first.images, searched(case()).images)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (dict(images=(4,)), "8a152e1d"),
        (dict(victim=6), "ffc23528"),
        (dict(settings=dict(steps=5)), "1235cd0e"),
        (dict(changes=dict(SMALL, activations="111")), "4f2c3d28"),
        (dict(train=True), "f2e4f042"),
        (dict(noise=0.1), "ccf1d463"),
        (dict(side=64), "09488060"),
        (dict(sent=EVEN.settings()), "f7dfb9dd"),
        (dict(derivative="auto"), "94a235f3"),
    ],
)
def test_all_that_a_result_depends_on_is_in_its_name(change, key):
    """And the key of its settings is what it was in every process before: else what is kept would be searched for again."""
    assert name(case()) != name(case(**change))
    assert store.key(case(**change).plain()).startswith(key)


def name(one: Case) -> str:
    return gradient_inversion.cases._run({**one.plain(), "device": "cpu"}).path.name


def test_what_is_known_of_a_defence_is_in_the_name_of_a_result():
    """And what it is called by is what it says, not how it was written down."""
    cases = [
        case(sent=EVEN.settings()),
        case(sent=replace(EVEN, given=(*EVEN.given[:1], ("relative", 0.2))).settings()),
        case(sent=EVEN.settings(), informed=True),
    ]
    assert len({name(each) for each in cases}) == 3
    told = json.loads(json.dumps(EVEN.settings()))
    assert name(case(sent=told)) == name(cases[0]) and case(sent=told).leak(cases[0].build())[0].norm > 0


def test_what_was_kept_before_there_were_defences_keeps_its_name():
    before = dict(
        model="morph_10",
        images=(3,),
        attack="inverting_gradients",
        settings=dict(steps=4),
        changes=SMALL,
        victim=5,
        seed=6,
        data="cifar10",
        split="test",
        side=None,
        train=False,
        noise=0.0,
    )
    assert case().plain() == case(sent={}, informed=False, derivative="exact").plain() == before
    assert case(noise=0.1).plain() == before | dict(noise=0.1)
    full = case(sent=EVEN.settings(), informed=True)
    assert full.plain() == before | dict(sent=EVEN.settings(), informed=True)


# -- behind a defence of the update -------------------------------------------------------------------------------------------


def clean():
    """The victim of `case`, and what its client has to tell."""
    model = morph.build(10, seed=5, **SMALL)
    return model, observe(model, *data.load("cifar10", "test").one(3))


def equal(one, other) -> bool:
    return [*one.grads] == [*other.grads] and same(one.grads, other.grads)


@pytest.mark.parametrize(
    "defence",
    [
        EVEN,
        updates.sent("low_bits", bits=4),
        updates.sent("sparse", share=0.1),
        updates.sent("withheld", words=["stem"]),
    ],
    ids=str,
)
def test_the_attacker_receives_what_the_defence_sends(defence):
    """Drawn by the victim's seed, and told as much as the defence tells."""
    model, leak = clean()
    received, known = case(sent=defence.settings()).leak(model)
    assert equal(received, defence(leak, model, 5)) and not equal(received, leak)
    assert known == defence.deviations(received, model)
    behind, _ = case(sent=defence.settings(), noise=0.2).leak(model)
    assert equal(behind, defence(perturbation.gaussian(leak, 0.2, 5), model, 5))


def test_without_a_defence_nothing_is_known():
    model, leak = clean()
    received, known = case().leak(model)
    assert equal(received, leak) and known == {}
    received, known = case(noise=0.2).leak(model)
    assert equal(received, perturbation.gaussian(leak, 0.2, 5)) and known == {}


@pytest.mark.parametrize(
    ("attack", "defence"),
    [
        (dict(attack="quasi_newton", settings=dict(steps=1)), EVEN),
        (dict(attack="quasi_newton", settings=dict(steps=1)), updates.sent("sparse", share=0.1)),
        (dict(attack="annealed", settings=dict(steps=2)), updates.sent("low_bits", bits=2)),
        (dict(attack="quasi_newton", settings=dict(steps=1)), updates.sent("clipped", norm=0.1)),
    ],
    ids=["spread", "sparse", "low_bits", "clipped"],
)
def test_an_informed_search_as_by_hand(attack, defence):
    """Zeros of a sparse update are no numbers, and only of that; and one who is not informed searches another way."""
    told = case(**attack, sent=defence.settings(), informed=True)
    naive = replace(told, informed=False)
    found = [searched(told), searched(naive)]
    model, _ = clean()
    leak, known = told.leak(model)
    plain = getattr(presets, told.attack)(**told.settings)
    weighed = adaptive.tempered(plain, leak, known)
    weighed = adaptive.arrived(weighed) if defence.by == "sparse" else weighed
    weighed = adaptive.unclipped(weighed) if defence.by == "clipped" else weighed
    expected = [one.run(model, leak, seed=6, progress=False) for one in (weighed, plain)]
    assert [torch.equal(f.images, e.images) for f, e in zip(found, expected, strict=True)] == [True, True]
    assert not torch.equal(found[0].images, found[1].images)


def test_batches_sizes_and_modes():
    batch = case(images=(3, 8), side=64, train=True)
    images, labels = batch.batch()
    assert images.shape == (2, 3, 64, 64) and labels.shape == (2,)
    assert batch.build().training and not case().build().training


@pytest.mark.parametrize(
    "change, message",
    [
        (
            dict(attack="gradvit"),
            r"attack='gradvit' is no preset that a worker knows; there are gauss_newton, dlg, idlg, inverting_gradients",
        ),
        (dict(images=()), r"images=\(\) leaves nothing to look for"),
        (dict(informed=True), "informed=True is for a defence given as `sent`"),
        (dict(informed=True, noise=0.1), "informed=True is for a defence given as `sent`"),
        (dict(informed=True, noise=0.1, sent=EVEN.settings()), "informed=True is for a defence given as `sent`"),
        (dict(informed=True, attack="gauss_newton", sent=EVEN.settings()), "for searches that can weigh tensors"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        case(**change)
