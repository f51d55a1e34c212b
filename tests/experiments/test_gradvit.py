"""Batches under GradViT: what a repeat draws, and what its rows are."""

import torch

from privlab import models
from privlab.course.lab_07 import experiments as gradvit
from privlab.course.lab_08 import experiments_without_layers as layer_gradients
from privlab.experiments.victims import batch_family
from privlab.experiments.victims import batches as batch_inversion
from privlab.leak import observe


def test_batches_are_nested_of_different_classes_and_new_in_every_repeat():
    eight, classes = batch_inversion.photographs(8, batch_inversion.fresh_number(0))
    two, _ = batch_inversion.photographs(2, batch_inversion.fresh_number(0))
    assert torch.equal(eight[:2], two) and len(set(classes.tolist())) == 8
    firsts = torch.cat([batch_inversion.photographs(1, batch_inversion.fresh_number(n))[0] for n in range(8)])
    assert len(firsts.unique(dim=0)) == 8


def test_large_batches_share_no_photograph_with_their_neighbours():
    numbers = [batch_inversion.fresh_number(2_000 + n) for n in range(5)]
    images = torch.cat([batch_inversion.photographs(4, n, large=True)[0][:, :, ::28, ::28] for n in numbers])
    assert images.shape == (20, 3, 8, 8) and len(images.unique(dim=0)) == 20


def test_rows_of_the_ablation_add_one_term_each_and_registration_last():
    rows = {name: {t.name for t in attack.terms} for name, attack in gradvit.ablation_rows(10).items()}
    common = {"gradients", "pixels", "smoothness"}
    assert rows["grad"] == common
    assert rows["plus_image"] == rows["plus_schedule"] == common | {"statistics"}
    assert rows["plus_patch"] == common | {"statistics", "patches"}
    assert rows["plus_registration"] == rows["plus_patch"] | {"registration"}
    early = {name: [t.name for t in attack.terms if t.weigh(0.1)] for name, attack in gradvit.ablation_rows(10).items()}
    assert "statistics" in early["plus_image"] and "statistics" not in early["plus_schedule"]


def test_selections_are_thirds_and_parts():
    model = models.build("vit_cifar", embed_dim=48, depth=3)
    names = {name for name, _ in model.named_parameters()}
    chosen = {key: set(value) for key, value in layer_gradients.selections(model).items()}
    gone = [names - chosen[f"without_{third}"] for third in layer_gradients.THIRDS]
    assert all(len({name.split(".")[1] for name in some}) == 1 for some in gone) and len(set.union(*gone)) == sum(
        map(len, gone)
    )
    assert chosen["all"] == names and not chosen["msa"] & chosen["mlp"]


def test_a_family_holds_its_batch_and_the_guess_is_one_for_all():
    number = batch_inversion.fresh_number(0)
    images, classes = batch_inversion.photographs(2, number)
    model = batch_inversion.vit(number, 1.0, width=256)
    _, start, known = batch_family.family(model, observe(model, images, classes), images, number)
    assert start.shape == images.shape
    torch.testing.assert_close(known["nearest_point"], images.double(), atol=1e-3, rtol=0)
    torch.testing.assert_close(known["guess"][0], known["guess"][1])


def test_a_repeat_comes_out_alike_again_and_another_one_does_not():
    values = [dict(gradvit.exchanged_patches(n, "smoke")) for n in (0, 0, 1)]
    assert values[0] == values[1] and not set(values[0].values()) & set(values[2].values())


def test_a_long_search_is_taken_from_the_store(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    monkeypatch.setattr(batch_inversion, "LONG", 2)
    number = batch_inversion.fresh_number(0)
    images, classes = batch_inversion.photographs(2, number)
    model = batch_inversion.vit(number, 1.0, width=48)
    leak, attack = observe(model, images, classes), batch_inversion.gradvit(2).without("statistics")
    one = batch_inversion.search(attack, model, leak, number)
    again = batch_inversion.search(attack, model, leak, number)
    other = batch_inversion.search(attack, model, leak.only(models.parts.attention(model)), number)
    assert torch.equal(one.images, again.images) and one.seconds == again.seconds
    assert not torch.equal(one.images, other.images)
    assert len([*tmp_path.rglob("result*")]) == 2
