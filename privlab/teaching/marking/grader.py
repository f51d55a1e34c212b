"""A process that reads submitted notebooks and grades their answers, one JSON object a line in, one out. `gradebook` starts it.

It imports torch and a lab's checks once, and never runs a line of a notebook: for each answer it forks. In the usual case it forks twice:

    this process -> the check -> the answer

The answer's process is shut in (`sandbox`), runs the statements of the notebook that the answer needs (`submission`, `slicing`), and is
then asked by the check, through a pipe, what the check wants to know; what crosses is data (`serialisation`). The check has the expected
values, and its verdict goes through a pipe that the answer's process does not hold. So an answer can redefine `checks.verify`, change
torch, print whatever it likes: all that is in its own process, and counts for nothing. It can do no more than give right values.

Some checks ask with what cannot cross a pipe: a model, a function, a graph for autograd. There check and answer share one process, shut in
as well. Its verdict needs a word that is drawn anew and taken down before the answer runs, along with the check; so the three tricks above
still do nothing. But in one process nothing is out of reach: who knows Python well enough to search its frames for that word, or changes
what the check asks of torch, gets these few marks. `gradebook` names such exercises. No answer can reach another's marks in either case.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import secrets
import selectors
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from privlab.notebook import checks, exercises
from privlab.teaching.marking import sandbox, serialisation
from privlab.teaching.marking.submission import CODE, Cells, Unwritten, answer, read

OPEN = "Nothing is written yet; replace the dots."
WORDS = 600  # letters of a reason
READING = 60.0  # seconds that a notebook may take to be read


class Lost(BaseException):
    """The answer's process ended, or sent what is no answer. Not an Exception: a check must not take it for the answer's own."""


# -- the check, and the answer in a process of its own --------------------------------------------------------------------------


def across(name: str, cells: Cells, seconds: float, memory: float) -> dict[str, str]:
    """The verdict of a check on an answer that lives in another process; {"state": "inside"} where its questions cannot cross."""
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

    def ask(question: Any) -> dict[str, Any]:
        try:
            if question is not None:
                serialisation.send(questions, question)
            reply = serialisation.receive(answers)
            if not isinstance(reply, dict):
                raise ValueError("no reply")
            return reply
        except (EOFError, BrokenPipeError):
            raise Lost(_ended(os.waitpid(pid, 0)[1], seconds)) from None
        except (ValueError, RecursionError):
            raise Lost("what it answered is not what an answer can be") from None

    def value(reply: dict[str, Any], key: str) -> Any:
        try:
            return serialisation.decode(reply[key])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError):
            raise Lost("what it answered is not what an answer can be") from None

    def function(*args: Any, **kwargs: Any) -> Any:
        sent = serialisation.encode(args), serialisation.encode(kwargs)
        reply = ask({"args": sent[0], "kwargs": sent[1]})
        if reply.get("after") != json.loads(json.dumps(sent[0])):
            for mine, theirs in zip(args, value(reply, "after"), strict=True):
                serialisation.update(mine, theirs)
        if "raised" in reply:
            raise _raised(reply)
        return value(reply, "value")

    try:
        first = ask(None)
        if "unwritten" in first:
            return {"state": "wrong", "why": str(first["unwritten"])}
        if "raised" in first:
            return _verdict(_stopped(_raised(first)))
        return _verdict(checks.verify(name, function if "function" in first else value(first, "value")).why)
    except serialisation.NoData:
        return {"state": "inside", "why": ""}
    except Lost as lost:
        return {"state": "failed", "why": str(lost)}


def _serve(name: str, cells: Cells, questions: int, answers: int) -> None:
    """Run the answer, and answer for it until the questions end."""

    def by_kind(value: object) -> Any:
        return {"other": type(value).__name__}

    def reply(work: Callable[[], dict[str, Any]], after: Callable[[], dict[str, Any]] = dict) -> None:
        try:
            outcome = work()
        except Unwritten as error:
            outcome = {"unwritten": str(error)}
        except BaseException as error:  # SystemExit and the like as well
            kinds = [kind.__name__ for kind in type(error).__mro__]
            outcome = {"raised": kinds, "text": _text_of(error)}
        try:
            serialisation.send(answers, outcome | after())
        except ValueError as error:
            serialisation.send(answers, {"raised": ["ValueError"], "text": str(error)} | after())

    result: Any = None

    def first() -> dict[str, Any]:
        nonlocal result
        result = answer(cells, name)
        return {"function": True} if callable(result) else {"value": serialisation.encode(result, by_kind)}

    reply(first)
    while True:
        question = serialisation.receive(questions)
        args, kwargs = serialisation.decode(question["args"]), serialisation.decode(question["kwargs"])
        reply(
            lambda args=args, kwargs=kwargs: {"value": serialisation.encode(result(*args, **kwargs), by_kind)},  # type: ignore[misc]
            lambda args=args: {"after": serialisation.encode(args, by_kind)},  # type: ignore[misc]
        )


def inside(name: str, cells: Cells, seconds: float, memory: float, word: str) -> dict[str, str]:
    """The verdict of a check that shares its process with the answer."""
    check = exercises.of(name[:2])[name]
    first, strip, why = next, _stopped, ""
    sandbox.close_in(seconds, memory)
    try:
        result = answer(cells, name)
        why = OPEN if result is None or result is ... else first(check(result), "")
    except Unwritten as error:
        why = str(error)
    except BaseException as error:
        why = strip(error)
    return _verdict(why) | {"word": word}


def _verdict(why: str) -> dict[str, str]:
    return {"state": "open" if OPEN in why else "wrong" if why else "right", "why": why}


def _stopped(error: BaseException) -> str:
    return f"Your code stopped with {type(error).__name__}: {_text_of(error)}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:WORDS]
    except BaseException:  # somebody else's class
        return ""


def _raised(reply: dict[str, Any]) -> Exception:
    """What the answer raised, as an exception of ours with its name, that a check may catch by what it is."""
    kinds = [str(kind)[:60] for kind in reply["raised"]] or ["Exception"]
    builtin = (getattr(builtins, kind, None) for kind in kinds)
    base = next((k for k in builtin if isinstance(k, type) and issubclass(k, Exception)), Exception)
    text = str(reply.get("text", ""))
    return type(kinds[0], (base,), {"__init__": lambda self: None, "__str__": lambda self: text})()


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
        return {"failed": f"took longer than {3 * seconds + 5:g} seconds by the clock and was stopped"}
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


def _ended(status: int, seconds: float) -> str:
    code = os.waitstatus_to_exitcode(status)
    if -code == signal.SIGXCPU:
        return f"took longer than {seconds:g} seconds and was stopped"
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended itself (exit status {code})"
    return f"its process {how} before it had answered"


# -- the line -------------------------------------------------------------------------------------------------------------------


def grade(name: str, cells: Cells, seconds: float, memory: float) -> dict[str, str]:
    """{"state": right, wrong, open or failed, "why", "where": across or inside} for one exercise of a notebook."""
    verdict = forked(lambda: across(name, cells, seconds, memory), seconds)
    where = "inside" if verdict.get("state") == "inside" else "across"
    if where == "inside":
        word = secrets.token_hex(16)
        verdict = forked(lambda: inside(name, cells, seconds, memory, word), seconds)
        if "failed" not in verdict and verdict.get("word") != word:
            verdict = {"failed": "its process spoke in place of its check"}
    if "failed" in verdict:
        verdict = {"state": "failed", "why": verdict["failed"]}
    return {"state": verdict["state"], "why": " ".join(str(verdict["why"]).split())[:WORDS], "where": where}


def _read(path: str) -> dict[str, Any]:
    sandbox.limit(READING, memory=2)
    return read(path)


def main() -> None:
    """Answer tasks until they end: {"read": path}, {"name", "cells", "seconds", "memory"}, or {} for what the sandbox lacks here."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was forked ends, too
    for line in sys.stdin:
        task = json.loads(line)
        if "read" in task:
            reply = forked(lambda path=task["read"]: _read(path), READING)  # type: ignore[misc]
            if lab := reply.get("lab"):
                reply["exercises"] = list(exercises.of(lab))  # imported here, once, for all that are forked from now on
        elif "name" in task:
            exercises.of(task["name"][:2])
            reply = grade(**task)
        else:
            reply = forked(lambda: {"unheld": sandbox.close_in(1, 1)}, READING)
        print(json.dumps(reply), file=answers)


if __name__ == "__main__":
    main()
