"""One run at a time in a folder: two would take each other's results for their own, and the last ledger would count."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from privlab.compute.atomic import make_folder, write_atomic

try:
    import fcntl
except ImportError:  # Windows, where nothing of this kind can be asked of a folder
    fcntl = None  # type: ignore[assignment]


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Hold a run's folder, made where it is missing; the system lets go of it when this process ends, however it does.

    Raises ValueError for one that another run holds, which it names; OSError for one that is a file, or cannot be written.
    """
    make_folder(folder)
    holder = folder / ".run"
    with _locked(folder, holder):
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        write_atomic(holder, f"process {os.getpid()} on {platform.node()}, which began at {now}".encode())
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path, holder: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a disk of a network may know no locks
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = "another run"
                with contextlib.suppress(OSError, ValueError):  # it has only just begun
                    who = holder.read_text(encoding="utf-8")
                raise ValueError(f"out={str(folder)!r} is in use by {who}; wait for its end, or give another") from None
        yield
    finally:
        os.close(place)
