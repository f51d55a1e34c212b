"""Lab 03: a hook that comes off, and what training adds to a probe's accuracy; deeper, what a probe does better than a guess."""

import contextlib
import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from privlab.attacks.attribute_inference import probe
from privlab.notebook.kit import function

with torch.random.fork_rng(devices=[]):
    torch.manual_seed(0)
    _body, _norm, _head = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.BatchNorm1d(3), nn.Linear(3, 2)
_norm.get_buffer("running_mean").add_(1)  # so that the head sees something else than the body gives
MODEL = nn.Sequential(OrderedDict(body=_body, norm=_norm, head=_head)).eval()
X = torch.linspace(-1, 2, 20).reshape(5, 4)
_values = function(
    lambda model, layer, x: model[:2](x) if layer == "head" else x,
    [(MODEL, "head", X), (MODEL, "body", X)],
    {
        "That is what leaves the layer. Asked for is what enters it: register_forward_pre_hook.":
            lambda model, layer, x: model(x) if layer == "head" else model[0](x),
        "For the layer 'body' it should be x itself. Do you look at the argument `layer`?":
            lambda model, layer, x: model[:2](x),
    },
    "A pre-hook is given a tuple of inputs: give back what is in it. And leave the model in eval mode.",
)  # fmt: skip


def entering(answer: Callable) -> Iterator[str]:
    yield from _values(answer)
    model = copy.deepcopy(MODEL)
    value = answer(model, "head", X.clone())
    if _hooks(model):
        yield "Your hook is still there after the call: it is called at every pass from now on. Call remove() on the handle."
    if getattr(value, "requires_grad", False):
        yield "What you give back carries a graph, and the graph holds on to every layer before it: run the pass under torch.no_grad()."
    if model.training:
        yield "The model was in eval mode and is no longer as it was. Leave its mode alone."
    with contextlib.suppress(RuntimeError):
        answer(model, "head", torch.zeros(2, 3))
    if _hooks(model):
        yield "Where the pass fails your hook stays. Put remove() into a `finally`."


def _hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def _adds(trained: Tensor, untrained: Tensor, attribute: Tensor, judged: int = 60) -> Tensor:
    said = [probe(x[:60], attribute[:60])(x) == attribute for x in (trained, untrained)]
    one, other = (each[judged:].double().mean() for each in said)
    return one - other


MARK = torch.arange(80) % 5 // 3  # 2 of 5 photographs have it
SEEN, FRESH = torch.randn(2, 80, 3, generator=torch.Generator().manual_seed(0)) + 0.5 * MARK[:, None]

adds = function(
    _adds,
    [(SEEN + MARK[:, None], FRESH, MARK), (FRESH, SEEN, MARK)],
    {
        "The sign is turned: it is the trained network less the untrained one.":
            lambda trained, untrained, attribute: _adds(untrained, trained, attribute),
        "You judge the probe on the rows that it was fitted on, too. What it has memorised there does not count.":
            lambda trained, untrained, attribute: _adds(trained, untrained, attribute, judged=0),
        "You take off the majority guess. What is to be taken off is what the untrained network gives.":
            lambda trained, untrained, attribute: _adds(trained, torch.zeros_like(untrained), attribute),
    },
    "Fit a probe for each network on the first three quarters of the rows, and judge it on the others.",
)  # fmt: skip


def _skill(said: Tensor, truth: Tensor, of: Tensor) -> Tensor:
    """of: those whose commonest value the guess says."""
    accuracy, guess = ((truth == x).double().mean() for x in (said, of.mode().values))
    return (accuracy - guess) / (1 - guess)


SAID = [  # by the probe; what is true; the auxiliary set
    ([0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0]),
    ([1, 1, 0, 1, 2], [1, 1, 1, 0, 2], [0, 0, 1, 2, 0]),  # others are common there
    ([1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1]),  # worse than the guess
]
skill = function(
    _skill,
    [tuple(map(torch.tensor, case)) for case in SAID],
    {
        "Your majority guess looks at the truth. The attacker knows what is common in their auxiliary set; take it from there.":
            lambda said, truth, auxiliary: _skill(said, truth, of=truth),
        "That is accuracy less the majority guess's. Divide by how much there is to win, 1 - m.":
            lambda said, truth, auxiliary: ((said == truth).double() - (auxiliary.mode().values == truth).double()).mean(),
    },
    "Which value does the guess say, and how often is it right?",
)  # fmt: skip
