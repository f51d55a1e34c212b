"""Lab 10: which of a ConvNeXt's micro designs gives a photograph away? Activations, stems, norms, and two searches."""

import itertools
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import nn

from privlab import data
from privlab.experiments import Size, experiment, tiled
from privlab.experiments.protocol import Settings, Values
from privlab.experiments.victims import designs, shadow_fleets
from privlab.experiments.victims.designs import SCORES, DesignTrial
from privlab.experiments.victims.shadow_fleets import RECIPE, Draw
from privlab.models import morph

KINDS, PATTERNS = ("relu", "gelu"), morph.PATTERNS[::-1]  # 111 first
PLACES = ("111", "110", "010", "001", "000")  # patterns that are attacked at a fair weight, too
STEMS: dict[str, Settings] = {"conv_stem": dict(patchify=False, pool=True), "patchify": dict(patchify=True, pool=False)}
SWITCHES: dict[str, tuple[Settings, Settings]] = {  # name -> (a ResNet's way, a ConvNeXt's)
    "addition": (dict(activations="111"), dict(activations="110")),
    "stem": (STEMS["conv_stem"], STEMS["patchify"]),
    "norm": (dict(norm="bn"), dict(norm="ln")),
    "kind": (dict(activation="relu"), dict(activation="gelu")),
}
MEMBERS: dict[str, Settings] = {
    "plain": STEMS["conv_stem"],
    "fewer_activations": dict(STEMS["conv_stem"], activations="010"),
    "patchify": STEMS["patchify"],
    "ln": dict(STEMS["conv_stem"], norm="ln"),
}
WAYS = ("resnet", "convnext")
COMBINATIONS = tuple(itertools.product((0, 1), repeat=len(SWITCHES)))
QUARTER: Settings = dict(width=0.25, depths=[1, 1, 1, 1])
EIGHTH: Settings = dict(width=0.125, depths=[1, 1, 1, 1])
SMALL = "a quarter of the channels, one block a stage"
PAPERS: Settings = dict(attack="inverting_gradients")


def searched(measure: Any) -> Any:
    """A measurement at the sizes that all searches of this lab have."""
    return (
        Size("smoke", 1, f"{SMALL}, 2 steps", attack="annealed", steps=2, public=1, **QUARTER),
        Size("class", 8, f"{SMALL}, 60 steps", attack="annealed", steps=60, **QUARTER),
        Size("night", 20, f"{SMALL}, the paper's search with 1,000 steps", steps=1_000, **PAPERS, **QUARTER),
        Size("paper", 10, "full networks, 3,000 steps; the paper does not name the network", steps=3_000, **PAPERS),
        measure,
    )


@experiment("micro_designs.activations", on=designs.trial)
@searched
def activations(trial: DesignTrial) -> Values:
    """Figure 8 on step 9: eight patterns of two kinds at one weight of smoothness; five of them at a fair one; two with He's draw."""
    images = {}
    yield from trial.guesses("cifar10, ", SCORES)
    for kind, pattern in itertools.product(KINDS, PATTERNS):
        design = partial(trial.design, 9, activation=kind, activations=pattern)
        images[kind, pattern] = trial.inverted(design()).images
        yield from trial.scores(f"{kind}, act_{pattern}", images[kind, pattern], SCORES)
        draws = {"fair": design()} if pattern in PLACES else {}
        draws |= {"he": design(draw="he")} if pattern in ("111", "110") else {}
        for name, model in draws.items():
            weight = trial.fair(model)
            yield f"fair_weight[{name}, {kind}, act_{pattern}]", weight
            yield from trial.scores(f"{name}, {kind}, act_{pattern}", trial.inverted(model, weight).images, SCORES)
    yield "picture[patterns]", tiled([[trial.images, *(images[kind, p] for p in PATTERNS)] for kind in KINDS])


@experiment("micro_designs.stems", on=designs.trial)
@searched
def stems(trial: DesignTrial) -> Values:
    """Figure 9a on steps 9 and 14, at one weight and at a fair one; and on step 9 two stems between, which differ in one thing each."""
    fair = {}
    yield from trial.guesses("cifar10, ", SCORES)
    for step, (name, changes) in itertools.product((9, 14), STEMS.items()):
        model = trial.design(step, **changes)
        yield from trial.scores(f"step_{step}, {name}", trial.inverted(model).images, SCORES)
        fair[step, name] = trial.calibrated(model)
        yield from trial.scores(f"fair, step_{step}, {name}", fair[step, name], SCORES)
    rungs = {"maxima": fair[9, "conv_stem"]}
    for name, pool, stride in (("means", nn.AvgPool2d(3, 2, 1), (2, 2)), ("stride", nn.Identity(), (4, 4))):
        model = trial.design(9, **STEMS["conv_stem"])
        model.stem.pool, model.stem.conv.stride = pool, stride
        rungs[name] = trial.calibrated(model)
    rungs["patches"] = fair[9, "patchify"]
    for name, image in rungs.items():
        yield from trial.scores(f"stem, {name}", image, SCORES)
    yield "picture[stems]", tiled([[trial.images, *rungs.values()]])


@experiment("micro_designs.norms", on=designs.trial)
@searched
def norms(trial: DesignTrial) -> Values:
    """Figure 9b in eval mode, on steps 9 and 14, at one weight and at a fair one."""
    yield from trial.guesses("cifar10, ", SCORES)
    for step, norm in itertools.product((9, 14), ("bn", "ln")):
        model = trial.design(step, norm=norm)
        yield from trial.scores(f"step_{step}, {norm}", trial.inverted(model).images, SCORES)
        yield from trial.scores(f"fair, step_{step}, {norm}", trial.calibrated(model), SCORES)


@experiment("micro_designs.modes", on=partial(designs.trial, side=64))
@searched
def modes(trial: DesignTrial) -> Values:
    """Figure 9b on step 11, at 64 x 64 pixels as train mode needs: BatchNorm's two modes, no norm, LayerNorm, and its own part withheld."""
    yield from trial.guesses("cifar10, ", SCORES)
    layered = trial.design(11, norm="ln")
    networks: dict[str, tuple[nn.Module, list[str]]] = {
        "bn_eval": (trial.design(11), []),
        "bn_train": (trial.design(11, train=True), []),
        "ln": (layered, []),
        "none": (without_norms(trial.design(11)), []),
        "ln_withheld": (layered, [name for name, _ in layered.named_parameters() if "norm" in name]),
    }
    images = {name: trial.calibrated(model, hide) for name, (model, hide) in networks.items()}
    for name, image in images.items():
        yield from trial.scores(f"norm, {name}", image, SCORES)
    yield "picture[norms]", tiled([[trial.images, *images.values()]])


def without_norms(model: nn.Module) -> nn.Module:
    """The same network with nothing in the place of each BatchNorm, changed in place."""
    for name, module in [*model.named_modules()]:
        if isinstance(module, nn.BatchNorm2d):
            model.set_submodule(name, nn.Identity())
    return model


@experiment("micro_designs.norm_free", on=designs.trial)
@Size("smoke", 1, SMALL, **QUARTER)
@Size("class", 8, SMALL, **QUARTER)
@Size("paper", 8, "full networks", width=1.0)
def norm_free(trial: DesignTrial) -> Values:
    """What BatchNorm in eval mode does to a fresh network: the relative error of its logits without any norm."""
    image = data.NORMALISE["cifar10"](trial.images).to(trial.device)
    for step in (9, 11):
        network = trial.design(step)
        with torch.no_grad():
            whole, left = network(image), without_norms(deepcopy(network))(image)
        yield f"relative_error[step_{step}, bn_eval, no_norm]", ((whole - left).norm() / left.norm()).item()


@experiment("micro_designs.switches", on=designs.trial)
@searched
def switches(trial: DesignTrial) -> Values:
    """All sixteen combinations of four switches on step 9, each at its fair weight; main effects and interactions are in dB of PSNR."""
    images, psnr = [], []
    yield from trial.guesses("cifar10, ", SCORES)
    for combination in COMBINATIONS:
        changes: dict[str, Any] = {}
        for ways, on in zip(SWITCHES.values(), combination, strict=True):
            changes |= ways[on]
        images.append(trial.calibrated(trial.design(9, **changes)))
        key = f"switches, c{''.join(map(str, combination))}"  # in the order of SWITCHES, 1 for a ConvNeXt's way
        scores = dict(trial.scores(key, images[-1], SCORES))
        psnr.append(scores[f"psnr[{key}]"])
        yield from scores.items()
    cube = torch.tensor(psnr, dtype=torch.float64).reshape(2, 2, 2, 2)  # an axis a switch
    for i, name in enumerate(SWITCHES):
        for on, way in enumerate(WAYS):
            yield f"psnr[{name}, {way}]", cube.select(i, on).mean().item()
        yield f"effect[{name}]", (cube.select(i, 1) - cube.select(i, 0)).mean().item()
    for (i, one), (j, other) in itertools.combinations(enumerate(SWITCHES), 2):
        slope = cube.select(j, 1) - cube.select(j, 0)  # of the other; `one` keeps its place, as it stands before
        yield f"interaction[{one}, {other}]", (slope.select(i, 1) - slope.select(i, 0)).mean().item()
    yield "picture[combinations]", tiled([[trial.images, *images]])


@experiment("micro_designs.membership", on=shadow_fleets.draw, protocol=2)  # 1 asked about unseen mirror images
@Size("smoke", 1, "an eighth of the channels, 4 models a design, 20 images a model",
    images=40, models=4, recipe=dict(RECIPE["smoke"], batch_size=10), every=1, **EIGHTH)  # fmt: skip
@Size("class", 8, "an eighth of the channels, one block a stage, 4 models a design, 150 images a model, trained without mixup",
    images=300, models=4, recipe=dict(RECIPE["smoke"], epochs=24), every=4, first=16, **EIGHTH)  # fmt: skip
@Size("night", 8, f"{SMALL}, 4 models a design, 2,500 images a model, trained without mixup", first=1_008,
    images=5_000, models=4, recipe=dict(RECIPE["night"], epochs=60, warmup_epochs=1), every=6, **QUARTER)  # fmt: skip
@Size("gpu", 5, "full networks, 4 models a design, 5,000 images a model, the paper's recipe",
    images=10_000, models=4, recipe=RECIPE["paper"], every=20, width=1.0)  # fmt: skip
def membership(sample: Draw, recipe: Settings, every: int, width: float, depths: list[int] | None = None) -> Values:
    """Figure 10: step 9 with a ResNet's stem, and three designs of a ConvNeXt, one at a time; at the end and at one overfitting level.

    A repeat is a draw of images with a small fleet of its own for each design.
    """
    looks, shape = {}, dict(width=width) if depths is None else dict(width=width, depths=depths)
    for name, changes in MEMBERS.items():
        said = shadow_fleets.answers(("morph_9", {**shape, **changes}), sample, recipe, every)
        yield from said.knows(name)
        looks[name] = [shadow_fleets.look(said, epoch) for epoch in sorted(said.logits)]
    for metric, kind, matched in shadow_fleets.at_one_level(looks):
        for name, rows in looks.items():
            yield f"{metric}[{name}, {kind}]", rows[-1][metric]
            yield f"{metric}_at_matched_gap[{name}, {kind}]", matched[name]
