"""The searches of Lu et al. 2022, Table 1, and ours beside them, on a repeat of lab 06; and what its experiments yield of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form, label_recovery, objectives, presets
from privlab.attacks.gradient_inversion.results import Result
from privlab.attacks.gradient_inversion.search import GradientMatching
from privlab.course.lab_06 import sense_of_place
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Values
from privlab.experiments.trial import Trial
from privlab.experiments.victims.april import OWN_DRAW, victim
from privlab.leak import Leak

FOUR = ("april", "dlg", "ig", "tag")
SCORES = "psnr ssim mse"  # mse in the unit that fits the printed SSIM of Table 1
SNAPSHOTS = 30  # of a search, so that 1,500 steps are seen every 50
BALANCED = {  # April with alpha by rule -> what it compares gradients by
    "april": objectives.squared_distance,
    "april_by_the_bias": objectives.squared_distance,
    "april_tag": objectives.tag(),
    "april_relative": objectives.relative_distance,
}


def word(std: float) -> str:
    """A standard deviation as part of a name: std_0p02."""
    return f"std_{std:g}".replace(".", "p")


def another_embedding(model: Any, trial: Trial) -> Any:
    """What a server has that was never told the embedding: the same victim with a draw of its own."""
    other, draw = copy.deepcopy(model), torch.Generator().manual_seed(trial.number + 2 * OWN_DRAW)
    other.pos_embed.data = torch.randn(other.pos_embed.shape, generator=draw).to(other.pos_embed)
    return other


def attack(by: str, steps: int, model: nn.Module, leak: Leak, seed: int) -> GradientMatching:
    """A search by its name: one of Table 1, "april" with alpha by rule, "april_alpha_1", or ours.

    Ours are "annealed", April with labels by the last layer's bias, "april_by_the_bias", and April's or DLG's with another distance:
    "april_tag", "relative", "april_relative".
    """
    if by in BALANCED:
        return presets.april_balanced(steps, model, leak, seed, BALANCED[by])
    if by == "relative":
        return presets.april(steps, distance=objectives.relative_distance).without("position")
    if by.startswith("annealed"):
        chosen = replace(presets.annealed(steps), labels=presets.one_or_many)
        return chosen.without("smoothness") if by == "annealed_bare" else chosen
    return presets.lu2022(steps)["april" if by == "april_alpha_1" else by]


def invert(by: str, trial: Trial, model: nn.Module, steps: int, hide: Sequence[str] = (), server: Any = None) -> Result:
    """One search that is told no label.  hide: gradients that are withheld.  server: the model that it has, if not the client's."""
    received, seed = replace(trial.leak(model).without(hide), labels=None), trial.number + OWN_DRAW
    server = server or model
    if by == "april_by_the_bias":
        received = replace(received, labels=label_recovery.bias_counts(server, received))
    search = attack(by, steps, server, received, seed)
    return trial.search(search, server, received, seed, snapshots=min(SNAPSHOTS, steps))


def final(result: Result) -> Tensor:
    """The images that a search ends with, as in the paper.

    Not those of its lowest score, which float32 no longer tells apart near the end: with APRIL's alpha by rule the rounding of the cosine
    is as large as the distance that is left.
    """
    return result.snapshots[-1].images


def fall(result: Result) -> float:
    """How far the squared distance of the gradients fell from the start to its least, in powers of ten."""
    least = min(step["gradients"] for step in result.trace)
    return math.log10(result.trace[0]["gradients"] / max(least, 1e-9))


def four_attacks(trial: Trial, steps: int, stds: Sequence[float], shape: Mapping[str, Any]) -> Values:
    """The four attacks, and APRIL once more with alpha = 1, at each scale of the position embedding; scale 1 bears no key of its own."""
    yield from trial.guesses(f"{trial.name}, ", SCORES)
    rows, ways = [trial.images], {}
    for std in stds:
        model = victim(trial, **shape, position_std=std)
        for by in (*FOUR, "april_alpha_1"):
            result = invert(by, trial, model, steps)
            at = "" if std == 1 else f", {word(std)}"
            yield from trial.scores(f"{trial.name}, {by}{at}", final(result), SCORES)
            if std == 1:
                rows.append(final(result))
                ways[by] = [(s.step, metrics.psnr(s.images, trial.images).item()) for s in result.snapshots]
            if std == 1 and by == "april":
                yield "log10_grad_loss_drop[position_shared]", fall(result)
    yield from how_soon({by: ways[by] for by in ("april", "dlg", "tag")}, steps)
    yield "picture[photograph_april_dlg_ig_tag]", tiled([rows[:5]])


def how_soon(ways: Mapping[str, Sequence[tuple[int, float]]], steps: int) -> Values:
    """Figure 3: steps until the PSNR with which the worst of three ends, and where each stands after a tenth, two tenths, ..."""
    bar = min(way[-1][1] for way in ways.values())
    for by, way in ways.items():
        yield f"steps_to_threshold[{by}]", next(step for step, dB in way if dB >= bar)
        for tenth in range(11):
            near = min(way, key=lambda shot: abs(shot[0] - tenth * steps / 10))
            yield f"psnr[{by}, tenth_{tenth}]", near[1]


def in_order(result: Result, wanted: Tensor) -> Tensor:
    """The images found, (batch, 3, height, width), in the order of the labels; where one was not read, the image at its place."""
    read = result.labels.tolist()
    return final(result)[[read.index(y) if y in read else k for k, y in enumerate(wanted.tolist())]]


def without_a_search(trial: Trial, std: float, model: Any) -> Values:
    """What the gradients themselves say at one scale."""
    leak, seed = trial.leak(model), trial.number + OWN_DRAW
    solved = closed_form.patch_embedding(model, leak)
    yield from trial.scores(f"patch_embedding, {word(std)}", solved.images)
    yield f"log10_condition[fresh, {word(std)}]", math.log10(solved.condition)
    yield f"row_cosine[position_gradient, {word(std)}]", sense_of_place.rows_alike(leak)
    sense, far = sense_of_place.measured(model, trial.images, trial.labels, seed)
    yield f"log10_sense_of_place[{word(std)}]", math.log10(sense)
    yield f"log10_distance_of_noise[{word(std)}]", math.log10(far)
    if std == 1:
        yield "slope_share[position, alpha_1]", sense_of_place.gradient_share(model, leak, seed)
