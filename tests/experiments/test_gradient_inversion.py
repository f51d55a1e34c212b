"""Lab 04's experiments: what is compared is of one photograph and one draw of weights, and repeats have nothing in common."""

from types import SimpleNamespace

import pytest
import torch

from privlab import data
from privlab.course.lab_04 import experiments as lab
from privlab.experiments.trial import Trial


@pytest.fixture
def searches(monkeypatch):
    """Instead of a search, what it was asked to do."""
    asked = []

    def search(trial, attack, model, leak=None, **how):
        leak = leak or trial.leak(model)
        asked.append(SimpleNamespace(trial=trial, attack=attack, model=model, leak=leak))
        answer = SimpleNamespace(images=torch.rand(1, *leak.image_shape), labels=trial.labels, score=1.0)
        answer.snapshots = [answer]
        return answer

    monkeypatch.setattr(Trial, "search", search)
    return asked


def test_architectures_are_attacked_on_one_photograph_from_one_noise(searches):
    values = dict(lab.architectures(3, "smoke"))
    names = [type(each.model).__name__ for each in searches]
    assert names == ["ResNet", "SwinTransformer", "VisionTransformer", "ConvNeXt"]
    assert values["picture[photograph_and_reconstructions]"].shape == (32, 5 * 32, 3)
    photograph, label = data.load("cifar10", "test").one(2_003)
    for each in searches:
        assert each.trial.number == 2_003 and each.trial.images.equal(photograph)
        assert each.leak.labels.equal(label) and not each.model.training
        assert each.leak.grads.keys() == {name for name, _ in each.model.named_parameters()}


def test_no_lab_has_shown_a_photograph_of_a_repeat():
    shown = data.load("cifar10_samples").pixels
    pixels = torch.cat([Trial.unseen(repeat).images for repeat in (*range(8), *range(1_000, 1_012))])
    assert not (shown[:, None].float() / 255 == pixels).all((2, 3, 4)).any() and len(pixels.unique(dim=0)) == 20


def test_adam_and_gauss_newton_have_as_many_passes(searches):
    dict(lab.second_order_full(0, "smoke"))
    assert len(searches) == 2 * 3
    for adam, newton in zip(searches[::2], searches[1::2], strict=True):
        assert newton.attack.passes == 2 * adam.attack.steps and adam.model is newton.model
