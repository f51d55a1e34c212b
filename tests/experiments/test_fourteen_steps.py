"""Lab 09's experiments: what is compared is measured on one photograph, and claims find their names."""

import pytest
import torch

from privlab import data
from privlab.attacks.gradient_inversion import objectives
from privlab.course.lab_09 import experiments as fourteen_steps
from privlab.experiments.victims import designs
from privlab.leak import Leak

SMALL = dict(width=0.1, depths=(1, 1, 1, 1))


def test_a_fair_weight_is_one_on_step_9_and_looks_at_public_photographs_alone(monkeypatch):
    trial = designs.trial(0, public=2, **SMALL)
    asked, one = set(), data.Images.one
    monkeypatch.setattr(data.Images, "one", lambda s, i, *how, **a: asked.add((s.split, i)) or one(s, i, *how, **a))
    assert trial.fair(trial.design(9)) == 1.0 and asked == {("train", 0), ("train", 1)}
    eight, nine = (trial.from_grey(trial.design(n)) for n in (8, 9))
    assert trial.fair(trial.design(8)) == float(f"{eight / nine:.1g}") != 1.0


def test_by_tensor_the_smallest_tensor_counts_as_much_as_the_largest():
    sent = {"large": torch.tensor([3e6, 4e6]), "small": torch.tensor([0.0, 2e-6])}
    leak = Leak(sent, 1, (3, 32, 32), torch.tensor([0]), data.NORMALISE["cifar10"])
    crossed = {"large": sent["large"], "small": torch.tensor([2e-6, 0.0])}  # at a right angle to what was sent
    whole, each = objectives.cosine_distance, fourteen_steps.by_tensor(leak)
    assert each(None, sent, leak).item() == pytest.approx(0, abs=1e-6)
    assert each(None, crossed, leak).item() == pytest.approx(0.5)
    assert whole(None, crossed, leak).item() == pytest.approx(0, abs=1e-6)


def test_a_short_search_and_a_long_one_meet_where_they_are_as_long(own_store):
    how = dict(attack="inverting_gradients", steps=2, patience=2, public=1)
    values = dict(fourteen_steps.steps.measure(0, chosen=[8, 9, 10], **how, **SMALL))
    assert all(values[f"psnr[step_{n}]"] == values[f"psnr[step_{n}, long]"] for n in (8, 9, 10))
    assert values["picture[steps]"].shape == (32, 4 * 32, 3)
