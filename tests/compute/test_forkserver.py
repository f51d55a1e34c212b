"""Workers out of a fork server: they share what it imported, end as told, and are no copies of a process in which copying is unsafe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from privlab.compute import forkserver, machine, worker_pool

pytestmark = pytest.mark.skipif(not forkserver.AT_HAND, reason="workers are forked on Linux alone")
MODULE = """
import gc, json, os, sys, threading, time
BORN = os.getpid()  # of the process that imported this
def tell(path):
    gc.collect()  # as any training does in the end
    with open(path, "w") as file:
        json.dump({"worker": os.getpid(), "imported": BORN, "threads": os.environ["OPENBLAS_NUM_THREADS"]}, file)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A way to write a module that workers can import, and to start one of them."""
    made = []
    worker_pool.end_idle()  # those that tests before these left to wait, and with the last of them the server that forked them
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")

    def write(more: str = "") -> worker_pool.Process:
        (tmp_path / "nursling.py").write_text(MODULE + more)
        made.append(worker_pool.Process({}))
        return made[-1]

    yield write
    for process in made:
        process.stop()


def told(process, path) -> dict:
    process.ask("nursling:tell", {"path": str(path)})
    return json.loads(path.read_text())


def deaths(process, *call) -> tuple[threading.Thread, list[str]]:
    """Ask in another thread; what it says of the worker's death comes into the list."""
    heard: list[str] = []

    def ask():
        try:
            process.ask(*call)
        except worker_pool.Died as death:
            heard.append(str(death))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, heard


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


def test_two_workers_share_what_was_imported_once(module, tmp_path):
    one, other = module("import torch\n"), module()
    found = [told(each, tmp_path / "told") for each in (one, other)]
    (parent,) = forkserver.pids()
    assert [each["imported"] for each in found] == [parent, parent]
    assert found[0]["worker"] != found[1]["worker"] and found[0]["threads"] == "1"
    alone = [psutil.Process(each["worker"]).memory_full_info().uss for each in found]
    held = [machine._used(pid) for pid in (parent, *(each["worker"] for each in found))]
    whole = psutil.Process(parent).memory_full_info().rss
    assert max(alone) < whole / 4 and sum(held) < 2 * whole
    assert set(worker_pool.pids()) >= {parent, *(each["worker"] for each in found)}


def test_where_a_library_has_started_a_thread_a_worker_is_no_copy(module, tmp_path):
    found = told(module("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"), tmp_path / "told")
    assert found["worker"] == found["imported"] not in forkserver.pids()


def test_one_that_is_stopped_while_the_server_imports(module, tmp_path):
    process = module(f"open({str(tmp_path / 'importing')!r}, 'w')\ntime.sleep(600)\n")
    thread, heard = deaths(process, "nursling:tell", {"path": str(tmp_path / "told")})
    wait_for((tmp_path / "importing").exists)
    (parent,) = forkserver.pids()
    process.stop()
    thread.join(30)
    assert heard == ["stopped"] and not psutil.pid_exists(parent) and forkserver.pids() == []


def test_a_server_that_is_killed_is_replaced(module, tmp_path):
    process = module(
        f"open({str(tmp_path / 'importing')!r}, 'w')\nwhile {str(tmp_path)!r} in open(__file__).read(): time.sleep(.1)\n"
    )
    thread, heard = deaths(process, "nursling:tell", {"path": str(tmp_path / "told")})
    wait_for((tmp_path / "importing").exists)
    (parent,) = forkserver.pids()
    os.kill(parent, signal.SIGKILL)
    thread.join(30)
    assert heard and heard[0].startswith("exit status 1")
    module()  # now it imports at once
    assert told(process, tmp_path / "told")["imported"] in set(forkserver.pids()) - {parent}


def test_a_program_that_a_task_has_started_does_not_hide_the_end_of_its_worker(module):
    process = module()
    thread, heard = deaths(process, "subprocess:check_call", {"args": ["sleep", "600"]})
    wait_for(lambda: process.process and process.process.pid and psutil.Process(process.process.pid).children())
    (program,) = psutil.Process(process.process.pid).children()
    os.kill(process.process.pid, signal.SIGKILL)
    thread.join(30)
    program.kill()
    assert heard == ["signal 9"]


def test_a_server_stays_as_long_as_there_are_workers(module, tmp_path):
    one, other = module(), module()
    first = told(one, tmp_path / "told")
    told(other, tmp_path / "told")
    (parent,) = forkserver.pids()
    one.stop()
    assert not psutil.pid_exists(first["worker"]) and forkserver.pids() == [parent]
    told(other, tmp_path / "told")
    other.stop()
    assert forkserver.pids() == [] and not psutil.pid_exists(parent)


def test_a_worker_with_a_gpu_of_its_own_imports_for_itself(module, tmp_path):
    module()
    process = worker_pool.Process({"CUDA_VISIBLE_DEVICES": ""})
    found = told(process, tmp_path / "told")
    assert found["worker"] == found["imported"] and forkserver.pids() == []
    process.stop()


def test_it_ends_when_nobody_is_left_to_ask(tmp_path):
    script = """
import os, signal
from privlab.compute import forkserver, worker_pool
process = worker_pool.Process({})
process.ask("os:getpid", {})
print(process.process.pid, *forkserver.pids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    wait_for(lambda: not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids))
