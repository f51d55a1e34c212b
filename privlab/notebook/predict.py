"""Predictions: a number or a choice that the reader writes down before the result is shown.

Each is kept beside the notebook in `guesses.json`, so that a reopened lab shows it again and a teacher can show the class's: lab -> name of
the question -> its question, guess and time, and what was right once it was compared. Where the name of the notebook is not known (in
plain Python, in the runner, on Colab), and where the folder cannot be written to, nothing is kept, and the lab goes on without. On a page
without a kernel a prediction is a form, and what follows it is hidden until a guess was made.
"""

from __future__ import annotations

import contextlib
import html
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ipywidgets
from IPython import get_ipython
from ipywidgets import Widget

from privlab.compute.atomic import write_atomic
from privlab.notebook.live import WRAP, Live, button
from privlab.notebook.sentences import Sentence, text

# Long options go on in a second line, where the widgets would cut them.
_LABELS = ".privlab-choice .widget-label-basic,.privlab-choice .widget-radio-box label"
_STYLE = (
    f"<style>{_LABELS},.privlab-choice .widget-label-basic span,.privlab-choice .widget-checkbox,.privlab-choice .widget-html-content"
    "{height:auto!important;line-height:1.35!important;overflow:visible!important;white-space:normal!important}"
    f"{_LABELS}{{padding-left:24px!important;position:relative}}"
    ".privlab-choice .widget-label-basic input,.privlab-choice .widget-radio-box input"
    "{left:0;position:absolute;top:.2em;height:auto!important;margin:0!important}</style>"
)

FILE = "guesses.json"
NO_GUESS = "No guess was given: one that can be wrong is what makes the answer stick."


class Guess(Live):
    """What a number and a choice share: the question above the controls, a guess that is kept when it changes, and the comparison."""

    unit = ""

    def __init__(self, question: str, controls: Sequence[Widget], rows: Sequence[Widget], form: str) -> None:
        """controls: what is moved.  rows: what stands below the question.  form: the same as HTML."""
        super().__init__([ipywidgets.HTML(f"{_STYLE}<label>{html.escape(question)}</label>"), *rows])
        self.add_class("privlab-choice")
        self.question, self.form = question, form
        self.name = "-".join(re.findall(r"\w+", question.lower()))  # "Which leak?" is which-leak
        kept = _read().get(_lab(), {}).get(self.name, {}).get("guess")
        self.moved = kept is not None and self._set(kept)
        for control in controls:
            control.observe(self._move, "value")

    @property
    def value(self) -> Any:
        """The guess; None while nothing has been touched."""
        raise NotImplementedError

    def page(self, seconds: float, room: int) -> str:
        """The question and its answers as an HTML form, which is sent nowhere."""
        form = f'<form class="privlab-prediction" method="dialog" data-name="{html.escape(self.name)}">'
        return f"{form}<fieldset><legend>{html.escape(self.question)}</legend>{self.form}</fieldset></form>"

    def _set(self, kept: Any) -> bool:
        """Put a kept guess back; False where it is none that can be given here."""
        raise NotImplementedError

    def _move(self, _: object) -> None:
        self.moved = True
        self._keep()

    def _keep(self, **compared: object) -> None:
        """Write the guess down, and what was right if it was compared; after that it stays, as who has seen the answer guesses no more."""
        there, lab = _read(), _lab()
        asked = there.setdefault(lab, {})
        if self.value is None or not lab or "right" in asked.get(self.name, {}):
            return
        entry = dict(question=self.question, guess=self.value, unit=self.unit)
        entry["when"] = datetime.now(UTC).isoformat(timespec="seconds")
        asked[self.name] = entry | compared
        with contextlib.suppress(OSError):
            write_atomic(FILE, (json.dumps(there, indent=1, ensure_ascii=False) + "\n").encode())

    def _compared(self, result: str, comparison: str, right: object) -> Sentence:
        """What is right, and what the reader had; on a page, a place in which it compares the guess that is made there.

        result: what is right.  comparison: what follows it.  right: a number or options; None where it is not measured yet.
        """
        if right is None:
            result, comparison = "This is not measured yet.", "Your guess is kept." * (self.value is not None)
        else:
            self._keep(right=right)
            comparison = NO_GUESS if self.value is None else comparison
        if os.environ.get("PRIVLAB_STRICT") == "1":
            about = f'data-name="{self.name}" data-right="{html.escape(json.dumps(right))}"'
            return Sentence(f'{result}\n\n<div class="privlab-answer" {about}></div>')
        return Sentence(f"{result} {comparison}".strip())


class Prediction(Guess):
    """Ask for a number between low and high before the result is shown; the guess is kept, by its question."""

    def __init__(self, question: str, low: float, high: float, unit: str = "") -> None:
        self.low, self.high, self.unit = low, high, unit
        self.slider = ipywidgets.FloatSlider(
            (low + high) / 2, min=low, max=high, step=(high - low) / 100, description="your guess", continuous_update=False,
            readout_format=".4", layout={"width": "24em", "max_width": "96%"},  # four digits, and no zeros at the end
        )  # fmt: skip
        self.button = button("That is my guess", "Also where the slider stands now", lambda: self._move(None))
        words, its_unit = f"your guess, from {low:g} to {high:g}", html.escape(unit)
        field = f'<input type="number" min="{low:g}" max="{high:g}" step="any" data-unit="{its_unit}" required>'
        row = ipywidgets.HBox([self.slider, ipywidgets.Label(unit), self.button], layout=WRAP)
        super().__init__(question, [self.slider], [row], f"<label>{words}: {field} {its_unit}</label>")

    def _move(self, _: object) -> None:
        super()._move(_)
        self.button.icon = "check"

    def _set(self, kept: Any) -> bool:
        fits = isinstance(kept, int | float) and self.low <= kept <= self.high
        self.slider.value = kept if fits else self.slider.value
        return fits

    @property
    def value(self) -> float | None:
        """The guess, or None while neither the slider was moved nor the button pressed."""
        return self.slider.value if self.moved else None

    def against(self, measured: float) -> Sentence:
        """One sentence that compares the guess with the measurement, and keeps both; NaN stands for what is not measured yet."""
        gap = abs(measured - self.slider.value)
        away = text("That is {:.3g} {}", gap, self.unit).rstrip()
        close = gap <= 0.1 * (self.high - self.low)
        verdict = "Close." if close else f"{away} away: what did you assume that does not hold here?"
        result = text("Measured: {} {}", float(measured), self.unit).rstrip() + "."
        right = None if math.isnan(measured) else float(measured) if math.isfinite(measured) else str(measured)
        return self._compared(result, f"You said {self.slider.value:.4g}. {verdict}", right)


class Choice(Guess):
    """Ask which of some answers is right before the result is shown: one of them, or with `many` all that apply; the guess is kept."""

    def __init__(self, question: str, options: Sequence[str], many: bool = False) -> None:
        self.options, self.many = list(options), many
        layout = {"width": "auto", "max_width": "96%"}
        self.boxes: list[Widget]
        if many:
            self.boxes = [ipywidgets.Checkbox(description=o, indent=False, layout=layout) for o in options]
        else:
            self.boxes = [ipywidgets.RadioButtons(options=self.options, value=None, layout=layout)]
        kind = 'type="checkbox"' if many else 'name="guess" type="radio" required'
        form = "".join(f'<label><input {kind} value="{o}"> {o}</label>' for o in map(html.escape, options))
        super().__init__(question, self.boxes, self.boxes, form)

    def _set(self, kept: Any) -> bool:
        picked = kept if isinstance(kept, list) else [kept]
        fits = isinstance(kept, list) == self.many and all(one in self.options for one in picked)
        for box in self.boxes if fits else ():
            box.value = box.description in picked if self.many else kept
        return fits

    @property
    def value(self) -> str | list[str] | None:
        """The option picked, or where there may be many, those ticked, in their order; None while nothing has been touched."""
        if not self.moved:
            return None
        return [box.description for box in self.boxes if box.value] if self.many else self.boxes[0].value

    def against(self, right: str | Iterable[str] | None) -> Sentence:
        """A sentence that says what is right and what the reader had, and keeps both.

        right: an option or several; where one was to be picked and several are right, each of them counts. None: not measured yet.
        Raises ValueError for what is no option.
        """
        if right is None:
            return self._compared("", "", None)
        wanted = {right} if isinstance(right, str) else set(right)
        if strangers := wanted.difference(self.options):
            raise ValueError(f"right={strangers}: no option of {self.question!r}; there are {', '.join(self.options)}")
        due = [option for option in self.options if option in wanted]
        return self._compared(f"The answer: {_listed(due, 'and' if self.many else 'or')}.", self._judged(due), due)

    def _judged(self, due: list[str]) -> str:
        """How the reader's options compare with those that are right."""
        said = self.value if isinstance(self.value, list) else [self.value or ""]
        if said == due:
            return "That is what you said."
        if not self.many:
            return (
                f"You said {said[0]}: {'right.' if said[0] in due else 'what did you assume that does not hold here?'}"
            )
        surplus, missed = [o for o in said if o not in due], [o for o in due if o not in said]
        wrong = [f"{_listed(surplus)} {'is' if len(surplus) == 1 else 'are'} not right"] * bool(surplus)
        wrong += [f"you missed {_listed(missed)}"] * bool(missed)
        return f"You said {_listed(said)}: {', and '.join(wrong)}."


predict, choose = Prediction, Choice


def _listed(options: Sequence[str], last: str = "and") -> str:
    """Words one after the other, as a sentence has them."""
    if len(options) < 2:
        return options[0] if options else "none of them"
    return f"{', '.join(options[:-1])} {last} {options[-1]}"


def _lab() -> str:
    """The name of the notebook without its ending, as Jupyter or VS Code tells it; "" where nothing does, and in the headless runner."""
    if (shell := get_ipython()) is None or os.environ.get("PRIVLAB_STRICT") == "1":
        return ""
    return Path(os.environ.get("JPY_SESSION_NAME") or shell.user_ns.get("__vsc_ipynb_file__", "")).stem


def _read() -> dict[str, Any]:
    """The file in this folder; empty where it is missing or no longer what we wrote, as it must not stop a lab."""
    try:
        content = json.loads(Path(FILE).read_text(encoding="utf-8"))
        sound = all("guess" in one for asked in content.values() for one in asked.values())
        return content if sound else {}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}
