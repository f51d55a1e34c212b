"""`fan_out`: what is asked is done, what fails is told, what dies is tried again, what is stopped is gone."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import psutil
import pytest

from privlab.compute import machine, tasks

MODULE = """
import os, time
from pathlib import Path
def mortal(path):
    if not os.path.exists(path):
        os.mkdir(path)
        os.abort()
def again(path):  # as a task must be
    os.makedirs(path, exist_ok=True)
def told(path):
    words = os.getpid(), os.environ.get("PRIVLAB_STORE"), os.getcwd(), os.environ["OMP_NUM_THREADS"]
    Path(path).write_text(" ".join(map(str, words)))
def slow(path):
    time.sleep(60)
    os.mkdir(path)
"""


@pytest.fixture(scope="module", autouse=True)
def errands(tmp_path_factory):
    """A module that workers can import, too; the same for all tests, so that they have the same workers."""
    place = tmp_path_factory.mktemp("module")
    (place / "errands.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        patch.setenv("PYTHONPATH", f"{place}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield __import__("errands")


def folders(root, names, call=os.mkdir):
    """Tasks that make a folder each."""
    return {f"folder {n}": partial(call, str(root / n)) for n in names}


def run(todo, **how):
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # the same environment in all tests, so the same workers
    return tasks.fan_out(todo, "folders", **{"jobs": 2, "progress": False, **how})


@pytest.mark.parametrize(("jobs", "where"), [(1, "one process"), (2, "2 processes")])
def test_a_failure_names_its_task_when_the_others_are_done(tmp_path, jobs, where):
    assert re.fullmatch(rf"folders: 3 done in \S+ s on {where}", run(folders(tmp_path, "abc"), jobs=jobs))
    assert run({}, jobs=jobs) == "folders: nothing to do"
    with pytest.raises(RuntimeError, match="folder b failed: FileExistsError: .*/b'$") as caught:
        run(folders(tmp_path, "bde"), jobs=jobs)
    assert "Traceback" in "".join(caught.value.__cause__.__notes__) and {*"abcde"} == {*os.listdir(tmp_path)}


def test_what_died_with_its_worker_is_done_again(tmp_path, errands):
    said = run(folders(tmp_path, "a", errands.mortal) | folders(tmp_path, "bc", errands.again))
    assert "3 done" in said and said.endswith(", 1 deaths of a worker") and {*"abc"} <= {*os.listdir(tmp_path)}


def test_a_task_that_kills_its_worker_is_given_up_behind_the_others(tmp_path, monkeypatch, errands):
    monkeypatch.setattr(tasks, "PATIENCE", 2)
    with pytest.raises(RuntimeError, match="deadly is not done: workers died 2 times in a row, .*; try fewer jobs"):
        run(folders(tmp_path, "ab", errands.again) | {"deadly": partial(os._exit, 3)})
    assert {*"ab"} == {*os.listdir(tmp_path)}


def test_workers_are_kept_for_who_comes_in_the_same_environment_and_folder(tmp_path, errands, monkeypatch):
    def workers(names):
        run(folders(tmp_path, names, errands.told))
        said = [(tmp_path / name).read_text().split() for name in names]
        assert {tuple(words[1:]) for words in said} == {(str(os.environ.get("PRIVLAB_STORE")), os.getcwd(), "1")}
        return {words[0] for words in said}

    first = workers("abc")
    assert first & workers("def")
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    assert not first & workers("ghi")


def test_as_many_processes_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.delenv("PRIVLAB_JOBS", raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 6)
    monkeypatch.setattr(machine, "memory", lambda: (16.0, 12.0))
    assert [tasks.processes(None), tasks.processes(9)] == [6, 9]
    monkeypatch.setattr(machine, "memory", lambda: (2.0, 1.2))  # Binder
    assert tasks.processes(None) == 1
    with pytest.raises(ValueError, match="jobs=0 processes do no work"):
        tasks.processes(0)


SLEEPER = """
import errands, signal, sys
from functools import partial
from privlab.compute import tasks
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a program that was started in the background does not have
try:
    tasks.fan_out({str(n): partial(errands.slow, "") for n in range(4)}, "sleepers", jobs=2, progress=False)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 7), (signal.SIGKILL, -9)])
def test_workers_end_with_the_one_that_started_them(end, status):
    started = subprocess.Popen([sys.executable, "-c", SLEEPER], stderr=subprocess.DEVNULL)
    deadline, workers = time.monotonic() + 60, []
    while len(workers) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
        children = psutil.Process(started.pid).children()
        workers = [child for child in children if "LokyProcess" in " ".join(child.cmdline())]
    started.send_signal(end)
    assert started.wait(30) == status
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert len(workers) == 2 and not alive


def test_a_cluster_that_does_not_answer(tmp_path):
    says = r"cluster='nonsense://x' does not answer \(\w+\); .*start `dask scheduler --host 127.0.0.1` and `dask worker"
    with pytest.raises(ConnectionError, match=says):
        run(folders(tmp_path, "a"), cluster="nonsense://x")


@pytest.mark.check
def test_a_cluster_does_again_what_died_with_its_worker(tmp_path, errands):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as here:
        cluster = here.scheduler_address
        said = run(folders(tmp_path, "a", errands.mortal) | folders(tmp_path, "bc", errands.again), cluster=cluster)
        assert re.match(rf"folders: 3 done in \S+ s on the cluster at {cluster}", said)
        with pytest.raises(RuntimeError, match="folder b failed: FileExistsError"):
            run(folders(tmp_path, "b"), cluster=cluster)
