"""Checks of lab 12: two defences, what one costs, which to look at, two claims, a loss' margin, a penalty on what the features hold."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from privlab import models
from privlab.attacks.model_inversion import losses
from privlab.defences.regularisers import divergence
from privlab.metrics import tradeoff
from privlab.models import skip_connections
from privlab.notebook.kit import function, in_turn, keeps

# fmt: off
FACE = torch.arange(32 * 32).square().mul(0.37).sin().view(1, 1, 32, 32)
_small: dict[str, Any] = dict(seed=0, num_classes=3, in_chans=1)
RESNET = models.build("resnet18", channels=(4, 4, 8, 8), layers=(1, 1, 1, 1), zero_init_last=False, **_small).eval()
DENSENET = models.build("densenet121", growth_rate=4, block_config=(2, 2, 2), **_small).eval()


def _cut(model: nn.Module, which: Callable = lambda stages: stages[-1:]) -> nn.Module:
    for stage in which(skip_connections.stages(model)):
        skip_connections.cut(model, stage)
    return model


rolss = function(
    _cut,
    [(RESNET,), (DENSENET,)],
    {
        "You cut all stages. RoLSS keeps the skips of those before the last.": partial(_cut, which=list),
        "You cut the last stage but one. `stages` counts from 1, so its last entry is the last stage itself.":
            partial(_cut, which=lambda stages: stages[-2:-1]),
        "Stage 4 is the last of this ResNet. A network with three stages has another: ask `stages`.":
            partial(_cut, which=lambda stages: [4]),
    },
    "Print stages(model) before and after: only the last one should be missing. Then return the model.",
    then=lambda model: model(FACE),
)


def train(diary: list[int], epochs: int) -> None:
    diary.append(epochs)


def cut(diary: list[int]) -> list[int]:
    diary.append(0)
    return diary


# In place of a network there is a diary of what happens to it: the epochs of each training, and 0 for the cut
tts = function(
    lambda model, train, cut, full, epochs: [full, 0, epochs - full],
    [([], train, cut, 2, 30), ([], train, cut, 5, 100)],
    {
        "You cut before the first training, so no stage has all skips. That is RoLSS in two calls.":
            lambda model, train, cut, full, epochs: [0, full, epochs - full],
        "The two stages together take as long as the original training, M + N epochs. Yours takes M more.":
            lambda model, train, cut, full, epochs: [full, 0, epochs],
        "You cut after all training. The network has to learn without the skips, too: the cut stands between the two calls.":
            lambda model, train, cut, full, epochs: [full, epochs - full, 0],
        "Nothing is cut, so the network keeps its skips.":
            lambda model, train, cut, full, epochs: [full, epochs - full],
    },
    "Train, cut, train on, and return the model: three calls, which change the model in place.",
)

Pair = tuple[float, float]  # task accuracy, attack accuracy


def _price(before: Pair, after: Pair) -> float:
    task, attack = before[0] - after[0], before[1] - after[1]
    return attack / task if task else math.nan


delta = function(
    _price,
    [  # at last the task gains, the attacker loses nothing, and the task loses nothing
        ((97.5, 71.25), (91.0, 40.5)), ((88.5, 64.25), (79.75, 62.0)), ((96.25, 70.5), (95.5, 73.75)),
        ((90.5, 60.0), (92.0, 49.2)), ((93.0, 55.5), (88.5, 55.5)), ((94.5, 61.0), (94.5, 33.2)),
    ],
    {
        "That is the task's loss over the attacker's: your fraction is upside down, or you read the pairs the other way round.":
            lambda before, after: (before[0] - after[0]) / (before[1] - after[1]),
        "Where the task loses nothing yours is infinite. But no price was paid, so there is none to state.":
            lambda before, after: _price(before, after) if before[0] != after[0] else math.inf,
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
        "You take a high attack accuracy for a good one. It is the attacker's: the less, the better.":
            _unbeaten(lambda one, other: one[0] >= other[0] and one[1] >= other[1] and one != other),
        "Some that you keep are beaten by one that is level with them in one number and better in the other. You ask for better in both.":
            _unbeaten(lambda one, other: one[0] > other[0] and one[1] < other[1]),
        "Of two that are equal neither beats the other, and yours throws both out.":
            _unbeaten(lambda one, other: one[0] >= other[0] and one[1] <= other[1]),
    },
    "Another beats it if it is at least as good in both numbers, and better in one.",
)

_against = function(
    lambda z, t: losses.max_margin(z[None], torch.tensor([t])),
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

kl = function(
    divergence,
    [(torch.tensor([0.5, -1.25, 2.0]), torch.tensor([0.75, 1.5, 0.25]))],  # mu and sigma
    {
        "You took the mean over the numbers of z. Each of them can tell something of the image, and what they tell adds up.":
            lambda mu, sigma: divergence(mu, sigma) / len(mu),
        "You took sigma for the logarithm of a variance, as many a VAE has it. Here it is the standard deviation itself.":
            lambda mu, sigma: divergence(mu, (sigma / 2).exp()),
    },
    "Try one number of z: at mu = 0 and sigma = 1 nothing tells the two apart, and the penalty should be 0.",
)
