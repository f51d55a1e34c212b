"""Gauss-Newton beside Adam and L-BFGS at equal passes, architecture by architecture: how much of a leak is the optimiser's.

Run by `make bench`. Prints a line a run, and writes rows and runs to runs/bench/bench_second_order.json; runs that this file holds are
not made again, so that an interrupted bench goes on. A pass is one gradient of the network, one J v or one J^T u: a step of Adam takes two.
BENCH_PASSES, BENCH_IMAGES and BENCH_SEEDS make it shorter, BENCH_NETS names some of the networks.
"""

import functools
import json
import os
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path
from statistics import median

import pytest
import torch

from privlab import data, metrics
from privlab.atomic import write_atomic
from privlab.attacks import gradient, objectives
from privlab.attacks.second_order import GaussNewton
from privlab.leak import observe
from privlab.models import april, morph, zoo
from privlab.records import Machine

pytestmark = pytest.mark.bench


def setting(name, default):
    return int(os.environ.get(f"BENCH_{name}", default))


PASSES, IMAGES, SEEDS = setting("PASSES", 1_500), setting("IMAGES", 4), setting("SEEDS", 2)
OUT = Path("runs/bench/bench_second_order.json")
KEPT = json.loads(OUT.read_text()) if OUT.exists() else {"rows": [], "runs": []}
ROWS, RUNS = KEPT["rows"], KEPT["runs"]
HALF = dict(width=0.5, depths=(1, 1, 1, 1))
vit = functools.partial(april.build, "b", width=384, depth=4, patch_size=8)
NETS = {
    "vit_std_1": functools.partial(vit, position_std=1.0),
    "vit_std_0p02": functools.partial(vit, position_std=0.02),
    "swin": functools.partial(zoo.build, "swin_cifar"),
    "convnext": functools.partial(zoo.build, "convnext_cifar"),
    "resnet": functools.partial(zoo.build, "resnet_cifar"),
} | {f"morph_{n}": functools.partial(morph.build, n, **HALF) for n in morph.STEPS}
NETS = {name: NETS[name] for name in os.environ.get("BENCH_NETS", ",".join(NETS)).split(",")}


def adam(passes):
    return gradient.annealed(passes // 2)


def lbfgs(passes):
    terms = (gradient.Term("gradients", 1.0, objectives.relative_distance),)
    return gradient.Inversion(terms, passes // 40, lr=1.0, optimiser="lbfgs", schedule=gradient.constant, boxed=False)


METHODS = {"adam": (adam, 2), "lbfgs": (lbfgs, 2), "gauss_newton": (lambda passes: GaussNewton(steps=passes), 1)}


def save():
    found = dict(date=date.today().isoformat(), machine=asdict(Machine.here("cpu")), rows=ROWS, runs=RUNS)
    write_atomic(OUT, json.dumps(found, indent=1).encode())


def search(net, method, image, seed, batch=1):
    """PSNR and seconds where the passes are over; the run on file, if there is one."""
    key = dict(net=net, method=method, image=image, seed=seed, batch=batch, passes=PASSES)
    for one in RUNS:
        if key.items() <= one.items():
            return one
    model = NETS[net](seed=seed).double()
    photos = data.load("cifar10_samples")
    taken = [photos.one((image + i) % len(photos)) for i in range(batch)]
    images, labels = (torch.cat(part) for part in zip(*taken, strict=True))
    leak = observe(model, images, labels)
    make, price = METHODS[method]
    began, best, curve = time.process_time(), None, []
    for state in make(PASSES).search(model, leak, seed=seed):
        passes = price * state.evaluations
        if passes > PASSES:
            break
        best = state
        curve.append((passes, round(metrics.psnr(state.images.float(), images).mean().item(), 2)))
    seconds = time.process_time() - began
    one = key | dict(psnr=curve[-1][1], seconds=seconds, score=best.score, curve=curve[:: max(1, len(curve) // 40)])
    RUNS.append(one)
    save()
    print(
        f"  {net}, {method}, image {image} seed {seed} batch {batch}: {one['psnr']:.1f} dB, {seconds:.0f} s", flush=True
    )
    return one


def row(what, runs, promise=None, holds=None, values=None):
    found = [r["psnr"] for r in runs] if values is None else values
    note = f"{median(r['seconds'] for r in runs):.0f} s in one thread, float64"
    line = dict(
        what=what, median=median(found), low=min(found), high=max(found), n=len(found), unit="dB", promise=promise, holds=holds, note=note
    )  # fmt: skip
    ROWS[:] = [old for old in ROWS if old["what"] != what] + [line]
    save()
    print(
        f"{what}: {line['median']:.1f} dB ({line['low']:.1f} to {line['high']:.1f}, n={line['n']}); {promise or ''} {holds}",
        flush=True,
    )


PROMISES = {("vit_std_1", "gauss_newton"): 45}


@pytest.mark.parametrize("net", NETS)
def test_equal_passes(net):
    found = {m: [search(net, m, i, s) for s in range(SEEDS) for i in range(IMAGES)] for m in METHODS}
    for method, runs in found.items():
        least = PROMISES.get((net, method))
        holds = None if least is None else median(r["psnr"] for r in runs) >= least
        row(f"PSNR after {PASSES:,} passes, {net}, {method}", runs, least and f">= {least} dB", holds)
    gaps = [a["psnr"] - b["psnr"] for a, b in zip(found["gauss_newton"], found["adam"], strict=True)]
    promised = (">= 3 dB", median(gaps) >= 3) if net == "morph_14" else (None, None)
    row(f"Gauss-Newton less Adam, {net}", found["gauss_newton"], *promised, values=gaps)


@pytest.mark.skipif("vit_std_1" not in NETS, reason="BENCH_NETS leaves it out")
def test_a_batch_of_two():
    runs = [search("vit_std_1", "gauss_newton", 2 * i, s, batch=2) for s in range(SEEDS) for i in range(IMAGES // 2)]
    row(
        f"PSNR after {PASSES:,} passes, vit_std_1, batch of 2, gauss_newton",
        runs,
        ">= 22 dB",
        median(r["psnr"] for r in runs) >= 22,
    )
