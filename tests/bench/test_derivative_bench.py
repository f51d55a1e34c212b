"""What a search by differences finds and takes, beside the exact one: PSNR, memory, and the price of being turned down.

Seconds a step stand in test_gradient_bench.py, beside breaching's. One row: -k "what_is_found and swin_cifar".
"""

import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from statistics import fmean, median, stdev

import pytest
import torch
from scipy.stats import binom
from torch import nn

from privlab import data, metrics, models
from privlab.attacks import gradient_inversion
from privlab.leak import observe

PHOTOGRAPHS, MOVED, STEPS, ROUNDS = 12, 5, 200, 9
FAMILIES = ["convnext_cifar", "resnet_cifar", "swin_cifar", "vit_cifar"]


def search(table, name, i, kind, moved=0):
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
        return dict(psnr=round(psnr, 3), seconds=round(time.process_time() - began, 1), differences=result.differences)

    return table.kept(make, net=name, image=i, derivative=kind, moved=moved)["psnr"]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_found(name, table):
    """First all pairs, then the cloud of each photograph, so that a bench that is stopped early has what decides most."""
    pairs = [(search(table, name, i, "exact"), search(table, name, i, "auto")) for i in range(PHOTOGRAPHS)]
    gaps = [auto - exact for exact, auto in pairs]
    mean, error = fmean(gaps), stdev(gaps) / len(gaps) ** 0.5
    table.row(
        f"PSNR, auto less exact, {name}", gaps, "dB apart", "within 0.3 dB in the mean", abs(mean) <= 0.3,
        f"mean {mean:+.3f} ± {error:.3f} (standard error) dB",
    )  # fmt: skip
    clouds = [[search(table, name, i, "exact", m) for m in range(MOVED + 1)] for i in range(PHOTOGRAPHS)]
    inside = [min(cloud) <= auto <= max(cloud) for (_, auto), cloud in zip(pairs, clouds, strict=True)]
    # The seventh of seven alike is neither lowest nor highest 5 times in 7, so 12 of 12 inside would be luck, and 4 of 12 bad luck
    unlikely = binom.cdf(sum(inside), len(inside), MOVED / (MOVED + 2))
    table.row(
        f"width of {MOVED + 1} exact searches, starts 1e-6 apart, {name}", [max(c) - min(c) for c in clouds], "dB apart",
        "auto lies within as often as one more exact search", bool(unlikely > 0.05),
        f"{sum(inside)} of {len(inside)} do; of equals {MOVED} of {MOVED + 2} do, and so few or fewer in {unlikely:.0%} of all draws",
    )  # fmt: skip


class Unknown(nn.ReLU):
    """A ReLU whose pattern is not noted, since it is of another class."""


def test_a_part_that_auto_does_not_know(table):
    """The small ResNet with a ReLU that it does not know: 200 exact steps, five of them with a comparison."""
    model = models.build("resnet_cifar", seed=0)
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, nn.ReLU):
                setattr(part, name, Unknown())
    image, label = data.load("cifar10_samples").one(0)
    leak = observe(model, image, label)

    def a_round(turn):
        seconds = {}
        for kind in ("exact", "auto") if turn % 2 else ("auto", "exact"):
            attack = replace(gradient_inversion.annealed(STEPS), derivative=kind)
            began = time.perf_counter(), time.process_time()
            *_, last = attack.search(model, leak)
            seconds[kind] = time.perf_counter() - began[0], time.process_time() - began[1]
            assert last.differences == 0 and last.evaluations == STEPS + 1
        return dict(seconds=seconds)

    runs = table.rounds(ROUNDS, a_round, unknown="resnet_cifar")
    ratios, computed = ([run["seconds"]["auto"][c] / run["seconds"]["exact"][c] for run in runs] for c in (0, 1))
    note = f"{median(computed):.3f} × in seconds of this process alone"
    what = "seconds of auto over exact, a part that it does not know"
    table.row(what, ratios, "×", "≤ 1.05 ×", median(ratios) <= 1.05, note, runs)


MEMORY = """
import sys, torch
from dataclasses import replace
from pathlib import Path
from privlab import models
from privlab.attacks import gradient_inversion
from privlab.leak import observe
kind, batch = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
model = models.build("vit_base_patch16_224", num_classes=10, seed=0)
images = torch.rand(batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))
leak = observe(model, images, torch.arange(batch))
def memory(what):  # "VmRSS" now, "VmHWM" at most since the mark was reset, in GB
    return next(int(line.split()[1]) / 1e6 for line in open("/proc/self/status") if line.startswith(what))
before = memory("VmRSS")
states = replace(gradient_inversion.annealed(3), derivative=kind).search(model, leak)
next(states)  # by "auto" an exact step, too, to compare with
Path("/proc/self/clear_refs").write_text("5")
for _ in range(2):
    next(states)
print(memory("VmHWM") - before)
"""


@pytest.mark.parametrize("batch", [1, 4])
def test_memory(batch, table):
    """Beyond what stays when the update is observed, in a process of its own; of steps that compare nothing, since that takes both."""

    def taken(kind):
        command = [sys.executable, "-c", MEMORY, kind, str(batch)]
        return dict(gigabytes=float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))

    exact, difference = (
        table.kept(partial(taken, kind), memory="vit_base_patch16_224", batch=batch, derivative=kind)["gigabytes"]
        for kind in ("exact", "auto")
    )
    note = f"{difference:.2f} GB for {exact:.2f} GB"
    what = f"memory of a step beyond observe's, difference over exact, ViT-B/16 at 224 px, batch {batch}"
    table.row(what, [difference / exact], "×", "≤ 0.85 ×", difference <= 0.85 * exact, note)
