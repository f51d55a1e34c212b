"""The fourteen steps from ResNet-50 to ConvNeXt-T as data (Zhang et al. 2024, section 5.2, Table 9), and what sets two of them apart."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

CHANGES = (
    "patchify",
    "stem_activation",
    "pool",
    "activation",
    "sharpness",
    "activations",
    "norm",
    "norms",
    "bias",
    "layer_scale",
)
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
        1.0  # of softplus: log(1 + exp(sharpness x)) / sharpness, from ReLU never more than log 2 / sharpness away
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


def variant(step: int | Step, **changes: Any) -> Step:
    """A step with some of its design changed: the ablations of Figures 8 to 10, on any step.

    changes: of `CHANGES`: patchify, stem_activation, pool; activation ("relu", "gelu", "softplus" with its sharpness above 0) and
        activations (of `PATTERNS`); norm ("bn", "ln")
        and norms (likewise three digits); bias; layer_scale (a number or None).
    Raises ValueError for a step that is not one of the fourteen, or a change that does not exist.
    """
    chosen = step if isinstance(step, Step) else _numbered(step)
    unknown = sorted(set(changes) - set(CHANGES))
    if unknown:
        raise ValueError(f"changes={unknown} are none of a step; there are {', '.join(CHANGES)}")
    varied = replace(chosen, **changes)
    for field, allowed in (("activation", ("relu", "gelu", "softplus")), ("norm", ("bn", "ln"))):
        if getattr(varied, field) not in allowed:
            raise ValueError(f"{field}={getattr(varied, field)!r} is not known; use {' or '.join(map(repr, allowed))}")
    if not 0 < varied.sharpness < float("inf"):
        raise ValueError(
            f"sharpness={varied.sharpness} bends nothing; give a positive number, 1 for softplus as it is, 100 for nearly ReLU"
        )
    for field in ("activations", "norms"):
        pattern = getattr(varied, field)
        if pattern not in PATTERNS:
            raise ValueError(
                f"{field}={pattern!r} is no pattern; give three digits in quotes, 1 where it is kept and 0 where not, such as '110'"
            )
    return varied


@dataclass(frozen=True)
class Diff:
    """What changes from one architecture to another.  table: a row for each part, with `before` and `after`.  words: in a sentence."""

    words: str
    table: pd.DataFrame

    def __str__(self) -> str:
        return self.words


def diff(a: int | Step, b: int | Step) -> Diff:
    """What changes from step `a` to step `b`, numbers or `Step`s."""
    import pandas as pd  # not at the top: whoever trains a network need not load it

    before, after = (step if isinstance(step, Step) else _numbered(step) for step in (a, b))
    changed = [f.name for f in fields(Step)[2:] if getattr(before, f.name) != getattr(after, f.name)]
    rows = [(_PARTS[name], _told(name, before), _told(name, after)) for name in changed]
    table = pd.DataFrame(rows, columns=["part", "before", "after"])
    words = "; ".join(f"{part}: {old} becomes {new}" for part, old, new in rows) or "nothing"
    return Diff(f"From {before.name} ({before.number}) to {after.name} ({after.number}): {words}.", table)


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


def _told(name: str, step: Step) -> str:
    """The value of one field, in words."""
    value = getattr(step, name)
    if name == "patchify":
        return "4 x 4, stride 4" if value else "7 x 7, stride 2"
    if name == "depthwise":
        return "depthwise" if value else "dense"
    if name == "kernel":
        return f"{value} x {value}"
    if name in ("activations", "norms"):
        places = (
            "first convolution",
            "second convolution",
            "addition" if name == "activations" else "third convolution",
        )
        present = [place for place, there in zip(places, value, strict=True) if there == "1"]
        return "behind " + ", ".join(present) if present else "none"
    if name in ("activation", "norm"):
        return {"relu": "ReLU", "gelu": "GELU", "softplus": "softplus", "bn": "BatchNorm", "ln": "LayerNorm"}[value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in ("drop_path", "layer_scale"):
        return "none" if value is None or (name == "drop_path" and value == 0) else f"{value:g}"  # a scale of 0 is one
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _numbered(number: int) -> Step:
    if number not in STEPS:
        raise ValueError(f"step={number!r} is none of the fourteen; give 1 (ResNet-50) to 14 (ConvNeXt-T)")
    return STEPS[number]
