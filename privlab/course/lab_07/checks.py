"""Checks of lab 07: jumps at joints, stages as data, labels that repeat, a registration with no gradient, a damped step, credit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import Term
from privlab.attacks.gradient_inversion.priors import PatchJoints, Registration
from privlab.notebook.kit import OPEN, Check, function


def _random(*shape: int, seed: int = 7) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _jumps(images: Tensor, patch: int, late: int = 0) -> list[Tensor]:
    """The jump across each joint, (batch, channels, length).  late: taken so many pixels further on."""
    rows = [images[:, :, k + late] - images[:, :, k + late - 1] for k in range(patch, images.shape[2], patch)]
    columns = [images[..., k + late] - images[..., k + late - 1] for k in range(patch, images.shape[3], patch)]
    return [*rows, *columns]


# fmt: off
joints = function(
    lambda images, patch: PatchJoints(patch)(images),
    [(_random(2, 3, 8, 12), 4), (_random(1, 3, 12, 12), 3)],
    {
        "That is total variation: every jump counts. The patch prior looks at the joints alone.":
            lambda x, p: x.diff(dim=2).norm() + x.diff(dim=3).norm(),
        "You compare each pixel with the one a whole patch away. Every patch that is not a copy of its neighbour would cost: a sky beside "
        "a roof. Only the pixels that *touch* should agree.":
            lambda x, p: (x[:, :, p:] - x[:, :, :-p]).norm() + (x[..., p:] - x[..., :-p]).norm(),
        "Off by one: pixel P k is the first of its patch, so its neighbour across the joint is P k - 1, not P k + 1.":
            lambda x, p: sum(jump.norm() for jump in _jumps(x, p, late=1)),
        "You took one norm of all joints together. Take one a joint, then add.":
            lambda x, p: torch.cat([jump.flatten() for jump in _jumps(x, p)]).norm(),
        "You took one norm an image. Each joint runs through the whole batch, and its norm over batch, channels and length at once.":
            lambda x, p: sum(image.norm() for jump in _jumps(x, p) for image in jump),
    },
    "Joints lie between rows of patches and between columns. For each take the norm of the jump, not its square; then add.",
)
# fmt: on

MOMENTS = (0.0, 0.25, 0.49, 0.5, 0.51, 0.75, 1.0)  # parts of the run
EQUATIONS = {"gradients": ((0, 1), (0.5, 0.5)), "statistics": ((0, 0), (0.5, 1))}


def _factors(name: str, stages: Any) -> list[float]:
    pairs = tuple((float(part), float(factor)) for part, factor in stages)
    term = Term(name, 1.0, lambda *_: torch.tensor(0.0), pairs)
    return [term.factor(part) for part in MOMENTS]


def stages(answer: Any) -> Iterator[str]:
    if not isinstance(answer, dict) or answer.keys() != EQUATIONS.keys():
        yield "Give a dict of two entries, 'gradients' and 'statistics', each a tuple of pairs (part of the run, factor)."
        return
    if any(value is ... or value is None for value in answer.values()):
        yield OPEN
        return
    try:
        gradients, statistics = (_factors(name, answer[name]) for name in EQUATIONS)
    except TypeError:
        yield f"One of {answer} is no tuple of pairs (part of the run, factor), such as ((0, 1), (0.5, 2))."
        return
    except ValueError as error:  # a part is no step: half way is 0.5, however long the run
        yield f"{error}."
        return
    halved, let_in = (_factors(*equation) for equation in EQUATIONS.items())
    if (gradients, statistics) == (let_in, halved):
        yield "The two are swapped: eq. 5 halves the weight of the gradients, eq. 6 keeps the prior off and then lets it in."
    if statistics[0] > 0:
        yield f"statistics: the factor at the start is {statistics[0]:g}, so the prior counts from the first step; eq. 6 has 0 there."
    if gradients[-1] == 0:
        yield "gradients: with 0 from half way on, nothing holds the images to the client's gradient any more. Eq. 5 halves it."
    if gradients[0] != 1 or statistics[-1] != 1:
        yield "A stage is a *factor* on the term's weight, which has its own place: where a term counts in full, its factor is 1."
    for name, given, due in (("gradients", gradients, halved), ("statistics", statistics, let_in)):
        if given != due:
            yield (
                f"{name}: at a quarter, and at three quarters of the run, the factors should be {due[1]:g} and {due[5]:g}; yours are "
                f"{given[1]:g} and {given[5]:g}. And where does the paper change this weight?"
            )


def _bias(labels: list[int], probabilities: list[float]) -> tuple[Tensor, int]:
    """A batch's bias gradient in the last layer, mean probability of a class less its share of the labels; and the batch's size."""
    shares = torch.bincount(torch.tensor(labels), minlength=len(probabilities)) / len(labels)
    return torch.tensor(probabilities) - shares, len(labels)


def _pulls(gradient: Tensor, batch: int, pull: float) -> list[int]:
    left, found = gradient.double(), []
    for _ in range(batch):
        found.append(int(left.argmin()))
        left[found[-1]] += pull
    return sorted(found)


# fmt: off
_counts = function(
    lambda g, batch: _pulls(g, batch, 1 / batch),  # as label_recovery.bias_counts
    [
        _bias([1, 1, 3], [0.26, 0.24, 0.25, 0.25]),
        _bias([0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]),
        _bias([0, 1, 2, 2], [0.2, 0.3, 0.25, 0.25]),  # two of the labels are a little more likely than the other classes
        _bias([2], [0.1, 0.2, 0.3, 0.4]),
        _bias([0, 0, 0, 1, 1, 3], [0.30, 0.22, 0.26, 0.22]),  # class 0 stands at a third of its count only, after one pull
    ],
    {
        "You took the smallest numbers, each class once. Where a class occurs twice, its number is still among the smallest after you have "
        "named it once. Undo the pull of the image that you named, and look again.": lambda g, b: sorted(g.argsort()[:b]),
        "You named every class whose number is negative, once. That proves that it is there, not how often.":
            lambda g, b: [i for i, v in enumerate(g) if v < 0],
        "You named the smallest again and again: nothing was undone, or it was subtracted. Each image pulled its class's number down by "
        "1/batch: add it back before you look for the next.": lambda g, b: [int(g.argmin())] * b,
        "You added 1 after each label: that is the pull of an image that is alone. The gradient is a mean, so each of the batch pulls by "
        "1/batch.": lambda g, b: _pulls(g, b, 1.0),
        "You rounded -batch x number to a count. That forgets the probabilities, which are all positive: on four classes they hide a "
        "quarter of an image in each. Undo one pull at a time.":
            lambda g, b: [i for i, v in enumerate((-b * g).round()) for _ in range(max(int(v), 0))],
    },
    "Whose number is the smallest? What would it be without that one image?",
)
# fmt: on


def counts(answer: Any) -> Iterator[str]:
    def in_order(gradient: Tensor, batch: int) -> Any:
        labels = answer(gradient, batch)
        return sorted(labels) if hasattr(labels, "__len__") else labels

    yield from _counts(in_order if callable(answer) else answer)


MEMBERS = _random(3, 2, 3, 8, 8, seed=9)  # (group, batch, channels, height, width)
distances = Registration("none")
_distances = function(
    distances,
    [(MEMBERS,)],
    {
        "Those are squared distances: eq. 10 has the norm itself.": lambda m: distances(m).square(),
        "The distance of each member to itself is 0: the consensus is the mean over the *first* dimension, the members.": (
            lambda m: torch.zeros(len(m))
        ),
        "Those are root mean squares: eq. 10 has the norm, not divided by the number of pixels.": (
            lambda m: distances(m) / m[0].numel() ** 0.5
        ),
        "You added the members up. Give one distance a member, (group,): the search weighs each.": lambda m: distances(
            m
        ).sum(),
    },
    "The distances should stay what they were: one a member, the norm over all but the first dimension.",
)


def registration(answer: Any) -> Iterator[str]:
    yield from _distances(answer)
    members = MEMBERS.clone().requires_grad_()
    value = answer(members)
    if not isinstance(value, Tensor):
        yield f"Give a tensor with one distance a member; this is a {type(value).__name__}, through which no gradient can come."
        return
    slope = None
    if value.requires_grad:
        (slope,) = torch.autograd.grad(value.sum(), members, allow_unused=True)
    if slope is None or not slope.any():
        yield (
            "The values are right and the gradient is still zero: the member itself is detached, or rebuilt from numbers. A term whose "
            "gradient is zero costs time and does nothing, and its value in the trace looks as it should. Detach at most the consensus."
        )
    elif ((slope * (MEMBERS - MEMBERS.mean(0))).sum((1, 2, 3, 4)) <= 0).any():
        yield "The gradient reaches the consensus only, and pushes it: each member would be driven *away*. Detach the other one, or none."


def _step(J: Tensor, r: Tensor, added: Tensor | float) -> Tensor:
    return torch.linalg.solve(J.T @ J + added, -J.T @ r)


def _system(rows: int, columns: int, damping: float) -> tuple[Tensor, Tensor, float]:
    """Of so many differences and unknowns."""
    return _random(rows, columns).double() - 0.5, _random(rows, seed=1).double(), damping


# fmt: off
damped = function(
    lambda J, r, damping: _step(J, r, damping * torch.eye(J.shape[1])),
    [_system(3, 3, 0.5), _system(5, 2, 0.3), _system(2, 4, 0.1)],
    {
        "The sign is wrong: that step makes the differences larger. J s should come near to -r.":
            lambda J, r, d: -_step(J, r, d * torch.eye(J.shape[1])),
        "You forgot the damping: where J hardly moves in some direction that step is as long as you like.": lambda J, r, d: _step(J, r, 0),
        "You added the damping to every number of J^T J, and it belongs on the diagonal alone: damping times the identity.": _step,
        "You have J J^T in place of J^T J: that one is for each pair of differences, and the unknowns are what you solve for.":
            lambda J, r, d: torch.linalg.solve(J @ J.T + d * torch.eye(len(J)), -J.T @ r),
        "That is the gradient alone, -J^T r, a step of plain descent: it knows nothing of the curvature.": lambda J, r, d: -J.T @ r,
    },
    "J^T J has as many rows as there are unknowns. Put your step into the equation: what is left over?",
)
# fmt: on
CHECKS: dict[str, Check] = {
    "07.joints": joints,
    "07.stages": stages,
    "07.counts": counts,
    "07.registration": registration,
    "07.damped": damped,
}
