"""Training in bfloat16 beside float32: seconds an epoch, and whether what comes out is the same for accuracy and for LiRA.

Fleets are kept in the store. Seconds are never asserted: a row says whether its promise holds. One row: -k "seconds_an_epoch and narrow".
"""

import itertools
import time
from dataclasses import replace
from functools import partial
from statistics import fmean, stdev

import pytest
import torch

from privlab import data, models, training
from privlab.attacks.membership_inference import lira, signals
from privlab.metrics import roc
from privlab.training import Recipe, batches, shadow_models

ROUNDS, SEEDS = 9, 5
FAMILIES = {  # lab 01's, and a ResNet that sees its images at full size
    "narrow resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 128), stem="cifar")),
    "resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
    "convnext": ("convnext_cifar", dict(dims=(24, 48, 96, 96))),
}
RECIPE = Recipe(epochs=15, batch_size=64, lr=2e-3, warmup_epochs=1, augment="flip")
MODELS, POOL, HELD_OUT = 8, 2_000, 2_000
PRECISIONS, PLAIN = ("full", "bf16"), "float32, as torch lays out weights"


def an_epoch(name, changes, images, turn):
    """Seconds of an epoch each way, by the clock and of this process."""
    seconds = {}
    for way in (PLAIN, *PRECISIONS) if turn % 2 else (*PRECISIONS, PLAIN):
        recipe = replace(RECIPE, epochs=1, warmup_epochs=0, precision="full" if way == PLAIN else way)
        model = models.build(name, seed=0, num_classes=10, **changes)
        if way != PLAIN:
            model = model.to(memory_format=torch.channels_last)
        began = time.perf_counter(), time.process_time()
        training.fit(model, images, recipe, seed=0)
        seconds[way] = time.perf_counter() - began[0], time.process_time() - began[1]
    return dict(seconds=seconds)


@pytest.mark.parametrize("family", FAMILIES)
def test_seconds_an_epoch(family, table):
    name, changes = FAMILIES[family]
    torch.set_num_threads(1)
    images = batches.subset(data.load("cifar10"), range(1_024))
    runs = table.rounds(ROUNDS, partial(an_epoch, name, changes, images), epoch=family)
    plain, full, bf16 = (torch.tensor([run["seconds"][way] for run in runs]) for way in (PLAIN, *PRECISIONS))
    promise = "at most 0.5" if family == "narrow resnet" else None
    for beside, theirs in {"float32": full, PLAIN: plain}.items():
        ratios = bf16 / theirs
        ratio, computed = ratios.quantile(0.5, dim=0).tolist()
        note = f"{computed:.3f} × in seconds of this process alone"
        what = f"training a {family}, bf16 / {beside}"
        table.row(what, ratios[:, 0].tolist(), "×", promise, ratio <= 0.5 if promise else None, note, runs)


def a_fleet(seed, precision):
    """Mean test accuracy of its models, and LiRA's mean AUC."""
    name, changes = FAMILIES["resnet"]
    everything = data.load("cifar10")
    test = batches.subset(data.load("cifar10", "test"), range(HELD_OUT))
    pool = batches.subset(everything, range(seed * POOL, (seed + 1) * POOL))
    rows = data.in_out(POOL, MODELS, seed, pairs=True)
    fleet = shadow_models.make(
        name, replace(RECIPE, precision=precision), pool, rows, model=changes | {"num_classes": 10},
        normalise=everything.normalise, seed=seed,
    )  # fmt: skip
    for m in range(MODELS):
        shadow_models.train(fleet, m)
    margins = [signals.margin(fleet.logits(m), fleet.labels).T for m in range(MODELS)]  # (n, queries) each
    scores = lira.every_target(torch.stack(margins), rows, pairs=True)  # (models, n)
    right = [training.evaluate(fleet.model(m), test) for m in range(MODELS)]
    return dict(accuracy=fmean(right), auc=fmean(roc.auc(s, k) for s, k in zip(scores, rows, strict=True)))


def test_the_same_accuracy_and_the_same_leak(table):
    """Seed by seed: photographs, weights and order are the same, and the precision another."""
    runs = {
        one: table.kept(partial(a_fleet, *one), fleet="resnet", seed=one[0], precision=one[1])
        for one in itertools.product(range(SEEDS), PRECISIONS)
    }
    for what, key, unit, scale in (("test accuracy", "accuracy", "points", 100), ("LiRA AUC", "auc", "AUC", 1)):
        full, bf16 = ([scale * runs[seed, precision][key] for seed in range(SEEDS)] for precision in PRECISIONS)
        less = [b - f for f, b in zip(full, bf16, strict=True)]
        bound = 0.5 if unit == "points" else stdev(full)
        note = f"mean {fmean(less):+.3g}; in float32 {fmean(full):.4g} ± {stdev(full):.2g}; {MODELS} models a seed"
        holds = abs(fmean(less)) <= bound
        table.row(f"resnet: {what}, bf16 less float32", less, unit, f"mean within {bound:.2g}", holds, note)
