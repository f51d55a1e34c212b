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

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from timm.layers import DropPath, LayerNorm2d
from torch import Tensor, nn

from privlab.data import NORMALISE
from privlab.models.morph_steps import NAMES, PATTERNS, STEPS, Diff, Step, diff, variant

__all__ = [
    "NAMES",
    "PATTERNS",
    "STEPS",
    "Block",
    "Diff",
    "Morph",
    "Step",
    "build",
    "diff",
    "outline",
    "variant",
]


def _he(convolution: nn.Conv2d) -> None:
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)


def _narrow(convolution: nn.Conv2d) -> None:
    nn.init.trunc_normal_(convolution.weight, std=0.02)
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)


DRAWS: dict[str, Callable[[nn.Conv2d], None]] = {
    "pytorch": nn.Conv2d.reset_parameters,  # variance 1 / (3 fan-in), biases too: as PyTorch has them
    "he": _he,  # variance 2 / fan-in, biases zero (He et al. 2015, ResNet)
    "narrow": _narrow,  # deviation .02 whatever the fan-in, biases zero (ConvNeXt, Transformers)
}


def build(
    step: int | Step,
    num_classes: int = 10,
    stem: str = "table9",
    width: float = 1.0,
    depths: tuple[int, ...] | None = None,
    seed: int = 0,
    draw: str = "pytorch",
    **changes: Any,
) -> Morph:
    """The network of a step, fresh, in eval mode, with CIFAR-10's preprocessing.

    step: 1 to 14, or a `Step`.  changes: see `variant`.
    stem: "table9", or "cifar": a 3 x 3 stem of stride 1 where the table prints the 7 x 7, and no pooling anywhere. (Table 9 prints the
        7 x 7; the 23.52 million parameters of section 3.2 are a ResNet-50's with the 3 x 3.)
    width: factor on all channels.  depths: blocks of each of the four stages, in place of the step's own.
    draw: how all convolutions of all steps are drawn, of `DRAWS`; one way for all, or it would be a fifteenth difference. (The stock ends
        have two: timm's ResNet draws after He et al. and begins each block with a zero, its ConvNeXt draws with deviation 0.02.)
        The paper does not say; "pytorch" is what a network has that nobody initialised.
    Raises ValueError for a step outside 1 to 14, another stem, a width that leaves no channel, or depths that are not four.
    """
    chosen = variant(step, **changes)
    if stem not in ("table9", "cifar"):
        raise ValueError(
            f'stem={stem!r} is not known; use "table9" (as printed) or "cifar" (3 x 3, stride 1, no pooling)'
        )
    if draw not in DRAWS:
        raise ValueError(f"draw={draw!r} is not known; use {', '.join(map(repr, DRAWS))}")
    dims = tuple(round(width * dim) for dim in chosen.dims)
    if min(dims) < 1:
        raise ValueError(
            f"width={width} leaves {dims} channels; the smallest that leaves one is {1 / min(chosen.dims):.3f}"
        )
    if depths is not None and (len(depths) != len(dims) or min(depths) < 1):
        raise ValueError(f"depths={depths} has to name four stages of 1 or more blocks, such as (1, 1, 1, 1)")
    chosen = replace(chosen, dims=dims, depths=tuple(depths or chosen.depths))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which seeds every GPU too
        return Morph(chosen, num_classes, stem, draw).eval()


class Block(nn.Module):
    """Three convolutions beside a shortcut, in each of the three orders."""

    def __init__(self, step: Step, dim_in: int, dim: int, stride: int, drop_path: float) -> None:
        super().__init__()
        wide = 4 * dim
        first = step.order == "depthwise first"
        hidden, out = {"bottleneck": ((dim, dim), wide), "inverted": ((wide, wide), dim)}.get(
            step.order, ((dim_in, wide), dim)
        )
        self.shortcut = _Projection(step, dim_in, out, stride) if stride > 1 or dim_in != out else nn.Identity()
        spatial = partial(_spatial, step, stride=stride)
        pointwise = partial(nn.Conv2d, kernel_size=1, bias=step.bias)
        self.conv1 = spatial(dim_in, hidden[0]) if first else pointwise(dim_in, hidden[0])
        self.norm1, self.act1 = _norm(step, hidden[0], step.norms[0]), _activation(step, step.activations[0])
        self.conv2 = pointwise(*hidden) if first else spatial(*hidden)
        self.norm2, self.act2 = _norm(step, hidden[1], step.norms[1]), _activation(step, step.activations[1])
        self.conv3 = pointwise(hidden[1], out)
        self.norm3 = _norm(step, out, step.norms[2])
        self.scale = None if step.layer_scale is None else nn.Parameter(torch.full((out,), step.layer_scale))
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()
        self.act3 = _activation(step, step.activations[2])
        self.out = out

    def forward(self, x: Tensor) -> Tensor:
        y = self.act1(self.norm1(self.conv1(x)))
        y = self.act2(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        if self.scale is not None:
            y = y * self.scale[:, None, None]
        return self.act3(self.shortcut(x) + self.drop_path(y))  # (batch, out, height, width)


class Stage(nn.Module):
    """Blocks of one resolution. The step from the last resolution is taken before them, or by the first of them."""

    def __init__(self, step: Step, dim_in: int, dim: int, drop_paths: list[float], first: bool) -> None:
        super().__init__()
        between = step.downsampling == "between stages"
        self.downsample = _Downsample(step, dim_in, dim) if between and not first else nn.Identity()
        stride, dim_in = (1 if first or between else 2), (dim if between else dim_in)
        blocks = []
        for rate in drop_paths:
            blocks.append(Block(step, dim_in, dim, stride, rate))
            stride, dim_in = 1, blocks[-1].out
        self.blocks = nn.Sequential(*blocks)
        self.out = dim_in

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.downsample(x))


class Morph(nn.Module):
    """A step's network.  step: with the widths and depths that were built.  normalise: its preprocessing."""

    def __init__(self, step: Step, num_classes: int, stem: str, draw: str) -> None:
        super().__init__()
        self.step, self.normalise, self.num_classes = step, NORMALISE["cifar10"], num_classes
        self.stem = _stem(step, stem)
        rates = iter(torch.linspace(0, step.drop_path, sum(step.depths), device="cpu").tolist())
        stages, dim_in = [], step.dims[0]
        for number, (dim, depth) in enumerate(zip(step.dims, step.depths, strict=True)):
            stages.append(Stage(step, dim_in, dim, [next(rates) for _ in range(depth)], first=number == 0))
            dim_in = stages[-1].out
        self.stages = nn.Sequential(*stages)
        self.norm = _norm(step, dim_in, "1" if step.downsampling == "between stages" else "0")
        self.fc = nn.Linear(dim_in, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                DRAWS[draw](module)

    def forward_features(self, x: Tensor, stages: int = 4) -> Tensor:
        """The map behind so many stages: (batch, channels, height, width)."""
        return self.stages[:stages](self.stem(x))

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 3, height, width), preprocessed. Returns logits, (batch, num_classes)."""
        _check_side(self.step, x)
        pooled = self.norm(self.forward_features(x).mean((2, 3), keepdim=True)).flatten(1)
        return self.fc(pooled)


def outline(model: Morph, stage: int = 1, block: int = 1) -> list[str]:
    """The layers of one block in order, in words, read off the network that was built.

    stage: 0 to 3, or -1 for the stem.
    block: counted from 0; the last where a stage has fewer. What stands before a stage belongs to its first block.
    """
    if stage < 0:
        return [_layer(layer) for layer in model.stem if not isinstance(layer, nn.Identity)]
    part: Any = cast(Stage, model.stages[stage])
    before = [] if block or isinstance(part.downsample, nn.Identity) else [part.downsample.norm, part.downsample.conv]
    part = part.blocks[min(block, len(part.blocks) - 1)]
    layers = [*before, part.conv1, part.norm1, part.act1, part.conv2, part.norm2, part.act2, part.conv3, part.norm3]
    words = [_layer(layer) for layer in layers if not isinstance(layer, nn.Identity)]
    words += ["layer scale"] if part.scale is not None else []
    words += ["stochastic depth"] if isinstance(part.drop_path, DropPath) else []
    return [*words, "add the shortcut", *([] if isinstance(part.act3, nn.Identity) else [_layer(part.act3)])]


def _layer(layer: Any) -> str:
    if isinstance(layer, nn.MaxPool2d):
        return "maximum of 3 x 3, stride 2"
    if isinstance(layer, nn.Softplus):
        return f"softplus of sharpness {layer.beta:g}"
    if not isinstance(layer, nn.Conv2d):
        return {nn.BatchNorm2d: "BatchNorm", LayerNorm2d: "LayerNorm", nn.ReLU: "ReLU", nn.GELU: "GELU"}[type(layer)]
    side, deep = layer.kernel_size[0], " depthwise" if layer.groups > 1 else ""
    stride, bias = (
        f", stride {layer.stride[0]}" if layer.stride[0] > 1 else "",
        ", bias" if layer.bias is not None else "",
    )
    return f"{side} x {side}{deep}, {layer.in_channels} to {layer.out_channels}{stride}{bias}"


def _norm(step: Step, dim: int, there: str = "1") -> nn.Module:
    if there == "0":
        return nn.Identity()
    return nn.BatchNorm2d(dim) if step.norm == "bn" else LayerNorm2d(dim, eps=1e-6)


def _activation(step: Step, there: str | bool) -> nn.Module:
    if there in ("0", False):
        return nn.Identity()
    if step.activation == "softplus":
        return nn.Softplus(step.sharpness)
    return nn.ReLU() if step.activation == "relu" else nn.GELU()


def _spatial(step: Step, dim_in: int, dim: int, stride: int) -> nn.Conv2d:
    groups = dim_in if step.depthwise else 1
    return nn.Conv2d(dim_in, dim, step.kernel, stride, step.kernel // 2, groups=groups, bias=step.bias)


class _Projection(nn.Sequential):
    """The shortcut of a block that changes stride or width."""

    def __init__(self, step: Step, dim_in: int, dim: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim_in, dim, 1, stride, bias=step.bias)
        self.norm = _norm(step, dim)


class _Downsample(nn.Sequential):
    """Between stages, from step 13."""

    def __init__(self, step: Step, dim_in: int, dim: int) -> None:
        super().__init__()
        self.norm = _norm(step, dim_in)
        self.conv = nn.Conv2d(dim_in, dim, 2, 2, bias=step.bias)


def _stem(step: Step, kind: str) -> nn.Sequential:
    """Convolution, norm, and what is left of activation and pooling."""
    side, stride, padding = (4, 4, 0) if step.patchify else (7, 2, 3) if kind == "table9" else (3, 1, 1)
    stem = nn.Sequential()
    stem.add_module("conv", nn.Conv2d(3, step.dims[0], side, stride, padding, bias=step.bias))
    stem.add_module("norm", _norm(step, step.dims[0]))
    stem.add_module("act", _activation(step, step.stem_activation))
    stem.add_module("pool", nn.MaxPool2d(3, 2, 1) if step.pool and kind == "table9" else nn.Identity())
    return stem


def _check_side(step: Step, x: Tensor) -> None:
    """Only convolutions without padding can leave nothing: the 4 x 4 stem, and the 2 x 2 between stages."""
    least = (4 if step.patchify else 1) * (2 ** (len(step.dims) - 1) if step.downsampling == "between stages" else 1)
    if min(x.shape[-2:]) < least:
        raise ValueError(
            f"images of {x.shape[-2]} x {x.shape[-1]} pixels end below one pixel in step {step.number}; give {least} x {least} or more"
        )
