"""Skips cut as a defence: the paper's four against `zoo.build`'s cuts, and each in a training."""

import copy
from dataclasses import replace

import pytest
import torch
from weights import same

from privlab import models, training
from privlab.defences import architecture
from privlab.models import skip_connections
from privlab.training import Recipe

RECIPE = Recipe(epochs=2, batch_size=8, lr=2e-3)
PIXELS = torch.randint(0, 256, (16, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = torch.arange(16) % 3
BUILD = {
    "resnet18": dict(layers=(1, 1, 2, 2), channels=(8, 8, 12, 16), num_classes=3),
    "densenet121": dict(growth_rate=8, block_config=(1, 1, 2, 3), num_classes=3),
    "ir152": dict(layers=(1, 1, 1, 1), image_size=32, num_classes=3),
    "vit_cifar": dict(embed_dim=16, depth=4, num_heads=2, num_classes=3),
}


def build(name="resnet18", **more):
    return models.build(name, seed=1, **BUILD[name], **more)


def shaped(defence, name="resnet18", epoch=0):
    model = build(name)
    assert defence.shape(model, epoch)
    return model


def fit(model, *defences, recipe=RECIPE):
    return training.fit(model, (PIXELS, LABELS), recipe, seed=0, defences=defences)


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
    model, expected = shaped(defence, name), build(name, skips=cuts)
    assert same(model, expected) and str(model) == str(expected)
    assert torch.equal(training.logits(model, PIXELS), training.logits(expected, PIXELS))
    assert not torch.equal(training.logits(model, PIXELS), training.logits(build(name), PIXELS))
    assert not defence.shape(model, 1) and not defence.shape(copy.deepcopy(model), 7) and same(model, expected)


def test_tts_is_full_first_and_cut_afterwards_with_the_weights_of_the_first_stage():
    forms, weights = [], []
    model = build()

    def watch(epoch):
        forms.append(skip_connections.stages(model))
        weights.append({n: p.clone() for n, p in model.state_dict().items()})

    recipe = replace(RECIPE, epochs=3)
    defences = (architecture.tts(2),)
    training.fit(model, (PIXELS, LABELS), recipe, seed=0, defences=defences, watch=watch)
    assert forms == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3]]

    first, kept = build(), []
    watch = lambda epoch: kept.append(copy.deepcopy(first))  # noqa: E731
    training.fit(first, (PIXELS, LABELS), recipe, seed=0, watch=watch)
    assert same(kept[1], weights[1])  # until then it is the full model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit(build(), architecture.ssf(1.2)), "k=1.2 is no number in"),
        (lambda: fit(build(), architecture.tts(2)), "full=2 of 2 epochs leave none without skips; give fewer"),
        (lambda: fit(build("vit_cifar"), architecture.rolss_plus()), "has shortcuts in 1 of its stages, not 2"),
        (lambda: fit(models.build("vgg_narrow"), architecture.rolss()), "VGG has no skip connections"),
        (
            lambda: fit(build("vit_cifar"), architecture.ssf()),
            "k=0.2: the shortcuts of VisionTransformer can be removed",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
