"""What several experiments of lab 06 yield of their searches, and of gradients without one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.gradient_inversion.results import Result
from privlab.course.lab_06 import sense_of_place
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Values
from privlab.experiments.victims.april import BEGIN, final, guesses, invert, observed, photographs, scores, word

FOUR = ("april", "dlg", "ig", "tag")


def fall(result: Result) -> float:
    """How far the squared distance of the gradients fell from the start to its least, in powers of ten."""
    least = min(step["gradients"] for step in result.trace)
    return math.log10(result.trace[0]["gradients"] / max(least, 1e-9))


def four_attacks(
    repeat: int, data: str, steps: int, stds: Sequence[float], shape: Mapping[str, Any], device: str
) -> Values:
    """The four attacks, and APRIL once more with alpha = 1, at each scale of the position embedding; scale 1 bears no key of its own."""
    truth, _ = photographs(data).one(repeat)
    yield from guesses(data, truth)
    rows, ways = [truth], {}
    for std in stds:
        for attack in (*FOUR, "april_alpha_1"):
            victim = {**shape, "position_std": std}
            result = invert(attack, repeat, steps, name=data, device=device, victim=victim)
            yield from scores(final(result), truth, data, data, attack, *([] if std == 1 else [word(std)]))
            if std == 1:
                rows.append(final(result))
                ways[attack] = [(s.step, metrics.psnr(s.images, truth).item()) for s in result.snapshots]
            if std == 1 and attack == "april":
                yield "log10_grad_loss_drop[position_shared]", fall(result)
    yield from how_soon({name: ways[name] for name in ("april", "dlg", "tag")}, steps)
    yield "picture[photograph_april_dlg_ig_tag]", tiled([rows[:5]])


def how_soon(ways: Mapping[str, Sequence[tuple[int, float]]], steps: int) -> Values:
    """Figure 3: steps until the PSNR with which the worst of three ends, and where each stands after a tenth, two tenths, ..."""
    bar = min(way[-1][1] for way in ways.values())
    for name, way in ways.items():
        yield f"steps_to_threshold[{name}]", next(step for step, dB in way if dB >= bar)
        for tenth in range(11):
            near = min(way, key=lambda shot: abs(shot[0] - tenth * steps / 10))
            yield f"psnr[{name}, tenth_{tenth}]", near[1]


def in_order(result: Result, wanted: Tensor) -> Tensor:
    """The images found, (batch, 3, height, width), in the order of the labels; where one was not read, the image at its place."""
    read = result.labels.tolist()
    return final(result)[[read.index(y) if y in read else k for k, y in enumerate(wanted.tolist())]]


def without_a_search(repeat: int, std: float, victim: dict[str, Any], device: str) -> Values:
    """What the gradients themselves say at one scale."""
    truth, label = photographs("cifar10").one(repeat)
    model, leak = observed(repeat, victim=victim, device=device)
    solved = closed_form.patch_embedding(model, leak)
    yield f"psnr[patch_embedding, {word(std)}]", metrics.psnr(solved.images.cpu(), truth)
    yield f"log10_condition[fresh, {word(std)}]", math.log10(solved.condition)
    yield f"row_cosine[position_gradient, {word(std)}]", sense_of_place.rows_alike(leak)
    sense, far = sense_of_place.measured(model, truth, label, seed=repeat + BEGIN)
    yield f"log10_sense_of_place[{word(std)}]", math.log10(sense)
    yield f"log10_distance_of_noise[{word(std)}]", math.log10(far)
    if std == 1:
        yield "slope_share[position, alpha_1]", sense_of_place.gradient_share(model, leak, seed=repeat + BEGIN)
