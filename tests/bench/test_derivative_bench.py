"""What a search by differences finds and takes, beside the exact one: PSNR, memory, and the price of being turned down.

Run by `make bench`; seconds a step stand in test_gradient_bench.py, beside breaching's. Writes rows and runs to
runs/bench/bench_derivative.json; runs that this file holds are not made again, so that an interrupted bench goes on.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from statistics import fmean, median

import pytest
import torch
import torch.nn.functional as F

from privlab import data, metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import activation_patterns
from privlab.compute.atomic import write_atomic
from privlab.leak import observe
from privlab.ledger.records import Machine

pytestmark = pytest.mark.bench


def setting(name, default):
    return int(os.environ.get(f"BENCH_{name}", default))


PHOTOGRAPHS, MOVED, STEPS, ROUNDS = setting("PHOTOGRAPHS", 12), setting("MOVED", 5), 200, setting("ROUNDS", 9)
OUT = Path("runs/bench/bench_derivative.json")
KEPT = json.loads(OUT.read_text()) if OUT.exists() else {"rows": [], "runs": []}
ROWS, RUNS = KEPT["rows"], KEPT["runs"]
FAMILIES = ["convnext_cifar", "resnet_cifar", "swin_cifar", "vit_cifar"]


def save():
    table = dict(date=date.today().isoformat(), machine=asdict(Machine.here("cpu")), rows=ROWS, runs=RUNS)
    write_atomic(OUT, json.dumps(table, indent=1).encode())


def row(what, values, unit, promise, holds, note=""):
    line = dict(
        what=what, median=median(values), low=min(values), high=max(values), n=len(values), unit=unit, promise=promise, holds=holds,
        note=note,
    )  # fmt: skip
    ROWS[:] = [old for old in ROWS if old["what"] != what] + [line]
    save()
    print(
        f"{what}: {line['median']:.3f} {unit} ({line['low']:.3f} to {line['high']:.3f}, n={line['n']}) {promise} {holds} {note}"
    )


def kept(key, make):
    """The run on file under these settings, or a new one."""
    for one in RUNS:
        if key.items() <= one.items():
            return one
    RUNS.append(key | make())
    save()
    print(f"  {RUNS[-1]}", flush=True)
    return RUNS[-1]


# -- what is found ---------------------------------------------------------------------------------------------------------


def search(name, i, kind, moved=0):
    """PSNR after 200 steps on photograph i and weights i.  moved: which of the starts, each 1e-6 from the first."""

    def make():
        model = models.build(name, seed=i)
        image, label = data.load("cifar10_samples").one(i)
        noise = torch.Generator().manual_seed(i)
        start = torch.rand(image.shape, generator=noise)
        for _ in range(moved):
            step = torch.randn(image.shape, generator=noise)
        start = (start + 1e-6 * step).clamp(0, 1) if moved else start
        attack = replace(gradient_inversion.annealed(STEPS), derivative=kind)
        began = time.process_time()
        result = attack.run(model, observe(model, image, label), start=start, progress=False)
        psnr = metrics.psnr(result.images, image).item()
        return dict(psnr=round(psnr, 3), seconds=round(time.process_time() - began, 1), taken=result.derivatives)

    return kept(dict(net=name, image=i, derivative=kind, moved=moved), make)


@pytest.mark.parametrize("i", range(PHOTOGRAPHS))
@pytest.mark.parametrize("moved", range(MOVED + 1))
def test_searches(moved, i):
    """Photograph by photograph, so that a bench that is stopped early has some of every family."""
    for name in FAMILIES:
        for kind in ("exact", "auto")[: 1 if moved else 2]:
            assert search(name, i, kind, moved)["psnr"] > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_found(name):
    made = {(r["image"], r["derivative"], r["moved"]): r for r in RUNS if r.get("net") == name and "psnr" in r}
    pairs = [i for i in range(PHOTOGRAPHS) if {(i, "exact", 0), (i, "auto", 0)} <= made.keys()]
    gaps = [made[i, "auto", 0]["psnr"] - made[i, "exact", 0]["psnr"] for i in pairs]
    mean = fmean(gaps)
    row(
        f"PSNR, auto less exact, {name}",
        gaps,
        "dB",
        "within .3 dB in the mean",
        abs(mean) <= 0.3,
        f"mean {mean:+.3f} dB",
    )
    inside, widths = [], []
    for i in pairs:
        cloud = [made[i, "exact", m]["psnr"] for m in range(MOVED + 1) if (i, "exact", m) in made]
        if len(cloud) > MOVED:
            inside.append(min(cloud) <= made[i, "auto", 0]["psnr"] <= max(cloud))
            widths.append(max(cloud) - min(cloud))
    if inside:
        what = f"spread of {MOVED + 1} exact searches, starts 1e-6 apart, {name}"
        row(
            what,
            widths,
            "dB",
            "auto lies within",
            all(inside),
            f"{sum(inside)} of {len(inside)} do, and {MOVED} of {MOVED + 2} of equals would",
        )


# -- what it takes ---------------------------------------------------------------------------------------------------------


def test_a_part_that_auto_does_not_know(monkeypatch):
    """The small ResNet with its ReLU off the list: 200 exact steps, three of them with a comparison."""
    monkeypatch.delitem(activation_patterns.CHOICES, F.relu)
    model = models.build("resnet_cifar", seed=0)
    image, label = data.load("cifar10_samples").one(0)
    leak, ratios = observe(model, image, label), []
    for turn in range(ROUNDS):
        seconds = {}
        for kind in ("exact", "auto") if turn % 2 else ("auto", "exact"):
            attack, began = replace(gradient_inversion.annealed(STEPS), derivative=kind), time.process_time()
            *_, last = attack.search(model, leak)
            seconds[kind] = time.process_time() - began
            assert last.derivatives == {"exact": STEPS + 1, "difference": 0}
        ratios.append(seconds["auto"] / seconds["exact"])
    row("seconds of auto over exact, a part that it does not know", ratios, "×", "≤ 1.05 ×", median(ratios) <= 1.05)


MEMORY = """
import resource, sys, torch
from dataclasses import replace
from privlab import models
from privlab.attacks import gradient_inversion
from privlab.leak import observe
kind, batch = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
model = models.build("vit_base_patch16_224", num_classes=10, seed=0)
images = torch.rand(batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))
leak = observe(model, images, torch.arange(batch))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
before = peak()
states = replace(gradient_inversion.annealed(3), derivative=kind).search(model, leak)
for _ in range(3):
    next(states)
print(peak() - before)
"""


@pytest.mark.parametrize("batch", [1, 4])
def test_memory(batch):
    """Beyond what observing took, in a process of its own; of "difference", since a comparison takes what the exact way takes."""

    def taken(kind):
        def make():
            done = subprocess.run(
                [sys.executable, "-c", MEMORY, kind, str(batch)], capture_output=True, text=True, check=True
            )
            return dict(gigabytes=float(done.stdout))

        return kept(dict(memory="vit_base_patch16_224", batch=batch, derivative=kind), make)["gigabytes"]

    exact, difference = taken("exact"), taken("difference")
    note = f"{difference:.2f} GB for {exact:.2f} GB"
    what = f"memory of a step beyond observe's, difference over exact, ViT-B/16 at 224 px, batch {batch}"
    row(what, [difference / exact], "×", "≤ .85 ×", difference <= 0.85 * exact, note)
