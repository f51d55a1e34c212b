"""Checks of lab 07: jumps at joints, stages as data, labels that repeat, a registration with no gradient, a damped step, credit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import Term
from privlab.attacks.gradient_inversion.priors import PatchJoints, total_variation, total_variation_norm
from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import OPEN, a_function
from privlab.notebook.exercises.lab_00 import _number
from privlab.notebook.exercises.reports import credit

# -- the patch prior -----------------------------------------------------------------------------------------------------

SIDE = 4  # of a patch, in images of 8 x 12: one joint between rows of patches, two between columns


def joints(answer: object) -> Iterator[str]:
    images = torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(7))
    down, across = images.diff(dim=2), images.diff(dim=3)
    rows = [down[:, :, k - 1] for k in range(SIDE, 8, SIDE)]
    columns = [across[..., k - 1] for k in range(SIDE, 12, SIDE)]
    each = [*rows, *columns]  # (batch, channels, length of the joint)
    inside = [down[:, :, k] for k in range(7) if k != 3] + [across[..., k] for k in range(11) if k not in (3, 7)]
    late = [down[:, :, SIDE], across[..., SIDE], across[..., 2 * SIDE]]
    right = PatchJoints(SIDE)(images).item()

    def norms(jumps: list[Tensor]) -> float:
        return sum(j.norm().item() for j in jumps)

    whole = [images[:, :, SIDE:] - images[:, :, :-SIDE], images[..., SIDE:] - images[..., :-SIDE]]
    blocks = [images[..., k + SIDE : k + 2 * SIDE] - images[..., k : k + SIDE] for k in (0, SIDE)]
    apart = "Every patch that is not a copy of its neighbour would cost: a sky beside a roof. Only the pixels that *touch* should agree."
    through = "Each joint runs through the whole image, and its norm over batch, channels and length at once."
    yield from _number(answer, (images, SIDE), right, {
        norms(whole): f"You compare each pixel with the one a whole patch away. {apart}",
        norms([whole[0], *blocks]): f"You compare whole patches. {apart}",
        norms(inside): "Those are the jumps *inside* the patches, where the network sees them for itself; eq. 8 takes the others.",
        norms([down, across]): "That is total variation: every jump counts. The patch prior looks at the joints alone.",
        norms(list(down.unbind(2)) + list(across.unbind(3))): "That is every row and column: total variation. Only "
            "each patch-th one is a joint.",
        total_variation(images).item(): "That is total variation, as Inverting Gradients has it: every neighbour counts, joint or not.",
        total_variation_norm(images).item(): "That is total variation, as DeepInversion has it: every neighbour counts, joint or not.",
        norms(rows): "That is one direction: the joints between patches above each other. Those side by side are missing.",
        norms(columns): "That is one direction: the joints between patches side by side. Those above each other are missing.",
        norms(late): "Off by one: pixel P k is the first of its patch, so its neighbour across the joint is P k - 1, not P k + 1.",
        sum(j.square().sum().item() for j in each): "Those are squared norms: take the root of each joint's.",
        torch.cat([j.flatten() for j in each]).norm().item(): "You took one norm of all joints together. Take one a joint, then add.",
        torch.cat([j.flatten() for j in rows]).norm().item() + torch.cat([j.flatten() for j in columns]).norm().item():
            "You took one norm a direction. Take one a joint, then add: two columns of joints here, and one row.",
        sum(i.norm().item() for j in each for i in j): f"You took one norm an image. {through}",
        sum(c.norm().item() for j in each for i in j for c in i): f"You took one norm an image and channel. {through}",
        norms(each) / len(each): "You took the mean over the joints: eq. 8 adds them.",
        sum(j.abs().sum().item() for j in each): "You added absolute values: that is the L1 norm, and eq. 8 has the L2.",
        sum(j.abs().mean().item() for j in each): "You took mean absolute jumps: eq. 8 has an L2 norm.",
    })  # fmt: skip
    call: Callable = answer  # type: ignore[assignment]
    tiles = (
        torch.rand(1, 3, 2, 2, generator=torch.Generator().manual_seed(8))
        .repeat_interleave(6, 2)
        .repeat_interleave(6, 3)
    )
    if abs(float(call(tiles, 3)) - PatchJoints(3)(tiles).item()) > 1e-3:
        yield "Right at patches of 4, and not at patches of 3 in an image of 12 x 12: take the side from the argument."


# -- the schedule --------------------------------------------------------------------------------------------------------

MOMENTS = (0.0, 0.25, 0.49, 0.5, 0.51, 0.75, 1.0)
DUE = {"gradients": lambda part: 1.0 if part < 0.5 else 0.5, "statistics": lambda part: 0.0 if part < 0.5 else 1.0}


def stages(answer: object) -> Iterator[str]:
    if not isinstance(answer, dict) or set(answer) != set(DUE):
        yield "Give a dict of two entries, 'gradients' and 'statistics', each a tuple of pairs (part of the run, factor)."
        return
    if any(value is ... or value is None for value in answer.values()):
        yield OPEN
        return
    for name, due in DUE.items():
        try:
            pairs = tuple((float(part), float(factor)) for part, factor in answer[name])
        except (TypeError, ValueError):
            yield f"{name}: {answer[name]!r} is no tuple of pairs (part of the run, factor), such as ((0, 1), (0.5, 2))."
            return
        if any(part > 1 for part, _ in pairs):
            yield f"{name}: a stage begins at a *part* of the run, from 0 to 1, not at a step: half way is 0.5, however long the run."
            return
        if len(pairs) == 1:
            yield f"{name}: one stage is no schedule; the paper changes this weight half way. What is it before, and what after?"
            return
        try:
            term = Term(name, 1.0, lambda *_: torch.tensor(0.0), pairs)
        except ValueError as error:
            yield f"{name}: {error}"
            return
        factors = [term.factor(part) for part in MOMENTS]
        if factors == [due(part) for part in MOMENTS]:
            continue
        other = next(v for k, v in DUE.items() if k != name)
        if factors == [other(part) for part in MOMENTS]:
            yield "The two are swapped: eq. 5 halves the weight of the gradients, eq. 6 keeps the prior off and then lets it in."
        if factors[0] != 0 and factors == [factors[0] * due(part) for part in MOMENTS]:
            yield (
                f"{name}: a stage is a *factor* on the term's weight, which has its own place. Begin at 1, so that "
                f"the weight stands there once."
            )
        if name == "statistics" and factors[-1] != 1 and factors == [factors[-1] * due(part) for part in MOMENTS]:
            yield "statistics: a stage is a *factor* on the term's weight. Once the prior is in, it counts in full: 1."
        if name == "statistics" and factors[0] > 0:
            yield f"statistics: the factor at the start is {factors[0]:g}, so the prior counts from the first step; eq. 6 has 0 there."
        if name == "gradients" and factors[-1] == 0:
            yield "gradients: with 0 from half way on, nothing holds the images to the client's gradient any more. Eq. 5 halves it."
        if name == "gradients" and factors[-1] > factors[0]:
            yield "gradients: the weight rises in yours. Eq. 5 halves it, to make room for the prior."
        yield (
            f"{name}: at a quarter, and at three quarters of the run, the factors should be {due(0.25):g} and "
            f"{due(0.75):g}; yours are {factors[1]:g} and {factors[5]:g}."
        )


# -- labels that repeat --------------------------------------------------------------------------------------------------

BATCHES = [  # labels of a batch, mean probabilities of the classes
    ([1, 1, 3], [0.26, 0.24, 0.25, 0.25]),
    ([0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]),
    ([0, 1, 2, 2], [0.2, 0.3, 0.25, 0.25]),  # two of the labels are a little more likely than the other classes
    ([2], [0.1, 0.2, 0.3, 0.4]),
    ([0, 0, 0, 1, 1, 3], [0.30, 0.22, 0.26, 0.22]),  # class 0 stands at a third of its count only, after one pull
]


def bias_of(labels: list[int], probabilities: list[float]) -> Tensor:
    """The last layer's bias gradient of a batch: mean probability of each class, less its share of the labels."""
    counts = torch.bincount(torch.tensor(labels), minlength=len(probabilities))
    return torch.tensor(probabilities) - counts / len(labels)


def _by_pulls(gradient: Tensor, batch: int, pull: float) -> list[int]:
    g, labels = gradient.double().clone(), []
    for _ in range(batch):
        labels.append(int(g.argmin()))
        g[labels[-1]] += pull
    return sorted(labels)


# fmt: off
COUNT_SLIPS: dict[str, Callable[[Tensor, int], list[int]]] = {
    "You took the smallest numbers, each class once. That is right for different labels; here one occurs twice or more, and its number "
    "is still among the smallest after you have named it once. Undo the pull of the image that you named, and look again.":
        lambda g, b: sorted(g.argsort()[:b].tolist()),
    "You named every class whose number is negative, once. That proves that it is there, not how often.":
        lambda g, b: [i for i, v in enumerate(g.tolist()) if v < 0],
    "You named the smallest again and again: nothing was undone, or it was subtracted. Each image pulled its class's number down by "
    "1/batch: add it back before you look for the next.":
        lambda g, b: [int(g.argmin())] * b,
    "You added 1 after each label: that is the pull of an image that is alone. The gradient is a mean, so each of the "
    "batch pulls by 1/batch.":
        lambda g, b: _by_pulls(g, b, 1.0),
    "You added 1/classes after each label. It is the batch that the mean is taken over: 1/batch.":
        lambda g, b: _by_pulls(g, b, 1 / len(g)),
    "You rounded -batch x number to a count. That forgets the probabilities, which are all positive: on four classes "
    "they hide a quarter of "
    "an image in each. Undo one pull at a time, and compare the classes with one another.":
        lambda g, b: [i for i, v in enumerate((-b * g).round().int().tolist()) for _ in range(max(v, 0))],
    "You looked for the *largest* numbers: a label pulls its class down.":
        lambda g, b: sorted(g.argsort(descending=True)[:b].tolist()),
}
# fmt: on


@a_function
def counts(answer: Callable[..., Any]) -> Iterator[str]:
    named = []
    for labels, probabilities in BATCHES:
        value = answer(bias_of(labels, probabilities), len(labels))
        if value is None:
            yield OPEN
            return
        value = value.tolist() if isinstance(value, Tensor) else value
        if not hasattr(value, "__len__"):
            yield f"Give a list of labels, one an image; this is a {type(value).__name__}."
            return
        numbers = [answers.number(v) for v in value]
        if strange := [v for v, n in zip(value, numbers, strict=True) if n is None or n % 1]:
            yield f"A label is the number of a class, such as 2; yours has {strange[0]!r}."
            return
        named.append(sorted(int(n) for n in numbers if n is not None))
    if named == [sorted(labels) for labels, _ in BATCHES]:
        return
    for why, slip in COUNT_SLIPS.items():
        if named == [sorted(slip(bias_of(*case), len(case[0]))) for case in BATCHES]:
            yield why
    for value, (labels, probabilities) in zip(named, BATCHES, strict=True):
        if len(value) != len(labels):
            yield (
                f"A batch of {len(labels)} has {len(labels)} labels, and yours has {len(value)}. A label that occurs "
                f"twice is named twice."
            )
        if value != sorted(labels):
            yield (
                f"From the bias gradient {[round(v, 3) for v in bias_of(labels, probabilities).tolist()]} of a batch of "
                f"{len(labels)} the labels are "
                f"{sorted(labels)}, and yours says {value}. Whose number is the smallest? What would it be without that one image?"
            )


# -- a registration without a gradient --------------------------------------------------------------------------------------


@a_function
def registration(answer: Callable[..., Any]) -> Iterator[str]:
    members = torch.rand(3, 2, 3, 8, 8, generator=torch.Generator().manual_seed(9), requires_grad=True)
    with torch.no_grad():
        apart = members - members.mean(0)
        right = apart.flatten(1).norm(dim=1)  # (group,)
    value = answer(members)
    if value is None:
        yield OPEN
        return
    if not isinstance(value, Tensor):
        yield f"Give a tensor with one distance a member; this is a {type(value).__name__}, through which no gradient can come."
        return
    value = value.to(members)
    if value.shape != right.shape:
        if value.numel() == 1 and abs(value.item() - right.sum().item()) < 1e-3:
            yield "You added the members up. Give one distance a member, (group,): the search weighs each."
        yield (
            f"Give one distance a member: (group,), here (3,), and yours is {tuple(value.shape)}. The norm goes over "
            f"all but the first dimension."
        )
        return
    for wrong, why in (
        (right.square(), "Those are squared distances: eq. 10 has the norm itself."),
        (
            torch.zeros(3),
            "The distance of each member to itself is 0: the consensus is the mean over the *first* dimension, the members.",
        ),
        (
            apart.square().flatten(1).mean(1).sqrt(),
            "Those are root mean squares: eq. 10 has the norm, not divided by the number of pixels.",
        ),
    ):
        if torch.allclose(value.detach().to(right), wrong, rtol=1e-3, atol=1e-5):
            yield why
    if not torch.allclose(value.detach().to(right), right, rtol=1e-3, atol=1e-5):
        yield (
            f"The distances should stay what they were, {[round(v, 3) for v in right.tolist()]}; yours are "
            f"{[round(v, 3) for v in value.tolist()]}."
        )
        return
    gradient = None
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(value.sum(), members, allow_unused=True)
    if gradient is None or not gradient.any():
        yield (
            "The values are right and the gradient is still zero: the member itself is detached (or rebuilt from "
            "numbers). A term whose gradient is "
            "zero costs time and does nothing, and its value in the trace looks as it should. Detach at most the consensus."
        )
        return
    inwards = (gradient * apart).sum((1, 2, 3, 4))
    if (inwards <= 0).all():
        yield "The gradient reaches the consensus only, and pushes it: each member would be driven *away*. Detach the other one, or none."
    if (inwards <= 0).any():
        yield "Some member gets no gradient towards the consensus; treat all members alike."


# -- one damped step -----------------------------------------------------------------------------------------------------


def _systems() -> Iterator[tuple[Tensor, Tensor, float]]:
    """J, r and a damping: as many differences as unknowns, more, and fewer."""
    draw = torch.Generator().manual_seed(12)
    for rows, columns, damping in ((3, 3, 0.5), (5, 2, 0.3), (2, 4, 0.1)):
        yield (
            torch.randn(rows, columns, generator=draw, dtype=torch.float64),
            torch.randn(rows, generator=draw, dtype=torch.float64),
            damping,
        )


def _stepped(J: Tensor, r: Tensor, added: Tensor | float) -> Tensor:
    return torch.linalg.lstsq(J.T @ J + added, -J.T @ r, driver="gelsd").solution


# fmt: off
DAMPED_SLIPS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "The sign is wrong: that step makes the differences larger. J s should come near to -r.":
        lambda J, r, d: -_stepped(J, r, d * torch.eye(J.shape[1], dtype=J.dtype)),
    "You forgot the damping: where J hardly moves in some direction that step is as long as you like.":
        lambda J, r, d: _stepped(J, r, 0.0),
    "You forgot the damping, and the sign is wrong.":
        lambda J, r, d: -_stepped(J, r, 0.0),
    "You damped by the square of the damping; the equation has it as it is.":
        lambda J, r, d: _stepped(J, r, d**2 * torch.eye(J.shape[1], dtype=J.dtype)),
    "You took the damping away from J^T J: that makes a weak direction weaker, and may turn it round. Add it.":
        lambda J, r, d: _stepped(J, r, -d * torch.eye(J.shape[1], dtype=J.dtype)),
    "You added the damping to every number of J^T J, and it belongs on the diagonal alone: damping times the identity.":
        lambda J, r, d: _stepped(J, r, d),
    "You damped each unknown by its own part of the diagonal of J^T J. That is Marquardt's rule; here all are damped alike.":
        lambda J, r, d: _stepped(J, r, d * torch.diag((J.T @ J).diagonal())),
    "You damped in units of the mean of the diagonal, as `GaussNewton` does. Here the damping is the number itself.":
        lambda J, r, d: _stepped(J, r, d * (J.T @ J).diagonal().mean() * torch.eye(J.shape[1], dtype=J.dtype)),
    "That is the gradient alone, -J^T r, a step of plain descent: it knows nothing of the curvature.":
        lambda J, r, d: -J.T @ r,
    "That is the gradient over the damping: J^T J is missing.":
        lambda J, r, d: -J.T @ r / d,
}
SQUARE_SLIPS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {  # these have a shape only where J is square
    "You have J J^T in place of J^T J: that one is for each pair of differences, and the unknowns are what you solve for.":
        lambda J, r, d: torch.linalg.solve(J @ J.T + d * torch.eye(len(J), dtype=J.dtype), -J.T @ r),
    "You have J in place of J^T J: it is J^T J that is symmetric, and that the damping keeps from being singular.":
        lambda J, r, d: torch.linalg.solve(J + d * torch.eye(len(J), dtype=J.dtype), -r),
    "You have J r on the right; the gradient of half the sum of squares is J^T r.":
        lambda J, r, d: torch.linalg.solve(J.T @ J + d * torch.eye(len(J), dtype=J.dtype), -J @ r),
}
# fmt: on


@a_function
def damped(answer: Callable[..., Any]) -> Iterator[str]:
    for J, r, d in _systems():
        rows, columns = J.shape
        try:
            value = answers.tensor(answer(J.clone(), r.clone(), d))
        except RuntimeError as error:
            yield (
                f"Your code stopped where J has {rows} rows and {columns} columns: {str(error).splitlines()[0]} "
                f"J^T J has {columns} rows, as many as there are unknowns, and with the damping on its diagonal it is never singular."
            )
            return
        if value is None:
            yield OPEN
            return
        if not isinstance(value, Tensor):
            yield f"Give a tensor, the step; this is a {type(value).__name__}."
            return
        if value.shape != (columns,):
            yield (
                f"J has {rows} rows, the differences, and {columns} columns, the unknowns: a step has {columns} numbers, "
                f"and yours the shape {tuple(value.shape)}."
            )
            return
        right = _stepped(J, r, d * torch.eye(columns, dtype=J.dtype))
        if torch.allclose(value.to(right), right, rtol=1e-4, atol=1e-6):
            continue
        slips = DAMPED_SLIPS | (SQUARE_SLIPS if rows == columns else {})
        for why, slip in slips.items():
            if torch.allclose(value.to(right), slip(J, r, d), rtol=1e-4, atol=1e-6):
                yield why
                return
        yield (
            f"For J of {rows} rows and {columns} columns the step begins with {right[0]:.4f}, and yours with {value[0]:.4f}. Put yours "
            f"into the equation: what is left over?"
        )
        return


CHECKS = {
    "07.joints": joints,
    "07.stages": stages,
    "07.counts": counts,
    "07.registration": registration,
    "07.damped": damped,
    "07.credit": credit,
}
DEEPER = {"labels": ("07.counts",), "algebra_first": ("07.damped",)}
