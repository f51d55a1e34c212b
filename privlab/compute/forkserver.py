"""A process that has imported what workers need, and forks them: they share its memory, and are there in milliseconds.

torch and timm take seconds to import, and some 400 MB in each process that does. A worker that is forked from one that has them shares
these pages until it writes to them. `worker.serve` is the other end, and says why it is safe. On Linux alone.

Why not `multiprocessing`'s forkserver, which is the same idea: each of its workers runs the caller's script once more where that has no
`__main__` guard, and fails where the script came on standard input. There is one server in a process, for whoever uses it first, with the
imports that it was started with; while it imports, a start cannot be called off, and nothing public ends it. It forks also where an import
has started a thread. Threads that start workers lose how others ended: six of them 56 to 79 of 240 exit codes (Python 3.11).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO

AT_HAND = sys.platform == "linux"  # elsewhere a fork is unsafe with the system's libraries, or there is none


class ForkServer:
    """Has an environment and a folder, and its workers with it."""

    def __init__(self, environment: Mapping[str, str], folder: str, log: IO[str]) -> None:
        self.environment, self.folder, self.users = environment, folder, 0
        self.statuses, self.lock = dict[int, int](), threading.Lock()
        self.ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "privlab.compute.worker", "--forkserver"],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,  # an interrupt is for us, who then end the workers
            )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: Mapping[str, object], files: list[int] | None = None) -> None:
        with contextlib.suppress(OSError):  # one that is gone does nothing, and whoever waits for its work hears that
            socket.send_fds(self.ours, [json.dumps(request).encode()], files or [])

    def status(self, pid: int) -> int:
        """How a worker ended, as `subprocess` has it; waits for that. 1 where the server is gone."""
        with self.lock:
            if pid not in self.statuses:
                self.ask({"status": pid})
                self.statuses[pid] = 1
                with contextlib.suppress(OSError):
                    self.statuses[pid] = int(self.ours.recv(32) or b"1")
            return self.statuses[pid]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.ours.close()


class Forked:
    """A worker out of a fork server, or about to be; it has of `subprocess.Popen` what `worker_pool` asks for."""

    def __init__(self, server: ForkServer, module: str, log: IO[str]) -> None:
        """module: what the server has imported before it forks.  log: where its errors go."""
        self.server, self.killed, self.pid = server, False, 0  # 0 until it has said its own
        self.ours, theirs = socket.socketpair()
        with theirs:
            server.ask({"fork": module}, [theirs.fileno(), log.fileno()])
        self.stdin, self.stdout = self.ours.makefile("w"), self.ours.makefile("r")

    def wait_for_pid(self) -> None:
        """Wait for its first word; none comes where it, or the server, was ended before."""
        if not self.pid:
            with contextlib.suppress(OSError):
                self.pid = int(self.stdout.readline() or 0)

    def poll(self) -> int | None:
        """None while it lives.  For one that has nothing to do: what it says is not read."""
        try:
            ended = not self.ours.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            ended = False
        except OSError:
            ended = True
        return self.wait() if ended else None

    def wait(self) -> int:
        if self.pid:
            return self.server.status(self.pid)
        if not self.killed:  # it was not born because the server is about to end, which `alive` should then know
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.server.process.wait(10)
        return 1

    def kill(self) -> None:
        """End it; one that is not born yet will find nobody to work for, and end."""
        self.killed = True
        with contextlib.suppress(OSError):
            self.ours.shutdown(socket.SHUT_RDWR)
        if self.pid and self.pid not in self.server.statuses and self.server.alive:  # or the number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


_open: list[ForkServer] = []
_lock = threading.Lock()


def enter(environment: Mapping[str, str], folder: str, log: IO[str]) -> ForkServer:
    """The server with this environment and folder; it stays until all who entered have left."""
    with _lock:
        for each in _open:
            if each.alive and (each.environment, each.folder) == (environment, folder):
                break
        else:
            each = ForkServer(environment, folder, log)
            _open.append(each)
        each.users += 1
        return each


def leave(server: ForkServer) -> None:
    with _lock:
        server.users -= 1
        if server.users == 0:
            _open.remove(server)
            server.end()


def pids() -> list[int]:
    return [each.process.pid for each in _open]
