"""Checks of lab 09: a step of the morph as data, the resolution that comes along with a design, a report, a jump, and a rank."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from privlab.attacks.gradient_inversion.sensitivity import effective_rank
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

PSNR = [  # step -> one number a repeat, under each search
    {8: torch.tensor([12.0, 10.0, 14.0]), 9: torch.tensor([13.0, 9.0, 18.0]), 10: torch.tensor([15.0, 15.0, 15.0])},
    {8: torch.tensor([11.0, 12.0, 13.0]), 9: torch.tensor([17.0, 14.5, 20.0]), 10: torch.tensor([21.0, 16.0, 24.0])},
]
hidden = function(
    lambda adam, newton, k: (newton[k] - newton[k - 1]) - (adam[k] - adam[k - 1]),
    [(*PSNR, 9), (*PSNR, 10)],
    {
        "That compares the two searches at one step. The jump is from the step before.": lambda adam, newton, k: newton[k] - adam[k],
        "That is Gauss-Newton's jump. Take Adam's from it.": lambda adam, newton, k: newton[k] - newton[k - 1],
    },
    "Write down both jumps first, each from the step before.",
)

rank = function(
    effective_rank,
    [(torch.tensor(values),) for values in ([1.0, 1, 1, 1], [2.0, 1, 1], [3.0, 1], [5.0, 0, 0], [1, 0.5, 0.25, 0.1])],
    {
        "0 log 0 counts as 0; torch.special.entr knows that.": lambda s: torch.exp(-(s / s.sum() * (s / s.sum()).log()).sum()),
        "This is the entropy; the rank is its exponential.": lambda s: math.log(effective_rank(s)),
        "A logarithm to base 2 goes with 2 to the power, the natural one with exp.": lambda s: effective_rank(s) ** (1 / math.log(2)),
        "The shares are those of the singular values, not of their squares.": lambda s: effective_rank(s**2),
    },
    "The entropy is minus the sum of p log p, and the rank its exponential.",
)
