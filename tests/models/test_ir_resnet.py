"""IR ResNets: counts by hand, blocks by hand, the map that image sizes leave."""

import pytest
import torch
import torch.nn.functional as F

from privlab import models
from privlab.models import ir_resnet, parts, representations


def expected(layers, classes, side=4):
    """Parameters, counted by hand; side: of the last map."""
    inside, widths = 64, (64, 128, 256, 512)
    total = 3 * 9 * inside + 2 * inside + inside  # convolution, norm, PReLU
    for depth, out in zip(layers, widths, strict=True):
        for i in range(depth):
            a = inside if i == 0 else out
            total += 2 * a + 9 * a * out + out + 9 * out * out + 2 * out
            total += a * out + 2 * out if a != out else 0  # the projection
        inside = out
    return total + 2 * inside + (inside * side**2 + 1) * 512 + 2 * 512 + (512 + 1) * classes


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_target_of_the_inversion_attacks():
    with torch.device("meta"):
        model = models.build("ir152")
    assert count(model) == expected((3, 8, 36, 3), 1000) == 62_599_848
    assert [len(stage) for stage in model.stages] == [3, 8, 36, 3]
    assert model.stages(torch.empty(1, 64, 64, 64, device="meta")).shape == (1, 512, 4, 4)


@pytest.mark.parametrize(("size", "side"), [(28, 2), (33, 3)])
def test_each_stage_halves_the_map_rounding_up(size, side):
    model = models.build("ir152", 5, layers=(1, 1, 1, 1), in_chans=1, image_size=size)
    x = torch.rand(2, 1, size, size)
    assert model.stages(model.stem(x)).shape == (2, 512, side, side) and model(x).shape == (2, 5)
    assert count(model) == expected((1, 1, 1, 1), 5, side) - 2 * 9 * 64
    assert not model.training and model.normalise.mean == model.normalise.std == (0.5,)


@pytest.mark.parametrize("outside", [4, 8])
def test_a_block_by_hand(outside):
    x, block = torch.randn(2, 4, 6, 6), ir_resnet.Block(4, outside, 2).eval()
    bn1, conv1, _prelu, conv2, bn2 = block.body
    y = F.conv2d(x / (1 + bn1.eps) ** 0.5, conv1.weight, padding=1)
    y = torch.where(y > 0, y, 0.25 * y)  # PReLU begins at a slope of .25
    y = F.conv2d(y, conv2.weight, stride=2, padding=1) / (1 + bn2.eps) ** 0.5
    short = x[:, :, ::2, ::2]
    if outside != 4:
        short = F.conv2d(short, block.shortcut[0].weight) / (1 + bn2.eps) ** 0.5
    torch.testing.assert_close(block(x), y + short)


def test_the_rest_of_the_package_finds_its_parts():
    model = models.build("ir152", 5, layers=(2, 2, 2, 2), image_size=32)
    assert representations.stages(model) == ["stages.0", "stages.1", "stages.2", "stages.3", "last"]
    assert parts.blocks(model)[:3] == ["stages.0.0", "stages.0.1", "stages.1.0"] and len(parts.blocks(model)) == 8
    groups = parts.group(model)
    assert all(name.startswith("stem.") for name in groups["stem"]) and "fc.weight" in groups["head"]
