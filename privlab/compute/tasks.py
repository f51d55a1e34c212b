"""Many independent tasks on this machine's cores, or on a Dask cluster: what is missing is done, what dies is tried again.

A task is a function of this package and plain arguments; its result lies in files, so that a task which is done is never done twice,
and one that was killed goes on from its last checkpoint, wherever it runs next.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from tqdm.auto import tqdm

from privlab.compute import machine, worker, worker_pool
from privlab.compute.worker_pool import Died

PATIENCE = 5  # deaths in a row without a step gained, after which a task is given up
WORKER_GB = 0.9  # what a process takes that has torch and a small model
ANSWER = 10  # seconds that a scheduler has to answer in
_TICK = 1.0  # seconds between two looks at how far the tasks are


@dataclass(frozen=True)
class Task:
    """One piece of work that leaves its result in files.

    name: for messages.  call: "module:function" of this package; it may raise `worker.Taken`.  arguments: plain JSON, handed over by
    name; a budget in seconds comes on top where one is given.  finished: whether the result is there.  steps: how many of `total` steps
    are done.
    """

    name: str
    call: str
    arguments: Mapping[str, Any]
    finished: Callable[[], bool]
    steps: Callable[[], int]
    total: int


@dataclass(frozen=True)
class Report:
    """What a call of `run` did: how many tasks were reused, done (as `verb` has it) and left undone; deaths survived; where, how long."""

    title: str
    reused: int
    done: int
    left: int
    deaths: int
    seconds: float
    where: str
    verb: str = "trained"

    def __repr__(self) -> str:
        parts = [f"{self.reused} reused"] if self.reused else []
        parts += [f"{self.done} {self.verb} in {self.seconds:.3g} s on {self.where}"] if self.done else []
        parts += [f"{self.deaths} death(s) of a worker survived"] if self.deaths else []
        parts += [f"{self.left} left when the time was over: run again to go on"] if self.left else []
        return f"{self.title}: {', '.join(parts) or 'nothing to do'}"


class Lane(Protocol):
    """Somewhere that works at one task at a time."""

    def work(self, task: Task, budget: float | None) -> None: ...

    def stop(self, idle: bool) -> None: ...  # idle: whether it has no work, or is in the midst of it


def run(
    tasks: Sequence[Task],
    title: str = "tasks",
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    gpu: bool = False,
    budget: float | None = None,
    progress: bool = True,
    verb: str = "trained",
) -> Report:
    """Do what is missing of these tasks, and say what was done.

    jobs: processes of this machine, one thread each; 1 works in this process. See `default_jobs`.
    cluster: address of a Dask scheduler, such as "tcp://127.0.0.1:8786"; by default
        $PRIVLAB_CLUSTER, unless jobs are given.
    gpu: the tasks use a GPU: processes are spread over those there are; on a cluster each takes one of the resource "GPU".
    budget: seconds, after which tasks are left where they are, each at a checkpoint.  progress: show a bar, in steps.
    verb: what was done to the tasks, for the report.
    An interrupt (Ctrl-C, or the stop button) ends the workers at once and loses no step that was kept; on a cluster, what is being worked
    at goes on to its end.
    Raises ValueError for jobs below 1; ConnectionError for a cluster that does not answer or has no worker; RuntimeError, after all others
    are done, for the first task that failed, with its traceback, or died so often that it will not get through.
    """
    began = time.monotonic()
    missing = [task for task in tasks if not task.finished()]
    if not missing:
        return Report(title, reused=len(tasks), done=0, left=0, deaths=0, seconds=0.0, where="", verb=verb)
    cluster = address(cluster, jobs)
    lanes, where = _lanes(len(missing), jobs, cluster, gpu, budget)
    deadline = None if budget is None else began + budget
    crew = _Crew(missing, deadline)
    try:
        with _bar(tasks, title, progress):
            crew.drive(lanes)
    finally:
        for lane in lanes:
            lane.stop(idle=crew.open == 0)
    left = [task for task in missing if not task.finished()]
    if left and not crew.out_of_time:
        raise RuntimeError(
            f"{left[0].name} was reported as done, but its files are not here; all machines need the same disk under the same path"
        )
    done = len(missing) - len(left)
    return Report(title, len(tasks) - len(missing), done, len(left), crew.deaths, time.monotonic() - began, where, verb)


class _Crew:
    """The lanes at work on one list of tasks."""

    def __init__(self, tasks: Sequence[Task], deadline: float | None) -> None:
        self.deadline, self.deaths, self.out_of_time = deadline, 0, False
        self.failure: Exception | None = None
        self.waiting: queue.Queue[tuple[Task, int]] = queue.Queue()
        self.open, self.lock = len(tasks), threading.Lock()
        self.over = threading.Event()
        for task in tasks:
            self.waiting.put((task, 0))

    def drive(self, lanes: Sequence[Lane]) -> None:
        try:
            if len(lanes) == 1:  # in this thread, where an interrupt arrives
                self._follow(lanes[0])
            else:
                for lane in lanes:
                    threading.Thread(target=self._follow, args=(lane,), daemon=True).start()
                while not self.over.wait(_TICK):
                    pass
        finally:
            self.over.set()
        if self.failure:
            raise self.failure

    def _follow(self, lane: Lane) -> None:
        """Take tasks until none is open: one that another lane holds may come back."""
        while not self.over.is_set():
            try:
                task, fruitless = self.waiting.get(timeout=_TICK)
            except queue.Empty:
                continue
            try:
                done = self._try(lane, task, fruitless)
            except Exception as error:  # of the task, or of looking how far it is; the others go on
                self._fail(f"{task.name} failed: {error}", error)
                done = True
            with self.lock:
                self.open -= done
                if self.open == 0:
                    self.over.set()

    def _try(self, lane: Lane, task: Task, fruitless: int) -> bool:
        """Work at a task once; False where it waits for another try."""
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            self.out_of_time = True
            return True
        before = task.steps()
        try:
            lane.work(task, left)
        except TimeoutError:
            if self.deadline is None or time.monotonic() < self.deadline:  # a network disk may give one as well
                raise
            self.out_of_time = True
        except worker.Taken:
            self.waiting.put((task, fruitless))  # behind the others
            self.over.wait(_TICK)
            return False
        except Died as death:
            with self.lock:
                self.deaths += 1
            fruitless = 0 if task.steps() > before else fruitless + 1
            if fruitless < PATIENCE:
                self.waiting.put((task, fruitless))
                return False
            self._fail(
                f"{task.name} died {PATIENCE} times without a step gained ({death}), as happens when memory runs out; "
                "try fewer jobs"
            )
        return True

    def _fail(self, message: str, cause: Exception | None = None) -> None:
        """Keep the first failure for the end: tasks that have nothing to do with it are still worth their time."""
        if self.failure is None:
            self.failure = RuntimeError(message)
            self.failure.__cause__ = cause


# -- where tasks are worked at -----------------------------------------------------------------------------------------


def _lanes(
    tasks: int, jobs: int | None, cluster: str | None, gpu: bool, budget: float | None
) -> tuple[Sequence[Lane], str]:
    if cluster:
        client = reach(cluster, gpu)
        places = (
            tasks if budget is None else min(tasks, _places(client, gpu))
        )  # or a budget would run while a task waits
        return [_OnCluster(client, gpu) for _ in range(places)], f"the cluster at {cluster}"
    jobs = min(processes(jobs, gpu), tasks)
    if jobs == 1:
        return [_Here()], "one process"
    return [_Apart(number, gpu) for number in range(jobs)], f"{jobs} processes"


def address(cluster: str | None, jobs: int | None) -> str | None:
    """Of the cluster that is used, where one is: this one, or $PRIVLAB_CLUSTER unless jobs are given."""
    return cluster or (os.environ.get("PRIVLAB_CLUSTER") if jobs is None else None)


def processes(jobs: int | None, gpu: bool = False) -> int:
    """How many processes are used: these, or `default_jobs`.  Raises ValueError for fewer than 1."""
    jobs = default_jobs(gpu) if jobs is None else jobs
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ValueError(f"jobs={jobs!r} processes do no work; give 1 or more")
    return jobs


def default_jobs(gpu: bool = False) -> int:
    """As many processes as there are cores (or $PRIVLAB_JOBS, which the runner sets) and free memory for; with a GPU, one."""
    jobs = os.environ.get("PRIVLAB_JOBS") or str(machine.cores())
    if not jobs.isdigit() or int(jobs) < 1:
        raise ValueError(f"PRIVLAB_JOBS={jobs!r} is no number of processes; give 1 or more")
    return 1 if gpu else max(1, min(int(jobs), int(machine.memory()[1] / WORKER_GB) + worker_pool.idle()))


class _Here:
    def work(self, task: Task, budget: float | None) -> None:
        worker.call(task.call, _arguments(task, budget))

    def stop(self, idle: bool) -> None:
        pass


class _Apart:
    """A process of our own, as kept warm by `worker_pool`."""

    def __init__(self, number: int, gpu: bool) -> None:
        self.worker = worker_pool.take(_device(number) if gpu else {})

    def work(self, task: Task, budget: float | None) -> None:
        self.worker.ask(task.call, _arguments(task, budget))

    def stop(self, idle: bool) -> None:
        if idle:
            worker_pool.rest(self.worker)
        else:
            self.worker.stop()


def _device(number: int) -> dict[str, str]:
    """One GPU for each process, in turn."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    devices = visible.split(",")
    return {"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}


class _OnCluster:
    """A place in the queue of a Dask scheduler, which finds a worker and moves the task when that one dies."""

    def __init__(self, client: Any, gpu: bool) -> None:
        self.client, self.resources = client, {"GPU": 1} if gpu else None

    def work(self, task: Task, budget: float | None) -> None:
        from distributed import KilledWorker

        arguments = _arguments(task, budget)
        future = self.client.submit(worker.call, task.call, arguments, pure=False, resources=self.resources)
        try:
            future.result()
        except KilledWorker as error:
            raise Died(str(error)) from None

    def stop(self, idle: bool) -> None:
        self.client.close()


def reach(address: str, gpu: bool = False) -> Any:
    """A client of the Dask scheduler at this address.  Raises ConnectionError, or ImportError, that says what is missing."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(f"cluster={address!r} needs the extra: pip install -e '.[cluster]'") from None
    try:
        _ = urlsplit(address if "://" in address else f"//{address}").port  # raises for one that cannot be
        client = Client(address, timeout=ANSWER, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:
        raise ConnectionError(
            f"cluster={address!r} does not answer ({type(error).__name__}); start `dask scheduler --host 127.0.0.1` and "
            f"`dask worker {address}`, and give the address that the scheduler prints"
        ) from None
    if not _places(client, gpu):
        client.close()
        want = " --resources GPU=1" if gpu else ""
        what = "worker that offers a GPU" if gpu else "worker"
        raise ConnectionError(f"cluster={address!r} has no {what}; start one: dask worker {address} --nthreads 1{want}")
    return client


def _places(client: Any, gpu: bool) -> int:
    """How many tasks a cluster works at: a worker at one, or at one for each GPU that it offers."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(int(w["resources"].get("GPU", 0)) for w in workers) if gpu else len(workers)


def _arguments(task: Task, budget: float | None) -> dict[str, Any]:
    return {**task.arguments, **({} if budget is None else {"budget": budget})}


# -- what a reader sees meanwhile --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _bar(tasks: Sequence[Task], title: str, progress: bool) -> Iterator[None]:
    """A bar over the steps of all tasks, looked up in their files; and what the workers take of the memory."""
    total = sum(task.total for task in tasks)
    over = threading.Event()
    bar = tqdm(
        total=total,
        initial=_steps(tasks) if progress else 0,
        desc=title,
        unit="step",
        disable=not progress,
        leave=False,
    )

    def look() -> None:
        while not over.wait(_TICK):
            machine.count_workers(worker_pool.pids())
            if progress:
                bar.update(_steps(tasks) - bar.n)
                bar.set_postfix_str(f"{sum(task.finished() for task in tasks)} of {len(tasks)} done", refresh=False)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        machine.count_workers(worker_pool.pids())  # what took less than a tick is looked at too
        bar.close()


def _steps(tasks: Sequence[Task]) -> int:
    return sum(task.steps() for task in tasks)
