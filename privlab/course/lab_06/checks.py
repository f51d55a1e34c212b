"""Lab 06: an image with the same gradients, APRIL's loss, is it the defence; deeper, a narrow valley and when a search has arrived."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives
from privlab.leak import Leak, observe
from privlab.models import april as april_vit
from privlab.models.forward import Gradients
from privlab.notebook.kit import OPEN, Check, function, pick

# -- twins -----------------------------------------------------------------------------------------------------------------

PATCH = 8


def twin(answer: Any) -> Iterator[str]:
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    other = answer(image.clone())
    if other is None:
        yield OPEN
        return
    other = torch.as_tensor(other).detach().float()
    if other.shape != image.shape:
        yield f"A twin is an image of the same shape, {tuple(image.shape)}; yours is {tuple(other.shape)}."
        return
    if not (other.min() >= -1e-3 and other.max() <= 1 + 1e-3):
        yield "A twin is an image: its pixels must stay in [0, 1]."
        return
    if (other - image).square().mean().sqrt() < 0.05:
        yield "That is the image itself, or but for a few hundredths: too easy. Be clearly different."
    model = april_vit.build("b", width=32, depth=2, heads=2, position="none", patch_size=PATCH).double()
    one, two = (observe(model, x.double(), torch.tensor([3])).grads for x in (image, other.clamp(0, 1)))
    apart = {name: ((one[name] - two[name]).norm() / one[name].norm()).item() for name in one}
    name = max(apart, key=apart.__getitem__)
    if apart[name] > 1e-6:
        yield f"The gradients tell the two apart, that of {name!r} most: it moved by {apart[name]:.1%} of its length. {_why(image, other)}"


def _why(image: Tensor, other: Tensor) -> str:
    patches, others = (
        F.unfold(x, PATCH, stride=PATCH)[0].T.sort(1).values for x in (image, other)
    )  # (patches, numbers), sorted
    nearest = torch.cdist(others, patches).argmin(1)
    if torch.allclose(others, patches[nearest]):
        if len(nearest.unique()) < len(patches):
            return "One of its patches is there twice, and another is missing: a bag of patches has each as often as before."
        return "You moved or mirrored pixels within their patches, which the embedding sees. Move whole patches, and leave each as it is."
    if torch.allclose(image.flatten().sort().values, other.flatten().sort().values):
        return f"The pixels are all there, but the patches are cut through: move whole patches of {PATCH} x {PATCH}, from edge to edge."
    return "You changed the pixels themselves. Without positions the model sees a bag of patches: change nothing but their order."


# -- equation 12 -----------------------------------------------------------------------------------------------------------


def _two_gradients() -> tuple[Gradients, Gradients]:
    """Of the same three parameters, in different orders."""
    draw = torch.Generator().manual_seed(6)
    shapes = {"patch_embed.proj.weight": (4, 6), "pos_embed": (1, 3, 4), "head.weight": (2, 4)}
    mine = {n: torch.randn(shape, generator=draw) for n, shape in shapes.items()}
    return mine, {n: 0.6 * mine[n] + 0.5 * torch.randn(shapes[n], generator=draw) for n in reversed(shapes)}


def _squares(mine: Gradients, theirs: Gradients) -> Tensor:
    return objectives.squared_distance(torch.empty(0), mine, Leak(theirs, 1, (3, 32, 32)))


def _turn(mine: Gradients, theirs: Gradients) -> Tensor:
    return objectives.position_direction(torch.empty(0), mine, Leak(theirs, 1, (3, 32, 32)))


april = function(
    lambda m, t, alpha: _squares(m, t) + alpha * _turn(m, t),
    [(*_two_gradients(), 2.0)],
    {
        "The sign is turned: a search goes downhill, and the cosine is to rise. Equation 12 subtracts it.":
            lambda m, t, alpha: _squares(m, t) - alpha * _turn(m, t),
        "You left alpha out.": lambda m, t, alpha: _squares(m, t) + _turn(m, t),
        "That is the distance alone, DLG's: the position term is missing.": lambda m, t, alpha: _squares(m, t),
        "Your cosine is over all gradients. APRIL's is that of pos_embed's alone.": lambda m, t, alpha: (
            _squares(m, t) - alpha * (1 - objectives.cosine_distance(torch.empty(0), m, Leak(t, 1, (3, 32, 32))))
        ),
        "You averaged a cosine a token. All tokens together are one long vector, with one cosine.":
            lambda m, t, alpha: _squares(m, t) - alpha * F.cosine_similarity(m["pos_embed"], t["pos_embed"], dim=-1).mean(),
    },
    "The distance adds up squares over all gradients, pos_embed's among them; alpha weighs the cosine alone.",
)  # fmt: skip

# -- deeper: a narrow valley, and when a search has arrived ----------------------------------------------------------------


def _needed(
    condition: float,
    factor: float,
    rate: Callable[[float], float] = lambda square: (square - 1) / (square + 1),
    whole: Callable[[float], float] = math.ceil,
) -> float:
    """Steps until the error is `factor` times smaller.  rate: what each leaves of it, of the condition's square.  whole: rounds."""
    return whole(math.log(factor) / -math.log(rate(condition**2)))


valley = function(
    _needed,
    [(3.0, 10.0), (20.0, 10.0), (650.0, 100.0)],
    {
        "You took the condition where its square belongs: the loss is steep by s^2.":
            lambda condition, factor: _needed(condition**0.5, factor),
        "That is the rate of a step length of 1 / s_1^2. The best, 2 / (s_1^2 + s_n^2), is nearly twice as long.":
            lambda condition, factor: _needed(condition, factor, rate=lambda square: (square - 1) / square),
        "Once is enough: the error is to shrink by the factor, not by its square.":
            lambda condition, factor: _needed(condition, factor**2),
        "One step too few: after that many it has not quite shrunk by the factor. Round up.":
            lambda condition, factor: _needed(condition, factor, whole=math.floor),
        "Give whole steps: round up.": lambda condition, factor: _needed(condition, factor, whole=float),
    },
    "How often do you have to multiply by the fraction to get to 1/factor?",
)  # fmt: skip


def _stays(curve: list, bar: float, above: Callable = lambda dB, bar: dB >= bar) -> int | None:
    return next((step for k, (step, _) in enumerate(curve) if all(above(dB, bar) for _, dB in curve[k:])), None)


CURVE = [(0, 8.0), (10, 14.5), (20, 11.0), (30, 15.0), (40, 16.0)]
steps = pick(
    _stays,
    [(CURVE, 14.0), (CURVE, 15.0), (CURVE, 5.0), (CURVE, 20.0), ([*CURVE, (50, 12.0)], 14.0)],
    {
        "Yours is the first step at the bar, and it may fall below it again. It must stay.":
            lambda curve, bar: next((step for step, dB in curve if dB >= bar), None),
        "At the bar counts, not only above it: 15 dB at step 30 is enough.":
            lambda curve, bar: _stays(curve, bar, lambda dB, bar: dB > bar),
        "Is 0 taken for nothing? All of the curve is above 5 dB, from step 0 on.":
            lambda curve, bar: _stays(curve, bar) or None,
        "That is the last step. It is there at 40, but at 30 already, and stays.": lambda curve, bar: curve[-1][0],
    },
    "From which step on is every value at the bar or above? None, where it ends below.",
)  # fmt: skip

CHECKS: dict[str, Check] = {
    "06.april": april,
    "06.twin": twin,
    "06.valley": valley,
    "06.steps": steps,
}
