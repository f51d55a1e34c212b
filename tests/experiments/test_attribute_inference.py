"""Attributes: four parts that share nothing, probes that are judged on what they were not fitted on, and what training adds."""

import pytest
import torch

from privlab import data
from privlab.course.lab_03 import experiments as measured


@pytest.fixture(scope="module")
def game():
    return measured.game(0, data.attributes.load("cifar10"), 400, "animal", "class")


def test_a_repeat_has_four_parts_of_its_own(game):
    other, pilot = (measured.game(n, data.attributes.load("cifar10"), 400, "animal", "class") for n in (1, -1))
    places = torch.cat(game.parts)
    assert len(places.unique()) == len(places) == 400 and not game.photos.pixels.equal(other.photos.pixels)
    assert game.seed != other.seed and pilot.seed > 0


def test_a_probe_reads_what_is_there_and_nothing_else(game):
    noise = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    told = torch.nn.functional.one_hot(game.hidden, 10).float() + 0.01 * torch.cat([noise, noise[:, :2]], 1)
    assert game.probed(told).accuracy > 0.95 and game.probed(told, "linear").accuracy > 0.95
    assert game.probed(noise, "linear").accuracy < 0.3
    fooled = told.clone()
    fooled[game.parts.shadow_test] = noise[0].repeat(2)[:10]  # what it is judged on says nothing
    assert game.probed(fooled).accuracy < 0.3 and game.probed(fooled, on="victim_train").accuracy > 0.95
