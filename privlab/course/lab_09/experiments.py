"""Lab 09: at which of the fourteen steps from ResNet-50 to ConvNeXt-T does a gradient begin to give the photograph away, and why there?"""

import itertools
import math
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor, nn

from privlab import data, metrics
from privlab.attacks.gradient_inversion import GaussNewton, adaptive, derivatives, objectives, sensitivity
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.trial import relative_residual, tiled
from privlab.experiments.victims import designs
from privlab.experiments.victims.designs import SCORES, DesignTrial, matching
from privlab.leak import Leak, observe
from privlab.models import morph

ALL = [*morph.STEPS]
CURVED = [1, 4, 8, 9, 10, 12, 14]  # what takes longer is asked of these
AROUND_GELU = [8, 9, 10]
PATIENT = (8, 9, 10)  # searched for longer, where the search is short
QUARTER: Settings = dict(attack="annealed", width=0.25, depths=[1, 1, 1, 1])
SMALL = "a quarter of the channels, one block a stage"
FULL: Settings = dict(attack="inverting_gradients", steps=3_000)
MIDDLE: Settings = dict(attack="inverting_gradients", steps=300)
PAPERS = "the paper's networks and search"
ONE_EACH = "one photograph and one draw of weights each"


def by_tensor(leak: Leak) -> objectives.Objective:
    """The angle between gradients, each tensor divided by the length that the client's has: the smallest counts as much as the largest."""
    lengths = {name: 1 / g.norm().item() for name, g in leak.grads.items()}
    return objectives.weighted(objectives.cosine_distance, lengths)


@experiment("fourteen_steps.steps", on=designs.trial)
@Size("smoke", 1, f"{SMALL}, 2 steps", steps=2, public=1, patience=4, chosen=ALL, **QUARTER)
@Size("class", 8, f"{SMALL}, 60 steps and 400", steps=60, patience=400, chosen=ALL, **QUARTER)
@Size("night", 8, f"{PAPERS}, eleven of the steps, {ONE_EACH}", own=True, patience=3_000,
    chosen=[1, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14], **FULL)  # fmt: skip
@Size("gpu", 8, f"{PAPERS}, {ONE_EACH}", own=True, patience=3_000, chosen=ALL, **FULL)
@Size("paper", 10, PAPERS, own=True, patience=3_000, chosen=ALL, **FULL)
def steps(trial: DesignTrial, patience: int, chosen: list[int]) -> Values:
    """Table 8: one photograph, one start, a draw of weights for each step; steps 8 to 10 by the paper's search, for longer."""
    yield from trial.guesses("cifar10, ", f"{SCORES} lpips")
    moments = {round(trial.steps * share) for share in (0, 1 / 60, 1 / 30, 1 / 6, 1 / 3, 1)}  # of the paper's Figure 7
    shots: Settings = dict(snapshots=tuple(sorted(moments)))
    results = {n: trial.inverted(trial.design(n), **shots) for n in chosen}
    for n, result in results.items():
        yield from trial.scores(f"step_{n}", result.images, f"{SCORES} lpips")
    patient = replace(trial, steps=patience, attack="inverting_gradients")
    for n in PATIENT:
        yield from trial.scores(f"step_{n}, long", patient.inverted(trial.design(n), **shots).images, SCORES)
    yield "picture[steps]", tiled([[trial.images, *(result.images for result in results.values())]])
    shown = [results[n] for n in CURVED if n in results]
    yield "picture[way]", tiled([[s.images for s in result.snapshots] for result in shown])


@experiment("fourteen_steps.jumps", on=designs.trial)
@Size("smoke", 1, f"{SMALL}, 2 steps", steps=2, public=1, **QUARTER)
@Size("night", 8, f"{PAPERS}, steps 3, 4, 11 and 12, {ONE_EACH}", own=True, first=1200, **FULL)
def jumps(trial: DesignTrial) -> Values:
    """Table 8 once more, at two of the three jumps that the paper names: to patches (steps 3 and 4), and to LayerNorm (11 and 12)."""
    yield from trial.guesses("cifar10, ", SCORES)
    images = [trial.images]
    for n in (3, 4, 11, 12):  # before and behind each
        images.append(trial.inverted(trial.design(n)).images)
        yield from trial.scores(f"step_{n}", images[-1], SCORES)
    yield "picture[photograph_and_steps]", tiled([images])


@experiment("fourteen_steps.distances", on=designs.trial)
@Size("smoke", 1, f"{SMALL}, 2 steps", steps=2, public=1, chosen=[8, 9], **QUARTER)
@Size("class", 8, f"{SMALL}, 60 steps", steps=60, chosen=AROUND_GELU, **QUARTER)
@Size("night", 8, "the paper's networks, 300 steps of its search", first=1100, chosen=AROUND_GELU, **MIDDLE)
def distances(trial: DesignTrial, chosen: list[int]) -> Values:
    """Steps 8 to 10 by the angle between whole gradients, and `by_tensor`; the paper's networks fade where each block ends with a GELU.

    from_grey: of a grey image's gradient from the photograph's, in double precision.  spread: standard deviation of the last features.
    """
    yield from trial.guesses("cifar10, ", SCORES)
    pictures = [trial.images]
    for n in chosen:
        model = trial.design(n)
        leak = trial.leak(model)
        ways = {"whole": objectives.cosine_distance, "by_tensor": by_tensor(leak)}
        for name, distance in ways.items():
            attack = adaptive.compared(matching(trial.attack, trial.steps), distance)
            pictures.append(trial.search(attack, model, leak).images)
            yield from trial.scores(f"{name}, step_{n}", pictures[-1], SCORES)
        exact = model.double()
        x = trial.images.double().to(trial.device)
        grey, sent = (observe(exact, image, trial.labels) for image in (torch.full_like(x, 0.5), x))
        for name, distance in ways.items():
            yield f"from_grey[{name}, step_{n}]", distance(x, grey.grads, sent).item()
        with torch.no_grad():
            yield f"spread[step_{n}]", exact.forward_features(sent.normalise(x)).std().item()
    yield "picture[photograph_whole_and_by_tensor]", tiled([pictures])


@experiment("fourteen_steps.weightless", on=designs.trial)
@Size("smoke", 1, f"{SMALL}, 2 steps", steps=2, public=1, **QUARTER)
@Size("class", 8, f"{SMALL}, 60 steps", steps=60, **QUARTER)
@Size("night", 8, "the paper's network, 300 steps of its search", first=1100, **MIDDLE)
def weightless(trial: DesignTrial) -> Values:
    """Step 9 by whole gradients and exact derivatives, without any wish for a smooth picture: is it the weight that hides it?"""
    yield from trial.guesses("weightless, ")
    attack = replace(matching(trial.attack, trial.steps).without("smoothness"), derivative="exact")
    yield from trial.scores("weightless, step_9", trial.search(attack, trial.design(9)).images, SCORES)


@experiment("fourteen_steps.searches", on=designs.trial)
@Size("smoke", 1, f"{SMALL}, 2 steps", steps=2, public=1, passes=8, **QUARTER)
@Size("class", 8, f"{SMALL}, 60 steps, 120 passes", steps=60, passes=120, **QUARTER)
def searches(trial: DesignTrial, passes: int) -> Values:
    """The same steps by other searches: Adam at a fair weight of smoothness, and Gauss-Newton; and how far a grey image's gradient is."""
    yield from trial.guesses("cifar10, ", SCORES)
    apart = []
    for n in ALL:
        model = trial.design(n)
        apart.append(trial.from_grey(model))
        yield f"from_grey[step_{n}]", apart[-1]
        if n in CURVED:
            weight = trial.fair(model)
            yield f"fair_weight[step_{n}]", weight
            yield from trial.scores(f"one_weight, step_{n}", trial.inverted(model).images, SCORES)
            yield from trial.scores(f"fair, step_{n}", trial.inverted(model, weight).images, SCORES)
            curved = trial.search(GaussNewton(passes), model)
            yield from trial.scores(f"gauss_newton, step_{n}", curved.images, SCORES)
            yield f"relative_residual[gauss_newton, step_{n}]", relative_residual(curved, model)
    yield "from_grey_ratio[largest_over_smallest]", max(apart) / min(apart)


@experiment("fourteen_steps.reasons", on=designs.trial, data=("cifar10", "imagenet_samples"))
@Size("smoke", 1, f"five of the steps, {SMALL}, 2 steps",
    steps=2, public=1, block=16, side=64, chosen=[1, 8, 9, 10, 14], **QUARTER)  # fmt: skip
@Size("class", 8, f"{SMALL}, 60 steps, squares of 4 x 4 pixels", steps=60, block=4, side=224, chosen=ALL, **QUARTER)
def reasons(trial: DesignTrial, block: int, side: int, chosen: list[int]) -> Values:
    """What may explain the table: how well gradients tell images apart, whether downhill leads home, how far a network sees.

    block: side of the squares of pixels that the Jacobian is taken along.  side: of the photographs that receptive fields are measured on.
    The rank correlations are over the steps of this repeat.
    """
    wide = data.load("imagenet_samples")
    views = torch.cat([wide.one((2 * trial.number + i) % len(wide), size=side)[0] for i in range(2)])
    rows: dict[int, dict[str, float]] = {n: {} for n in chosen}
    for n, row in rows.items():
        model = trial.design(n)
        for part in (0.0, 0.5, 0.8, 0.95):
            cosine = homeward(model, trial.images, trial.labels, part, trial.number)
            yield f"bearing[step_{n}, at_{part:g}]".replace(".", "p"), cosine
            row |= {"bearing": cosine} if part == 0.8 else {}
        row["receptive_area"] = area(lambda x, m=model: m.forward_features(x, stages=3), model, views)
        yield f"receptive_area[step_{n}]", row["receptive_area"]
        row["psnr"] = metrics.psnr(trial.inverted(model).images, trial.images).item()
        if n in CURVED:
            singular = sensitivity.spectrum(model, trial.images, trial.labels, block=block)
            row["effective_rank"] = sensitivity.effective_rank(singular)
            row["condition"] = sensitivity.condition(singular)
            yield f"effective_rank[step_{n}]", row["effective_rank"]
            yield f"log10_condition[step_{n}]", math.log10(row["condition"])
            row["fair_psnr"] = metrics.psnr(trial.calibrated(model), trial.images).item()
    # behind the norm a place's channels add up to zero
    last: Settings = dict(indices=1, norm=False, intermediates_only=True)
    others: dict[str, Settings] = {"vit": dict(patch_size=16, position_std=1.0), "swin": {}}
    for name, changes in others.items():
        model = trial.network(f"{name}_cifar", img_size=side, **changes)
        yield f"receptive_area[{name}]", area(lambda x, m=model: m.forward_intermediates(x, **last)[0], model, views)
    table, found = pd.DataFrame([*rows.values()]), ("effective_rank", "condition", "bearing", "receptive_area")
    for name, key in itertools.product(found, ("psnr", "fair_psnr")):
        yield f"spearman[{name}, {key}]", spearmanr(table[[name, key]].dropna()).statistic


def homeward(model: nn.Module, image: Tensor, label: Tensor, part: float, seed: int) -> float:
    """Cosine between downhill and the way to the truth, at a point that is `part` of the way from noise to it."""
    leak = observe(model, image, label)
    truth = leak.normalise(image.to(next(model.parameters()).device))
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(seed)).to(truth)
    x = (noise + part * (truth - noise)).requires_grad_()
    loss = F.cross_entropy(model(x), label.to(x.device))
    grads = derivatives.gradients(loss, dict(model.named_parameters()), create_graph=True)
    down = -torch.autograd.grad(objectives.cosine_distance(x, grads, leak), x)[0]
    return torch.cosine_similarity(down.flatten(), (truth - noise).flatten(), dim=0).item()


def area(features: Any, model: Any, images: Tensor) -> float:
    """Part of the pixels that hold 90% of the slope of a map's centre."""
    x = model.normalise(images).to(next(model.parameters()).device)
    return sensitivity.area(sensitivity.field(features, x))


@experiment("fourteen_steps.parameters", data=())
@Size("smoke", 1, "the networks as they are", own=True)
@Size("class", 2, "the networks as they are", own=True)
def parameters(repeat: int) -> Values:
    """Millions of parameters of the two ends, with ten classes and the 7 x 7 stem."""
    for n in (1, 14):
        model = morph.build(n, seed=repeat % 10_000)
        yield f"params_m[step_{n}]", sum(p.numel() for p in model.parameters()) / 1e6
