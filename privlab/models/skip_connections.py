"""Skip connections of stock models, removed or scaled stage by stage (Koh et al. 2024, sections 3.2, 5 and 13.1); RepVGG, folded.

A block with an additive skip computes z_{i+1} = P(z_i) + g_i(z_i), where the shortcut P is the identity or a projection. Here it gets a
factor, k P(z_i) + g_i(z_i), in training and at inference: k = 1 is the stock model, k = 0 takes P out of it, parameters, BatchNorm state
and all. An activation behind the sum and stochastic depth on g_i stay where timm has them. Parameters that stay keep their names.

Which shortcuts a stage has:

- ResNet, IR: one a block.  DenseNet: one a layer of the dense block, see `dense_connections`; a stage is scaled once.
- EfficientNet: one in each block of equal input and output, so none in stages 1 and 7 of EfficientNet-B0.
- MaxViT: five a block, of the MBConv, and of attention and MLP in block and grid attention both.
- ViT: two a block. It has no stages; the first quarter of its depth counts as one. The rest is not cut (section 8: features collapse).

The last three can be removed, not scaled: the paper scales ResNets and DenseNets.

timm draws a ResNet with 0 as the weight of each branch's last BatchNorm (zero_init_last). Without its shortcut such a block would give 0,
its ReLU would let no gradient pass, and nothing before it could learn. So where a shortcut is removed and that weight is 0 throughout, it
becomes 1, as in torchvision; to compare a cut net with a full one that begins alike, build both with zero_init_last=False.
"""

from collections.abc import Callable
from typing import Any

import torch
from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual
from timm.models.byobnet import RepVggBlock
from timm.models.densenet import DenseLayer, DenseNet
from timm.models.efficientnet import EfficientNet
from timm.models.maxxvit import MaxxVit, MaxxVitBlock, MbConvBlock, PartitionAttentionCl
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from timm.models.vision_transformer import Block, VisionTransformer
from timm.utils import reparameterize_model
from torch import Tensor, nn

from privlab.models import dense_connections, ir_resnet


def cut(model: nn.Module, stage: int, k: float = 0.0, fraction: float = 1.0) -> None:
    """Multiply the shortcuts of one stage by k, in place; 0 removes them, 1 leaves the model as it is.

    stage: counted from 1, see `stages`.  k: in [0, 1]; between them for ResNet, IR and DenseNet alone.
    fraction: in (0, 1], of the stage's blocks with a shortcut: the last max(1, round(fraction * blocks)). RoLSS+ takes 0.1 of stage 3.
    Weights that stay whole are the same objects as before, so that an optimiser knows them again; DenseNet's narrowed ones are new.
    Raises ValueError for a model, stage or k that this cannot be done with.
    Source: Koh et al. 2024, section 5.2 (SSF; k = 0.2 for sums, 0.01 for concatenations), 3.2 and 5.1 (k = 0).
    """
    kind = type(model).__name__
    if stage not in (there := stages(model)):
        some = ", ".join(map(str, there)) or "none any more"
        raise ValueError(f"stage={stage}: {kind} has no shortcuts there to cut; stages that have: {some}")
    if not 0 <= k <= 1:
        raise ValueError(f"k={k!r} is no number in [0, 1]; 0 removes the shortcuts, 1 leaves them")
    if 0 < k < 1 and not isinstance(model, ResNet | DenseNet | ir_resnet.IR):
        raise ValueError(f"k={k}: the shortcuts of {kind} can be removed, k=0, but not scaled")
    if k == 1:
        return
    blocks = [block for block in _blocks(model)[stage] if _has_shortcut(block)]
    for block in blocks[-max(1, round(fraction * len(blocks))) :]:
        for part in _parts(block):
            _scale(part, k)
    if isinstance(model, DenseNet):
        dense_connections.narrow(model, stage)


def stages(model: nn.Module) -> list[int]:
    """The stages that have shortcuts, counted from 1; the last is what RoLSS cuts.

    Raises ValueError for a model without skips, or of no known family.
    """
    return [number for number, blocks in _blocks(model).items() if any(map(_has_shortcut, blocks))]


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


class _Bare(nn.Module):
    """A block, or a part of one, whose class has become one without shortcuts; its weights stay.

    Names of its kinds, and what they print, are those by which stored attacks know them.
    """

    def extra_repr(self) -> str:
        return "k=0.0"


class ScaledInverted(_Bare, InvertedResidual):
    """EfficientNet's block; `has_skip` is False, so that timm's forward gives the branch alone."""

    def forward(self, x: Tensor) -> Tensor:
        return self.drop_path(super().forward(x))


class ScaledBlock(_Bare, Block):
    """A ViT's block."""

    def forward(self, x: Tensor, *mask: Any, **options: Any) -> Tensor:
        x = self.drop_path1(self.ls1(self.attn(self.norm1(x), *mask, **options)))
        return self.drop_path2(self.ls2(self.mlp(self.norm2(x))))


class ScaledPartition(_Bare, PartitionAttentionCl):
    """MaxViT's block or grid attention and its MLP."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop_path1(self.ls1(self._partition_attn(self.norm1(x))))
        return self.drop_path2(self.ls2(self.mlp(self.norm2(x))))


BARE: dict[type, type] = {InvertedResidual: ScaledInverted, Block: ScaledBlock, PartitionAttentionCl: ScaledPartition}
SHORTCUT = {BasicBlock: "downsample", Bottleneck: "downsample", ir_resnet.Block: "shortcut", MbConvBlock: "shortcut"}
# DepthwiseSeparableConv skips in no stock net
KNOWN = {*SHORTCUT, *BARE, *BARE.values(), DenseLayer, DepthwiseSeparableConv}


def _scale(part: Any, k: float) -> None:
    """Multiply the shortcuts of a block, or of a part of one, by k, in place; of a dense layer, `narrow` does."""
    part.k = k
    if bare := BARE.get(type(part)):
        part.has_skip, part.__class__ = False, bare
    elif name := SHORTCUT.get(type(part)):
        shortcut = getattr(part, name)
        steps = shortcut if isinstance(shortcut, nn.Sequential) else [] if shortcut is None else [shortcut]
        setattr(part, name, (nn.Sequential(*steps, Scale(k)) if k else Scale(k)).train(part.training))
        last = {BasicBlock: "bn2", Bottleneck: "bn3"}.get(type(part))
        if k == 0 and last and not getattr(part, last).weight.any():
            nn.init.ones_(getattr(part, last).weight)


# -- where the shortcuts are ---------------------------------------------------------------------------------------------------


def _has_shortcut(block: nn.Module) -> bool:
    return any(getattr(part, "k", getattr(part, "has_skip", True)) for part in _parts(block))


def _parts(block: Any) -> list[Any]:
    """What a block is put together of, each with shortcuts of its own: MaxViT's of three."""
    return [block.conv, block.attn_block, block.attn_grid] if isinstance(block, MaxxVitBlock) else [block]


STAGES: dict[type, Callable[[Any], Any]] = {
    ResNet: lambda model: [model.layer1, model.layer2, model.layer3, model.layer4],
    DenseNet: lambda model: [block.values() for block in dense_connections.dense_blocks(model)],
    EfficientNet: lambda model: model.blocks,
    MaxxVit: lambda model: [stage.blocks for stage in model.stages],
    ir_resnet.IR: lambda model: model.stages,
    VisionTransformer: lambda model: [model.blocks[: max(1, len(model.blocks) // 4)]],
}


def _blocks(model: Any) -> dict[int, list[nn.Module]]:
    """The blocks of each stage, counted from 1, whether they have shortcuts or not."""
    stages: Any = next((of(model) for kind, of in STAGES.items() if isinstance(model, kind)), [])
    found = {type(part) for stage in stages for block in stage for part in _parts(block)}
    if not found or not found <= KNOWN:
        raise ValueError(
            f"model: {type(model).__name__} has no skip connections, or some that are not known here; known are those of "
            "timm's stock ResNet, DenseNet, EfficientNet, MaxxVit (MaxViT) and VisionTransformer, and of our IR"
        )
    return {number: list(stage) for number, stage in enumerate(stages, 1)}


# -- RepVGG: trained with three branches a block, run as a plain chain of convolutions (Ding et al. 2021) ---------------------


def fold(model: nn.Module) -> Any:
    """A copy of a RepVGG in eval mode with one 3x3 convolution in place of each block's branches, by timm's own arithmetic.

    It has the outputs *and* the input gradients of the net that it was folded from, so that folding is no defence (Koh et al. 2024,
    section 4, and 9.1 with equations 4 to 7).
    """
    return reparameterize_model(model, inplace=False).eval()


def branches(model: nn.Module) -> dict[str, int]:
    """How many blocks of a RepVGG have each branch: {"3x3": ..., "1x1": ..., "identity": ..., "folded": ...}."""
    names = {"3x3": "conv_kxk", "1x1": "conv_1x1", "identity": "identity", "folded": "reparam_conv"}
    blocks = [module for module in model.modules() if isinstance(module, RepVggBlock)]
    return {word: sum(getattr(b, name, None) is not None for b in blocks) for word, name in names.items()}


def branch_layers(block: Any) -> list[tuple[Any, ...]]:
    """Of a RepVGG block's 3x3, 1x1 and identity branch: kernel (out, in, k, k); mean, variance, weight, bias and eps of the BatchNorm."""
    three, one, same = block.conv_kxk, block.conv_1x1, block.identity
    eye = torch.eye(len(same.weight)).to(same.weight)[:, :, None, None]  # the identity as a 1x1 kernel, section 9.1
    pairs = [(three.conv.weight, three.bn), (one.conv.weight, one.bn), (eye, same)]
    return [(w, n.running_mean, n.running_var, n.weight, n.bias, n.eps) for w, n in pairs]
