"""What an audit is given beside its model: taken where its meaning is clear, else refused in a line that says what would do."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privlab.data.images import check_range

GENERATOR = 2**63  # a generator takes seeds below that


def numbers(target: float, minutes: float, steps: int | None, seed: int = 0) -> None:
    """ValueError for a target, a budget or a seed that is none."""
    if not _real(minutes) or not 0 <= minutes < math.inf:
        raise ValueError(f"minutes={minutes!r} is no time to search; give 0 for a short search, or more, such as 30")
    if not _real(target) or not math.isfinite(target):
        raise ValueError(f"target={target!r} is no PSNR in dB; try 15")
    if steps is not None and (not _whole(steps) or steps < 1):
        raise ValueError(f"steps={steps!r} searches nothing; give 1 or more, or None")
    if not _whole(seed) or not 0 <= seed < GENERATOR:
        raise ValueError(f"seed={seed!r} is no seed; give a whole number from 0 on")


def pixels(argument: str, images: Any) -> Tensor:
    """(n, channels, height, width) in [0, 1] as float32 on the CPU, from a tensor or an array; ValueError for anything else."""
    shape = "(n, channels, height, width)"
    if isinstance(images, np.ndarray) and images.dtype.kind == "f":
        images = torch.from_numpy(images.astype(np.float64))
    if not isinstance(images, Tensor):
        stack = ", such as torch.stack(images)" if isinstance(images, list | tuple) else ""
        kind = f"array of {images.dtype}" if isinstance(images, np.ndarray) else type(images).__name__
        raise ValueError(f"{argument}: got {kind}; give a float tensor {shape} with values in [0, 1]{stack}")
    if images.is_nested or images.layout is not torch.strided or images.is_quantized or images.is_meta:
        kind, cure = _unusual(images)
        raise ValueError(f"{argument}: got {kind}; give {cure}")
    if images.ndim != 4 or images.numel() == 0:
        raise ValueError(f"{argument}: got {tuple(images.shape)}; give {shape}, one image or more")
    if not images.is_floating_point():
        raise ValueError(f"{argument}: got {images.dtype}; give floats in [0, 1], such as {argument}.float() / 255")
    check_range(argument, images, "give values in [0, 1]; the model's `normalise` normalises them")
    return images.detach().cpu().float().clamp(0, 1).clone()  # a hundredth beside it passed for rounding


def classes(labels: Any, count: int) -> Tensor:
    """(count,) int64 on the CPU, from whole numbers of any width; ValueError for anything else."""
    wants = "give a whole number each"
    if labels is None or isinstance(labels, str):
        raise ValueError(f"labels={labels!r} for {count} images; {wants}: the index of its class")
    if _whole(labels):
        labels = [labels]
    try:
        indices = labels if isinstance(labels, Tensor) else torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"labels={labels!r:.60} for {count} images; {wants}, such as [0, 3], or a tensor") from None
    if indices.is_nested or indices.layout is not torch.strided or indices.is_meta:
        raise ValueError(f"labels: got {_unusual(indices)[0]}; {wants}, such as torch.tensor([0, 3])")
    if indices.shape != (count,) or indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        cure = "; for one-hot rows, labels.argmax(1)" if indices.ndim == 2 and indices.shape[1] > 1 else ""
        shape, kind = tuple(indices.shape), indices.dtype
        raise ValueError(f"labels: got shape {shape} and type {kind} for {count} images; {wants}{cure}")
    return indices.detach().cpu().long().clone()


def groups(model: nn.Module, groups: Mapping[str, Sequence[str]] | None) -> None:
    """ValueError for parts that are no mapping to lists, or that name a parameter which the model does not have."""
    if groups is not None and not (isinstance(groups, Mapping) and all(isinstance(part, str) for part in groups)):
        raise ValueError(f"groups={groups!r:.60} is no mapping; give part -> names of parameters, such as a dict")
    parameters = [name for name, _ in model.named_parameters()]
    for part, names in (groups or {}).items():
        listed = isinstance(names, list | tuple | set | frozenset)
        odd = names if not listed else next((name for name in names if name not in parameters), None)
        if listed and all(name in parameters for name in names):
            continue
        close = difflib.get_close_matches(str(odd), parameters, 1, 0.5)
        raise ValueError(
            f"groups: {part!r} names {odd!r}, which is no parameter of {type(model).__name__}; give a list of names"
            + (f", such as {close[0]!r}" if close else "")
        )


def _real(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.complexfloating)


def _whole(value: Any) -> bool:
    try:
        return not isinstance(value, bool | Tensor | np.ndarray) and operator.index(value) is not None
    except TypeError:
        return False


def _unusual(tensor: Tensor) -> tuple[str, str]:
    """What is unusual about a tensor's storage, and what would do."""
    if tensor.is_meta:
        return "a tensor on the meta device, which holds no values", "one with values, on the CPU or the model's device"
    if tensor.is_nested:
        return "a nested tensor", "images of one size, such as images.to_padded_tensor(0)"
    if tensor.is_quantized:
        return "a quantised tensor", "floats: images.dequantize()"
    return "a sparse tensor", "a dense one: images.to_dense()"
