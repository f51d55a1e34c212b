"""Words for parts: position and activation by hand, names of what is sent."""

import pytest
import timm

from privlab import models
from privlab.leak import Leak
from privlab.models import april, parts


def layers(names):
    """Parameters' names without their last piece, each once."""
    return list(dict.fromkeys(name.rpartition(".")[0] for name in names))


def test_positions():
    assert parts.position(april.build("b", depth=1)) == ["cls_token", "pos_embed"]
    distilled = timm.create_model("deit_tiny_distilled_patch16_224", depth=1)
    assert parts.position(distilled) == ["cls_token", "pos_embed", "dist_token"]
    assert parts.position(models.build("swin_cifar")) == []  # its biases belong to attention


SMALL = dict(layers=(1, 1, 1, 1), channels=(8, 8, 12, 16))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("vit_cifar", dict(depth=2), ["blocks.0.mlp.fc1", "blocks.1.mlp.fc1"]),
        (
            "swin_cifar",
            dict(depths=(1, 2), num_heads=(3, 6)),
            [f"layers.{place}.mlp.fc1" for place in ("0.blocks.0", "1.blocks.0", "1.blocks.1")],
        ),
        ("convnext_cifar", dict(depths=(1, 1, 1, 1)), [f"stages.{stage}.blocks.0.mlp.fc1" for stage in range(4)]),
        # two convolutions a block, the second of which meets the shortcut before its ReLU; three in a bottleneck
        ("resnet18", SMALL, ["bn1", *(f"layer{stage}.0.bn1" for stage in range(1, 5))]),
        ("resnet50", SMALL, ["bn1", *(f"layer{stage}.0.bn{i}" for stage in range(1, 5) for i in (1, 2))]),
    ],
)
def test_what_stands_before_activations(name, changes, expected):
    found = parts.activation(models.build(name, **changes))
    assert layers(found) == expected
    assert all(f"{layer}.weight" in found and f"{layer}.bias" in found for layer in expected)


def test_names_of_several_parts_in_the_models_order():
    model = models.build("vit_cifar", depth=1)
    assert parts.names(model, "head", "position") == [*parts.position(model), *parts.group(model)["head"]]
    assert set(parts.names(model, "activation")) < set(parts.names(model, "mlp"))
    for word in parts.PARTS:
        if word != "conv":
            assert parts.names(model, word) == parts.group(model)[word]


def test_names_are_of_what_is_sent():
    """A frozen position embedding is in no message, so leak.without must not be asked for it."""
    model = models.build("vit_cifar", depth=1, position="random")
    sent = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert "pos_embed" in parts.stem(model) and "pos_embed" not in parts.names(model, "stem")
    left = Leak(sent, 1, (3, 32, 32)).without(parts.names(model, "stem", "norm"))
    assert {*left.grads} == {*parts.names(model, "attention", "mlp", "head")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["atention"], "words: 'atention' is no part of a model; did you mean 'attention'"),
        (
            ["stem", "attention"],
            "words: ResNet learns nothing in 'attention'; it has stem, conv, norm, head",
        ),
    ],
)
def test_words_that_do_not_fit(words, message):
    with pytest.raises(ValueError, match=message):
        parts.names(models.build("resnet18", **SMALL), *words)
