"""Fleets of real, tiny models: the same to the bit however they were trained, whoever was killed on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import weights

from privlab import data, training
from privlab.models import representations
from privlab.training import Recipe, batches, shadow_models

TINY = dict(embed_dim=32, depth=2, num_heads=2, patch_size=8)
RECIPE = Recipe(epochs=3, batch_size=16, lr=2e-3, mixup=0.8, augment="flip")
MODELS, IMAGES = 4, 64
KEEP = data.in_out(IMAGES, MODELS, 0)


@pytest.fixture(scope="module")
def images():
    return batches.subset(data.load("cifar10_samples"), [i % 20 for i in range(IMAGES)])


def make(images, folder, **changes):
    given = dict(model=TINY, queries=("image", "mirror"), at=(1,), seed=5, folder=folder) | changes
    return shadow_models.make("vit_cifar", given.pop("recipe", RECIPE), images, given.pop("keep", KEEP), **given)


@pytest.fixture(scope="module")
def trained(images, tmp_path_factory):
    made = make(images, tmp_path_factory.mktemp("fleets") / "undisturbed")
    made.train(jobs=1, progress=False)
    return made


def same(one, other):
    """Whether two fleets hold the same weights and logits, to the bit."""
    names = ["weights", *(f"logits_{epoch}" for epoch in one.at)]
    pairs = zip(one.runs, other.runs, strict=True)
    return all(weights.same(mine.load(name), theirs.load(name)) for mine, theirs in pairs for name in names)


# -- features -------------------------------------------------------------------------------------------------------------


def test_a_fleet_keeps_the_features_that_it_is_asked_for(images, tmp_path):
    """At each epoch looked at, for every image, as a pass through the kept model gives them; the weights are those of a fleet without."""
    made = make(images, tmp_path / "with", features=True, keep=KEEP[:2])
    plain = make(images, tmp_path / "without", keep=KEEP[:2])
    for one in (made, plain):
        one.train(jobs=1, progress=False)
    assert same(made, plain)
    assert torch.equal(made.features(1), representations.read(made.model(1), images[0])["last"])
    early, late = made.features(1, at=1), made.features(1)
    assert early.shape == late.shape and not torch.equal(early, late)


# -- weights of earlier epochs ---------------------------------------------------------------------------------------------


def test_a_fleet_keeps_the_weights_of_the_epochs_that_it_is_asked_for(images, trained, tmp_path):
    """They give the logits of then; everything else is as in a fleet that does not keep them."""
    made = make(images, tmp_path / "with", weights=True)
    made.train(jobs=1, progress=False)
    assert same(made, trained)
    for m in (0, 3):
        early, last = made.model(m, at=1), made.model(m)
        assert torch.equal(training.logits(early, images[0]), made.logits(m, at=1)[0])
        assert torch.equal(training.logits(last, images[0]), made.logits(m)[0])
        assert all(torch.equal(a, b) for a, b in zip(last.parameters(), made.model(m, at=3).parameters(), strict=True))
        assert not early.training and early.image_shape == last.image_shape == (3, 32, 32)
    assert "weights_3" not in made.runs[0].names()  # the last epoch's are there once
    with pytest.raises(ValueError, match="weights_2 of model 0 is not there; "):
        made.model(0, at=2)


# -- what a model is ---------------------------------------------------------------------------------------------------


def test_a_model_is_what_fit_makes_of_its_row_and_seed(trained, images):
    for m in (0, 3):
        seed, built, kept = shadow_models._seed(trained.settings, m), trained.fresh(m), trained.model(m)
        training.fit(built, batches.subset(images, KEEP[m]), RECIPE, seed=seed, progress=False)
        assert weights.same(built, kept)
        for k, asked in enumerate((images[0], images[0].flip(-1))):
            assert torch.equal(trained.logits(m)[k], training.logits(kept, asked))


# -- fleets ------------------------------------------------------------------------------------------------------------


def test_processes_give_the_same_bits_as_one(trained, images, tmp_path, capsys):
    made = make(images, tmp_path / "two")
    made.train(jobs=2, progress=False)
    assert same(made, trained)
    made.train(jobs=2, progress=False)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("4 vit_cifar: 4 done in ") and second == "4 vit_cifar: nothing to do"


def test_a_fleet_of_other_settings_has_runs_of_its_own_even_in_one_folder(trained, images):
    assert make(images, trained.folder).runs[0].complete
    for other in (dict(recipe=replace(RECIPE, lr=1e-3)), dict(seed=6), dict(keep=~KEEP), dict(at=(2,))):
        assert not make(images, trained.folder, **other).runs[0].complete, other
        assert make(images, None, **other).folder != make(images, None).folder == make(images, None).folder


def test_what_is_not_trained_cannot_be_asked(images, tmp_path):
    made = make(images, tmp_path / "new")
    with pytest.raises(ValueError, match=r"logits_3 of model 2 is not there; train\(\) trains it"):
        made.logits(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(keep=torch.zeros(4, 64, dtype=torch.bool)),
            "keep: a model would be trained on 0 images; give each row two",
        ),
        (dict(at=(4,)), r"at=\[4\] leaves the training; give 1 to 3"),
    ],
)
def test_what_makes_no_fleet(images, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        make(images, tmp_path / "wrong", **changes)
