"""From ResNet-50 to ConvNeXt-T in the fourteen steps of Zhang et al. 2024 (section 5.2, Table 9): each step as data, one network for all.

A `Step` says all that differs; `Morph` builds it. Step 1 is timm's `resnet50` and step 14 its `convnext_tiny`: with their weights the
outputs agree. Where Table 9 is silent, this is what we chose, mostly after the paper that it follows (Liu et al. 2022):

- Stride: in the 3 x 3 convolution of a stage's first block (as torchvision and timm have it; the first ResNet paper had it in the 1 x 1
  before), and so in the depthwise one from step 5 to 12. A block that changes stride or width has a 1 x 1 convolution and a norm in its
  shortcut.
- Step 6 prints 96, 384, 96 for its block; we read 1 x 1 from 96 to 384, depthwise 384, 1 x 1 back to 96, as Liu et al. do.
- From step 7 the depthwise convolution stands first and keeps the channels that come in; the 1 x 1 behind it widens.
- Step 8 takes pooling and activation out of the stem; its norm stays. Step 10 keeps the activation between the two 1 x 1 convolutions,
  step 11 the norm behind the depthwise one, as ConvNeXt does. Norms in stem and shortcuts are not of a block: they stay.
- Step 12 exchanges every norm for LayerNorm over channels (epsilon 1e-6), and every convolution gets a bias.
- Step 13 moves the stride between stages: LayerNorm, then 2 x 2 with stride 2; no shortcut has weights any more. Liu et al. add a LayerNorm
  behind the last average as well, wherever resolution changes; so do we, here.
- Step 14 has layer scale 1e-6 and stochastic depth up to 0.1, rising from block to block (off in eval mode).
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from timm.layers import DropPath, LayerNorm2d, calculate_drop_path_rates
from torch import Tensor, nn

from privlab.data import NORMALISE
from privlab.models.forward import drawn_by

PATTERNS = tuple(f"{n:03b}" for n in range(8))  # Figure 8: which of a block's three activations are there


@dataclass(frozen=True)
class Step:
    """One architecture. `number` and `name` are the paper's, `change` is what sets it apart from the step before; all else builds it."""

    number: int
    name: str
    change: str = ""
    dims: tuple[int, ...] = (64, 128, 256, 512)  # of the four stages
    depths: tuple[int, ...] = (3, 4, 6, 3)  # blocks a stage
    patchify: bool = False  # 4 x 4 with stride 4 in place of 7 x 7 with stride 2
    stem_activation: bool = True
    pool: bool = True  # 3 x 3 maxima with stride 2 behind the stem
    order: str = "bottleneck"  # of a block's convolutions: "bottleneck", "inverted", "depthwise first"
    depthwise: bool = False
    kernel: int = 3  # side of the spatial convolution
    activation: str = "relu"  # or "gelu"
    activations: str = "111"  # behind the first convolution, behind the second, behind the addition
    norm: str = "bn"  # or "ln"
    norms: str = "111"  # behind each of the three convolutions
    bias: bool = False  # of the convolutions
    downsampling: str = "in the block"  # or "between stages"
    drop_path: float = 0.0  # of the last block; the first has none
    layer_scale: float | None = None


STEPS = {1: Step(1, "ResNet-50")}  # number -> Step


def _next(name: str, change: str, **fields: Any) -> None:
    number = len(STEPS) + 1
    STEPS[number] = replace(STEPS[number - 1], number=number, name=name, change=change, **fields)


_ALL = "behind first convolution, second convolution"
_next("Channel dim", "channels of the four stages: 64 128 256 512 becomes 96 192 384 768", dims=(96, 192, 384, 768))
_next("Stage ratio", "blocks of the four stages: 3 4 6 3 becomes 3 3 9 3", depths=(3, 3, 9, 3))
_next("Patchify", "convolution of the stem: 7 x 7, stride 2 becomes 4 x 4, stride 4", patchify=True)
_next("ResNeXtify", "spatial convolution: dense becomes depthwise", depthwise=True)
_next("Inv bottleneck", "order in a block: bottleneck becomes inverted", order="inverted")
_next(
    "Kernel sizes",
    "order in a block: inverted becomes depthwise first; kernel of the spatial convolution: 3 x 3 becomes 7 x 7",
    order="depthwise first",
    kernel=7,
)
_next(
    "New stem",
    "activation in the stem: yes becomes no; pooling behind the stem: yes becomes no",
    stem_activation=False,
    pool=False,
)
_next("ReLU to GELU", "kind of activation: ReLU becomes GELU", activation="gelu")
_next("Removing Act", f"activations in a block: {_ALL}, addition becomes behind second convolution", activations="010")
_next("Removing BN", f"norms in a block: {_ALL}, third convolution becomes behind first convolution", norms="100")
_next("BN to LN", "norms: BatchNorm becomes LayerNorm; bias of convolutions: no becomes yes", norm="ln", bias=True)
_next("Sep downsamp", "downsampling: in the block becomes between stages", downsampling="between stages")
_next("ConvNeXt", "stochastic depth: none becomes 0.1; layer scale: none becomes 1e-6", drop_path=0.1, layer_scale=1e-6)

NAMES = {f"morph_{number}": number for number in STEPS}  # as `zoo.build` knows them
_CHOICES = dict(activation=("relu", "gelu"), norm=("bn", "ln"), activations=PATTERNS, norms=PATTERNS)


def variant(step: int, **changes: Any) -> Step:
    """A step with some of its design changed: the ablations of Figures 8 to 10, on any step.

    changes: of a `Step`: patchify, stem_activation, pool; activation ("relu", "gelu") and activations (of
        `PATTERNS`); norm ("bn", "ln") and norms (likewise three digits); bias; layer_scale (a number or None).
    Raises ValueError for a step that is not one of the fourteen, or an activation, norm or pattern that does not exist.
    """
    if step not in STEPS:
        raise ValueError(f"step={step!r} is none of the fourteen; give 1 (ResNet-50) to 14 (ConvNeXt-T)")
    varied = replace(STEPS[step], **changes)
    for field, choices in _CHOICES.items():
        if getattr(varied, field) not in choices:
            raise ValueError(f"{field}={getattr(varied, field)!r} is not known; use {' or '.join(map(repr, choices))}")
    return varied


def build(
    step: int, num_classes: int = 10, width: float = 1.0, depths: tuple[int, ...] | None = None, seed: int = 0,
    draw: str = "pytorch", **changes: Any,
) -> "Morph":  # fmt: skip
    """The network of a step, fresh, in eval mode, with CIFAR-10's preprocessing.

    step: 1 to 14.  changes: see `variant`.
    width: factor on all channels.  depths: blocks of each of the four stages, in place of the step's own.
    draw: how all convolutions of all steps are drawn; one way for all, or it would be a fifteenth difference (timm's ResNet and ConvNeXt
        have two). The paper does not say; "pytorch" is what a network has that nobody initialised, of variance 1 / (3 fan-in), biases
        too; "he" has 2 / fan-in, biases zero (He et al. 2015).
    Raises ValueError as `variant` does.
    """
    chosen = variant(step, **changes)
    dims = tuple(round(width * dim) for dim in chosen.dims)
    chosen = replace(chosen, dims=dims, depths=tuple(depths or chosen.depths))
    with drawn_by(seed):
        model = Morph(chosen, num_classes)
        for convolution in (module for module in model.modules() if isinstance(module, nn.Conv2d)):
            if draw == "pytorch":
                convolution.reset_parameters()
            else:
                nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
                if convolution.bias is not None:
                    nn.init.zeros_(convolution.bias)
    return model.eval()


class Morph(nn.Module):
    """A step's network.  step: with the widths and depths that were built.  normalise: its preprocessing."""

    def __init__(self, step: Step, num_classes: int) -> None:
        super().__init__()
        self.step, self.normalise = step, NORMALISE["cifar10"]
        self.stem = _stem(step)
        between, dim_in = step.downsampling == "between stages", step.dims[0]
        rates: Any = calculate_drop_path_rates(step.drop_path, [*step.depths], stagewise=True)
        stages: list[nn.Module] = []
        for dim, drop_paths in zip(step.dims, rates, strict=True):
            downsample: nn.Module = nn.Identity()
            stride = 1 if between or not stages else 2  # of the first block
            if between and stages:
                downsample = _chain(norm=_norm(step, dim_in), conv=nn.Conv2d(dim_in, dim, 2, 2, bias=step.bias))
                dim_in = dim
            blocks: list[Block] = []
            for rate in drop_paths:
                blocks.append(Block(step, dim_in, dim, stride, rate))
                stride, dim_in = 1, blocks[-1].out
            stages.append(_chain(downsample=downsample, blocks=nn.Sequential(*blocks)))
        self.stages = nn.Sequential(*stages)
        self.norm = _norm(step, dim_in, there=between)
        self.fc = nn.Linear(dim_in, num_classes)

    def forward_features(self, x: Tensor, stages: int = 4) -> Tensor:
        """The map behind so many stages: (batch, channels, height, width)."""
        return self.stages[:stages](self.stem(x))

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 3, height, width), preprocessed. Returns logits, (batch, num_classes)."""
        return self.fc(self.norm(self.forward_features(x).mean((2, 3), keepdim=True)).flatten(1))


class Block(nn.Module):
    """Three convolutions beside a shortcut, in each of the three orders."""

    def __init__(self, step: Step, dim_in: int, dim: int, stride: int, drop_path: float) -> None:
        super().__init__()
        pointwise = partial(nn.Conv2d, kernel_size=1, bias=step.bias)
        spatial = partial(_spatial, step, stride)
        # the two convolutions, the channels behind each, and those behind the third
        first, second, hidden, self.out = {
            "bottleneck": (pointwise, spatial, (dim, dim), 4 * dim),
            "inverted": (pointwise, spatial, (4 * dim, 4 * dim), dim),
            "depthwise first": (spatial, pointwise, (dim_in, 4 * dim), dim),
        }[step.order]
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or dim_in != self.out:
            projection = nn.Conv2d(dim_in, self.out, 1, stride, bias=step.bias)
            self.shortcut = _chain(conv=projection, norm=_norm(step, self.out))
        norms, activations = ([digit == "1" for digit in digits] for digits in (step.norms, step.activations))
        self.conv1 = first(dim_in, hidden[0])
        self.norm1, self.act1 = _norm(step, hidden[0], norms[0]), _activation(step, activations[0])
        self.conv2 = second(*hidden)
        self.norm2, self.act2 = _norm(step, hidden[1], norms[1]), _activation(step, activations[1])
        self.conv3 = pointwise(hidden[1], self.out)
        self.norm3 = _norm(step, self.out, norms[2])
        self.scale = None if step.layer_scale is None else nn.Parameter(torch.full((self.out,), step.layer_scale))
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()
        self.act3 = _activation(step, activations[2])

    def forward(self, x: Tensor) -> Tensor:
        y = self.act1(self.norm1(self.conv1(x)))
        y = self.act2(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        if self.scale is not None:
            y = y * self.scale[:, None, None]
        return self.act3(self.shortcut(x) + self.drop_path(y))  # (batch, out, height, width)


def _norm(step: Step, dim: int, there: bool = True) -> nn.Module:
    if not there:
        return nn.Identity()
    return nn.BatchNorm2d(dim) if step.norm == "bn" else LayerNorm2d(dim, eps=1e-6)


def _activation(step: Step, there: bool) -> nn.Module:
    if not there:
        return nn.Identity()
    return nn.ReLU() if step.activation == "relu" else nn.GELU()


def _spatial(step: Step, stride: int, dim_in: int, dim: int) -> nn.Conv2d:
    groups = dim_in if step.depthwise else 1
    return nn.Conv2d(dim_in, dim, step.kernel, stride, step.kernel // 2, groups=groups, bias=step.bias)


def _stem(step: Step) -> nn.Sequential:
    """Convolution, norm, and what is left of activation and pooling."""
    side, stride, padding = (4, 4, 0) if step.patchify else (7, 2, 3)
    return _chain(
        conv=nn.Conv2d(3, step.dims[0], side, stride, padding, bias=step.bias),
        norm=_norm(step, step.dims[0]),
        act=_activation(step, step.stem_activation),
        pool=nn.MaxPool2d(3, 2, 1) if step.pool else nn.Identity(),
    )


def _chain(**layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


def outline(model: Morph, stage: int = 1, block: int = 1) -> list[str]:
    """The layers of one block in order, in words, read off the network that was built.

    stage: 0 to 3, or -1 for the stem.
    block: counted from 0; the last where a stage has fewer. What stands before a stage belongs to its first block.
    """
    if stage < 0:
        layers: list[Any] = [*model.stem]
    else:
        part: Any = model.stages[stage]
        one = part.blocks[min(block, len(part.blocks) - 1)]
        _, *body, drop_path, last = one.children()  # the shortcut is the first
        before = [] if block else part.downsample.children()
        layers = [*before, *body, one.scale, drop_path, "add the shortcut", last]
    return [_words(layer) for layer in layers if layer is not None and not isinstance(layer, nn.Identity)]


def _words(layer: Any) -> str:
    if isinstance(layer, nn.Conv2d):
        deep, bias = " depthwise" * (layer.groups > 1), ", bias" * (layer.bias is not None)
        stride = f", stride {layer.stride[0]}" * (layer.stride[0] > 1)
        side = layer.kernel_size[0]
        return f"{side} x {side}{deep}, {layer.in_channels} to {layer.out_channels}{stride}{bias}"
    words = {nn.BatchNorm2d: "BatchNorm", LayerNorm2d: "LayerNorm", nn.ReLU: "ReLU", nn.GELU: "GELU"}
    words |= {nn.MaxPool2d: "maximum of 3 x 3, stride 2", nn.Parameter: "layer scale", DropPath: "stochastic depth"}
    return words.get(type(layer), layer)
