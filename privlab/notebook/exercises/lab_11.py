"""Checks of lab 11: pixels that convince, the distance to the right person, and a branch that is folded; its loss is in `poincare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privlab.notebook.exercises.answers import a_function, touched
from privlab.notebook.exercises.lab_01 import OPEN, combine
from privlab.notebook.exercises.poincare import poincare
from privlab.notebook.exercises.reports import evidence, pairs

# -- pixels that convince --------------------------------------------------------------------------------------------------

PICTURE = 0.5 + 0.4 * torch.arange(108).mul(1.7).sin().view(1, 3, 6, 6)
TARGETS = (1, 2)  # both unlikely at first
_HIDDEN = 0.1 * torch.arange(720).square().mul(0.31).sin().view(90, 8)
_OUT = 2 * torch.arange(40).square().mul(1.1).sin().view(8, 5)


STOPPED = {  # what torch says -> what to do about it
    "leaf": "The pixels need a gradient, so PyTorch allows no change in place. Clamp them under torch.no_grad().",
    "must be Tensor, not int": "`target` is an int, and cross_entropy wants a tensor of one class: torch.tensor([target]).",
    "'int' object": "`target` is an int, and cross_entropy wants a tensor of one class: torch.tensor([target]).",
}


def network(x: Tensor) -> Tensor:
    """A small fixed network, (n, 3, 6, 6) pixels to (n, 5) logits. It is blind to the last column of the picture."""
    return (((x[..., :-1] - 0.5).flatten(1) @ _HIDDEN).tanh()) @ _OUT


@a_function
def convince(answer: Callable[..., Any]) -> Iterator[str]:
    asked = [0]

    def model(x: Tensor) -> Tensor:
        asked[0] += 1
        return network(x)

    images, (one, other) = {}, TARGETS
    for target in TARGETS:
        photo = PICTURE.clone()
        try:
            images[target] = answer(model, photo, target)
        except (RuntimeError, TypeError) as error:
            if why := next((why for words, why in STOPPED.items() if words in str(error)), ""):
                yield why
                return
            raise
        if images[target] is None:
            yield OPEN
            return
        yield from _no_picture(images[target], photo)
    before = network(PICTURE).softmax(1)[0]
    after = {target: network(x.float()).softmax(1)[0] for target, x in images.items()}
    if torch.equal(images[one], images[other]):
        yield f"The same picture comes out for the classes {one} and {other}: nothing in it goes by `target`."
    if any(after[t][t] < before[t] for t in TARGETS):
        classes = {t: int(p.argmax()) for t, p in after.items()}
        if classes[one] - one == classes[other] - other != 0:
            yield f"Asked for class {one} you make the model sure of class {classes[one]}. They are counted from 0, and so is `target`."
        t = next(t for t in TARGETS if after[t][t] < before[t])
        yield f"The model believes less in class {t} than before, {after[t][t]:.3f} after {before[t]:.3f}. The loss grows; mind the sign."
    for t in TARGETS:
        if after[t][t] <= 0.9:
            way = f"That goes the right way, from {before[t]:.3f} to {after[t][t]:.3f} for class {t}, but more than 0.9 can be had."
            yield f"{way} Are your steps long enough?"
    if (images[one].to(PICTURE) - PICTURE)[..., -1].abs().mean() > 0.1:
        blind = "The model does not look at the last column of the picture, so there its gradient is 0, and yours has changed all the same."
        yield f"{blind} Begin with `picture` itself, and let nothing but the gradient move it."
    asked[0] = 0
    answer(model, PICTURE.clone(), one)
    by_default, asked[0] = asked[0], 0
    answer(model, PICTURE.clone(), one, 1)
    if asked[0] == by_default > 3:
        yield f"With steps=1 you ask the model {asked[0]} times, as many as without: use the argument `steps`."


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


# -- how near, and to whom -------------------------------------------------------------------------------------------------


def _people() -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Features and targets of reconstructions, features of photographs and who is on them."""
    logits = torch.tensor([[0.5, 1, -1], [3, 2, 1], [1, 1, 1], [-2, -1, 2.5], [2.5, 3, 2], [0, 4, 4]])
    p = torch.tensor([[0, 0, 0], [4, 1, 0], [1, 5, 2], [2, -3, 1], [-1, 2, 6], [3, 3, 3], [-4, 0.5, 1]])
    many = (logits, torch.tensor([1, 0, 2, 0, 1, 1]), p, torch.tensor([0, 1, 0, 2, 1, 1, 0]))
    return [many, (logits[1:2], torch.tensor([2]), p[1:4], torch.tensor([2, 0, 2]))]


End = Callable[[Tensor], Tensor]
# fmt: off
WHOSE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of who is on them and the target: the photographs that count
    "": torch.eq,
    "You take photographs of anybody, so a good likeness of somebody else counts as a success. The target's own count alone.":
        lambda y, k: y == y,
    "You take the photographs of all *others*: you have kept whom you should leave out.": torch.ne,
}
WHICH: dict[str, Callable[[Tensor, Tensor, End], Tensor]] = {  # of one reconstruction, (width,), and photographs, (m, width)
    "": lambda x, p, end: end((x - p).square().sum(1)).amin(),
    "You take the mean over the photographs. One is enough to say that it looks like the person: the nearest.":
        lambda x, p, end: end((x - p).square().sum(1)).mean(),
    "You take the farthest photograph; the nearest was asked for.": lambda x, p, end: end((x - p).square().sum(1)).amax(),
    "You add up the distances to all photographs; the nearest alone counts.": lambda x, p, end: end((x - p).square().sum(1)).sum(),
    "You take the first photograph, which need not be the nearest.": lambda x, p, end: end((x - p).square().sum(1))[0],
    "You measure to the mean of the features. Between the photographs of a person there may be nobody; take the nearest of them.":
        lambda x, p, end: end((x - p.mean(0)).square().sum()),
    "You add absolute differences; the distance is Euclidean, and squared.": lambda x, p, end: end((x - p).abs().sum(1)).amin(),
}
SQUARES: dict[str, End] = {
    "": lambda d: d,
    "That is not squared; PPA's measure is the square of the distance.": torch.sqrt,
    "You squared twice.": torch.square,
    "You took the mean over the width of the features; a squared distance is a sum.": lambda d: d / 3,
    "The others win, with 0. Their distances have to be so large that they never do.": torch.zeros_like,
}
# fmt: on


def _measured(whose: Callable, which: Callable, end: End) -> Callable[..., Tensor]:
    return lambda f, t, p, y: torch.stack([which(x, p[whose(y, k)], end) for x, k in zip(f, t, strict=True)])


@a_function
def delta(answer: Callable[..., Any]) -> Iterator[str]:
    values, cases = [], _people()
    for case in cases:
        arguments = [x.clone() for x in case]
        value: Any = answer(*arguments)
        if value is None:
            yield OPEN
            return
        yield from touched(("features", "targets", "private", "labels"), arguments, case)
        if isinstance(value, tuple):
            yield f"You give {len(value)} things at once. (A minimum over a dimension comes with the places: take its values.)"
            return
        n, m, shape = len(case[0]), len(case[2]), tuple(np.shape(value))
        if shape != (n,):
            kinds = {(): "one number for all", (n, m): "all distances", (m,): "one for each photograph"}
            what = f"For {n} reconstructions and {m} photographs you give {kinds.get(shape, 'something else')}, of the shape {shape}"
            yield f"{what}; give one number each, ({n},)."
            return
        values.append(torch.as_tensor(value).detach())
    slips = combine(_measured, WHOSE, WHICH, SQUARES)
    right = slips.pop("")
    due = [right(*case) for case in cases]
    if _same(values, due):
        return
    for why, slip in slips.items():
        if _same(values, [slip(*case) for case in cases]):
            yield why
    if not any(x.is_floating_point() for x in values):
        yield "Those are whole numbers, as places are. Asked for is how far the nearest photograph is, not where it stands."
    for (features, targets, _, _), value, expected in zip(cases, values, due, strict=True):
        for x, k, v, w in zip(features, targets, value, expected, strict=True):
            if not _same([v], [w]):
                where = f"From {x.tolist()}, meant for person {int(k)}, it should be {float(w):g}, and yours gives {float(v):g}."
                yield f"{where} Work out by hand how far it is to each photograph of that person."


def _same(values: list[Tensor], due: list[Tensor]) -> bool:
    """Equal but for rounding, tensor by tensor."""
    return all(torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5) for a, b in zip(values, due, strict=True))


# -- a branch that is folded -----------------------------------------------------------------------------------------------


def _layer(o: int, i: int, k: int, eps: float) -> tuple[Any, ...]:
    """Weight, mean, var, gamma, beta, eps."""
    weight, beta = torch.arange(o * i * k * k).mul(1.3).sin().view(o, i, k, k), torch.tensor([0.46, 0.36, 1.11, 0.7])
    mean, var, gamma = (torch.linspace(*ends, o) for ends in ((0.5, -1.2), (0.01, 2.5), (1.7, -0.6)))
    return weight, mean, var, gamma, beta[:o], eps


LAYERS = [_layer(3, 3, 3, 0.2), _layer(4, 2, 1, 1e-3)]  # in the first a scale fits along any side
# fmt: off
SCALES: dict[str, Callable[..., Tensor]] = {  # of var, gamma, eps
    "": lambda v, g, e: g / (v + e).sqrt(),
    "eps is forgotten: the norm divides by the root of var + eps.": lambda v, g, e: g / v.sqrt(),
    "You took 1e-5 for eps; it is an argument.": lambda v, g, e: g / (v + 1e-5).sqrt(),
    "You divide by the variance; the norm divides by its root, the standard deviation.": lambda v, g, e: g / (v + e),
    "You divide by the variance, and without eps; the norm divides by the root of var + eps.": lambda v, g, e: g / v,
    "eps belongs under the root, to the variance.": lambda v, g, e: g / (v.sqrt() + e),
    "You multiply by the standard deviation where the norm divides by it.": lambda v, g, e: g * (v + e).sqrt(),
    "The standard deviation is forgotten: gamma alone is not all that multiplies y.": lambda v, g, e: g,
    "gamma is forgotten: after the division the norm multiplies by it.": lambda v, g, e: 1 / (v + e).sqrt(),
    "gamma stands below the line, and it multiplies.": lambda v, g, e: 1 / g / (v + e).sqrt(),
}
OF_ALL = "There is a scale for each output channel."
WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of weight and scale
    "": lambda w, s: w * s[:, None, None, None],
    f"You scale along the inputs, and the norm stands behind the convolution. {OF_ALL}": lambda w, s: w * s[:, None, None],
    f"You scale along the columns of the kernel: a bare product goes by the last dimension. {OF_ALL}": lambda w, s: w * s,
    f"You scale along the rows of the kernel. {OF_ALL}": lambda w, s: w * s[:, None],
    "The weight is as it was: the norm multiplies all that the convolution gives.": lambda w, s: w,
}
ALL = "the norm scales all that stands in the brackets."
BIASES: dict[str, Callable[..., Tensor]] = {  # of mean, scale, gamma, beta, standard deviation
    "": lambda m, s, g, b, d: b - m * s,
    "The mean is forgotten: the norm takes it away before it scales, and that leaves a bias.": lambda m, s, g, b, d: b,
    "beta is forgotten in the bias.": lambda m, s, g, b, d: -m * s,
    "beta and mean are forgotten: your bias is 0.": lambda m, s, g, b, d: 0 * b,
    "The mean has the wrong sign in the bias: the norm takes it away.": lambda m, s, g, b, d: b + m * s,
    "Your whole bias has the wrong sign.": lambda m, s, g, b, d: m * s - b,
    f"The mean is not multiplied by gamma in your bias: {ALL}": lambda m, s, g, b, d: b - m / d,
    f"The mean is not divided by the standard deviation in your bias: {ALL}": lambda m, s, g, b, d: b - m * g,
    f"The mean is not scaled in your bias: {ALL}": lambda m, s, g, b, d: b - m,
    "beta is scaled in your bias: the norm adds it at the very end.": lambda m, s, g, b, d: (b - m) * s,
    "beta is multiplied by gamma in your bias: the norm adds it at the very end.": lambda m, s, g, b, d: b * g - m * s,
}
# fmt: on


def _folded(scale: Callable, weight: Callable, bias: Callable) -> Callable[..., list[Tensor]]:
    def fold(w: Tensor, mean: Tensor, var: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> list[Tensor]:
        s = scale(var, gamma, eps)
        return [weight(w, s), bias(mean, s, gamma, beta, (var + eps).sqrt())]

    return fold


@a_function
def fold(answer: Callable[..., Any]) -> Iterator[str]:
    slips = combine(_folded, SCALES, WEIGHTS, BIASES)
    right = slips.pop("")
    for case in LAYERS:
        arguments = [x.clone() if isinstance(x, Tensor) else x for x in case]
        value: Any = answer(*arguments)
        if value is None:
            yield OPEN
            return
        yield from touched(("weight", "mean", "var", "gamma", "beta"), arguments, case)
        if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(isinstance(x, Tensor) for x in value):
            yield f"Give two tensors, the new weight and the new bias; this is a {type(value).__name__}."
            return
        mine, due = [x.detach() for x in value], right(*case)
        if mine[0].shape == due[1].shape and mine[1].shape == due[0].shape:
            yield "The weight comes first, then the bias."
            return
        for name, x, expected in zip(("weight", "bias"), mine, due, strict=True):
            if x.shape != expected.shape:
                yield f"The new {name} should have the shape {tuple(expected.shape)}; yours has {tuple(x.shape)}."
                return
        if _same(mine, due):
            continue
        if case is LAYERS[0]:
            yield from (why for why, slip in slips.items() if _same(mine, slip(*case)))
        wrong = " and ".join(n for n, x, y in zip(("weight", "bias"), mine, due, strict=True) if not _same([x], [y]))
        where = f"For a convolution with {len(due[1])} output channels the new {wrong} is off."
        yield f"{where} Write down what the norm does to one channel y: what multiplies it, and what does not?"


CHECKS = {"11.convince": convince, "11.evidence": evidence, "11.poincare": poincare, "11.delta": delta, "11.fold": fold}
CHECKS |= {"11.pairs": pairs}
DEEPER = {"a_loss_that_does_not_fade": ("11.poincare",), "repvgg": ("11.fold",)}
