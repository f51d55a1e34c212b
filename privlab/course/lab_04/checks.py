"""Lab 04: why a cosine; then whose label, why the sign, what a norm hides, and J v."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import objectives
from privlab.leak import Leak
from privlab.models.forward import Gradients
from privlab.notebook.kit import OPEN, Check, function, number

# -- why a cosine ----------------------------------------------------------------------------------------------------------


def _two_gradients() -> tuple[Gradients, Gradients]:
    """Of the same three layers, of lengths far apart, in different orders; the largest agrees most."""
    draw = torch.Generator().manual_seed(4)
    mine = {n: size * torch.randn(4, 3, generator=draw) for n, size in (("stem", 2.0), ("norm", 0.1), ("head", 1.0))}
    noise = {n: 0.5 * torch.randn(4, 3, generator=draw) for n in mine}
    return mine, {n: k * mine[n] + noise[n] for n, k in (("head", -0.4), ("stem", 0.8), ("norm", 0.2))}


def _times(factor: float, grads: Gradients) -> Gradients:
    return {n: factor * g for n, g in grads.items()}


def _flat(grads: Gradients) -> Tensor:
    return torch.cat([grads[n].flatten() for n in sorted(grads)])


def _distance(mine: Gradients, theirs: Gradients) -> Tensor:
    return objectives.cosine_distance(torch.empty(0), mine, Leak(theirs, 1, (3, 32, 32)))


MINE, THEIRS = _two_gradients()
cosine = function(
    _distance,
    [
        (MINE, THEIRS),
        (MINE, _times(1_000, THEIRS)),  # the client's update, 1,000 times as long
        (_times(1e-4, MINE), _times(1e-4, THEIRS)),  # a victim that is hardly ever wrong: what is added to a length is felt
    ],
    {
        "That is the cosine itself, largest where the two agree. A search goes downhill: take it from 1.":
            lambda m, t: 1 - _distance(m, t),
        "That is the mean of one cosine a layer: a layer with a tiny gradient then counts as much as the largest. Sum over all layers "
        "before you divide.": lambda m, t: sum(_distance({n: m[n]}, {n: t[n]}) for n in m) / len(m),
        "That is the squared distance, as in DLG. Let the client send the same update 1,000 times as long: the picture is the same, and "
        "your distance is another. The length says how wrong the model was about the image, not what is in it.":
            lambda m, t: (_flat(m) - _flat(t)).square().sum(),
        "Not divided by the two lengths it is no cosine: the longer update would seem the nearer.":
            lambda m, t: 1 - _flat(m) @ _flat(t),
        "You took the layers in the order in which they lie in each dict. Here the orders differ: go by name.":
            lambda m, t: _distance(m, dict(zip(m, t.values(), strict=True))),
    },
    "A cosine feels no length: divide by both, and add nothing to them.",
)  # fmt: skip

# -- deeper: whose label ---------------------------------------------------------------------------------------------------


def rows(truth: int, probabilities: list[float], features: list[float]) -> Tensor:
    """The last layer's gradient (classes, features) for one image: row i is (p_i - [i is the label]) times the features."""
    p = torch.tensor(probabilities) - torch.eye(len(probabilities))[truth]
    return torch.outer(p, torch.tensor(features))


LAST_LAYERS = [  # label, probabilities of five classes, the features of the image
    (2, [0.18, 0.21, 0.20, 0.19, 0.22], [0.0, 2.0, 1.0, 0.0, 3.0, 1.0]),  # behind a ReLU
    (4, [0.22, 0.18, 0.19, 0.21, 0.20], [1.0, -2.0, 0.5, -1.5, 1.0, -0.5]),  # their sum is below 0
    (1, [0.125, 0.25, 0.1875, 0.25, 0.1875], [4.0, -2.0, -1.0, -1.0, 2.0, -2.0]),  # behind a fresh LayerNorm: it is 0
    (0, [0.02, 0.03, 0.02, 0.90, 0.03], [1.0, -4.0, 0.5, -0.5, 1.0, 0.5]),  # sure of a wrong class
    (3, [0.21, 0.20, 0.18, 0.19, 0.22], [6.0, -1.0, -1.0, -0.5, -1.0, 0.5]),  # their sum is above 0, most are below
    (2, [0.92, 0.02, 0.01, 0.02, 0.03], [2.0, 1.5, -3.0, 1.0, 0.5, 1.0]),  # sure of a wrong class, their sum above 0
]
label = function(
    lambda rows: (rows @ rows.T < 0).sum(1).argmax(),
    [(rows(*layer),) for layer in LAST_LAYERS],
    {
        "The smallest row sum (or mean) is iDLG's rule as it is mostly coded, right behind a ReLU, where no feature is negative. One image "
        "here has features that sum to less than 0: that turns the sign of every row's sum, and the label's is the only *positive* one.":
            lambda rows: rows.sum(1).argmin(),
        "The largest row sum whatever its sign bears features that sum to less than 0. But a fresh LayerNorm makes them sum to 0, and "
        "every row's sum with them. Measure a row by something that does not cancel.": lambda rows: rows.sum(1).abs().argmax(),
        "The row with the smallest number is GradViT's rule. It fails where the victim is sure of a wrong class and the features reach "
        "further down than up: a large probability times a very negative feature reaches lower than the label's row.":
            lambda rows: rows.amin(1).argmin(),
        "The shortest row is the class that the model found least likely. The label's is as long as all others together.":
            lambda rows: rows.norm(dim=1).argmin(),
        "You compare every row with the first. Where the first is the label's, all others point away from it: compare each with each.":
            lambda rows: (rows @ rows[0]).argmin(),
    },
    "Every row is the same features, stretched by a number, and the label's number alone is negative: which row points away from all "
    "others?",
)  # fmt: skip

# -- deeper: why the sign --------------------------------------------------------------------------------------------------


def adam(gradients: list[float], signed: bool, of_v: bool = True, corrected: bool = True, eps: float = 1e-8) -> list:
    """The lengths |step| / lr of Adam's steps for one pixel (Kingma & Ba 2015, Algorithm 1).

    of_v: whether the sign is taken of what enters v, too.  corrected: whether m and v are, for beginning at 0.
    """
    m, v, lengths = 0.0, 0.0, []
    for t, g in enumerate(gradients, start=1):
        sign = math.copysign(1.0, g) if signed else g
        m = 0.9 * m + 0.1 * sign
        v = 0.999 * v + 0.001 * (sign if of_v else g) ** 2
        share_m, share_v = (1 - 0.9**t, 1 - 0.999**t) if corrected else (1, 1)
        lengths.append(abs(m) / share_m / (math.sqrt(v / share_v) + eps))
    return lengths


GRADIENTS = ([1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5], [-1.0, -0.1, 0.01, 0.02], [1e-8, 1e-8, 1e-8])
sign = function(
    adam,
    [(gradients, signed) for gradients in GRADIENTS for signed in (False, True)],
    {
        "You took no sign: yours gives the same for signed=True and signed=False.": lambda g, _: adam(g, False),
        "With signed=True all your steps have length 1: you took the sign of the step, or of m. Take the *gradient's, before Adam sees "
        "it; where the gradient turns round, m holds both signs, and the step is shorter.":
            lambda g, signed: [1.0] * len(g) if signed else adam(g, False),
        "You took the sign for m alone; v still holds the bare gradients, and tiny ones blow the step up. The sign comes before both.":
            lambda g, signed: adam(g, signed, of_v=False),
        "Your first step has length 3.16, and should have 1: m and v begin at 0. Divide them by 1 - 0.9^t and 1 - 0.999^t, t from 1.":
            lambda g, signed: adam(g, signed, corrected=False),
        "Your eps is missing: where the gradient is as small as it is, 1e-8, it halves the step.":
            lambda g, signed: adam(g, signed, eps=0.0),
    },
    "Go through it by hand: m, v, both corrected, then m over (root of v, plus eps).",
    rel=3e-3,
)  # fmt: skip

# -- deeper: what a norm hides ---------------------------------------------------------------------------------------------


def batchnorm(answer: Any) -> Iterator[str]:
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(4))
    x += torch.tensor([0.0, 1.0, -3.0]).view(3, 1, 1)
    y = answer(x.clone())
    if y is None:
        yield OPEN
        return
    y = torch.as_tensor(y).detach().to(x)
    if y.shape != x.shape:
        yield f"The twin must have the shape of x, {tuple(x.shape)}; yours is {tuple(y.shape)}."
        return
    if (y - x).square().mean((0, 2, 3)).sqrt().max() < 0.1:
        yield "That is x itself, or but for a hundredth or so: too easy. Differ by tenths at least."
    with torch.no_grad():
        in_train, in_eval = (
            (norm(x) - norm(y)).abs().max() for norm in (nn.BatchNorm2d(3), nn.BatchNorm2d(3).eval())
        )  # of fresh norms
    if not in_train <= 1e-3:
        yield (
            f"The norm tells the two apart: in train mode its outputs differ by up to {in_train:.2g} (in eval mode by {in_eval:.2g}). "
            "It takes out a shift and a positive stretch of each channel as a whole: what you do to one image or one pixel alone stays."
        )


EPS = nn.BatchNorm2d(1).eps
eval_scale = number(
    (1 + EPS) ** -0.5,
    {
        1.0: "Very nearly! But eps is added to the variance always, not only where it is 0. Give seven digits.",
        (1 + EPS) ** 0.5: "It *divides* by the root of variance plus eps, and that root is above 1.",
        1 / (1 + EPS): "Take the root: it divides by a standard deviation, not by a variance.",
        1 / (1 + EPS**0.5): "You added the roots of variance and eps. Add first, then take the root.",
        EPS**-0.5: "A fresh running variance is not 0: look at nn.BatchNorm2d(1).running_var.",
    },
    "Eval mode gives (x - running mean) / root(running variance + eps): what do these begin with?",
    rel=2e-7,
)

# -- deeper: the Jacobian, times a vector ----------------------------------------------------------------------------------


def push(answer: Any) -> Iterator[str]:
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    draw = torch.Generator().manual_seed(11)
    first, second = (torch.randn(6, 6, generator=draw, dtype=torch.float64) for _ in range(2))
    x, v = (torch.randn(2, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    r = (first @ x.requires_grad_().flatten()).tanh() * (
        second @ x.flatten()
    )  # (6,): as many as x has numbers, a transpose fits too
    J = torch.stack([torch.autograd.grad(part, x, retain_graph=True)[0].flatten() for part in r])
    right = J @ v.flatten()
    passes: list[int] = []  # backward, through r
    r.register_hook(lambda gradient: passes.append(1))
    value = answer(r, x, v.clone())
    if isinstance(value, tuple):
        yield "Yours returns a tuple, as `torch.autograd.grad` does, and its first part is the tensor."
        return
    slips = {
        "That is J^T v, in the shape of r. J^T takes a u like r, and you gave it v.": lambda: J.T @ v.flatten(),
        "That is J^T J v: one product too many.": lambda: J.T @ right,
        "That is J times x. The direction is v.": lambda: J @ x.flatten(),
        "The sign is wrong: r grows along v where J v is above 0.": lambda: -right,
    }
    hint = "Compare with J, row by row, on a small r; finite differences are only near."
    yield from function(lambda: right, [()], slips, hint, rel=1e-7)(lambda: value)
    if len(passes) >= len(r):
        yield f"Right numbers, but {len(passes)} times backward through r, once a row: that builds J. Differentiate J^T u by u."


CHECKS: dict[str, Check] = {
    "04.cosine": cosine,
    "04.push": push,
    "04.label": label,
    "04.sign": sign,
    "04.batchnorm": batchnorm,
    "04.eval_scale": eval_scale,
}
