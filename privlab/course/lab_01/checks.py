"""Lab 01: what right or wrong gives away, who may choose the threshold, what is said of the sure and wrong, and a hospital's report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from privlab.attacks.membership_inference import signals
from privlab.metrics import roc
from privlab.notebook.kit import Check, function, number

_accuracy = number(
    0.6,
    {
        0.95: "So often is the attacker right about a *member*. They are asked about as many non-members, and are wrong about most.",
        0.75: 'So often is the model right about a test image. But there the attacker says "member", and is wrong.',
        0.2: "That is the overfitting level. An accuracy it is not: a coin has more.",
        0.85: "That is how often the *model* is right about the class. The attacker gains by its mistakes on non-members.",
        1.2: "You added the two rates. Each speaks for half of the images.",
    },
    "Take 100 members and 100 non-members: about how many of each kind does the attacker say the right thing?",
    rel=1e-6,
)


def gap_attack(answer: Any) -> Iterator[str]:
    percent = isinstance(answer, int | float) and answer > 2
    yield from _accuracy(f"{answer}%" if percent else answer)


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
]  # fmt: skip
KINDS = (torch.float64, torch.bool, torch.float64, torch.bool)


def _called(measure: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """An attack with the shadow model's threshold.  measure: of who is called a member, and who is one."""
    return lambda v, vm, s, sm: measure(v >= roc.best_threshold(s, sm), vm)


whose_threshold = function(
    lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(s, sm)),
    [tuple(torch.tensor(x, dtype=kind) for x, kind in zip(case, KINDS, strict=True)) for case in SCORES],
    {
        "That is the oracle: its threshold is chosen on the victim, whose members the attacker does not know. They want to find them "
        "out.": lambda v, vm, s, sm: roc.oracle_accuracy(v, vm),
        "Your threshold is chosen on victim and shadow model together. Half an oracle is one, too: it uses the victim's members.":
            lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(torch.cat([v, s]), torch.cat([vm, sm]))),
        "That is plain accuracy, where the larger kind counts for more. Balanced accuracy is the mean of two rates: members found, and "
        "non-members left alone.": _called(lambda said, members: (said == members).double().mean()),
        "That is the share of members found. Whoever calls all of them members finds them all: the non-members left alone count as "
        "much.": _called(lambda said, members: said[members].double().mean()),
        "A score *at* the threshold means \"member\", too, and where all scores are equal that is every one of them.":
            lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(s, sm) + 1e-9),
    },
    "The arguments are the victim's scores and members, then the shadow model's.",
    rel=1e-4,
)  # fmt: skip

PREDICTIONS = [  # probabilities, and the true class
    (torch.tensor(p, dtype=torch.float64), y)
    for p, y in (
        ([0.7, 0.2, 0.1], 0),
        ([0.7, 0.2, 0.1], 1),
        ([0.02, 0.9, 0.03, 0.05], 0),  # sure and wrong
        ([0.3, 0.1, 0.3, 0.2, 0.1], 2),  # another class is as likely as the true one
    )
]


def _modified_entropy(p: Tensor, y: int) -> Tensor:
    return -signals.modified_entropy(p.log()[None], torch.tensor([y]))


def _true(p: Tensor, y: int) -> Tensor:
    return -(1 - p[y]) * p[y].log()


modified_entropy = function(
    _modified_entropy,
    PREDICTIONS,
    {
        "That is the plain entropy. It never looks at y, so to be sure and wrong is as good for it as to be sure and right.":
            lambda p, y: -(p * p.log()).sum(),
        "The sign is turned: yours is highest for the sure and right, as `signals.modified_entropy` is. Here 0 is to be the *smallest*.":
            lambda p, y: -_modified_entropy(p, y),
        "The true class still stands in the sum over the others. It has a term of its own; leave it out there.":
            lambda p, y: _true(p, y) - (p * (1 - p).log()).sum(),
        "The term of the true class is right. For the others you took the logarithm of p: what should be small there is p, so look at "
        "what is left of 1.": lambda p, y: _true(p, y) - (p * p.log()).sum() + p[y] * p[y].log(),
        "You treat the true class like all others: then y plays no part. Weight and logarithm are the other way round for it.":
            lambda p, y: -(p * (1 - p).log()).sum(),
    },
    "Work out its two terms by hand, one after the other.",
    rel=1e-4,
)  # fmt: skip


CHECKS: dict[str, Check] = {
    "01.modified_entropy": modified_entropy,
    "01.whose_threshold": whose_threshold,
    "01.gap_attack": gap_attack,
}
