"""`python -m privlab measure` is killed at any moment, by any signal: what was measured stays, and the next call goes on behind it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from privlab.ledger import evidence

REPEATS = 20
WALK = f"""
import time, torch
from privlab.experiments import Size, experiment

@experiment("walking.walk", data=())
@Size("smoke", 1, "invented")
@Size("class", {REPEATS}, "invented", seconds=0.3)
def walk(repeat, seconds=0.0):
    time.sleep(seconds)
    yield "psnr[a]", torch.randn((), generator=torch.Generator().manual_seed(repeat))
"""
SITE = "import privlab.course as room\nroom.__path__.append({place!r})\n"  # of every process that this test starts


@pytest.fixture
def measure(tmp_path):
    """measure(root, jobs): the command at work on an experiment of this test, its evidence in this folder."""
    place = tmp_path / "place"
    (place / "lab_99").mkdir(parents=True)
    (place / "lab_99" / "experiments.py").write_text(WALK)
    (place / "sitecustomize.py").write_text(SITE.format(place=str(place)))
    paths = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])

    def start(root, jobs):
        return subprocess.Popen(
            [sys.executable, "-m", "privlab", "measure", "walking.walk", "--size", "class", "--jobs", str(jobs)],
            env=os.environ | {"PYTHONPATH": paths, "PRIVLAB_EVIDENCE": str(root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # also where tests run in the background
        )

    return start


def lines(root):
    """The lines that are whole, in the order of the file."""
    file = evidence.path("walking.walk", "class", root)
    whole = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in whole if line]


@pytest.mark.check
def test_kills_lose_nothing_but_the_repeats_in_the_making(measure, tmp_path):
    draw, root, before = random.Random(4), tmp_path / "disturbed", []
    for kill in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process, there = measure(root, 1), len(before)
        wait = time.monotonic() + 300  # it imports torch first, which takes a minute where others keep the cores busy
        while len(lines(root)) == there:  # until it is at work
            assert process.poll() is None and time.monotonic() < wait, f"{kill}: no line, status {process.poll()}"
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 1))
        process.send_signal(kill)
        process.wait(30)
        after = lines(root)
        assert after[:there] == before and len(after) > there  # nothing is gone, and each call gained something
        before = after
    both = [measure(tmp_path / "shared", jobs) for jobs in (1, 2)]  # two at a time share the repeats
    assert [process.wait(300) for process in (measure(root, 2), *both)] == [0, 0, 0]
    disturbed, shared = ({row["repeat"]: row["values"] for row in lines(each)} for each in (root, tmp_path / "shared"))
    assert disturbed == shared and sorted(disturbed) == list(range(REPEATS))
    assert len(lines(root)) == len(lines(tmp_path / "shared")) == REPEATS  # each of them once
