"""Checks of lab 01: what is said of the sure and wrong, who may choose the threshold, and what right or wrong gives away."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from privlab.metrics import roc
from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import OPEN
from privlab.notebook.exercises.reports import nobody


def compare(
    answer: object, cases: list[tuple], right: Callable, slips: dict[str, Callable], hint: str
) -> Iterator[str]:
    """Yield why a function that returns one number is not `right`, judged on all cases at once.

    cases: tuples of arguments; tensors among them are handed over as copies.
    slips: what to say to an answer that gives on every case what this function gives.
    hint: what else to say; where no slip fits it follows the first case that is off.
    """
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    values = []
    for case in cases:
        value = answer(*(x.clone() if isinstance(x, Tensor) else x for x in case))
        if value is None:
            yield OPEN
            return
        if math.prod(shape := tuple(np.shape(value))) != 1:
            yield f"Give one number; this has the shape {shape}."
            return
        values.append(float(value.item() if hasattr(value, "item") else value))
    due = [float(right(*case)) for case in cases]
    if _close(values, due):
        return
    for why, slip in slips.items():
        if _close(values, [float(slip(*case)) for case in cases]):
            yield why
    for case, value, expected in zip(cases, values, due, strict=True):
        if not _close([value], [expected]):
            numbers = ", ".join(str(_numbers(x)) for x in case)
            yield f"For ({numbers}) it should be {expected:.6g}, and yours gives {value:.6g}. {hint}"


def combine(build: Callable, *parts: dict[str, Callable]) -> dict[str, Callable]:
    """All that can be built of parts of which at most two are wrong, the fewest first; "" is the right one.

    parts: for each part what to say of a choice, "" of the right one, and the choice.  build: makes one of a choice of each.
    """
    whys = sorted(itertools.product(*parts), key=lambda why: sum(map(bool, why)))
    return {
        " ".join(filter(None, why)): build(*(part[w] for part, w in zip(parts, why, strict=True)))
        for why in whys
        if sum(map(bool, why)) <= 2
    }


def number(answer: object, right: float, mistakes: dict[float, str], hint: str) -> Iterator[str]:
    """Yield why an answer is not the number `right`; `mistakes` maps known wrong numbers to what to say of them."""
    value = answers.number(answer)
    if value is None:
        yield f"Give one number; this is a {type(answer).__name__}."
        return
    for expected, why in {right: "", **mistakes}.items():
        if math.isclose(value, expected, rel_tol=1e-3 if why else 1e-6):
            if why:
                yield why
            return
    yield f"{value:g} is not it. {hint}"


def _close(values: list[float], due: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(values, due, strict=True))


def _numbers(argument: Tensor | float) -> list | float:
    tensor = torch.as_tensor(argument)
    return (tensor.int() if tensor.dtype == torch.bool else tensor).tolist()


# -- sure and wrong --------------------------------------------------------------------------------------------------------

PREDICTIONS = [  # probabilities, and the true class
    (torch.tensor(p, dtype=torch.float64), y)
    for p, y in (
        ([0.7, 0.2, 0.1], 0),
        ([0.7, 0.2, 0.1], 1),
        ([0.02, 0.9, 0.03, 0.05], 0),  # sure and wrong
        ([0.3, 0.1, 0.3, 0.2, 0.1], 2),  # another class is as likely as the true one
    )
]


def _true(p: Tensor, y: int) -> Tensor:
    return -(1 - p[y]) * p[y].log()


def _others(p: Tensor, y: int) -> Tensor:
    return -(p * (1 - p).log())[torch.arange(len(p)) != y].sum()


def _without(p: Tensor, y: int, terms: Tensor) -> Tensor:
    return terms[torch.arange(len(p)) != y].sum()


def _modified(p: Tensor, y: int) -> Tensor:
    return _true(p, y) + _others(p, y)


# fmt: off
ENTROPY_SLIPS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "That is the plain entropy. It never looks at y, so to be sure and wrong is as good for it as to be sure and right.":
        lambda p, y: -(p * p.log()).sum(),
    "The sign is turned: yours is highest for the sure and right, as `signals.modified_entropy` is. Here 0 is to be the *smallest*.":
        lambda p, y: -_modified(p, y),
    "The true class still stands in the sum over the others. It has a term of its own; leave it out there.":
        lambda p, y: _true(p, y) - (p * (1 - p).log()).sum(),
    "The term of the true class is right. For the others you took the logarithm of p: what should be small there is p, so look at what is "
    "left of 1.":
        lambda p, y: _true(p, y) - _without(p, y, p * p.log()),
    "The term of the true class is right. Of the other sum two things: y still stands in it, and its logarithm is that of p.":
        lambda p, y: _true(p, y) - (p * p.log()).sum(),
    "The term of the true class has the wrong weight: yours vanishes where p_y does, and there the model is sure and wrong.":
        lambda p, y: -p[y] * p[y].log() + _others(p, y),
    "The others are right. For the true class the logarithm is that of p_y itself.":
        lambda p, y: -(1 - p[y]) * (1 - p[y]).log() + _others(p, y),
    "You treat the true class like all others: then y plays no part. Weight and logarithm are the other way round for it.":
        lambda p, y: -(p * (1 - p).log()).sum(),
    "You treat the others like the true class: there, weight and logarithm are the other way round.":
        lambda p, y: _true(p, y) - _without(p, y, (1 - p) * p.log()),
    "The others have the wrong weight: a class that the model thinks unlikely should hardly count.":
        lambda p, y: _true(p, y) - _without(p, y, (1 - p) * (1 - p).log()),
    "The two terms have changed places: what you do to the true class belongs to the others, and the other way round.":
        lambda p, y: -p[y] * (1 - p[y]).log() - _without(p, y, (1 - p) * p.log()),
    "That is the first term alone. The other classes are missing.": _true,
    "That is the sum over the other classes alone. The true class is missing.": _others,
    "The second term has the wrong sign: both logarithms are negative, and both terms positive.":
        lambda p, y: _true(p, y) - _others(p, y),
    "The first term has the wrong sign: both logarithms are negative, and both terms positive.":
        lambda p, y: _others(p, y) - _true(p, y),
    "That is the cross-entropy. It sees the true class and none of the others.":
        lambda p, y: -p[y].log(),
    "The weight of the first term is missing.":
        lambda p, y: -p[y].log() + _others(p, y),
    "The weights are missing from the sum over the others.":
        lambda p, y: _true(p, y) - _without(p, y, (1 - p).log()),
    "You took the mean over the other classes; add them up.":
        lambda p, y: _true(p, y) + _others(p, y) / (len(p) - 1),
    "Those are logarithms to base 2; take natural ones.":
        lambda p, y: _modified(p, y) / math.log(2),
    "Those are logarithms to base 10; take natural ones.":
        lambda p, y: _modified(p, y) / math.log(10),
    "You took a softmax. But p holds probabilities already, not logits.":
        lambda p, y: _modified(p.softmax(0), y),
    "You took the most likely class where the true one belongs: a model that is sure and wrong then looks fine.":
        lambda p, y: _modified(p, int(p.argmax())),
    "You leave out every class that is as *likely* as the true one. Go by the place of y, not by its value.":
        lambda p, y: _true(p, y) - (p * (1 - p).log())[p != p[y]].sum(),
}
# fmt: on


def modified_entropy(answer: object) -> Iterator[str]:
    hint = "Work out its two terms by hand, one after the other."
    yield from compare(answer, PREDICTIONS, _modified, ENTROPY_SLIPS, hint)


# -- whose threshold -------------------------------------------------------------------------------------------------------

# fmt: off
SCORES = [  # victim's scores and members, shadow model's scores and members; any threshold that is best for the shadow gives the same
    # few members among the victim's, and a threshold that suits the shadow model better than the victim
    ([3.5, 2.0, 1.0, -2.0, 6.0, -3.0, 0.25, -1.0], [1, 1, 1, 0, 0, 0, 0, 0],
     [5.0, 4.0, 3.5, -2.0, 2.0, 0.5, 0.0, -1.0], [1, 1, 1, 1, 0, 0, 0, 0]),
    # few members among the shadow's: whoever counts plain hits calls too few
    ([0.9, 0.75, 0.65, 0.2, 0.97, 0.1, 0.3, 0.25], [1, 1, 1, 1, 0, 0, 0, 1],
     [0.95, 0.6, 0.9, 0.7, 0.85, 0.35, 0.3, 0.2, 0.1, 0.05], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
    # of both models one score lies far out, so that mean and median are apart, and both wrong
    ([30.0, 15.0, 8.5, 9.05, 8.75, 3.0, 2.9, 2.5, 2.0, 1.5, 0.6], [1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0],
     [40.0, 9.0, 8.0, 3.0, 2.0, 1.0, 0.75], [1, 1, 1, 0, 0, 0, 0]),
    # the shadow model says the same of all, so its threshold is that very score
    ([1.0, 2.0, 1.0, 1.0, 1.0], [1, 1, 0, 0, 0],
     [1.0, 1.0, 1.0, 1.0], [1, 0, 1, 0]),
]
# fmt: on


def _best_plain(scores: Tensor, members: Tensor) -> float:
    """The highest of the scores that is right most often, counting all samples alike."""
    candidates = sorted({math.inf, *scores.tolist()}, reverse=True)
    return max(candidates, key=lambda t: int(((scores >= t) == members).sum()))


# fmt: off
SOURCES: dict[str, Callable[..., float]] = {  # of victim's scores and members, shadow's scores and members
    "": lambda v, vm, s, sm: roc.best_threshold(s, sm),
    "That is the oracle: its threshold is chosen on the victim, whose members the attacker does not know. They want to find them out.":
        lambda v, vm, s, sm: roc.best_threshold(v, vm),
    "Your threshold is chosen on victim and shadow model together. Half an oracle is one, too: it uses the victim's members.":
        lambda v, vm, s, sm: roc.best_threshold(torch.cat([v, s]), torch.cat([vm, sm])),
    "A fixed threshold of 0.5 suits no score but a probability, and not even that: the shadow model tells where to cut.":
        lambda v, vm, s, sm: 0.5,
    "A fixed threshold of 0 suits hardly any score: the shadow model tells where to cut.":
        lambda v, vm, s, sm: 0.0,
    "You cut at the mean of the shadow model's scores. The attacker knows its members as well: there is a better threshold to be had.":
        lambda v, vm, s, sm: s.mean().item(),
    "You cut at the median of the shadow model's scores, and so call half of all members, whoever they are. The attacker "
    "knows its members as well: there is a better threshold to be had.":
        lambda v, vm, s, sm: s.quantile(0.5).item(),
    "You cut at the median of the shadow model's scores (the lower of two in the middle), and so call half of all members, whoever they "
    "are. The attacker knows its members as well: there is a better threshold to be had.":
        lambda v, vm, s, sm: s.median().item(),
    "You cut at the median of the victim's own scores, and so call half of all members, whoever they are. The shadow model tells where to "
    "cut.":
        lambda v, vm, s, sm: v.quantile(0.5).item(),
    "You cut at the median score of the shadow model's members, so half of the members are lost. Its non-members count, too.":
        lambda v, vm, s, sm: s[sm].quantile(0.5).item(),
    "You cut at the mean score of the shadow model's members, so about half of the members are lost. Its non-members count, too.":
        lambda v, vm, s, sm: s[sm].mean().item(),
    "Your threshold is right for the most images of the shadow model. Where few of them are members, that calls hardly anybody one: choose "
    "it, too, by *balanced* accuracy.":
        lambda v, vm, s, sm: _best_plain(s, sm),
}
TARGETS: dict[str, Callable] = {
    "": lambda v, vm, s, sm: (v, vm),
    "Who is attacked? You measure the accuracy on the shadow model; it is to be that on the victim.":
        lambda v, vm, s, sm: (s, sm),
}
CALLS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "": lambda scores, threshold: scores >= threshold,
    "A score *at* the threshold means \"member\", too, and where all scores are equal that is every one of them.":
        lambda scores, threshold: scores > threshold,
    "You call the low scores members. Here high ones are.":
        lambda scores, threshold: scores < threshold,
}
MEASURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "": lambda called, members: (called[members].double().mean() + (~called[~members]).double().mean()) / 2,
    "That is plain accuracy, where the larger kind counts for more. Balanced accuracy is the mean of two rates: members found, and "
    "non-members left alone.":
        lambda called, members: (called == members).double().mean(),
    "That is the share of members found. Whoever calls all of them members finds them all: the non-members left alone count as much.":
        lambda called, members: called[members].double().mean(),
}
# fmt: on


def _attack(source: Callable, target: Callable, call: Callable, measure: Callable) -> Callable[..., float]:
    def accuracy(*given: Tensor) -> float:
        scores, members = target(*given)
        return float(measure(call(scores, source(*given)), members))

    return accuracy


def whose_threshold(answer: object) -> Iterator[str]:
    cases = [
        tuple(torch.tensor(x, dtype=kind) for x, kind in zip(case, (torch.float64, torch.bool) * 2, strict=True))
        for case in SCORES
    ]
    attacks = combine(_attack, SOURCES, TARGETS, CALLS, MEASURES)
    right = attacks.pop("")
    others: dict[str, Callable[..., float]] = {
        "Victim and shadow model have changed places: you attack the attacker's own model, with the victim's members as a help.":
            lambda v, vm, s, sm: roc.accuracy(s, sm, roc.best_threshold(v, vm)),
        "That is the threshold. Now hold the victim's scores against it.": lambda v, vm, s, sm: SOURCES[""](v, vm, s, sm),
        "That is the area under the victim's ROC, which needs no threshold, and says nothing of the one that an attacker would choose.":
            lambda v, vm, s, sm: roc.auc(v, vm),
        "Give a share between 0 and 1, not percents.": lambda *given: 100 * right(*given),
        "That is a coin's, whatever the scores are.": lambda *_: 0.5,
    }  # fmt: skip
    hint = "The arguments are the victim's scores and members, then the shadow model's."
    yield from compare(answer, cases, right, others | attacks, hint)


# -- right or wrong --------------------------------------------------------------------------------------------------------


def gap_attack(answer: object) -> Iterator[str]:
    value = answers.number(answer)
    yield from number(answer if value is None or value < 2 else value / 100, 0.6, {
        0.95: "So often is the attacker right about a *member*. They are asked about as many non-members, and are wrong about most.",
        0.75: "So often is the model right about a test image. But there the attacker says \"member\", and is wrong.",
        0.25: "So often is the attacker right about a *non-member*. Members make up the other half.",
        0.2: "That is the overfitting level. An accuracy it is not: a coin has more.",
        0.1: "That is what the attacker has beyond a coin.",
        0.7: "You added the whole overfitting level to the coin's half. A mean of two rates moves half as far as one of them.",
        0.85: "That is how often the *model* is right about the class. The attacker gains by its mistakes on non-members.",
        0.4: "So often is the attacker *wrong*. They could say the opposite and do better than a coin.",
        1.2: "You added the two rates. Each speaks for half of the images.",
        0.5: "That is a coin's. But the model is right about members more often than about others, and the attacker sees it.",
        0.7125: "You multiplied the two accuracies of the model. The attacker gets one image at a time: take a mean over both kinds.",
        0.2375: "You multiplied the two rates. The attacker is asked about one image at a time: take their mean.",
        0.95 / 1.7: "So often is the attacker right *when they say \"member\"*. Being right where they say \"not\" counts as well.",
    }, "Take 100 members and 100 non-members: about how many of each kind does the attacker say the right thing?")  # fmt: skip


CHECKS = {"01.modified_entropy": modified_entropy, "01.whose_threshold": whose_threshold, "01.gap_attack": gap_attack}
CHECKS |= {"01.nobody": nobody}
DEEPER = {"class_thresholds": ("01.modified_entropy",)}
