"""Marks for a folder of submitted notebooks: a table with one row a notebook, whatever is in them.

The notebooks are read before any answer runs, so that none can change another. Every answer then runs alone, shut in, and apart from the
check that asks it: see `grader` and `sandbox` for what holds and what does not. This process never runs, and hardly reads, what is in them;
it alone holds the table, and writes it anew after each row.

Only what an answer needs is run, in the order of the notebook: not the lab. So a submitted notebook may be renamed, have cells added,
split, or stripped of their tags; what finds an exercise is the name in `checks.verify("05.noise", ...)`, and the last such call counts.
A notebook is due the exercises of its lab, one that goes deeper its own; a student returns both, or puts them into one, as they like.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import privlab
from privlab.compute import reading
from privlab.compute.atomic import write_atomic
from privlab.teaching.marking import sandbox

_FORMULA = re.compile(
    r"""(^|;)(?=[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212])"""
)  # full-width and small ones, too
SECONDS, MEMORY = 20.0, 2.0  # for one answer, unless told otherwise; GB


class Ask(Protocol):
    """Asks a grader's process to do a task; `lab` is to be ready there."""

    def __call__(self, task: dict[str, Any], lab: str = "") -> dict[str, Any]: ...


class Died(Exception):
    """The process of the grader was lost."""


@dataclass
class Row:
    """What a submitted notebook earned. verdicts: exercise -> {"state": right, wrong, open or failed; "why"}."""

    file: str
    lab: str = ""
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    student: str = ""  # whose the notebook says it is

    @property
    def marks(self) -> int:
        """One for each right answer."""
        return sum(verdict["state"] == "right" for verdict in self.verdicts.values())


def notebooks(folder: Path) -> tuple[list[Path], list[Path]]:
    """The notebooks in a folder and the folders in it, and the files there that are none by their names.

    Also a notebook is what a browser or a mail program made of its name, such as mine.ipynb.txt or MINE.IPYNB. Left out of both are
    Jupyter's own copies and what macOS adds.  Raises NotADirectoryError, FileNotFoundError where there is none.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder; give the one that the returned notebooks are in")
    every = reading.visible(folder, "**/*")
    files = [p for p in every if not p.is_dir() or p.is_symlink() or ".ipynb" in p.name.lower()]
    paths = [p for p in files if ".ipynb" in p.name.lower()]
    if not paths:
        raise FileNotFoundError(f"{str(folder)!r} holds no notebook (*.ipynb)")
    return paths, [p for p in files if ".ipynb" not in p.name.lower()]


def mark(
    folder: Path,
    out: Path,
    jobs: int = 1,
    seconds: float = SECONDS,
    memory: float = MEMORY,
    began: Callable[[int, str], None] = lambda count, warning: None,
    done: Callable[[Row], None] = lambda row: None,
    marked: Sequence[Row] = (),
) -> list[Row]:
    """Mark every notebook of a folder, and leave the table in `out`, as CSV; it grows row by row, so a stop loses nothing.

    jobs: notebooks at a time, 1 GB each.  seconds: of a processor, for one answer.  memory: for one answer, GB beside that.
    began: told how many notebooks there are, and a warning of what an answer is not kept from (the table has it).  done: told each new row.
    marked: rows of files that were marked before: they stand in the table as they are.
    Raises ValueError, OSError before anything is run.
    """
    for name, value in (("jobs", jobs), ("timeout", seconds), ("memory", memory)):
        if not value > 0:
            raise ValueError(f"{name}={value:g} marks nothing; give more than 0")
    if not hasattr(os, "fork"):
        raise OSError("answers are marked in forked processes, which this system lacks; use Linux, WSL or macOS")
    paths, _ = notebooks(folder)
    rows = {folder / row.file: row for row in marked if folder / row.file in paths}
    new = [path for path in paths if path not in rows]
    with contextlib.ExitStack() as started:
        graders = [started.enter_context(_grader()) for _ in range(min(jobs, max(len(new), 1)))]
        free: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        for ask in graders:
            free.put(ask)
        warning = _warning(graders[0])

        def lent(work: Callable[..., Any], *given: Any) -> Any:
            ask = free.get()
            try:
                return work(ask, *given)
            finally:
                free.put(ask)

        with ThreadPoolExecutor(len(graders)) as pool:
            try:
                contents = dict(zip(new, pool.map(lambda path: lent(_read, path, folder), new), strict=True))
                every = [*rows.values(), *(row for row, _ in contents.values())]
                exercises = sorted({name for row in every for name in row.verdicts})
                write_atomic(out, text(list(rows.values()), exercises, warning).encode("utf-8", "backslashreplace"))
                began(len(new), warning)
                waiting = {pool.submit(lent, _marked, *contents[path], seconds, memory): path for path in new}
                for future in as_completed(waiting):
                    row = rows[waiting[future]] = future.result()
                    table = text([rows[path] for path in paths if path in rows], exercises, warning)
                    write_atomic(out, table.encode("utf-8", "backslashreplace"))
                    done(row)
            except BaseException:  # Ctrl-C among them
                pool.shutdown(wait=False, cancel_futures=True)
                for ask in graders:
                    with contextlib.suppress(Died):
                        ask({"stop": True})
                raise
    return [rows[path] for path in paths]


def _warning(ask: Ask) -> str:
    """What an answer is not kept from here.  Raises OSError where none can be shut in at all."""
    try:
        reply = ask({})
    except Died:
        reply = {"failed": "the process ended that was to do it"}
    if "failed" in reply:
        raise OSError(f"no answer can be shut in here: {reply['failed']}; mark on another machine")
    return sandbox.warning(reply["unheld"], root=not os.getuid())


def _read(ask: Ask, path: Path, folder: Path) -> tuple[Row, list[Any]]:
    """A row with nothing marked yet, and the code cells of the notebook."""
    row = Row(str(path.relative_to(folder)))
    if path.is_symlink():  # of a file; those of folders are not followed
        row.error = "a link to another file, which is not marked; return the notebook itself"
        return row, []
    if not path.is_file():
        row.error = (
            "no file, but a folder; what is in it has rows of its own"
            if path.is_dir()
            else "no file, but a pipe or a device"
        )
        return row, []
    try:
        reply = ask({"read": str(path.resolve())})
    except Died:
        reply = {"error": "cannot be read: it ended the process that read it"}
    if why := reply.get("error") or reply.get("failed"):
        row.error = why
        return row, []
    row.lab, row.error, row.student = reply["lab"], reply["note"], reply["student"]
    exercises = ask({"exercises": row.lab, "asked": reply["asked"]}, row.lab)["exercises"]
    row.verdicts = {name: {"state": "open", "why": ""} for name in exercises}
    return row, reply["cells"]


def _marked(ask: Ask, row: Row, cells: list[Any], seconds: float, memory: float) -> Row:
    began = time.monotonic()
    for name in row.verdicts:
        try:
            verdict = ask({"name": name, "cells": cells, "seconds": seconds, "memory": memory}, row.lab)
        except Died:
            verdict = {"state": "failed", "why": "it ended the process that judges it"}
        row.verdicts[name] = verdict
        notes = [f"{name} tried to read the checks ({', '.join(tried)})"] if (tried := verdict.pop("tried", [])) else []
        notes += [f"{name}: {verdict['why']}"] if verdict["state"] == "failed" else []
        row.error = "; ".join(filter(None, (row.error, *notes)))
    row.seconds = time.monotonic() - began
    return row


# -- the table ------------------------------------------------------------------------------------------------------------------


def text(rows: list[Row], exercises: list[str], warning: str = "") -> str:
    """The table as CSV, a column for each exercise of the labs that were submitted; a last one, where there is something to warn of.

    It has nothing of the clock: the same notebooks give the same table.
    """
    last = {"warning": warning} if warning else {}
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["file", "lab", "marks", "of", *exercises, "error", *last])
    for row in rows:
        verdicts = [_in_words(row.verdicts[name]) if name in row.verdicts else "" for name in exercises]
        plain = [
            row.file,
            row.lab,
            row.marks,
            len(row.verdicts),
            *verdicts,
            row.error,
            *last.values(),
        ]
        writer.writerow([plain_cell(str(cell)) for cell in plain])
    return lines.getvalue()


def _in_words(verdict: dict[str, str]) -> str:
    if verdict["state"] == "open":
        return "open: nothing is written yet"
    return verdict["state"] + (f": {verdict['why']}" if verdict["why"] else "")


def plain_cell(cell: str) -> str:
    """One line, that a spreadsheet takes for words: what begins a cell like this may be run as a formula, also where `;` parts cells."""
    return _FORMULA.sub(r"\1'", shown(cell).strip())


def shown(words: str) -> str:
    """Words that a terminal takes: a file's name need not be text (one in Latin-1 out of a zip is not), and may hold escape sequences."""
    return "".join(c if c.isprintable() else " " for c in words.encode("utf-8", "backslashreplace").decode())


# -- the grader's process -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _grader() -> Iterator[Ask]:
    """A function that asks a process of its own, which is started anew where it was lost.  It raises Died."""
    house = str(Path(privlab.__file__).parents[1])  # this privlab, and no file of that name where the notebooks are
    code = f"import sys; sys.path.insert(0, {house!r}); from privlab.teaching.marking import grader; grader.main()"
    process: subprocess.Popen[str] | None = None
    stopped = False

    with tempfile.TemporaryDirectory(prefix="privlab_marks_") as home:
        environment = sandbox.environment(home)  # not ours, which holds tokens
        Path(home, f"torchinductor_{environment['USER']}").mkdir()  # torch.optim wants it, and an answer can make none

        def ask(task: dict[str, Any], lab: str = "") -> dict[str, Any]:
            nonlocal process, stopped
            stopped = stopped or "stop" in task
            if stopped:
                _end(process)
                raise Died
            if process is None or process.poll() is not None:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                    cwd=home,
                    start_new_session=True,  # an interrupt is for us
                )
            assert process.stdin and process.stdout
            try:
                process.stdin.write(json.dumps({"lab": lab}) + "\n" + json.dumps(task) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
            if not line:
                _end(process)
                raise Died
            return dict(json.loads(line))

        try:
            yield ask
        finally:
            _end(process)


def _end(process: subprocess.Popen[str] | None) -> None:
    if process is None:
        return
    process.terminate()  # it ends what it forked
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
