"""Checks of lab 09: a step of the morph as data, the resolution that comes along with a design, and the effective rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from privlab.attacks.gradient_inversion import sensitivity
from privlab.models import morph_steps
from privlab.notebook.exercises import answers, reports
from privlab.notebook.exercises.answers import OPEN, a_function
from privlab.notebook.exercises.lab_00 import _number

# -- a step as data ------------------------------------------------------------------------------------------------------


def variant(answer: object) -> Iterator[str]:
    if answer is ...:
        yield OPEN
        return
    if not isinstance(answer, morph_steps.Step):
        how = 'models.morph.variant(9, activations="..."), with three digits in place of the dots'
        yield f"Give a step. {how}, makes one; this is a {type(answer).__name__}."
        return
    step = morph_steps.STEPS[10]
    if answer == step:
        yield "That is step 10 as the paper has it. Make it yourself, out of step 9: which of its activations stay?"
    if answer.activations != step.activations:
        yield from _why_pattern(answer.activations)
    if replace(answer, number=10, name=step.name, activations=step.activations) != step:
        yield f"More than the activations differs from step 10. {morph_steps.diff(answer, step).words}"


def _why_pattern(pattern: str) -> Iterator[str]:
    ones = pattern.count("1")
    if pattern == "101":
        yield "activations='101' says which ones go; the digits say which ones stay."
    elif ones == 3:
        yield "activations='111' is step 9 as it was: nothing is taken away."
    elif ones != 1:
        yield f"activations={pattern!r} keeps {ones} activations of a block; step 10 keeps one."
    elif pattern == "100":
        yield "activations='100' keeps the one behind the depthwise convolution; step 10 keeps the one between the two 1 x 1."
    else:
        yield "activations='001' keeps the one behind the addition, and step 10 has none there: look below 'add the shortcut'."


# -- what else a step changes --------------------------------------------------------------------------------------------


def _sides(step: morph_steps.Step, side: int) -> list[int]:
    side = side // 4 if step.patchify else math.ceil(side / 2)
    sides = [math.ceil(side / 2) if step.pool else side]
    for _ in range(3):
        sides.append(sides[-1] // 2 if step.downsampling == "between stages" else math.ceil(sides[-1] / 2))
    return sides


@a_function
def sides(answer: Callable[..., Any]) -> Iterator[str]:
    for number, side in ((1, 32), (4, 32), (8, 32), (14, 32), (1, 224), (7, 224), (9, 36), (14, 36), (12, 100)):
        step, sides = morph_steps.STEPS[number], answer(morph_steps.STEPS[number], side)
        sides = sides.tolist() if isinstance(sides, np.ndarray | torch.Tensor) else sides
        if sides is None:
            yield OPEN
            return
        where, right = f"sides(step {number}, {side})", _sides(step, side)
        if not isinstance(sides, list | tuple) or len(sides) != 4:
            yield f"{where} gives {sides!r}; give the four sides, one a stage."
            return
        if [float(v) for v in sides] != right:
            yield f"{where} gives {[float(v) if v % 1 else int(v) for v in sides]}, not {right}. {_why_sides(step, side, list(sides))}"
            return


def _why_sides(step: morph_steps.Step, side: int, sides: list[Any]) -> str:
    stem = side // 4 if step.patchify else math.ceil(side / 2)
    if step.pool and sides[0] == stem:
        return "The pooling behind the stem halves the side once more."
    if not step.pool and sides[0] == math.ceil(stem / 2):
        return "This step has no pooling behind its stem."
    if any(v % 1 for v in sides):
        return "There are no half places: a convolution with padding rounds up, one without rounds down."
    if sides[0] == sides[1]:
        return "The first stage keeps the side, the second halves it."
    if sides[0] == _sides(step, side)[0]:
        return "In the block a stride of 2 rounds up, between stages 2 x 2 without padding rounds down."
    return "Look at the stem again: 4 x 4 with stride 4, or 7 x 7 with stride 2 and padding 3."


def moved(answer: object) -> Iterator[str]:
    if answer is ... or (isinstance(answer, set) and answer == {...}):
        yield OPEN
        return
    items = [answers.number(n) for n in answers.collection(answer) or ()]
    if answers.collection(answer) is None or any(n is None or n % 1 for n in items):
        yield f"Give a set of numbers of steps, such as {{2, 3}}; this is {answer!r}."
        return
    numbers = {int(n) for n in items if n is not None}
    right = {n for n in range(2, 15) if _sides(morph_steps.STEPS[n], 32)[0] != _sides(morph_steps.STEPS[n - 1], 32)[0]}
    for n in sorted(numbers - right):
        if n == 13:
            yield "Step 13 moves where the side is halved, from inside the blocks to between stages; the first stage keeps its own."
        elif n in morph_steps.STEPS and n > 1:
            yield f"Step {n} leaves the first stage's map at {_sides(morph_steps.STEPS[n], 32)[0]} x {_sides(morph_steps.STEPS[n], 32)[0]}."
        else:
            yield f"Step {n} has no step before it among the fourteen."
    if missing := len(right - numbers):
        so_far = f"Right so far: {', '.join(map(str, sorted(numbers)))}. " if numbers else ""
        count = "One step is" if missing == 1 else f"{missing} steps are"
        yield f"{so_far}{count} missing. Compare sides(STEPS[n], 32)[0] with that of step n - 1, for each n from 2 to 14."


# -- the effective rank --------------------------------------------------------------------------------------------------


def rank(answer: object) -> Iterator[str]:
    for values in ([1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [3.0, 1.0], [5.0, 0.0, 0.0], [1.0, 0.5, 0.25, 0.125]):
        singular = torch.tensor(values, dtype=torch.float64)
        yield from _number(answer, (singular,), sensitivity.effective_rank(singular), _slips(singular))


def _slips(singular: torch.Tensor) -> dict[float, str]:
    shares = singular / singular.sum()
    squares = singular.square() / singular.square().sum()
    entropy = torch.special.entr(shares).sum().item()
    return {
        math.nan: "0 log 0 counts as 0; torch.special.entr knows that.",
        entropy: "This is the entropy; the rank is its exponential.",
        math.exp(-entropy): "The sign: entropy is minus the sum of p log p.",
        math.exp(entropy / math.log(2)): "A logarithm to base 2 goes with 2 to the power, the natural one with exp.",
        torch.special.entr(squares)
        .sum()
        .exp()
        .item(): "The shares are those of the singular values, not of their squares.",
        float((singular > 0).sum()): "That is the plain rank: how large the values are does not count in it.",
    }


# -- whose jump ----------------------------------------------------------------------------------------------------------


@a_function
def hidden(answer: Callable[..., Any]) -> Iterator[str]:
    adam = {
        8: torch.tensor([12.0, 10.0, 14.0]),
        9: torch.tensor([13.0, 9.0, 18.0]),
        10: torch.tensor([15.0, 15.0, 15.0]),
    }
    newton = {
        8: torch.tensor([11.0, 12.0, 13.0]),
        9: torch.tensor([17.0, 14.5, 20.0]),
        10: torch.tensor([21.0, 16.0, 24.0]),
    }
    for step in (9, 10):
        value = answer(adam, newton, step)
        if value is None:
            yield OPEN
            return
        value = torch.as_tensor(value, dtype=torch.float32)
        jumps = [of[step] - of[step - 1] for of in (adam, newton)]
        right = jumps[1] - jumps[0]
        if value.shape != right.shape:
            mean = "That is the mean; a reader wants the spread too. " if value.numel() == 1 else ""
            yield f"{mean}There are {len(right)} repeats, and yours has the shape {tuple(value.shape)}: give one number a repeat."
            return
        slips = {
            "The sign: what Adam did not see is above 0 where Gauss-Newton's jump is the larger.": -right,
            "That compares the two searches at one step. The jump is from the step before.": newton[step] - adam[step],
            "That is Gauss-Newton's jump. Take Adam's from it.": jumps[1],
            "That is Adam's jump. Ask by how much Gauss-Newton's is larger.": jumps[0],
        }
        for why, slip in slips.items():
            if torch.allclose(value, slip):
                yield why
                return
        if not torch.allclose(value, right, atol=1e-4):
            jumped = f"Adam jumps by {jumps[0].tolist()} at step {step}, Gauss-Newton by {jumps[1].tolist()}"
            yield f"{jumped}; yours makes {value.tolist()} of it."
            return


CHECKS = {
    "09.variant": variant,
    "09.report": reports.report,
    "09.sides": sides,
    "09.moved": moved,
    "09.hidden": hidden,
    "09.rank": rank,
}
DEEPER = {"second_order": ("09.hidden",), "receptive_field": ("09.rank",)}
