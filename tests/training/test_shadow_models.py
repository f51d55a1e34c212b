"""Fleets of real, tiny models: each is what `fit` makes of its row and its seed, and what is kept of it is what it says."""

from dataclasses import replace

import pytest
import torch
import weights

from privlab import data, training
from privlab.models import representations
from privlab.training import Recipe, batches, shadow_models

TINY = dict(embed_dim=32, depth=2, num_heads=2, patch_size=8)
RECIPE = Recipe(epochs=3, batch_size=8, lr=2e-3, mixup=0.8, augment="flip")
MODELS, IMAGES = 2, 32
KEEP = data.in_out(IMAGES, MODELS, 0)


@pytest.fixture(scope="module")
def images():
    return batches.subset(data.load("cifar10_samples"), [i % 20 for i in range(IMAGES)])


@pytest.fixture(scope="module")
def made(images, tmp_path_factory):
    """Fleets of these settings, whose runs are in this module's folder."""
    folder = tmp_path_factory.mktemp("fleets")

    def make(**changes):
        given = dict(model=TINY, queries=("image", "mirror"), at=(1,), seed=5) | changes
        fleet = shadow_models.make("vit_cifar", given.pop("recipe", RECIPE), images, given.pop("keep", KEEP), **given)
        return replace(fleet, folder=folder)

    return make


def trained(fleet):
    for m in range(MODELS):
        shadow_models.train(fleet, m)
    return fleet


@pytest.fixture(scope="module")
def plain(made):
    return trained(made())


@pytest.fixture(scope="module")
def kept(made):
    """The same, with features, and with the weights of an earlier epoch."""
    return trained(made(features=True, weights=True))


def test_a_model_is_what_fit_makes_of_its_row_and_seed(plain, images):
    for m in range(MODELS):
        built = plain.fresh(m)
        training.fit(built, batches.subset(images, KEEP[m]), RECIPE, seed=plain.seed(m))
        assert weights.same(built, plain.model(m))
        for k, asked in enumerate((images[0], images[0].flip(-1))):
            assert torch.equal(plain.logits(m)[k], training.logits(built, asked))


def test_a_1x1_convolution_with_a_stride_gets_photographs_in_the_usual_format(images):
    """In the other one oneDNN, of PyTorch 2.15, writes beyond its memory (issue 6035): the process dies, or never ends."""
    fleet = shadow_models.make("repvgg_a0", RECIPE, images, KEEP, model=dict(width_factor=0.25))
    assert all(p.is_contiguous() for p in fleet.fresh(0).parameters())


def test_what_is_kept_beside_changes_nothing_and_is_of_its_epoch(plain, kept, images):
    for m, (one, other) in enumerate(zip(plain.runs, kept.runs, strict=True)):
        for name in ("weights", "logits_1", "logits_3"):
            assert weights.same(one.load(name), other.load(name))
        for at in (1, 3):
            model = kept.model(m, at)
            assert torch.equal(training.logits(model, images[0]), kept.logits(m, at)[0])
            assert torch.equal(representations.read(model, images[0])["last"], kept.features(m, at))
            assert not model.training and model.image_shape == (3, 32, 32)
    assert weights.same(kept.model(0), kept.model(0, at=3)) and not weights.same(kept.model(0), kept.model(0, at=1))
    assert "weights_3" not in kept.runs[0].names()  # the last epoch's are there once


def test_a_fleet_of_other_settings_has_runs_of_its_own_even_in_one_folder(plain, made, images):
    assert made().runs[0].complete
    for other in (dict(recipe=replace(RECIPE, lr=1e-3)), dict(seed=6), dict(keep=~KEEP), dict(at=(2,))):
        assert not made(**other).runs[0].complete, other
