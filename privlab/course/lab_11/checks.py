"""Checks of lab 11: pixels that convince, evidence, the distance to the right person, a comparison, a loss, a branch that is folded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.fusion import fuse_conv_bn_weights

from privlab.attacks.model_inversion import evaluation, losses
from privlab.notebook.kit import OPEN, Check, function, in_turn, keeps

# -- pixels that convince ------------------------------------------------------------------------------------------------

PICTURE = 0.5 + 0.4 * torch.arange(108).mul(1.7).sin().view(1, 3, 6, 6)
TARGETS = (1, 2)  # both unlikely at first
_HIDDEN = 0.1 * torch.arange(720).square().mul(0.31).sin().view(90, 8)
_OUT = 2 * torch.arange(40).square().mul(1.1).sin().view(8, 5)
STOPPED = {  # what torch says -> what to do about it
    "leaf": "The pixels need a gradient, so PyTorch allows no change in place. Clamp them under torch.no_grad().",
    "must be Tensor, not int": "`target` is an int, and cross_entropy wants a tensor of one class: torch.tensor([target]).",
}


def network(x: Tensor) -> Tensor:
    """A small fixed network, (n, 3, 6, 6) pixels to (n, 5) logits. It is blind to the last column of the picture."""
    return (((x[..., :-1] - 0.5).flatten(1) @ _HIDDEN).tanh()) @ _OUT


def convince(answer: Any) -> Iterator[str]:
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    photos, images = {t: PICTURE.clone() for t in TARGETS}, {}
    for t in TARGETS:
        try:
            images[t] = answer(network, photos[t], t)
        except (RuntimeError, TypeError) as error:
            yield from (why for words, why in STOPPED.items() if words in str(error))
            raise
        if images[t] is None:
            yield OPEN
            return
        yield from _no_picture(images[t], photos[t])
    one, other = TARGETS
    if torch.equal(images[one], images[other]):
        yield f"The same picture comes out for the classes {one} and {other}: nothing in it goes by `target`."
    for t in TARGETS:
        before, after = (network(x.float()).softmax(1)[0] for x in (PICTURE, images[t]))
        if after[t] < before[t]:
            yield (
                f"The model believes less in class {t} than before, {after[t]:.3f} after {before[t]:.3f}, and most in class "
                f"{int(after.argmax())}. Mind the sign of the loss, and that classes are counted from 0."
            )
        if after[t] <= 0.9:
            yield (
                f"That goes the right way, from {before[t]:.3f} to {after[t]:.3f} for class {t}, but more than 0.9 can be had. Are your "
                "steps long enough?"
            )
    if (images[one].to(PICTURE) - PICTURE)[..., -1].abs().mean() > 0.1:
        yield (
            "The model does not look at the last column of the picture, so there its gradient is 0, and yours has changed all the same. "
            "Begin with `picture` itself, and let nothing but the gradient move it."
        )
    if _asked(answer, 1) == _asked(answer) > 3:
        yield f"With steps=1 you ask the model {_asked(answer)} times, as many as without: use the argument `steps`."


def _asked(answer: Callable[..., Any], *steps: int) -> int:
    """How often an answer asks the model."""
    count = 0

    def model(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return network(x)

    answer(model, PICTURE.clone(), TARGETS[0], *steps)
    return count


def _no_picture(value: Any, photo: Tensor) -> Iterator[str]:
    if not isinstance(value, Tensor):
        yield f"Give the new picture, a tensor; this is a {type(value).__name__}."
    if value.shape != PICTURE.shape:
        yield f"The new picture should have the shape of the old, {tuple(PICTURE.shape)}; yours has {tuple(value.shape)}."
    if value.requires_grad:
        yield "What you return still needs a gradient, and drags its graph into all that is done with it. Return the pixels alone."
    if photo.requires_grad or not torch.equal(photo, PICTURE):
        yield "The picture that you were given is no longer as it was, and whoever asks you still needs it. Work on a copy."
    if torch.allclose(value.to(PICTURE), PICTURE, atol=1e-6):
        yield "The picture has not moved. Does the optimiser hold the very tensor that the model is shown, and do you return that one?"
    if not (value.min() >= -1e-6 and value.max() <= 1 + 1e-6):
        yield f"Your pixels go from {value.min():.2f} to {value.max():.2f}. Outside [0, 1] there is no picture that anybody could show."


# -- two reports ---------------------------------------------------------------------------------------------------------


# -- how near, and to whom -----------------------------------------------------------------------------------------------

LOGITS = torch.tensor([[0.5, 1, -1], [3, 2, 1], [1, 1, 1], [-2, -1, 2.5], [2.5, 3, 2], [0, 4, 4]])
PRIVATE = torch.tensor([[0, 0, 0], [4, 1, 0], [1, 5, 2], [2, -3, 1], [-1, 2, 6], [3, 3, 3], [-4, 0.5, 1]])
PEOPLE = [  # features and targets of reconstructions, features of photographs and who is on them
    (LOGITS, torch.tensor([1, 0, 2, 0, 1, 1]), PRIVATE, torch.tensor([0, 1, 0, 2, 1, 1, 0])),
    (LOGITS[1:2], torch.tensor([2]), PRIVATE[1:4], torch.tensor([2, 0, 2])),
]


def _own(pick: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """pick: of one reconstruction, (width,), and the photographs of its target, (m, width)."""
    return lambda f, t, p, y: torch.stack([pick(x, p[y == k]) for x, k in zip(f, t, strict=True)])


# fmt: off
_nearest = function(
    lambda *given: evaluation.nearest(*given).square(),
    PEOPLE,
    {
        "That is not squared; PPA's measure is the square of the distance.": evaluation.nearest,
        "You take photographs of anybody, so a good likeness of somebody else counts as a success. The target's own count alone.":
            lambda f, t, p, y: torch.cdist(f, p).square().amin(1),
        "The others win, with 0. Their distances have to be so large that they never do.": lambda f, t, p, y: torch.zeros(len(f)),
        "You take the mean over the photographs. One is enough to say that it looks like the person: the nearest.":
            _own(lambda x, own: (x - own).square().sum(1).mean()),
        "You measure to the mean of the features. Between the photographs of a person there may be nobody; take the nearest of them.":
            _own(lambda x, own: (x - own.mean(0)).square().sum()),
    },
    "One number for each reconstruction: work out by hand how far it is to each photograph of its person.",
)
delta = in_turn(_nearest, keeps(*PEOPLE[0]))
# fmt: on

# -- a loss that does not fade -------------------------------------------------------------------------------------------


def _poincare(
    z: Tensor, t: int, less: float = 1e-4, two: float = 2.0, u: Tensor | None = None, rooms: tuple = (1, 1)
) -> Tensor:
    """The distance, and the slips.  rooms: the powers of 1 - |u|^2 and 1 - |v|^2 below the line."""
    u = z / z.abs().sum() if u is None else u
    v = (torch.eye(len(z))[t] - less).clamp(0, 1)
    room = math.prod((1 - x.square().sum()).clamp_min(1e-6) ** power for x, power in zip((u, v), rooms, strict=True))
    return torch.arccosh(1 + two * (u - v).square().sum() / room)


# fmt: off
_distance = function(
    lambda z, t: losses.poincare(z[None], torch.tensor([t]))[0],
    [(torch.tensor(z), t) for z, t in (
        ([2.25, -1.125, 0.75, 3.875], 3), ([0.375, 1.875, -0.375, 0.875, 1.25], 1), ([-1.75, 0.25, -3.125], 0),
        ([5.25, 1.75, 0.25, -0.875, 2.25, 0.75], 2), ([-0.25, 0.125, 0.5, 1.25], 0), ([0.875, 3.25, -0.375], 2),
        ([60.0, 0.3, 0.3], 0),  # so near v that the 1 + under the arccosh counts, and 1e-4 elsewhere
    )],
    {
        "Your u is a softmax, which hardly changes any more where the model is sure. It is to be the logits, scaled.":
            lambda z, t: _poincare(z, t, u=z.softmax(0)),
        "You divide by the Euclidean length. It puts every u on the rim of the unit ball, where 1 - |u|^2 is 0, or what rounding leaves.":
            lambda z, t: _poincare(z, t, u=z / z.norm()),
        "Your v is one-hot to the last digit. So it lies on the rim of the unit ball, infinitely far from all else; draw it in by 1e-4.":
            lambda z, t: _poincare(z, t, less=0.0),
        "The factor 2 is missing.": lambda z, t: _poincare(z, t, two=1.0),
        "Below the line 1 - |v|^2 is missing. It is small, and makes the way to the target long.":
            lambda z, t: _poincare(z, t, rooms=(1, 0)),
    },
    "Print u and v: does u lie inside the unit ball, and v just inside, so that 1 - |v|^2 is 2e-4? A guard should change nothing here.",
    rel=1.5e-3,  # a guard may move it a little
)
# fmt: on
BREAKING = [  # logits, target, and between what every distance lies there
    ([0.0, 0.0, 0.0, 0.0], 1, (8, 12)),
    ([0.0, 0.0, 3.0, 0.0], 2, (0, 60)),
    ([0.0, 0.0, 3.0, 0.0], 0, (10, 60)),
    ([0.0, -2.0, 0.0], 1, (10, 60)),
]


def poincare(answer: Any) -> Iterator[str]:
    yield from _distance(answer)
    for logits, target, (low, high) in BREAKING:
        try:
            given = answer(torch.tensor(logits), target)
        except ZeroDivisionError:
            given = None
        value = math.nan if given is None else float(torch.as_tensor(given).detach())
        where = f"poincare({[round(z) for z in logits]}, {target}) gives {value:.3g}"
        if not math.isfinite(value) and any(logits):
            yield f"{where}: one logit has all the weight, so u lies on the rim of the ball, and 1 - |u|^2 is 0. Keep it above 0."
        elif not math.isfinite(value):
            yield f"{where}: the sum of absolute values is 0 as well, and 0 / 0 is not a number. Keep what you divide by above 0."
        elif not low <= value <= high:
            yield (
                f"{where}, and no distance there is below {low} or above {high}. To put a number in the place of one that is none does not "
                "tell the search where to go. Keep what you divide by above 0."
            )


# -- a branch that is folded ---------------------------------------------------------------------------------------------


def _layer(o: int, i: int, k: int, eps: float) -> tuple:
    """Weight, mean, var, gamma, beta, eps."""
    mean, var, gamma = (torch.linspace(*ends, o) for ends in ((0.5, -1.2), (0.01, 2.5), (1.7, -0.6)))
    weight = torch.arange(o * i * k * k).mul(1.3).sin().view(o, i, k, k)
    return weight, mean, var, gamma, torch.tensor([0.46, 0.36, 1.11, 0.7])[:o], eps


def _folded(w: Tensor, mean: Tensor, var: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return fuse_conv_bn_weights(w, None, mean, var, eps, gamma, beta)


CONVOLUTIONS = [_layer(3, 3, 3, 0.2), _layer(4, 2, 1, 1e-3)]
# fmt: off
_weight = function(
    lambda *given: _folded(*given)[0],
    CONVOLUTIONS,
    {
        "eps is forgotten, or not as it is given: the norm divides by the root of var + eps.":
            lambda w, m, v, g, b, eps: _folded(w, m, v, g, b, 0.0)[0],
        "You divide by the variance; the norm divides by its root, the standard deviation.":
            lambda w, m, v, g, b, eps: w * (g / (v + eps)).view(-1, 1, 1, 1),
        "You scale along the columns of the kernel: a bare product goes by the last dimension. There is a scale for each output channel.":
            lambda w, m, v, g, b, eps: w * (g / (v + eps).sqrt()),
    },
    "The new weight is off: what multiplies one channel y? There is a scale for each output channel.",
)
_bias = function(
    lambda *given: _folded(*given)[1],
    CONVOLUTIONS,
    {
        "The mean is forgotten: the norm takes it away before it scales, and that leaves a bias.": lambda w, m, v, g, b, eps: b,
        "beta is scaled in your bias: the norm adds it at the very end.": lambda w, m, v, g, b, eps: (b - m) * g / (v + eps).sqrt(),
    },
    "The new bias is off: what does the norm make of one channel y that is 0? It scales all that stands in the brackets.",
)
# fmt: on


def fold(answer: Any) -> Iterator[str]:
    if callable(answer):
        new = answer(*(x.clone() if isinstance(x, Tensor) else x for x in CONVOLUTIONS[0]))
        if new is not None and (not isinstance(new, tuple | list) or len(new) != 2):
            yield f"Give two tensors, the new weight and the new bias; this is a {type(new).__name__}."
            return

    def part(k: int) -> Any:
        def of(*given: Any) -> Any:
            return None if (new := answer(*given)) is None else new[k]

        return of if callable(answer) else answer

    yield from _weight(part(0))
    yield from _bias(part(1))
    yield from keeps(*CONVOLUTIONS[0])(answer)


CHECKS: dict[str, Check] = {
    "11.convince": convince,
    "11.poincare": poincare,
    "11.delta": delta,
    "11.fold": fold,
}
