"""Sixteen repeats of one experiment on two processes beside the same on one: `python -m privlab measure`, from its start to its end.

It needs two cores that nothing else uses. Each time with an evidence folder and a store of its own, so that nothing is there yet.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from statistics import median

import pytest

from privlab.compute import machine, store
from privlab.experiments import measuring
from privlab.ledger import evidence

ROUNDS = 3
EXPERIMENT, REPEATS = "april_by_optimisation.architecture_a", 16  # searches, of 4 to 5 s a repeat
PROMISED = 1.7


def measured(place, jobs):
    """Seconds of the command, those of the measuring alone as it says them itself, and a hash of all values."""
    plan = replace(measuring.registration(EXPERIMENT, "class"), repeats=REPEATS)
    evidence.register([plan], place / "evidence")
    command = [sys.executable, "-m", "privlab", "measure", EXPERIMENT, "--size", "class", "--jobs", str(jobs)]
    own = {"PRIVLAB_EVIDENCE": str(place / "evidence"), "PRIVLAB_STORE": str(place / "store")}
    began = time.perf_counter()
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    (alone,) = re.findall(rf"{REPEATS} done in (\S+) s", done.stdout)
    rows = evidence.read(EXPERIMENT, "class", plan.digest, place / "evidence")
    assert [row.repeat for row in rows] == list(range(REPEATS))
    values = store.key({str(row.repeat): dict(row.values) for row in rows})
    return dict(seconds=seconds, alone=float(alone), values=values)


def test_two_processes_against_one(tmp_path, table):
    if machine.cores() < 2:
        pytest.skip("needs two cores")
    runs = {1: [], 2: []}
    for turn in range(ROUNDS):
        for jobs in (1, 2) if turn % 2 else (2, 1):
            make = partial(measured, tmp_path / f"{turn}-{jobs}", jobs)
            runs[jobs].append(table.kept(make, round=turn, jobs=jobs))
    both = runs[1] + runs[2]
    assert len({run["values"] for run in both}) == 1  # equal to the bit, however many processes
    for jobs in runs:
        table.row(f"{REPEATS} repeats, --jobs {jobs}", [run["seconds"] for run in runs[jobs]], "s", runs=runs[jobs])
    ratios, alone = (
        [one[which] / two[which] for one, two in zip(runs[1], runs[2], strict=True)] for which in ("seconds", "alone")
    )
    met = median(ratios) >= PROMISED
    holds = met if met or table.quiet(both) else None  # the promise is of two free cores
    note = f"{median(alone):.2f} × without the start of the command; the same values, to the bit"
    table.row("--jobs 1 over --jobs 2", ratios, "×", f"at least {PROMISED} × on two free cores", holds, note, both)
