"""Which parameters belong to what: stem, attention, MLP, convolution, norm, head, and which block. By name, never by position.

The groups are those of Zhang et al. 2024, Table 6: a ViT-B has 4 stem, 48 attention, 48 MLP, 48 norm and 4 head tensors, which fits
only if the *final* norm is counted with the head. `conv` holds what a CNN has in place of attention, downsampling included.
"""

from __future__ import annotations

import re

from torch import nn

PARTS = ("stem", "attention", "mlp", "conv", "norm", "head")

_STEM = re.compile(
    r"(cls_token|reg_token|dist_token|pos_embed|patch_embed|norm_pre|stem|conv_stem|conv1|bn1|features\.(conv|norm)0)\b"
)
_HEAD = re.compile(r"(head|head_dist|fc|classifier|norm|fc_norm)\b")
_BLOCK = re.compile(r"((layers|stages|blocks)\.\d+(\.blocks)?|blocks|layer\d+)\.\d+(?=\.)")
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


def group(model: nn.Module) -> dict[str, list[str]]:
    """Every parameter name of a timm ViT, DeiT, Swin, ConvNeXt or ResNet, by part; parts that the model lacks are left out."""
    groups: dict[str, list[str]] = {part: [] for part in PARTS}
    for name, _ in model.named_parameters():
        groups[_part(model, name)].append(name)
    return {part: names for part, names in groups.items() if names}


def stem(model: nn.Module) -> list[str]:
    """What turns pixels into the first features: patch or stem convolution, its norm, class token, position embedding."""
    return group(model).get("stem", [])


def attention(model: nn.Module) -> list[str]:
    """Query, key, value and output projections, with relative position biases where there are any."""
    return group(model).get("attention", [])


def mlp(model: nn.Module) -> list[str]:
    """The two layers behind attention, or ConvNeXt's two pointwise layers, with layer scale."""
    return group(model).get("mlp", [])


def conv(model: nn.Module) -> list[str]:
    """Convolutions of the body, and downsampling."""
    return group(model).get("conv", [])


def norm(model: nn.Module) -> list[str]:
    """Norms of the body."""
    return group(model).get("norm", [])


def head(model: nn.Module) -> list[str]:
    """The classifier and the norm right before it."""
    return group(model).get("head", [])


def blocks(model: nn.Module) -> list[str]:
    """Names of the blocks, in order: `blocks.0`, `layers.0.blocks.1`, `layer3.2`, ..."""
    found = (_BLOCK.match(name) for name, _ in model.named_parameters())
    return list(dict.fromkeys(match.group() for match in found if match))


def depth(model: nn.Module, first: int, last: int) -> list[str]:
    """Parameters of blocks `first` to `last`, counted from 1 and both included, as in Hatamizadeh et al. 2022, Table 4."""
    names = blocks(model)
    if not 1 <= first <= last <= len(names):
        raise ValueError(f"first={first}, last={last}: {type(model).__name__} has the blocks 1 to {len(names)}")
    inside = tuple(f"{name}." for name in names[first - 1 : last])
    return [name for name, _ in model.named_parameters() if name.startswith(inside)]


def _part(model: nn.Module, name: str) -> str:
    if _STEM.match(name):
        return "stem"
    if _HEAD.match(name):
        return "head"
    owner, _, leaf = name.rpartition(".")
    pieces = owner.split(".")
    if isinstance(model.get_submodule(owner), _NORMS):
        return "norm"
    if any(piece in ("mlp", "ls2") for piece in pieces) or (owner[-1:].isdigit() and leaf == "gamma"):
        return "mlp"
    if any(piece.startswith("attn") or piece == "ls1" for piece in pieces):
        return "attention"
    return "conv"
