"""What a function that returns one number is told, by the number; the checks of lab 00 lie in privlab/course/lab_00."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch


def _number(answer: object, arguments: tuple, right: float, mistakes: dict[float, str]) -> Iterator[str]:
    """Yield why answer(*arguments) is not `right`; `mistakes` maps the values that known slips give to what to say."""
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    call: Callable = answer
    value = call(*arguments)
    if value is None:
        yield "Nothing is written yet; replace the dots."
        return
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        yield f"Give one number; this has the shape {tuple(value.shape)}."
        return
    value = float(value)
    if abs(value - right) <= 1e-3 * max(1.0, abs(right)):
        return
    for wrong, why in mistakes.items():
        if abs(value - wrong) <= 1e-3 * max(1.0, abs(wrong)):
            yield why
            return
    yield f"For the example it should be {right:.6g}, and yours gives {value:.6g}."
