"""Labs 05 and 06 as experiments: repeats of their own, the same start for what is compared, and guesses at no gradient."""

import warnings
from functools import cache

import pytest
import torch

from privlab import data, experiments, metrics
from privlab.attacks.gradient_inversion import presets
from privlab.course.lab_06 import searches as april_searches
from privlab.course.lab_06 import sense_of_place
from privlab.experiments import pictures
from privlab.experiments.victims import april as april_victims

TINY = dict(april_victims.TINY, position_std=1.0)


@cache
def yielded(name):
    values, images = experiments.find(name).collected(0, "smoke")
    return values, images


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path_factory.getbasetemp() / "april_store"))


def test_the_guesses_look_at_no_gradient_and_at_no_photograph_under_attack():
    truth, _ = data.load("cifar10", "test").one(0)
    values, _ = yielded("april_by_optimisation.cifar10")
    mean = torch.tensor(data.load("cifar10", "train").pixels.numpy().mean(0)).float()[None] / 255
    assert values["psnr[cifar10, mean_photograph]"] == pytest.approx(metrics.psnr(mean, truth).item(), abs=1e-4)
    assert values["psnr[cifar10, grey]"] == pytest.approx(
        metrics.psnr(torch.full_like(truth, 0.5), truth).item(), abs=1e-4
    )


def test_all_attacks_begin_with_the_same_noise_and_differ_at_the_end():
    values, _ = yielded("april_by_optimisation.cifar10")
    assert len({values[f"psnr[{name}, tenth_0]"] for name in ("april", "dlg", "tag")}) == 1
    assert len({values[f"psnr[cifar10, {name}]"] for name in april_searches.FOUR}) == 4


def test_a_repeat_has_its_own_photograph_weights_and_noise():
    models = [april_victims.build(n, **TINY) for n in (0, 0, 1)]
    heads = [m.blocks[0].attn.qkv.weight for m in models]
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])
    one, other = (april_victims.observed(n, victim=TINY)[1]["head.weight"] for n in (0, 1))
    assert not torch.equal(one, other)
    noise = [torch.randn(8, generator=torch.Generator().manual_seed(n + april_victims.BEGIN)) for n in (0, 1)]
    assert not torch.equal(*noise)


def test_batches_are_of_different_classes_and_of_different_photographs():
    labels = data.load("cifar10", "test").labels
    taken = [april_victims.batch(n, 4) for n in range(30)]
    assert all(len({int(labels[i]) for i in places}) == 4 for places in taken)
    assert len({i for places in taken for i in places}) == 120


def test_without_the_position_gradient_april_is_dlg_to_the_bit():
    model, leak = april_victims.observed(3, victim=TINY)
    hidden = april_victims.altered("withheld", leak, 3)
    assert "pos_embed" not in hidden.grads and set(leak.grads) - set(hidden.grads) == {"pos_embed"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends = [presets.lu2022(2)[name].run(model, hidden, seed=1, progress=False) for name in ("april", "dlg")]
    assert torch.equal(ends[0].images, ends[1].images)


def test_alpha_by_rule_gives_both_terms_as_far_to_fall():
    model, leak = april_victims.observed(3, victim=TINY)
    attack = presets.april_balanced(2, model, leak, seed=5)
    begin = next(attack.search(model, leak, seed=5)).losses
    alpha = attack.terms[1].weight
    assert begin["position"] + alpha == pytest.approx(begin["gradients"], rel=1e-3)


def test_a_search_ends_with_its_last_images_and_is_not_done_twice(monkeypatch):
    result = april_victims.invert("dlg", 4, 3, victim=TINY)
    assert result.snapshots[-1].step == 3 and torch.equal(april_victims.final(result), result.snapshots[-1].images)
    monkeypatch.setattr(april_victims, "observed", None)
    assert torch.equal(april_victims.invert("dlg", 4, 3, victim=TINY).images, result.images)


def test_a_private_embedding_is_not_the_clients_and_all_else_is():
    model = april_victims.build(0, **TINY)
    other = april_victims.another_embedding(model, 0)
    changed = [
        n
        for (n, p), (_, q) in zip(model.named_parameters(), other.named_parameters(), strict=True)
        if not torch.equal(p, q)
    ]
    assert changed == ["pos_embed"]


def test_shuffled_patches_keep_the_mean_patch():
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    moved = sense_of_place.shuffled(image, 1)
    assert not torch.equal(moved, image)
    torch.testing.assert_close(sense_of_place.patches(moved).mean(0), sense_of_place.patches(image).mean(0))
    mean, rest = sense_of_place.parts(image, image.clone().add(1e-3))
    assert mean == pytest.approx(60, abs=0.1) and rest == pytest.approx(1, abs=1e-4)


def test_the_larger_embedding_has_more_sense_of_place_and_a_smaller_share_of_the_slope():
    truth, label = data.load("cifar10", "test").one(0)
    sense = {}
    for std in (0.02, 1.0):
        model, leak = april_victims.observed(0, victim={**TINY, "position_std": std})
        sense[std] = sense_of_place.measured(model, truth, label, seed=0)[0]
    assert sense[1.0] > 10 * sense[0.02]
    assert sense_of_place.gradient_share(model, leak, seed=0) < 0.1


def test_a_strip_is_bytes_and_a_batch_stands_below():
    row = [torch.zeros(1, 3, 4, 4), torch.ones(1, 3, 4, 4)]
    assert pictures.tiled([row]).shape == (4, 8, 3) and pictures.tiled([row]).dtype == torch.uint8
    assert pictures.tiled([row, torch.cat(row)]).shape == (8, 8, 3)
    assert pictures.tiled([torch.rand(1, 1, 4, 4)]).shape == (4, 4)
