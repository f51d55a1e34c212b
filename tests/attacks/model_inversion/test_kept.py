"""Attacks that are kept: done once, each under all that it depends on."""

import copy

import pytest
import torch
from torch import nn

from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import ModelInversion, distillation, gans, generators

ATTACK = ModelInversion(pool=40, candidates=4, kept=2, steps=4, lr=0.1, views=5)
TINY = dict(img_size=16, patch_size=8, in_chans=1, embed_dim=16, depth=1, num_heads=1)


def pictures(n, seed):
    rough = 0.5 + 0.15 * torch.randn(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return nn.functional.interpolate(rough, (16, 16), mode="bilinear").clamp(0, 1)


@pytest.fixture
def target():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(256, 3))


@pytest.fixture
def prior():
    return generators.eigenfaces(pictures(30, 1), 6)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    return tmp_path / "model_inversion"


def same(one, other):
    return one.trace == other.trace and all(torch.equal(a, b) for a, b in zip(parts(one), parts(other), strict=True))


def parts(result):
    return result.images, result.targets, result.latents, result.likelihood, result.score, result.first


def test_what_is_kept_is_what_the_attack_finds_and_is_done_once(target, prior, here, monkeypatch):
    direct, kept = ATTACK.run(target, prior, [2, 0], 3), ATTACK.run_once(target, prior, [2, 0], 3)
    assert same(direct, kept) and kept.targets.tolist() == [2, 2, 0, 0]
    monkeypatch.setattr(ModelInversion, "run", lambda *_: pytest.fail("attacked again"))
    assert same(ATTACK.run_once(copy.deepcopy(target), copy.deepcopy(prior), [2, 0], 3), kept)


def test_the_key_is_what_the_result_depends_on(target, prior, here):
    other = copy.deepcopy(target)
    other[1].bias.data += 1
    further = generators.eigenfaces(pictures(30, 2), 6)
    ATTACK.run_once(target, prior, [2, 0], 3)
    ATTACK.run_once(other, prior, [2, 0], 3)
    ATTACK.run_once(target, further, [2, 0], 3)
    ATTACK.run_once(target, prior, [0, 2], 3)  # the pictures stand in this order
    ATTACK.run_once(target, prior, [2, 0], 4)
    ATTACK.run_once(target, prior, [2, 0], 3, [other])
    ATTACK.but(lr=0.2).run_once(target, prior, [2, 0], 3)
    assert len(list(here.iterdir())) == 7


def test_lomma_with_a_student(target, here):
    student = distillation.distil(
        target, "vit_cifar", pictures(20, 2), seed=0, model=TINY, epochs=1, batch_size=10, progress=False
    )
    recipe = model_inversion.GANRecipe(epochs=1, seed=0, width=5, channels=2, batch_size=10)
    prior = gans.kedmi(pictures(30, 1), target, recipe, progress=False)
    attack = model_inversion.lomma(candidates=2, steps=3)
    assert same(attack.run_once(target, prior, [1], 0, [student]), attack.run(target, prior, [1], 0, [student]))
