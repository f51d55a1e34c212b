"""A fleet of 16 on two processes beside the same fleet on one, and beside the standard library's pool of processes.

It needs two cores that nothing else uses. Seconds are never asserted: a row says whether its promise holds.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import median

import pytest
import torch
from weights import same

from privlab import data
from privlab.compute import machine, tasks
from privlab.training import Recipe, batches, shadow_models

ROUNDS, MODELS, IMAGES = 3, 16, 1_000
RECIPE = Recipe(epochs=12, batch_size=50, lr=2e-3)
TINY = dict(embed_dim=64, depth=4, num_heads=4)


def fleet(folder):
    images = batches.subset(data.load("cifar10"), range(IMAGES))
    made = shadow_models.make("vit_cifar", RECIPE, images, data.in_out(IMAGES, MODELS, 0), model=TINY)
    return replace(made, folder=folder)


def alone(made):
    for m in range(MODELS):
        shadow_models.train(made, m)


def by_two(made):
    work = {str(m): partial(shadow_models.train, made, m) for m in range(MODELS)}
    tasks.fan_out(work, "fleet", jobs=2, progress=False)


def by_a_pool(made):
    """What one would write without `fan_out`: the same tasks, no retry and no progress."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(partial(shadow_models.train, made), range(MODELS)))


WAYS = {"one process": alone, "two processes": by_two, "ProcessPoolExecutor(2)": by_a_pool}


def test_two_processes_against_one(tmp_path, table):
    if machine.cores() < 2:
        pytest.skip("needs two cores")
    first = fleet(tmp_path / "first")
    WAYS["one process"](first)

    def timed(k, name):
        made = fleet(tmp_path / f"{k} {name}")
        began = time.perf_counter()
        WAYS[name](made)
        seconds = time.perf_counter() - began
        pairs = zip(first.runs, made.runs, strict=True)
        assert all(same(a.load("weights"), b.load("weights")) for a, b in pairs), f"{name} gave other weights"
        return dict(seconds=seconds)

    runs = {name: [] for name in WAYS}
    for k in range(ROUNDS):
        for name, found in runs.items():
            found.append(table.kept(partial(timed, k, name), way=name, round=k))

    def row(way, promise, note):
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(runs[way], runs["two processes"], strict=True)]
        promised = (None, None) if promise is None else (f"at least {promise}", median(ratios) >= promise)
        note += f"; {median(run['seconds'] for run in runs['two processes']):.0f} s with two processes"
        table.row(f"{way} / two processes, {MODELS} ViTs", ratios, "×", *promised, note, runs[way])

    row("one process", 1.6, "the same weights, to the bit")
    row("ProcessPoolExecutor(2)", None, "the standard library's pool, without retry and progress")
