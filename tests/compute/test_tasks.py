"""The crew: what is missing is done once, what fails is told, what dies is tried again, what is stopped is gone."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from privlab.compute import forkserver, machine, tasks, worker_pool


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(tasks, "ANSWER", 2)
    worker_pool.end_idle()  # what another test left waiting counts as free memory


def folders(root, names, call="os:mkdir"):
    """Tasks that make a folder each: with `mkdir` a second time would be an error."""
    return [
        tasks.Task(
            name=f"folder {name}",
            call=call,
            arguments={"path": str(root / name)} if call == "os:mkdir" else {},
            finished=(root / name).exists,
            steps=lambda path=root / name: int(path.exists()),
            total=1,
        )
        for name in names
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_missing_is_done_and_the_rest_reused(tmp_path, jobs):
    (tmp_path / "b").mkdir()
    report = tasks.run(folders(tmp_path, "abc"), "three folders", jobs=jobs, progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]
    assert (report.reused, report.done, report.left, report.deaths) == (1, 2, 0, 0)
    where = "one process" if jobs == 1 else "2 processes"
    assert repr(report).startswith("three folders: 1 reused, 2 trained in ") and repr(report).endswith(f" s on {where}")
    again = tasks.run(folders(tmp_path, "abc"), "three folders", jobs=jobs, progress=False)
    assert repr(again) == "three folders: 3 reused"
    more = tasks.run(folders(tmp_path, "abcd"), "four folders", jobs=jobs, progress=False, verb="made")
    assert repr(more).startswith("four folders: 3 reused, 1 made in ")


def test_nothing_to_do_starts_nothing():
    assert repr(tasks.run([], "none", jobs=2)) == "none: nothing to do"


def test_a_task_that_kills_its_worker_is_given_up_in_the_end(tmp_path):
    todo = folders(tmp_path, "ab", call="os:abort")
    with pytest.raises(
        RuntimeError,
        match=r"folder [ab] died 5 times without a step gained \(signal 6\), as happens when memory runs out",
    ):
        tasks.run(todo, jobs=2, progress=False)


def test_the_last_words_of_a_worker_that_ended_by_itself(tmp_path):
    todo = [tasks.Task("quitter", "sys:exit", {}, lambda: False, lambda: 0, 1)] * 2
    with pytest.raises(RuntimeError, match=r"quitter died 5 times .*\(exit status 0: "):
        tasks.run(todo, jobs=2, progress=False)


def test_steps_gained_before_a_death_count(tmp_path, monkeypatch):
    """A task that gets one step further before each death is no lost cause, however often it dies."""
    gained = []
    task = tasks.Task("slow", "", {}, lambda: len(gained) == 12, lambda: len(gained), 12)

    class Mortal:
        def work(self, task, budget):
            gained.append(1)
            if len(gained) < 12:
                raise worker_pool.Died("killed")

        def stop(self, idle):
            pass

    monkeypatch.setattr(tasks, "_lanes", lambda *_: ([Mortal()], "a mortal"))
    assert tasks.run([task], progress=False).deaths == 11


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_others_are_done_before_a_failure_is_told(tmp_path, jobs):
    todo = folders(tmp_path, "abcd")
    for k in (1, 3):
        (tmp_path / "abcd"[k]).mkdir()
        todo[k] = replace(todo[k], finished=lambda: False, steps=lambda: 0)
    with pytest.raises(RuntimeError, match=r"folder ([bd]) failed: .*File exists.*/\1"):
        tasks.run(todo, jobs=jobs, progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_whose_files_cannot_be_read_does_not_hang_the_rest(tmp_path, jobs):
    def steps():
        raise OSError("stale file handle")

    ill = tasks.Task("ill", "os:mkdir", {"path": str(tmp_path / "ill")}, lambda: False, steps, 1)
    with pytest.raises(RuntimeError, match="ill failed: stale file handle"):
        tasks.run([ill, *folders(tmp_path, "ab")], jobs=jobs, progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("budget", [None, 3600])
def test_a_timeout_before_the_time_is_over_is_a_failure(tmp_path, monkeypatch, budget):
    class Slow:
        def work(self, task, budget):
            raise TimeoutError("the lock was not to be had")

        def stop(self, idle):
            pass

    monkeypatch.setattr(tasks, "_lanes", lambda *_: ([Slow()], "a slow lane"))
    with pytest.raises(RuntimeError, match="folder a failed: the lock was not to be had"):
        tasks.run(folders(tmp_path, "a"), budget=budget, progress=False)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_budget_leaves_tasks_for_later(tmp_path, jobs):
    report = tasks.run(folders(tmp_path, "abc"), jobs=jobs, budget=0, progress=False)
    assert report.left == 3 and repr(report).endswith("3 left when the time was over: run again to go on")
    assert not list(tmp_path.iterdir())


def test_a_result_that_is_not_here_is_missed(tmp_path):
    blind = tasks.Task("blind", "os:mkdir", {"path": str(tmp_path / "x")}, lambda: False, lambda: 0, 1)
    with pytest.raises(
        RuntimeError, match=r"blind was reported as done, but its files are not here; all machines need the same disk"
    ):
        tasks.run([blind], jobs=1, progress=False)


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True])
def test_jobs_that_do_nothing(tmp_path, jobs):
    with pytest.raises(ValueError, match=rf"jobs={jobs!r} processes do no work; give 1 or more"):
        tasks.run(folders(tmp_path, "a"), jobs=jobs)


def test_as_many_processes_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.delenv("PRIVLAB_JOBS", raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 6)
    monkeypatch.setattr(machine, "memory", lambda: (16.0, 12.0))
    assert tasks.default_jobs() == 6 and tasks.default_jobs(gpu=True) == 1
    monkeypatch.setattr(machine, "memory", lambda: (2.0, 1.2))  # Binder
    assert tasks.default_jobs() == 1
    monkeypatch.setattr(machine, "memory", lambda: (16.0, 12.0))
    monkeypatch.setenv("PRIVLAB_JOBS", "3")
    assert tasks.default_jobs() == 3
    monkeypatch.setenv("PRIVLAB_JOBS", "two")
    with pytest.raises(ValueError, match="PRIVLAB_JOBS='two' is no number of processes; give 1 or more"):
        tasks.default_jobs()


SLEEPER = """
import sys
from pathlib import Path
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a program that was started in the background does not have
from privlab.compute import tasks
sleepers = [tasks.Task(f"sleep {i}", "subprocess:check_call", {"args": ["sleep", "60"]}, lambda: False, lambda: 0, 1) for i in range(4)]
try:
    tasks.run(sleepers, jobs=2, progress=False)
except KeyboardInterrupt:
    sys.exit(7)
"""


def workers_of(pid):
    """Two that work, and on Linux the one that they were forked from."""
    return [
        p for p in psutil.Process(pid).children(recursive=True) if "privlab.compute.worker" in " ".join(p.cmdline())
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="sleep is no command there")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_workers_end_with_the_one_that_started_them(end):
    started = subprocess.Popen([sys.executable, "-c", SLEEPER])
    deadline = time.monotonic() + 60
    want = 2 + forkserver.AT_HAND
    while len(workers := workers_of(started.pid)) < want and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(workers) == want
    time.sleep(1)
    started.send_signal(end)
    assert started.wait(30) == (7 if end == signal.SIGINT else -signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive


@pytest.mark.skipif(sys.platform == "win32", reason="a socket is no standard input there")
def test_a_worker_ends_too_where_its_last_answer_was_not_read():
    """The system then says that the connection was reset, and not that the input is at its end."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", "privlab.compute.worker"], stdin=theirs, stdout=theirs)
    try:
        ours.sendall(json.dumps({"call": "os:getpid", "arguments": {}}).encode() + b"\n")
        assert select.select([ours], [], [], 60)[0]  # the answer is there
        ours.close()
        assert process.wait(30) == 0
    finally:
        process.kill()


def test_a_cluster_that_does_not_answer(tmp_path):
    with pytest.raises(
        ConnectionError,
        match=r"cluster='tcp://127.0.0.1:9' does not answer \(\w+\); start `dask scheduler --host 127.0.0.1` and `dask worker",
    ):
        tasks.run(folders(tmp_path, "a"), cluster="tcp://127.0.0.1:9")


def test_a_cluster_address_that_is_none(tmp_path):
    with pytest.raises(ConnectionError, match=r"cluster='nonsense://x' does not answer \(ValueError\)"):
        tasks.run(folders(tmp_path, "a"), cluster="nonsense://x")


def test_the_address_comes_from_the_environment_too(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_CLUSTER", "tcp://127.0.0.1:9")
    with pytest.raises(ConnectionError, match="tcp://127.0.0.1:9"):
        tasks.run(folders(tmp_path, "a"))
    assert tasks.run(folders(tmp_path, "a"), jobs=1, progress=False).done == 1  # who names jobs means this machine


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ImportError, match=r"cluster='tcp://127.0.0.1:9' needs the extra: pip install -e '.\[cluster\]'"
    ):
        tasks.run(folders(tmp_path, "a"), cluster="tcp://127.0.0.1:9")


def test_the_command_line_tells_at_once(capsys):
    from privlab.__main__ import main

    labs = Path(__file__).parents[2] / "labs"
    assert main(["run", "00", "--labs", str(labs), "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "cluster='tcp://127.0.0.1:9' does not answer" in capsys.readouterr().err


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    lanes = [tasks._Apart(n, gpu=True).worker for n in range(3)]
    assert [worker.environment["CUDA_VISIBLE_DEVICES"] for worker in lanes] == ["4", "6", "4"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,6"
