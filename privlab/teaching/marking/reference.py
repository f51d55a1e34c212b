"""Keep the checks, which hold the right answers, from the answers: none is in an answer's memory, and none can be had while it runs.

The process that answers are forked from never imports a check. What the checks import it needs, or each answer would wait for it anew;
so another process reads the checks for what they import, and passes on no more than that.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from privlab.notebook import exercises

FOLDER = os.path.realpath(str(Path(exercises.__file__).parent))
_ROOM = exercises.__name__ + "."


def imports(module: str) -> Iterator[str]:
    """The import statements of a check's module, and of the checks' modules that it imports."""
    spec = importlib.util.find_spec(module)
    assert spec and spec.origin
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(_ROOM):
            inside = str(node.module) != exercises.__name__
            for name in [str(node.module)] if inside else [_ROOM + alias.name for alias in node.names]:
                yield from imports(name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)


def watch(tried: Callable[[str], None]) -> None:
    """From now on nothing in this process imports or opens a check; what it tried is reported.

    It cannot be taken off again from Python. An answer that reaches below Python finds the files shut by the kernel (`sandbox`).
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "import" and str(args[0]).startswith(_ROOM):
            tried(str(args[0]))
            raise ImportError("the checks are shut while an answer is marked", name=str(args[0]))
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(args[0]))
            if path.startswith(FOLDER + os.sep):
                tried(os.path.basename(path))
                raise PermissionError(f"the checks are shut while an answer is marked: {os.path.basename(path)}")

    sys.addaudithook(hook)
