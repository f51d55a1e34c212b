"""Checks of lab 12: a margin for a loss, a penalty on what the features hold, the price of a defence, and which to look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privlab.notebook.exercises.answers import touched
from privlab.notebook.exercises.lab_01 import combine, compare
from privlab.notebook.exercises.pareto import front
from privlab.notebook.exercises.reports import players, vendor

# -- the largest of the others ---------------------------------------------------------------------------------------------

INSIDE = [  # no target stands first or last, so that one that is off by a place is another class, and no error
    (torch.tensor(z), t)
    for z, t in (
        ([2.5, -1.25, 0.75, 3.75, 1.0], 3),
        ([0.5, 4.25, 1.5, -2.0], 2),
        ([-3.5, -1.25, -2.75, -4.0], 1),  # all below 0
        ([1.5, 0.25, 1.5, -0.75], 2),  # another class has the target's logit
        ([-6.5, -5.25, -3.0, -7.25], 1),
    )
]
ENDS_OF_ROW = [(torch.tensor(z), t) for z, t in (([1.25, 3.5, -0.5], 0), ([0.75, -1.5, 2.25], 2), ([0.5, 2.0], 1))]


def _others(z: Tensor, t: int) -> Tensor:
    return z[torch.arange(len(z)) != t]


# fmt: off
SHOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda z: z,
    "You took a softmax. Where the model is sure, probabilities hardly move any more, and that is what this loss is there to avoid.":
        lambda z: z.softmax(0),
}
PLACES: dict[str, Callable[[int], int]] = {
    "": lambda t: t,
    "You look one place too far to the left: classes are counted from 0, and so is `target`.": lambda t: t - 1,
    "You look one place too far to the right: classes are counted from 0, and so is `target`.": lambda t: t + 1,
}
RIVALS: dict[str, Callable[[Tensor, int], Any]] = {
    "": lambda z, t: _others(z, t).amax(),
    "Where the target is the largest, yours stays the same, however far ahead: it is its own rival, or you cut off at 0. This goes on.":
        lambda z, t: z.amax(),
    "You took the mean of the others. One rival is ahead of them all, and the rest do not matter.": lambda z, t: _others(z, t).mean(),
    "You took the mean of all classes. One rival matters, and it is not the target.": lambda z, t: z.mean(),
    "You added the others up. One rival is ahead of them all, and the rest do not matter.": lambda z, t: _others(z, t).sum(),
    "Your logsumexp of the others lets every class count a little; one rival matters.": lambda z, t: _others(z, t).logsumexp(0),
    "That is the cross-entropy, which fades as the model grows sure. This loss looks at two logits alone.": lambda z, t: z.logsumexp(0),
    "You took the smallest of the others. That class is no rival.": lambda z, t: _others(z, t).amin(),
    "You took the second largest of all. That is the rival only where the target is the largest.": lambda z, t: z.topk(2).values[1],
    "You put a 0 in the target's place. Where all others are below 0, it is the largest: give it a value that no class loses to.":
        lambda z, t: _others(z, t).amax().clamp_min(0),
    "You leave out every class with the *logit* of the target, and so a rival that is level with it. Go by its place, not by its value.":
        lambda z, t: z[z != z[t]].amax(),
    "You compare absolute values. A rival has a large logit, and one far below 0 is none.": lambda z, t: _others(z, t).abs().amax(),
    "The rival is missing: that pulls the target up, and lets the other classes rise with it.": lambda z, t: 0.0,
}
MARGINS: dict[str, Callable[[Any, Any], Any]] = {  # of the target's logit and the rival's
    "": lambda own, rival: rival - own,
    "The sign is turned: a loss is to fall as the target gets ahead.": lambda own, rival: own - rival,
    "The target's own logit is missing: that pushes the rival down and asks nothing of the target.": lambda own, rival: rival,
    "You added the two; what counts is how far apart they are.": lambda own, rival: rival + own,
    "You took the absolute value, so that the target falls back where it is ahead.": lambda own, rival: abs(rival - own),
    "You added 1, as in a hinge loss. There is no margin to be kept here: ahead is ahead.": lambda own, rival: rival - own + 1,
    "That is a hinge loss: it asks for a margin of 1, and then for no more. This one goes on.":
        lambda own, rival: (rival - own + 1).clamp_min(0),
    "That is infinite: you strike the target out before you have read its logit.": lambda own, rival: math.inf,
}
# fmt: on


def _margin(show: Callable, place: Callable, rival: Callable, end: Callable) -> Callable[[Tensor, int], Any]:
    def loss(z: Tensor, t: int) -> Any:
        z, t = show(z), place(t)
        return end(z[t], rival(z, t))

    return loss


def margin(answer: object) -> Iterator[str]:
    slips = combine(_margin, SHOWN, PLACES, RIVALS, MARGINS)
    right = slips.pop("")
    yield from compare(answer, INSIDE, right, slips, "Which class comes nearest to the target, and how far is it off?")
    yield from compare(answer, ENDS_OF_ROW, right, {}, "The target may be the first class or the last; what is left?")
    yield from _unchanged(answer, ("logits",), INSIDE[0])


def _unchanged(answer: Any, names: tuple[str, ...], case: tuple) -> Iterator[str]:
    arguments = [x.clone() if isinstance(x, Tensor) else x for x in case]
    answer(*arguments)
    tensors = [(mine, theirs) for mine, theirs in zip(arguments, case, strict=True) if isinstance(theirs, Tensor)]
    yield from touched(names, [mine for mine, _ in tensors], tuple(theirs for _, theirs in tensors))


# -- what the features hold ------------------------------------------------------------------------------------------------

NORMALS = [
    (torch.tensor(mu), torch.tensor(sigma))
    for mu, sigma in (
        ([0.5, -1.25, 2.0], [0.75, 1.5, 0.25]),
        ([-0.375, 0.625, 1.75, -2.5, 0.125], [2.25, 0.5, 1.25, 0.875, 3.0]),
        ([1.5, -0.25], [0.125, 0.625]),
    )
]

# fmt: off
MUS: dict[str, Callable[[Tensor], Tensor]] = {
    "": torch.square,
    "mu is not squared: yours rewards a mean below 0, and that is as far from N(0, 1) as one above.": lambda mu: mu,
    "You took the absolute value of mu; with a normal distribution it is the square that counts.": torch.abs,
    "mu plays no part in yours. But a mean that is far from 0 tells as much of an image as a sigma that is small.": torch.zeros_like,
}
SIGMAS: dict[str, Callable[[Tensor], Tensor]] = {
    "": torch.square,
    "Beside mu^2 there should stand a variance, and sigma is a standard deviation.": lambda s: s,
    "Nothing holds sigma down: in yours it can grow without end, and the penalty falls all the way.": torch.zeros_like,
}
LOGS: dict[str, Callable[[Tensor], Tensor]] = {
    "": torch.log,
    "The logarithm counts twice. Where you take that of the variance, the half belongs to it, too.": lambda s: 2 * s.log(),
    "The logarithm is to base 2, and the rest is in nats. Take the natural one.": torch.log2,
    "The logarithm is to base 10, and the rest is in nats. Take the natural one.": torch.log10,
    "There is no logarithm in yours, so a sigma of 0 costs nothing. But then z tells all there is to tell.": torch.zeros_like,
    "The logarithm has the wrong sign: a small sigma gives more away, and should cost more.": lambda s: -s.log(),
    "The logarithm has the wrong sign, and counts twice.": lambda s: -2 * s.log(),
    "You took the logarithm of 1 + sigma; at a sigma of 1 it should be 0.": torch.log1p,
}
AT_0_AND_1 = "With mu = 0 and sigma = 1 there is nothing to tell the two apart, and the penalty should be 0; yours is not."
ONES: dict[str, Callable[[Tensor], float]] = {
    "": lambda s: 1.0,
    f"{AT_0_AND_1} A constant is missing.": lambda s: 0.0,
    f"{AT_0_AND_1} Your constant has the wrong sign.": lambda s: -1.0,
    "You take the constant off once for the whole of z; each of its numbers has its own.": lambda s: 1 / len(s),
}
HALVES: dict[str, Callable[[Tensor, Tensor, Tensor, float], Tensor]] = {  # of mu^2, sigma^2, log sigma, 1
    "": lambda m, v, log, one: (m + v - one) / 2 - log,
    "The half is missing from the squares and the constant.": lambda m, v, log, one: m + v - one - log,
    "The logarithm of sigma has a half too many. That goes with the logarithm of the variance.":
        lambda m, v, log, one: (m + v - one - log) / 2,
    "Yours is twice as large as it should be: a half is missing from all.": lambda m, v, log, one: m + v - one - 2 * log,
    f"{AT_0_AND_1} The constant needs the half as well.": lambda m, v, log, one: (m + v) / 2 - one - log,
    "You halve the constant alone. Python divides before it adds: are brackets missing?": lambda m, v, log, one: m + v - one / 2 - log,
    "mu^2 has no half; it stands beside sigma^2 and is treated like it.": lambda m, v, log, one: m + (v - one) / 2 - log,
    "sigma^2 has no half; it stands beside mu^2 and is treated like it.": lambda m, v, log, one: v + (m - one) / 2 - log,
}
FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "": lambda m, s: (m**2 + s**2 - 1) / 2 - s.log(),
    "You took sigma for a variance. It is a standard deviation: the variance is its square.":
        lambda m, s: (m**2 + s - 1 - s.log()) / 2,
    "You handed over sigma^2 where a standard deviation is asked for, and that is sigma itself.":
        lambda m, s: (m**2 + s**4 - 1) / 2 - 2 * s.log(),
    "You took sigma for the logarithm of a variance, as many a VAE has it. Here it is the standard deviation itself.":
        lambda m, s: (m**2 + s.exp() - 1 - s) / 2,
    "You took sigma for the logarithm of a standard deviation. Here it is the standard deviation itself.":
        lambda m, s: (m**2 + (2 * s).exp() - 1) / 2 - s,
    "That is the other direction, from N(0, 1) to N(mu, sigma^2). A divergence is no distance: it matters which one comes first.":
        lambda m, s: (1 + m**2) / (2 * s**2) - 0.5 + s.log(),
}
TOTALS: dict[str, Callable[[Tensor], Tensor]] = {
    "": torch.sum,
    "You took the mean over the numbers of z. Each of them can tell something of the image, and what they tell adds up.": torch.mean,
    "The sign is turned: a divergence is never below 0.": lambda each: -each.sum(),
    "That is in bits; asked for are nats.": lambda each: each.sum() / math.log(2),
    "You work to base 10; nats have natural logarithms.": lambda each: each.sum() / math.log(10),
    "You took the largest alone; what the numbers of z tell adds up.": torch.amax,
}
# fmt: on


def kl(answer: object) -> Iterator[str]:
    def by_parts(
        mu: Callable, sigma: Callable, log: Callable, one: Callable, half: Callable, end: Callable
    ) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda m, s: end(half(mu(m.double()), sigma(s.double()), log(s.double()), one(s)))

    slips = combine(lambda form, end: lambda m, s: end(form(m.double(), s.double())), FORMS, TOTALS)
    right = slips.pop("")
    slips |= {why: slip for why, slip in combine(by_parts, MUS, SIGMAS, LOGS, ONES, HALVES, TOTALS).items() if why}
    yield from compare(answer, NORMALS, right, slips, "Try one number of z: what is it at mu = 0 and sigma = 1?")
    yield from _unchanged(answer, ("mu", "sigma"), NORMALS[0])


# -- what a defence costs --------------------------------------------------------------------------------------------------

Pair = tuple[float, float]
COST = [  # the task loses something; without and with the defence, task accuracy and attack accuracy
    ((97.5, 71.25), (91.0, 40.5)),
    ((96.25, 70.5), (95.5, 73.75)),  # the attacker gains
    ((88.5, 64.25), (79.75, 62.0)),
    ((90.0, 52.0), (89.75, 49.125)),
]
GAIN = [((90.5, 60.0), (92.0, 49.25)), ((85.25, 40.5), (86.0, 47.0)), ((93.0, 55.5), (88.5, 55.5))]
FREE = [((94.5, 61.0), (94.5, 33.25)), ((94.5, 61.0), (94.5, 61.0))]


def _lost(u: Pair, d: Pair) -> Pair:
    return u[0] - d[0], u[1] - d[1]


# fmt: off
WAYS: dict[str, Callable[[Pair, Pair], float]] = {
    "": lambda u, d: _lost(u, d)[1] / _lost(u, d)[0],
    "That is what the task loses over what the attacker loses. Either the fraction is upside down, or a pair begins with the task, and you "
    "have read it the other way.":
        lambda u, d: _lost(u, d)[0] / _lost(u, d)[1],
    "Those are accuracies with the defence, one over the other. What has been *lost* shows only beside the undefended.":
        lambda u, d: d[1] / d[0],
    "Those are accuracies without any defence, one over the other. What has been *lost* shows only beside the defended.":
        lambda u, d: u[1] / u[0],
    "You measure losses as shares of what there was. The paper counts points, on both sides.":
        lambda u, d: (_lost(u, d)[1] / u[1]) / (_lost(u, d)[0] / u[0]),
    "You measure losses as shares of what is left. The paper counts points, on both sides.":
        lambda u, d: (_lost(u, d)[1] / d[1]) / (_lost(u, d)[0] / d[0]),
    "You measure the attacker's loss as a share of what they had. The paper counts points, as you do for the task.":
        lambda u, d: _lost(u, d)[1] / u[1] / _lost(u, d)[0],
    "You measure the task's loss as a share of what there was. The paper counts points, as you do for the attacker.":
        lambda u, d: _lost(u, d)[1] / (_lost(u, d)[0] / u[0]),
    "You compare what is left, as shares. Asked for is what has been lost, in points.":
        lambda u, d: (d[1] / u[1]) / (d[0] / u[0]),
    "You subtract within a pair, the attacker from the task. A loss is a difference between the two pairs.":
        lambda u, d: (d[0] - d[1]) / (u[0] - u[1]),
    "You took one loss less the other. A price is a ratio: so many points for each point.":
        lambda u, d: _lost(u, d)[1] - _lost(u, d)[0],
    "That is what the attacker loses, whatever it costs. The task has no part in it.": lambda u, d: _lost(u, d)[1],
    "That is what the task loses. The attacker has no part in it.": lambda u, d: _lost(u, d)[0],
    "Below the line stands the sum of both losses; divide by what the task alone loses.":
        lambda u, d: _lost(u, d)[1] / sum(_lost(u, d)),
}
BETTER = "In (90.5, 60) and (92, 49.25) the task *gains*"
GAINED: dict[str, Callable[[Pair, Pair], float]] = {
    f"{BETTER}, and you dropped the sign that says so.": lambda u, d: abs(_lost(u, d)[1] / _lost(u, d)[0]),
    f"{BETTER}, and you dropped the sign of its loss.": lambda u, d: _lost(u, d)[1] / abs(_lost(u, d)[0]),
    f"{BETTER}, and you give 0. There is a ratio there as well.": lambda u, d: 0.0,
    f"{BETTER}, and you give infinity. There is a ratio there as well.": lambda u, d: math.inf if u[0] < d[0] else 0.0,
}
LEAVE = "Leave the number as it is; it is rounded where it is printed."
PRICES: dict[str, Callable[[float], float]] = {
    "": lambda r: r,
    "The sign is turned: one of your differences is defended less undefended. Take both the same way round.": lambda r: -r,
    "You dropped the sign. Where the attacker is better off with the defence, it is what says so.": abs,
    "You cut off at 0. Where the attacker is better off with the defence, a number below 0 says so.": lambda r: max(0.0, r),
    f"You round to whole numbers. {LEAVE}": round,
    f"You divide to whole numbers. {LEAVE}": math.floor,
    f"You round to one decimal. {LEAVE}": lambda r: round(r, 1),
    f"You round to two decimals. {LEAVE}": lambda r: round(r, 2),
    "Yours is 100 times too large. Points over points are no percents.": lambda r: 100 * r,
    "Yours is 100 times too small. Points over points are no percents.": lambda r: r / 100,
}
# fmt: on


def delta(answer: object) -> Iterator[str]:
    slips = combine(lambda way, price: lambda u, d: price(way(u, d)), WAYS, PRICES)
    right = slips.pop("")
    yield from compare(answer, COST, right, slips, "Write down the two losses first, each as before less after.")
    call: Any = answer
    for case in GAIN:
        value = call(*case)
        if value is None or (not np.shape(value) and math.isnan(value)):
            lost, word = right(*case), "nothing" if value is None else "nan"
            yield f"For {case} yours gives {word}; it should be {lost:.6g}. Only where the task is *just as* accurate is there no answer."
    yield from compare(answer, GAIN, right, GAINED, "Here one of the losses is 0, or below.")
    for u, d in FREE:
        yield from _made_up(call, u, d)


def _made_up(call: Callable[..., Any], u: Pair, d: Pair) -> Iterator[str]:
    """What is wrong with the answer where the task is just as accurate with the defence as without."""
    gone = u[1] - d[1]
    where = f"For {u} and {d} the task loses nothing, and yours"
    try:
        value = call(u, d)
    except ArithmeticError as error:
        yield f"{where} stops with {type(error).__name__}: {error}. Ask first whether there is anything to divide by."
        return
    if value is None or isinstance(value, str) or math.prod(np.shape(value)) != 1:
        yield f"{where} gives no number. Python has one that is none: float('nan')."
        return
    value = float(value.item() if hasattr(value, "item") else np.asarray(value).item())
    if math.isinf(value):
        yield f"{where} gives {value:g}. The attacker lost a finite number of points, and no price was paid: there is none to state."
    elif not math.isnan(value):
        hint = f"that says that the attacker lost nothing, and they lost {gone:g} points" if gone and not value else ""
        yield f"{where} gives {value:.6g}; {hint or 'whatever number stands there, it is made up'}. There is no ratio here."


CHECKS = {
    "12.margin": margin,
    "12.kl": kl,
    "12.delta": delta,
    "12.front": front,
    "12.vendor": vendor,
    "12.players": players,
}
DEEPER = {"stronger_attacks": ("12.margin",), "training_defences": ("12.kl",)}
