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
from typing import TYPE_CHECKING, Any

from IPython import get_ipython

from privlab.compute import reading
from privlab.compute.atomic import write_atomic

if TYPE_CHECKING:
    import pandas

FILE = "guesses.json"
_FIELDS = ("question", "guess", "unit", "right", "when")


def table(*places: Path | str) -> pandas.DataFrame:
    """All guesses of one or many files, one a row: folder, lab, name, question, guess, unit, right, when.

    places: guesses.json files, or folders that hold some at any depth, such as what a class handed in; this folder if none is given.
    A guess is a number, a word, or a list of words where several could be ticked (`table().explode("guess")` has a row for each);
    `right` is None where the guess was not yet compared.
    Raises OSError or ValueError, which names the file, for one that cannot be read as guesses; FileNotFoundError where there is none.
    """
    import pandas as pd

    files = [
        file
        for place in map(Path, places or (".",))
        for file in (sorted(place.rglob(FILE)) if place.is_dir() else [place])
    ]
    if not files:
        raise FileNotFoundError(
            f"no {FILE} below {', '.join(map(str, places)) or 'this folder'}; give a folder that holds some"
        )
    rows = []
    for file in files:
        with reading.guarded(file, "holds no guesses that can be read", "leave it out, or ask for it again"):
            for lab, asked in _checked(reading.json_file(file)).items():
                rows += [
                    (str(file.parent), lab, name, *(one.get(field) for field in _FIELDS)) for name, one in asked.items()
                ]
    return pd.DataFrame(rows, columns=["folder", "lab", "name", *_FIELDS])


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
