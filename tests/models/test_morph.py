"""The morph equals timm at both ends; between them it counts, orders and differs as Table 9 prints it."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
import timm
import torch
from torch import nn
from weights import same

from privlab import models
from privlab.leak import observe
from privlab.ledger import papers
from privlab.models import morph, parts

SMALL = dict(width=0.125, depths=(1, 1, 1, 1))
each_step = pytest.mark.parametrize("step", morph.STEPS)


def shaken(model: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight and statistic drawn anew, so that none is at a value which hides another (timm's ResNet begins with zeros)."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith(("running_var", "gamma")) or (value.is_floating_point() and value.ndim == 1):
                value.copy_(torch.rand(value.shape, generator=draw) + 0.5)
            elif value.is_floating_point():
                value.copy_(torch.randn(value.shape, generator=draw) * value[0].numel() ** -0.5)
    return model


RENAMED = {  # names of ResNet and ConvNeXt -> ours
    r"^conv1\.": "stem.conv.",
    r"^bn1\.": "stem.norm.",
    **{rf"^layer{k + 1}\.(\d+)\.": rf"stages.{k}.blocks.\1." for k in range(4)},
    r"^(stages.*)\.bn(\d)\.": r"\1.norm\2.",
    r"^(stages.*blocks.*)\.downsample\.0\.": r"\1.shortcut.conv.",
    r"^(stages.*blocks.*)\.downsample\.1\.": r"\1.shortcut.norm.",
    r"^stem\.0\.": "stem.conv.",
    r"^stem\.1\.": "stem.norm.",
    r"^(stages\.\d+)\.downsample\.0\.": r"\1.downsample.norm.",
    r"^(stages\.\d+)\.downsample\.1\.": r"\1.downsample.conv.",
    r"\.conv_dw\.": ".conv1.",
    r"(blocks\.\d+)\.norm\.": r"\1.norm1.",
    r"\.mlp\.fc1\.": ".conv2.",
    r"\.mlp\.fc2\.": ".conv3.",
    r"\.gamma$": ".scale",
    r"^head\.(norm|fc)\.": r"\1.",
}


def carry(model: morph.Morph, stock: nn.Module) -> morph.Morph:
    """Put the weights of timm's resnet50 or convnext_tiny into step 1 or 14, by name; returns the model."""
    own, renamed = model.state_dict(), {}
    for name, value in stock.state_dict().items():
        for old, new in RENAMED.items():
            name = re.sub(old, new, name)
        renamed[name] = value.reshape(own[name].shape)
    model.load_state_dict(renamed)
    return model


@pytest.mark.parametrize("step, name", [(1, "resnet50"), (14, "convnext_tiny")])
def test_both_ends_are_timms_in_output_and_in_gradients(step, name):
    stock = shaken(timm.create_model(name, num_classes=10)).eval()
    ours = carry(morph.build(step, **(dict(layer_scale=1.0, drop_path=0.0) if step == 14 else {})), stock)
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    assert stock(images).std() > 1e-3
    torch.testing.assert_close(ours(images), stock(images), rtol=1e-5, atol=1e-5)
    stock.normalise = ours.normalise
    one, other = (observe(model, images, torch.tensor([3, 4, 5])) for model in (ours, stock))
    assert len(one.grads) == len(other.grads)
    torch.testing.assert_close(one.norm, other.norm, rtol=1e-4, atol=0)
    torch.testing.assert_close(ours.train()(images), stock.train()(images), rtol=1e-4, atol=1e-4)


COUNTS = (23.528522, 52.88, 59.78, 59.77, 30.72, 25.09, 25.10, 25.10, 25.10, 25.10, 25.04, 25.08, 27.82, 27.827818)


def printed(step: int, stage: int) -> dict:
    table = papers.table("zhang2024_table9").astype(str)
    return table[(table["step"] == str(step)) & (table["stage"] == str(stage + 1))].iloc[0].to_dict()


@each_step
def test_the_blocks_are_table_9s(step):
    with torch.device("meta"):
        model = morph.build(step)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(COUNTS[step - 1], abs=5e-3)
    for stage, part in enumerate(model.stages):
        said, block = printed(step, stage), part.blocks[-1]
        assert len(part.blocks) == int(float(said["repeats"]))
        convolutions = [block.conv1, block.conv2, block.conv3]
        assert [c.kernel_size[0] for c in convolutions] == [int(float(said[f"conv{k}_kernel"])) for k in (1, 2, 3)]
        assert [c.groups > 1 for c in convolutions] == [said[f"conv{k}_depthwise"] == "yes" for k in (1, 2, 3)]
        channels = [int(float(said[f"conv{k}_channels"])) for k in (1, 2, 3)]
        if step == 6:  # printed as 96, 384, 96: we read the first as what comes in
            channels[0] = channels[1]
        assert [c.out_channels for c in convolutions] == channels
        kinds = {type(m) for m in block.modules()}
        assert (nn.GELU if said["activation"] == "GELU" else nn.ReLU) in kinds
        assert (nn.BatchNorm2d in kinds) == (said["norm"] == "BN")
        count = sum(isinstance(m, nn.ReLU | nn.GELU) for m in block.modules())
        assert count == (1 if said["fewer_activations"] == "yes" else 3)
        norms = [block.norm1, block.norm2, block.norm3]
        assert sum(not isinstance(m, nn.Identity) for m in norms) == (1 if said["fewer_norms"] == "yes" else 3)
        assert all((c.bias is not None) == (said["conv_bias"] == "yes") for c in convolutions)
        assert (block.scale is not None) == (said["layer_scale"] == "yes")
        assert isinstance(part.downsample, nn.Identity) == (said["sep_down"] != "yes")
        if said["sep_down"] == "yes":
            assert part.downsample.conv.kernel_size == part.downsample.conv.stride == (2, 2)


@each_step
def test_stems_are_table_9s_and_resolutions_follow(step):
    said, images, model = printed(step, 0), torch.rand(1, 3, 64, 64), morph.build(step, **SMALL)
    sides, stem = [model.forward_features(images, stages=stage + 1).shape[-1] for stage in range(4)], model.stem
    assert sides == [(8 if 4 <= step <= 7 else 16) // 2**stage for stage in range(4)]
    assert stem.conv.kernel_size[0] == int(float(said["stem_kernel"]))
    assert stem.conv.stride[0] == int(float(said["stem_stride"]))
    assert isinstance(stem.pool, nn.MaxPool2d) == (said["maxpool"] == "yes")
    assert isinstance(stem.act, nn.Identity) == (said["stem_activation"] == "no")


def test_stochastic_depth_rises_to_a_tenth_and_rests_in_eval_mode():
    model, images = morph.build(14, width=0.125), torch.rand(1, 3, 32, 32)
    rates = [getattr(block.drop_path, "drop_prob", 0.0) for stage in model.stages for block in stage.blocks]
    assert len(rates) == 18 and rates[0] == 0 and rates[-1] == pytest.approx(0.1) and rates == sorted(rates)
    assert torch.equal(model(images), model(images))


@pytest.mark.parametrize("pattern", ["100", "011"])
def test_patterns_of_figure_8(pattern):
    block = morph.build(9, activations=pattern, **SMALL).stages[0].blocks[0]
    there = "".join(str(int(not isinstance(act, nn.Identity))) for act in (block.act1, block.act2, block.act3))
    assert there == pattern


def test_a_block_does_what_equation_and_figure_say():
    """By hand: act3(x + norm3(conv3(act2(norm2(conv2(act1(norm1(conv1(x)))))))), for the block of step 8."""
    model = shaken(morph.build(8, **SMALL), 3).double()
    block = model.stages[0].blocks[0]
    y = x = torch.randn(1, 12, 8, 8, generator=torch.Generator().manual_seed(4)).double()
    for k, last in ((1, False), (2, False), (3, True)):
        convolution, norm = getattr(block, f"conv{k}"), getattr(block, f"norm{k}")
        y = nn.functional.conv2d(y, convolution.weight, padding=convolution.padding, groups=convolution.groups)
        y = (y - norm.running_mean[:, None, None]) / (norm.running_var[:, None, None] + 1e-5).sqrt()
        y = y * norm.weight[:, None, None] + norm.bias[:, None, None]
        y = y if last else y.clamp(min=0)
    torch.testing.assert_close(block(x), (x + y).clamp(min=0))


@pytest.mark.parametrize("step, draw, variance", [(14, "he", 2.0), (1, "pytorch", 1 / 3)])
def test_draws_are_alike_in_every_step(step, draw, variance):
    """Variance over fan-in, the fan-in of a depthwise convolution being its own window."""
    for module in morph.build(step, depths=(1, 1, 1, 1), draw=draw).modules():
        if isinstance(module, nn.Conv2d):
            assert module.weight.var().item() == pytest.approx(variance / module.weight[0].numel(), rel=0.1)
            assert module.bias is None or draw == "pytorch" or not module.bias.any()


def test_the_zoo_knows_it_by_name_and_parts_by_theirs():
    made = dict(seed=3, activations="110", **SMALL)
    model = models.build("morph_10", 7, **made)
    assert same(model, morph.build(10, 7, **made)) and model.fc.out_features == 7
    groups = parts.group(morph.build(14, **SMALL))
    assert set(groups) == {"stem", "conv", "norm", "head"}
    assert {"fc.weight", "fc.bias", "norm.weight"} <= set(groups["head"]) and "stem.conv.weight" in groups["stem"]
    assert parts.blocks(morph.build(14, **SMALL)) == [f"stages.{k}.blocks.0" for k in range(4)]


@pytest.mark.parametrize("step", range(2, 15))
def test_each_step_says_what_it_changes_and_changes_what_table_9_marks(step):
    marked = set(printed(step, 3)["changed"].split()) | set(printed(step, 0)["changed"].split())
    before, after = morph.STEPS[step - 1], morph.STEPS[step]
    words = dict(stem="convolution of the stem" if step == 4 else "", repeats="blocks", block="", maxpool="pooling")
    words |= dict(stem_activation="activation in the stem", activation="kind of activation", fewer_norms="norms")
    words |= dict(fewer_activations="activations", norm="kind of norm", conv_bias="bias", sep_down="downsampling")
    words |= dict(stochastic_depth="stochastic", layer_scale="layer scale")
    assert all(words[mark] in after.change for mark in marked - {"nan"})
    changed = [f.name for f in fields(before)[3:] if getattr(before, f.name) != getattr(after, f.name)]
    assert after.change.count(" becomes ") == len(changed) >= 1


def test_outline_reads_the_built_network():
    first, last = (morph.build(step, depths=(2, 1, 1, 1)) for step in (1, 14))
    body = ["BatchNorm", "ReLU", "3 x 3, 64 to 64", "BatchNorm", "ReLU", "1 x 1, 64 to 256", "BatchNorm"]
    assert morph.outline(first, stage=0) == ["1 x 1, 256 to 64", *body, "add the shortcut", "ReLU"]
    pointwise = ["1 x 1, 96 to 384, bias", "GELU", "1 x 1, 384 to 96, bias"]
    rest = ["layer scale", "stochastic depth", "add the shortcut"]
    assert morph.outline(last, stage=0) == ["7 x 7 depthwise, 96 to 96, bias", "LayerNorm", *pointwise, *rest]
    assert morph.outline(last, stage=1, block=0)[:2] == ["LayerNorm", "2 x 2, 96 to 192, stride 2, bias"]
    stem = ["7 x 7, 3 to 64, stride 2", "BatchNorm", "ReLU", "maximum of 3 x 3, stride 2"]
    assert morph.outline(first, stage=-1) == stem
    soft = morph.build(1, width=0.1, activation="softplus", sharpness=8.0)
    assert morph.outline(soft).count("softplus of sharpness 8") == 3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: morph.build(15), r"step=15 is none of the fourteen; give 1 \(ResNet-50\) to 14"),
        (lambda: morph.variant(4, activations="11"), r"activations='11' is not known; use '000' or '001'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
