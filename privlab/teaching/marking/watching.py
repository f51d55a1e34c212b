"""Marks of a class in progress: the folder is looked at again and again, and what is new or changed in it is marked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from privlab.teaching.marking.gradebook import Row, notebooks

BEAT = 2.0  # seconds between two looks

Seen = dict[str, tuple[int, int]]  # file within the folder -> when it was changed, ns; bytes


def look(folder: Path) -> Seen:
    """The notebooks in a folder as they are now; none where it holds none yet.  Raises NotADirectoryError where there is no folder."""
    try:
        paths, _ = notebooks(folder)
    except FileNotFoundError:
        return {}
    seen: Seen = {}
    for path in paths:
        try:
            state = path.lstat()
        except FileNotFoundError:  # gone between the two looks
            continue
        seen[str(path.relative_to(folder))] = (state.st_mtime_ns, state.st_size)
    return seen


def watch(
    folder: Path, mark: Callable[[list[Row]], list[Row]], rest: Callable[[float], None] = time.sleep
) -> Iterator[list[Row]]:
    """The rows of a folder, each time that a notebook in it came, went or was changed; it never ends by itself.

    mark: marks the notebooks of the folder except those whose rows it is given, and returns the rows of all.  rest: sleeps.
    It waits until two looks in a row find a new file the same: one that is still being copied is no notebook yet.
    Raises NotADirectoryError where there is no folder, and whatever `mark` raises.
    """
    rows: list[Row] = []
    done: Seen = {}
    before = look(folder)
    while True:
        rest(BEAT)
        now = look(folder)
        settled = {file for file, state in now.items() if before.get(file) == state}
        if now and (any(done.get(file) != now[file] for file in settled) or done.keys() - now.keys()):
            rows = mark([row for row in rows if done.get(row.file) == now.get(row.file)])
            there = {row.file for row in rows}
            done = {file: state for file, state in now.items() if file in there}
            yield rows
        before = now
