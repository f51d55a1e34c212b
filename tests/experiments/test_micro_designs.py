"""Lab 10's experiments: switches, stems and norms are what they are called, and effects those of the sixteen values."""

import itertools

import pytest
import torch

from privlab.course.lab_10 import experiments as micro_designs
from privlab.experiments.victims.designs import DesignTrial

TINY = dict(attack="annealed", steps=1, width=0.1, depths=[1, 1, 1, 1], public=1)


@pytest.fixture(autouse=True)
def inverted(monkeypatch):
    """In the place of a search an image that depends on the network and on the weight of smoothness."""

    def inverted(trial, model, weight=1.0, hide=()):
        with torch.no_grad():
            told = model(trial.images)[:, :3, None, None] * weight
        return type("Found", (), {"images": told.sigmoid().expand(1, 3, 32, 32)})

    monkeypatch.setattr(DesignTrial, "inverted", inverted)


def test_patterns_without_an_activation_are_one_network():
    values = dict(micro_designs.activations.measure(0, **TINY))
    assert values["psnr[relu, act_000]"] == values["psnr[gelu, act_000]"]
    assert values["psnr[relu, act_111]"] != values["psnr[gelu, act_111]"]
    assert values["fair_weight[fair, gelu, act_111]"] == 1.0  # the unit
    assert values["psnr[fair, gelu, act_111]"] == values["psnr[gelu, act_111]"]
    assert values["picture[patterns]"].shape == (2 * 32, 9 * 32, 3)


def test_effects_and_interactions_are_those_of_the_sixteen_values():
    values = dict(micro_designs.switches.measure(0, **TINY))
    psnr = {c: values[f"psnr[switches, c{''.join(map(str, c))}]"] for c in micro_designs.COMBINATIONS}
    assert len({*psnr.values()}) > 12

    def mean(**fixed):
        chosen = [v for c, v in psnr.items() if all(c[place] == on for place, on in fixed.values())]
        return sum(chosen) / len(chosen)

    names = [*micro_designs.SWITCHES]
    for i, name in enumerate(names):
        on, off = (mean(a=(i, way)) for way in (1, 0))
        assert values[f"effect[{name}]"] == pytest.approx(on - off)
        assert values[f"psnr[{name}, convnext]"] == pytest.approx(on)
        assert values[f"psnr[{name}, resnet]"] == pytest.approx(off)
    for (i, one), (j, other) in itertools.combinations(enumerate(names), 2):
        swing = [mean(a=(i, on), b=(j, 1)) - mean(a=(i, on), b=(j, 0)) for on in (0, 1)]
        assert values[f"interaction[{one}, {other}]"] == pytest.approx(swing[1] - swing[0])
