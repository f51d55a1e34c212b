"""Checks of lab 09: a step of the morph as data, the resolution that comes along with a design, and a report."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from privlab.models.morph import STEPS, Step
from privlab.notebook.kit import function, one

# fmt: off
_digits = one("010", {
    "101": "activations='101' says which ones go; the digits say which ones stay.",
    "100": "activations='100' keeps the one behind the depthwise convolution; step 10 keeps the one between the two 1 x 1.",
    "001": "activations='001' keeps the one behind the addition, and step 10 has none there: look below 'add the shortcut'.",
    "111": "activations='111' is step 9 as it was: nothing is taken away.",
})


def variant(answer: Any) -> Iterator[str]:
    yield from _digits(getattr(answer, "activations", answer))
    if answer != replace(STEPS[9], activations="010"):
        yield "The digits are right. Make the step yourself, out of step 9: models.morph.variant(9, activations=...), and change no more."


def _sides(step: Step, side: int) -> list[int]:
    side = side // 4 if step.patchify else (side + 1) // 2
    sides = [(side + 1) // 2 if step.pool else side]
    for _ in range(3):
        sides.append(sides[-1] // 2 if step.downsampling == "between stages" else (sides[-1] + 1) // 2)
    return sides


sides = function(
    _sides,
    [(STEPS[n], side) for n, side in ((1, 32), (4, 32), (8, 32), (14, 32), (7, 224), (9, 36), (14, 36), (12, 100))],
    {
        "The pooling behind the stem halves the side once more.": lambda step, side: _sides(replace(step, pool=False), side),
        "Not every step has a pooling behind its stem: ask step.pool.": lambda step, side: _sides(replace(step, pool=True), side),
        "In the block a stride of 2 rounds up, between stages 2 x 2 without padding rounds down.":
            lambda step, side: _sides(replace(step, downsampling="between stages"), side),
    },
    "There are no half places, and the first stage keeps the side. The stem rounds down where it patchifies, and up elsewhere.",
)
