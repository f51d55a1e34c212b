"""A process that works off tasks for a fleet: one JSON object a line comes in, one goes out, until the input ends.

`fleet` starts `python -m privlab.worker`. A task is a function by name and its arguments, {"call": "module:function", "arguments": {...}};
the answer is {"done": true}, or {"type": ..., "error": ..., "traceback": ...}. When the input ends, because the process that started
this one is gone, whatever is being worked at is dropped at once: what counts lies in files, and someone else goes on from there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

_ALONE = threading.Lock()  # training draws from the process's own generators, so two at once would disturb each other


def call(name: str, arguments: Mapping[str, Any]) -> None:
    """Call a function by its name, "module:function", with one thread on the CPU, and nothing else at the same time."""
    module, _, function = name.partition(":")
    with _ALONE, _one_thread():
        getattr(importlib.import_module(module), function)(**arguments)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Results are then the same to the bit wherever they are computed, and processes do not wait for each other's threads."""
    import torch  # not at the top: a worker answers, and can be told to stop, before it has loaded torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a task prints must not mix with the answers
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
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


if __name__ == "__main__":
    main()
