"""Checks of lab 05: the theorem by hand, counting unknowns, noise, the rank rule, and whose photograph can be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.lab_00 import _number


@a_function
def theorem(answer: Callable[..., Any]) -> Iterator[str]:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(9, 3, generator=generator, dtype=torch.float64)  # (3 width, width)
    gradient = torch.randn(9, 3, generator=generator, dtype=torch.float64)
    right = weight.T @ gradient
    value = answer(weight, gradient)
    if value is None:
        yield "Nothing is written yet; replace the dots."
        return
    value = torch.as_tensor(value).double()
    if tuple(value.shape) != (3, 3):
        yield f"B is (width, width), 3 x 3 here; yours is {tuple(value.shape)}. The weight must be transposed, and the three sum up."
        return
    if torch.allclose(value, right):
        return
    parts = [weight[i : i + 3].T @ gradient[i : i + 3] for i in (0, 3, 6)]
    if torch.allclose(value, right.T):
        yield "That is the transpose: the transposed weight stands on the left, its gradient on the right."
    for name, part in zip("qkv", parts, strict=True):
        if torch.allclose(value, right - part):
            yield f"The part of {name} is missing: all three projections read the same tokens."
        if torch.allclose(value, part):
            yield f"That is the part of {name} alone: sum over query, key and value."
    blocks = [(weight[i : i + 3], gradient[i : i + 3]) for i in (0, 3, 6)]
    if torch.allclose(value, torch.stack([w @ g for w, g in blocks]).sum(0)):
        yield "Transpose the weight: dL/dZ = dQ Wq + ..., so Wq^T stands in front after transposing."
    if torch.allclose(value, torch.stack([w @ g.T for w, g in blocks]).sum(0)):
        yield "Transpose the weight, not its gradient."
    yield "The shape is right and the numbers are not. Write B out for the query alone first: Wq^T dWq."


def width(answer: object) -> Iterator[str]:
    cases = [
        ((768, 224, 16), 0, "ViT-B has 196 patches and 768 equations for each pixel column: nothing is left open."),
        ((192, 224, 16), 5, "deit_tiny has width 192 and 196 patches."),
        ((98, 224, 16), 99, "Half as wide as there are patches: half of the directions are open."),
        ((192, 224, 32), 0, "Count the patches again: at patch 32 there are 49."),
        ((16, 32, 4), 49, "A 32-pixel image in patches of 4 has 64 patches, not 8."),
    ]
    for arguments, right, why in cases:
        patches = (arguments[1] // arguments[2]) ** 2
        mistakes = {
            float(
                patches - arguments[0]
            ): "One too few: each g_i has come back through a LayerNorm, so its numbers sum to zero "
            "and there is one equation fewer than the width. Count the rank in the cell above.",
            float(
                arguments[0] - patches
            ): "The other way round, and never below zero: patches are unknowns, width counts equations.",
            float(patches - arguments[0] + 1): "A system cannot leave fewer than no directions open.",
            float(bool(right)): "Say how many directions are open, not only whether there are any.",
        }
        mistakes.pop(float(right), None)
        for reason in _number(answer, arguments, float(right), mistakes):
            yield f"hidden{arguments}: {reason} {why}"


def noise(answer: object) -> Iterator[str]:
    g = torch.full((100,), 3.0)  # norm 30, root mean square 3
    yield from _number(answer, (g, 0.1), 0.3, {
        3.0: "That is relative * |g|: each of the 100 numbers gets noise, so the noise as a whole would be ten times too large.",
        0.03: "That divides by the count; a sum of n squares grows with n, its root with sqrt(n).",
        0.09: "That is the variance; give the standard deviation.",
        0.1: "That ignores how large the gradient is.",
        0.0: "This gradient does not vary, yet it has a norm: use the norm, not the standard deviation, of its numbers.",
    })  # fmt: skip


def rank(answer: object) -> Iterator[str]:
    why = "Rows sum to zero and columns sum to zero: how many free entries does the table then have?"
    for (side, patch), right in {(4, 8): 9, (2, 16): 1, (8, 4): 48, (14, 16): 169}.items():
        mistakes = {
            float(side * side): "That many combinations exist in all; most of them the embedding does see.",
            float(side * side - 1): "That is the count for no embedding at all.",
            float(2 * side - 1): "That is the rank, what the embedding shows; the question is what it hides.",
            float((side - 1) ** 2): "A patch has only 3 p^2 numbers, so no more than that can be hidden.",
            0.0: "A random embedding hides nothing; this one is a function of the row plus a function of the column.",
        }
        mistakes.pop(float(right), None)
        for reason in _number(answer, (side, patch), float(right), mistakes):
            yield f"hidden_2d(side={side}, patch={patch}): {reason} {why}"


@a_function
def design(answer: Callable[..., Any]) -> Iterator[str]:
    """The largest rank that still hides at least k directions of each patch, for so many patches."""
    for (patches, k), right in {(16, 10): 5, (16, 1): 14, (64, 40): 23, (16, 15): 0}.items():
        value = answer(patches, k)
        if value is None:
            yield "Nothing is written yet; replace the dots."
            return
        value = answers.number(value)
        if value is None:
            yield "Give a whole number, the rank."
            return
        if value == right:
            continue
        if value == right + 1:
            yield f"largest_rank({patches}, {k}) = {value:g} hides one too few: the column of ones takes a rank as well."
        elif value < right:
            yield f"largest_rank({patches}, {k}) = {value:g} is safe, but {right} is too, and a richer embedding helps the task."
        yield f"largest_rank({patches}, {k}) = {value:g} hides {patches - value - 1:g} directions; you need {k}, at the largest rank."


COMPUTED = {
    "a": "bfloat16 keeps 8 significant digits of a binary number. With such a well conditioned system they are enough. Try it at the desk.",
    "b": "One client withholds a gradient, and the embedding itself is still known: the server sent it. What does the second system need?",
    "c": "Look at the chart of fixed embeddings again. One of them hides nothing, and is only badly conditioned: float64 is enough.",
}
HIDDEN = {
    "d": "(d) Rank 4 hides n - rank[E 1] = 11 directions of each patch, however many digits are sent.",
    "e": "(e) So much noise drowns every singular value: the picture is no better than the mean photograph.",
    "f": "(f) Both systems are equations for one image. The mean of two gradients solves neither for the one nor for the other.",
}


def clients(answer: object) -> Iterator[str]:
    yield from answers.letters(answer, COMPUTED, HIDDEN, "the clients are a to f")


CHECKS = {
    "05.theorem": theorem,
    "05.width": width,
    "05.noise": noise,
    "05.rank": rank,
    "05.design": design,
    "05.clients": clients,
}
DEEPER = {"the_two_theorems": ("05.theorem",), "width_and_noise": ("05.width",)}
