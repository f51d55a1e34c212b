"""Attributes: four parts that share nothing, probes that are judged on what they were not fitted on, and what training adds."""

import numpy as np
import pytest
import torch

from privlab import data
from privlab.course.lab_03 import experiments as measured
from privlab.experiments.victims.shadow_fleets import FAMILIES

SMALL = dict(epochs=1, batch_size=25)


@pytest.fixture(scope="module")
def game():
    return measured.game(0, data.attributes.load("cifar10"), 400, "animal", "class")


@pytest.fixture(scope="module")
def swin(game):
    return game.victim(FAMILIES["small"]["swin"], SMALL)


def test_a_repeat_has_four_parts_of_its_own(game):
    other = measured.game(1, data.attributes.load("cifar10"), 400, "animal", "class")
    places = torch.cat(game.parts)
    assert len(places.unique()) == len(places) == 400 and not game.photos.pixels.equal(other.photos.pixels)
    assert (
        game.seed != other.seed and measured.game(-1, data.attributes.load("cifar10"), 400, "animal", "class").seed > 0
    )


def test_a_probe_reads_what_is_there_and_nothing_else(game):
    noise = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    told = torch.nn.functional.one_hot(game.hidden, 10).float() + 0.01 * torch.cat([noise, noise[:, :2]], 1)
    assert game.probed(told).accuracy > 0.95 and game.probed(told, "linear").accuracy > 0.95
    assert game.probed(noise, "linear").accuracy < 0.3
    fooled = told.clone()
    fooled[game.parts.shadow_test] = noise[0].repeat(2)[:10]  # what it is judged on says nothing
    assert game.probed(fooled).accuracy < 0.3 and game.probed(fooled, on="victim_train").accuracy > 0.95
    assert len(game.curve(told, 3)) == 3


def test_networks_that_begin_apart_are_compared_by_what_they_learnt_too():
    courses = {"probe": [0.2, 0.3], "fresh": [0.1, 0.1], "victim": [0.1, 0.2, 0.3], "level": [0.0, 0.1, 0.2]}
    resnet = {name: np.array(values) for name, values in courses.items()}
    swin = {name: values + 0.1 * (name != "level") for name, values in resnet.items()}
    values = dict(measured.compared({"resnet": resnet, "swin": swin}))
    assert values["share_of_epochs_ahead[cifar10, probe, swin_less_resnet]"] == 1
    assert values["share_of_epochs_ahead[cifar10, victim, swin_less_resnet]"] == 1
    gap = values["attack_acc_at_matched_gap[cifar10, swin]"] - values["attack_acc_at_matched_gap[cifar10, resnet]"]
    assert gap == pytest.approx(0.1) and values["attack_acc_at_matched_gap[cifar10, resnet]"] == pytest.approx(0.2)
    more = swin | {"probe": np.array([0.4, 0.6]), "victim": np.array([0.2, 0.4, 0.6])}
    values = dict(measured.compared({"resnet": resnet, "swin": more}))
    for whose in ("probe", "victim"):
        assert values[f"share_of_epochs_ahead[cifar10, {whose}, swin_less_resnet, beyond_untrained]"] == 1
