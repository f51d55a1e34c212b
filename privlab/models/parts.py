"""Which parameters belong to what: stem, attention, MLP, convolution, norm, head, and which block. By name, never by position.

The groups are those of Zhang et al. 2024, Table 6: a ViT-B has 4 stem, 48 attention, 48 MLP, 48 norm and 4 head tensors, which fits
only if the *final* norm is counted with the head. `conv` holds what a CNN has in place of attention, downsampling included.
"""

import re

from timm.layers import Mlp
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from torch import nn

from privlab.data.sources import nearest

PARTS = ("stem", "attention", "mlp", "conv", "norm", "head")
FAMILIES = {"VisionTransformer", "SwinTransformer", "ConvNeXt", "ResNet"}  # whose names say which part they are
WORDS = (*PARTS, "position", "activation")  # the last two cut across the groups

_STEM = re.compile(
    r"(cls_token|reg_token|dist_token|pos_embed|patch_embed|norm_pre|stem|conv_stem|conv1|bn1|features\.(conv|norm)0)\b"
)
_HEAD = re.compile(r"(head|head_dist|fc|classifier|norm|fc_norm)\b")
_MLP = re.compile(r".*(\.(mlp|ls2)\.|\d\.gamma$)")
_ATTENTION = re.compile(r".*\.(attn[^.]*|ls1)\.")
_BLOCK = re.compile(r"((layers|stages|blocks)\.\d+(\.blocks)?|blocks|layer\d+)\.\d+(?=\.)")
_POSITION = re.compile(r"(cls_token|reg_token|dist_token|pos_embed)\b")
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)
# in front of an activation; a shortcut is added before a block's last one
_ACTIVATED: dict[type, tuple[str, ...]] = {Mlp: ("fc1",), ResNet: ("bn1",), BasicBlock: ("bn1",), Bottleneck: ("bn1", "bn2")}  # fmt: skip


def group(model: nn.Module) -> dict[str, list[str]]:
    """Every parameter name of a timm ViT, DeiT, Swin, ConvNeXt or ResNet, by part; parts that the model lacks are left out.

    stem: what turns pixels into the first features: patch or stem convolution, its norm, class token, position embedding.
    attention: query, key, value and output projections, with relative position biases where there are any.
    mlp: the two layers behind attention, or ConvNeXt's two pointwise layers, with layer scale.
    """
    groups: dict[str, list[str]] = {part: [] for part in PARTS}
    for name, _ in model.named_parameters():
        groups[_part(model, name)].append(name)
    return {part: names for part, names in groups.items() if names}


def names(model: nn.Module, *words: str) -> list[str]:
    """Parameters of one or more parts, in the model's order: leak.without(names(model, "stem", "norm")) withholds two of them.

    To keep one part alone (Hatamizadeh et al. 2022, section 6.4.2, Table 5), withhold the other names; without the head's gradient a
    leak needs its labels.
    words: of `WORDS`. "position" is a ViT's position embedding and the tokens that it adds to the patches', part of the stem; Swin's tables
        of relative position biases are not among them. "activation" is the layers whose output goes straight into an activation: the first
        of timm's MLPs, and a ResNet's norms in front of a ReLU, but for a block's last, which a shortcut is added to.
    Returns those that the model learns, as no others are sent.
    Raises ValueError for another word, with the nearest, and for one of which the model learns nothing.
    """
    learnable = [name for name, p in model.named_parameters() if p.requires_grad]
    modules = model.named_modules()
    activated = {f"{path}.{leaf}".lstrip(".") for path, m in modules for leaf in _ACTIVATED.get(type(m), ())}
    groups = group(model)
    groups["position"] = [name for name in learnable if _POSITION.match(name)]
    groups["activation"] = [name for name in learnable if name.rpartition(".")[0] in activated]
    learns = [word for word, members in groups.items() if set(learnable).intersection(members)]
    for word in words:
        if word not in WORDS:
            raise ValueError(f"words: {word!r} is no part of a model{nearest(word, list(WORDS))}")
        if word not in learns:
            has = ", ".join(one for one in learns if one in PARTS)
            raise ValueError(f"words: {type(model).__name__} learns nothing in {word!r}; it has {has}")
    return [name for name in learnable if any(name in groups[word] for word in words)]


def blocks(model: nn.Module) -> list[str]:
    """Names of the blocks, in order: `blocks.0`, `layers.0.blocks.1`, `layer3.2`, ..."""
    matches = (_BLOCK.match(name) for name, _ in model.named_parameters())
    return list(dict.fromkeys(match.group() for match in matches if match))


def depth(model: nn.Module, first: int, last: int) -> list[str]:
    """Parameters of blocks `first` to `last`, counted from 1 and both included, as in Hatamizadeh et al. 2022, 6.4.1, Table 4."""
    names = blocks(model)
    if not 1 <= first <= last <= len(names):
        raise ValueError(f"first={first}, last={last}: {type(model).__name__} has the blocks 1 to {len(names)}")
    inside = tuple(f"{name}." for name in names[first - 1 : last])
    return [name for name, _ in model.named_parameters() if name.startswith(inside)]


def _part(model: nn.Module, name: str) -> str:
    for part, pattern in (("stem", _STEM), ("head", _HEAD)):
        if pattern.match(name):
            return part
    if isinstance(model.get_submodule(name.rpartition(".")[0]), _NORMS):
        return "norm"
    return "mlp" if _MLP.match(name) else "attention" if _ATTENTION.match(name) else "conv"
