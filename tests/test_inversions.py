"""Inversions as tasks: the same as by hand, kept, spread, stopped by a budget and gone on with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from privlab import data, inversions
from privlab.attacks import gradient, sensitivity
from privlab.attacks.second_order import GaussNewton
from privlab.defences import perturbation
from privlab.inversions import Case
from privlab.leak import observe
from privlab.models import morph

SMALL = dict(width=0.05, depths=(1, 1, 1, 1))


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))


def case(**changes) -> Case:
    return replace(Case("morph_10", (3,), settings=dict(steps=4), changes=SMALL, victim=5, seed=6), **changes)


def by_hand(steps: int = 4) -> gradient.Result:
    model = morph.build(10, seed=5, **SMALL)
    leak = observe(model, *data.load("cifar10", "test").one(3))
    return gradient.inverting_gradients(steps).run(model, leak, seed=6, snapshots=[0, 2], progress=False)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_as_by_hand_in_the_order_of_the_cases(jobs, capsys):
    cases = [case(), case(seed=7), case(attack="annealed"), case()]
    found = inversions.run(cases, "four", snapshots=[0, 2], jobs=jobs, progress=False)
    expected = by_hand()
    assert torch.equal(found[0].images, expected.images) and torch.equal(found[3].images, expected.images)
    assert [s.step for s in found[0].snapshots] == [s.step for s in expected.snapshots]
    assert not torch.equal(found[1].images, found[0].images) and not torch.equal(found[2].images, found[0].images)
    assert "four: 3 done in" in capsys.readouterr().out


def test_gauss_newton_against_noise_as_by_hand():
    settings = dict(steps=2, inner=3)
    (found,) = inversions.run([case(attack="gauss_newton", settings=settings, noise=0.1)], jobs=1, progress=False)
    model = morph.build(10, seed=5, **SMALL)
    leak = perturbation.gaussian(observe(model, *data.load("cifar10", "test").one(3)), 0.1, seed=5)
    expected = GaussNewton(**settings).run(model, leak, seed=6, progress=False)
    assert torch.equal(found.images, expected.images) and found.evaluations == expected.evaluations


def test_what_is_kept_is_not_searched_for_again(capsys, monkeypatch):
    first = inversions.run([case()], jobs=1, progress=False)
    monkeypatch.setattr(inversions, "PRESETS", {"inverting_gradients": None})  # a search would fail
    again = inversions.run([case()], jobs=1, progress=False)
    assert torch.equal(first[0].images, again[0].images) and "1 reused" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        dict(images=(4,)),
        dict(victim=6),
        dict(settings=dict(steps=5)),
        dict(changes=dict(SMALL, activations="111")),
        dict(train=True),
        dict(noise=0.1),
        dict(side=64),
    ],
)
def test_all_that_a_result_depends_on_is_in_its_name(change):
    one, other = (inversions._run("invert", {**vars(c), "device": "cpu"}).path for c in (case(), case(**change)))
    assert one != other


def test_a_budget_stops_at_a_checkpoint_and_the_next_call_goes_on():
    cases, stops = [case(settings=dict(steps=150), seed=seed) for seed in range(2)], 0
    while True:
        try:
            found = inversions.run(cases, jobs=1, budget=1.5, progress=False)
            break
        except TimeoutError as stopped:
            assert "are left; what was found is kept" in str(stopped)
            stops += 1
            assert stops < 60, "it never comes to an end"
    model = cases[1].build()
    whole = gradient.inverting_gradients(150).run(model, observe(model, *cases[1].batch()), seed=1, progress=False)
    assert stops and torch.equal(found[1].images, whole.images)


def test_spectra_are_those_of_the_victims_and_the_attack_does_not_matter(capsys):
    found = inversions.spectra([case(), case(attack="dlg"), case(victim=1)], block=16, jobs=1, progress=False)
    model = morph.build(10, seed=5, **SMALL)
    torch.testing.assert_close(found[0], sensitivity.spectrum(model, *data.load("cifar10", "test").one(3), block=16))
    assert torch.equal(found[0], found[1]) and not torch.allclose(found[0], found[2])
    assert "2 done" in capsys.readouterr().out


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
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        case(**change)
