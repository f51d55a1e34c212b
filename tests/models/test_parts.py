"""Words for parts: position and activation by hand, names of what is sent."""

import pytest
import timm
from torch import nn

from privlab import models
from privlab.leak import Leak
from privlab.models import april, morph, parts


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
        # its norms bring their activation along
        ("densenet121", dict(block_config=(1, 1), growth_rate=4), [
            "features.norm0", "features.denseblock1.denselayer1.norm1", "features.denseblock1.denselayer1.norm2",
            "features.transition1.norm", "features.denseblock2.denselayer1.norm1", "features.denseblock2.denselayer1.norm2",
            "features.norm5",
        ]),
    ],
)  # fmt: skip
def test_what_stands_before_activations(name, changes, expected):
    found = parts.activation(models.build(name, **changes))
    assert layers(found) == expected
    assert all(f"{layer}.weight" in found and f"{layer}.bias" in found for layer in expected)


def test_before_activations_in_the_morph():
    """Step 1 has a ReLU behind each norm but the last of a block; step 14 one GELU a block, between the two pointwise layers."""
    small = dict(width=0.25, depths=(1, 1, 1, 1))
    first = [f"stages.{stage}.blocks.0.norm{i}" for stage in range(4) for i in (1, 2)]
    assert layers(parts.activation(morph.build(1, **small))) == ["stem.norm", *first]
    assert layers(parts.activation(morph.build(14, **small))) == [
        f"stages.{stage}.blocks.0.conv2" for stage in range(4)
    ]


def test_softmax_is_no_activation_and_dropout_counts_as_nothing():
    model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(1), nn.Linear(2, 3), nn.Identity(), nn.Dropout(0.5), nn.GELU())
    assert parts.activation(model) == ["2.weight", "2.bias"]
    inner = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), nn.ReLU())
    with pytest.raises(ValueError, match=r"an activation in 0 \(Sequential\) takes what comes from outside of it"):
        parts.activation(inner)
    inner[0][0] = nn.Identity()
    assert parts.activation(inner) == ["0.1.weight", "0.1.bias"]  # the last layer of what stands before


def test_what_cannot_be_traced_is_told():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.act = nn.Linear(2, 2), nn.ReLU()

        def forward(self, x):
            return self.act(self.layer(x)) if x.sum() > 0 else x

    with pytest.raises(ValueError, match=r"the model \(Odd\) cannot be traced, so what stands before its activations"):
        parts.activation(Odd())


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
        (["stem", "attention"], "words: ResNet learns nothing in 'attention'; it has stem, conv, norm, head"),
        (["position"], "words: ResNet learns nothing in 'position'"),
    ],
)
def test_words_that_do_not_fit(words, message):
    with pytest.raises(ValueError, match=message):
        parts.names(models.build("resnet18", **SMALL), *words)
