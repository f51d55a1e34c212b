"""The fourteen steps from ResNet-50 to ConvNeXt-T as data (Zhang et al. 2024, section 5.2, Table 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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
    activation: str = "relu"  # or "gelu", "softplus"
    sharpness: float = 1.0  # of softplus: log(1 + exp(sharpness x)) / sharpness
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
_next(
    "BN to LN", "kind of norm: BatchNorm becomes LayerNorm; bias of convolutions: no becomes yes", norm="ln", bias=True
)
_next("Sep downsamp", "downsampling: in the block becomes between stages", downsampling="between stages")
_next(
    "ConvNeXt", "stochastic depth: none becomes 0.1; layer scale: none becomes 1e-06", drop_path=0.1, layer_scale=1e-6
)

NAMES = {f"morph_{number}": number for number in STEPS}  # as `zoo.build` knows them
_CHOICES = dict(activation=("relu", "gelu", "softplus"), norm=("bn", "ln"), activations=PATTERNS, norms=PATTERNS)


def variant(step: int, **changes: Any) -> Step:
    """A step with some of its design changed: the ablations of Figures 8 to 10, on any step.

    changes: of a `Step`: patchify, stem_activation, pool; activation ("relu", "gelu", "softplus" with its sharpness above 0) and
        activations (of `PATTERNS`); norm ("bn", "ln") and norms (likewise three digits); bias; layer_scale (a number or None).
    Raises ValueError for a step that is not one of the fourteen, or an activation, norm or pattern that does not exist.
    """
    if step not in STEPS:
        raise ValueError(f"step={step!r} is none of the fourteen; give 1 (ResNet-50) to 14 (ConvNeXt-T)")
    varied = replace(STEPS[step], **changes)
    for field, choices in _CHOICES.items():
        if getattr(varied, field) not in choices:
            raise ValueError(f"{field}={getattr(varied, field)!r} is not known; use {' or '.join(map(repr, choices))}")
    return varied
