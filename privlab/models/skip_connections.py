"""Skip connections of stock models, scaled or removed stage by stage (Koh et al. 2024, sections 3.2, 5 and 13.1).

A block with an additive skip computes z_{i+1} = P(z_i) + g_i(z_i), where the shortcut P is the identity or a projection. Here it gets a
factor, k P(z_i) + g_i(z_i), in training and at inference: k = 1 is the stock model, k = 0 takes P out of it, parameters, BatchNorm state
and all. An activation behind the sum and stochastic depth on g_i stay where timm has them. Parameters that stay keep their names.

Which shortcuts a stage has:

- ResNet, IR: one a block.  DenseNet: one a layer of the dense block, see `dense_connections`; a stage is scaled once.
- EfficientNet: one in each block of equal input and output, so none in stages 1 and 7 of EfficientNet-B0.
- MaxViT: five a block, of the MBConv, and of attention and MLP in block and grid attention both.
- ViT: two a block. It has no stages; ours are quarters of its depth, and only the first can be cut (section 8: features collapse).
- RepVGG: the identity branch, where a block has one; only k = 0 and 1, since timm folds the branch into one kernel without a factor.

timm draws a ResNet with 0 as the weight of each branch's last BatchNorm (zero_init_last). Without its shortcut such a block would give 0,
its ReLU would let no gradient pass, and nothing before it could learn. So where a shortcut is removed and that weight is 0 throughout, it
becomes 1, as in torchvision; to compare a cut net with a full one that begins alike, build both with zero_init_last=False.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual
from timm.models.byobnet import ByobNet, RepVggBlock
from timm.models.densenet import DenseLayer, DenseNet
from timm.models.efficientnet import EfficientNet
from timm.models.maxxvit import Downsample2d, MaxxVit, MaxxVitBlock, MbConvBlock, PartitionAttentionCl
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from privlab.models import dense_connections, ir_resnet


def cut(model: nn.Module, stage: int, k: float = 0.0, fraction: float = 1.0) -> None:
    """Multiply the shortcuts of one stage by k, in place; 0 removes them, 1 leaves the model as it is.

    stage: counted from 1, see `stages`.  k: in [0, 1].
    fraction: in (0, 1], of the stage's blocks with a shortcut: the last max(1, round(fraction * blocks)). RoLSS+ takes 0.1 of stage 3.
    Weights that stay whole are the same objects as before, so that an optimiser knows them again; DenseNet's narrowed ones are new.
    Raises ValueError for a model, stage or k that this cannot be done with.
    Source: Koh et al. 2024, section 5.2 (SSF; k = 0.2 for sums, 0.01 for concatenations), 3.2 and 5.1 (k = 0).
    """
    if stage not in (there := stages(model)):
        some = ", ".join(map(str, there)) or "none any more"
        raise ValueError(
            f"stage={stage}: {type(model).__name__} has no shortcuts there to cut; stages that have: {some}"
        )
    if not 0 <= k <= 1:
        raise ValueError(f"k={k!r} is no number in [0, 1]; 0 removes the shortcuts, 1 leaves them")
    if 0 < k < 1 and isinstance(model, ByobNet):
        raise ValueError(f"k={k}: RepVGG's identity branch can be removed, k=0, but not scaled: it could not be folded")
    if k == 1:
        return
    blocks = [block for block in _layout(model)[stage - 1] if _shortcuts(block)]
    chosen = blocks[-max(1, round(fraction * len(blocks))) :]
    for part in (part for block in chosen for part in _parts(block)):
        _scale(part, k)
    if isinstance(model, DenseNet):
        dense_connections.narrow(model, stage)


def stages(model: nn.Module) -> dict[int, int]:
    """How many shortcuts each stage has, counted from 1; stages without any are left out, so the last key is what RoLSS cuts.

    Of a ViT only stage 1 is there: without the skips of later blocks its features collapse (Koh et al. 2024, section 8).
    Raises ValueError for a model without skips, or of no known family.
    """
    counts = {i: sum(map(_shortcuts, stage)) for i, stage in enumerate(_layout(model), 1)}
    if isinstance(model, VisionTransformer):
        counts = {1: counts[1]}
    return {i: count for i, count in counts.items() if count}


# -- what takes the place of a shortcut, or of a block whose forward adds it ---------------------------------------------------


class Scale(nn.Module):
    """k x; for k = 0 the number 0, which adds nothing to any map."""

    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = float(k)

    def forward(self, x: Tensor) -> Tensor:
        return self.k * x if self.k else x.new_zeros(())

    def extra_repr(self) -> str:
        return f"k={self.k}"


class _Scaled(nn.Module):
    """A block, or a part of one, whose class has become that of a scaled one; its weights stay."""

    k: float

    def join(self, branch: Tensor, x: Tensor) -> Tensor:
        return branch + self.k * x if self.k else branch

    def extra_repr(self) -> str:
        return f"k={self.k}"


class ScaledDownsample(_Scaled, Downsample2d):
    """MaxViT's projecting shortcut, times k."""

    def forward(self, x: Tensor) -> Tensor:
        return self.k * super().forward(x)


class ScaledInverted(_Scaled, InvertedResidual):
    """EfficientNet's block; `has_skip` is False, so that timm's forward gives the branch alone."""

    def forward(self, x: Tensor) -> Tensor:
        return self.join(self.drop_path(super().forward(x)), x)


class ScaledBlock(_Scaled, Block):
    """A ViT's block, both shortcuts times k."""

    def forward(self, x: Tensor, *mask: Any, **options: Any) -> Tensor:
        x = self.join(self.drop_path1(self.ls1(self.attn(self.norm1(x), *mask, **options))), x)
        return self.join(self.drop_path2(self.ls2(self.mlp(self.norm2(x)))), x)


class ScaledPartition(_Scaled, PartitionAttentionCl):
    """MaxViT's block or grid attention and its MLP, both shortcuts times k."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.join(self.drop_path1(self.ls1(self._partition_attn(self.norm1(x)))), x)
        return self.join(self.drop_path2(self.ls2(self.mlp(self.norm2(x)))), x)


SCALED: dict[type, type] = {
    Downsample2d: ScaledDownsample,
    InvertedResidual: ScaledInverted,
    Block: ScaledBlock,
    PartitionAttentionCl: ScaledPartition,
}
SHORTCUT = {BasicBlock: "downsample", Bottleneck: "downsample", ir_resnet.Block: "shortcut", MbConvBlock: "shortcut"}
# DepthwiseSeparableConv skips in no stock net
KNOWN = {*SHORTCUT, *SCALED, *SCALED.values(), RepVggBlock, DenseLayer, DepthwiseSeparableConv}


def _scale(part: Any, k: float) -> None:
    """Multiply the shortcuts of a block, or of a part of one, by k, in place."""
    part.k = k * getattr(part, "k", 1.0)
    if name := SHORTCUT.get(type(part)):
        setattr(part, name, _times(getattr(part, name), k).train(part.training))
        last = {BasicBlock: "bn2", Bottleneck: "bn3"}.get(type(part))
        if k == 0 and last and not getattr(part, last).weight.any():
            nn.init.ones_(getattr(part, last).weight)
    elif isinstance(part, RepVggBlock):
        part.identity = None
    else:
        part.has_skip, part.__class__ = False, SCALED.get(type(part), type(part))


def _times(shortcut: Any, k: float) -> nn.Module:
    """A shortcut followed by a factor; the names of what is in it stay."""
    if isinstance(shortcut, Downsample2d) and k:
        _scale(shortcut, k)
        return shortcut
    steps = shortcut if isinstance(shortcut, nn.Sequential) else [] if shortcut is None else [shortcut]
    return nn.Sequential(*steps, Scale(k)) if k else Scale(k)


# -- where the shortcuts are ---------------------------------------------------------------------------------------------------


def _shortcuts(block: nn.Module) -> int:
    """How many shortcuts a block has left."""
    return sum(map(_left, _parts(block)))


def _left(part: Any) -> int:
    stock = part.identity is not None if isinstance(part, RepVggBlock) else getattr(part, "has_skip", True)
    many = 2 if isinstance(part, Block | PartitionAttentionCl) else 1  # of attention and of the MLP
    return many * (getattr(part, "k", stock) > 0)


def _parts(block: nn.Module) -> list[nn.Module]:
    """What a block is put together of, each with shortcuts of its own: MaxViT's of three."""
    if not isinstance(block, MaxxVitBlock):
        return [block]
    return [part for part in (block.conv, block.attn_block, block.attn_grid) if part is not None]


def _layout(model: Any) -> list[list[nn.Module]]:
    """The blocks of each stage, whether they have shortcuts or not."""
    stages: Any = []
    if isinstance(model, ResNet):
        stages = [model.layer1, model.layer2, model.layer3, model.layer4]
    elif isinstance(model, DenseNet):
        stages = [block.values() for block in dense_connections.dense_blocks(model)]
    elif isinstance(model, EfficientNet):
        stages = model.blocks
    elif isinstance(model, MaxxVit):
        stages = [stage.blocks for stage in model.stages]
    elif isinstance(model, ir_resnet.IR | ByobNet):
        stages = model.stages
    elif isinstance(model, VisionTransformer):  # quarters, of one block or more each as far as they reach
        depth = len(model.blocks)
        bounds = [0, *(min(max(i, i * depth // 4), depth) for i in (1, 2, 3)), depth]
        stages = [model.blocks[a:b] for a, b in pairwise(bounds) if a < b]
    found = [part for stage in stages for block in stage for part in _parts(block)]
    if not found or not {type(part) for part in found} <= KNOWN:
        raise ValueError(
            f"model: {type(model).__name__} has no skip connections, or some that are not known here; known are those of "
            "timm's stock ResNet, DenseNet, EfficientNet, MaxxVit (MaxViT), VisionTransformer and ByobNet (RepVGG), and of our IR"
        )
    return [list(stage) for stage in stages]
