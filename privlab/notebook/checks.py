"""Exercise checks that say why an answer is wrong. A check compares behaviour, never text; its hints name the usual mistakes."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass, replace

from privlab.notebook import exercises


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a check found: `why` is empty for a right answer, of which `because` may say why it is right."""

    name: str
    why: str
    because: str = ""

    @property
    def passed(self) -> bool:
        return not self.why

    def __str__(self) -> str:
        right = f"Exercise {self.name}: right. {self.because}".rstrip()
        return right if self.passed else f"Exercise {self.name}: not yet. {self.why}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour, mark = ("#0072b2", "&#10003;") if self.passed else ("#b35900", "&#8635;")
        words = html.escape(str(replace(self, because="")))
        why = (
            f"<details><summary>Why</summary>{html.escape(self.because)}</details>"
            if self.passed and self.because
            else ""
        )
        return f'<div role="status" style="border-left:4px solid {colour};padding-left:.7em">{mark} {words}{why}</div>'


def names() -> list[str]:
    """All exercises that have a check."""
    return sorted(name for lab in exercises.labs() for name in exercises.of(lab))


def verify(name: str, answer: object) -> Outcome:
    """Check an answer and say why it is wrong, without a traceback: an open exercise must not stop the rest of a lab.

    Under PRIVLAB_STRICT=1, as the headless runner sets it, a wrong answer raises AssertionError: there the solutions are in place.
    """
    lab = name.partition(".")[0]
    exercises_of_lab = exercises.of(lab) if lab in exercises.labs() else {}
    if name not in exercises_of_lab:
        raise ValueError(f"name={name!r} is no exercise; try one of {', '.join(names())}")
    outcome = Outcome(name, _why(exercises_of_lab[name], answer), exercises.because(name))
    if not outcome.passed and os.environ.get("PRIVLAB_STRICT") == "1":
        raise AssertionError(str(outcome))
    return outcome


def _why(function: exercises.Check, answer: object) -> str:
    if answer is None or answer is ...:
        return "Nothing is written yet; replace the dots."
    try:
        return next(function(answer), "")
    except Exception as error:  # the reader's own code may raise anything
        return f"Your code stopped with {type(error).__name__}: {error}"
