"""A notebook that somebody submitted: its lab, its code, and the answer in it to an exercise. `read` runs nothing of it; `answer` does."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import selectors
import types
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privlab.notebook import exercises
from privlab.teaching.marking import slicing

LARGEST = 20  # MB that a submitted notebook may have
CODE = 2_000_000  # letters of code that it may have
_VERIFY = re.compile(r"""\bverify\([^"']{0,200}["']((\d\d)\.\w+)["']""")
_STUDENT = re.compile(r"^[^\w\n]*student(?: id| number)?[ *_`]*:[^\w\n]*(\w.{0,99})$", re.IGNORECASE | re.MULTILINE)
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
Cells = Sequence[tuple[int, str]]


class Unwritten(Exception):
    """The notebook has no answer to run."""


def read(path: str) -> dict[str, Any]:
    """A notebook's {"lab", "asked", "cells", "note", "student"}, or {"error"} with what is wrong.

    asked: its exercises whose checks are there.  cells: of code.  student: what its first cell has behind "Student:"; "" for nothing.
    """
    size = os.path.getsize(path)
    if not size:
        return {"error": "the file is empty"}
    if size > LARGEST * 1e6:
        return {"error": f"{size / 1e6:.0f} MB are more than the {LARGEST} that a notebook may have; clear its outputs"}
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError, MemoryError) as error:
        return {"error": f"no notebook: it is not JSON ({error})"}
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        return {"error": "no notebook: it has no list of cells"}
    code, strange, student = [], [], ""
    for number, cell in enumerate(cells, start=1):
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            strange.append(number)
            continue
        if number == 1 and (named := _STUDENT.search(source[:2000])):
            student = named[1].rstrip(" *_`")
        if cell.get("cell_type") == "code":
            code.append((number, source))
    note = f"cell {strange[0]} holds no text and was left out" if strange else ""
    if sum(len(source) for _, source in code) > CODE:
        return {"error": f"its cells hold more than {CODE:,} letters of code"}
    asked = [(name, lab) for _, source in code for name, lab in _VERIFY.findall(source) if lab in exercises.labs()]
    labs = Counter(lab for _, lab in asked)
    if not labs:
        return {"error": f"it has no exercise of any lab (no checks.verify(...)){'; ' + note if note else ''}"}
    (lab, _), *rest = labs.most_common()
    if rest:
        note = f"it has exercises of lab {rest[0][0]} as well, which do not count"
    names = sorted({name for name, its in asked if its == lab})
    return {"lab": lab, "asked": names, "cells": code, "note": note, "student": student}


def answer(cells: Cells, name: str) -> object:
    """What a notebook gives to the check of an exercise: runs the statements that it takes.  Raises Unwritten, or what they raise."""
    statements, unread = slicing.statements(cells)
    unreadable = "; ".join(f"cell {number} cannot be read ({why})" for number, why in unread.items())
    calls = [
        (k, expression)
        for k, s in enumerate(statements)
        for asked, expression in slicing.checked(s.node)
        if asked == name
    ]
    if not calls:
        raise Unwritten(unreadable or f"Its check is gone: there is no checks.verify({name!r}, ...) in the notebook.")
    place, expression = calls[-1]  # who asks twice means the last
    asked = ast.Expression(expression)
    reads, later, _ = slicing.names_of(compile(asked, "<answer>", "eval", AWAIT, dont_inherit=True))
    module = slicing.needed(statements, reads | later, place)
    shell = type("Shell", (), {"__getattr__": lambda self, name: lambda *args, **kwargs: None})()
    scope: dict[str, Any] = {"__name__": "__main__", "get_ipython": lambda: shell, "display": shell.display}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for code in (module, asked):
                kind = "exec" if code is module else "eval"
                value = _run(compile(code, "<answer>", kind, AWAIT, dont_inherit=True), scope)
        return value
    except NameError as error:
        raise Unwritten(f"{error}.{' ' + unreadable if unreadable else ''}") from None


class _Loop(asyncio.SelectorEventLoop):
    """An event loop without the pair of sockets by which other threads would wake it: the sandbox lets in neither."""

    def _make_self_pipe(self) -> None: ...

    def _close_self_pipe(self) -> None: ...


def _run(code: types.CodeType, scope: dict[str, Any]) -> object:
    """Run code, as Jupyter does also where it awaits at its top level."""
    value = eval(code, scope)
    if not code.co_flags & inspect.CO_COROUTINE:
        return value
    loop = _Loop(selectors.SelectSelector())
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(value)
    finally:
        loop.close()
