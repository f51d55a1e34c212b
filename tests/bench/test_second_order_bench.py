"""Gauss-Newton beside Adam and L-BFGS at equal passes, architecture by architecture: how much of a leak is the optimiser's.

A pass is one gradient of the network, one J v or one J^T u: a step of Adam takes two.
The two networks with a promise get 4 photographs x 2 seeds and 1,500 passes (half a ConvNeXt fewer passes too, since a promise at equal
passes has to say at how many). All others get 300: the small ResNet and steps 8 and 9 with 4 photographs x 2 seeds, the rest three times,
photograph and seed both another. The photographs are others than those on which the attack's settings were chosen (the first four).
"""

import functools
import math
import time
from statistics import median

import pytest

from privlab import data, metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GaussNewton, Term, objectives, priors
from privlab.attacks.gradient_inversion.gauss_newton import SMOOTHNESS
from privlab.experiments.victims import batches
from privlab.leak import observe
from privlab.models import april, morph

PASSES, REPEATS = 300, 3
FIRST = 4  # photograph; the settings were chosen on 0 to 3
LONG = 1_500
FULL = [(FIRST + i, s) for s in range(2) for i in range(4)]  # photograph, seed
SOME = [(FIRST + i, i) for i in range(REPEATS)]
QUARTER = dict(width=0.25, depths=(1, 1, 1, 1))
vit = functools.partial(april.build, "b", width=384, depth=4, patch_size=8)
PROMISED = {
    "vit_std_1": functools.partial(vit, position_std=1.0),
    "morph_14_half": functools.partial(morph.build, 14, width=0.5, depths=(1, 1, 1, 1)),
}
NETS = {"vit_std_0p02": functools.partial(vit, position_std=0.02)}
NETS |= {name: functools.partial(models.build, f"{name}_cifar") for name in ("swin", "convnext", "resnet")}
STEPS = (8, 9, 10, 12, 14, 1, 2, 3, 4, 5, 6, 7, 11, 13)
NETS |= {f"morph_{n}": functools.partial(morph.build, n, **QUARTER) for n in STEPS}
ASKED = ("resnet", "morph_8", "morph_9")  # is it the kink of ReLU that stops the search?
DOUBLE = ("vit_std_1", "vit_std_0p02")  # float64; the others float32, as a client sends it


def lbfgs(passes):
    # what Gauss-Newton minimises; the fading by the step, since L-BFGS has no other
    gradients = Term("gradients", 1.0, objectives.relative_distance)
    smoothness = Term("smoothness", SMOOTHNESS, priors.squared_variation, end=1e-6, of="images")
    return batches.lbfgs(passes // 40, (gradients, smoothness))


ENOUGH = {"vit_std_1": 1e-6}  # where so small a score means 50 dB and more; elsewhere it does not mean much
METHODS = {  # passes -> the attack; and the passes of one of its evaluations
    "adam": (lambda passes: gradient_inversion.annealed(passes // 2), 2), "lbfgs": (lbfgs, 2), "gauss_newton": (GaussNewton, 1),
}  # fmt: skip


def photographs(image, batch):
    photos = data.load("cifar10_samples")
    return photos.take([(image + i) % len(photos) for i in range(batch)])


def search(table, net, method, image, seed, passes, batch=1):
    """PSNR and seconds where the passes are over; the run on file, if there is one."""

    def made():
        model = (PROMISED | NETS)[net](seed=seed)
        model = model.double() if net in DOUBLE else model
        images, labels = photographs(image, batch)
        leak = observe(model, images, labels)
        attack, price = METHODS[method]
        began, psnr, score = time.process_time(), math.nan, math.nan
        for state in attack(passes).search(model, leak, seed=seed):
            if price * state.evaluations > passes:
                break
            psnr, score = metrics.psnr(state.images.float(), images).mean().item(), state.score
            if method == "gauss_newton" and score <= ENOUGH.get(net, -math.inf):
                break
        seconds = round(time.process_time() - began, 1)
        return dict(psnr=round(psnr, 2), seconds=seconds, score=score)

    return table.kept(made, net=net, method=method, image=image, seed=seed, batch=batch, passes=passes)


def row(table, what, runs, least=None, values=None):
    found = [r["psnr"] for r in runs] if values is None else values
    precision = "float64" if runs[0]["net"] in DOUBLE else "float32"
    note = f"{median(r['seconds'] for r in runs):.0f} s in one thread, {precision}"
    promised = () if least is None else (f">= {least} dB", median(found) >= least)
    table.row(what, found, "dB", *promised, note=note)


@pytest.mark.parametrize("net", PROMISED)
@pytest.mark.parametrize("method", ["gauss_newton", "adam"])
def test_promised(net, method, table):
    few = method == "adam" and net == "vit_std_1"  # no promise hangs on it
    runs = [search(table, net, method, *which, LONG) for which in (FULL[:3] if few else FULL)]
    least = 45 if (net, method) == ("vit_std_1", "gauss_newton") else None
    row(table, f"PSNR after {LONG:,} passes, {net}, {method}", runs, least)


@pytest.mark.parametrize("passes", [300, 600, LONG])
def test_half_a_convnext(passes, table):
    found = {m: [search(table, "morph_14_half", m, *which, passes) for which in FULL] for m in ("gauss_newton", "adam")}
    apart(table, passes, "morph_14_half", found, least=3)


def apart(table, passes, net, found, least=None):
    gaps = [a["psnr"] - b["psnr"] for a, b in zip(found["gauss_newton"], found["adam"], strict=True)]
    row(table, f"Gauss-Newton less Adam, {passes:,} passes, {net}", found["gauss_newton"], least, gaps)


def test_a_batch_of_two(table):
    """Four pairs of photographs; the first two have the same label."""
    pairs = [FIRST + 2 * i for i in range(4)]
    runs = [search(table, "vit_std_1", "gauss_newton", i, s, LONG, batch=2) for s in range(2) for i in pairs]
    what = f"PSNR after {LONG:,} passes, vit_std_1, batch of 2, gauss_newton"
    row(table, what, runs, least=22)
    alike = {i: len(photographs(i, 2)[1].unique()) == 1 for i in pairs}
    for name, same in (("one label", True), ("two labels", False)):
        row(table, f"{what}, {name}", [one for one in runs if alike[one["image"]] is same])


@pytest.mark.parametrize("net", ["vit_std_1", *NETS])
def test_equal_passes(net, table):
    pairs = FULL if net in ASKED else SOME
    found = {m: [search(table, net, m, *which, PASSES) for which in pairs] for m in METHODS}
    for method, runs in found.items():
        row(table, f"PSNR after {PASSES:,} passes, {net}, {method}", runs)
    apart(table, PASSES, net, found)
