"""Where do skip connections matter to a model inversion? Over depth, prior, data and resolution; and what a step of PPA costs at full size.

Run by `make bench`. Writes rows and runs to runs/bench/bench_skips.json. Victims and attacks are kept in the run store, so an interrupted
bench goes on; what the file holds is not made again: remove it to begin anew. No verdict is asserted here.
BENCH_DRAWS and BENCH_CELLS (names, separated by commas) make it shorter.
"""

import json
import os
import time
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from statistics import mean, median

import pytest
import torch
import torch.nn.functional as F

from privlab import data, models, training
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import cases, dcgan, evaluation, generator_files, generators, gradient_flow
from privlab.compute.atomic import write_atomic
from privlab.compute.machine import Machine
from privlab.data import attributes, private_public
from privlab.training import shadow_models

pytestmark = pytest.mark.bench

DRAWS = int(os.environ.get("BENCH_DRAWS", 3))
OUT = Path("runs/bench/bench_skips.json")
KEPT = json.loads(OUT.read_text()) if OUT.exists() else {"rows": [], "runs": []}
ROWS, RUNS = KEPT["rows"], KEPT["runs"]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VARIANTS = {
    "full": (),
    "skip_1": ((1, 0),),
    "skip_2": ((2, 0),),
    "skip_3": ((3, 0),),
    "skip_4": ((4, 0),),
    "none_left": tuple((stage, 0) for stage in (1, 2, 3, 4)),
}
NARROW = dict(channels=(16, 32, 64, 128), zero_init_last=False, in_chans=1)
FACES, DIGITS = training.RECIPES["identities"], training.RECIPES["digits"]
# name: (data, prior, side, zoo name, changes)
CELLS = {
    "orl, 2 blocks a stage": ("orl", "eigenfaces", 32, "resnet18", NARROW),
    "orl, 1 block a stage": ("orl", "eigenfaces", 32, "resnet18", dict(NARROW, layers=(1, 1, 1, 1))),
    "orl, 4 blocks a stage": ("orl", "eigenfaces", 32, "resnet18", dict(NARROW, layers=(4, 4, 4, 4))),
    "orl, 64 pixels": ("orl", "eigenfaces", 64, "resnet18", NARROW),
    "orl, ResNet-50's blocks": ("orl", "eigenfaces", 32, "resnet50", dict(NARROW, channels=(8, 16, 32, 64))),
    "orl, DenseNet": ("orl", "eigenfaces", 32, "densenet121", dict(growth_rate=12, block_config=(4, 4, 4, 4), in_chans=1)),
    "orl, MaxViT": (
        "orl", "eigenfaces", 32, "maxvit_pico_rw_256",
        dict(img_size=32, embed_dim=(16, 32, 64, 128), depths=(1, 1, 2, 1), stem_width=(8, 16), transformer_dim_head=16, in_chans=1),
    ),
    "digits, eigenfaces": ("mnist", "eigenfaces", 32, "resnet18", NARROW),
    "digits, DCGAN": ("mnist", "dcgan", 32, "resnet18", NARROW),
}  # fmt: skip
SLOWER = {"orl, MaxViT": dict(epochs=80, lr=1e-3, warmup_epochs=8)}  # in half as many it learns less than a ResNet


def save():
    found = dict(date=date.today().isoformat(), machine=asdict(Machine.here(DEVICE)), rows=ROWS, runs=RUNS)
    write_atomic(OUT, json.dumps(found, indent=1).encode())


def row(what, values, unit, note=""):
    values = list(values)
    ends = dict(median=median(values), low=min(values), high=max(values), n=len(values))
    line = dict(what=what, **ends, unit=unit, promise=None, holds=None, note=note)
    ROWS[:] = [old for old in ROWS if old["what"] != what] + [line]
    save()
    print(
        f"{what:<60} {line['median']:.3g} {unit} ({line['low']:.3g} to {line['high']:.3g}, n={len(values)}); {note}",
        flush=True,
    )


def stage(kind, side):
    """The split, the recipe and the normalisation of a set; the classes to attack."""
    if kind == "orl":
        orl = attributes.load("orl", size=side)
        return private_public.draw(orl.pixels, orl["person"], 20, 3, range(DRAWS)), FACES, data.NORMALISE["orl"]
    mnist = data.load("mnist")
    pixels = F.pad(mnist.pixels[:30_000], (2, 2, 2, 2))
    split = private_public.draw(pixels, mnist.labels[:30_000], range(5), 200, range(DRAWS), each=600, public=10_000)
    return split, DIGITS, data.NORMALISE["mnist"]


def evaluation_models(split, recipe, normalise):
    """A DenseNet on all private photographs of each draw, believed as far as its twin on the training part is right."""
    small = split.pixels.shape[-1] > 32  # 32 pixels are worth the time of a larger one
    size = dict(growth_rate=12, block_config=(2, 2, 2)) if small else dict(growth_rate=16, block_config=(4, 4, 4))
    settings = dict(size, in_chans=1)
    recipe = replace(recipe, epochs=recipe.epochs * 3 // 2)
    made = shadow_models.make(
        "densenet121",
        recipe,
        (split.pixels, split.labels),
        split.evaluation_keep(),
        model=settings,
        normalise=normalise,
        seed=100,
    )
    made.train(jobs=1)
    return evaluation.evaluation_models(made, split)


@pytest.mark.parametrize("cell", [c for c in CELLS if c in os.environ.get("BENCH_CELLS", c).split(";")])
def test_where_skips_matter(cell):
    if any(run["cell"] == cell for run in RUNS):
        pytest.skip(f"{OUT} holds it")
    kind, prior, side, name, changes = CELLS[cell]
    split, recipe, normalise = stage(kind, side)
    asked = evaluation_models(split, recipe, normalise)
    recipe = replace(recipe, **SLOWER.get(cell, {}))
    chosen = {v: VARIANTS[v] for v in ("full", "skip_4", "none_left")} if side > 32 else VARIANTS
    early = max(1, recipe.epochs * 3 // 8)
    fleets = {
        variant: shadow_models.make(
            name, recipe, (split.pixels, split.labels), split.keep(), model={**changes, "skips": skips}, normalise=normalise, at=(early,),
            weights=True, seed=0, device=DEVICE,
        )
        for variant, skips in chosen.items()
    }  # fmt: skip
    shadow_models.train_all(fleets.values(), jobs=1)
    if prior == "dcgan":
        priors = [
            dcgan.dcgan(draw.public, model_inversion.GANRecipe(epochs=8, seed=i, channels=16), device=DEVICE)
            for i, draw in enumerate(split.draws)
        ]
    else:
        priors = [generators.eigenfaces(draw.public[:2_000], 100) for draw in split.draws]
    kept = [generator_files.save(prior) for prior in priors]
    people = len(split.draws[0].people)
    attack = model_inversion.ppa(lr=0.1, pool=500, candidates=80 // people, kept=40 // people, views=10)
    attempts = {
        (variant, i, at): cases.Case(fleet, i, at, kept[i], range(people), attack, seed=i)
        for variant, fleet in fleets.items()
        for i in range(DRAWS)
        for at in (early, None)
    }
    for (variant, i, at), found in zip(attempts, cases.run_cases(list(attempts.values()), jobs=1), strict=True):
        model = fleets[variant].model(i, at)
        acc = fleets[variant].right(i, split.draws[i].test, at)
        verdict = asked[i].score(found.images, found.targets, model)
        back = gradient_flow.norms(model, found.first, found.targets)
        RUNS.append(
            dict(
                cell=cell,
                variant=variant,
                draw=i,
                epochs=at or recipe.epochs,
                acc=acc,
                attacc=verdict.accuracy,
                knn=verdict.knn.mean().item(),
                likelihood=found.likelihood.mean().item(),
                judge=asked[i].accuracy,
                first=asked[i].score(found.first, found.targets).accuracy,
                norms={str(where): norm.median().item() for where, norm in back.items()},
            )
        )
    save()
    mine = [run for run in RUNS if run["cell"] == cell]
    for variant in chosen:
        last, full = ([r for r in mine if (r["variant"], r["epochs"]) == (v, recipe.epochs)] for v in (variant, "full"))
        drop = mean(a["attacc"] - b["attacc"] for a, b in zip(full, last, strict=True))
        points = [[(r["acc"], r["attacc"]) for r in mine if r["variant"] == v] for v in ("full", variant)]
        equal = evaluation.at_equal_accuracy(*points)
        note = f"task {mean(r['acc'] for r in last):.3f}; {drop:.3f} below full, {equal:.3f} at equal task accuracy"
        row(f"{cell}: {variant}", [r["attacc"] for r in last], "attack accuracy", note)
    row(f"{cell}: the judges", [each.accuracy for each in asked], "held-out accuracy")


@pytest.mark.parametrize("name", ["resnet18", "resnet101"])
def test_what_a_step_of_ppa_costs_at_224_pixels(name):
    """Seconds of one step divided by the candidates in it, all of one class in one batch, eigenfaces of 100 components as the generator."""
    model = models.build(name, 530).to(DEVICE)
    rows = torch.rand(120, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    prior = generators.eigenfaces(rows, 100).to(DEVICE)
    for candidates in (1, 8):
        attack = model_inversion.ppa(pool=candidates, candidates=candidates, kept=candidates, steps=4, views=0)
        times, began = [], None
        for state in attack.search(model, prior, [0]):
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            if began is not None and state.step > 1:
                times.append((now - began) / candidates)
            began = now
        row(
            f"PPA on {name} at 224 pixels, {candidates} candidates of a class in a batch",
            times,
            "s a candidate and step",
            DEVICE,
        )
