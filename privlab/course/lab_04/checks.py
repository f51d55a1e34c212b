"""Lab 04: why a cosine; deeper, whose label, why the sign, and J v."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives
from privlab.leak import Leak
from privlab.models.forward import Gradients
from privlab.notebook.kit import a_function, function


def _two_gradients(length: float) -> tuple[Gradients, Gradients]:
    """Of the same three layers, of lengths far apart, in different orders; the largest agrees most, and theirs are longer."""
    draw = torch.Generator().manual_seed(4)
    sizes = {"stem": 2.0, "norm": 0.1, "head": 1.0}
    mine = {n: length * size * torch.randn(4, 3, generator=draw) for n, size in sizes.items()}
    shares = {"head": -0.4, "stem": 0.8, "norm": 0.2}
    return mine, {n: 10 * (k * mine[n] + 0.5 * length * torch.randn(4, 3, generator=draw)) for n, k in shares.items()}


def _distance(mine: Gradients, theirs: Gradients) -> Tensor:
    return objectives.cosine_distance(torch.empty(0), mine, Leak(theirs, 1, (3, 32, 32)))


cosine = function(
    _distance,
    [_two_gradients(1.0), _two_gradients(1e-4)],  # of a victim that is hardly ever wrong, too
    {
        "That is the cosine itself, largest where the two agree. A search goes downhill: take it from 1.":
            lambda m, t: 1 - _distance(m, t),
        "That is the mean of one cosine a layer: a tiny layer counts as much as the largest. Sum over all layers before you divide.":
            lambda m, t: sum(_distance({n: m[n]}, {n: t[n]}) for n in m) / len(m),
        "You took the layers in the order in which they lie in each dict. Here the orders differ: go by name.":
            lambda m, t: _distance(m, dict(zip(m, t.values(), strict=True))),
    },
    "A cosine feels no length: divide by both, and add nothing to them.",
)  # fmt: skip


def _rows(truth: int, probabilities: list[float], features: list[float]) -> tuple[Tensor]:
    """The last layer's gradient (classes, features) for one image: row i is (p_i - [i is the label]) times the features."""
    return (torch.outer(torch.tensor(probabilities) - torch.eye(5)[truth], torch.tensor(features)),)


label = function(
    lambda rows: (rows @ rows.T < 0).sum(1).argmax(),
    [
        _rows(2, [0.18, 0.21, 0.20, 0.19, 0.22], [0.0, 2.0, 1.0, 0.0, 3.0, 1.0]),  # behind a ReLU
        _rows(4, [0.22, 0.18, 0.19, 0.21, 0.20], [1.0, -2.0, 0.5, -1.5, 1.0, -0.5]),  # their sum is below 0
        _rows(1, [0.125, 0.25, 0.1875, 0.25, 0.1875], [4.0, -2.0, -1.0, -1.0, 2.0, -2.0]),  # behind a LayerNorm: it is 0
        _rows(3, [0.21, 0.20, 0.18, 0.19, 0.22], [6.0, -1.0, -1.0, -0.5, -1.0, 0.5]),  # above 0, though most are below
        _rows(0, [0.02, 0.03, 0.02, 0.90, 0.03], [1.0, -4.0, 0.5, -0.5, 1.0, 0.5]),  # sure of a wrong class
    ],
    {
        "The smallest row sum is iDLG's rule, right behind a ReLU. Where features sum to less than 0, every row's sum turns its sign.":
            lambda rows: rows.sum(1).argmin(),
        "The row with the smallest number is GradViT's rule. It fails where the victim is sure of a wrong class.":
            lambda rows: rows.amin(1).argmin(),
    },
    "Every row is the same features times a number, and the label's number alone is negative: which row points away from all others?",
)  # fmt: skip


def adam(gradients: list[float], signed: bool, corrected: bool = True) -> list[float]:
    """The lengths |step| / lr of Adam's steps for one pixel (Kingma & Ba 2015).  corrected: m and v, for beginning at 0."""
    m, v, lengths = 0.0, 0.0, []
    for t, g in enumerate(gradients, start=1):
        g = math.copysign(1.0, g) if signed else g
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        share_m, share_v = (1 - 0.9**t, 1 - 0.999**t) if corrected else (1, 1)
        lengths.append(abs(m) / share_m / (math.sqrt(v / share_v) + 1e-8))
    return lengths


GRADIENTS = ([1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5], [-1.0, -0.1, 0.01, 0.02], [1e-8, 1e-8, 1e-8])
sign = function(
    adam,
    [(gradients, signed) for gradients in GRADIENTS for signed in (False, True)],
    {
        "You took no sign: yours gives the same for signed=True and signed=False.": lambda g, signed: adam(g, False),
        "You took the sign of the step, or of m. Take the *gradient's, before Adam sees it: where that turns round, a step is shorter.":
            lambda g, signed: [1.0] * len(g) if signed else adam(g, False),
        "Your first step has length 3.16, and should have 1: m and v begin at 0. Divide them by 1 - 0.9^t and 1 - 0.999^t, t from 1.":
            lambda g, signed: adam(g, signed, corrected=False),
    },
    "Go through it by hand: m, v, both corrected, then m over (root of v, plus eps). A sign comes before both.",
)  # fmt: skip


def push(answer: Callable) -> Iterator[str]:
    yield from a_function(answer)
    first, second, points = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    x, v = points[:2].view(2, 2, 3).clone()
    # As many as x, so that a transposed J fits too
    r = (first @ x.requires_grad_().flatten()).tanh() * (second @ x.flatten())
    J = torch.stack([torch.autograd.grad(part, x, retain_graph=True)[0].flatten() for part in r])
    passes: list[int] = []  # backward, through r
    r.register_hook(lambda gradient: passes.append(1))
    value = answer(r, x, v.clone())
    slips = {"That is J^T v, in the shape of r. J^T takes a u like r, and you gave it v.": lambda v: J.T @ v.flatten()}
    hint = "Compare with J, row by row, on a small r; finite differences are only near. (`torch.autograd.grad` gives a tuple.)"
    yield from function(lambda v: J @ v.flatten(), [(v,)], slips, hint, rel=1e-7)(lambda v: value)
    if len(passes) >= len(r):
        yield f"Right numbers, but {len(passes)} times backward through r, once a row: that builds J. Differentiate J^T u by u."
