"""Many tasks on this machine's cores or on a Dask cluster; what a death cut short is done again, and goes on from its checkpoint."""

import math
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any

from joblib import Parallel, delayed, parallel_config
from tqdm.auto import tqdm

from privlab.compute import machine

PATIENCE = 5  # deaths in a row without a task done, after which the rest is given up
WORKER_GB = 0.9  # what a process takes that has torch and a small model


class Taken(Exception):
    """What a task raises that cannot be done now, as when another process is at it: it is tried again behind the others."""


def fan_out(
    tasks: Mapping[str, Callable[[], None]], title: str, *, jobs: int | None = None, minutes: float | None = None,
    cluster: str | None = None, progress: bool = True,
) -> str:  # fmt: skip
    """Do these tasks, and say in one line what was done.

    tasks: name -> what is called, which does nothing where its result is there: a worker's death may make it be called again.
    jobs: see `processes`; 1 works in this process.  minutes: after so many no task begins.
    cluster: see `on_cluster`; it takes the place of processes, and its machines share this disk.
    An interrupt ends the workers and loses no step that was kept; on a cluster, what has begun goes on to its end.
    Raises ValueError and ConnectionError as `processes` and `on_cluster` do; RuntimeError for the first task that failed, when all others
    are done, and where workers die again and again.
    """
    if not tasks:
        return f"{title}: nothing to do"
    began, todo = time.time(), dict(tasks)
    jobs = 0 if cluster else min(processes(jobs), len(todo))
    where = f"the cluster at {cluster}" if cluster else f"{jobs} processes" if jobs > 1 else "one process"
    deadline = began + (math.inf if minutes is None else 60 * minutes)
    deaths, fruitless, failed = 0, 0, list[tuple[str, Exception]]()
    with tqdm(desc=title, total=len(todo), unit="task", disable=not progress, leave=False) as bar:
        while todo and time.time() < deadline:
            # After a turn in which workers died and nothing was done, one goes alone: it may be what kills the others' workers.
            first, before, died = next(iter(todo)), len(todo), None
            calls = [delayed(_attempt)(name, todo[name], deadline) for name in ([first] if fruitless else todo)]
            try:
                for name, error in on_cluster(cluster, calls) if cluster else in_processes(jobs, 1, calls):
                    if not isinstance(error, Taken):
                        del todo[name]
                        failed += [(name, error)] if error else []
                        bar.update(error is None)
            except BrokenProcessPool as death:
                died, deaths = death, deaths + 1
            fruitless = fruitless + 1 if died and len(todo) == before else 0
            if fruitless == PATIENCE:
                why = f"workers died {PATIENCE} times in a row, as happens when memory runs out; try fewer jobs"
                raise RuntimeError(f"{first} is not done: {why}") from died
            if first in todo:
                todo[first] = todo.pop(first)  # behind the others
            if todo:
                time.sleep(1)  # another process may be through then, and memory free
    if failed:
        name, error = failed[0]
        raise RuntimeError(f"{name} failed: {error}") from error
    said = f"{title}: {len(tasks) - len(todo)} done in {time.time() - began:.3g} s on {where}"
    more = {"deaths of a worker": deaths, "left for the next call": len(todo)}
    return ", ".join([said, *(f"{count} {what}" for what, count in more.items() if count)])


def processes(jobs: int | None) -> int:
    """These; else as many as there are cores ($PRIVLAB_JOBS) and memory for.  Raises ValueError for fewer than 1."""
    if jobs is None:
        room = int(machine.memory()[1] / WORKER_GB)
        jobs = max(1, min(int(os.environ.get("PRIVLAB_JOBS") or machine.cores()), room))
    if jobs < 1:
        raise ValueError(f"jobs={jobs} processes do no work; give 1 or more")
    return jobs


def in_processes(jobs: int, threads: int, calls: Iterable[Any]) -> Iterator[Any]:
    """What calls of joblib's `delayed` return, as they end, in processes of this machine with so many threads each.

    The processes are kept for a minute: a lab trains, attacks, and trains again. They end with this one, however it ends.
    """
    about = (os.getpid(), dict(os.environ), os.getcwd())  # where one is another, joblib starts other processes
    begin = dict(idle_worker_timeout=60, initializer=_begin_worker, initargs=about)
    with parallel_config("loky", inner_max_num_threads=threads, **begin):
        yield from Parallel(jobs, batch_size=1, return_as="generator_unordered")(calls)


def _begin_worker(parent: int, *_: object) -> None:
    """Have a process of loky end with the one that has started it, in the middle of a task, too; a kernel in it does so by itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_cluster(address: str, calls: Sequence[Any]) -> Iterator[Any]:
    """What calls of joblib's `delayed` return, as they end, on the Dask cluster whose scheduler has this address.

    By Dask itself: joblib's backend for it waits for ever for a task whose workers died too often (1.6.0).
    Raises ConnectionError that says what is missing; BrokenProcessPool for such a task, when all others have ended.
    """
    opened = ExitStack()
    try:
        from distributed import Client, as_completed

        client = opened.enter_context(Client(address, timeout=10, set_as_default=False))
        client.wait_for_workers(1, timeout=30)  # of a cluster whose workers died, until they are there again
    except (ImportError, OSError, TypeError, ValueError) as error:
        opened.close()
        raise ConnectionError(
            f"cluster={address!r} does not answer ({type(error).__name__}); install the extra (pip install -e '.[cluster]'), start "
            f"`dask scheduler --host 127.0.0.1` and `dask worker {address} --nthreads 1`, and give the address that the scheduler prints"
        ) from error
    with opened:
        futures = [client.submit(attempt, *given, pure=False) for attempt, given, _ in calls]
        for future in as_completed(futures, loop=client.loop):
            if future.status == "finished":
                yield future.result()
        if lost := [future.exception() for future in futures if future.status != "finished"]:
            raise BrokenProcessPool(str(lost[0]))


_ALONE = threading.Lock()  # training draws from its process's generators, and a Dask worker may have several threads


def _attempt(name: str, call: Callable[[], None], deadline: float) -> tuple[str, Exception | None]:
    """Work at a task; its name, and `Taken` or how it failed.  With one thread, results are the same to the bit."""
    import torch  # not at the top: who starts workers need not wait for it

    with _ALONE:
        if time.time() >= deadline:
            return name, Taken()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            call()
            return name, None
        except Taken as taken:
            return name, taken
        except Exception as error:
            failure = RuntimeError(f"{type(error).__name__}: {error}")  # of a kind that every process can read
            failure.add_note(traceback.format_exc())
            return name, failure
        finally:
            torch.set_num_threads(threads)
