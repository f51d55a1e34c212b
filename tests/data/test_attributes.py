"""Sets with several labels an image, of those that registries hold."""

import pytest
import torch

from privlab import data
from privlab.data import attributes


@pytest.fixture(scope="module")
def orl():
    return attributes.load("orl")


def test_cifar10_has_the_coarse_task_beside_the_class():
    known = attributes.load("cifar10")
    assert known.values["animal"] == ("vehicle", "animal") and len(known.values["class"]) == 10
    assert torch.equal(known["class"], data.load("cifar10").labels)
    animal = {name: known["animal"][known["class"] == k].unique() for k, name in enumerate(known.values["class"])}
    assert {name for name, found in animal.items() if found.tolist() == [1]} == {*attributes.ANIMALS}
    assert known["animal"].double().mean() == 0.6


def test_orl_has_glasses_beside_the_person_and_those_that_were_typed_in_can_be_seen(orl):
    assert len(orl) == 400 and orl["person"].bincount().tolist() == [10] * 40 and int(orl["glasses"].sum()) == 119
    # of a person who takes them off, photographs with glasses have stronger edges around the eyes, their rims, than those without
    eyes = orl.pixels[:, 0, 40:65, 15:77].float()
    edges, glasses = eyes.diff(dim=1).abs().mean((1, 2)).reshape(40, 10), orl["glasses"].reshape(40, 10).bool()
    seen = [edges[k][glasses[k]].mean() > edges[k][~glasses[k]].mean() for k in range(40) if 2 <= glasses[k].sum() <= 8]
    assert sum(seen) >= 6 and len(seen) == 7


def test_a_few_are_drawn_by_the_seed(orl):
    one, two, other = (orl.few(30, seed) for seed in (0, 0, 1))
    assert torch.equal(one.pixels, two.pixels) and not torch.equal(one["person"], other["person"])
    for k in range(30):  # labels stay with their photographs
        row = int((orl.pixels == one.pixels[k]).flatten(1).all(1).nonzero()[0])
        assert orl["person"][row] == one["person"][k] and orl["glasses"][row] == one["glasses"][k]
    assert len(orl.few(1_000, 0)) == 400


def test_what_is_not_known_is_told_with_the_nearest(orl):
    with pytest.raises(ValueError, match="label='glases'.*did you mean 'glasses'"):
        orl["glases"]
