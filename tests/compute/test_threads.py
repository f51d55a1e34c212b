"""OpenMP's threads: what a stock kernel has behind a lab's first line, and whose word counts."""

import os

import psutil
import pytest
from jupyter_client.manager import start_new_kernel

from privlab.compute import machine, threads

ASK = "import privlab, torch, os; print(os.environ['OMP_NUM_THREADS'], torch.get_num_threads())"


def of_a_stock_kernel(tmp_path, **mine):
    """What it prints, and what libgomp says of itself when torch brings it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    errors = (tmp_path / "errors").open("w+")
    manager, client = start_new_kernel(env=inherited | {"OMP_DISPLAY_ENV": "verbose"} | mine, stderr=errors)
    printed = []
    try:
        client.execute_interactive(ASK, output_hook=lambda m: printed.append(m["content"].get("text", "")), timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    errors.seek(0)
    return "".join(printed).strip(), errors.read()


def test_a_stock_kernel_waits_for_short_and_has_no_more_threads_than_cores(tmp_path):
    printed, display = of_a_stock_kernel(tmp_path)
    said, has = map(int, printed.split())
    assert 1 <= said == has <= machine.cores()
    assert f"GOMP_SPINCOUNT = '{threads.SPINS}'" in display


def test_a_users_own_setting_wins(tmp_path):
    printed, display = of_a_stock_kernel(tmp_path, OMP_NUM_THREADS="3", GOMP_SPINCOUNT="77")
    assert printed.startswith("3 ") and "GOMP_SPINCOUNT = '77'" in display


@pytest.mark.parametrize(("busy", "free"), [(0, 4), (25, 3), (60, 2), (100, 1)])
def test_as_many_threads_as_cores_that_nobody_uses(busy, free, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: busy)
    monkeypatch.setattr(machine, "cores", lambda: 8)
    assert threads.free_cores() == free
