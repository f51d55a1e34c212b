"""Do defences against model inversion beat the cheapest one, to stop the undefended training earlier? Eight draws of people.

Run by `make bench`. Writes rows and runs to runs/bench/bench_defences.json. Victims and attacks are kept in the store, so an interrupted
bench goes on. No verdict is asserted here. BENCH_DRAWS makes it shorter.
"""

import json
import os
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from statistics import mean, median

import numpy as np
import pytest

from privlab import data, training
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import cases, evaluation, generator_files, generators
from privlab.compute.atomic import write_atomic
from privlab.compute.machine import Machine
from privlab.data import attributes, private_public
from privlab.defences import architecture, regularisers
from privlab.training import shadow_models

pytestmark = pytest.mark.bench

DRAWS = int(os.environ.get("BENCH_DRAWS", 8))
SEEDS = range(3, 3 + DRAWS)  # lab 12 shows draws 0 to 2, and the penalties' weights were chosen on draw 0
OUT = Path("runs/bench/bench_defences.json")
RECIPE = training.RECIPES["identities_laptop"]
NARROW = dict(channels=(16, 32, 64, 128), zero_init_last=False, in_chans=1)
DENSE = dict(growth_rate=12, block_config=(4, 4, 4, 4), in_chans=1)
STOPS = (4, 6, 8, 10, 15, 20)
# family -> (name in the zoo, how many of the draws, kind -> (changes, defences, how if not by RECIPE)); the first kind is stopped early too
FAMILIES = {
    "ResNet": ("resnet18", DRAWS, {
        "none": (NARROW, ()),
        "RoLSS": (NARROW, (architecture.rolss(),)),
        "RoLSS+": (NARROW, (architecture.rolss_plus(),)),
        "SSF": (NARROW, (architecture.ssf(),)),
        "TTS": (NARROW, (architecture.tts(2, 28),)),
        "BiDO": (NARROW, (regularisers.bido(2, 20),)),
        "BiDO, COCO": (NARROW, (regularisers.bido(1, 10, "coco"),)),
        "MID": (NARROW, (regularisers.mid(0.05, 64),)),
        "none, GroupNorm": (dict(NARROW, norm_layer="groupnorm1"), ()),
        "none, GroupNorm, 90 epochs": (dict(NARROW, norm_layer="groupnorm1"), (), replace(RECIPE, epochs=90)),
    }),
    "DenseNet": ("densenet121", min(DRAWS, 3), {
        "none": (DENSE, ()),
        "RoLSS": (DENSE, (architecture.rolss(),)),
        "SSF": (DENSE, (architecture.ssf(),)),
    }),
}  # fmt: skip
KEPT = json.loads(OUT.read_text()) if OUT.exists() else {"rows": [], "runs": []}


@pytest.mark.parametrize("family", FAMILIES)
def test_defences_beside_stopping_earlier(family):
    zoo_name, draws, kinds = FAMILIES[family]
    orl = attributes.load("orl", size=32)
    split = private_public.draw(orl.pixels, orl["person"], 20, 3, SEEDS)

    def fleet(name, changes, how, rows, defences=(), at=()):
        return shadow_models.make(
            name, how, (split.pixels, split.labels), rows, model=changes, normalise=data.NORMALISE["orl"], at=at, weights=True, seed=3,
            defences=defences,
        )  # fmt: skip

    size = dict(growth_rate=16, block_config=(4, 4, 4), in_chans=1)
    evaluating = fleet("densenet121", size, replace(RECIPE, epochs=45), split.evaluation_keep())
    fleets = {
        kind: fleet(
            zoo_name, changes, *(how or [RECIPE]), split.keep()[:draws], defences, STOPS if kind == "none" else ()
        )
        for kind, (changes, defences, *how) in kinds.items()
    }
    shadow_models.train_all([evaluating, *fleets.values()], jobs=1)
    evaluation_models = evaluation.evaluation_models(evaluating, split)
    kept = [generator_files.save(generators.eigenfaces(draw.public[:2_000], 100)) for draw in split.draws]
    attack = model_inversion.ppa(lr=0.1, pool=1000, candidates=4, kept=4, views=20)  # lab 12's at laptop
    nets = {kind: (of, None) for kind, of in fleets.items()} | {f"stopped at {n}": (fleets["none"], n) for n in STOPS}
    orders = {
        (name, m): cases.Case(of, m, at, kept[m], range(20), attack, seed=SEEDS[m])
        for name, (of, at) in nets.items()
        for m in range(draws)
    }
    runs, points = [], {}
    for (name, m), found in zip(orders, cases.run_cases(list(orders.values()), jobs=1), strict=True):
        (of, at), best = nets[name], found.best(2)
        points[name, m] = (
            of.right(m, split.draws[m].test, at),
            evaluation_models[m].score(best.images, best.targets).accuracy,
        )
        runs.append(dict(family=family, kind=name, draw=SEEDS[m], acc=points[name, m][0], attacc=points[name, m][1]))
    path = ["none", *(name for name in nets if name.startswith("stopped"))]
    for run in runs:
        m = run["draw"] - SEEDS[0]
        x, y = np.array(sorted(points[name, m] for name in path)).T
        level = float(np.interp(run["acc"], x, y, left=np.nan))  # along the checkpoints of the same draw
        run["if_stopped"] = level if np.isfinite(level) else None

    rows = []
    for name in nets:
        mine = [run for run in runs if run["kind"] == name]
        values = [run["attacc"] for run in mine]
        note = f"task {mean(run['acc'] for run in mine):.3f}"
        if name not in path:
            ahead = [run["if_stopped"] - run["attacc"] for run in mine if run["if_stopped"] is not None]
            note += f"; {mean(ahead):.3f} ± {np.std(ahead, ddof=1):.3f} (n={len(ahead)}) below a network stopped at its accuracy"
        ends = dict(median=median(values), low=min(values), high=max(values), n=len(values))
        rows.append(dict(what=f"{family}: {name}", **ends, unit="attack accuracy", promise=None, holds=None, note=note))
        print(
            f"{family}: {name:<18} {ends['median']:.3f} ({ends['low']:.3f} to {ends['high']:.3f}); {note}", flush=True
        )
    KEPT["rows"] = [row for row in KEPT["rows"] if not row["what"].startswith(family)] + rows
    KEPT["runs"] = [run for run in KEPT["runs"] if run["family"] != family] + runs
    found = KEPT | dict(date=date.today().isoformat(), machine=asdict(Machine.here("cpu")))
    write_atomic(OUT, json.dumps(found, indent=1).encode())
