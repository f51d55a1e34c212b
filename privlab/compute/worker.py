"""A process that works off tasks for a fleet: one JSON object a line comes in, one goes out, until the input ends.

`worker_pool` starts `python -m privlab.compute.worker`, or has it forked by one that was started with --forkserver. A task is a function
by name and its arguments, {"call": "module:function", "arguments": {...}}; the answer is {"done": true}, or {"type": ..., "error": ...,
"traceback": ...}. When the input ends, because the process that started this one is gone, whatever is being worked at is dropped at once:
what counts lies in files, and someone else goes on from there.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import queue
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from privlab.compute import machine


class Taken(Exception):
    """What a task raises that another process is at: it is tried again once there is nothing better to do."""


_ALONE = threading.Lock()  # training draws from the process's own generators, so two at once would disturb each other


def call(name: str, arguments: Mapping[str, Any]) -> None:
    """Call a function by its name, "module:function", with one thread on the CPU, float32 as it is, and nothing else at the same time."""
    module, _, function = name.partition(":")
    with _ALONE, _one_thread():
        getattr(importlib.import_module(module), function)(**arguments)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Results are then the same to the bit wherever they are computed, and processes do not wait for each other's threads.

    A GPU takes float32 as it is, too; afterwards all is as the caller had it.
    """
    import torch  # not at the top: a worker answers, and can be told to stop, before it has loaded torch

    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    threads, before = torch.get_num_threads(), (cudnn.allow_tf32, matmul.allow_tf32)
    torch.set_num_threads(1)
    machine.exact_float32()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        cudnn.allow_tf32, matmul.allow_tf32 = before


def main() -> None:
    wire, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(
        os.open(os.devnull, os.O_RDONLY), 0
    )  # or a program that a task starts would hold the wire, and nobody hear of our end
    os.dup2(2, 1)  # what a task prints must not mix with the answers
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        with contextlib.suppress(ConnectionResetError):  # how it ends where an answer of ours was not read
            for line in wire:
                tasks.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        task = tasks.get()
        try:
            call(task["call"], task["arguments"])
            answer: dict[str, Any] = {"done": True}
        except Exception as error:
            answer = {"type": type(error).__name__, "error": str(error), "traceback": traceback.format_exc()}
        print(json.dumps(answer), file=answers)


def serve() -> None:
    """Import what is asked for, fork workers, and tell how they ended, until nobody asks any more; see `forkserver`.

    A fork copies one thread, and the locks that others hold for ever. Here there is one: libraries start theirs when they compute, and this
    process only imports. Where one has started some all the same, a worker is no copy, and imports for itself.
    """
    control = socket.socket(fileno=os.dup(0))
    gc.disable()  # and what is there by then is never looked through: to look is to write, and what is written is no longer shared
    while True:
        message, files, *_ = socket.recv_fds(control, 4096, 2)
        if not message:
            os._exit(0)
        request = json.loads(message)
        if "status" in request:
            control.send(str(os.waitstatus_to_exitcode(os.waitpid(request["status"], 0)[1])).encode())
            continue
        with contextlib.suppress(Exception):  # the worker will fail in the same way, and tell
            import torch  # noqa: F401  `call` asks for it

            importlib.import_module(request["fork"])
        gc.freeze()
        copy = len(os.listdir("/proc/self/task")) == 1
        if os.fork() == 0:
            control.close()
            _become_worker(files[0], files[1], copy)
        for file in files:
            os.close(file)


def _become_worker(wire: int, errors: int, copy: bool) -> None:
    """In the fork: become a worker with this socket as its input and output."""
    status = 1
    try:
        for file, number in ((wire, 0), (wire, 1), (errors, 2)):
            os.dup2(file, number)
        os.close(wire)  # so that the other side hears when this process ends
        os.write(1, f"{os.getpid()}\n".encode())
        if not copy:
            os.execv(sys.executable, [sys.executable, "-m", "privlab.compute.worker"])
        gc.enable()
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)  # what the server would do at its end is not this process's


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--forkserver"] else main()
