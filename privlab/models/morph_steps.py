"""The fourteen steps from ResNet-50 to ConvNeXt-T as data (Zhang et al. 2024, section 5.2, Table 9), and what sets two of them apart."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

PATTERNS = tuple(f"{n:03b}" for n in range(8))  # Figure 8: which of a block's three activations are there


@dataclass(frozen=True)
class Step:
    """One architecture. `number` and `name` are the paper's; all else builds the network."""

    number: int
    name: str
    dims: tuple[int, ...] = (64, 128, 256, 512)  # of the four stages
    depths: tuple[int, ...] = (3, 4, 6, 3)  # blocks a stage
    patchify: bool = False  # 4 x 4 with stride 4 in place of 7 x 7 with stride 2
    stem_activation: bool = True
    pool: bool = True  # 3 x 3 maxima with stride 2 behind the stem
    order: str = "bottleneck"  # of a block's convolutions: "bottleneck", "inverted", "depthwise first"
    depthwise: bool = False
    kernel: int = 3  # side of the spatial convolution
    activation: str = "relu"  # or "gelu", "softplus"
    sharpness: float = (
        1.0  # of softplus: log(1 + exp(sharpness x)) / sharpness, at most log 2 / sharpness away from ReLU
    )
    activations: str = "111"  # behind the first convolution, behind the second, behind the addition
    norm: str = "bn"  # or "ln"
    norms: str = "111"  # behind each of the three convolutions
    bias: bool = False  # of the convolutions
    downsampling: str = "in the block"  # or "between stages"
    drop_path: float = 0.0  # of the last block; the first has none
    layer_scale: float | None = None


_SEQUENCE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ResNet-50", {}),
    ("Channel dim", dict(dims=(96, 192, 384, 768))),
    ("Stage ratio", dict(depths=(3, 3, 9, 3))),
    ("Patchify", dict(patchify=True)),
    ("ResNeXtify", dict(depthwise=True)),
    ("Inv bottleneck", dict(order="inverted")),
    ("Kernel sizes", dict(order="depthwise first", kernel=7)),
    ("New stem", dict(stem_activation=False, pool=False)),
    ("ReLU to GELU", dict(activation="gelu")),
    ("Removing Act", dict(activations="010")),
    ("Removing BN", dict(norms="100")),
    ("BN to LN", dict(norm="ln", bias=True)),
    ("Sep downsamp", dict(downsampling="between stages")),
    ("ConvNeXt", dict(drop_path=0.1, layer_scale=1e-6)),
)


def _steps() -> dict[int, Step]:
    steps = {1: Step(1, _SEQUENCE[0][0])}
    for number, (name, changes) in enumerate(_SEQUENCE[1:], start=2):
        steps[number] = replace(steps[number - 1], number=number, name=name, **changes)
    return steps


STEPS = _steps()  # number -> Step
NAMES = {f"morph_{number}": number for number in STEPS}  # as `zoo.build` knows them
_CHOICES = dict(activation=("relu", "gelu", "softplus"), norm=("bn", "ln"), activations=PATTERNS, norms=PATTERNS)


def variant(step: int | Step, **changes: Any) -> Step:
    """A step with some of its design changed: the ablations of Figures 8 to 10, on any step.

    changes: of a `Step`: patchify, stem_activation, pool; activation ("relu", "gelu", "softplus" with its sharpness above 0) and
        activations (of `PATTERNS`); norm ("bn", "ln") and norms (likewise three digits); bias; layer_scale (a number or None).
    Raises ValueError for a step that is not one of the fourteen, or an activation, norm or pattern that does not exist.
    """
    varied = replace(_step(step), **changes)
    for field, choices in _CHOICES.items():
        if getattr(varied, field) not in choices:
            raise ValueError(f"{field}={getattr(varied, field)!r} is not known; use {' or '.join(map(repr, choices))}")
    return varied


def diff(a: int | Step, b: int | Step) -> str:
    """What changes from step `a` to step `b`, numbers or `Step`s, in words: "From ... to ...: what: before becomes after; ..."."""
    before, after = _step(a), _step(b)
    changed = [f.name for f in fields(Step)[2:] if getattr(before, f.name) != getattr(after, f.name)]
    words = [f"{_PARTS[name]}: {_value(name, before)} becomes {_value(name, after)}" for name in changed]
    return f"From {before.name} ({before.number}) to {after.name} ({after.number}): {'; '.join(words) or 'nothing'}."


_PARTS = dict(
    dims="channels of the four stages",
    depths="blocks of the four stages",
    patchify="convolution of the stem",
    stem_activation="activation in the stem",
    pool="pooling behind the stem",
    order="order in a block",
    depthwise="spatial convolution",
    kernel="kernel of the spatial convolution",
    activation="kind of activation",
    sharpness="sharpness of softplus",
    activations="activations in a block",
    norm="kind of norm",
    norms="norms in a block",
    bias="bias of convolutions",
    downsampling="downsampling",
    drop_path="stochastic depth",
    layer_scale="layer scale",
)
_VALUES: dict[str, dict[Any, str]] = dict(
    patchify={True: "4 x 4, stride 4", False: "7 x 7, stride 2"},
    depthwise={True: "depthwise", False: "dense"},
    kernel={3: "3 x 3", 7: "7 x 7"},
    activation=dict(relu="ReLU", gelu="GELU", softplus="softplus"),
    norm=dict(bn="BatchNorm", ln="LayerNorm"),
    drop_path={0.0: "none"},
)


def _value(name: str, step: Step) -> str:
    """The value of one field, in words."""
    value = getattr(step, name)
    if name in _VALUES:
        return _VALUES[name].get(value, f"{value}")
    if name in ("activations", "norms"):
        last = "addition" if name == "activations" else "third convolution"
        places = zip(("first convolution", "second convolution", last), value, strict=True)
        there = [place for place, digit in places if digit == "1"]
        return "behind " + ", ".join(there) if there else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "layer_scale":
        return "none" if value is None else f"{value:g}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _step(step: int | Step) -> Step:
    if isinstance(step, Step):
        return step
    if step not in STEPS:
        raise ValueError(f"step={step!r} is none of the fourteen; give 1 (ResNet-50) to 14 (ConvNeXt-T)")
    return STEPS[step]
