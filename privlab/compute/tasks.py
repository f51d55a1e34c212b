"""Many tasks on this machine's cores or on a Dask cluster: what is missing is done, and what a death cut short is done again.

A task is a function that leaves its result in files: what is done is not done twice, and what was killed goes on from its checkpoint.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import current_process
from typing import Any

import psutil
from joblib import Parallel, delayed, parallel_config
from tqdm.auto import tqdm

from privlab.compute import machine

PATIENCE = 5  # deaths in a row without a task done, after which the rest is given up
WORKER_GB = 0.9  # what a process takes that has torch and a small model
Outcome = tuple[int, Exception | None]  # a task's number; Taken, TimeoutError when time is over, or how it failed


class Taken(Exception):
    """What a task raises that another process is at: it is tried again behind the others."""


@dataclass(frozen=True)
class Task:
    """call: a function of this package, which takes these arguments, and `budget` in seconds where one is given.  finished: is it done?"""

    name: str
    call: Callable[..., None]
    arguments: Mapping[str, Any]
    finished: Callable[[], bool]


def fan_out(
    tasks: Sequence[Task],
    title: str,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    gpu: bool = False,
    budget: float | None = None,
    progress: bool = True,
) -> str:
    """Do what is missing of these tasks, and say in one line what was done.

    jobs: see `processes`; 1 works in this process.  cluster: see `address`; its machines share this disk.
    gpu: processes are spread over the GPUs there are; on a cluster each task takes one of the resource "GPU".
    budget: seconds, after which tasks are left where they are, each at a checkpoint.  An interrupt ends the workers and loses no step that
    was kept; on a cluster, what has begun goes on to its end.  Raises ValueError and ConnectionError as `processes` and `reach` do;
    RuntimeError for the first task that failed, when all others are done, and where workers die again and again.
    """
    began, todo = time.time(), [task for task in tasks if not task.finished()]
    if not todo:
        return f"{title}: nothing to do"
    cluster = address(cluster, jobs)
    jobs = 0 if cluster else min(processes(jobs, gpu), len(todo))
    where = f"the cluster at {cluster}" if cluster else f"{jobs} processes" if jobs > 1 else "one process"
    deadline = None if budget is None else began + budget
    missing, deaths, fruitless, failed = len(todo), 0, 0, dict[str, Exception]()
    bar = tqdm(desc=title, total=missing, unit="task", disable=not progress, leave=False)
    with reach(cluster, gpu) if cluster else nullcontext() as client, bar:
        while todo:
            # After a turn in which workers died and nothing was done, one goes alone: it may be what kills the others' workers.
            turn, died = todo[:1] if fruitless else todo, None
            calls = [(n, task.call, task.arguments, deadline) for n, task in enumerate(turn)]
            try:
                near = in_processes(jobs, 1, (delayed(_attempt)(*call) for call in calls), gpu)
                for number, error in _far(client, gpu, calls) if client else near:
                    if error is None and not turn[number].finished():
                        error = OSError("it left no result here; all machines need the same disk under the same path")
                    if error and not isinstance(error, Taken):
                        failed[turn[number].name] = error
                    bar.update(error is None)
            except BrokenProcessPool as death:
                died, deaths = death, deaths + 1
            again = [task for task in (*todo[1:], todo[0]) if not task.finished() and task.name not in failed]
            fruitless = fruitless + 1 if died and len(again) == len(todo) else 0
            if fruitless == PATIENCE:
                why = f"workers died {PATIENCE} times in a row, as happens when memory runs out; try fewer jobs"
                raise RuntimeError(f"{turn[0].name} is not done: {why}") from died
            if todo := again:
                time.sleep(1)  # another process may be through then, and memory free
    for name, error in failed.items():
        if not isinstance(error, TimeoutError):
            raise RuntimeError(f"{name} failed: {error}") from error
    said = f"{title}: {missing - len(failed)} done in {time.time() - began:.3g} s on {where}"
    more = {"reused": len(tasks) - missing, "deaths of a worker": deaths, "left for the next call": len(failed)}
    return ", ".join([said, *(f"{count} {what}" for what, count in more.items() if count)])


def processes(jobs: int | None, gpu: bool = False) -> int:
    """These; else one with a GPU, or as many as there are cores ($PRIVLAB_JOBS) and memory for.  Raises ValueError for fewer than 1."""
    if jobs is None:
        room = int(machine.memory()[1] / WORKER_GB)
        jobs = 1 if gpu else max(1, min(int(os.environ.get("PRIVLAB_JOBS") or machine.cores()), room))
    if jobs < 1:
        raise ValueError(f"jobs={jobs} processes do no work; give 1 or more")
    return jobs


def address(cluster: str | None, jobs: int | None) -> str | None:
    """Of the cluster that is used, where one is: this one, or $PRIVLAB_CLUSTER unless jobs are given."""
    return cluster or (os.environ.get("PRIVLAB_CLUSTER") if jobs is None else None)


def reach(address: str, gpu: bool = False) -> Any:
    """A client of the Dask scheduler at this address.  Raises ConnectionError that says what is missing."""
    needs = f"`dask worker {address} --nthreads 1{' --resources GPU=1' * gpu}`"
    try:
        from distributed import Client

        client = Client(address, timeout=10, set_as_default=False)
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise ConnectionError(
            f"cluster={address!r} does not answer ({type(error).__name__}); install the extra (pip install -e '.[cluster]'), start "
            f"`dask scheduler --host 127.0.0.1` and {needs}, and give the address that the scheduler prints"
        ) from error
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not any(worker["resources"].get("GPU") or not gpu for worker in workers):
        client.close()
        raise ConnectionError(f"cluster={address!r} has no worker; start one: {needs}")
    return client


def in_processes(jobs: int, threads: int, calls: Iterable[Any], gpu: bool = False) -> Iterator[Any]:
    """What calls of joblib's `delayed` return, as they end, in processes of this machine with so many threads each.

    The processes are kept for a minute: a lab trains, attacks, and trains again. They end with this one, however it ends.
    """
    about = (os.getpid(), gpu, dict(os.environ), os.getcwd())  # where one is another, joblib starts other processes
    begin = dict(idle_worker_timeout=60, initializer=_begin_worker, initargs=about)
    with parallel_config("loky", inner_max_num_threads=threads, **begin):
        yield from Parallel(jobs, batch_size=1, return_as="generator_unordered")(calls)


def _begin_worker(parent: int, gpu: bool, *_: object) -> None:
    """A process of loky takes a GPU, in turn, and ends with the one that has started it, and all that it has started with it."""
    if gpu:
        import torch

        torch.cuda.set_device(int(current_process().name.rpartition("-")[2]) % torch.cuda.device_count())
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(1)


def _far(client: Any, gpu: bool, calls: Sequence[tuple]) -> Iterator[Outcome]:
    """On a cluster, by Dask itself: joblib's backend for it waits for ever for a task whose workers died too often (1.6.0)."""
    from distributed import as_completed

    resources = {"GPU": 1} if gpu else None
    futures = [client.submit(_attempt, *call, pure=False, resources=resources) for call in calls]
    for future in as_completed(futures, loop=client.loop):
        if future.status == "finished":
            yield future.result()
    if lost := [future for future in futures if future.status != "finished"]:
        raise BrokenProcessPool(str(lost[0].exception()))


_ALONE = threading.Lock()  # training draws from its process's generators, and a Dask worker may have several threads


def _attempt(number: int, call: Callable[..., None], arguments: Mapping[str, Any], deadline: float | None) -> Outcome:
    """Work at a task, with one thread and float32 as it is: its result is then the same to the bit wherever it is computed."""
    import torch  # not at the top: who starts workers need not wait for it

    with _ALONE:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        machine.exact_float32()
        try:
            left = {} if deadline is None else {"budget": deadline - time.time()}
            if left and left["budget"] <= 0:
                raise TimeoutError
            call(**arguments, **left)
            return number, None
        except Exception as error:
            if isinstance(error, Taken) or (isinstance(error, TimeoutError) and deadline):
                return number, error
            failure = RuntimeError(f"{type(error).__name__}: {error}")  # of a kind that every process can read
            failure.add_note(traceback.format_exc())
            return number, failure
        finally:
            torch.set_num_threads(threads)
