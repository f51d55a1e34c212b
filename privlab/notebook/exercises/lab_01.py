"""What a function is told by what it gives; the checks of lab 01 lie in privlab/course/lab_01."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from privlab.notebook.exercises.answers import OPEN


def compare(
    answer: object, cases: list[tuple], right: Callable, slips: dict[str, Callable], hint: str
) -> Iterator[str]:
    """Yield why a function that returns one number is not `right`, judged on all cases at once.

    cases: tuples of arguments; tensors among them are handed over as copies.
    slips: what to say to an answer that gives on every case what this function gives.
    hint: what else to say; where no slip fits it follows the first case that is off.
    """
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    values = []
    for case in cases:
        value = answer(*(x.clone() if isinstance(x, Tensor) else x for x in case))
        if value is None:
            yield OPEN
            return
        if math.prod(shape := tuple(np.shape(value))) != 1:
            yield f"Give one number; this has the shape {shape}."
            return
        values.append(float(value.item() if hasattr(value, "item") else value))
    due = [float(right(*case)) for case in cases]
    if _close(values, due):
        return
    for why, slip in slips.items():
        if _close(values, [float(slip(*case)) for case in cases]):
            yield why
    for case, value, expected in zip(cases, values, due, strict=True):
        if not _close([value], [expected]):
            numbers = ", ".join(str(_numbers(x)) for x in case)
            yield f"For ({numbers}) it should be {expected:.6g}, and yours gives {value:.6g}. {hint}"


def combine(build: Callable, *parts: dict[str, Callable]) -> dict[str, Callable]:
    """All that can be built of parts of which at most two are wrong, the fewest first; "" is the right one.

    parts: for each part what to say of a choice, "" of the right one, and the choice.  build: makes one of a choice of each.
    """
    whys = sorted(itertools.product(*parts), key=lambda why: sum(map(bool, why)))
    return {
        " ".join(filter(None, why)): build(*(part[w] for part, w in zip(parts, why, strict=True)))
        for why in whys
        if sum(map(bool, why)) <= 2
    }


def _close(values: list[float], due: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(values, due, strict=True))


def _numbers(argument: Tensor | float) -> list | float:
    tensor = torch.as_tensor(argument)
    return (tensor.int() if tensor.dtype == torch.bool else tensor).tolist()
