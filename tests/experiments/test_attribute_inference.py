"""Attributes: four parts that share nothing, probes that are judged on what they were not fitted on, and what training adds."""

from unittest.mock import Mock

import numpy as np
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


def test_shares_of_epochs_are_those_where_the_swin_is_ahead_and_where_it_is_so_by_more_than_untrained(monkeypatch):
    swin = dict(
        probe=np.array([2, 2, 2, -1, 2, 2]),  # epoch by epoch of the probe, on the trained network
        fresh=np.array([1, 1, 3, 3, 3, 3]),  # and on one that is not
        victim=np.array([1, 2, 3, 0.5, -1, 4]),  # before the victim's training, and behind its epochs 1 to 5
        level=np.arange(6),
    )
    monkeypatch.setattr(measured, "course", Mock(side_effect=[dict.fromkeys(swin, np.zeros(6)), swin]))
    monkeypatch.setattr(measured, "at_the_end", lambda *_: ())
    monkeypatch.setattr(measured.Game, "victim", lambda *_: Mock(at=range(1, 6)))
    monkeypatch.setattr(measured.representations, "stages", lambda _: ["a", "last"])
    monkeypatch.setattr(measured.representations, "read", lambda *_: {"a": torch.rand(400, 2)})
    settings = dict(families="small", images=400, recipe={}, every=1, probe_epochs=5, widths=())
    values = dict(measured.architectures.measure(0, **settings))
    told = [v for name, v in values.items() if name.startswith("share_of_epochs_ahead")]  # of both, then beyond
    assert told == pytest.approx([5 / 6, 4 / 5, 2 / 6, 3 / 5])
