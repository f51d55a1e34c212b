"""Skip connections of stock models, scaled or removed stage by stage (Koh et al. 2024, sections 3.2, 5 and 13.1).

A block with an additive skip computes z_{i+1} = z_i + g_i(z_i), or P(z_i) + g_i(z_i) where its shortcut holds a projection P. Here the
shortcut gets a factor, k P(z_i) + g_i(z_i), in training and at inference: k = 1 is the stock model, k = 0 leaves g_i alone and takes P out
of the model, parameters, BatchNorm state and all. Where skips join channels (DenseNet), see `dense_connections`. An activation behind
the sum and stochastic depth on g_i stay where timm has them. Names of the parameters that stay do not change, and factors multiply.

Which shortcuts a stage has:

- ResNet, IR: one a block.  DenseNet: one a layer of the dense block; a stage is scaled once.
- EfficientNet: one in each block of equal input and output, so none in stages 1 and 7 of EfficientNet-B0.
- MaxViT: five a block, of the MBConv, and of attention and MLP in block and grid attention both.
- ViT: two a block. It has no stages; ours are quarters of its depth, and only the first can be cut (section 8: features collapse).
- RepVGG: the identity branch, where a block has one; only k = 0 and 1, since timm folds the branch into one kernel without a factor.

One weight does change. timm draws a ResNet with 0 as the weight of the last BatchNorm in each branch (zero_init_last), so that a block
begins as its shortcut alone. Without the shortcut it would give 0, its ReLU would let no gradient pass, and nothing before it could ever
learn. So where a shortcut is removed and that weight is 0 throughout, it becomes 1, as torchvision has it from the start; to compare a cut
net with a full one that begins alike, build both with zero_init_last=False.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

from timm.models import maxxvit, vision_transformer
from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual
from timm.models.byobnet import ByobNet, RepVggBlock
from timm.models.densenet import DenseLayer, DenseNet
from timm.models.efficientnet import EfficientNet
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from torch import Tensor, nn

from privlab.models import dense_connections, ir_resnet

Model = TypeVar("Model", bound=nn.Module)


def scale(model: Model, stage: int, k: float) -> Model:
    """A copy of the model in which the shortcuts of one stage are multiplied by k.

    model: a net of a family that the first lines of this file list; it stays as it is.
    stage: counted from 1, see `stages`.  k: in [0, 1]; 0 removes the shortcuts, 1 gives a plain copy.
    Raises ValueError for a model, stage or k that this cannot be done with.
    Source: Koh et al. 2024, section 5.2 (SSF; k = 0.2 for sums, 0.01 for concatenations) and 3.2 (k = 0).
    """
    model = copy.deepcopy(model)
    cut(model, stage, k)
    return model


def remove(model: Model, stage: int) -> Model:
    """A copy of the model without the shortcuts of one stage, nor the projections in them: `scale` with k = 0.

    Source: Koh et al. 2024, section 3.2 ("Skip-N removed"), 5.1 (RoLSS: the last stage).
    """
    return scale(model, stage, 0.0)


def cut(model: nn.Module, stage: int, k: float = 0.0, fraction: float = 1.0) -> None:
    """`scale` in place, for the last max(1, round(fraction * blocks)) blocks of the stage that have a shortcut.

    fraction: in (0, 1]; RoLSS+ of Koh et al. 2024 takes the last 0.1 of stage 3, beside all of stage 4.
    Weights that stay whole are the same objects as before, so that an optimiser knows them again; DenseNet's narrowed ones are new.
    """
    scalable(model, stage, k)
    if k == 1:
        return
    before, there = set(model.modules()), blocks(model, stage)
    chosen = there[-max(1, round(fraction * len(there))) :]
    if isinstance(model, DenseNet):
        layers = list(dense_connections.dense_blocks(model)[stage - 1].values())
        dense_connections.narrow(model, stage, {i: k for i, layer in enumerate(layers) if layer in chosen})
    else:
        for part in (part for block in chosen for part in _parts(block)):
            _cut(part, k)
    for new in set(model.modules()) - before:
        new.training = model.training


def scalable(model: nn.Module, stage: int, k: float) -> None:
    """Raise the ValueError that `cut` would, and change nothing."""
    there = blocks(model, stage)
    if not 0 <= k <= 1:
        raise ValueError(f"k={k!r} is no number in [0, 1]; 0 removes the shortcuts, 1 leaves them")
    if 0 < k < 1 and isinstance(there[0], RepVggBlock):
        raise ValueError(
            f"k={k}: RepVGG's identity branch can be removed, k=0, but not scaled: it would no longer fold into one kernel"
        )


def stages(model: nn.Module) -> dict[int, int]:
    """How many shortcuts each stage has, counted from 1; stages without any are left out, so the last key is what RoLSS cuts.

    Of a ViT only stage 1 is there: without the skips of later blocks its features collapse (Koh et al. 2024, section 8).
    Raises ValueError for a model without skips, or of no known family.
    """
    counts = {i: sum(map(_shortcuts, stage)) for i, stage in enumerate(_layout(model), 1)}
    if isinstance(model, vision_transformer.VisionTransformer):
        counts = {1: counts[1]}
    return {i: count for i, count in counts.items() if count}


def blocks(model: nn.Module, stage: int) -> list[nn.Module]:
    """The blocks of a stage that have a shortcut, in order.  Raises ValueError for a stage without any."""
    if stage not in (there := stages(model)):
        some = ", ".join(map(str, there)) or "none any more"
        raise ValueError(
            f"stage={stage}: {type(model).__name__} has no shortcuts there that can be cut; stages that have some: {some}"
        )
    return [block for block in _layout(model)[stage - 1] if _shortcuts(block)]


def ends(model: nn.Module) -> dict[int, nn.Module]:
    """The module whose output is a stage's output, for every stage, with shortcuts or without."""
    if isinstance(model, DenseNet):
        return dict(enumerate(dense_connections.dense_blocks(model), 1))
    return {i: stage[-1] for i, stage in enumerate(_layout(model), 1)}


# -- what takes the place of a shortcut, or of a block whose forward adds it ---------------------------------------------------


class Scale(nn.Module):
    """k x."""

    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        return self.k * x

    def extra_repr(self) -> str:
        return f"k={self.k}"


class Gone(nn.Module):
    """A removed shortcut: the number 0, which adds nothing to any map."""

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(())


class _Factor(nn.Module):
    k: float

    def join(self, branch: Tensor, x: Tensor) -> Tensor:
        return branch + self.k * x if self.k else branch

    def extra_repr(self) -> str:
        return f"k={self.k}"


class ScaledDownsample(_Factor, maxxvit.Downsample2d):
    """MaxViT's projecting shortcut, times k."""

    def forward(self, x: Tensor) -> Tensor:
        return self.k * super().forward(x)


class ScaledInverted(_Factor, InvertedResidual):
    """EfficientNet's block; `has_skip` is False, so that timm's forward gives the branch alone."""

    def forward(self, x: Tensor) -> Tensor:
        return self.join(self.drop_path(super().forward(x)), x)


class ScaledBlock(_Factor, vision_transformer.Block):
    """A ViT's block, both shortcuts times k."""

    def forward(self, x: Tensor, *mask: Any, **options: Any) -> Tensor:
        x = self.join(self.drop_path1(self.ls1(self.attn(self.norm1(x), *mask, **options))), x)
        return self.join(self.drop_path2(self.ls2(self.mlp(self.norm2(x)))), x)


class ScaledPartition(_Factor, maxxvit.PartitionAttentionCl):
    """MaxViT's block or grid attention and its MLP, both shortcuts times k."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.join(self.drop_path1(self.ls1(self._partition_attn(self.norm1(x)))), x)
        return self.join(self.drop_path2(self.ls2(self.mlp(self.norm2(x)))), x)


_SCALED: dict[type, type] = {
    maxxvit.Downsample2d: ScaledDownsample,
    InvertedResidual: ScaledInverted,
    vision_transformer.Block: ScaledBlock,
    maxxvit.PartitionAttentionCl: ScaledPartition,
}
_SHORTCUT: dict[type, str] = {  # where a block holds its shortcut
    BasicBlock: "downsample",
    Bottleneck: "downsample",
    ir_resnet.Block: "shortcut",
    maxxvit.MbConvBlock: "shortcut",
}
_OTHERS = (RepVggBlock, DenseLayer, DepthwiseSeparableConv)  # the last skips in no stock net
_KNOWN = (*_SHORTCUT, *_SCALED, *_SCALED.values(), *_OTHERS)


def _cut(block: Any, k: float) -> None:
    """Multiply the shortcuts of one block by k, in place."""
    if isinstance(block, RepVggBlock):
        block.identity = None
    elif name := _SHORTCUT.get(type(block)):
        setattr(block, name, times(getattr(block, name), k))
        last: Any = {BasicBlock: "bn2", Bottleneck: "bn3"}.get(type(block))
        if k == 0 and last and not getattr(block, last).weight.any():
            nn.init.ones_(getattr(block, last).weight)
    else:
        _rescale(block, k)
        if isinstance(block, ScaledInverted):
            block.has_skip = False


def times(shortcut: nn.Module | None, k: float) -> nn.Module:
    """A shortcut followed by a factor; the names of what is in it stay."""
    if k == 0:
        return Gone()
    if isinstance(shortcut, maxxvit.Downsample2d):
        _rescale(shortcut, k)
        return shortcut
    steps = shortcut if isinstance(shortcut, nn.Sequential) else [shortcut] if shortcut is not None else []
    return nn.Sequential(*steps, Scale(k))


def _rescale(module: Any, k: float) -> None:
    """Multiply by k the shortcuts that a module's own forward adds: its class becomes the scaled one, its weights stay."""
    module.k = k * getattr(module, "k", 1.0)
    module.__class__ = _SCALED.get(type(module), type(module))


# -- where the shortcuts are ---------------------------------------------------------------------------------------------------


def _shortcuts(block: nn.Module) -> int:
    """How many shortcuts a block has left."""
    return sum(map(_left, _parts(block)))


def _left(part: Any) -> int:
    if isinstance(part, RepVggBlock):
        return int(getattr(part, "identity", None) is not None)  # a folded block has none
    if name := _SHORTCUT.get(type(part)):
        return int(not isinstance(getattr(part, name), Gone))
    some = getattr(part, "k", 1.0) > 0
    if isinstance(part, InvertedResidual | DepthwiseSeparableConv):
        return int(part.has_skip or (isinstance(part, ScaledInverted) and some))
    return int(some) if isinstance(part, DenseLayer) else 2 * some  # of attention and of the MLP


def _parts(block: nn.Module) -> list[nn.Module]:
    """What a block is put together of, each with shortcuts of its own: MaxViT's of three."""
    if not isinstance(block, maxxvit.MaxxVitBlock):
        return [block]
    return [part for part in (block.conv, block.attn_block, block.attn_grid) if part is not None]


def _quarters(model: Any) -> list[list[nn.Module]]:
    """A ViT's blocks in four parts, of one block or more each as far as they reach."""
    depth = len(model.blocks)
    bounds = [0, *(min(max(i, i * depth // 4), depth) for i in (1, 2, 3)), depth]
    return [list(model.blocks)[a:b] for a, b in pairwise(bounds) if a < b]


_LAYOUTS: dict[type, Callable[[Any], list[list[nn.Module]]]] = {
    ResNet: lambda m: [list(layer) for layer in (m.layer1, m.layer2, m.layer3, m.layer4)],
    ir_resnet.IR: lambda m: [list(stage) for stage in m.stages],
    DenseNet: lambda m: [list(block.values()) for block in dense_connections.dense_blocks(m)],
    EfficientNet: lambda m: [list(stage) for stage in m.blocks],
    maxxvit.MaxxVit: lambda m: [list(stage.blocks) for stage in m.stages],
    vision_transformer.VisionTransformer: _quarters,
    ByobNet: lambda m: [list(stage) for stage in m.stages],
}


def _layout(model: nn.Module) -> list[list[nn.Module]]:
    """The blocks of each stage, whether they have shortcuts or not."""
    layout = next((layout for family, layout in _LAYOUTS.items() if isinstance(model, family)), None)
    stages = layout(model) if layout else []
    found = [part for stage in stages for block in stage for part in _parts(block)]
    if not found or not all(type(block) in _KNOWN for block in found):
        raise ValueError(
            f"model: {type(model).__name__} has no skip connections, or some that are not known here; known are those of "
            "timm's stock ResNet, DenseNet, EfficientNet, MaxxVit (MaxViT), VisionTransformer and ByobNet (RepVGG), and of our IR"
        )
    return stages
