"""RepVGG: trained with three branches a block, run as a plain chain of convolutions (Ding et al. 2021), and what that does to gradients.

Koh et al. 2024 (section 4, and 9.1 with equations 4 to 7) show that the plain net has the outputs *and* the input gradients of the net with
skips that it was folded from, so that folding is no defence. timm has the nets of their study but one: of D2 only `repvgg_d2se`, with
squeeze-and-excitation. The plain D2 is that net without it: 8, 14, 24 and 1 blocks, 160, 320, 640 and 2,560 channels wide.
"""

from __future__ import annotations

from typing import Any, TypeVar

from timm.models.byobnet import RepVggBlock
from timm.utils import reparameterize_model
from torch import nn

Model = TypeVar("Model", bound=nn.Module)

# timm's names, with what differs
NAMED: dict[str, tuple[str, dict[str, Any]]] = {"repvgg_d2": ("repvgg_d2se", dict(attn_layer=""))}


def fold(model: Model) -> Model:
    """A copy of a RepVGG in eval mode with one 3x3 convolution in place of each block's branches, by timm's own arithmetic.

    model: a timm RepVGG with its branches; it stays as it is.  The copy has no BatchNorm left, so train the model and not the copy.
    Raises ValueError for a model without RepVGG blocks, or folded before.
    Source: Koh et al. 2024, section 9.1, equations 4 to 7.
    """
    blocks = [module for module in model.modules() if isinstance(module, RepVggBlock)]
    if not blocks:
        raise ValueError(f"model: {type(model).__name__} has no RepVGG blocks, so nothing folds; build a repvgg_a0")
    if any(block.reparam_conv is not None for block in blocks):
        raise ValueError("model: it is folded already; fold the net with its branches")
    folded: Any = reparameterize_model(model, inplace=False).eval()
    for block in folded.modules():
        if isinstance(block, RepVggBlock) and hasattr(block, "id_tensor"):
            del block.id_tensor  # timm's working copy of the identity, as large as the kernel
    return folded


def branches(model: nn.Module) -> dict[str, int]:
    """How many blocks have each branch: {"3x3": ..., "1x1": ..., "identity": ..., "folded": ...}."""
    count = {"3x3": 0, "1x1": 0, "identity": 0, "folded": 0}
    for block in model.modules():
        if isinstance(block, RepVggBlock):
            count["folded"] += block.reparam_conv is not None
            for name, branch in (("3x3", "conv_kxk"), ("1x1", "conv_1x1"), ("identity", "identity")):
                count[name] += getattr(block, branch, None) is not None
    return count
