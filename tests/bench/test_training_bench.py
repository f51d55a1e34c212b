"""Training in bfloat16 beside float32: seconds an epoch, and whether what comes out is the same for accuracy and for LiRA.

Run by `make bench` on one core that nothing else uses. Writes rows to runs/bench/bench_training.json. Seconds are never asserted: a row
says whether its promise holds. BENCH_ROUNDS and BENCH_SEEDS make it shorter. The fleets are kept in the store, so a second call goes on.
"""

import json
import os
import time
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
import torch

from privlab import data, models, training
from privlab.attacks.membership_inference import lira, signals
from privlab.compute.atomic import write_atomic
from privlab.ledger.records import Machine
from privlab.metrics import roc
from privlab.training import Recipe, batches, shadow_models

pytestmark = pytest.mark.bench

ROUNDS, SEEDS = int(os.environ.get("BENCH_ROUNDS", 9)), int(os.environ.get("BENCH_SEEDS", 5))
FAMILIES = {  # lab 01's, and a ResNet that sees its images at full size
    "narrow resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 128), stem="cifar")),
    "resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
    "convnext": ("convnext_cifar", dict(dims=(24, 48, 96, 96))),
}
RECIPE = Recipe(epochs=15, batch_size=64, lr=2e-3, warmup_epochs=1, augment="flip")
MODELS, POOL, HELD_OUT = 8, 2_000, 2_000
PRECISIONS = ("full", "bf16")
OUT = Path("runs/bench/bench_training.json")


def keep(rows):
    """Put rows into the file, in place of earlier ones of the same names."""
    earlier = json.loads(OUT.read_text())["rows"] if OUT.exists() else []
    rows = [r for r in earlier if r["what"] not in {row["what"] for row in rows}] + rows
    content = dict(date=date.today().isoformat(), machine=asdict(Machine.here("cpu")), rows=rows)
    write_atomic(OUT, json.dumps(content, indent=1).encode())


def row(what, values, unit, promise, holds, note):
    result = dict(
        what=what, median=median(values), low=min(values), high=max(values), n=len(values), unit=unit, promise=promise,
        holds=holds, note=note,
    )  # fmt: skip
    print(result, flush=True)
    return result


@pytest.mark.parametrize("family", FAMILIES)
def test_seconds_an_epoch(family):
    name, changes = FAMILIES[family]
    torch.set_num_threads(1)
    images = batches.subset(data.load("cifar10"), range(1_024))
    seconds = {way: [] for way in ("float32, as torch lays out weights", *PRECISIONS)}
    for _ in range(ROUNDS):
        for way, taken in seconds.items():
            recipe = replace(RECIPE, epochs=1, warmup_epochs=0, precision=way if way in PRECISIONS else "full")
            model = models.build(name, seed=0, num_classes=10, **changes)
            if way in PRECISIONS:
                model = model.to(memory_format=torch.channels_last)
            began = time.perf_counter()
            training.fit(model, images, recipe, seed=0, sample=64, progress=False)
            taken.append(time.perf_counter() - began)
    plain, full, bf16 = seconds.values()
    half, promise = (
        [b / f for b, f in zip(bf16, full, strict=True)],
        "at most 0.5" if family == "narrow resnet" else None,
    )
    note = f"in torch's own layout of weights {median(plain) / median(full):.2f} of channels_last in float32"
    keep(
        [
            row(
                f"training a {family}, bf16 / float32",
                half,
                "×",
                promise,
                median(half) <= 0.5 if promise else None,
                note,
            )
        ]
    )


@pytest.mark.parametrize("family", ["resnet", "swin"])
def test_the_same_accuracy_and_the_same_leak(family):
    name, changes = FAMILIES[family]
    everything = data.load("cifar10")
    test = batches.subset(data.load("cifar10", "test"), range(HELD_OUT))
    accuracy, auc = ({p: [] for p in PRECISIONS} for _ in range(2))
    for seed in range(SEEDS):
        pool = batches.subset(everything, range(seed * POOL, (seed + 1) * POOL))
        rows = data.in_out(POOL, MODELS, seed, pairs=True)
        for precision in PRECISIONS:
            recipe = replace(RECIPE, precision=precision)
            fleet = shadow_models.make(
                name, recipe, pool, rows, model=changes | {"num_classes": 10}, normalise=everything.normalise, seed=seed
            )
            fleet.train(jobs=1)
            right = [training.evaluate(fleet.model(m), test)[1] for m in range(MODELS)]
            scores = lira.every_target(fleet.signal(signals.margin), rows, pairs=True)  # (models, n)
            accuracy[precision].append(fmean(right))
            auc[precision].append(fmean(roc.auc(s, k) for s, k in zip(scores, rows, strict=True)))
    rows = []
    for what, unit, values in (("test accuracy", "points", accuracy), ("LiRA AUC", "", auc)):
        scale = 100 if unit else 1
        less = [scale * (b - a) for a, b in zip(values["full"], values["bf16"], strict=True)]
        bound = 0.5 if unit else stdev(values["full"])
        note = f"mean {fmean(less):+.4f}; in float32 {fmean(values['full']):.4f} ± {stdev(values['full']):.4f}; {MODELS} models a seed"
        name_of_row = f"{family}: {what}, bf16 less float32"
        rows.append(row(name_of_row, less, unit, f"mean within {bound:.3g}", abs(fmean(less)) <= bound, note))
    keep(rows)
