"""Skips cut as a defence: the paper's four against `zoo.build`'s cuts, and each in a training."""

import copy

import pytest
import torch
from small_training import PIXELS, build, fit
from weights import same

from privlab import models, training
from privlab.defences import architecture

CASES = [
    (architecture.rolss(), "resnet18", [(4, 0)]),
    (architecture.rolss(), "densenet121", [(4, 0)]),
    (architecture.rolss(), "ir152", [(4, 0)]),
    (architecture.rolss(), "vit_cifar", [(1, 0)]),
    (architecture.rolss_plus(), "resnet18", [(4, 0), (3, 0, 0.1)]),
    (architecture.ssf(), "resnet18", [(4, 0.2)]),
    (architecture.ssf(), "densenet121", [(4, 0.01)]),
    (architecture.ssf(0.5), "densenet121", [(4, 0.5)]),
]


@pytest.mark.parametrize(("defence", "name", "cuts"), CASES)
def test_a_defence_in_place_is_the_cut_of_the_zoo(defence, name, cuts):
    """Weights, form and answers, to the bit; and a second time it finds nothing left to do."""
    model, expected = build(name), build(name, skips=cuts)
    assert defence.shape(model, 0) and same(model, expected) and str(model) == str(expected)
    assert torch.equal(training.logits(model, PIXELS), training.logits(expected, PIXELS))
    assert not torch.equal(training.logits(model, PIXELS), training.logits(build(name), PIXELS))
    assert not defence.shape(model, 1) and not defence.shape(copy.deepcopy(model), 7) and same(model, expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit(build(), architecture.ssf(1.2)), "k=1.2 is no number in"),
        (lambda: fit(build(), architecture.tts(2)), "full=2 of 2 epochs leave none without skips; give fewer"),
        (lambda: fit(build("vit_cifar"), architecture.rolss_plus()), "has shortcuts in 1 of its stages, not 2"),
        (lambda: fit(models.build("vgg_narrow"), architecture.rolss()), "VGG has no skip connections"),
        (lambda: fit(build("vit_cifar"), architecture.ssf()), "k=0.2: the shortcuts of VisionTransformer can be"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
