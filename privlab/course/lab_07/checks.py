"""Lab 07: the label rule, stages as data, jumps at joints, a registration with no gradient; deeper, labels that repeat, a damped step."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import Term, label_recovery
from privlab.attacks.gradient_inversion.priors import PatchJoints, Registration
from privlab.leak import Leak
from privlab.notebook.kit import OPEN, function


def _random(*shape: int, seed: int = 7) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _jumps(images: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """Across the joints between rows of patches, and those between columns."""
    down, across = images[:, :, patch::patch], images[..., patch::patch]
    return down - images[:, :, patch - 1 : -1 : patch], across - images[..., patch - 1 : -1 : patch]


joints = function(
    lambda images, patch: PatchJoints(patch)(images),
    [(_random(2, 3, 8, 12), 4), (_random(1, 3, 12, 12), 3)],
    {
        "That is total variation: every jump counts. The patch prior looks at the joints alone.":
            lambda x, p: x.diff(dim=2).norm() + x.diff(dim=3).norm(),
        "You compare each pixel with the one a whole patch away, a sky with a roof. Only the pixels that *touch* should agree.":
            lambda x, p: (x[:, :, p:] - x[:, :, :-p]).norm() + (x[..., p:] - x[..., :-p]).norm(),
        "You took one norm of all joints together. Take one a joint, then add.":
            lambda x, p: torch.hypot(*(jump.norm() for jump in _jumps(x, p))),
        "You added up squares. Take the norm of each jump, which is the root of its sum of squares.":
            lambda x, p: sum(jump.square().sum() for jump in _jumps(x, p)),
        "You have the joints between rows of patches alone. Those between columns are missing.":
            lambda x, p: PatchJoints((p, x.shape[3]))(x),
    },
    "Joints lie between rows of patches and between columns. For each take the norm of the jump over the whole batch; then add.",
)  # fmt: skip


def _factor(stages: dict, name: str, part: float) -> float:
    return Term(name, 1.0, lambda *_: torch.tensor(0.0), tuple(stages[name])).factor(part)


EQ_5, EQ_6, FALLS = ((0, 1), (0.5, 0.5)), ((0, 0), (0.5, 1)), ((0, 1), (0.5, 0))
PARTS = (0.0, 0.25, 0.49, 0.5, 0.51, 0.75, 1.0)  # of the run
_factors = function(
    partial(_factor, {"gradients": EQ_5, "statistics": EQ_6}),
    [(name, part) for name in ("gradients", "statistics") for part in PARTS],
    {
        "The two are swapped: eq. 5 halves the weight of the gradients, eq. 6 keeps the prior off and then lets it in.":
            partial(_factor, {"gradients": EQ_6, "statistics": EQ_5}),
        "gradients: with 0 from half way on, nothing holds the images to the client's gradient any more. Eq. 5 halves it.":
            partial(_factor, {"gradients": FALLS, "statistics": EQ_6}),
        "statistics: the prior counts from the first step on; eq. 6 has 0 there.":
            partial(_factor, {"gradients": EQ_5, "statistics": FALLS}),
    },
    "Give pairs (part of the run, *factor*), such as ((0, 1), (0.5, 2)): where a term counts in full, its factor is 1.",
)  # fmt: skip


def stages(answer: dict) -> Iterator[str]:
    if ... in answer.values():
        yield OPEN
    yield from _factors(partial(_factor, answer))


rows = function(
    lambda g, batch: g.amin(1).argsort()[:batch],
    [
        # classes 1 and 3 are present; class 2 has the smallest sum, and class 1 the two smallest numbers
        (torch.tensor([[0.3, 0.1, 0.2], [0.9, -0.8, -0.7], [-0.3, -0.3, -0.3], [0.5, 0.2, -0.6], [0.1, 0.2, 0.4]]), 2),
        (torch.tensor([[0.2, -0.5, 0.9, 0.1], [0.3, 0.1, 0.1, 0.2], [-0.4, 0.8, 0.1, 0.7], [-0.9, 0.6, 0.2, 0.3]]), 3),
    ],
    {
        "You summed each row, and what is far below zero in one place can cancel. Eq. 2 takes the *minimum* of each row.":
            lambda g, batch: g.sum(1).argsort()[:batch],
        "You took the minimum over the classes, so you name features. A class is a row: take the minimum along the features.":
            lambda g, batch: g.amin(0).argsort()[:batch],
        "You named the largest first. The factor of a class that is present is negative, so the smallest minimum comes first.":
            lambda g, batch: g.amin(1).argsort(descending=True)[:batch],
    },
    "One number a class: the minimum of its row. The classes with the smallest of them are the labels.",
    then=sorted,
)  # fmt: skip


def _counts(gradient: Tensor, batch: int) -> Tensor:
    head = nn.Linear(1, 1, device="meta")  # the rule reads no weights
    return label_recovery.bias_counts(head, Leak({"bias": gradient}, batch, (3, 32, 32)))


counts = function(
    _counts,
    [
        (torch.tensor([0.26, 0.24 - 2 / 3, 0.25, 0.25 - 1 / 3]), 3),  # mean probability of a class less its share
        (torch.tensor([0.25 - 4 / 4, 0.25, 0.25, 0.25]), 4),
        (torch.tensor([0.2 - 1 / 4, 0.3 - 1 / 4, 0.25 - 2 / 4, 0.25]), 4),  # two labels are more likely than other classes
        (torch.tensor([0.30 - 3 / 6, 0.22 - 2 / 6, 0.26, 0.22 - 1 / 6]), 6),  # after one pull class 0 stands at a third of its count
    ],
    {
        "You took the smallest numbers, each class once. A class that occurs twice is still among the smallest: look again.":
            lambda g, batch: g.argsort()[:batch],
        "You named the smallest again and again. Each image pulled its class's number down by 1/batch: add it back before you look again.":
            lambda g, batch: [int(g.argmin())] * batch,
        "You added 1 after each label, the pull of an image that is alone. The gradient is a mean: each of the batch pulls by 1/batch.":
            lambda g, batch: _counts(g / batch, batch),
    },
    "Whose number is the smallest? What would it be without that one image?",
    then=sorted,
)  # fmt: skip

MEMBERS = _random(3, 2, 3, 8, 8, seed=9)  # (group, batch, channels, height, width)


def registration(answer: Callable) -> Iterator[str]:
    hint = "The distances should stay what they were: one a member, the norm, not its square, over all but the first dimension."
    yield from function(Registration("none"), [(MEMBERS,)], {}, hint)(answer)
    members = MEMBERS.clone().requires_grad_()
    value = torch.as_tensor(answer(members)).sum() + 0 * members.sum()  # a zero gradient where there is none
    (slope,) = torch.autograd.grad(value, members)
    if not slope.any():
        yield "The values are right and the gradient is still zero: the member is detached, or rebuilt. Detach at most the consensus."
    if ((slope * (MEMBERS - MEMBERS.mean(0))).sum((1, 2, 3, 4)) <= 0).any():
        yield "The gradient reaches the consensus only, and pushes it: each member would be driven *away*. Detach the other one, or none."


damped = function(
    lambda J, r, damping: torch.linalg.solve(J.T @ J + damping * torch.eye(J.shape[1]), -J.T @ r),
    [(_random(n, m).double() - 0.5, _random(n, seed=1).double(), d) for n, m, d in ((3, 3, 0.5), (5, 2, 0.3), (2, 4, 0.1))],
    {
        "You added the damping to every number of J^T J, and it belongs on the diagonal alone: damping times the identity.":
            lambda J, r, damping: torch.linalg.solve(J.T @ J + damping, -J.T @ r),
    },
    "J^T J has as many rows as there are unknowns. Put your step into the equation: what is left over?",
)  # fmt: skip
