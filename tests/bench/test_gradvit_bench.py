"""GradViT beside other presets: memory of a step, and what equal seconds of each of them find.

Seconds and memory are not asserted: a row says whether its promise holds. Memory is measured on a GPU where there is one, equal seconds
always in one thread of a CPU.
"""

import functools
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest
import torch

from privlab import data, metrics, models
from privlab.attacks import gradient_inversion
from privlab.compute import machine
from privlab.leak import observe
from privlab.models import zoo

SECONDS, IMAGES, SEEDS = 20, 4, 2
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GIB = 2**30
prior = functools.cache(zoo.efficientnet_lite0)
NAMES = ("dlg", "idlg", "inverting_gradients", "tag", "april", "gradinversion")
PRESETS = {name: getattr(gradient_inversion, name) for name in NAMES}
PRESETS["gradvit"] = lambda steps: gradient_inversion.gradvit(steps, prior())


def step(preset, name, batch, chunk):
    """GiB of one step: {"step": above what model and leak take, "whole": of the process, or on a GPU of all tensors}."""
    victims = {"vit_cifar": dict(num_classes=10), "vit_base_patch16_224": dict(num_classes=1000)}
    model = models.build(name, **victims[name]).to(DEVICE)
    pictures = torch.rand(batch, 3, *model.patch_embed.img_size, generator=torch.Generator().manual_seed(0))
    leak = observe(model, pictures[:1], torch.tensor([0]))
    grads = {n: g / batch for n, g in leak.grads.items()}
    for i in range(1, batch):  # one by one, because the client's own step is not what is measured
        for n, g in observe(model, pictures[i : i + 1], torch.tensor([i])).grads.items():
            grads[n] += g / batch
    leak = replace(leak, grads=grads, batch_size=batch, labels=None if preset == "dlg" else torch.arange(batch))
    attack = PRESETS[preset](1)
    if DEVICE == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")  # what building took at its height is forgotten (Linux)
        before = psutil.Process().memory_info().rss
        resource.setrlimit(resource.RLIMIT_DATA, (psutil.virtual_memory().available, resource.RLIM_INFINITY))
    if name == "vit_cifar":  # two evaluations, before the step and after it, in which every term counts
        list(attack.search(model, leak, chunk=chunk))
    else:  # the one before it, every term counting
        next(attack.unscheduled().search(model, leak, chunk=chunk))
    peak = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else machine.peak_gb() * 1e9
    return {"step": (peak - before) / GIB, "whole": peak / GIB}


def apart(*arguments):
    """What `step` finds in a fresh process, with the seconds that it took; None where it ran out of memory."""
    began = time.perf_counter()
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root, "MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed goes back at once
    command = [sys.executable, __file__, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode and ("OutOfMemoryError" in done.stderr or "MemoryError" in done.stderr or done.returncode < 0):
        return None
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"seconds": time.perf_counter() - began}


@pytest.mark.parametrize("batch", [1, 4])
def test_memory_of_a_step(batch, table):
    for preset in PRESETS:
        found = apart(preset, "vit_cifar", batch, None)
        note = f"above model and leak; the whole process {found['whole']:.2f} GiB"
        table.row(f"memory of a step, vit_cifar, batch {batch}, {preset}", [found["step"]], "GiB", note=note)


@pytest.mark.parametrize("chunk", [1, 2, None])
def test_gradvit_of_a_vit_b_fits_in_15_gb(chunk, table):
    found = apart("gradvit", "vit_base_patch16_224", 8, chunk)
    note = "did not fit into the memory that was free" if found is None else (
        f"{found['step']:.2f} GiB above model and leak; {found['seconds']:.0f} s with building the model"
    )  # fmt: skip
    what = f"memory, gradvit, ViT-B/16, 224 px, batch 8, group 2, {'whole' if chunk is None else f'chunk {chunk}'}"
    values = [None] if found is None else [found["whole"]]
    if DEVICE == "cpu":
        note += "; memory of a CPU, which says what a GPU would need and does not prove it"
    table.row(what, values, "GiB", "fits in 15 GB", found is not None and values[0] * GIB <= 15e9, note)


def victim(std, i, seed):
    """A fresh model, an image (1, 3, 32, 32), and what a step on it sends, label included."""
    model = models.build("vit_cifar", seed=seed, position_std=std)
    image, label = data.load("cifar10_samples").one(i)
    return model, image, observe(model, image, label)


@functools.cache
def affordable(table, attack):
    """How many steps fill SECONDS of this process, by a short run through all stages, once warm; as on file, if it is there."""
    if there := [run["steps"] for run in table.runs if (run["attack"], run["budget"]) == (attack, SECONDS)]:
        return there[0]
    model, _, leak = victim(1.0, 0, 0)
    for _ in range(2):
        stamps = [time.process_time() for _ in PRESETS[attack](16).search(model, leak)]
    return max(2, round(SECONDS * 16 / (stamps[-1] - stamps[0])))


def run(table, attack, std, i, seed):
    """One search that takes SECONDS: PSNR and LPIPS of what it found. The one on file, if there is one."""

    def made():
        model, image, leak = victim(std, i, seed)
        inversion = PRESETS[attack](affordable(table, attack))
        began = time.process_time()
        found = inversion.run(model, leak, seed=seed, snapshots=0, progress=False)
        seconds = time.process_time() - began
        psnr, lpips = (measure(found.images, image).item() for measure in (metrics.psnr, metrics.lpips))
        return dict(steps=inversion.steps, seconds=seconds, psnr=psnr, lpips=lpips, score=found.score)

    return table.kept(made, attack=attack, position_std=std, image=i, seed=seed, budget=SECONDS)


def test_equal_seconds(table):
    attacks = ["gradvit", "inverting_gradients", "april"]
    found = {}
    for std, seed, i, attack in itertools.product((0.02, 1.0), range(SEEDS), range(IMAGES), attacks):
        found.setdefault((std, attack), []).append(run(table, attack, std, i, seed))
    for (std, attack), runs in found.items():
        lpips, seconds = ([r[key] for r in runs] for key in ("lpips", "seconds"))
        note = f"LPIPS {median(lpips):.2f} ({min(lpips):.2f} to {max(lpips):.2f}); {runs[0]['steps']:,} steps in "
        note += f"{median(seconds):.1f} s; {IMAGES} images × {SEEDS} seeds, labels known"
        what = f"PSNR after {SECONDS} s, vit_cifar, position std {std:g}, {attack}"
        table.row(what, [r["psnr"] for r in runs], "dB", note=note)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(step(*json.loads(sys.argv[1]))))
