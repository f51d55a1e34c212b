"""Lab 12: which architectures and trainings resist a model inversion, and what they cost the task?"""

from dataclasses import replace
from functools import partial
from typing import Any

from scipy.stats import spearmanr

from privlab import data
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import evaluation, gans
from privlab.defences import architecture, dp_sgd, regularisers
from privlab.experiments import Size, experiment, tiled
from privlab.experiments.protocol import Settings, Values
from privlab.experiments.victims import private_people
from privlab.experiments.victims.private_people import DENSENETS, ORL, RESNETS, STAGE, People, Reconstruction, same
from privlab.training import RECIPES, Recipe

GROUPED = dict(norm_layer="groupnorm1")  # DP-SGD bounds what one image does, which a BatchNorm does not allow
OURS = ["none", "rolss", "ssf", "tts", "bido", "mid"]
ALL = [*OURS, "rolss_plus", "bido_plus_rolss", "groupnorm", "dp", "none_longer", "groupnorm_longer"]
STUDENTS: dict[str, Settings] = {
    "resnet18": dict(private_people.NARROW, channels=(8, 16, 32, 64), in_chans=1),
    "densenet121": dict(growth_rate=8, block_config=(2, 2, 2), in_chans=1),
}


def kinds(recipe: Recipe, full: int) -> dict[str, Settings]:
    """What each kind of network changes, as `People.attacked` takes it.

    full: epochs before TTS takes the skips away. BiDO's and MID's weights were chosen at a look at another draw of people.
    """
    bido, rolss, longer = regularisers.BiDO(2, 20), architecture.rolss(), replace(recipe, epochs=3 * recipe.epochs)
    return {
        "none": {},
        "rolss": dict(defences=(rolss,)),
        "rolss_plus": dict(defences=(architecture.rolss_plus(),)),
        "ssf": dict(defences=(architecture.ssf(),)),
        "tts": dict(defences=(architecture.tts(full),)),
        "bido": dict(defences=(bido,)),
        "mid": dict(defences=(regularisers.MID(0.05, 64),)),
        "bido_plus_rolss": dict(defences=(bido, rolss)),
        "groupnorm": dict(changes=GROUPED),
        "dp": dict(changes=GROUPED, defences=(dp_sgd.DP(epsilon=50.0, delta=1e-3),)),
        "none_longer": dict(how=longer),
        "groupnorm_longer": dict(changes=GROUPED, how=longer),
    }


@experiment("resistant_architectures.defences", on=People.of, data=("orl",))
@Size("smoke", 2, "8 people, a network of four blocks, 8 epochs",
    stage=STAGE["smoke"], networks=dict(resnet="tiny"), which=["none", "rolss", "bido", "mid"], stops=[3])  # fmt: skip
@Size("class", 8, f"one narrow ResNet-18 (0.7 M parameters), 30 epochs; {ORL}", first=20,
    stage=STAGE["class"], networks=same("resnet"), which=OURS, stops=[4, 8])  # fmt: skip
@Size("night", 16, f"four narrow ResNets (0.3 to 2.8 M parameters), 40 epochs; {ORL}",
    stage=STAGE["night"], networks=same("resnet", "resnet_shallow", "resnet_deep", "resnet_wide"), which=ALL,
    stops=[2, 4, 6, 8, 10, 15, 20])  # fmt: skip
@Size("paper", 3, "FaceScrub, the paper's networks and StyleGAN", own=True,
    stage=STAGE["paper"], networks=same(*RESNETS, *DENSENETS), which=ALL[:10], stops=[10, 20, 40], full=5)  # fmt: skip
def defences(here: People, networks: dict[str, str], which: list[str], stops: list[int], full: int = 2) -> Values:
    """One draw of people: each kind of each network, the undefended ones stopped earlier as well, one judge for all of them."""
    yield f"acc[{here.faces}, judge]", 100 * here.judge.accuracy
    yield f"attacc[{here.faces}, random_face]", here.random_face()
    for label, network in networks.items():
        name, table = f"{here.faces}, {label}", kinds(here.recipe, min(full, here.recipe.epochs - 1))
        along = here.attacked(network, at=stops)
        yield f"attacc[{name}, first_choice]", along[-1].first
        for epoch, stopped in zip(stops, along[:-1], strict=True):
            yield from stopped.rates(f"{name}, stopped_{epoch}")
        for kind in which:
            one = along[-1] if kind == "none" else here.attacked(network, **table[kind])[0]
            yield from one.rates(f"{name}, {kind}")
            if kind != "none":
                yield f"attacc_if_stopped[{name}, {kind}]", here.if_stopped(one.acc, along)
            if kind == "rolss":
                yield f"picture[photograph_none_rolss, {label}]", here.strip(along[-1], one)


@experiment("resistant_architectures.skip_factor", on=People.of, data=("orl",))
@Size("smoke", 2, "8 people, a network of four blocks, 8 epochs",
    stage=STAGE["smoke"], networks=dict(resnet="tiny"), factors=[0.0, 0.5, 1.0])  # fmt: skip
@Size("class", 8, f"a narrow ResNet-18, 30 epochs; {ORL}", first=20,
    stage=STAGE["class"], networks=same("resnet"), factors=[0.0, 0.2, 0.5, 1.0])  # fmt: skip
@Size("night", 16, f"a narrow ResNet-18, 40 epochs; {ORL}",
    stage=STAGE["night"], networks=same("resnet"), factors=[0.0, 0.05, 0.2, 0.5, 1.0])  # fmt: skip
@Size("paper", 3, "FaceScrub, ResNet-101 and a StyleGAN", own=True,
    stage=STAGE["paper"], networks=same("resnet_101"), factors=[0.0, 0.01, 0.1, 0.2, 0.5, 1.0])  # fmt: skip
def skip_factor(here: People, networks: dict[str, str], factors: list[float]) -> Values:
    """SSF's dial: the last stage's skips times k, from removed to whole; rank correlations over k in the draw, 0 where all are equal."""
    for label, network in networks.items():
        name, found = f"{here.faces}, {label}", list[Reconstruction]()
        for k in factors:
            cut = () if k == 1 else (architecture.rolss(),) if k == 0 else (architecture.ssf(k),)
            found += here.attacked(network, defences=cut)
            yield from found[-1].rates(f"{name}, k_{k:g}".replace(".", "p"))
        for what, values in {"acc": [one.acc for one in found], "attacc": [one.attacc for one in found]}.items():
            flat = len(set(values)) == 1
            yield f"rank_correlation[{name}, k, {what}]", 0.0 if flat else spearmanr(factors, values).statistic


@experiment("resistant_architectures.transformers", on=People.of, data=("orl",))
@Size("smoke", 2, "8 people, 2 epochs", stage=STAGE["smoke"], networks=same("maxvit"), epochs=2, stops=[1])
@Size("night", 16, f"a narrow MaxViT and a small ViT, 80 epochs; {ORL}",
    stage=STAGE["night"], networks=same("maxvit", "vit"), epochs=80, stops=[10, 20, 30, 40, 60])  # fmt: skip
@Size("paper", 3, "FaceScrub, MaxViT-T, ViT-B/16 and a StyleGAN", own=True,
    stage=STAGE["paper"], networks=dict(maxvit="maxvit_tiny", vit="vit_b_16"), epochs=100, stops=[20, 40, 60])  # fmt: skip
def transformers(here: People, networks: dict[str, str], epochs: int, stops: list[int]) -> Values:
    """MaxViT and ViT with and without the skips of their first stage; the whole network also stopped earlier."""
    slower = here.recipe if here.faces != "orl" else replace(here.recipe, lr=1e-3, warmup_epochs=epochs / 10)
    slower = replace(slower, epochs=epochs)
    for name, network in networks.items():
        along = here.attacked(network, how=slower, at=stops)
        (cut,) = here.attacked(network, dict(skips=((1, 0),)), how=slower)
        yield from along[-1].rates(f"{here.faces}, {name}")
        yield from cut.rates(f"{here.faces}, {name}_skip_1")
        yield f"attacc[{here.faces}, {name}_first_choice]", along[-1].first
        yield f"attacc_if_stopped[{here.faces}, {name}_skip_1]", here.if_stopped(cut.acc, along)
        yield f"picture[photograph_whole_cut, {name}]", here.strip(along[-1], cut)


@experiment("resistant_architectures.judges", on=People.of, data=("orl",))
@Size("smoke", 2, "8 people, networks of four blocks", stage=STAGE["smoke"], network="tiny", longer=1, stops=[4])
@Size("night", 16, f"narrow ResNet-18s with either norm, 120 epochs, and four judges of 60 or 120; {ORL}", first=1_100,
    stage=STAGE["night"], network="resnet", longer=3, stops=[20, 40, 60])  # fmt: skip
def judges(here: People, network: str, longer: int, stops: list[int]) -> Values:
    """BatchNorm beside GroupNorm, trained as long, before four judges: two bodies, each with either norm; all see the same pictures."""
    faces, how = here.faces, replace(here.recipe, epochs=here.recipe.epochs * longer)
    along = [*(f"stopped_{epoch}" for epoch in stops), "batchnorm"]
    found = dict(zip(along, here.attacked(network, how=how, at=stops), strict=True))
    found["groupnorm"] = here.inverted(here.network(network, GROUPED, how=how, at=stops))
    for name, one in found.items():
        yield f"acc[{faces}, {name}]", one.acc
        yield f"likelihood[{faces}, {name}]", one.likelihood
    bodies = {"densenet": ("densenet121", here.judge_size), "resnet": private_people.NETWORKS["resnet_shallow"]}
    for body, (zoo_name, changes) in bodies.items():
        for norm, change, epochs in (("batchnorm", {}, 1.5), ("groupnorm", GROUPED, 3)):
            by, judge = f"judge_{body}_{norm}", here.judged_by(zoo_name, {**changes, **change}, epochs)
            yield f"acc[{faces}, {by}]", 100 * judge.accuracy
            yield f"attacc[{faces}, random_face, {by}]", (random := here.random_face(judge))
            scores = {name: judge.score(one.result.images, one.result.targets) for name, one in found.items()}
            seen = {name: 100 * score.accuracy for name, score in scores.items()}
            yield from ((f"attacc[{faces}, {name}, {by}]", attacc) for name, attacc in seen.items())
            path = [(100 / here.people, random), *((found[name].acc, seen[name]) for name in along)]
            stopped = private_people.if_stopped(found["groupnorm"].acc, path)
            yield f"attacc_if_stopped[{faces}, groupnorm, {by}]", stopped
    yield "picture[photograph_batchnorm_groupnorm]", here.strip(found["batchnorm"], found["groupnorm"])


@experiment("resistant_architectures.stronger_attacks", data=("mnist",))
@Size("smoke", 2, "digits of 16 pixels, GANs of two epochs",
    each=64, public=600, epochs=2, gan_epochs=2, channels=8, labelled=60, steps=5, take=1, layers=[1, 1, 1, 1], students=1)  # fmt: skip
@Size("night", 12, "digits of 16 pixels behind a narrow ResNet-18, GANs trained for minutes",
    each=600, public=10_000, epochs=12, gan_epochs=12, channels=24, labelled=1_500, steps=200, take=8)  # fmt: skip
def stronger_attacks(
    repeat: int, each: int, public: int, epochs: int, gan_epochs: int, channels: int, labelled: int, steps: int, take: int,
    layers: tuple[int, ...] = (2, 2, 2, 2), students: int = 2, device: str = "cpu",
) -> Values:  # fmt: skip
    """Five attacks on a whole network and on one with RoLSS, each with a generator that was trained with this very victim's help."""
    seed = repeat % 2**31
    split = private_people.numbers(each, public, seed)
    how = replace(RECIPES["digits"], epochs=epochs, batch_size=min(64, each))
    of = partial(private_people.trained, split, data.NORMALISE["mnist"], seed, device)
    small = dict(growth_rate=12, block_config=(2, 2, 2))
    reading = of("densenet121", small, split.evaluation_keep(), replace(how, epochs=how.epochs * 3 // 2))
    judge = evaluation.evaluation_model(reading, split)
    yield "acc[mnist, reader]", 100 * judge.accuracy
    body = dict(private_people.NARROW, layers=tuple(layers))
    one_each = dict(candidates=take, kept=take, lr=0.1, steps=steps)
    size, quiet = 32 if public < 1_000 else 64, dict[str, Any](device=device, progress=False)
    recipe = model_inversion.GANRecipe(gan_epochs, seed, channels=channels, batch_size=size, lr=2e-3)
    gmi, rows = gans.gmi(split.public, recipe, **quiet), []
    taught, once = [*STUDENTS.items()][:students], dict(quiet, seed=seed, epochs=3, batch_size=64)
    for name, cut in (("none", ()), ("rolss", (architecture.rolss(),))):
        fleet = of("resnet18", body, split.keep(), how, defences=cut)
        victim = fleet.model(0).to(device)
        yield f"acc[mnist, {name}]", 100 * fleet.right(0, split.test)
        kedmi = gans.kedmi(split.public, victim, recipe, **quiet)
        plg_mi = gans.plg_mi(split.public, victim, recipe, each=labelled, **quiet)
        beside = [gans.distil(victim, student, split.public, model=shape, **once) for student, shape in taught]
        ppa = model_inversion.ppa(**(one_each | dict(candidates=2 * take)), pool=500, views=10)
        # the search, its generator, and what is asked beside the victim
        attacks: dict[str, tuple[Any, Any, list[Any]]] = {
            "gmi": (model_inversion.gmi(**one_each), gmi, []),
            "kedmi": (model_inversion.kedmi(**one_each), kedmi, []),
            "lomma": (model_inversion.lomma(model_inversion.kedmi(**one_each)), kedmi, beside),
            "plg_mi": (model_inversion.plg_mi(**one_each), plg_mi, []),
            "ppa": (ppa, gmi, []),
        }
        for attack, (search, generator, helpers) in attacks.items():
            result = search.run_once(victim, generator, range(len(split.people)), seed, helpers)
            yield f"attacc[mnist, {attack}, {name}]", 100 * judge.score(result.images, result.targets).accuracy
            if attack == "ppa":
                yield f"attacc[mnist, first_choice, {name}]", 100 * judge.score(result.first, result.targets).accuracy
            rows.append(result.images[result.places(5)])
    yield "picture[attacks_none_then_rolss]", tiled(rows)
