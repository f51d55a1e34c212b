"""What the rule for threads (`machine.settle_threads`) takes on a quiet machine and on a crowded one, in four kinds of work.

Each way is a process of its own that works through the book's imports, asked in turn; the crowd is as many programs
that never wait as the machine has cores. "two threads": the rule's waiting with a thread for each core, as where the crowd comes later
than the kernel. A quiet column says something only where the note says that the machine was quiet.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from statistics import fmean, median

import psutil

PAIRS = 10
WORK = ("closed form", "step, ResNet", "step, Swin", "epoch")
WORKER = """
import os, sys, time
if "RULE" in os.environ:
    import privlab
import torch
from dataclasses import replace
from privlab import data, models, training
from privlab.attacks.gradient_inversion import closed_form, presets
from privlab.leak import observe

def closed():
    model, image = models.build("vit_small_patch16_224", num_classes=1000, seed=0), torch.rand(1, 3, 224, 224)
    return lambda: closed_form.patch_embedding(model, observe(model, image, torch.tensor([1])))

def steps(name):
    model = models.build(name, seed=0)
    leak = observe(model, *data.load("cifar10_samples").one(0))
    return lambda: replace(presets.annealed(10), derivative="auto").run(model, leak, seed=0, progress=False)

def epoch():
    images = training.subset(data.load("cifar10"), torch.arange(512))
    recipe = replace(training.RECIPES["smoke"], epochs=1, warmup_epochs=0)
    shape = dict(seed=0, channels=(16, 32, 64, 128))
    return lambda: training.fit(models.build("resnet_cifar", **shape), images, recipe, seed=0)

print("ready", flush=True)
made = {"closed form": closed, "step, ResNet": lambda: steps("resnet_cifar"), "step, Swin": lambda: steps("swin_cifar"), "epoch": epoch}
ready = {}
for line in sys.stdin:
    work = line.strip()
    if work not in ready:
        ready[work] = made[work]()
        ready[work]()  # the first time pays for loading libraries
    began = time.perf_counter()
    ready[work]()
    print(time.perf_counter() - began, flush=True)
"""
CORES = str(psutil.cpu_count())
WAYS = {
    "as torch starts": {},
    "one thread": dict(OMP_NUM_THREADS="1"),
    "the rule": dict(RULE="1"),
    "two threads": dict(RULE="1", OMP_NUM_THREADS=CORES),
}


@contextmanager
def workers(*ways):
    """Processes that do a piece of work when they are asked, by the name of their way: ask(way, work) -> seconds."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    started = {}
    for way in ways:  # one after the other: the rule looks at what else is running when it is imported
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started[way] = subprocess.Popen([sys.executable, "-c", WORKER], env=plain | WAYS[way], **pipes)
        started[way].stdout.readline()

    def ask(way, work):
        started[way].stdin.write(f"{work}\n")
        started[way].stdin.flush()
        return float(started[way].stdout.readline())

    try:
        yield ask
    finally:
        for process in started.values():
            process.kill()


@contextmanager
def crowd():
    """As many programs that never wait as there are cores, each with a session of its own, as other people's have."""
    spin = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(spin, start_new_session=True) for _ in range(psutil.cpu_count())]
    time.sleep(0.5)
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def pairs(table, ask, where, work, ways):
    """Ratios of the seconds of two ways, of alternating pairs, and the first one's seconds as a note."""

    def a_pair(turn):
        return dict(seconds={way: ask(way, work) for way in (ways if turn % 2 else ways[::-1])})

    ask(ways[0], work), ask(ways[1], work)
    about = dict(where=where, work=work, ways=" / ".join(ways))
    seconds = [table.kept(partial(a_pair, turn), **about, pair=turn)["seconds"] for turn in range(PAIRS)]
    return [s[ways[0]] / s[ways[1]] for s in seconds], f"{median(s[ways[0]] for s in seconds):.3f} s"


def test_a_quiet_machine(table):
    ways, medians = ("the rule", "as torch starts"), []
    with workers(*ways) as ask:
        for work in WORK:
            ratios, note = pairs(table, ask, "quiet", work, ways)
            medians.append(median(ratios))
            what = f"quiet: {work}, the rule over torch's own"
            table.row(what, ratios, "×", "≤ 1.15 ×", median(ratios) <= 1.15, note)
    table.row("quiet: mean of the four", [fmean(medians)], "×", "≤ 1.05 ×", fmean(medians) <= 1.05)


def test_a_crowded_machine(table):
    ways = ("two threads", "one thread")
    with crowd(), workers(*ways) as ask:  # the kernel starts in the crowd, and looks
        for work in WORK:
            ratios, note = pairs(table, ask, "crowded", work, ways)
            held = ("≤ 3 ×", median(ratios) <= 3) if work == "closed form" else (None, None)
            table.row(f"crowded: {work}, two threads over one thread", ratios, "×", *held, note)
