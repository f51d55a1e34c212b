"""Lab 01: the four parts, what the attack reads, what right or wrong gives away, and who may choose the threshold."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from privlab.attacks.membership_inference import network_based
from privlab.metrics import roc
from privlab.notebook.kit import OPEN, a_function, function, number


def split(answer: Callable) -> Iterator[str]:
    yield from a_function(answer)
    with torch.random.fork_rng(devices=[]):
        drawn = [answer(42, seed) for seed in (0, 0, 1)]
    if drawn[0] is None:
        yield OPEN
    first, again, other = ([torch.as_tensor(part).tolist() for part in parts] for parts in drawn)
    places = [place for part in first for place in part]
    if len(first) != 4:
        yield f"Give four parts: the victim's training and test images, then the shadow model's. Yours are {len(first)}."
    if not {*places} <= {*range(42)}:
        yield "Give places in the data set, whole numbers from 0 to n - 1."
    if len({*places}) < len(places):
        yield "An image is in two of your parts. Then a non-member is a member, or the attacker holds the victim's images."
    if {len(part) for part in first} != {10}:
        yield f"The parts should have one size, n // 4. For n = 42 yours have {', '.join(str(len(part)) for part in first)} images."
    if first != again:
        yield "The same seed draws other parts. Give the seed to a generator of your own, so that the split can be had again."
    if first == other:
        yield "Another seed draws the same parts. Shuffle by the seed: a set sorted by class would leave parts without a class."


# Two images that are named rightly, one of them without much confidence, and one that is not
LOGITS = torch.linspace(-2, 2, 30).reshape(3, 10).roll(3, 1) * torch.tensor([[3.0], [0.1], [4.0]])
input = function(
    lambda logits, labels: network_based.inputs(logits, labels, sort=False),
    [(LOGITS, torch.tensor([2, 2, 5]))],
    {
        "Those are the logits. Confidences are their softmax, and add up to 1.":
            lambda z, y: torch.cat([z, (z.argmax(1) == y)[:, None]], 1),
        "Your softmax is over the images. The confidences of one image, over its classes, add up to 1.":
            lambda z, y: torch.cat([z.softmax(0), (z.argmax(1) == y)[:, None]], 1),
        "Your last number is the answer. The bit says whether it is the label.":
            lambda z, y: torch.cat([z.softmax(1), z.argmax(1)[:, None]], 1),
    },
    "Ten confidences and then the bit, in a row for each image.",
)  # fmt: skip

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
        "A score *at* the threshold means \"member\", too, and where all scores are equal that is every one of them.":
            lambda v, vm, s, sm: roc.accuracy(v, vm, roc.best_threshold(s, sm) + 1e-6),
    },
    "The arguments are the victim's scores and members, then the shadow model's.",
)  # fmt: skip
