"""Exercise checks that say why an answer is wrong. A check compares behaviour, never text; its hints name the usual mistakes.

Those of lab 04 lie in privlab/course/lab_04: that of exercise "04.cosine" is `cosine` of checks.py, and replies.yaml has those that are
answered by words or letters, with all that is said of them, and says why what is right is right.
"""

import html
import importlib
import os
from dataclasses import dataclass, replace
from functools import cache
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
        look = f"border-left:4px solid {colour};padding-left:.7em"
        return f'<div role="status" style="{look}">{mark} {told}{folded}</div>'


def of(name: str) -> Check:
    """The check of an exercise; only its lab's own files are loaded, since some need what takes a second to import."""
    if "right" in (told := reply(name)) or "parts" in told:
        return _of_words(told)
    return getattr(importlib.import_module(f"privlab.course.lab_{name[:2]}.checks"), name[3:])


def _of_words(told: dict[str, Any]) -> Check:
    if "parts" in told:
        return each(*map(_of_words, told["parts"]), ask=told["ask"])
    return (one if isinstance(told["right"], str) else some)(told["right"], told["wrong"])


@cache
def reply(name: str) -> dict[str, Any]:
    """What replies.yaml has on an exercise; `because` is said after a right answer."""
    file = COURSE / f"lab_{name[:2]}" / "replies.yaml"
    return yaml.safe_load(file.read_text(encoding="utf-8")).get(name, {}) if file.exists() else {}


def verify(name: str, answer: object) -> Outcome:
    """Check an answer and say why it is wrong, without a traceback: an open exercise must not stop the rest of a lab.

    Under PRIVLAB_STRICT=1, where the headless runner has the solutions in place, a wrong answer raises AssertionError.
    """
    check, cause = of(name), None
    try:
        why = OPEN if answer is None or answer is ... else next(check(answer), "")
    except Exception as error:  # the reader's own function may raise anything; what is no function is of another form than was asked for
        form = f"Your answer is a {type(answer).__name__}. Give the kind of thing that the exercise asks for."
        why, cause = f"Your code stopped with {type(error).__name__}: {error}" if callable(answer) else form, error
    outcome = Outcome(name, why, "" if why else reply(name).get("because", ""))
    if why and os.environ.get("PRIVLAB_STRICT") == "1":
        raise AssertionError(str(outcome)) from cause
    return outcome
