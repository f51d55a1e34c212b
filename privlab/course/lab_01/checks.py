"""Lab 01: what right or wrong gives away, and who may choose the threshold."""

from collections.abc import Iterator
from typing import Any

import torch

from privlab.metrics import roc
from privlab.notebook.kit import function, number

_accuracy = number(
    0.6,
    {
        0.95: "So often is the attacker right about a *member*. They are asked about as many non-members, and are wrong about most.",
        0.75: 'So often is the model right about a test image. But there the attacker says "member", and is wrong.',
        0.2: "That is the overfitting level. An accuracy it is not: a coin has more.",
        0.85: "That is how often the *model* is right about the class. The attacker gains by its mistakes on non-members.",
    },
    "Take 100 members and 100 non-members: about how many of each kind does the attacker say the right thing?",
)


def gap_attack(answer: Any) -> Iterator[str]:
    in_percent = isinstance(answer, int | float) and answer > 2
    return _accuracy(answer / 100 if in_percent else answer)


SCORES = [  # victim's scores and members, shadow model's scores and members; any threshold that is best for the shadow gives the same
    # few members among the victim's, and a threshold that suits the shadow model better than the victim
    ([3.5, 2.0, 1.0, -2.0, 6.0, -3.0, 0.25, -1.0], [1, 1, 1, 0, 0, 0, 0, 0],
     [5.0, 4.0, 3.5, -2.0, 2.0, 0.5, 0.0, -1.0], [1, 1, 1, 1, 0, 0, 0, 0]),
    # few members among the shadow's: whoever counts plain hits calls too few
    ([0.9, 0.75, 0.65, 0.2, 0.97, 0.1, 0.3, 0.25], [1, 1, 1, 1, 0, 0, 0, 1],
     [0.95, 0.6, 0.9, 0.7, 0.85, 0.35, 0.3, 0.2, 0.1, 0.05], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
    # the shadow model says the same of all, so its threshold is that very score
    ([1.0, 2.0, 1.0, 1.0, 1.0], [1, 1, 0, 0, 0], [1.0, 1.0, 1.0, 1.0], [1, 0, 1, 0]),
]  # fmt: skip
whose_threshold = function(
    lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(s, sm)),
    [(torch.tensor(v), torch.tensor(vm).bool(), torch.tensor(s), torch.tensor(sm).bool()) for v, vm, s, sm in SCORES],
    {
        "That is the oracle: its threshold is chosen on the victim, whose members the attacker does not know, and wants to find out.":
            lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(v, vm)),
        "That is plain accuracy. Balanced accuracy is the mean of two rates: members found, and non-members left alone.":
            lambda v, vm, s, sm: ((v >= roc.best_threshold(s, sm)) == vm).double().mean(),
        "That is the share of members found. The share of the non-members that are left alone counts as much.":
            lambda v, vm, s, sm: (v[vm] >= roc.best_threshold(s, sm)).double().mean(),
        "A score *at* the threshold means \"member\", too, and where all scores are equal that is every one of them.":
            lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(s, sm) + 1e-6),
    },
    "The arguments are the victim's scores and members, then the shadow model's.",
)  # fmt: skip
