"""A DenseNet's concatenations, cut: a layer is given its predecessor in full and a part of what came before.

In a dense block z_{i+1} = [z_i, g_i(z_i)], where [ , ] joins channels. The shortcut of layer i is what carries z_i over into z_{i+1}. With
a factor k it carries the first round(k n) of the n channels of each earlier feature, so that

    layer i is given   [first round(k n) channels of each feature before its predecessor, its predecessor in full]
    the block gives    the same of all its features, the last layer in full

and with k = 0 what is left is a chain, z_{i+1} = g_i(z_i) (Koh et al. 2024, sections 10.1 and 13.1). The paper says that channels are
limited, not which: that it is the first of each feature, and that the convolutions which read them shrink, is our reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from timm.models.densenet import DenseBlock, DenseNet
from torch import Tensor, nn


class NarrowBlock(DenseBlock):
    """timm's block, with the channels that each layer takes of each feature; the last row is what the block gives."""

    # keep[i][j]: channels of feature j; feature 0 is the block's input, feature j the output of layer j
    keep: list[list[int]]

    def forward(self, init_features: Tensor) -> Tensor:  # (n, channels, h, w)
        features = [init_features]
        for layer, counts in zip(self.values(), self.keep, strict=False):
            features.append(layer(_first(features, counts)))
        return torch.cat(_first(features, self.keep[-1]), 1)


def narrow(model: DenseNet, stage: int, factors: Mapping[int, float]) -> None:
    """Scale shortcuts of dense block `stage`, in place, and shrink what reads them to the channels that are left.

    factors: k in [0, 1] for layers by number, counted from 0; the shortcuts of the others stay as they are. A block is scaled once.
    Weights and BatchNorm state of the channels that are left are kept.
    """
    children: list[Any] = list(model.features.children())
    block: Any = dense_blocks(model)[stage - 1]
    layers, follower = list(block.values()), children[children.index(block) + 1]
    widths = [layers[0].conv1.in_channels, *(layer.conv2.out_channels for layer in layers)]  # of each feature
    keep = [widths[:1]]
    for i, layer in enumerate(layers):
        layer.k = factors.get(i, 1.0)
        share = (round(layer.k * n) for n in widths)
        keep.append([*map(min, keep[i], share), widths[i + 1]])  # what was lost once stays so
    for layer, counts in zip(layers, keep, strict=False):
        _shrink(layer.norm1, layer.conv1, _channels(widths, counts))
    if hasattr(follower, "conv"):
        _shrink(follower.norm, follower.conv, _channels(widths, keep[-1]))
    else:  # the last norm
        head = next(m for m in model.classifier.modules() if isinstance(m, nn.Linear))
        _shrink(follower, head, _channels(widths, keep[-1]))
    block.__class__, block.keep = NarrowBlock, keep


def dense_blocks(model: DenseNet) -> list[DenseBlock]:
    """The dense blocks, one a stage."""
    return [child for child in model.features.children() if isinstance(child, DenseBlock)]


def _first(features: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    return [feature[:, :n] for feature, n in zip(features, counts, strict=True) if n]


def _channels(widths: Sequence[int], counts: Sequence[int]) -> Tensor:
    """Where the first counts[j] channels of each feature stand among all of them."""
    starts = [sum(widths[:j]) for j in range(len(counts))]
    return torch.cat([torch.arange(start, start + n) for start, n in zip(starts, counts, strict=True)])


def _shrink(norm: Any, reader: Any, index: Tensor) -> None:
    """Leave a norm, and the convolution or Linear layer that reads it, only these of their input channels."""
    norm.weight, norm.bias = _part(norm.weight, index, 0), _part(norm.bias, index, 0)
    norm.running_mean, norm.running_var = norm.running_mean[index], norm.running_var[index]
    reader.weight = _part(reader.weight, index, 1)
    norm.num_features = len(index)
    setattr(reader, "in_features" if isinstance(reader, nn.Linear) else "in_channels", len(index))


def _part(weight: nn.Parameter, index: Tensor, dim: int) -> nn.Parameter:
    return nn.Parameter(weight.detach().index_select(dim, index.to(weight.device)), weight.requires_grad)
