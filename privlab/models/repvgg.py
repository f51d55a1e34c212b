"""RepVGG: trained with three branches a block, run as a plain chain of convolutions (Ding et al. 2021).

Koh et al. 2024 (section 4, and 9.1 with equations 4 to 7) show that the plain net has the outputs *and* the input gradients of the net with
skips that it was folded from, so that folding is no defence.
"""

from __future__ import annotations

from typing import Any

from timm.models.byobnet import RepVggBlock
from timm.utils import reparameterize_model
from torch import nn


def fold(model: nn.Module) -> Any:
    """A copy of a RepVGG in eval mode with one 3x3 convolution in place of each block's branches, by timm's own arithmetic."""
    return reparameterize_model(model, inplace=False).eval()


def branches(model: nn.Module) -> dict[str, int]:
    """How many blocks have each branch: {"3x3": ..., "1x1": ..., "identity": ..., "folded": ...}."""
    names = {"3x3": "conv_kxk", "1x1": "conv_1x1", "identity": "identity", "folded": "reparam_conv"}
    blocks = [module for module in model.modules() if isinstance(module, RepVggBlock)]
    return {word: sum(getattr(b, name, None) is not None for b in blocks) for word, name in names.items()}
