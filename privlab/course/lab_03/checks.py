"""Lab 03: a hook that comes off, what a probe does better than a guess, what training taught, and an F1 for every value."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.attribute_inference import Score
from privlab.notebook.kit import OPEN, Check, function

# -- a hook that comes off -------------------------------------------------------------------------------------------------


def entering(answer: Any) -> Iterator[str]:
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    model, x = _small(), torch.linspace(-1, 2, 20).reshape(5, 4)
    with torch.no_grad():
        due, out = model[:2](x), model(x)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    value = answer(model, "head", x.clone())
    if value is None:
        yield OPEN
        return
    if not isinstance(value, Tensor):
        yield f"Give a tensor; this is a {type(value).__name__}. A pre-hook is given a tuple of inputs: give back what is in it."
        return
    if _same(value, out):
        yield "That is what leaves the layer. Asked for is what enters it: register_forward_pre_hook."
    if _hooks(model):
        yield "Your hook is still there after the call: it is called at every pass from now on. Call remove() on the handle."
    if value.requires_grad:
        yield "What you give back carries a graph, and the graph holds on to every layer before it: run the pass under torch.no_grad()."
    if not _same(value, due):
        yield f"For the head the shape should be {tuple(due.shape)}, beginning with {due[0, 0]:.4f}; that is not what you give back."
    if model.training or not all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items()):
        yield "The model was in eval mode and is no longer as it was. Leave its mode alone."
    if not _same(answer(model, "body", x.clone()), x):
        yield "For the layer 'body' it should be x itself. Do you look at the argument `layer`?"
    if not _same(answer(model, "head", x[:2].clone()), due[:2]):
        yield "A second call gives back what the first one saw, too. Keep nothing between calls."
    with contextlib.suppress(RuntimeError):
        answer(model, "head", torch.zeros(2, 3))
    if _hooks(model):
        yield "Where the pass fails your hook stays. Put remove() into a `finally`."


def _small() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body, norm, head = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.BatchNorm1d(3), nn.Linear(3, 2)
    norm.get_buffer("running_mean").add_(1)  # so that the head sees something else than the body gives
    return nn.Sequential(OrderedDict(body=body, norm=norm, head=head)).eval()


def _hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def _same(value: Any, due: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == due.shape and torch.allclose(value.detach().to(due), due)


# -- better than guessing --------------------------------------------------------------------------------------------------


def _accuracy(predicted: Tensor | int, truth: Tensor) -> float:
    return (truth == predicted).double().mean().item()


def _commonest(values: Tensor) -> int:
    return int(values.bincount().argmax())


def _skill(predicted: Tensor, truth: Tensor, of: Tensor) -> float:
    """of: those whose commonest value the guess says."""
    return Score(_accuracy(predicted, truth), 0.0, _accuracy(_commonest(of), truth), 0.0).skill


SAID = [  # by the probe; what is true; the auxiliary set
    ([0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0]),
    ([1, 1, 0, 1, 2], [1, 1, 1, 0, 2], [0, 0, 1, 2, 0]),  # others are common there
    ([2, 2, 1, 2], [0, 2, 1, 1], [1, 1, 2, 0]),
    ([1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1]),  # worse than the guess
]
skill = function(
    _skill,
    [tuple(map(torch.tensor, case)) for case in SAID],
    {
        "Your majority guess looks at the truth. The attacker knows what is common in their auxiliary set; take it from there.":
            lambda s, t, x: _skill(s, t, of=t),
        "Your majority guess says what the probe says most. Take the commonest value of the auxiliary set.":
            lambda s, t, x: _skill(s, t, of=s),
        "That is the accuracy.": lambda s, t, x: _accuracy(s, t),
        "That is accuracy less the majority guess's. Divide by how much there is to win, 1 - m.":
            lambda s, t, x: _accuracy(s, t) - _accuracy(_commonest(x), t),
        "A probe that is worse than the guess has a negative skill; do not cut it off at 0.":
            lambda s, t, x: max(0.0, _skill(s, t, x)),
    },
    "Which value does the guess say, and how often is it right?",
    rel=1e-4,
)  # fmt: skip

# -- an F1 for every value -------------------------------------------------------------------------------------------------


CHECKS: dict[str, Check] = {
    "03.skill": skill,
    "03.entering": entering,
}
