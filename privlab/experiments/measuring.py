"""Measure what is registered and missing; the files of evidence are the memory, so any machine goes on from them.

What is interrupted, however that is, loses at most the repeats in the making; of these, long searches and trainings go on where they were.
"""

import os
import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout
from PIL import Image

from privlab.compute import machine, tasks
from privlab.compute.files import shared_folder
from privlab.experiments.protocol import find
from privlab.ledger import evidence

SHOWN = 3  # so many repeats of a size have their pictures kept, the first ones, so that the book shows what the numbers are about


def png(experiment: str, size: str, repeat: int, name: str, root: Path | None = None) -> Path:
    """Where a picture lies, beside the evidence.  name: metric[key, ...], as its experiment yields it."""
    words = "-".join(re.findall(r"[a-z0-9_]+", name))
    return evidence.path(experiment, size, root).with_suffix("") / f"{repeat}-{words}.png"


class Plan(NamedTuple):
    """What is there of an experiment at one size, and what is missing."""

    experiment: str
    there: int  # how many repeats of those that are registered
    missing: tuple[int, ...]  # their numbers
    hours: float | None  # what the missing ones will take on one core, by those that are there; None if none is


def plans(names: Sequence[str], size: str) -> Iterator[Plan]:
    """What is left to be measured, of the experiments that have this size: what is registered, and what their decorators say now."""
    registered = evidence.registrations()
    for one in (one for one in map(find, names) if size in one.sizes):
        about = (one.name, size, one.digest(size))
        seconds = {row.repeat: row.seconds for row in evidence.read(*about)}
        tries = [entry.range for entry in registered if (entry.experiment, entry.size, entry.digest) == about]
        wanted = {*one.size(size).range}.union(*tries)
        missing = tuple(sorted(wanted - seconds.keys()))
        hours = statistics.mean(seconds.values()) * len(missing) / 3600 if seconds else None
        yield Plan(one.name, len(wanted) - len(missing), missing, hours)


def registration(name: str, size: str) -> evidence.Registration:
    """The registration of an experiment at one size, as its decorator has it. Raises ValueError where it does not have this size."""
    one = find(name)
    plan, today = one.size(size), date.today().isoformat()
    about = (one.protocol, one.digest(size), plan.range.start, len(plan.range), plan.stands_for, plan.own)
    return evidence.Registration(name, size, *about, today)


def measure(
    names: Sequence[str], size: str, *, minutes: float | None = None, jobs: int | None = None, device: str = "cpu",
    progress: bool = True,
) -> str:  # fmt: skip
    """Measure what is missing of these experiments at one size, append it to the evidence, and say in one line what was done.

    What is not registered yet is registered before its first repeat; smoke, which is never judged, need not be.
    names: of experiments, see `names`.  size: one of smoke, class, night, gpu, paper.  minutes: no repeat begins after so many.
    jobs: see `tasks.fan_out`; on a card 1 if not given.  device: "cpu", "cuda", "cuda:1" (of several cards) or "auto".
    Raises ValueError for an unknown experiment, size or device, or a registration that says something else; OSError for a folder that
    cannot be written; RuntimeError for a repeat that failed, behind all others.
    """
    root = str(evidence.folder().absolute())  # the workers of a cluster may have another current folder
    cluster = os.environ.get("PRIVLAB_CLUSTER") if jobs is None else None  # who names jobs means this machine
    if cluster:
        machine.check_device(device, here=False)
    elif machine.device(device).startswith("cuda"):
        jobs = jobs or 1  # a process for a card
    tasks.processes(jobs)  # what cannot be done is told before it is registered
    listed = [*plans(names, size)]
    missing = [(plan.experiment, n) for plan in listed for n in plan.missing]
    if missing:  # finds a folder that cannot be written; where the range of a decorator moved on, it is a further try
        evidence.register(registration(plan.experiment, size) for plan in listed if plan.missing and size != "smoke")
    work = {f"{name} {size} {n}": partial(repeat, name, size, n, root, device) for name, n in missing}
    there = f"all {sum(plan.there for plan in listed)} repeats at {size} are there"
    title = f"{len(work)} repeats at {size}" if work else there
    said = tasks.fan_out(work, title, jobs=jobs, minutes=minutes, cluster=cluster, progress=progress)
    if cluster and minutes is None and any(plan.missing for plan in plans(names, size)):
        raise RuntimeError("repeats left no result here; all machines need the same disk under the same path")
    return said


def repeat(experiment: str, size: str, repeat: int, root: str, device: str = "cpu") -> None:
    """Measure one repeat and write its line: what a worker is told to do.

    Raises ValueError for a value that is no number, or a name that is yielded twice; `tasks.Taken` where another process is at it.
    """
    chosen, where = find(experiment), Path(root)
    file = evidence.path(experiment, size, where)
    shared_folder(file.parent)
    lock = file.with_name(f".{file.name}.{repeat}.lock")
    try:
        alone = FileLock(lock, mode=0o666).acquire(blocking=False)  # let go of when this process ends, however it does
    except Timeout:
        raise tasks.Taken(f"repeat {repeat} of {file.stem} is being measured by another process") from None
    with alone:
        if repeat not in evidence.lines(experiment, size, chosen.digest(size), where):  # or it was measured since
            row, images = chosen.measured(repeat, size, device)
            for name, image in images.items() if repeat in chosen.size(size).range[:SHOWN] else ():
                place = png(experiment, size, repeat, name, where)
                place.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image.numpy()).save(place, optimize=True)
            evidence.append(experiment, size, row, where)
        with suppress(OSError):  # who holds it from now on finds the repeat there
            lock.unlink()
