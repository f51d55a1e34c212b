"""Lab 10: which of a ConvNeXt's micro designs gives a photograph away? Activations, stems, norms, and two searches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from privlab import data
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims import shadow_fleets
from privlab.experiments.victims.designs import Search
from privlab.experiments.victims.overfitting import at_one_level, look
from privlab.experiments.victims.shadow_fleets import answers
from privlab.models import morph
from privlab.training import RECIPES

KINDS, PATTERNS = ("relu", "gelu"), morph.PATTERNS[::-1]  # 111 first
PLACES = ("111", "110", "010", "001", "000")  # patterns that are attacked at a fair weight, too
STEMS: dict[str, dict[str, Any]] = {
    "conv_stem": dict(patchify=False, pool=True),
    "patchify": dict(patchify=True, pool=False),
}
SWITCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # name -> (a ResNet's way, a ConvNeXt's)
    "addition": (dict(activations="111"), dict(activations="110")),
    "stem": (STEMS["conv_stem"], STEMS["patchify"]),
    "norm": (dict(norm="bn"), dict(norm="ln")),
    "kind": (dict(activation="relu"), dict(activation="gelu")),
}
WAYS = ("resnet", "convnext")
COMBINATIONS = tuple(itertools.product((0, 1), repeat=len(SWITCHES)))

QUARTER: dict[str, Any] = dict(width=0.25, depths=[1, 1, 1, 1])
SMALL = "a quarter of the channels, one block a stage"


def sizes(without: str = "", **more: dict[str, Any]) -> dict[str, Size]:
    """Sizes of searches on designs.  more: what an experiment sets besides, by size.  without: a size that it does not have."""
    planned = {
        "smoke": Size(1, f"{SMALL}, 2 steps", settings=dict(attack="annealed", steps=2, public=1, **QUARTER)),
        "class_": Size(8, f"{SMALL}, 60 steps", settings=dict(attack="annealed", steps=60, **QUARTER)),
        "night": Size(
            20, f"{SMALL}, the paper's search with 1,000 steps", settings=dict(attack="inverting_gradients", steps=1_000, **QUARTER)
        ),
        "gpu": Size(8, "full networks, 1,000 steps", settings=dict(attack="inverting_gradients", steps=1_000)),
        "paper": Size(
            10, "full networks, 3,000 steps; the paper does not name the network", settings=dict(attack="inverting_gradients", steps=3_000)
        ),
    }  # fmt: skip
    return {
        name: replace(size, settings={**size.settings, **more.get(name, {})})
        for name, size in planned.items()
        if name != without
    }


@experiment("micro_designs.activations", protocol=1, data=("cifar10",), **sizes())
def activations(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """Figure 8 on step 9: eight patterns of two kinds at one weight of smoothness; five of them at a fair one; two with He's draw."""
    search, images = Search(repeat, device=device, **how), {}
    yield from search.guesses()
    for kind, pattern in itertools.product(KINDS, PATTERNS):
        changes: dict[str, Any] = dict(activation=kind, activations=pattern)
        images[kind, pattern] = search.result(9, **changes).images
        yield from search.scores(f"{kind}, act_{pattern}", images[kind, pattern])
        for draw in ("pytorch", "he"):
            if pattern in (PLACES if draw == "pytorch" else ("111", "110")):
                drawn = changes | ({} if draw == "pytorch" else dict(draw=draw))
                weight = search.fair(9, **drawn)
                name = "fair" if draw == "pytorch" else draw
                yield f"fair_weight[{name}, {kind}, act_{pattern}]", weight
                yield from search.scores(f"{name}, {kind}, act_{pattern}", search.result(9, weight, **drawn).images)
    yield "picture[patterns]", tiled([[search.photograph, *(images[kind, p] for p in PATTERNS)] for kind in KINDS])


@experiment("micro_designs.stems", protocol=1, data=("cifar10",), **sizes())
def stems(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """Figure 9a on steps 9 and 14, at one weight and at a fair one; and on step 9 two stems between, which differ in one thing each."""
    search = Search(repeat, device=device, **how)
    yield from search.guesses()
    ladder = {}
    for step, (name, changes) in itertools.product((9, 14), STEMS.items()):
        yield from search.scores(f"step_{step}, {name}", search.result(step, **changes).images)
        weight = search.fair(step, **changes)
        ladder[step, name] = search.result(step, weight, **changes).images
        yield from search.scores(f"fair, step_{step}, {name}", ladder[step, name])
    between = {}
    for name in ("means", "stride"):
        model: Any = search.case(9, **STEMS["conv_stem"]).build(device)
        model.stem.pool = nn.AvgPool2d(3, 2, 1) if name == "means" else nn.Identity()
        model.stem.conv.stride = (2, 2) if name == "means" else (4, 4)
        between[name] = search.alone(model, search.weight_of(model))
    rungs = {"maxima": ladder[9, "conv_stem"], **between, "patches": ladder[9, "patchify"]}
    for name, image in rungs.items():
        yield from search.scores(f"stem, {name}", image)
    yield "picture[stems]", tiled([[search.photograph, *rungs.values()]])


@experiment("micro_designs.norms", protocol=1, data=("cifar10",), **sizes())
def norms(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """Figure 9b in eval mode, on steps 9 and 14, at one weight and at a fair one."""
    search = Search(repeat, device=device, **how)
    yield from search.guesses()
    for step, norm in itertools.product((9, 14), ("bn", "ln")):
        yield from search.scores(f"step_{step}, {norm}", search.result(step, norm=norm).images)
        weight = search.fair(step, norm=norm)
        yield from search.scores(f"fair, step_{step}, {norm}", search.result(step, weight, norm=norm).images)


@experiment("micro_designs.modes", protocol=1, data=("cifar10",), **sizes())
def modes(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """Figure 9b on step 11, at 64 x 64 pixels as train mode needs: BatchNorm's two modes, no norm, LayerNorm, and its own part withheld."""
    search, images = Search(repeat, side=64, device=device, **how), {}
    yield from search.guesses()
    whole: dict[str, dict[str, Any]] = {"bn_eval": {}, "bn_train": dict(train=True), "ln": dict(norm="ln")}
    for name, changes in whole.items():
        images[name] = search.result(11, search.fair(11, **changes), **changes).images
    bare = without_norms(search.case(11).build(device))
    images["none"] = search.alone(bare, search.weight_of(bare))
    layered = search.case(11, norm="ln").build(device)
    of_norms = [name for name, _ in layered.named_parameters() if "norm" in name]
    images["ln_withheld"] = search.alone(layered, search.weight_of(layered), of_norms)
    for name, image in images.items():
        yield from search.scores(f"norm, {name}", image)
    yield "picture[norms]", tiled([[search.photograph, *images.values()]])


def without_norms(model: nn.Module) -> nn.Module:
    """The same network with nothing in the place of each BatchNorm, changed in place."""
    for module in [*model.modules()]:
        for name, child in [*module.named_children()]:
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())
    return model


@experiment(
    "micro_designs.norm_free",
    protocol=1,
    data=("cifar10",),
    smoke=Size(1, SMALL, settings=QUARTER),
    class_=Size(8, SMALL, settings=QUARTER),
    paper=Size(8, "full networks", settings=dict(width=1.0)),
)
def norm_free(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """What BatchNorm in eval mode does to a fresh network: the relative error of its logits without any norm."""
    search = Search(repeat, "annealed", 1, device=device, **how)
    image = data.NORMALISE["cifar10"](search.photograph).to(device)
    for step in (9, 11):
        network = search.case(step).build(device)
        with torch.no_grad():
            whole, left = network(image), without_norms(deepcopy(network))(image)
        yield f"relative_error[step_{step}, bn_eval, no_norm]", ((whole - left).norm() / left.norm()).item()


@experiment("micro_designs.switches", protocol=1, data=("cifar10",), **sizes())
def switches(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """All sixteen combinations of four switches on step 9, each at its fair weight; main effects and interactions are in dB of PSNR."""
    search, images, psnr = Search(repeat, device=device, **how), [], []
    yield from search.guesses()
    for combination in COMBINATIONS:
        changes: dict[str, Any] = {}
        for ways, on in zip(SWITCHES.values(), combination, strict=True):
            changes |= ways[on]
        images.append(search.result(9, search.fair(9, **changes), **changes).images)
        scores = dict(search.scores(combined(combination), images[-1]))
        psnr.append(scores[f"psnr[{combined(combination)}]"])
        yield from scores.items()
    cube = torch.tensor(psnr, dtype=torch.float64).reshape(2, 2, 2, 2)  # an axis a switch
    for i, name in enumerate(SWITCHES):
        for on, way in enumerate(WAYS):
            yield f"psnr[{name}, {way}]", cube.select(i, on).mean().item()
        yield f"effect[{name}]", (cube.select(i, 1) - cube.select(i, 0)).mean().item()
    for (i, one), (j, other) in itertools.combinations(enumerate(SWITCHES), 2):
        slope = cube.select(j, 1) - cube.select(j, 0)  # of the other; `one` keeps its place, as it stands before
        yield f"interaction[{one}, {other}]", (slope.select(i, 1) - slope.select(i, 0)).mean().item()
    yield "picture[combinations]", tiled([[search.photograph, *images]])


def combined(combination: Sequence[int]) -> str:
    """A combination of switches as a name: "switches, c0101", in the order of SWITCHES, 1 for a ConvNeXt's way."""
    return f"switches, c{''.join(map(str, combination))}"


MEMBERS: dict[str, dict[str, Any]] = {
    "plain": STEMS["conv_stem"],
    "fewer_activations": STEMS["conv_stem"] | dict(activations="010"),
    "patchify": STEMS["patchify"],
    "ln": STEMS["conv_stem"] | dict(norm="ln"),
}


EIGHTH: dict[str, Any] = dict(width=0.125, depths=[1, 1, 1, 1])


def recipe(epochs: int, **more: Any) -> dict[str, Any]:
    return dict(epochs=epochs, batch_size=32, lr=2e-3, warmup_epochs=1) | more


@experiment("micro_designs.membership", protocol=2,  # 1 asked about mirror images that no model had seen
    data=("cifar10",),
    smoke=Size(
        1, "an eighth of the channels, 4 models a design, 20 images a model",
        settings=dict(images=40, models=4, recipe=recipe(2, batch_size=10), every=1, **EIGHTH),
    ),
    class_=Size(
        8, "an eighth of the channels, one block a stage, 4 models a design, 150 images a model, trained without mixup",
        settings=dict(images=300, models=4, recipe=recipe(24), every=4, **EIGHTH), first=16,
    ),
    night=Size(
        8, f"{SMALL}, 4 models a design, 2,500 images a model, trained without mixup",
        settings=dict(images=5_000, models=4, recipe=recipe(60, batch_size=64, lr=1e-3, precision="auto"), every=6, **QUARTER),
        first=1_008,
    ),
    gpu=Size(
        5, "full networks, 4 models a design, 5,000 images a model, the paper's recipe",
        settings=dict(images=10_000, models=4, recipe=RECIPES["zhang2024_membership"].settings(), every=20, width=1.0),
    ),
)  # fmt: skip
def membership(
    repeat: int, images: int, models: int, recipe: dict[str, Any], every: int, device: str = "cpu", **shape: Any
) -> Values:
    """Figure 10: step 9 with a ResNet's stem, and three designs of a ConvNeXt, one at a time; at the end and at one overfitting level.

    A repeat is a draw of images with a small fleet of its own for each design.
    """
    sample, looks = shadow_fleets.draw(repeat, images, models), {}
    for name, changes in MEMBERS.items():
        said = answers(("morph_9", {**shape, **changes}), sample, recipe, every, device)
        train, test = said.accuracies()
        yield f"train_acc[{name}]", train.min()  # of the model that knows its images least
        yield f"task_acc[{name}]", test.mean()
        yield f"train_test_gap[{name}]", said.gap()
        looks[name] = [look(said, epoch) for epoch in sorted(said.logits)]
    for metric, what, kind, matched in at_one_level(looks):
        for name, rows in looks.items():
            yield f"{metric}[{name}, {kind}]", rows[-1][what]
            yield f"{metric}_at_matched_gap[{name}, {kind}]", matched[name]
