"""IR ResNets: counts by hand, blocks by hand, the map that image sizes leave."""

import pytest
import torch
import torch.nn.functional as F

from privlab import models
from privlab.models import ir_resnet, parts, representations


def expected(layers, classes, widths=(64, 128, 256, 512), chans=3, side=4, embedding=512):
    """Parameters, counted by hand; side: of the last map."""
    inside = widths[0]
    total = chans * 9 * inside + 2 * inside + inside  # convolution, norm, PReLU
    for depth, out in zip(layers, widths, strict=True):
        for i in range(depth):
            a = inside if i == 0 else out
            total += 2 * a + 9 * a * out + out + 9 * out * out + 2 * out
            total += a * out + 2 * out if a != out else 0  # the projection
        inside = out
    total += 2 * inside + (inside * side**2 + 1) * embedding + 2 * embedding
    return total + (embedding + 1) * classes


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_target_of_the_inversion_attacks():
    with torch.device("meta"):
        model = ir_resnet.IR(ir_resnet.LAYERS["ir152"])
    assert count(model) == expected(ir_resnet.LAYERS["ir152"], 1000) == 62_599_848
    assert [len(stage) for stage in model.stages] == [3, 8, 36, 3]
    assert model.stages(torch.empty(1, 64, 64, 64, device="meta")).shape == (1, 512, 4, 4)
    assert model(torch.empty(2, 3, 64, 64, device="meta")).shape == (2, 1000)


def test_the_zoo_builds_it():
    model = models.build("ir18", 7, seed=1, widths=(4, 8, 8, 16), in_chans=1, image_size=32)
    assert not model.training and model.normalise.mean == model.normalise.std == (0.5,)
    assert count(model) == expected((2, 2, 2, 2), 7, (4, 8, 8, 16), 1, 2)
    other = models.build("ir18", 7, seed=2, widths=(4, 8, 8, 16), in_chans=1, image_size=32)
    assert not torch.equal(model.fc.weight, other.fc.weight)
    assert models.build("ir18", 7, widths=(4, 4, 4, 4), bottleneck=3).fc[0].out_features == 3
    with pytest.raises(ValueError, match=r"nearest: .*ir152"):
        models.build("ir151")


@pytest.mark.parametrize(("size", "side"), [(64, 4), (28, 2), (33, 3)])
def test_each_stage_halves_the_map_rounding_up(size, side):
    model = ir_resnet.IR([1, 1, 1, 1], 5, 1, (4, 4, 8, 8), size).eval()
    x = torch.rand(2, 1, size, size)
    assert model.stages(model.stem(x)).shape == (2, 8, side, side)
    assert model(x).shape == (2, 5)
    assert count(model) == expected([1, 1, 1, 1], 5, (4, 4, 8, 8), 1, side)


@pytest.mark.parametrize("outside", [4, 8])
def test_a_block_by_hand(outside):
    torch.manual_seed(0)
    x = torch.randn(2, 4, 6, 6)
    block = ir_resnet.Block(4, outside, 2).eval()
    bn1, conv1, _prelu, conv2, bn2 = block.body
    y = F.conv2d(x / (1 + bn1.eps) ** 0.5, conv1.weight, padding=1)
    y = torch.where(y > 0, y, 0.25 * y)  # PReLU begins at a slope of .25
    y = F.conv2d(y, conv2.weight, stride=2, padding=1) / (1 + bn2.eps) ** 0.5
    short = x[:, :, ::2, ::2]
    if outside != 4:
        short = F.conv2d(short, block.shortcut[0].weight) / (1 + bn2.eps) ** 0.5
    torch.testing.assert_close(block(x), y + short)


def test_dropout_and_training():
    model, x = ir_resnet.IR([2, 2, 2, 2], 5, widths=(4, 4, 8, 8), image_size=32), torch.rand(4, 3, 32, 32)
    maps = model.stages(model.stem(x))
    assert not torch.equal(model.head[:3](maps), model.head[:3](maps))
    F.cross_entropy(model(x), torch.arange(4)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert torch.equal(model.eval()(x), model(x))


def test_the_rest_of_the_package_finds_its_parts():
    model = models.build("ir18", 5, widths=(4, 4, 8, 8), image_size=32)
    assert representations.last_linear(model) == "fc"
    assert representations.stages(model) == ["stages.0", "stages.1", "stages.2", "stages.3", "last"]
    assert parts.blocks(model)[:3] == ["stages.0.0", "stages.0.1", "stages.1.0"] and len(parts.blocks(model)) == 8
    assert all(name.startswith("stem.") for name in parts.stem(model)) and len(parts.stem(model)) == 4
    assert "fc.weight" in parts.group(model)["head"]
