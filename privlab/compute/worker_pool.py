"""Worker processes of this machine, each asked one thing at a time; `tasks` sends them its tasks.

A worker needs torch and timm, which take seconds to import and much memory. On Linux `forkserver` imports them once for all workers;
elsewhere, and with a GPU of its own, each does so itself. One that has nothing to do is kept for a minute, for the next fleet that would
start one with the same environment: a lab trains, attacks, and trains again.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from privlab.compute import forkserver, machine, worker

WARM = 60.0  # seconds that a process without work is kept; it holds some 50 MB, its server 450, and one without a server that much itself
_POOLS = ("OMP", "MKL", "OPENBLAS")  # of threads


class Died(Exception):
    """The worker was lost in the middle of a task, or the machine it ran on."""


class Process:
    """A worker of our own, started when it is first asked and again when it died.  extra: variables beside this process's own."""

    def __init__(self, extra: Mapping[str, str]) -> None:
        self.environment = {**os.environ, **{f"{pool}_NUM_THREADS": "1" for pool in _POOLS}, **extra}
        self.folder, self.alone = os.getcwd(), bool(extra) or not forkserver.AT_HAND
        self.stopped, self.lock = False, threading.Lock()
        self.process: subprocess.Popen[str] | forkserver.Forked | None = None
        self.server: forkserver.ForkServer | None = None
        self.rested = 0.0  # when it was last put to rest
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  what it prints, for when it dies; `stop` closes it
        _made.add(self)

    def ask(self, call: str, arguments: Mapping[str, Any]) -> None:
        """Have it call a function, "module:function", and wait.  Raises Died, TimeoutError, Taken, or as text what else it raised."""
        process = self._started(call.partition(":")[0])
        assert process.stdin and process.stdout
        try:
            if isinstance(process, forkserver.Forked):
                process.wait_for_pid()
            process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line and self.stopped:
            raise Died("stopped")
        if not line:
            code = process.wait()
            raise Died(f"signal {-code}" if code < 0 else f"exit status {code}: {self._last_words()}")
        answer = json.loads(line)
        for kind in (TimeoutError, worker.Taken):
            if answer.get("type") == kind.__name__:
                raise kind(answer["error"])
        if "error" in answer:
            raise RuntimeError(f"{answer['type']}: {answer['error']}\n{answer['traceback']}")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        with self.lock:  # or one that is just being started would be left behind
            self.stopped = True
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._left()
            self.log.close()

    def _started(self, module: str) -> subprocess.Popen[str] | forkserver.Forked:
        with self.lock:
            if self.stopped:
                raise Died("stopped")
            if self.process is None or self.process.poll() is not None:
                self.process = self._new() if self.alone else self._forked(module)
            return self.process

    def _new(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "privlab.compute.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,  # an interrupt is for us, who then end the workers
        )

    def _forked(self, module: str) -> forkserver.Forked:
        if self.server is None or not self.server.alive:
            self._left()
            self.server = forkserver.enter(self.environment, self.folder, self.log)
        return forkserver.Forked(self.server, module, self.log)

    def _left(self) -> None:
        if self.server:
            forkserver.leave(self.server)
            self.server = None

    def _last_words(self) -> str:
        self.log.seek(0)
        return " | ".join(self.log.read().strip().splitlines()[-3:])


# -- kept warm ---------------------------------------------------------------------------------------------------------

_made: weakref.WeakSet[Process] = weakref.WeakSet()
_idle: list[Process] = []  # the longest idle first
_lock = threading.Lock()


def take(extra: Mapping[str, str]) -> Process:
    """A process with these variables beside our own: an idle one, or a new one."""
    new = Process(extra)
    with _lock:
        for old in reversed(_idle):
            if old.alive and (old.environment, old.folder) == (new.environment, new.folder):
                _idle.remove(old)
                new.stop()
                return old
    return new


def rest(process: Process) -> None:
    """Keep a process that has no work for the next `take`; not more of them than there are cores, and none for longer than WARM."""
    if not process.alive:
        return process.stop()
    with _lock:
        process.rested = began = time.monotonic()
        _idle.append(process)
        surplus = _idle[: -machine.cores()]
    for old in surplus:
        _end(old)
    timer = threading.Timer(WARM, _end, [process, began])
    timer.daemon = True
    timer.start()


def pids() -> list[int]:
    """Of all that there are, at work or idle, and of the servers that forked them."""
    return [each.process.pid for each in list(_made) if each.process and each.process.pid] + forkserver.pids()


def idle() -> int:
    """How many wait: their memory is counted as free, since they would be the ones to work."""
    return len(_idle)


@atexit.register
def end_idle() -> None:
    """End those that wait."""
    for process in list(_idle):
        _end(process)


def _end(process: Process, rested: float | None = None) -> None:
    with _lock:
        if process not in _idle or rested not in (None, process.rested):
            return  # at work again, or at rest again since
        _idle.remove(process)
    process.stop()
