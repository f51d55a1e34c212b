"""Check of lab 11's loss that does not break: the hyperbolic distance between scaled logits and a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.notebook.exercises.lab_01 import combine, compare

# fmt: off
LOGITS = [(torch.tensor(z), t) for z, t in (  # no sum of squares is round: what a Euclidean scaling leaves of 1 - |u|^2 is rounding
    ([2.25, -1.125, 0.75, 3.875], 3), ([0.375, 1.875, -0.375, 0.875, 1.25], 1), ([-1.75, 0.25, -3.125], 0),
    ([5.25, 1.75, 0.25, -0.875, 2.25, 0.75], 2), ([-0.25, 0.125, 0.5, 1.25], 0), ([0.875, 3.25, -0.375], 2),
)]
BREAKING = [([0.0] * 4, 1, (8, 12)), ([0, 0, 3.0, 0], 2, (0, 60)), ([0, 0, 3.0, 0], 0, (10, 60)), ([0, -2.0, 0], 1, (10, 60))]  # range
# fmt: on
NEAR = (torch.tensor([60.0, 0.3, 0.3]), 0)  # so near v that the 1 under the arccosh counts, and 1e-4 elsewhere


def _u(z: Tensor) -> Tensor:
    return z.double() / z.double().abs().sum()


def _v(z: Tensor, t: int, less: float = 1e-4, low: float = 0) -> Tensor:
    return (F.one_hot(torch.tensor(t), len(z)).double() - less).clamp(low, 1)


def _fraction(u: Tensor, v: Tensor, of_u: int = 1, of_v: int = 1) -> Tensor:
    """|u - v|^2 / (1 - |u|^2)(1 - |v|^2), or without a factor below the line."""
    return (u - v).square().sum() / ((1 - u.square().sum()) ** of_u * (1 - v.square().sum()) ** of_v)


def _poincare(u: Tensor, v: Tensor, **slips: int) -> Tensor:
    return (1 + 2 * _fraction(u, v, **slips)).arccosh()


EUCLID = "You divide by the Euclidean length. It puts every u on the rim of the unit ball, where 1 - |u|^2 is 0, or what rounding leaves."
OUTSIDE = "Your u lies outside the unit ball, where 1 - |u|^2 is below 0. Divide the logits by the sum of their absolute values."
STRONG = "Your guard is too strong, it changes logits that need none: 1 - |v|^2 is 2e-4 by rights. Stay far below that."
RIM = "Your v is one-hot to the last digit. So it lies on the rim of the unit ball, infinitely far from all else; draw it in by 1e-4."
# fmt: off
US: dict[str, Callable[[Tensor], Tensor]] = {
    "": _u,
    "Your u is a softmax, which hardly changes any more where the model is sure. It is to be the logits, scaled.": lambda z: z.softmax(0),
    "You divide by the sum of the logits, where those below 0 cancel others. Absolute values come first.": lambda z: z / z.sum(),
    "Your u has lost the sign of the logits. Absolute values stand below the line alone.": lambda z: _u(z).abs(),
    "The sign of your u is turned.": lambda z: -_u(z),
}
VS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "": _v,
    RIM: lambda z, t: _v(z, t, less=0),
    "Your 1 stands one place too far to the right: classes are counted from 0.": lambda z, t: _v(z, (t + 1) % len(z)),
    "Your 1 stands one place too far to the left: classes are counted from 0.": lambda z, t: _v(z, (t - 1) % len(z)),
    "Your v goes by the largest logit. It should pull towards `target`, whatever the model says.": lambda z, t: _v(z, int(z.argmax())),
}
ENDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "": _poincare,
    "The factor 2 is missing.": lambda u, v: (1 + _fraction(u, v)).arccosh(),
    "Below the line 1 - |v|^2 is missing. It is small, and makes the way to the target long.": lambda u, v: _poincare(u, v, of_v=0),
    "Below the line 1 - |u|^2 is missing, by which sure logits differ from unsure ones.": lambda u, v: _poincare(u, v, of_u=0),
    "Nothing stands below the line; 1 - |u|^2 and 1 - |v|^2 belong there.": lambda u, v: _poincare(u, v, of_u=0, of_v=0),
    "Above the line the distance is to be squared.": lambda u, v: (1 + 2 * _fraction(u, v) / (u - v).norm()).arccosh(),
    "Below the line the lengths are to be squared.":
        lambda u, v: (1 + 2 * _fraction(u, v, 0, 0) / ((1 - u.norm()) * (1 - v.norm()))).arccosh(),
    "You took a mean over the classes; a squared distance is a sum.": lambda u, v: (1 + 2 * _fraction(u, v) / len(u)).arccosh(),
    "The sign is turned: a distance is positive, and the attack makes it smaller.": lambda u, v: -_poincare(u, v),
    "That is the squared Euclidean distance alone, in which no rim is far away.": lambda u, v: _fraction(u, v, 0, 0),
}
# fmt: on


def poincare(answer: object) -> Iterator[str]:
    slips = combine(lambda u, v, end: lambda z, t: end(u(z.double()), v(z, t)), US, VS, ENDS)
    right = slips.pop("")
    slips["That is the cross-entropy, which fades as the model grows sure."] = lambda z, t: -z.log_softmax(0)[t]
    call: Any = answer

    hint = "Print u and v, and work out the brackets by hand."
    reason = next(compare(answer, LOGITS, right, slips, hint), "")
    if reason.startswith("For ("):  # none of the slips; or one of them, and a guard
        values, due = ([float(f(z.clone(), t)) for z, t in LOGITS] for f in (call, right))
        if all(math.isclose(v, d, rel_tol=0.01) for v, d in zip(values, due, strict=True)):
            reason = ""  # a guard moves it a little, wherever it stands
        else:
            reason = next(_guarded(values, due), reason)
    if reason:
        yield reason
    (z, t), near = NEAR, float(call(NEAR[0].clone(), NEAR[1]))
    if math.isclose(near, (2 * _fraction(_u(z), _v(z, t))).arccosh(), rel_tol=5e-4):
        yield "Under the arccosh the 1 + is missing. Where u is near v it counts: of less than 1 there is no arccosh."
    if math.isclose(near, _poincare(_u(z), _v(z, t, low=-1)), rel_tol=5e-4):
        yield "Your v is -1e-4 at all other classes: cut it off at 0."
    for logits, target, between in BREAKING:
        yield from _broken(call, logits, target, between)


def _guarded(values: list[float], due: list[float]) -> Iterator[str]:
    """What is wrong with values that no guard has kept finite, or some guard that we do not know: one that explains them all."""
    if not all(map(math.isfinite, values)):
        yield OUTSIDE if all(map(math.isnan, values)) else EUCLID
    if all(math.isclose(math.acosh(max(v, 1)), d, rel_tol=1e-3) for v, d in zip(values, due, strict=True)):
        yield "That is what stands under the arccosh; the arccosh itself is missing."
    for why, scaled, low, high in (
        (RIM, _u, 0, 2e-5),  # whether v is drawn in hardly moves it, but for what then stands below the line
        (STRONG, _u, 9e-4, 0.5),
        (EUCLID, lambda z: F.normalize(z, dim=0), 0, 0.5),
        (OUTSIDE, lambda z: z, 0, 0.5),
        (OUTSIDE, lambda z: z / z.abs().max(), 0, 0.5),
    ):
        for of_u, of_v in ((1, 0), (0, 1), (0, 0)):  # what stands below the line, beside the guard
            above = [2 * float(_fraction(scaled(z), _v(z, t), of_u, of_v)) for z, t in LOGITS]
            guards = [a / (math.cosh(min(abs(v), 200)) - 1 or math.inf) for a, v in zip(above, values, strict=True)]
            if low < max(guards) < min(high, 1.02 * min(guards)):
                yield why
    if 15 < min(values) <= max(values) < 150:
        yield EUCLID


def _broken(call: Callable[..., Any], logits: list[float], target: int, between: tuple[float, float]) -> Iterator[str]:
    try:
        value = call(torch.tensor(logits), target)
    except ZeroDivisionError:
        value = math.nan
    where = f"poincare({[round(z) for z in logits]}, {target})"
    if value is None or math.prod(np.shape(value)) != 1:
        yield f"{where} gives no number; the search needs one there, too."
    elif not math.isfinite(float(value)):
        rim = "one logit has all the weight, so u lies on the rim of the ball, and 1 - |u|^2 is 0. Keep it above 0."
        nothing = "the sum of absolute values is 0 as well, and 0 / 0 is not a number. Keep what you divide by above 0."
        yield f"{where} gives {float(value)}: {rim if any(logits) else nothing}"
    elif not between[0] <= float(value) <= between[1]:
        what = "To put a number in the place of one that is none does not tell the search where to go. Keep what you divide by above 0."
        yield f"{where} gives {float(value):.3g}, and no distance there is below {between[0]} or above {between[1]}. {what}"
