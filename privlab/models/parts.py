"""Which parameters belong to what: stem, attention, MLP, convolution, norm, head, and which block. By name, never by position.

The groups are those of Zhang et al. 2024, Table 6: a ViT-B has 4 stem, 48 attention, 48 MLP, 48 norm and 4 head tensors, which fits
only if the *final* norm is counted with the head. `conv` holds what a CNN has in place of attention, downsampling included.

Two more words cut across these groups: `position`, and `activation` for the layers in front of activations, which have no parameters
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import fx, nn

from privlab.data.sources import nearest

PARTS = ("stem", "attention", "mlp", "conv", "norm", "head")
WORDS = (*PARTS, "position", "activation")

_STEM = re.compile(
    r"(cls_token|reg_token|dist_token|pos_embed|patch_embed|norm_pre|stem|conv_stem|conv1|bn1|features\.(conv|norm)0)\b"
)
_HEAD = re.compile(r"(head|head_dist|fc|classifier|norm|fc_norm)\b")
_BLOCK = re.compile(r"((layers|stages|blocks)\.\d+(\.blocks)?|blocks|layer\d+)\.\d+(?=\.)")
_POSITION = ("cls_token", "reg_token", "dist_token", "pos_embed")
_ACTIVATIONS = (
    "torch.nn.modules.activation",
    "timm.layers.activations",
    "timm.layers.activations_me",
)  # where they are defined
_NO_ACTIVATIONS = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.Softmin, nn.LogSoftmax)
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


def position(model: nn.Module) -> list[str]:
    """A ViT's position embedding and the tokens that it adds to the patches'; part of the stem.

    Swin's tables of relative position biases are not among them: they act inside of attention and are counted with it.
    """
    return [name for name in stem(model) if name.split(".")[0] in _POSITION]


def activation(model: nn.Module) -> list[str]:
    """Layers whose output goes straight into an activation: the first layer of an MLP; in a ResNet the norms in front of a ReLU.

    Read off the forward pass of each module that holds an activation; identities and dropout on the way count as nothing. What adds a
    shortcut first comes from no single layer, so a ResNet's last activation in a block has none. Overlaps the parts.
    Raises ValueError for a model in which that cannot be read off.
    """
    names = {
        f"{path}.{name}".removeprefix(".")
        for path, module in model.named_modules()
        if any(map(_activates, module.children()))
        for name in _before_activations(module, path)
    }
    return [name for name, _ in model.named_parameters() if name in names]


def names(model: nn.Module, *words: str) -> list[str]:
    """Parameters of one or more parts, in the model's order: leak.without(names(model, "stem", "norm")) withholds two of them.

    words: of `WORDS`.  Returns those that the model learns, as no others are sent.
    Raises ValueError for another word, with the nearest, and for one of which the model learns nothing.
    """
    learnable = [name for name, p in model.named_parameters() if p.requires_grad]
    chosen: set[str] = set()
    for word in words:
        if word not in WORDS:
            raise ValueError(f"words: {word!r} is no part of a model{nearest(word, list(WORDS))}")
        own = {"position": position, "activation": activation}.get(word)
        members = set(own(model) if own else group(model).get(word, [])) & set(learnable)
        if not members:
            has = ", ".join(part for part, some in group(model).items() if set(some) & set(learnable))
            raise ValueError(f"words: {type(model).__name__} learns nothing in {word!r}; it has {has}")
        chosen |= members
    return [name for name in learnable if name in chosen]


def blocks(model: nn.Module) -> list[str]:
    """Names of the blocks, in order: `blocks.0`, `layers.0.blocks.1`, `layer3.2`, ..."""
    matches = (_BLOCK.match(name) for name, _ in model.named_parameters())
    return list(dict.fromkeys(match.group() for match in matches if match))


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


def _activates(module: nn.Module) -> bool:
    return type(module).__module__ in _ACTIVATIONS and not isinstance(module, _NO_ACTIVATIONS)


class _Children(fx.Tracer):
    """Traces what a module does with its children, and looks into none of them."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _before_activations(module: nn.Module, path: str) -> Iterator[str]:
    """Names, within the module, of parameters whose layer's output an activation among its children takes as it is."""
    where = f"{path or 'the model'} ({type(module).__name__})"
    try:
        graph = _Children().trace(module)
    except Exception as error:  # fx raises all kinds
        raise ValueError(
            f"model: {where} cannot be traced, so what stands before its activations is not known; name its layers one by one"
        ) from error
    for node in graph.nodes:
        if node.op != "call_module" or not _activates(module.get_submodule(node.target)):
            continue
        before = node.all_input_nodes[0]
        while before.op == "call_module" and isinstance(module.get_submodule(before.target), nn.Identity | nn.Dropout):
            before = before.all_input_nodes[0]
        if before.op == "placeholder":
            raise ValueError(
                f"model: an activation in {where} takes what comes from outside of it, from a layer that is not known; "
                "name the layers one by one"
            )
        if before.op == "call_module":
            layer, name = module.get_submodule(before.target), before.target
            while isinstance(layer, nn.Sequential):
                last = list(layer._modules)[-1]
                layer, name = layer._modules[last], f"{name}.{last}"
            yield from (f"{name}.{leaf}" for leaf, _ in layer.named_parameters(recurse=False))
        else:  # a function: of the module's own parameters (a norm with its activation inside), or of none
            yield from (source.target for source in before.all_input_nodes if source.op == "get_attr")
