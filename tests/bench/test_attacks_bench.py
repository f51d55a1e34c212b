"""Five model inversions on the same victims: GMI, KEDMI, PLG-MI, LOMMA on KEDMI, and PPA, with and without the last stage's skips.

Run by `make bench`. Writes rows and runs to runs/bench/bench_attacks.json. Victims, GANs, students and attacks are kept in the store, so
an interrupted bench goes on; what the file holds is not made again: remove it to begin anew. No verdict is asserted here.
"""

import functools
import time
from dataclasses import replace
from statistics import median

import pytest
import torch
import torch.nn.functional as F

from privlab import data, training
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import evaluation, gans
from privlab.data import attributes, private_public
from privlab.training import shadow_models

pytestmark = pytest.mark.bench

SEEDS = range(1, 4)  # step lengths were chosen on draw 0, so it does not count
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NARROW = dict(channels=(16, 32, 64, 128), zero_init_last=False, in_chans=1)
VARIANTS = {"full": (), "skip_4": ((4, 0),)}
STUDENTS = {
    "densenet121": dict(growth_rate=8, block_config=(2, 2, 2), in_chans=1),
    "resnet18": dict(NARROW, channels=(16, 32, 32, 64)),
}
# name: epochs of the GANs, and of PLG-MI's (which has fewer images an epoch), images of each class for its labels, epochs of students
SIZES = {"mnist": (8, 9, 1000, 3), "orl": (100, 60, 10, 40)}


def stage(kind, seed):
    """The split, the recipe and the normalisation of a set, at 32 pixels."""
    if kind == "orl":
        orl = attributes.load("orl", size=32)
        split = private_public.draw(orl.pixels, orl["person"], 20, 3, seed)
        return split, training.RECIPES["identities"], data.NORMALISE["orl"]
    mnist = data.load("mnist")
    pixels = F.pad(mnist.pixels[:30_000], (2, 2, 2, 2))
    split = private_public.draw(pixels, mnist.labels[:30_000], range(5), 200, seed, each=600, public=6_000)
    return split, training.RECIPES["digits"], data.NORMALISE["mnist"]


def evaluation_model(split, recipe, normalise, seed):
    """A DenseNet on all private photographs, believed as far as its twin on the training part is right."""
    settings = dict(growth_rate=16, block_config=(4, 4, 4, 4), in_chans=1)
    recipe = replace(recipe, epochs=recipe.epochs * 3 // 2)
    made = shadow_models.make(
        "densenet121",
        recipe,
        (split.pixels, split.labels),
        split.evaluation_keep(),
        model=settings,
        normalise=normalise,
        seed=100 + seed,
    )
    for m in range(len(made.keep)):
        shadow_models.train(made, m)
    return evaluation.evaluation_model(made, split)


def attacks(kind, model, public, people):
    """Each by its name: the attack, its generator, the models beside the target, and the seconds that training these took."""
    gan, guided, each, taught = SIZES[kind]
    recipe = model_inversion.GANRecipe(gan, seed=0, channels=16, batch_size=64 if kind == "mnist" else 20)
    teach = dict(seed=0, epochs=taught, batch_size=recipe.batch_size, device=DEVICE)
    take = max(1, 40 // people)
    short = dict(candidates=take, kept=take, steps=60, lr=0.1)  # of steps as long as PPA's
    kedmi, kedmi_s = timed(lambda: gans.kedmi(public, model, recipe, device=DEVICE))
    gmi, gmi_s = timed(lambda: gans.gmi(public, recipe, device=DEVICE))
    faster = replace(recipe, epochs=guided, lr=3e-3)
    plg_mi, plg_mi_s = timed(lambda: gans.plg_mi(public, model, faster, each=each, device=DEVICE))
    students = [functools.partial(gans.distil, model, name, public, model=size) for name, size in STUDENTS.items()]
    beside, students_s = timed(lambda: [student(**teach) for student in students])
    ppa = model_inversion.ppa(lr=0.1, pool=500, candidates=2 * take, kept=take, views=10)
    return {
        "GMI": (model_inversion.gmi(**short), gmi, [], gmi_s),
        "KEDMI": (model_inversion.kedmi(**short), kedmi, [], kedmi_s),
        "PLG-MI": (model_inversion.plg_mi(**short), plg_mi, [], plg_mi_s),
        "LOMMA": (model_inversion.lomma(model_inversion.kedmi(**short)), kedmi, beside, kedmi_s + students_s),
        "PPA": (ppa, gmi.generator, [], gmi_s),
    }


def timed(make):
    """What it makes, and the seconds it took; next to none where the store had it."""
    began = time.perf_counter()
    return make(), time.perf_counter() - began


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", SIZES)
def test_what_each_attack_brings_back(kind, variant, table):
    def attacked(split, asked, fleet, model, seed, attack, generator, beside, trained_s):
        found, seconds = timed(lambda: attack.run_once(model, generator, range(len(split.people)), seed, beside))
        verdict = asked.score(found.images, found.targets)
        return dict(
            acc=fleet.right(0, split.test), attacc=verdict.accuracy, knn=verdict.knn.mean().item(),
            likelihood=found.likelihood.mean().item(), first=asked.score(found.first, found.targets).accuracy,
            judge=asked.accuracy, trained_s=trained_s, seconds=seconds,
        )  # fmt: skip

    mine = {}
    for seed in SEEDS:
        split, recipe, normalise = stage(kind, seed)
        asked = evaluation_model(split, recipe, normalise, seed)
        fleet = shadow_models.make(
            "resnet18", recipe, (split.pixels, split.labels), split.keep(), model={**NARROW, "skips": VARIANTS[variant]},
            normalise=normalise, weights=True, seed=seed, device=DEVICE,
        )  # fmt: skip
        shadow_models.train(fleet, 0)
        model = fleet.model(0).to(DEVICE)
        for name, made in attacks(kind, model, split.public, len(split.people)).items():
            make = functools.partial(attacked, split, asked, fleet, model, seed, *made)
            run = table.kept(make, set=kind, variant=variant, draw=seed, attack=name)
            mine.setdefault(name, []).append(run)
    for name, runs in mine.items():
        note = f"began at {median(run['first'] for run in runs):.3f}; {median(run['trained_s'] + run['seconds'] for run in runs):.0f} s"
        table.row(f"{kind}, {variant}: {name}", [run["attacc"] for run in runs], "attack accuracy", note=note)
