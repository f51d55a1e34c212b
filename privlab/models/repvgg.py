"""RepVGG: trained with three branches a block, run as a plain chain of convolutions (Ding et al. 2021), and what that does to gradients.

Koh et al. 2024 (section 4, and 9.1 with equations 4 to 7) show that the plain net has the outputs *and* the input gradients of the net with
skips that it was folded from, so that folding is no defence.
"""

from __future__ import annotations

from typing import Any, TypeVar

from timm.models.byobnet import RepVggBlock
from timm.utils import reparameterize_model
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def fold(model: Model) -> Model:
    """A copy of a RepVGG in eval mode with one 3x3 convolution in place of each block's branches, by timm's own arithmetic.

    model: a timm RepVGG with its branches; it stays as it is.  The copy has no BatchNorm left, so train the model and not the copy.
    Source: Koh et al. 2024, section 9.1, equations 4 to 7.
    """
    folded: Any = reparameterize_model(model, inplace=False)
    return folded.eval()


def branches(model: nn.Module) -> dict[str, int]:
    """How many blocks have each branch: {"3x3": ..., "1x1": ..., "identity": ..., "folded": ...}."""
    names = {"3x3": "conv_kxk", "1x1": "conv_1x1", "identity": "identity", "folded": "reparam_conv"}
    blocks = [module for module in model.modules() if isinstance(module, RepVggBlock)]
    return {word: sum(getattr(b, name, None) is not None for b in blocks) for word, name in names.items()}
