"""Which parameters belong to what: groups of every family, blocks, words for parts, names of what is sent."""

import pytest
import torch

from privlab import models
from privlab.leak import Leak
from privlab.models import parts


@pytest.mark.parametrize(
    ("name", "expected", "blocks"),
    [
        ("vit_base_patch16_224", dict(stem=4, attention=48, mlp=48, norm=48, head=4), 12),  # Zhang et al. 2024, Table 6
        ("resnet50", dict(stem=3, conv=52, norm=104, head=2), 16),
        ("swin_tiny_patch4_window7_224", dict(stem=4, attention=60, mlp=48, conv=3, norm=54, head=4), 12),
        ("convnext_tiny", dict(stem=4, mlp=90, conv=42, norm=42, head=4), 18),
        ("deit_tiny_distilled_patch16_224", dict(stem=5, attention=48, mlp=48, norm=48, head=6), 12),
        ("ir152", dict(stem=4, conv=153, norm=206, head=8), 50),  # a PReLU is its convolution's
    ],
)
def test_a_family_has_these_groups(name, expected, blocks):
    with torch.device("meta"):
        model = models.build(name)
    groups, names = parts.group(model), [n for n, _ in model.named_parameters()]
    assert {part: len(names) for part, names in groups.items()} == expected
    assert "norm.weight" in groups["head"] or "norm.weight" not in names
    assert sorted(n for names in groups.values() for n in names) == sorted(names)
    assert len(parts.blocks(model)) == blocks
    for first, last in ((1, blocks), (2, 3)):
        inside = tuple(f"{name}." for name in parts.blocks(model)[first - 1 : last])
        assert parts.depth(model, first, last) == [n for n in names if n.startswith(inside)]
    with pytest.raises(ValueError, match=f"first=0, last=4: .* has the blocks 1 to {blocks}"):
        parts.depth(model, 0, 4)


SMALL = dict(layers=(1, 1, 1, 1), channels=(8, 8, 12, 16))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("vit_cifar", dict(depth=2), ["blocks.0.mlp.fc1", "blocks.1.mlp.fc1"]),
        # two convolutions a block, the second of which meets the shortcut before its ReLU; three in a bottleneck
        ("resnet18", SMALL, ["bn1", *(f"layer{stage}.0.bn1" for stage in range(1, 5))]),
        ("resnet50", SMALL, ["bn1", *(f"layer{stage}.0.bn{i}" for stage in range(1, 5) for i in (1, 2))]),
    ],
)
def test_what_stands_before_activations(name, changes, expected):
    found = parts.names(models.build(name, **changes), "activation")
    assert found == [f"{layer}.{leaf}" for layer in expected for leaf in ("weight", "bias")]


def test_names_are_of_what_is_sent_in_the_models_order():
    """A frozen position embedding is in no message, so leak.without must not be asked for it."""
    model = models.build("deit_tiny_distilled_patch16_224", depth=1)
    groups = parts.group(model)
    assert parts.names(model, "head", "position") == ["cls_token", "pos_embed", "dist_token", *groups["head"]]
    assert all(parts.names(model, word) == groups[word] for word in parts.PARTS if word != "conv")
    model.pos_embed.requires_grad_(False)
    sent = {name: p for name, p in model.named_parameters() if p.requires_grad}
    left = Leak(sent, 1, (3, 32, 32)).without(parts.names(model, "stem", "norm"))
    assert {*left.grads} == {*parts.names(model, "attention", "mlp", "head")}


def test_words_that_do_not_fit():
    with pytest.raises(ValueError, match="words: 'atention' is no part of a model; did you mean 'attention'"):
        parts.names(models.build("resnet18"), "atention")
    with pytest.raises(ValueError, match="SwinTransformer learns nothing in 'position'"):  # its biases are attention's
        parts.names(models.build("swin_cifar"), "position")
