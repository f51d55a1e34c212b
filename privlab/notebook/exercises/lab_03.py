"""Checks of lab 03: an F1 for every value, what a probe does better than a guess, a hook that comes off, and what training taught."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.lab_01 import OPEN, compare
from privlab.notebook.exercises.reports import clinic

# -- macro-F1 --------------------------------------------------------------------------------------------------------------


def _f1s(predicted: Tensor, truth: Tensor, values: int) -> list[tuple[int, int, int]]:
    """(TP, times said, times true) of each value."""
    return [
        (int(((predicted == v) & (truth == v)).sum()), int((predicted == v).sum()), int((truth == v).sum()))
        for v in range(values)
    ]


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _share(one: float, other: float) -> float:
    return one / other if other else 0.0


def macro(predicted: Tensor, truth: Tensor, values: int) -> float:
    return _mean([_share(2 * tp, n + m) for tp, n, m in _f1s(predicted, truth, values)])


def _weighted(predicted: Tensor, truth: Tensor, values: int) -> float:
    return sum(_share(2 * tp, n + m) * m for tp, n, m in _f1s(predicted, truth, values)) / len(truth)


def _of_means(predicted: Tensor, truth: Tensor, values: int) -> float:
    counts = _f1s(predicted, truth, values)
    precision, recall = _mean([_share(tp, n) for tp, n, _ in counts]), _mean([_share(tp, m) for tp, _, m in counts])
    return _share(2 * precision * recall, precision + recall)


MACRO_CASES = [
    (torch.tensor([0, 0, 1, 2, 2, 1, 0]), torch.tensor([0, 1, 1, 2, 0, 1, 0]), 3),
    (torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 0, 1, 1]), 2),
    (torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 1, 0]), 3),  # one value is never said, one never there
]
MACRO_SLIPS: dict[str, Callable[[Tensor, Tensor, int], float]] = {
    "That is the accuracy (the F1 of all values taken together is the same): a rare value counts little in it.":
        lambda s, t, v: (s == t).double().mean().item(),
    "You weighed each F1 by how often its value is true. Here all values count alike.":
        _weighted,
    "You took the F1 of mean precision and mean recall; take the mean of the F1s.":
        _of_means,
    "That is the mean recall: it forgives every false alarm.":
        lambda s, t, v: _mean([_share(tp, m) for tp, _, m in _f1s(s, t, v)]),
    "That is the mean precision: it forgives every one that was missed.":
        lambda s, t, v: _mean([_share(tp, n) for tp, n, _ in _f1s(s, t, v)]),
    "2 TP stands above the line, you have TP.":
        lambda s, t, v: _mean([_share(tp, n + m) for tp, n, m in _f1s(s, t, v)]),
    "Below the line you count the hits once; it is 2 TP + FP + FN.":
        lambda s, t, v: _mean([_share(2 * tp, n + m - tp) for tp, n, m in _f1s(s, t, v)]),
    "A value that is never said and never true has F1 0 here, not 1.":
        lambda s, t, v: _mean([2 * tp / (n + m) if n + m else 1.0 for tp, n, m in _f1s(s, t, v)]),
    "You left out the values that are never said and never true. They count, with an F1 of 0.":
        lambda s, t, v: _mean([2 * tp / (n + m) for tp, n, m in _f1s(s, t, v) if n + m]),
    "You left out the values that are never said. They count: an F1 of 0 is what says that a probe ignores them.":
        lambda s, t, v: _mean([2 * tp / (n + m) for tp, n, m in _f1s(s, t, v) if n]),
    "You have added the F1s up; divide by the number of values.":
        lambda s, t, v: sum(_share(2 * tp, n + m) for tp, n, m in _f1s(s, t, v)),
}  # fmt: skip


def macro_f1(answer: object) -> Iterator[str]:
    yield from compare(answer, MACRO_CASES, macro, MACRO_SLIPS, "Work it out by hand, value by value.")


# -- skill -----------------------------------------------------------------------------------------------------------------


def _rates(predicted: Tensor, truth: Tensor, guess: Tensor | int) -> tuple[float, float]:
    return (predicted == truth).double().mean().item(), (truth == guess).double().mean().item()


def _commonest(values: Tensor) -> int:
    return int(values.bincount().argmax())


def _skill(a: float, m: float) -> float:
    return (a - m) / (1 - m)


SKILL_CASES = [
    (torch.tensor([0, 0, 1, 1, 0, 0]), torch.tensor([0, 0, 1, 0, 0, 1]), torch.tensor([0, 0, 0, 1, 0])),
    (
        torch.tensor([1, 1, 0, 1, 2]),
        torch.tensor([1, 1, 1, 0, 2]),
        torch.tensor([0, 0, 1, 2, 0]),
    ),  # others are common there
    (torch.tensor([2, 2, 1, 2]), torch.tensor([0, 2, 1, 1]), torch.tensor([1, 1, 2, 0])),
    (torch.tensor([1, 0, 0, 1]), torch.tensor([0, 1, 0, 0]), torch.tensor([0, 0, 1])),  # worse than the guess
]
SKILL_SLIPS: dict[str, Callable[[Tensor, Tensor, Tensor], float]] = {
    "Your majority guess looks at the truth. The attacker knows what is common in their auxiliary set; take it from there.":
        lambda s, t, x: _skill(*_rates(s, t, _commonest(t))),
    "Your majority guess says what the probe says most. Take the commonest value of the auxiliary set.":
        lambda s, t, x: _skill(*_rates(s, t, _commonest(s))),
    "You took the share of the commonest value in the auxiliary set; the guess, too, is judged on `truth`.":
        lambda s, t, x: _skill((s == t).double().mean().item(), x.bincount().max().item() / len(x)),
    "That is the accuracy.":
        lambda s, t, x: _rates(s, t, 0)[0],
    "That is accuracy less the majority guess's. Divide by how much there is to win, 1 - m.":
        lambda s, t, x: float(_rates(s, t, _commonest(x))[0] - _rates(s, t, _commonest(x))[1]),
    "You divide by m; what there is to win is 1 - m.":
        lambda s, t, x: _share(_rates(s, t, _commonest(x))[0] - _rates(s, t, _commonest(x))[1], _rates(s, t, _commonest(x))[1]),
    "That is one guess in as many as there are values. The majority guess does better than blind chance.":
        lambda s, t, x: _skill(_rates(s, t, 0)[0], 1 / (int(x.max()) + 1)),
    "A probe that is worse than the guess has a negative skill; do not cut it off at 0.":
        lambda s, t, x: max(0.0, _skill(*_rates(s, t, _commonest(x)))),
}  # fmt: skip


def skill(answer: object) -> Iterator[str]:
    def right(predicted: Tensor, truth: Tensor, auxiliary: Tensor) -> float:
        return _skill(*_rates(predicted, truth, _commonest(auxiliary)))

    yield from compare(
        answer, SKILL_CASES, right, SKILL_SLIPS, "Which value does the guess say, and how often is it right?"
    )


# -- a hook that comes off -------------------------------------------------------------------------------------------------


def _small() -> nn.Sequential:
    """A model whose head sees something else than its body gives, and one layer behaves otherwise in training."""
    body = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    model = nn.Sequential(OrderedDict(body=body, noise=nn.BatchNorm1d(3), head=nn.Linear(3, 2)))
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape) + 0.1 * n)
    return model


def _hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@a_function
def entering(answer: Callable[..., Any]) -> Iterator[str]:
    model = _small().eval()
    x = torch.linspace(-1, 2, 20).reshape(5, 4)
    with torch.no_grad():
        body, due, out = model[:1](x), model[:2](x), model(x)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    value = answer(model, "head", x.clone())
    if value is None:
        yield OPEN
        return
    if isinstance(value, (tuple, list)) and len(value) == 1:
        yield "A pre-hook is given a tuple of inputs; give back the tensor in it."
        return
    if not isinstance(value, Tensor):
        yield f"Give a tensor; this is a {type(value).__name__}."
        return
    if value.is_floating_point() and not value.requires_grad:
        value = value.to(due)
    if value.shape == out.shape and torch.allclose(value, out):
        yield "That is what leaves the layer. Asked for is what enters it: register_forward_pre_hook."
        return
    if value.shape == body.shape and torch.allclose(value, body):
        yield "That is what leaves `body`; between it and the head there is one more layer."
        return
    if _hooks(model):
        yield "Your hook is still there after the call: it is called at every pass from now on. Call remove() on the handle."
        return
    if value.requires_grad:
        yield "What you give back carries a graph, and the graph holds on to every layer before it: run the pass under torch.no_grad()."
        return
    if value.shape != due.shape or not torch.allclose(value, due):
        yield (
            f"For the head the shape should be {tuple(due.shape)}, beginning with {due[0, 0]:.4f}; yours is {tuple(value.shape)} and "
            f"begins with {value.flatten()[0]:.4f}."
        )
        return
    if model.training or any(not torch.equal(t, state[n]) for n, t in model.state_dict().items()):
        yield "The model was in eval mode and is no longer as it was. Leave its mode alone."
        return
    first = answer(model, "body", x.clone())
    if not isinstance(first, Tensor) or first.shape != x.shape or not torch.allclose(first.to(x), x):
        yield "For the layer 'body' it should be x itself. Do you look at the argument `layer`?"
        return
    again = answer(model, "head", x[:2].clone())
    if not isinstance(again, Tensor) or again.shape != due[:2].shape:
        yield "A second call gives back what the first one saw, too. Keep nothing between calls."
        return
    with contextlib.suppress(RuntimeError):
        answer(model, "head", torch.zeros(2, 3))
    if _hooks(model):
        yield "Where the pass fails your hook stays. Put remove() into a `finally`."


CHECKS = {"03.macro_f1": macro_f1, "03.skill": skill, "03.entering": entering, "03.clinic": clinic}
DEEPER = {"faces_and_glasses": ("03.macro_f1",)}
