"""Checks of lab 04: what a distance should be blind to, what the sign does to Adam, what a norm hides, and whose label it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from privlab.notebook.exercises import answers, jacobian, search_reports
from privlab.notebook.exercises.answers import OPEN, a_function
from privlab.notebook.exercises.lab_00 import _number

# -- why cosine and not L2 -----------------------------------------------------------------------------------------------


def cosine(answer: object) -> Iterator[str]:
    mine, theirs = _two_gradients()
    dots = [(mine[n] * theirs[n]).sum().item() for n in mine]
    lengths = [[g[n].norm().item() for n in mine] for g in (mine, theirs)]
    products = [a * b for a, b in zip(*lengths, strict=True)]
    layers = [dot / product for dot, product in zip(dots, products, strict=True)]
    dot, whole = sum(dots), math.hypot(*lengths[0]) * math.hypot(*lengths[1])
    right = 1 - dot / whole
    square, longer = (sum((mine[n] - k * theirs[n]).square().sum().item() for n in mine) for k in (1, 1000))
    unsorted = torch.dot(*(torch.cat([g.flatten() for g in grads.values()]) for grads in (mine, theirs))).item()
    apart = "a layer with a tiny gradient then counts as much as the largest. Sum over all layers before you divide."
    blind = (
        f"Let the client send the same update 1,000 times as long: the square goes from {square:.3g} to {longer:.3g}, and the picture "
        "is the same. The length says how wrong the model was about the image, not what is in it."
    )
    yield from _number(answer, (mine, theirs), right, {
        1 - right: "That is the cosine itself, largest where the two agree. A search goes downhill: take it from 1.",
        right - 1: "That falls as it should, but ends at -1. A distance is 0 where the two agree: add 1.",
        1 - sum(layers) / len(layers): f"That is the mean of one cosine a layer: {apart}",
        sum(1 - c for c in layers): f"That adds up one distance a layer: {apart}",
        1 - sum(layers): f"That adds up one cosine a layer: {apart}",
        1 - dot / sum(products): "You multiplied the lengths layer by layer. Find the two lengths of the whole, then multiply those.",
        1 - dot / math.prod(map(sum, lengths)): "You added the lengths of the layers. Add their squares, and take the root of the sum.",
        1 - dot / whole**2: "You divided by the squares of the two lengths: take the roots.",
        1 - dot: "Not divided by the two lengths it is no cosine: the longer update would seem the nearer.",
        1 - unsorted / whole: "You took the layers in the order in which they lie in each dict. Here the orders differ: go by name.",
        square: f"That is the squared distance, as in DLG. {blind}",
        math.sqrt(square): f"That is the root of the squared distance. {blind}",
        square / sum(g.numel() for g in mine.values()): f"That is the mean squared difference. {blind}",
        2 * right: "Both made one long first: good. But their squared distance is 2 - 2 cos, twice what is asked.",
    })  # fmt: skip
    call: Callable = answer  # type: ignore[assignment]
    for what, a, b in (
        ("Make the client's gradient 1,000 times as long", 1.0, 1e3),
        ("Take a victim that is hardly ever wrong, so that both gradients are 10,000 times as short", 1e-4, 1e-4),
    ):
        value = float(call({n: a * g for n, g in mine.items()}, {n: b * g for n, g in theirs.items()}))
        if not abs(value - right) <= 1e-3:
            yield (
                f"Right for this update. {what}, and yours goes from {right:.3f} to {value:.3f}; a cosine feels no length. "
                "Divide by both lengths, and add nothing to them."
            )


def _two_gradients() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Two gradients of the same three layers, of lengths far apart, in different orders; the largest agrees most."""
    draw = torch.Generator().manual_seed(4)
    mine = {n: size * torch.randn(4, 3, generator=draw) for n, size in (("stem", 2.0), ("norm", 0.1), ("head", 1.0))}
    noise = {n: 0.5 * torch.randn(4, 3, generator=draw) for n in mine}
    return mine, {n: k * mine[n] + noise[n] for n, k in (("head", -0.4), ("stem", 0.8), ("norm", 0.2))}


# -- why the sign --------------------------------------------------------------------------------------------------------

EPS = 1e-8
GRADIENTS = [[1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5], [-1.0, -0.1, 0.01, 0.02], [1e-8, 1e-8, 1e-8]]


def adam(
    means: list[float],
    squares: list[float],
    betas: tuple[float, float] = (0.9, 0.999),
    corrected: bool = True,
    divisor: Callable[[float, float], float] = lambda v, share: math.sqrt(v / share) + EPS,
) -> list[float]:
    """The lengths |step| / lr of Adam's steps for one pixel (Kingma & Ba 2015, Algorithm 1).

    means, squares: the gradients that enter m and those that enter v; Adam takes the same for both.
    corrected: whether m is divided by 1 - beta1^t.  divisor: what m is then divided by, of v and of share = 1 - beta2^t.
    """
    m, v, lengths = 0.0, 0.0, []
    for t, (g, h) in enumerate(zip(means, squares, strict=True), start=1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * h**2
        lengths.append(abs(m / (1 - betas[0] ** t if corrected else 1) / divisor(v, 1 - betas[1] ** t)))
    return lengths


def _signs(gradients: list[float], signed: bool = True) -> list[float]:
    return [math.copysign(1.0, s) for s in gradients] if signed else gradients


def _slip(**settings) -> Callable[[list[float], bool], list[float]]:
    return lambda gradients, signed: adam(_signs(gradients, signed), _signs(gradients, signed), **settings)


# fmt: off
ADAM_SLIPS = {
    "You took no sign: yours gives the same for signed=True and signed=False.":
        lambda s, _: adam(s, s),
    "You took the sign unasked: with signed=False the gradients go in as they are.":
        lambda s, _: adam(_signs(s), _signs(s)),
    "It is the other way round: take the sign where signed is True.":
        lambda s, signed: _slip()(s, not signed),
    "With signed=True all your steps have length 1: you took the sign of the step, or of m. Take the *gradient's, before Adam sees it; "
    "where the gradient turns round, m holds both signs, and the step is shorter.":
        lambda s, signed: [1.0] * len(s) if signed else adam(s, s),
    "You took the sign for m alone; v still holds the bare gradients, and tiny ones blow the step up. The sign comes before both.":
        lambda s, signed: adam(_signs(s, signed), s),
    "You took the sign for v alone; m still holds the bare gradients, and tiny ones stop the step. The sign comes before both.":
        lambda s, signed: adam(s, _signs(s, signed)),
    "Your first step has length 3.16, and should have 1: m and v begin at 0. Divide them by 1 - 0.9^t and 1 - 0.999^t, t from 1.":
        _slip(corrected=False, divisor=lambda v, _: math.sqrt(v) + EPS),
    "You correct v for its beginning at 0, and not m: divide it by 1 - 0.9^t, t from 1.":
        _slip(corrected=False),
    "You correct m for its beginning at 0, and not v: divide it by 1 - 0.999^t, t from 1.":
        _slip(divisor=lambda v, _: math.sqrt(v) + EPS),
    "Your eps stands under the root, where it is worth 1e-4: gradients of 1e-8 drown in it. Add it after the root.":
        _slip(divisor=lambda v, share: math.sqrt(v / share + EPS)),
    "Your eps is missing: where the gradient is as small as it is, 1e-8, it halves the step.":
        _slip(divisor=lambda v, share: math.sqrt(v / share)),
    "You added eps before you corrected the root of v. Correct v first, then add.":
        _slip(divisor=lambda v, share: (math.sqrt(v) + EPS) / math.sqrt(share)),
    "The root is missing: m over v is a length only by accident, where the gradient is 1.":
        _slip(divisor=lambda v, share: v / share + EPS),
    "Your v holds the last square alone. Adam's loses a thousandth a step: it remembers the large gradients of long ago.":
        _slip(betas=(0.9, 0.0)),
    "Your m holds the last gradient alone. Adam's keeps nine tenths of what it was.":
        _slip(betas=(0.0, 0.999)),
    "The betas are swapped: 0.9 belongs to m, and 0.999 to v.":
        _slip(betas=(0.999, 0.9)),
}
# fmt: on


@a_function
def sign(answer: Callable[..., Any]) -> Iterator[str]:
    cases = [(gradients, signed) for gradients in GRADIENTS for signed in (False, True)]
    values, right = [], [_slip()(*case) for case in cases]
    for gradients, signed in cases:
        value = answer(list(gradients), signed)
        if value is None:
            yield OPEN
            return
        if not hasattr(value, "__len__") or len(value) != len(gradients):
            what = f"{len(value)} numbers" if hasattr(value, "__len__") else f"a {type(value).__name__}"
            yield f"Give a list with one length for each gradient: {len(gradients)} here, and yours is {what}."
            return
        values.append([float(v) for v in value])
    if any(v < 0 for lengths in values for v in lengths):
        yield "A length is never negative: those are the steps themselves. Take their absolute values."
    if _close(values, right):
        return
    for why, slip in ADAM_SLIPS.items():
        if _close(values, [slip(*case) for case in cases]):
            yield why
    for (gradients, signed), lengths, due in zip(cases, values, right, strict=True):
        for t, pair in enumerate(zip(lengths, due, strict=True), start=1):
            if not _close([pair[:1]], [pair[1:]]):
                yield (
                    f"With the gradients {gradients} and signed={signed}, step {t} has length {pair[1]:.3g}, and yours {pair[0]:.3g}. "
                    "Go through it by hand: m, v, both corrected, then m over (root of v, plus eps)."
                )


def _close(lengths: list, due: list) -> bool:
    pairs = [pair for one, other in zip(lengths, due, strict=True) for pair in zip(one, other, strict=True)]
    return all(math.isclose(a, b, rel_tol=3e-3, abs_tol=1e-5) for a, b in pairs)


# -- what BatchNorm hides, and where ---------------------------------------------------------------------------------------


@a_function
def batchnorm(answer: Callable[..., Any]) -> Iterator[str]:
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(4))
    x += torch.tensor([0.0, 1.0, -3.0]).view(3, 1, 1)
    y = answers.tensor(answer(x.clone()))
    if y is None:
        yield OPEN
        return
    if not isinstance(y, Tensor) or y.shape != x.shape:
        what = f"one of {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        yield f"The twin must have the shape of x, {tuple(x.shape)}; yours is {what}."
        return
    y = y.detach().to(x)
    difference = (y - x).square().mean((0, 2, 3)).sqrt().max().item()  # of the channel that differs most
    if difference < 0.1:
        yield f"That is x {'itself' if difference == 0 else 'but for a hundredth or so'}: too easy. Differ by tenths at least."
        return
    in_train, in_eval = (seen_apart(x, y, training) for training in (True, False))
    if not in_train <= 1e-3:
        yield (
            f"The norm tells the two apart: in train mode its outputs differ by up to {in_train:.2g} (in eval mode by {in_eval:.2g}). "
            + _why_apart(x, y)
        )


def seen_apart(x: Tensor, y: Tensor, training: bool) -> float:
    """The largest difference between what a fresh BatchNorm2d makes of two maps (batch, channels, height, width)."""
    norm = nn.BatchNorm2d(x.shape[1]).train(training)
    with torch.no_grad():
        return (norm(x) - norm(y)).abs().max().item()


def _why_apart(x: Tensor, y: Tensor) -> str:
    stretch, rest = _line(x, y, (0, 2, 3))
    if not y.isfinite().all():
        return "Yours holds NaN or infinity."
    if rest < 1e-3 and stretch.min() < -1e-3:
        return "It divides by a positive number: what a negative factor turned upside down stays so."
    if rest < 1e-3 and stretch.min() < 1e-6:
        return "A channel of yours is the same everywhere: nothing of x is left in it."
    if rest < 1e-3 and stretch.min() < 0.5:
        return "You shrink x so far that the eps under its root is no longer small beside the variance. Stretch it instead."
    if rest < 1e-3:
        return "Your numbers are so large that float32 rounds off what differs between them. Shift by less."
    if _line(x, y, (2, 3))[1] < 1e-3:
        return "You change each image in its own way. The statistics are the *batch's*: that one image is brighter than another stays."
    if _line(x, y, (0,))[1] < 1e-3:
        return "You change each pixel in its own way. One mean and one variance serve the whole channel: a pattern within it stays."
    return "What you did is no shift or stretch of a channel as a whole, and that is all that it takes out."


def _line(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, float]:
    """Fit y = a x + b along dims: a, and how far the worst number is off, beside the largest in y."""
    dx, dy = x - x.mean(dims, keepdim=True), y - y.mean(dims, keepdim=True)
    a = (dx * dy).sum(dims, keepdim=True) / dx.square().sum(dims, keepdim=True)
    return a, ((dy - a * dx).abs().max() / y.abs().max()).item()


def eval_scale(answer: object) -> Iterator[str]:
    value, eps = answers.number(answer), nn.BatchNorm2d(1).eps
    if value is None:
        yield f"Give a number; this is a {type(answer).__name__}."
        return
    right = (1 + eps) ** -0.5
    if abs(value - right) <= 2e-7:
        return
    for wrong, why in {
        1.0: "Very nearly! But eps is added to the variance always, not only where it is 0. Give seven digits.",
        1 / right: "It *divides* by the root of variance plus eps, and that root is above 1.",
        right**2: "Take the root: it divides by a standard deviation, not by a variance.",
        1 / (1 + math.sqrt(eps)): "You added the roots of variance and eps. Add first, then take the root.",
        1 / math.sqrt(eps): "A fresh running variance is not 0: look at nn.BatchNorm2d(1).running_var.",
    }.items():
        if abs(value - wrong) <= 1e-7 * max(1.0, wrong):
            yield why
    yield f"{value:.8g} is not it. Eval mode gives (x - running mean) / root(running variance + eps): what do these begin with?"


# -- whose label it is ---------------------------------------------------------------------------------------------------

LAST_LAYERS = [  # label, probabilities of five classes, the features of the image
    (2, [0.18, 0.21, 0.20, 0.19, 0.22], [0.0, 2.0, 1.0, 0.0, 3.0, 1.0]),  # behind a ReLU
    (4, [0.22, 0.18, 0.19, 0.21, 0.20], [1.0, -2.0, 0.5, -1.5, 1.0, -0.5]),  # their sum is below 0
    (1, [0.125, 0.25, 0.1875, 0.25, 0.1875], [4.0, -2.0, -1.0, -1.0, 2.0, -2.0]),  # behind a fresh LayerNorm: it is 0
    (0, [0.02, 0.03, 0.02, 0.90, 0.03], [1.0, -4.0, 0.5, -0.5, 1.0, 0.5]),  # sure of a wrong class
    (3, [0.21, 0.20, 0.18, 0.19, 0.22], [6.0, -1.0, -1.0, -0.5, -1.0, 0.5]),  # their sum is above 0, most are below
    (2, [0.92, 0.02, 0.01, 0.02, 0.03], [2.0, 1.5, -3.0, 1.0, 0.5, 1.0]),  # sure of a wrong class, their sum above 0
]

# fmt: off
LABEL_SLIPS = {
    "The smallest row sum (or mean) is iDLG's rule as it is mostly coded, right behind a ReLU, where no feature is negative. One image "
    "here has features that sum to less than 0: that turns the sign of every row's sum, and the label's is the only *positive* one.":
        lambda rows: rows.sum(1).argmin(),
    "The largest row sum? The label's row points away from the others, so behind a ReLU its sum is the smallest; and with features of both "
    "signs sums tell nothing.":
        lambda rows: rows.sum(1).argmax(),
    "The largest row sum whatever its sign bears features that sum to less than 0. But a fresh LayerNorm makes them sum to 0, and every "
    "row's sum with them. Measure a row by something that does not cancel.":
        lambda rows: rows.sum(1).abs().argmax(),
    "The row with the smallest number is GradViT's rule. It fails where the victim is sure of a wrong class and the features reach further "
    "down than up: a large probability times a very negative feature reaches lower than the label's row.":
        lambda rows: rows.amin(1).argmin(),
    "The row with the largest number: behind a ReLU that is a wrong class, always.":
        lambda rows: rows.amax(1).argmax(),
    "The row whose largest number is smallest: right behind a ReLU, but features of both signs give every row positive numbers.":
        lambda rows: rows.amax(1).argmin(),
    "You count the negative numbers of each row. Where most features are negative, the wrong classes hold more of them.":
        lambda rows: (rows < 0).sum(1).argmax(),
    "The shortest row is the class that the model found least likely. The label's is as long as all others together.":
        lambda rows: rows.norm(dim=1).argmin(),
    "You compare every row with the first. Where the first is the label's, all others point away from it: compare each with each.":
        lambda rows: (rows @ rows[0]).argmin(),
}
# fmt: on


@a_function
def label(answer: Callable[..., Any]) -> Iterator[str]:
    tables, values = [_rows(*layer) for layer in LAST_LAYERS], []
    for rows in tables:
        value = answer(rows.clone())
        if value is None:
            yield OPEN
            return
        value = torch.as_tensor(value)
        if value.numel() != 1:
            yield f"One image has one label, a single number. Yours has the shape {tuple(value.shape)}: which class does it speak for?"
            return
        if value.item() not in range(len(rows)):
            yield (
                f"The classes are 0 to {len(rows) - 1}, and yours says {value.item():.4g}: a place among all numbers of the table, perhaps,"
                " or among the features. Make one number of each row, then look for its place."
            )
            return
        values.append(value.item())
    if values == [truth for truth, *_ in LAST_LAYERS]:
        return
    for why, slip in LABEL_SLIPS.items():
        if values == [slip(rows).item() for rows in tables]:
            yield why
    truth, features, value = next((t, f, v) for (t, _, f), v in zip(LAST_LAYERS, values, strict=True) if t != v)
    yield (
        f"For an image of class {truth} with the features {features} yours says {value:g}. Every row is the same features, stretched by a "
        "number, and the label's number alone is negative: which row points away from all others?"
    )


def _rows(truth: int, probabilities: list[float], features: list[float]) -> Tensor:
    """The last layer's gradient (classes, features) for one image: row i is (p_i - [i is the label]) times the features."""
    gradients = torch.tensor(probabilities)
    gradients[truth] -= 1
    return torch.outer(gradients, torch.tensor(features))


CHECKS = search_reports.CHECKS | {
    "04.push": jacobian.push,
    "04.cosine": cosine,
    "04.sign": sign,
    "04.batchnorm": batchnorm,
    "04.eval_scale": eval_scale,
    "04.label": label,
}
DEEPER = {
    "gauss_newton": ("04.push",),
    "first_attack": ("04.label", "04.sign"),
    "hidden_choices": ("04.batchnorm", "04.eval_scale"),
}
