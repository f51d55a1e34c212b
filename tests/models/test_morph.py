"""The morph equals timm at both ends; between them it counts, orders and differs as Table 9 prints it."""

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


def carry(model: morph.Morph, stock: nn.Module) -> morph.Morph:
    """Put the weights of timm's resnet50 or convnext_tiny into step 1 or 14, one after the other; in ours a shortcut comes first."""
    own, theirs = model.state_dict(), stock.state_dict()
    blocks = list(dict.fromkeys(".".join(name.split(".")[:2]) for name in theirs))
    order = sorted(theirs, key=lambda name: (blocks.index(".".join(name.split(".")[:2])), "downsample" not in name))
    model.load_state_dict({name: theirs[at].reshape(own[name].shape) for name, at in zip(own, order, strict=True)})
    return model


@pytest.mark.parametrize("step, name, of_depths", [(1, "resnet50", "layers"), (14, "convnext_tiny", "depths")])
def test_both_ends_are_timms_in_output_and_in_gradients(step, name, of_depths, stirred):
    depths = (1, 2, 1, 1)  # in full they are only slower
    stock = stirred(timm.create_model(name, num_classes=10, **{of_depths: depths}))
    still = dict(layer_scale=1.0, drop_path=0.0) if step == 14 else {}
    ours = carry(morph.build(step, depths=depths, **still), stock)
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    assert stock(images).std() > 1e-3
    torch.testing.assert_close(ours(images), stock(images), rtol=1e-5, atol=1e-5)
    stock.normalise = ours.normalise
    one, other = (observe(model, images, torch.tensor([3, 4, 5])) for model in (ours, stock))
    assert len(one.grads) == len(other.grads)
    torch.testing.assert_close(one.norm, other.norm, rtol=1e-4, atol=0)
    torch.testing.assert_close(ours.train()(images), stock.train()(images), rtol=1e-4, atol=1e-4)


COUNTS = (23.528522, 52.88, 59.78, 59.77, 30.72, 25.09, 25.10, 25.10, 25.10, 25.10, 25.04, 25.08, 27.82, 27.827818)


@pytest.mark.parametrize("step", morph.STEPS)
def test_stem_blocks_and_resolutions_are_table_9s(step):
    with torch.device("meta"):
        model, images = morph.build(step), torch.empty(1, 3, 64, 64)
        sides = [model.forward_features(images, stages=stage + 1).shape[-1] for stage in range(4)]
    assert sides == [(8 if 4 <= step <= 7 else 16) // 2**stage for stage in range(4)]
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(COUNTS[step - 1], abs=5e-3)
    table, stem = papers.table("zhang2024_table9").astype(str), model.stem
    for said, part in zip(table[table["step"] == str(step)].to_dict("records"), model.stages, strict=True):
        block = part.blocks[-1]
        convolutions, norms = ([getattr(block, f"{kind}{k}") for k in (1, 2, 3)] for kind in ("conv", "norm"))
        channels = [c.out_channels for c in convolutions]
        if step == 6:  # printed as 96, 384, 96: we read the first as what comes in
            channels[0] = channels[2]
        numbers = dict(repeats=len(part.blocks), stem_kernel=stem.conv.kernel_size[0], stem_stride=stem.conv.stride[0])
        numbers |= {f"conv{k}_kernel": c.kernel_size[0] for k, c in enumerate(convolutions, 1)}
        numbers |= {f"conv{k}_channels": n for k, n in enumerate(channels, 1)}
        assert {name: float(said[name]) for name in numbers} == numbers
        kinds = {type(m) for m in block.modules()}
        activations = sum(isinstance(m, nn.ReLU | nn.GELU) for m in block.modules())
        words = {f"conv{k}_depthwise": c.groups > 1 for k, c in enumerate(convolutions, 1)}
        words["maxpool"], words["stem_activation"] = (not isinstance(m, nn.Identity) for m in (stem.pool, stem.act))
        words |= dict(fewer_activations=activations == 1, fewer_norms=[*map(type, norms)].count(nn.Identity) == 2)
        words |= dict(conv_bias=all(c.bias is not None for c in convolutions), layer_scale=block.scale is not None)
        words |= dict(sep_down=not isinstance(part.downsample, nn.Identity))
        assert {name: said[name] == "yes" for name in words} == words
        assert (nn.GELU if said["activation"] == "GELU" else nn.ReLU) in kinds and activations in (1, 3)
        assert (nn.BatchNorm2d in kinds) == (said["norm"] == "BN")
        assert not words["sep_down"] or part.downsample.conv.kernel_size == part.downsample.conv.stride == (2, 2)


def test_stochastic_depth_rises_to_a_tenth_and_rests_in_eval_mode():
    model, images = morph.build(14, width=0.125), torch.rand(1, 3, 32, 32)
    rates = [getattr(block.drop_path, "drop_prob", 0.0) for stage in model.stages for block in stage.blocks]
    assert len(rates) == 18 and rates[0] == 0 and rates[-1] == pytest.approx(0.1) and rates == sorted(rates)
    assert torch.equal(model(images), model(images))


def test_the_digits_of_a_pattern_are_behind_first_second_and_addition():
    block = morph.build(9, activations="011", **SMALL).stages[0].blocks[0]
    assert [isinstance(act, nn.Identity) for act in (block.act1, block.act2, block.act3)] == [True, False, False]


@pytest.mark.parametrize("step, draw, variance", [(14, "he", 2.0), (1, "pytorch", 1 / 3)])
def test_draws_are_alike_in_every_step(step, draw, variance):
    """Variance over fan-in, the fan-in of a depthwise convolution being its own window."""
    for module in morph.build(step, depths=(1, 1, 1, 1), draw=draw).modules():
        if isinstance(module, nn.Conv2d):
            assert module.weight.var().item() == pytest.approx(variance / module.weight[0].numel(), rel=0.1)
            assert module.bias is None or draw == "pytorch" or not module.bias.any()


def test_the_zoo_knows_it_by_name_and_parts_by_theirs():
    made = dict(seed=3, activations="110", **SMALL)
    assert same(models.build("morph_10", 7, **made), morph.build(10, 7, **made))
    groups = parts.group(last := morph.build(14, **SMALL))
    assert set(groups) == {"stem", "conv", "norm", "head"}
    assert {"fc.weight", "fc.bias", "norm.weight"} <= set(groups["head"]) and "stem.conv.weight" in groups["stem"]
    assert parts.blocks(last) == [f"stages.{k}.blocks.0" for k in range(4)]


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
