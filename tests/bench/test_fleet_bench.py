"""A fleet of 16 on two processes beside the same fleet on one, and beside the standard library's pool of processes.

Run by `make bench`; it needs two cores that nothing else uses. Writes rows to runs/bench/bench_fleet.json. Seconds are never asserted:
a row says whether its promise holds. BENCH_ROUNDS makes it shorter.
"""

import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

import pytest
import torch

from privlab import data
from privlab.compute import machine
from privlab.compute.atomic import write_atomic
from privlab.compute.machine import Machine
from privlab.training import Recipe, batches, shadow_models

pytestmark = pytest.mark.bench

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
MODELS, IMAGES = 16, 1_000
RECIPE = Recipe(epochs=12, batch_size=50, lr=2e-3)
TINY = dict(embed_dim=64, depth=4, num_heads=4)
OUT = Path("runs/bench/bench_fleet.json")


def fleet(folder):
    images = batches.subset(data.load("cifar10"), range(IMAGES))
    return shadow_models.make("vit_cifar", RECIPE, images, data.in_out(IMAGES, MODELS, 0), model=TINY, folder=folder)


def alone(made):
    made.train(jobs=1, progress=False)


def by_two(made):
    made.train(jobs=2, progress=False)


def one_thread():
    torch.set_num_threads(1)


def by_a_pool(made):
    """What one would write without `tasks`: the same tasks, no retry and no progress."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, spawn, initializer=one_thread) as pool:
        list(pool.map(partial(shadow_models.train, str(made.folder)), range(MODELS)))


WAYS = {"one process": alone, "two processes": by_two, "ProcessPoolExecutor(2)": by_a_pool}


def same(one, other):
    pairs = zip(one.runs, other.runs, strict=True)
    return all(torch.equal(a.load("weights")[k], w) for a, b in pairs for k, w in b.load("weights").items())


def test_two_processes_against_one(tmp_path):
    if machine.cores() < 2:
        pytest.skip("needs two cores")
    seconds, first = {name: [] for name in WAYS}, None
    for k in range(ROUNDS):
        for name, train in WAYS.items():
            made = fleet(tmp_path / f"{k} {name}")
            began = time.perf_counter()
            train(made)
            seconds[name].append(time.perf_counter() - began)
            first = first or made
            assert same(first, made), f"{name} gave other weights"
    rows = [
        row("one process / two processes", seconds["one process"], seconds["two processes"], 1.7, "the same weights, to the bit"),
        row("ProcessPoolExecutor(2) / two processes", seconds["ProcessPoolExecutor(2)"], seconds["two processes"], None,
            "the standard library's pool, without retry and progress"),
    ]  # fmt: skip
    found = dict(date=date.today().isoformat(), machine=asdict(Machine.here("cpu")), rows=rows, runs=seconds)
    write_atomic(OUT, json.dumps(found, indent=1).encode())


def row(what, ours, other, promise, note):
    ratios = [a / b for a, b in zip(ours, other, strict=True)]
    centre = median(ratios)
    found = dict(
        what=f"{what}, {MODELS} ViTs", median=centre, low=min(ratios), high=max(ratios), n=ROUNDS, unit="×",
        promise=f"at least {promise}" if promise else None, holds=centre >= promise if promise else None,
        note=f"{note}; {median(other):.0f} s with two processes",
    )  # fmt: skip
    print(f"{found['what']}: {centre:.2f} ({min(ratios):.2f} to {max(ratios):.2f}); {found['note']}", flush=True)
    return found
