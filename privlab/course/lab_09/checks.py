"""Checks of lab 09: a step of the morph as data, the resolution that comes along with a design, a report, a jump, and a rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import sensitivity
from privlab.models import morph_steps
from privlab.models.morph_steps import STEPS, Step
from privlab.notebook.kit import OPEN, Check, function

PATTERNS = {  # the digits of step 9's activations -> what is said
    "101": "activations='101' says which ones go; the digits say which ones stay.",
    "100": "activations='100' keeps the one behind the depthwise convolution; step 10 keeps the one between the two 1 x 1.",
    "001": "activations='001' keeps the one behind the addition, and step 10 has none there: look below 'add the shortcut'.",
    "111": "activations='111' is step 9 as it was: nothing is taken away.",
}


def variant(answer: Any) -> Iterator[str]:
    if not isinstance(answer, Step):
        how = 'models.morph.variant(9, activations="..."), with three digits in place of the dots'
        yield OPEN if answer is ... else f"Give a step. {how}, makes one; this is a {type(answer).__name__}."
        return
    due = replace(STEPS[9], activations="010")
    if answer == STEPS[10]:
        yield "That is step 10 as the paper has it. Make it yourself, out of step 9: which of its activations stay?"
    if answer.activations != due.activations:
        kept = (
            f"activations={answer.activations!r} keeps {answer.activations.count('1')} of a block; step 10 keeps one."
        )
        yield PATTERNS.get(answer.activations, kept)
    if answer != due:
        yield f"More than the activations differs from step 10. {morph_steps.diff(answer, STEPS[10]).words}"


def _up(side: float) -> float:
    return (side + 1) // 2


def _sides(step: Step, side: float, pool: Any = True, up: Any = _up) -> list[float]:
    """Of the maps behind the four stages.  pool: what holds besides step.pool.  up: half of a side, where that is rounded up."""
    side = side // 4 if step.patchify else up(side)
    sides = [up(side) if step.pool and pool else side]
    for _ in range(3):
        sides.append(sides[-1] // 2 if step.downsampling == "between stages" else up(sides[-1]))
    return sides


# fmt: off
sides = function(
    _sides,
    [(STEPS[n], side) for n, side in ((1, 32), (4, 32), (8, 32), (14, 32), (1, 224), (7, 224), (9, 36), (14, 36), (12, 100))],
    {
        "The pooling behind the stem halves the side once more.": lambda step, side: _sides(step, side, pool=False),
        "Not every step has a pooling behind its stem: ask step.pool.": lambda step, side: _sides(replace(step, pool=True), side),
        "There are no half places: a convolution with padding rounds up, one without rounds down.":
            lambda step, side: _sides(step, side, up=lambda side: side / 2),
        "In the block a stride of 2 rounds up, between stages 2 x 2 without padding rounds down.":
            lambda step, side: _sides(step, side, up=lambda side: side // 2),
        "The first stage keeps the side, the second halves it.": lambda step, side: [_sides(step, side)[0], *_sides(step, side)[:3]],
    },
    "Look at the stem again: 4 x 4 with stride 4, or 7 x 7 with stride 2 and padding 3.",
)
# fmt: on
FIRST = {n: _sides(step, 32)[0] for n, step in STEPS.items()}  # side of the first stage's map
MISSING = "A step is missing. Compare sides(STEPS[n], 32)[0] with that of step n - 1, for each n from 2 to 14."
PSNR = [  # step -> one number a repeat, under each search
    {8: torch.tensor([12.0, 10.0, 14.0]), 9: torch.tensor([13.0, 9.0, 18.0]), 10: torch.tensor([15.0, 15.0, 15.0])},
    {8: torch.tensor([11.0, 12.0, 13.0]), 9: torch.tensor([17.0, 14.5, 20.0]), 10: torch.tensor([21.0, 16.0, 24.0])},
]


def _jump(of: dict[int, Tensor], step: int) -> Tensor:
    return of[step] - of[step - 1]


# fmt: off
hidden = function(
    lambda adam, newton, step: _jump(newton, step) - _jump(adam, step),
    [(*PSNR, 9), (*PSNR, 10)],
    {
        "The sign: what Adam did not see is above 0 where Gauss-Newton's jump is the larger.":
            lambda adam, newton, step: _jump(adam, step) - _jump(newton, step),
        "That compares the two searches at one step. The jump is from the step before.":
            lambda adam, newton, step: newton[step] - adam[step],
        "That is Gauss-Newton's jump. Take Adam's from it.": lambda adam, newton, step: _jump(newton, step),
        "That is Adam's jump. Ask by how much Gauss-Newton's is larger.": lambda adam, newton, step: _jump(adam, step),
        "That is the mean; a reader wants the spread too. Give one number a repeat.":
            lambda adam, newton, step: (_jump(newton, step) - _jump(adam, step)).mean(),
    },
    "Write down both jumps first, each from the step before.",
)


def _entropy(shares: Tensor) -> Tensor:
    return torch.special.entr(shares).sum()


rank = function(
    sensitivity.effective_rank,
    [(torch.tensor(values, dtype=torch.float64),) for values in ([1.0, 1, 1, 1], [2.0, 1, 1], [3.0, 1], [5.0, 0, 0], [1, 0.5, 0.25, 0.1])],
    {
        "0 log 0 counts as 0; torch.special.entr knows that.": lambda s: torch.exp(-(s / s.sum() * (s / s.sum()).log()).sum()),
        "This is the entropy; the rank is its exponential.": lambda s: _entropy(s / s.sum()),
        "A logarithm to base 2 goes with 2 to the power, the natural one with exp.":
            lambda s: torch.exp(_entropy(s / s.sum()) / torch.tensor(2.0).log()),
        "The shares are those of the singular values, not of their squares.": lambda s: _entropy(s**2 / (s**2).sum()).exp(),
        "That is the plain rank: how large the values are does not count in it.": lambda s: (s > 0).sum(),
    },
    "The entropy is minus the sum of p log p, and the rank its exponential.",
)
# fmt: on
CHECKS: dict[str, Check] = {
    "09.variant": variant,
    "09.sides": sides,
    "09.hidden": hidden,
    "09.rank": rank,
}
