"""Workers that have nothing to do are kept for the next fleet, and end when nobody asks for them."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from privlab.compute import machine, tasks, worker_pool


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 2)
    worker_pool.end_idle()
    yield
    worker_pool.end_idle()


def work(root, names, call="os:mkdir"):
    todo = [
        tasks.Task(n, call, {"path": str(root / n)}, (root / n).exists, lambda p=root / n: int(p.exists()), 1) for n in names
    ]  # fmt: skip
    tasks.run(todo, jobs=2, progress=False)
    return {process.process.pid for process in worker_pool._idle}


def test_a_second_fleet_takes_the_workers_of_the_first(tmp_path):
    first = work(tmp_path, "abcd")
    assert 1 <= len(first) <= 2 and all(psutil.pid_exists(pid) for pid in first)
    assert first & work(tmp_path, "efgh")


def test_not_in_another_environment_nor_in_another_folder(tmp_path, monkeypatch):
    first = work(tmp_path, "ab")
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path / "elsewhere"))
    second = work(tmp_path, "cd") - first
    assert second
    monkeypatch.chdir(tmp_path)
    assert work(tmp_path, "ef") - first - second
    assert worker_pool.idle() <= 2  # the longest idle had to go


def test_one_that_failed_may_go_on_and_one_that_died_may_not(tmp_path):
    (tmp_path / "a").mkdir()
    todo = [tasks.Task(n, "os:mkdir", {"path": str(tmp_path / "a")}, lambda: False, lambda: 0, 1) for n in "xy"]
    with pytest.raises(RuntimeError, match="File exists"):
        tasks.run(todo, jobs=2, progress=False)
    assert worker_pool.idle() >= 1
    worker_pool.end_idle()
    dying = [tasks.Task(n, "os:abort", {}, lambda: False, lambda: 0, 1) for n in "xy"]
    with pytest.raises(RuntimeError, match="died 5 times"):
        tasks.run(dying, jobs=2, progress=False)
    assert worker_pool.idle() == 0


def test_one_that_is_killed_while_it_waits_is_not_asked(tmp_path):
    for pid in work(tmp_path, "ab"):
        psutil.Process(pid).kill()
    deadline = time.monotonic() + 20
    while any(process.alive for process in worker_pool._idle) and time.monotonic() < deadline:
        time.sleep(0.05)
    work(tmp_path, "cd")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c", "d"]


def test_nobody_waits_longer_than_a_minute(tmp_path, monkeypatch):
    assert worker_pool.WARM == 60
    monkeypatch.setattr(worker_pool, "WARM", 0.2)
    pids = work(tmp_path, "ab")
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=20)
    assert not alive and worker_pool.idle() == 0


def test_one_that_was_at_work_since_waits_its_own_minute(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        worker_pool.threading, "Timer", lambda seconds, call, given: started.append((call, given)) or Clock()
    )
    process = worker_pool.Process({})
    process.ask("os:mkdir", {"path": str(tmp_path / "a")})
    worker_pool.rest(process)
    assert worker_pool.take({}) is process
    worker_pool.rest(process)
    (first, of_first), (second, of_second) = started
    first(*of_first)  # the minute of the first rest is over
    assert process.alive and worker_pool.idle()
    second(*of_second)
    assert not process.alive and not worker_pool.idle()


class Clock:
    def start(self):
        pass


def test_the_memory_of_the_idle_is_free_for_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "memory", lambda: (2.0, 1.0))
    assert tasks.default_jobs() == 1
    waiting = len(work(tmp_path, "abcd"))
    assert tasks.default_jobs() == min(2, 1 + waiting)


def test_they_end_with_the_one_that_started_them(tmp_path):
    script = f"""
from pathlib import Path
from privlab.compute import tasks, worker_pool
root = Path({str(tmp_path)!r})
folders = [tasks.Task(n, "os:mkdir", {{"path": str(root / n)}}, (root / n).exists, lambda: 0, 1) for n in "abcd"]
tasks.run(folders, jobs=2, progress=False)
print(*(process.process.pid for process in worker_pool._idle))
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    pids = [int(word) for word in told.stdout.split()]
    assert pids and not told.stderr
    assert not any(psutil.pid_exists(pid) for pid in pids)
