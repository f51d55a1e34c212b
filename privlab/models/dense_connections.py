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
    widths: list[int]  # channels of each feature, uncut

    def forward(self, init_features: Tensor) -> Tensor:  # (n, channels, h, w)
        features = [init_features]
        for layer, counts in zip(self.values(), self.keep[:-1], strict=True):
            features.append(layer(_first(features, counts)))
        return torch.cat(_first(features, self.keep[-1]), 1)


def narrow(model: DenseNet, stage: int, factors: Mapping[int, float]) -> None:
    """Scale shortcuts of dense block `stage`, in place, and shrink what reads them to the channels that are left.

    factors: k in [0, 1] for layers by number, counted from 0; the shortcuts of the others stay as they are.
    Weights and BatchNorm state of the channels that are left are kept.
    """
    block, follower = _neighbours(model, stage)
    layers: list[Any] = list(block.values())
    old = _counts(block)
    widths = block.widths if isinstance(block, NarrowBlock) else old[-1]
    new = [list(old[0])]
    for i in range(len(layers)):
        share = [round(factors.get(i, 1.0) * n) for n in widths[: i + 1]]
        carried = map(min, new[i], old[i + 1][:-1], share)
        new.append([*carried, widths[i + 1]])

    for layer, before, after in zip(layers, old, new, strict=False):
        index = _channels(before, after)
        _shrink(layer.norm1, layer.conv1, index)
    _shrink_follower(model, stage, follower, _channels(old[-1], new[-1]))
    for i, k in factors.items():
        layers[i].k = min(k, factor(layers[i]))
    block.__class__ = NarrowBlock
    block.keep, block.widths = new, widths


def factor(layer: nn.Module) -> float:
    """The factor of a dense layer's shortcut: 1 in a stock model."""
    return getattr(layer, "k", 1.0)


def dense_blocks(model: DenseNet) -> list[DenseBlock]:
    """The dense blocks, one a stage."""
    return [child for child in model.features.children() if isinstance(child, DenseBlock)]


def _neighbours(model: DenseNet, stage: int) -> tuple[Any, Any]:
    """The block of this stage, and what reads its output: a transition, or the last norm."""
    children = list(model.features.children())
    block = dense_blocks(model)[stage - 1]
    return block, children[children.index(block) + 1]


def _counts(block: Any) -> list[list[int]]:
    """How many channels each layer takes of each feature, and the block's output of all."""
    if isinstance(block, NarrowBlock):
        return block.keep
    layers: list[Any] = list(block.values())
    widths = [layers[0].conv1.in_channels, *(layer.conv2.out_channels for layer in layers)]
    return [widths[: i + 1] for i in range(len(widths))]


def _first(features: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    return [feature[:, :n] for feature, n in zip(features, counts, strict=True) if n]


def _channels(before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Where the first `after[j]` channels of each feature stand among `before`."""
    starts = [sum(before[:j]) for j in range(len(before))]
    return torch.cat([torch.arange(start, start + n) for start, n in zip(starts, after, strict=True)])


def _shrink(norm: nn.Module, reader: nn.Module | None, index: Tensor) -> None:
    """Leave a norm, and the layer that reads it, only these of their input channels."""
    index = index.to(next(norm.parameters()).device)
    for name, value in [*norm.named_parameters(recurse=False), *norm.named_buffers(recurse=False)]:
        if value.ndim:  # all but BatchNorm's count of batches
            setattr(norm, name, _part(value, index, 0))
    norm.num_features = len(index)  # type: ignore[assignment]
    if reader is not None:
        reader.weight = _part(reader.weight, index, 1)  # type: ignore[arg-type]
        setattr(reader, "in_features" if isinstance(reader, nn.Linear) else "in_channels", len(index))


def _part(value: Tensor, index: Tensor, dim: int) -> Tensor:
    left = value.detach().index_select(dim, index)
    return nn.Parameter(left, value.requires_grad) if isinstance(value, nn.Parameter) else left


def _shrink_follower(model: DenseNet, stage: int, follower: Any, index: Tensor) -> None:
    count = len(index)
    transition = hasattr(follower, "conv")  # not so the last norm
    if transition:
        _shrink(follower.norm, follower.conv, index)
    else:
        heads = [m for m in model.classifier.modules() if isinstance(m, nn.Linear)]  # none where num_classes=0
        if heads and heads[0].in_features != model.num_features:
            raise ValueError(f"model: its classifier takes {heads[0].in_features} numbers, not {model.num_features}")
        _shrink(follower, heads[0] if heads else None, index)
        model.num_features = model.head_hidden_size = count
    for info in model.feature_info:
        last = info["module"] == "features.norm5" and not transition
        if last or info["module"] == f"features.denseblock{stage}":
            info["num_chs"] = count
