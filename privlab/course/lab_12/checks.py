"""Checks of lab 12: two defences, what one costs, which to look at, two claims, a loss' margin, a penalty on what the features hold."""

import copy
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from privlab import models
from privlab.attacks.model_inversion import losses
from privlab.defences.regularisers import divergence
from privlab.metrics import tradeoff
from privlab.models import skip_connections
from privlab.notebook.kit import a_function, function, in_turn, keeps

# fmt: off
RESNET, DENSENET = "a ResNet with four stages", "a DenseNet with three"
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    RESNET: ("resnet18", dict(channels=(4, 4, 8, 8), layers=(1, 1, 1, 1), zero_init_last=False)),
    DENSENET: ("densenet121", dict(growth_rate=4, block_config=(2, 2, 2))),
}
FACE = torch.arange(32 * 32).square().mul(0.37).sin().view(1, 1, 32, 32)


@cache
def _body(name: str) -> nn.Module:
    kind, changes = BODIES[name]
    return models.build(kind, seed=0, num_classes=3, in_chans=1, **changes).eval()


def _logits(cut: Callable[..., Any]) -> Callable[[str], Any]:
    """What a network says of a face once a reader's function has cut it; nothing where that gives nothing."""

    def of(name: str) -> Any:
        with torch.no_grad():
            model = cut(copy.deepcopy(_body(name)))
            return None if model is None else model(FACE)

    return of


def _cut(model: nn.Module, which: Callable[[list[int]], list[int]] = lambda stages: stages[-1:], k: float = 0.0) -> nn.Module:
    for stage in which(skip_connections.stages(model)):
        skip_connections.cut(model, stage, k)
    return model


_rolss = function(
    _logits(_cut),
    [(name,) for name in BODIES],
    {
        "The network is as it was: no skip is gone.": _logits(lambda model: model),
        "You cut the first stage. The paper cuts the last, which an attack's gradient passes first.":
            _logits(partial(_cut, which=lambda stages: stages[:1])),
        "You cut all stages. RoLSS keeps the skips of those before the last.": _logits(partial(_cut, which=list)),
        "You cut the last stage but one. `stages` counts from 1, so its last entry is the last stage itself.":
            _logits(partial(_cut, which=lambda stages: stages[-2:-1])),
        "You scale the skips, and something of them is left. That is SSF; RoLSS removes them.": _logits(partial(_cut, k=0.2)),
        "Stage 4 is the last of this ResNet. A network with three stages has another: ask `stages`.":
            _logits(partial(_cut, which=lambda stages: [4])),
    },
    "Print stages(model) before and after: only the last one should be missing. Then return the model.",
)


rolss = in_turn(a_function, lambda answer: _rolss(_logits(answer)))


def _course(two_stages: Callable[..., Any]) -> Callable[[int, int], Any]:
    """What happened to a network, of which only a diary is kept: the epochs of each training, 0 for the cut; six entries.

    A fresh copy of the network has an empty diary.
    """

    def of(full: int, epochs: int) -> Any:
        def train(model: list[float], epochs: int) -> None:
            model.append(epochs)

        def cut(model: list[float]) -> list[float]:
            model.append(0)
            return model

        diary = two_stages([], train, cut, full, epochs)
        return None if diary is None else torch.tensor([float(entry) for entry in [*diary, *[-1] * 6]][:6])

    return of


def _in_two_stages(model: Any, train: Any, cut: Any, full: int, epochs: int) -> Any:
    train(model, full)
    cut(model)
    train(model, epochs - full)
    return model


def _diary(*entries: Callable[[int, int], int]) -> Callable[[int, int], Tensor]:
    """The diary of somebody's answer: what each entry is, of M epochs with all skips and M + N in all."""
    return _course(lambda model, train, cut, full, epochs: [entry(full, epochs) for entry in entries])


_tts = function(
    _course(_in_two_stages),
    [(2, 30), (5, 100)],
    {
        "You cut before the first training, so no stage has all skips. That is RoLSS in two calls.":
            _diary(lambda m, n: 0, lambda m, n: m, lambda m, n: n - m),
        "The two stages together take as long as the original training, M + N epochs. Yours takes M more.":
            _diary(lambda m, n: m, lambda m, n: 0, lambda m, n: n),
        "Nothing is cut, so the network keeps its skips.": _diary(lambda m, n: m, lambda m, n: n - m),
        "You cut after all training. The network has to learn without the skips, too: the cut stands between the two calls.":
            _diary(lambda m, n: m, lambda m, n: n - m, lambda m, n: 0),
        "The long stage comes first in yours. The paper trains M = 5 epochs with all skips, and N = 95 without the last.":
            _diary(lambda m, n: n - m, lambda m, n: 0, lambda m, n: m),
        "The second stage is missing: after the cut the network trains on.": _diary(lambda m, n: m, lambda m, n: 0),
    },
    "Train, cut, train on, and return the model: three calls, which change the model in place.",
)


tts = in_turn(a_function, lambda answer: _tts(_course(answer)))

Pair = tuple[float, float]  # task accuracy, attack accuracy


def _price(before: Pair, after: Pair, free: float = math.nan) -> float:
    task, attack = before[0] - after[0], before[1] - after[1]
    return attack / task if task else free


delta = function(
    _price,
    [  # at last the task gains, the attacker loses nothing, and the task loses nothing
        ((97.5, 71.25), (91.0, 40.5)), ((88.5, 64.25), (79.75, 62.0)), ((96.25, 70.5), (95.5, 73.75)),
        ((90.5, 60.0), (92.0, 49.2)), ((93.0, 55.5), (88.5, 55.5)), ((94.5, 61.0), (94.5, 33.2)),
    ],
    {
        "That is the task's loss over the attacker's: your fraction is upside down, or you read the pairs the other way round.":
            lambda before, after: (before[0] - after[0]) / (before[1] - after[1]),
        "Where the task loses nothing yours is infinite. But no price was paid, so there is none to state.": partial(_price, free=math.inf),
    },
    "The losses are before less after, in points. Only where the task is *just as* accurate is there no ratio: give float('nan').",
)

PLANES = [  # in the first c is on the front, above the straight line from b to d; in the second some are level, or equal
    {"f": (88.0, 45.0), "b": (95.0, 60.0), "e": (92.0, 65.0), "d": (90.0, 40.0), "a": (97.0, 72.0), "c": (93.0, 57.0)},
    {"q": (95.0, 55.0), "r": (93.0, 50.0), "s": (90.0, 30.0), "p": (95.0, 50.0), "u": (90.0, 30.0), "t": (88.0, 30.0)},
]


def _unbeaten(beats: Callable[[Pair, Pair], bool]) -> Callable[[dict[str, Pair]], set[str]]:
    """beats: whether one pair beats another."""
    return lambda points: {n for n in points if not any(beats(points[m], points[n]) for m in points.keys() - {n})}


front = function(
    tradeoff.front,
    [(points,) for points in PLANES],
    {
        "Yours is the front of the worst. Both comparisons are turned, or you read a pair the other way: it begins with the task.":
            _unbeaten(lambda one, other: one[0] <= other[0] and one[1] >= other[1] and one != other),
        "You take a high attack accuracy for a good one. It is the attacker's: the less, the better.":
            _unbeaten(lambda one, other: one[0] >= other[0] and one[1] >= other[1] and one != other),
        "Some that you keep are beaten by one that is level with them in one number and better in the other. You ask for better in both.":
            _unbeaten(lambda one, other: one[0] > other[0] and one[1] < other[1]),
        "Of two that are equal neither beats the other, and yours throws both out.":
            _unbeaten(lambda one, other: one[0] >= other[0] and one[1] <= other[1]),
    },
    "Another beats it if it is at least as good in both numbers, and better in one.",
)


def _margin(z: Tensor, t: int) -> Tensor:
    return losses.max_margin(z[None], torch.tensor([t]))


_against = function(
    _margin,
    [(torch.tensor(z), t) for z, t in (
        ([2.5, -1.25, 0.75, 3.75, 1.0], 3), ([-6.5, -5.25, -3.0, -7.25], 1), ([-3.5, -1.25, -2.75, -4.0], 1),
        ([1.5, 0.25, 1.5, -0.75], 2), ([1.25, 3.5, -0.5], 0), ([0.5, 2.0], 1),  # a level rival; the first, and the last
    )],
    {
        "Where the target is the largest, yours stays the same, however far ahead: it is its own rival, or you cut off at 0. This goes on.":
            lambda z, t: z.amax() - z[t],
        "You put a 0 in the target's place. Where all others are below 0, it is the largest: give it a value that no class loses to.":
            lambda z, t: (z * (torch.arange(len(z)) != t)).amax() - z[t],
    },
    "Which class comes nearest to the target, and how far is it off? Leave the target out by its place, not by its value.",
)
margin = in_turn(_against, keeps(torch.tensor([2.5, -1.25, 0.75, 3.75, 1.0]), 3))

GAUSSIANS = [(torch.tensor([0.5, -1.25, 2.0]), torch.tensor([0.75, 1.5, 0.25]))]  # mu and sigma
kl = function(
    divergence,
    GAUSSIANS,
    {
        "You took the mean over the numbers of z. Each of them can tell something of the image, and what they tell adds up.":
            lambda mu, sigma: divergence(mu, sigma) / len(mu),
        "You took sigma for the logarithm of a variance, as many a VAE has it. Here it is the standard deviation itself.":
            lambda mu, sigma: divergence(mu, (sigma / 2).exp()),
        "With mu = 0 and sigma = 1 nothing tells the two apart, and the penalty should be 0; yours is not. A constant is missing.":
            lambda mu, sigma: divergence(mu, sigma) + len(mu) / 2,
    },
    "Try one number of z: what is it at mu = 0 and sigma = 1?",
)
