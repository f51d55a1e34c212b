"""OpenMP's threads: what torch has behind a lab's first line, and whose word counts."""

import os
import subprocess
import sys

import psutil
import pytest

from privlab.compute import machine

ASK = "import privlab, torch, os; print(os.environ['OMP_NUM_THREADS'], torch.get_num_threads())"


@pytest.mark.parametrize("mine", [{}, {"OMP_NUM_THREADS": "3", "GOMP_SPINCOUNT": "77"}])
def test_a_thread_waits_for_short_and_a_users_own_setting_wins(mine):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment = inherited | {"OMP_DISPLAY_ENV": "verbose"} | mine  # libgomp then says what it has
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    assert f"GOMP_SPINCOUNT = '{mine.get('GOMP_SPINCOUNT', machine.SPINS)}'" in done.stderr
    asked, has = map(int, done.stdout.split())
    assert asked == int(mine.get("OMP_NUM_THREADS", asked)) and (mine or 1 <= asked == has <= machine.cores())


@pytest.mark.parametrize(("busy", "free"), [(0, "4"), (60, "2"), (100, "1")])
def test_as_many_threads_as_cores_that_nobody_uses(busy, free, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: busy)
    monkeypatch.setattr(machine, "cores", lambda: 8)
    machine.settle_threads()
    assert os.environ["OMP_NUM_THREADS"] == free
