"""Exercise checks that say why an answer is wrong. A check compares behaviour, never text; its hints name the usual mistakes.

Those of lab 04 lie in privlab/course/lab_04: `CHECKS` of checks.py has them by the names of their exercises, and replies.yaml has those
that are answered by words or letters, with all that is said of them, and says why what is right is right.
"""

from __future__ import annotations

import html
import importlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from privlab.notebook.kit import OPEN, Check, each, one, some

COURSE = Path(__file__).parents[1] / "course"


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a check found: `why` is empty for a right answer, of which `because` may say why it is right."""

    name: str
    why: str
    because: str = ""

    @property
    def passed(self) -> bool:
        return not self.why

    def __repr__(self) -> str:
        return f"Exercise {self.name}: {'right.' if self.passed else f'not yet. {self.why}'} {self.because}".rstrip()

    def _repr_html_(self) -> str:
        colour, mark = ("#0072b2", "&#10003;") if self.passed else ("#b35900", "&#8635;")
        told = html.escape(str(replace(self, because="")))
        folded = f"<details><summary>Why</summary>{html.escape(self.because)}</details>" * bool(self.because)
        return (
            f'<div role="status" style="border-left:4px solid {colour};padding-left:.7em">{mark} {told}{folded}</div>'
        )


def of(lab: str) -> dict[str, Check]:
    """The checks of one lab, by name; only its own files are loaded, since some need what takes a second to import."""
    of_words = {name: _of_words(reply) for name, reply in _replies(lab).items() if "right" in reply or "parts" in reply}
    return of_words | importlib.import_module(f"privlab.course.lab_{lab}.checks").CHECKS


def _of_words(reply: dict[str, Any]) -> Check:
    if "parts" in reply:
        return each(*map(_of_words, reply["parts"]), ask=reply["ask"])
    return (one if isinstance(reply["right"], str) else some)(reply["right"], reply["wrong"])


def because(name: str) -> str:
    """What is said after a right answer to an exercise; "" where nothing is."""
    return _replies(name[:2]).get(name, {}).get("because", "")


def _replies(lab: str) -> dict[str, dict[str, Any]]:
    file = COURSE / f"lab_{lab}" / "replies.yaml"
    return yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}


def verify(name: str, answer: object) -> Outcome:
    """Check an answer and say why it is wrong, without a traceback: an open exercise must not stop the rest of a lab.

    Under PRIVLAB_STRICT=1, where the headless runner has the solutions in place, a wrong answer raises AssertionError.
    """
    check = of(name[:2])[name]
    try:
        why = OPEN if answer is None or answer is ... else next(check(answer), "")
    except Exception as error:  # the reader's own code may raise anything
        why = f"Your code stopped with {type(error).__name__}: {error}"
    outcome = Outcome(name, why, "" if why else because(name))
    if why and os.environ.get("PRIVLAB_STRICT") == "1":
        raise AssertionError(str(outcome))
    return outcome
