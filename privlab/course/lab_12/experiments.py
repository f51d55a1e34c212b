"""Lab 12: which architectures and trainings resist a model inversion, and what they cost the task?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scipy.stats import spearmanr

from privlab import data
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import conditional_gan, distillation, evaluation, gans
from privlab.defences import architecture, dp_sgd, regularisers
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.private_people import (
    DENSENETS,
    GPU,
    NARROW,
    NETWORKS,
    NIGHT,
    ORL,
    PAPER,
    RESNETS,
    SMALL,
    TINY,
    People,
    Reconstruction,
    if_stopped,
    numbers,
    same,
    trained,
)
from privlab.training import RECIPES

GROUPED = dict(norm_layer="groupnorm1")  # DP-SGD bounds what one image does, which a BatchNorm does not allow
OURS = ["none", "rolss", "ssf", "tts", "bido", "mid"]
ALL = [*OURS, "rolss_plus", "bido_plus_rolss", "groupnorm", "dp", "none_longer", "groupnorm_longer"]


def kinds(epochs: int, full: int) -> dict[str, dict[str, Any]]:
    """What each kind of network changes: defences, the network's own settings, how many times as long it is trained.

    full: epochs before TTS takes the skips away. BiDO's and MID's weights were chosen at a look at another draw of people.
    """
    bido, rolss = regularisers.bido(2, 20), architecture.rolss()
    return {
        "none": {},
        "rolss": dict(defences=(rolss,)),
        "rolss_plus": dict(defences=(architecture.rolss_plus(),)),
        "ssf": dict(defences=(architecture.ssf(),)),
        "tts": dict(defences=(architecture.tts(full, epochs - full),)),
        "bido": dict(defences=(bido,)),
        "mid": dict(defences=(regularisers.mid(0.05, 64),)),
        "bido_plus_rolss": dict(defences=(bido, rolss)),
        "groupnorm": dict(changes=GROUPED),
        "dp": dict(changes=GROUPED, defences=(dp_sgd.dp(epsilon=50.0, delta=1e-3),)),
        "none_longer": dict(longer=3),
        "groupnorm_longer": dict(changes=GROUPED, longer=3),
    }


def attacked(stage: People, network: str, kind: Mapping[str, Any], at: Sequence[int] = ()) -> list[Reconstruction]:
    """What the attack brings back from one kind of network after each of these epochs, and at its end."""
    how = replace(stage.recipe, epochs=stage.recipe.epochs * kind.get("longer", 1))
    fleet = stage.network(network, kind.get("changes"), defences=kind.get("defences", ()), how=how, at=at)
    return [stage.inverted(fleet, epoch) for epoch in (*at, None)]


@experiment("resistant_architectures.defences", data=("orl",),
    smoke=Size(
        2, "8 people, a network of four blocks, 8 epochs",
        settings=dict(stage=TINY, networks=dict(resnet="tiny"), which=["none", "rolss", "bido", "mid"], stops=[3]),
    ),
    class_=Size(
        8, f"one narrow ResNet-18 (0.7 M parameters), 30 epochs; {ORL}", first=20,
        settings=dict(stage=SMALL, networks=dict(resnet="resnet"), which=OURS, stops=[4, 8]),
    ),
    night=Size(
        16, f"four narrow ResNets (0.3 to 2.8 M parameters), 40 epochs; {ORL}",
        settings=dict(
            stage=NIGHT, networks=same("resnet", "resnet_shallow", "resnet_deep", "resnet_wide"), which=ALL, stops=[2, 4, 6, 8, 10, 15, 20]
        ),
    ),
    gpu=Size(
        5, "ResNet-18, 64 pixels, 40 epochs, eigenfaces; draws of 20 of ORL's 40 people",
        settings=dict(stage=GPU, networks=same("resnet_18"), which=ALL, stops=[5, 10, 20]),
    ),
    paper=Size(
        3, "FaceScrub, the paper's networks and StyleGAN", own=True,
        settings=dict(stage=PAPER, networks=same(*RESNETS, *DENSENETS), which=ALL[:10], stops=[10, 20, 40], full=5),
    ),
)  # fmt: skip
def defences(
    repeat: int,
    stage: Mapping[str, Any],
    networks: Mapping[str, str],
    which: Sequence[str],
    stops: Sequence[int],
    full: int = 2,
    device: str = "cpu",
) -> Values:
    """One draw of people: each kind of each network, the undefended ones stopped earlier as well, one judge for all of them."""
    here = People(repeat, **stage, device=device)
    yield f"acc[{here.faces}, judge]", 100 * here.judge.accuracy
    yield f"attacc[{here.faces}, random_face]", (random := here.random_face())
    for label, network in networks.items():
        name, table = f"{here.faces}, {label}", kinds(here.recipe.epochs, min(full, here.recipe.epochs - 1))
        *early, undefended = attacked(here, network, table["none"], stops)
        path = [(100 / here.people, random), *((r.acc, r.attacc) for r in (*early, undefended))]
        yield f"attacc[{name}, first_choice]", undefended.first
        for epoch, stopped in zip(stops, early, strict=True):
            yield f"acc[{name}, stopped_{epoch}]", stopped.acc
            yield f"attacc[{name}, stopped_{epoch}]", stopped.attacc
        for kind in which:
            (one,) = (undefended,) if kind == "none" else attacked(here, network, table[kind])
            yield f"acc[{name}, {kind}]", one.acc
            yield f"attacc[{name}, {kind}]", one.attacc
            if kind != "none":
                yield f"attacc_if_stopped[{name}, {kind}]", if_stopped(one.acc, path)
            if kind == "rolss":
                yield f"picture[photograph_none_rolss, {label}]", here.strip(undefended, one)


@experiment("resistant_architectures.skip_factor", data=("orl",),
    smoke=Size(
        2, "8 people, a network of four blocks, 8 epochs",
        settings=dict(stage=TINY, networks=dict(resnet="tiny"), factors=[0.0, 0.5, 1.0]),
    ),
    class_=Size(
        8, f"a narrow ResNet-18, 30 epochs; {ORL}", first=20,
        settings=dict(stage=SMALL, networks=same("resnet"), factors=[0.0, 0.2, 0.5, 1.0]),
    ),
    night=Size(
        16, f"a narrow ResNet-18, 40 epochs; {ORL}",
        settings=dict(stage=NIGHT, networks=same("resnet"), factors=[0.0, 0.05, 0.2, 0.5, 1.0]),
    ),
    gpu=Size(
        5, "ResNet-18, 64 pixels; draws of 20 of ORL's 40 people",
        settings=dict(stage=GPU, networks=same("resnet_18"), factors=[0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0]),
    ),
    paper=Size(
        3, "FaceScrub, ResNet-101 and a StyleGAN", own=True,
        settings=dict(stage=PAPER, networks=same("resnet_101"), factors=[0.0, 0.01, 0.1, 0.2, 0.5, 1.0]),
    ),
)  # fmt: skip
def skip_factor(
    repeat: int, stage: Mapping[str, Any], networks: Mapping[str, str], factors: Sequence[float], device: str = "cpu"
) -> Values:
    """SSF's dial: the last stage's skips times k, from removed to whole; rank correlations over k in the draw, 0 where all are equal."""
    here = People(repeat, **stage, device=device)
    for label, network in networks.items():
        curve = []
        for k in factors:
            cut = () if k == 1 else (architecture.rolss(),) if k == 0 else (architecture.ssf(k),)
            (one,) = attacked(here, network, dict(defences=cut))
            curve.append((one.acc, one.attacc))
            key = f"k_{k:g}".replace(".", "p")
            yield f"acc[{here.faces}, {label}, {key}]", one.acc
            yield f"attacc[{here.faces}, {label}, {key}]", one.attacc
        for what, values in zip(("acc", "attacc"), zip(*curve, strict=True), strict=True):
            flat = len(set(values)) == 1
            yield (
                f"rank_correlation[{here.faces}, {label}, k, {what}]",
                0.0 if flat else spearmanr(factors, values).statistic,
            )


@experiment("resistant_architectures.transformers", data=("orl",),
    smoke=Size(2, "8 people, 2 epochs", settings=dict(stage=TINY, networks=same("maxvit"), epochs=2, stops=[1])),
    night=Size(
        16, f"a narrow MaxViT and a small ViT, 80 epochs; {ORL}",
        settings=dict(stage=NIGHT, networks=same("maxvit", "vit"), epochs=80, stops=[10, 20, 30, 40, 60]),
    ),
    paper=Size(
        3, "FaceScrub, MaxViT-T, ViT-B/16 and a StyleGAN", own=True,
        settings=dict(stage=PAPER, networks=dict(maxvit="maxvit_tiny", vit="vit_b_16"), epochs=100, stops=[20, 40, 60]),
    ),
)  # fmt: skip
def transformers(
    repeat: int,
    stage: Mapping[str, Any],
    networks: Mapping[str, str],
    epochs: int,
    stops: Sequence[int],
    device: str = "cpu",
) -> Values:
    """MaxViT and ViT with and without the skips of their first stage; the whole network also stopped earlier."""
    here = People(repeat, **stage, device=device)
    slower = here.recipe if here.faces != "orl" else replace(here.recipe, lr=1e-3, warmup_epochs=epochs / 10)
    slower = replace(slower, epochs=epochs)
    random = here.random_face()
    for name, network in networks.items():
        fleet = here.network(network, how=slower, at=stops)
        *early, full = [here.inverted(fleet, epoch) for epoch in (*stops, None)]
        cut = here.inverted(here.network(network, dict(skips=((1, 0),)), how=slower))
        for key, one in ((name, full), (f"{name}_skip_1", cut)):
            yield f"acc[{here.faces}, {key}]", one.acc
            yield f"attacc[{here.faces}, {key}]", one.attacc
        path = [(100 / here.people, random), *((r.acc, r.attacc) for r in (*early, full))]
        yield f"attacc[{here.faces}, {name}_first_choice]", full.first
        yield f"attacc_if_stopped[{here.faces}, {name}_skip_1]", if_stopped(cut.acc, path)
        yield f"picture[photograph_whole_cut, {name}]", here.strip(full, cut)


NORMS: dict[str, dict[str, Any]] = {"batchnorm": {}, "groupnorm": GROUPED}


@experiment("resistant_architectures.judges", data=("orl",),
    smoke=Size(2, "8 people, networks of four blocks", settings=dict(stage=TINY, network="tiny", longer=1, stops=[4])),
    night=Size(
        16, f"narrow ResNet-18s with either norm, 120 epochs, and four judges of 60 or 120; {ORL}", first=1_100,
        settings=dict(stage=NIGHT, network="resnet", longer=3, stops=[20, 40, 60]),
    ),
)  # fmt: skip
def judges(
    repeat: int, stage: Mapping[str, Any], network: str, longer: int, stops: Sequence[int], device: str = "cpu"
) -> Values:
    """BatchNorm beside GroupNorm, trained as long, before four judges: two bodies, each with either norm; all see the same pictures."""
    here = People(repeat, **stage, device=device)
    how = replace(here.recipe, epochs=here.recipe.epochs * longer)
    plain, grouped = (here.network(network, norm, how=how, at=stops) for norm in NORMS.values())
    found = {f"stopped_{epoch}": here.inverted(plain, epoch) for epoch in stops}
    found |= {"batchnorm": here.inverted(plain), "groupnorm": here.inverted(grouped)}
    for name, one in found.items():
        yield f"acc[{here.faces}, {name}]", one.acc
        yield f"likelihood[{here.faces}, {name}]", one.likelihood
    bodies = {"densenet": ("densenet121", here.judge_size), "resnet": NETWORKS["resnet_shallow"]}
    for body, (zoo_name, changes) in bodies.items():
        for norm, change in NORMS.items():
            by, judge = f"judge_{body}_{norm}", here.judged_by(zoo_name, {**changes, **change}, 3 if change else 1.5)
            yield f"acc[{here.faces}, {by}]", 100 * judge.accuracy
            yield f"attacc[{here.faces}, random_face, {by}]", (random := here.random_face(judge))
            seen = {
                name: 100 * judge.score(one.result.images, one.result.targets).accuracy for name, one in found.items()
            }
            yield from ((f"attacc[{here.faces}, {name}, {by}]", value) for name, value in seen.items())
            path = [
                (100 / here.people, random),
                *((found[name].acc, seen[name]) for name in seen if name != "groupnorm"),
            ]
            yield f"attacc_if_stopped[{here.faces}, groupnorm, {by}]", if_stopped(found["groupnorm"].acc, path)
    yield "picture[photograph_batchnorm_groupnorm]", here.strip(found["batchnorm"], found["groupnorm"])


_DIGITS_SMOKE: dict[str, Any] = dict(
    each=64, public=600, epochs=2, gan_epochs=2, channels=8, labelled=60, steps=5, take=1, layers=[1, 1, 1, 1], students=1
)  # fmt: skip
_DIGITS_NIGHT: dict[str, Any] = dict(
    each=600, public=10_000, epochs=12, gan_epochs=12, channels=24, labelled=1_500, steps=200, take=8
)
_CELEBA: dict[str, Any] = dict(
    faces="celeba_people", each=0, public=30_000, epochs=100, gan_epochs=50, channels=64, labelled=4_000, steps=1_500, take=5, side=64
)  # fmt: skip


@experiment("resistant_architectures.stronger_attacks", data=("mnist",),
    smoke=Size(2, "digits of 16 pixels, GANs of two epochs", settings=_DIGITS_SMOKE),
    night=Size(12, "digits of 16 pixels behind a narrow ResNet-18, GANs trained for minutes", settings=_DIGITS_NIGHT),
    paper=Size(3, "a thousand people of CelebA behind an IR152", own=True, settings=_CELEBA),
)  # fmt: skip
def stronger_attacks(
    repeat: int,
    each: int,
    public: int,
    epochs: int,
    gan_epochs: int,
    channels: int,
    labelled: int,
    steps: int,
    take: int,
    faces: str = "mnist",
    side: int = 16,
    layers: Sequence[int] = (2, 2, 2, 2),
    students: int = 2,
    device: str = "cpu",
) -> Values:
    """Five attacks on a whole network and on one with RoLSS, each with a generator that was trained with this very victim's help."""
    seed = repeat % 2**31
    if faces == "mnist":
        split, normalise = numbers(each, public, side, seed), data.NORMALISE["mnist"]
        body, how = (
            ("resnet18", {**NARROW, "layers": tuple(layers)}),
            replace(RECIPES["digits"], epochs=epochs, batch_size=min(64, each)),
        )
    else:  # a reader's own, as the paper has it
        mine = data.faces.load(faces, side)
        split = data.private_public.draw(mine.pixels, mine.labels, 1_000, 0.1, [seed], public=public)
        normalise, body, how = mine.normalise, ("ir152", dict[str, Any]()), RECIPES["koh2024_ir152"]
    draw = split.draws[0]
    of = partial(trained, split, normalise, seed, device)
    small = dict(growth_rate=12, block_config=(2, 2, 2)) if faces == "mnist" else {}
    reading = of("densenet121", small, split.evaluation_keep(), replace(how, epochs=how.epochs * 3 // 2))
    judge = evaluation.evaluation_models(reading, split)[0]
    yield f"acc[{faces}, reader]", 100 * judge.accuracy
    short = dict(lr=0.1, steps=steps)
    one_each = dict(candidates=take, kept=take, **short)
    presets = {
        "gmi": model_inversion.gmi(**one_each),
        "kedmi": model_inversion.kedmi(**one_each),
        "lomma": model_inversion.lomma(model_inversion.kedmi(**one_each)),
        "plg_mi": model_inversion.plg_mi(**one_each),
        "ppa": model_inversion.ppa(**short, pool=500, candidates=2 * take, kept=take, views=10),
    }
    recipe = model_inversion.GANRecipe(
        gan_epochs, seed, channels=channels, batch_size=32 if public < 1_000 else 64, lr=2e-3
    )
    quiet = dict[str, Any](device=device, progress=False)
    gmi = gans.gmi(draw.public, recipe, **quiet)
    rows = []
    for name, cut in (("none", ()), ("rolss", (architecture.rolss(),))):
        fleet = of(*body, split.keep(), how, cut)
        victim = fleet.model(0).to(device)
        yield f"acc[{faces}, {name}]", 100 * fleet.right(0, draw.test)
        kedmi = gans.kedmi(draw.public, victim, recipe, **quiet)
        plg_mi = conditional_gan.plg_mi(draw.public, victim, recipe, each=labelled, **quiet)
        sizes: dict[str, Any] = {
            "resnet18": dict(NARROW, channels=(8, 16, 32, 64)),
            "densenet121": dict(growth_rate=8, block_config=(2, 2, 2)),
        }
        beside = [
            distillation.distil(
                victim,
                student,
                draw.public,
                model={**size, "in_chans": draw.public.shape[1]},
                seed=seed,
                epochs=3,
                batch_size=64,
                **quiet,
            )
            for student, size in [*sizes.items()][:students]
        ]
        tools: dict[str, tuple[Any, list[Any]]] = {
            "gmi": (gmi, []),
            "kedmi": (kedmi, []),
            "lomma": (kedmi, beside),
            "plg_mi": (plg_mi, []),
            "ppa": (gmi, []),
        }
        for attack, (generator, helpers) in tools.items():
            result = presets[attack].run_once(victim, generator, range(len(draw.people)), seed, helpers)
            yield f"attacc[{faces}, {attack}, {name}]", 100 * judge.score(result.images, result.targets).accuracy
            if attack == "ppa":
                yield f"attacc[{faces}, first_choice, {name}]", 100 * judge.score(result.first, result.targets).accuracy
            rows.append(result.images[result.places(5)])
    yield "picture[attacks_none_then_rolss]", tiled(rows)
