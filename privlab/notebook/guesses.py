"""Guesses kept beside the notebook, in `guesses.json`: a reopened lab shows them again, and a teacher can show the class's.

The file is a JSON object, lab -> name of the question -> its question, guess and time, and what was right once it was compared. It lies in
the folder where the notebook runs. Where the name of the notebook is not known (in plain Python, in the runner, on Colab), and
where the folder cannot be written to, no guess is kept, and the lab goes on without.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from IPython import get_ipython

from privlab.compute import reading
from privlab.compute.atomic import write_atomic

FILE = "guesses.json"


def named(question: str) -> str:
    """A name made out of a question: "Which leak?" is which-leak."""
    return "-".join(re.findall(r"\w+", question.lower()))


def kept(name: str) -> Any:
    """The guess that this lab's file holds under the name of a question; None where there is none."""
    return _read().get(_lab(), {}).get(name, {}).get("guess")


def keep(name: str, question: str, guess: object, unit: str = "", right: object = None) -> None:
    """Write a guess down, and what was right if it was compared; after that it stays, as who has seen the answer guesses no more."""
    if not (lab := _lab()) or "right" in (there := _read()).setdefault(lab, {}).get(name, {}):
        return
    entry = dict(question=question, guess=guess, unit=unit, when=datetime.now(UTC).isoformat(timespec="seconds"))
    there[lab][name] = entry if right is None else entry | {"right": right}
    with contextlib.suppress(OSError):
        write_atomic(FILE, (json.dumps(there, indent=1, ensure_ascii=False) + "\n").encode())


def _lab() -> str:
    """The name of the notebook without its ending, as Jupyter or VS Code tells it; "" where nothing does, and in the headless runner."""
    if (shell := get_ipython()) is None or os.environ.get("PRIVLAB_STRICT") == "1":
        return ""
    return Path(os.environ.get("JPY_SESSION_NAME") or shell.user_ns.get("__vsc_ipynb_file__", "")).stem


def _read() -> dict[str, Any]:
    """The file in this folder; empty where it is missing or no longer what we wrote, as it must not stop a lab."""
    try:
        return _checked(reading.json_file(FILE))
    except (OSError, ValueError):
        return {}


def _checked(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(asked, dict) for asked in content.values()):
        raise ValueError("it is no object of labs, each an object of questions")
    if not all(isinstance(one, dict) and "guess" in one for asked in content.values() for one in asked.values()):
        raise ValueError("a question in it has no guess")
    return content
