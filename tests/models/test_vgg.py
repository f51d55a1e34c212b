"""The narrow VGG: timm's own network at other widths."""

import torch
from torch import nn

from privlab import models


def test_it_is_a_chain_of_two_convolutions_at_each_width():
    model = models.build("vgg_narrow", 7, in_chans=1)
    convolutions = [m for m in model.features if isinstance(m, nn.Conv2d)]
    assert [(m.in_channels, m.out_channels) for m in convolutions] == [
        (1, 16), (16, 16), (16, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128)
    ]  # fmt: skip
    assert all(m.kernel_size == (3, 3) and m.stride == (1, 1) for m in convolutions)
    assert sum(isinstance(m, nn.BatchNorm2d) for m in model.features) == 8
    assert model(torch.rand(2, 1, 32, 32)).shape == (2, 7) and sum(p.numel() for p in model.parameters()) < 3e5
