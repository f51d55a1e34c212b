"""Attacks on fleets of real, tiny models: once, and each kept under all that it depends on."""

from dataclasses import replace

import pytest
import torch

from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import (
    ModelInversion,
    distillation,
    gans,
    generator_files,
    generators,
)
from privlab.attacks.model_inversion.cases import Case, searched
from privlab.attacks.model_inversion.results import Result
from privlab.data import Normalise
from privlab.training import Recipe, shadow_models

PARTS = ("images", "targets", "latents", "likelihood", "score", "first")
ATTACK = ModelInversion(pool=40, candidates=4, kept=2, steps=4, lr=0.1, views=5)
TINY = dict(img_size=16, patch_size=8, in_chans=1, embed_dim=16, depth=1, num_heads=1)


def pictures(n, seed):
    rough = 0.5 + 0.15 * torch.randn(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(rough, (16, 16), mode="bilinear").clamp(0, 1)


def make(folder, **changes):
    given = dict(model=TINY, normalise=Normalise((0.5,), (0.25,)), at=(1,), weights=True, folder=folder) | changes
    images = (pictures(24, 0), torch.arange(24) % 3)
    recipe = Recipe(epochs=2, batch_size=8, lr=1e-2)
    return shadow_models.make("vit_cifar", recipe, images, torch.ones(1, 24, dtype=torch.bool), **given)


@pytest.fixture(scope="module")
def fleets(tmp_path_factory):
    """Two, in folders of the same name."""
    root = tmp_path_factory.mktemp("fleets")
    made = [make(root / "one" / "fleet"), make(root / "two" / "fleet", seed=1)]
    for each in made:
        each.train(jobs=1, progress=False)
    return made


@pytest.fixture(scope="module")
def prior(tmp_path_factory):
    return generator_files.save(generators.eigenfaces(pictures(30, 1), 6), tmp_path_factory.mktemp("prior"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    return tmp_path


def four_cases(fleets, prior):
    return [Case(each, 0, at, prior, [2, 0], ATTACK, 3) for each in fleets for at in (None, 1)]


def same(one, other):
    return one.trace == other.trace and all(torch.equal(getattr(one, name), getattr(other, name)) for name in PARTS)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_is_found_is_what_the_attack_itself_finds(fleets, prior, here):
    """On the model of each fleet and of each epoch, none of them like another."""
    found = [searched(each) for each in four_cases(fleets, prior)]
    direct = [
        ATTACK.run(each.model(0, at), generator_files.load(prior), [2, 0], 3) for each in fleets for at in (None, 1)
    ]
    assert all(isinstance(each, Result) for each in found)
    assert all(same(a, b) for a, b in zip(found, direct, strict=True))
    assert len({each.images.sum().item() for each in found}) == 4
    assert found[0].targets.tolist() == [2, 2, 0, 0] and found[0].images.shape == (4, 1, 16, 16)


def test_nothing_is_done_twice(fleets, prior, here, monkeypatch):
    asked = four_cases(fleets, prior)
    found, before = [searched(each) for each in asked], times(here)
    assert len(list((here / "model_inversion").iterdir())) == 4
    monkeypatch.setattr(ModelInversion, "run", lambda *_: pytest.fail("attacked again"))
    assert all(same(searched(each), one) for each, one in zip(asked, found, strict=True)) and times(here) == before


def test_the_key_is_what_the_result_depends_on(fleets, prior, here, tmp_path_factory):
    """And no more: where fleet and generator lie is not in it."""
    one = Case(fleets[0], 0, None, prior, [2, 0], ATTACK, 3)
    other = generator_files.save(generators.eigenfaces(pictures(30, 2), 6), tmp_path_factory.mktemp("other"))
    changed = [
        one._replace(seed=4),
        one._replace(at=1),
        one._replace(m=1),
        one._replace(targets=[0, 2]),  # the pictures stand in this order
        one._replace(fleet=fleets[1]),
        one._replace(generator=other),
        *(
            one._replace(attack=ATTACK.but(**{name: value}))
            for name, value in dict(
                loss="cross_entropy", pool=41, candidates=5, kept=1, steps=5, lr=0.2, betas=(0.5, 0.9), drops=(0.5,),
                share=(0.8, 1.0), views=6, view_share=(0.5, 1.0), realism=0.1, fitted=True, anchor=0.1,
            ).items()
        ),
    ]  # fmt: skip
    assert len({each.run.path for each in [one, *changed]}) == 1 + len(changed)
    moved = make(tmp_path_factory.mktemp("moved") / "elsewhere")
    copied = generator_files.save(generator_files.load(prior), tmp_path_factory.mktemp("copied"))
    for alike in (one._replace(fleet=moved), one._replace(generator=copied), one._replace(generator=prior + "/")):
        assert alike.run.path == one.run.path
    assert one.run.path.parent == here / "model_inversion"


def test_lomma_goes_to_a_worker_with_its_students(fleets, here, tmp_path_factory):
    target = fleets[0].model(0)
    rest = dict(model=TINY, epochs=1, batch_size=10, progress=False)
    students = [distillation.distil(target, "vit_cifar", pictures(20, 2), seed=s, **rest) for s in (0, 1)]
    recipe = model_inversion.GANRecipe(epochs=1, seed=0, width=5, channels=2, batch_size=10)
    prior = gans.kedmi(pictures(30, 1), target, recipe, progress=False)
    attack = model_inversion.lomma(candidates=2, steps=3)
    one = Case(fleets[0], 0, None, generator_files.save(prior), [1], attack, 0, students)
    assert same(searched(one), attack.run(target, prior, [1], 0, [distillation.load(each) for each in students]))
    less = one._replace(beside=students[:1])
    none = one._replace(beside=())
    assert len({each.run.path for each in (one, less, none)}) == 3
    copied = distillation.distil(
        target, "vit_cifar", pictures(20, 2), seed=0, root=tmp_path_factory.mktemp("copied"), **rest
    )
    assert less._replace(beside=[copied]).run.path == less.run.path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(targets=[3]), "targets: class 3 is none of the target's; it has 0 to 2"),
        (dict(m=1), "m=1 is no model of this fleet; give 0 to 0"),
        (dict(at=3), "at=3 is no epoch whose weights were kept"),
    ],
)
def test_what_cannot_be_attacked_fails_with_its_reason(fleets, prior, here, change, says):
    with pytest.raises(ValueError, match=says):
        searched(four_cases(fleets, prior)[0]._replace(**change))


def test_the_attack_is_where_the_fleet_is(fleets, prior, here, monkeypatch):
    def attacked(self, model, generator, *_):
        raise KeyboardInterrupt(next(model.parameters()).device.type, generator.mean.device.type)

    monkeypatch.setattr(ModelInversion, "run", attacked)
    with pytest.raises(KeyboardInterrupt, match=r"'meta', 'meta'"):
        searched(Case(replace(fleets[0], device="meta"), 0, None, prior, [2, 0], ATTACK, 3))
