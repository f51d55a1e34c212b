"""Checks of lab 12: what a defence costs, which to look at, two claims, a margin for a loss, a penalty on what the features hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from privlab.attacks.model_inversion import losses
from privlab.metrics import tradeoff
from privlab.notebook.kit import Check, function, in_turn, keeps, pick

# -- what a defence costs ------------------------------------------------------------------------------------------------

Pair = tuple[float, float]  # task accuracy, attack accuracy


def _price(u: Pair, d: Pair, free: float = math.nan) -> float:
    task, attack = (before - after for before, after in zip(u, d, strict=True))
    return attack / task if task else free


# fmt: off
_costs = function(
    _price,
    [
        ((97.5, 71.25), (91.0, 40.5)), ((88.5, 64.25), (79.75, 62.0)), ((90.0, 52.0), (89.75, 49.125)),
        ((96.25, 70.5), (95.5, 73.75)),  # the attacker gains
    ],
    {
        "That is what the task loses over what the attacker loses. Either the fraction is upside down, or a pair begins with the task, and "
        "you have read it the other way.": lambda u, d: (u[0] - d[0]) / (u[1] - d[1]),
        "The sign is turned: one of your differences is defended less undefended. Take both the same way round.":
            lambda u, d: -_price(u, d),
        "You measure losses as shares of what there was. The paper counts points, on both sides.":
            lambda u, d: _price(u, d) * u[0] / u[1],
    },
    "Write down the two losses first, each as before less after.",
)
_edges = function(
    _price,
    [
        ((90.5, 60.0), (92.0, 49.25)), ((85.25, 40.5), (86.0, 47.0)), ((93.0, 55.5), (88.5, 55.5)),  # the task gains; the attacker loses 0
        ((94.5, 61.0), (94.5, 33.25)), ((94.5, 61.0), (94.5, 61.0)),  # the task loses 0
    ],
    {
        "Where the task loses nothing yours is infinite. The attacker lost a finite number of points, and no price was paid: there is none "
        "to state.": lambda u, d: _price(u, d, free=math.inf),
        "In (90.5, 60) and (92, 49.25) the task *gains*, and you dropped the sign that says so.": lambda u, d: abs(_price(u, d)),
    },
    "Where the task gains there is a ratio as well. Only where it is *just as* accurate is there none: float('nan').",
)
delta = in_turn(_costs, _edges)
# fmt: on

# -- which to look at ----------------------------------------------------------------------------------------------------

Points = dict[str, Pair]
# fmt: off
PLANES: list[Points] = [
    {  # no two are level; c lies on the front, and above the straight line from b to d
        "f": (88.0, 45.0), "b": (95.0, 60.0), "h": (80.0, 42.0), "e": (92.0, 65.0), "d": (90.0, 40.0), "a": (97.0, 72.0),
        "g": (91.0, 58.0), "c": (93.0, 57.0),
    },
    {  # q is level with p at the task, r and t with others for the attacker; s and u are equal, and so are v and w
        "q": (95.0, 55.0), "v": (85.0, 60.0), "r": (93.0, 50.0), "s": (90.0, 30.0), "p": (95.0, 50.0), "w": (85.0, 60.0),
        "u": (90.0, 30.0), "o": (97.0, 80.0), "t": (88.0, 30.0), "n": (90.0, 35.0),
    },
    {"b": (80.0, 60.0), "a": (90.0, 50.0), "c": (85.0, 55.0)},
    {"a": (97.0, 50.0), "b": (95.0, 20.0), "c": (40.0, 15.0)},  # b is best by any sum or ratio
    {"a": (90.0, 50.0)},
]


def _unbeaten(beats: Callable[[Pair, Pair], bool]) -> Callable[[Points], set[str]]:
    """All that no other beats.  beats: of the other's pair and one's own."""
    return lambda p: {n for n, own in p.items() if not any(beats(other, own) for m, other in p.items() if m != n)}


_front = pick(
    tradeoff.front,
    [(points,) for points in PLANES],
    {
        "Yours is the front of the worst. Either both comparisons are turned, or a pair begins with the task, and you have read it the "
        "other way.": _unbeaten(lambda other, own: other[0] <= own[0] and other[1] >= own[1] and other != own),
        "You take a high attack accuracy for a good one. It is the attacker's: the less, the better.":
            _unbeaten(lambda other, own: other[0] >= own[0] and other[1] >= own[1] and other != own),
        "Some that you keep are beaten by one that is level with them in one number and better in the other. You ask for better in both.":
            _unbeaten(lambda other, own: other[0] > own[0] and other[1] < own[1]),
        "Of two that are equal neither beats the other, and yours throws both out.":
            _unbeaten(lambda other, own: other[0] >= own[0] and other[1] <= own[1]),
        "You keep the most accurate and the safest. Between them stand some that neither of the two beats.":
            lambda p: {max(p, key=lambda n: p[n][0]), min(p, key=lambda n: p[n][1])},
    },
    "Another beats it if it is at least as good in both numbers, and better in one.",
)
front = in_turn(_front, keeps(PLANES[0]))
# fmt: on

# -- two claims ----------------------------------------------------------------------------------------------------------


# -- the largest of the others -------------------------------------------------------------------------------------------


def _margin(z: Tensor, t: int) -> Tensor:
    return losses.max_margin(z[None], torch.tensor([t]))[0]


# fmt: off
_against = function(
    _margin,
    [(torch.tensor(z), t) for z, t in (
        ([2.5, -1.25, 0.75, 3.75, 1.0], 3), ([0.5, 4.25, 1.5, -2.0], 2), ([-6.5, -5.25, -3.0, -7.25], 1),
        ([-3.5, -1.25, -2.75, -4.0], 1),  # all below 0
        ([1.5, 0.25, 1.5, -0.75], 2),  # another class has the target's logit
        ([1.25, 3.5, -0.5], 0), ([0.75, -1.5, 2.25], 2), ([0.5, 2.0], 1),  # the target stands first, or last
    )],
    {
        "Where the target is the largest, yours stays the same, however far ahead: it is its own rival, or you cut off at 0. This goes on.":
            lambda z, t: z.amax() - z[t],
        "The sign is turned: a loss is to fall as the target gets ahead.": lambda z, t: -_margin(z, t),
        "You took a softmax. Where the model is sure, probabilities hardly move any more, and that is what this loss is there to avoid.":
            lambda z, t: _margin(z.softmax(0), t),
        "You put a 0 in the target's place. Where all others are below 0, it is the largest: give it a value that no class loses to.":
            lambda z, t: (z * (torch.arange(len(z)) != t)).amax() - z[t],
        "You leave out every class with the *logit* of the target, and so a rival that is level with it. Go by its place, not by its "
        "value.": lambda z, t: z[z != z[t]].amax() - z[t],
    },
    "Which class comes nearest to the target, and how far is it off? The target may be the first class, or the last.",
)
margin = in_turn(_against, keeps(torch.tensor([2.5, -1.25, 0.75, 3.75, 1.0]), 3))

# -- what the features hold ----------------------------------------------------------------------------------------------


def _kl(mu: Tensor, sigma: Tensor, one: float = 1.0, log: Any = torch.log) -> Tensor:
    return (mu**2 + sigma**2 - one) / 2 - log(sigma)


_nats = function(
    lambda mu, sigma: _kl(mu, sigma).sum(),
    [(torch.tensor(mu), torch.tensor(sigma)) for mu, sigma in (
        ([0.5, -1.25, 2.0], [0.75, 1.5, 0.25]), ([1.5, -0.25], [0.125, 0.625]),
        ([-0.375, 0.625, 1.75, -2.5, 0.125], [2.25, 0.5, 1.25, 0.875, 3.0]),
    )],
    {
        "You took the mean over the numbers of z. Each of them can tell something of the image, and what they tell adds up.":
            lambda mu, sigma: _kl(mu, sigma).mean(),
        "The sign is turned: a divergence is never below 0.": lambda mu, sigma: -_kl(mu, sigma).sum(),
        "You took sigma for the logarithm of a variance, as many a VAE has it. Here it is the standard deviation itself.":
            lambda mu, sigma: _kl(mu, (sigma / 2).exp()).sum(),
        "The logarithm counts twice. Where you take that of the variance, the half belongs to it, too.":
            lambda mu, sigma: _kl(mu, sigma, log=lambda s: 2 * s.log()).sum(),
        "With mu = 0 and sigma = 1 there is nothing to tell the two apart, and the penalty should be 0; yours is not. A constant is "
        "missing.": lambda mu, sigma: _kl(mu, sigma, one=0.0).sum(),
    },
    "Try one number of z: what is it at mu = 0 and sigma = 1?",
)
kl = in_turn(_nats, keeps(torch.tensor([0.5, -1.25]), torch.tensor([0.75, 1.5])))
# fmt: on
CHECKS: dict[str, Check] = {
    "12.margin": margin,
    "12.kl": kl,
    "12.delta": delta,
    "12.front": front,
}
