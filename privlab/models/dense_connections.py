"""A DenseNet's concatenations, cut: a layer is given its predecessor in full and a part of what came before.

In a dense block z_{i+1} = [z_i, g_i(z_i)], where [ , ] joins channels. The shortcut of layer i is what carries z_i over into z_{i+1}. With
a factor k it carries the first round(k n) of the n channels of each earlier feature, so that

    layer i is given   [first round(k n) channels of each feature before its predecessor, its predecessor in full]
    the block gives    the same of all its features, the last layer in full

and with k = 0 what is left is a chain, z_{i+1} = g_i(z_i) (Koh et al. 2024, sections 10.1 and 13.1). The paper says that channels are
limited, not which: that it is the first of each feature, and that the convolutions which read them shrink, is our reading. Equation 8,
read literally, would take the share k of what is left again at each layer; here, as in the authors' code, each feature is cut once.
"""

from itertools import accumulate
from typing import Any

import torch
from timm.models.densenet import DenseBlock, DenseNet
from torch import Tensor, nn


class NarrowBlock(DenseBlock):
    """timm's block, with the channels that each layer takes of each feature; the last row is what the block gives."""

    # [i][j]: channels of feature j; feature 0 is the block's input, feature j the output of layer j
    keep: list[list[int]]

    def forward(self, init_features: Tensor) -> Tensor:  # (n, channels, h, w)
        features = [init_features]
        *read, given = self.keep
        for layer, counts in zip(self.values(), read, strict=True):
            features.append(layer(_first(features, counts)))
        return torch.cat(_first(features, given), 1)


def narrow(model: DenseNet, stage: int) -> None:
    """Give a dense block's layers what their factors leave, in place, and shrink what reads it; a block is narrowed once.

    The factor of layer i, 1 if it has none, is its attribute `k`.  Weights and BatchNorm state of the channels that are left are kept.
    """
    children: list[Any] = list(model.features.children())
    block: Any = dense_blocks(model)[stage - 1]
    layers, follower = list(block.values()), children[children.index(block) + 1]
    widths = [layers[0].conv1.in_channels, *(layer.conv2.out_channels for layer in layers)]  # of each feature
    keep = [widths[:1]]
    for layer, width in zip(layers, widths[1:], strict=True):
        share = (round(getattr(layer, "k", 1.0) * n) for n in widths)
        keep.append([*map(min, keep[-1], share), width])  # what was lost once stays so
    head: Any = next(m for m in model.classifier.modules() if isinstance(m, nn.Linear))
    after = (follower.norm, follower.conv) if hasattr(follower, "conv") else (follower, head)
    readers = [*((layer.norm1, layer.conv1) for layer in layers), after]
    for (norm, reader), counts in zip(readers, keep, strict=True):
        starts = accumulate(widths[: len(counts) - 1], initial=0)
        left = torch.cat([torch.arange(start, start + n) for start, n in zip(starts, counts, strict=True)])
        _shrink(norm, reader, left)
    block.__class__, block.keep = NarrowBlock, keep


def dense_blocks(model: DenseNet) -> list[DenseBlock]:
    """The dense blocks, one a stage."""
    return [child for child in model.features.children() if isinstance(child, DenseBlock)]


def _first(features: list[Tensor], counts: list[int]) -> list[Tensor]:
    return [feature[:, :n] for feature, n in zip(features, counts, strict=True)]


def _shrink(norm: Any, reader: Any, left: Tensor) -> None:
    """Leave a norm, and the convolution or Linear layer that reads it, only these of their input channels."""
    for module, name, dim in ((norm, "weight", 0), (norm, "bias", 0), (reader, "weight", 1)):
        old = getattr(module, name)
        setattr(module, name, nn.Parameter(old.detach().index_select(dim, left.to(old.device)), old.requires_grad))
    norm.running_mean, norm.running_var = norm.running_mean[left], norm.running_var[left]
    norm.num_features = len(left)
    setattr(reader, "in_features" if isinstance(reader, nn.Linear) else "in_channels", len(left))
