"""A process that reads submitted notebooks and grades their answers, one JSON object a line in, one out. `gradebook` starts it.

It imports torch and what a lab's checks import, once, and never reads a line of a notebook, nor a check. For each task it forks, so that
nothing of one answer, and of what was said to it, is in the memory of the next:

    this process -> the task -> the check -> the answer

No answer shares a process with its check. The answer's process is forked before the check is imported, and shut in (`sandbox`); it runs the
statements of the notebook that the answer needs (`submission`, `slicing`), and is then asked by the check, through a pipe, what the check
wants to know. What crosses is data (`serialisation`); functions, graphs of autograd and models stay where they are, and are asked across
the pipe, too (`remote`). The check has the expected values, and its verdict goes through a pipe that the answer's process does not hold. So
an answer can redefine `checks.verify`, change torch, search its frames and its memory, print whatever it likes: all that is in its own
process, and counts for nothing. It can do no more than give right values.

Right values it can also have copied: the checks are public. While marked, it can neither import nor read them (`reference`), and if it
tries, its row says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from privlab.notebook import checks, exercises
from privlab.teaching.marking import reference, sandbox, serialisation
from privlab.teaching.marking.remote import BAD, WORDS, Link, Lost, as_data, exception, text_of
from privlab.teaching.marking.submission import CODE, Cells, Unwritten, answer, read

OPEN = "Nothing is written yet; replace the dots."
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object in memory: another one each time
READING = 60.0  # seconds that a notebook may take to be read


# -- the check, and the answer in a process of its own --------------------------------------------------------------------------


def across(name: str, cells: Cells, seconds: float, memory: float) -> dict[str, Any]:
    """The verdict of a check on an answer that lives in another process."""
    sandbox.die_with_parent()
    answers, theirs_out = os.pipe()
    theirs_in, questions = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _alone(theirs_in, theirs_out)
            sandbox.close_in(seconds, memory)
            _serve(name, cells, theirs_in, theirs_out)
        finally:
            os._exit(0)
    os.close(theirs_in)
    os.close(theirs_out)
    sandbox.limit(seconds, memory)  # what the answer sends may be made to keep a check busy
    link = Link(answers, questions, answering=False, gone=lambda: _ended(os.waitpid(pid, 0)[1], seconds))
    try:
        verdict = _asked(name, link)
    except serialisation.NoData as kind:
        verdict = {"state": "failed", "why": f"its check asks with a {kind} that cannot cross to it"}
    except Lost as lost:
        verdict = {"state": "failed", "why": str(lost)}
    return verdict | {"tried": link.tried}


def _asked(name: str, link: Link) -> dict[str, str]:
    first = link.reply()
    try:
        if "unwritten" in first:
            return {"state": "wrong", "why": str(first["unwritten"])}
        if "raised" in first:
            return _verdict(_stopped(exception(first)))
        result = link.function(0) if "function" in first else serialisation.decode(first["value"])
    except BAD:
        raise Lost("what it answered is not what an answer can be") from None
    return _verdict(checks.verify(name, result).why)


def _serve(name: str, cells: Cells, questions: int, answers: int) -> None:
    """Run the answer, and answer for it until the questions end."""
    link = Link(questions, answers, answering=True)
    reference.watch(lambda what: serialisation.send(answers, {"tried": what}))
    try:
        first = _introduced(answer(cells, name), link)
    except Unwritten as error:
        first = {"unwritten": str(error)}
    except BaseException as error:  # SystemExit and the like as well
        first = as_data(error)
    try:
        serialisation.send(answers, first)
    except ValueError as error:  # too long
        serialisation.send(answers, as_data(error))
    while True:
        link.answer(serialisation.receive(questions))


def _introduced(result: object, link: Link) -> dict[str, Any]:
    if callable(result):
        return {"function": link.export(result)}
    return {"value": serialisation.encode(result, serialisation.by_kind)}


def _verdict(why: str) -> dict[str, str]:
    return {"state": "open" if OPEN in why else "wrong" if why else "right", "why": why}


def _stopped(error: BaseException) -> str:
    return f"Your code stopped with {type(error).__name__}: {text_of(error)}"


# -- processes -----------------------------------------------------------------------------------------------------------------


def forked(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What `work` returns in a process of its own; {"failed": why} where it does not return, in time or at all.

    seconds: what it is limited to, of a processor. By the clock it has three times as long, and 5 s more: others work here, too.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            _alone(theirs)
            content = json.dumps(work()).encode()
            while content:
                content = content[os.write(theirs, content) :]
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        output = _until(ours, time.monotonic() + 3 * seconds + 5)
    finally:
        for end in (os.killpg, os.kill):  # the group, with the answer in it; and where it has none yet, the process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        os.close(ours)
    if output is None:
        return {"failed": _late(seconds)}
    try:
        return dict(json.loads(output))
    except (ValueError, TypeError, RecursionError):
        return {"failed": _ended(status, seconds)}


def _until(source: int, deadline: float) -> bytes | None:
    """All that comes through a pipe; None where it has not ended by then, or is more than anybody has to say."""
    content = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                piece = os.read(source, 1 << 20)
                if not piece:
                    return bytes(content)
                content += piece
                if len(content) > 10 * CODE:
                    return b""
    return None


def _alone(*descriptors: int) -> None:
    """Close every descriptor but these; what is printed goes nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    low = 3
    for descriptor in sorted(descriptors):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, 4096)


def _late(seconds: float) -> str:
    """Of a processor or by the clock: the same words, or a table would depend on what else the machine did."""
    return f"took longer than {seconds:g} seconds and was stopped"


def _ended(status: int, seconds: float) -> str:
    code = os.waitstatus_to_exitcode(status)
    if -code == signal.SIGXCPU:
        return _late(seconds)
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended itself (exit status {code})"
    return f"its process {how} before it had answered"


# -- the line -------------------------------------------------------------------------------------------------------------------


def grade(name: str, cells: Cells, seconds: float, memory: float) -> dict[str, Any]:
    """{"state": right, wrong, open or failed, "why", "tried": what it reached for of the checks} for one exercise of a notebook."""
    verdict = forked(lambda: across(name, cells, seconds, memory), seconds)
    if "failed" in verdict:
        verdict = {"state": "failed", "why": verdict["failed"], "tried": []}
    why = _ADDRESS.sub("", str(verdict["why"]))
    return verdict | {"why": " ".join(why.split())[:WORDS]}


def _read(path: str) -> dict[str, Any]:
    sandbox.limit(READING, memory=2)
    return read(path)


def _expected(lab: str, asked: list[str]) -> list[str]:
    """The exercises of a lab, or of what goes deeper, or of both: of each of which the notebook asks at least one."""
    parts = exercises.parts(lab)
    return [name for part in parts if set(part) & set(asked) for name in part] or parts[0]


def _done(task: dict[str, Any]) -> dict[str, Any]:
    if "read" in task:
        return forked(lambda: _read(task["read"]), READING)
    if "exercises" in task:
        return forked(lambda: {"exercises": _expected(task["exercises"], task["asked"])}, READING)
    if "name" in task:
        return grade(**task)
    return forked(lambda: {"unheld": sandbox.close_in(1, 1)}, READING)


def main() -> None:
    """Answer tasks until they end: two lines each, {"lab"} that is to be ready, and the task.

    The task: {"read": path}, {"exercises": lab, "asked"}, {"name", "cells", "seconds", "memory"}, or {} for what the sandbox lacks here.
    """
    answers, pid, status = os.dup(1), 0, 1
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was forked ends, too
    ready = {""}
    try:
        while line := _line(0):
            lab = json.loads(line)["lab"]
            if lab not in ready:
                ready.add(lab)
                _prepare(lab)
            pid = os.fork()
            if not pid:
                with os.fdopen(0, "rb") as tasks, os.fdopen(answers, "w") as out:
                    sandbox.die_with_parent()
                    print(json.dumps(_done(json.loads(tasks.readline()))), file=out)
                os._exit(0)
            if os.waitpid(pid, 0)[1]:
                break  # without an answer: whoever asked starts another
            pid = 0
        status = 0
    finally:
        if pid:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
        os._exit(status)  # at once: to take torch down takes seconds


def _line(source: int) -> bytes:
    """What comes up to the end of a line, and not a byte more: that is for another process."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(source, 1)
        if not piece:
            return b""
        line += piece
    return bytes(line)


def _prepare(lab: str) -> None:
    """Import what a lab's checks import, and none of them."""
    module = f"{exercises.__name__}.lab_{lab}"
    for statement in forked(lambda: {"imports": list(reference.imports(module))}, READING)["imports"]:
        exec(statement, {})


if __name__ == "__main__":
    main()
