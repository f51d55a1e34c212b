"""Checks of lab 06: APRIL's loss, an image with the same gradients, what a narrow valley costs, and when a search has arrived."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.leak import observe
from privlab.models import april
from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import OPEN, a_function
from privlab.notebook.exercises.lab_00 import _number

# -- equation 12 -----------------------------------------------------------------------------------------------------------


def april_loss(answer: object) -> Iterator[str]:
    mine, theirs = _two_gradients()
    alpha = 2.0
    squares = {n: (mine[n] - theirs[n]).square().sum().item() for n in mine}
    distance = sum(squares.values())
    cosine = _cosine(mine["pos_embed"], theirs["pos_embed"])
    right = distance - alpha * cosine
    names = sorted(mine)
    whole = _cosine(*(torch.cat([g[n].flatten() for n in names]) for g in (mine, theirs)))
    tokens = F.cosine_similarity(mine["pos_embed"], theirs["pos_embed"], dim=-1)  # (1, tokens)
    dot = (mine["pos_embed"] * theirs["pos_embed"]).sum().item()
    numbers = sum(g.numel() for g in mine.values())
    yield from _number(answer, (mine, theirs, alpha), right, {
        distance + alpha * cosine: "The sign is turned: a search goes downhill, and the cosine is to rise. Equation 12 subtracts it.",
        distance + alpha * (1 - cosine): "The slope is right, but equation 12 has the cosine alone, without the 1.",
        distance - cosine: "You left alpha out.",
        alpha * distance - cosine: "Alpha weighs the cosine, not the distance.",
        alpha * (distance - cosine): "Alpha weighs the cosine alone.",
        distance: "That is the distance alone, DLG's: the position term is missing.",
        -alpha * cosine: "That is the position term alone: the distance over all gradients is missing.",
        distance - alpha * whole: "Your cosine is over all gradients. APRIL's is that of pos_embed's alone.",
        distance - alpha * tokens.mean().item(): "You averaged a cosine a token. All tokens together are one long vector, with one cosine.",
        distance - alpha * tokens.sum().item(): "You added up a cosine a token. All tokens together are one long vector, with one cosine.",
        distance - alpha * dot: "Divide the product by both lengths: it is a direction that is compared.",
        distance - squares["pos_embed"] - alpha * cosine: "The distance runs over all gradients, pos_embed's among them.",
        squares["pos_embed"] - alpha * cosine: "The distance runs over all gradients; yours over pos_embed's alone.",
        math.sqrt(distance) - alpha * cosine: "The distance is squared in equation 12: do not take its root.",
        distance / numbers - alpha * cosine: "Equation 12 adds the squares up; yours takes their mean.",
        sum(math.sqrt(s) for s in squares.values()) - alpha * cosine: "That adds up lengths, GradViT's distance; equation 12 adds squares.",
    })  # fmt: skip


def _cosine(a: Tensor, b: Tensor) -> float:
    return ((a * b).sum() / (a.norm() * b.norm())).item()


def _two_gradients() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Gradients of the same three parameters, in different orders."""
    draw = torch.Generator().manual_seed(6)
    shapes = {"patch_embed.proj.weight": (4, 6), "pos_embed": (1, 3, 4), "head.weight": (2, 4)}
    mine = {n: torch.randn(shape, generator=draw) for n, shape in shapes.items()}
    return mine, {n: 0.6 * mine[n] + 0.5 * torch.randn(shapes[n], generator=draw) for n in reversed(shapes)}


# -- twins -------------------------------------------------------------------------------------------------------------------

PATCH = 8


@a_function
def twin(answer: Callable[..., Any]) -> Iterator[str]:
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    other = answers.tensor(answer(image.clone()))
    if other is None:
        yield OPEN
        return
    if not isinstance(other, Tensor) or other.shape != image.shape:
        what = f"one of {tuple(other.shape)}" if isinstance(other, Tensor) else f"a {type(other).__name__}"
        yield f"A twin is an image of the same shape, {tuple(image.shape)}; yours is {what}."
        return
    other = other.detach().float()
    if not other.isfinite().all() or other.min() < -1e-3 or other.max() > 1 + 1e-3:
        yield "A twin is an image: its pixels must stay in [0, 1]."
        return
    difference = (other - image).square().mean().sqrt().item()
    if difference < 0.05:
        yield f"That is the image {'itself' if difference == 0 else 'but for a few hundredths'}: too easy. Be clearly different."
        return
    name, gap = furthest_apart(image, other.clamp(0, 1))
    if gap > 1e-6:
        yield f"The gradients tell the two apart, that of {name!r} most: it moved by {gap:.1%} of its length. {_why_apart(image, other)}"


def furthest_apart(one: Tensor, other: Tensor) -> tuple[str, float]:
    """The parameter whose gradient differs most between two images, and by what share of its length; a ViT without positions."""
    model = april.build("b", width=32, depth=2, heads=2, position="none", patch_size=PATCH).double()
    first, second = (observe(model, x.double(), torch.tensor([3])).grads for x in (one, other))
    apart = {n: ((first[n] - second[n]).norm() / first[n].norm()).item() for n in first}
    name = max(apart, key=apart.__getitem__)
    return name, apart[name]


def _why_apart(image: Tensor, other: Tensor) -> str:
    mine, flipped = _bag(image), {axes: _bag(image.flip(axes)) for axes in ((-1,), (-2,), (-1, -2))}
    bag_of_answer = _bag(other)
    if bag_of_answer <= mine:
        return (
            "One of its patches is there twice, and another is missing: a bag of patches has each as often as before."
        )
    if any(bag_of_answer == bag for bag in flipped.values()):
        return "You mirrored the inside of the patches. Move whole patches, and leave each as it is."
    if bag_of_answer == _bag(image.transpose(-1, -2)):
        return "You turned the inside of the patches over. Move whole patches, and leave each as it is."
    if torch.allclose(_cut(image).sort(1).values, _cut(other).sort(1).values):
        return "You moved pixels within their patches. The patch embedding sees those; what it cannot see is which patch stands where."
    if torch.allclose(image.flatten().sort().values, other.flatten().sort().values):
        return f"The pixels are all there, but the patches are cut through: move whole patches of {PATCH} x {PATCH}, from edge to edge."
    return "You changed the pixels themselves. Without positions the model sees a bag of patches: change nothing but their order."


def _cut(image: Tensor) -> Tensor:
    return F.unfold(image, PATCH, stride=PATCH)[0].T  # (patches, numbers of a patch)


def _bag(image: Tensor) -> set[tuple[float, ...]]:
    return {tuple(patch) for patch in _cut(image).mul(1e4).round().tolist()}


# -- a narrow valley -----------------------------------------------------------------------------------------------------------


def valley(answer: object) -> Iterator[str]:
    for condition, factor in ((3.0, 10.0), (20.0, 10.0), (650.0, 100.0)):
        square = condition**2

        def steps(rate: float, drop: float = factor) -> float:
            return math.log(drop) / -math.log(rate)

        exact = steps((square - 1) / (square + 1))
        right = math.ceil(exact)
        best = (square - 1) / (square + 1)
        mistakes = {
            float(math.ceil(steps((condition - 1) / (condition + 1)))):
                "You took the condition where its square belongs: the loss is steep by s^2.",
            float(math.ceil(steps((square - 1) / square))):
                "That is the rate of a step length of 1 / s_1^2. The best, 2 / (s_1^2 + s_n^2), is nearly twice as long.",
            float(math.ceil(steps(best, factor**0.5))):
                "The errors z themselves shrink at that rate; what shrinks with its square is the loss.",
            float(math.ceil(steps(best, factor**2))): "Once is enough: the error is to shrink by the factor, not by its square.",
            float(right - 1): "One step too few: after that many it has not quite shrunk by the factor. Round up.",
            exact: "Give whole steps: round up.",
            float(right + 1): "One step too many: test before you take the next.",
        }  # fmt: skip
        mistakes = {wrong: why for wrong, why in mistakes.items() if abs(wrong - right) > 1e-3 * right}
        for reason in _number(answer, (condition, factor), float(right), mistakes):
            yield reason if reason == OPEN else f"steps_needed({condition:g}, {factor:g}): {reason}"


# -- when a search has arrived ---------------------------------------------------------------------------------------------------

CURVE = [(0, 8.0), (10, 14.5), (20, 11.0), (30, 15.0), (40, 16.0)]


@a_function
def steps(answer: Callable[..., Any]) -> Iterator[str]:
    if answer(list(CURVE), 14.0) is None:
        yield OPEN
        return
    cases: list[tuple[float, int | None, dict[float, str]]] = [
        (14.0, 30, {
            10: "At step 10 it is at the bar for the first time, and falls below it again at 20. It must stay.",
            3: "That is the place in the list; give the step that stands there.",
            20: "At step 20 it is still below; the next one is the first from which it stays.",
            40: "It is there at 40, but at 30 already, and stays.",
            15.0: "That is the PSNR; give the step.",
        }),
        (15.0, 30, {40: "At the bar counts, not only above it: 15 dB at step 30 is enough."}),
        (5.0, 0, {10: "All of it is above this bar, from step 0 on.", 40: "All of it is above this bar, from step 0 on."}),
    ]  # fmt: skip
    for bar, right, mistakes in cases:
        value = answer(list(CURVE), bar)
        if value is None:
            yield f"With a bar of {bar:g} dB it should be {right}, and yours is None. Is 0 taken for nothing?"
            return
        step = None if isinstance(value, str) else answers.number(value)
        if step is None:
            yield f"Give a step, or None; this is a {type(value).__name__}."
            return
        if step != right:
            yield mistakes.get(
                step, f"With a bar of {bar:g} dB on {CURVE} it should be {right}, and yours is {step:g}."
            )
            return
    for curve, bar, why in (
        (CURVE, 20.0, "A bar that is never reached has no step: give None"),
        ([*CURVE, (50, 12.0)], 14.0, "It was there once, and has fallen below the bar at the end: give None"),
    ):
        value = answer(list(curve), bar)
        if value is not None:
            yield f"{why}, not {value}."
            return


# -- is it the defence? ----------------------------------------------------------------------------------------------------------

AGAINST = {  # a finding that speaks against the team's sentence -> what is missing without it
    "a": "One finding names an attack that gets through, whatever a search does. A failed search proves nothing about it.",
    "b": "If nothing changes when the defence is taken away, the 10 dB have another cause. One finding says so.",
    "c": "One finding has the same defence and the same search, and the photograph comes back. Freezing alone does not protect.",
}
NOT_AGAINST = {
    "d": "(d) A matched gradient without the photograph is what the paper calls twin data: it fits the team's sentence.",
    "e": "(e) A second failure agrees with the team. It tells neither an attack that gets through nor another cause.",
    "f": "(f) That is a stronger defence. It says nothing about freezing alone.",
}


def frozen(answer: object) -> Iterator[str]:
    yield from answers.letters(answer, AGAINST, NOT_AGAINST, "the findings are a to f")


CHECKS = {"06.april": april_loss, "06.twin": twin, "06.valley": valley, "06.steps": steps, "06.frozen": frozen}
DEEPER = {"narrow_valley": ("06.valley",), "four_attacks": ("06.steps",)}
