"""Predictions: a number or a choice that the reader writes down before the result is shown.

Each is kept beside the notebook in `guesses.json`, for a reopened lab and the teacher: lab -> name of the question -> its question, guess
and time, and what was right once it was compared. Where the notebook has no name (in plain Python, in the runner, on Colab), or the folder
cannot be written to, the lab goes on without. On a page without a kernel a prediction is a form.
"""

import contextlib
import html
import json
import math
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ipywidgets
from IPython import get_ipython
from traitlets import TraitError

from privlab.compute.files import write_atomic
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
WHY = "what did you assume that does not hold here?"


class Guess(Live):
    """A question above its controls, a guess that is kept when it changes, and the comparison; `predict` and `choose` make one.

    value: a number, an option, or where there may be many a list of those ticked, in their order; None while nothing has been touched.
    """

    value: Any = None
    press: ipywidgets.Button | None = None  # to say that a number is where its slider stands already

    def __init__(
        self, question: str, controls: Sequence[Any], form: str, unit: str = "", options: Sequence[str] = (), many: bool = False
    ) -> None:  # fmt: skip
        """controls: a slider, radio buttons, or with `many` a checkbox an option.  form: them as HTML.  options: none for a number."""
        self.question, self.controls, self.form, self.unit = question, controls, form, unit
        self.options, self.many = list(options), many
        self.name = "-".join(re.findall(r"\w+", question.lower()))  # "Which leak?" is which-leak
        rows = list(controls)
        if not options:
            self.press = button("That is my guess", "Also where the slider stands now", self._move)
            rows = [ipywidgets.HBox([*controls, ipywidgets.Label(unit), self.press], layout=WRAP)]
        super().__init__([ipywidgets.HTML(f"{_STYLE}<label>{html.escape(question)}</label>"), *rows])
        self.add_class("privlab-choice")
        kept, rest = _read().get(_lab(), {}).get(self.name, {}).get("guess"), [control.value for control in controls]
        with contextlib.suppress(TraitError, TypeError):  # the lab may have changed, and the controls not take it
            for control in controls if kept is not None else ():
                control.value = control.description in kept if many else kept
            self.value = kept if kept == self._given() else None
        if self.value is None:
            for control, at_rest in zip(controls, rest, strict=True):
                control.value = at_rest
        for control in controls:
            control.observe(self._move, "value")

    def page(self, seconds: float, room: int) -> str:
        """The question and its answers as an HTML form, which is sent nowhere."""
        form = f'<form class="privlab-prediction" method="dialog" data-name="{html.escape(self.name)}">'
        return f"{form}<fieldset><legend>{html.escape(self.question)}</legend>{self.form}</fieldset></form>"

    def against(self, right: Any) -> Sentence:
        """A sentence that says what is right and what the reader had, and keeps both; on a page, a place in which it compares a guess.

        right: a number, or options, of which each counts where one was to be picked; NaN or None where it is not measured yet.
        Raises ValueError for what is no option.
        """
        told: Any = None
        result = "This is not measured yet."
        if self.options and right is not None:
            wanted = {right} if isinstance(right, str) else set(right)
            if strange := wanted - {*self.options}:
                raise ValueError(f"right={sorted(strange)} is none of the options {self.options}")
            told = sorted(wanted, key=self.options.index)
            result = f"The answer: {_listed(told, 'and' if self.many else 'or')}."
        elif not self.options and not math.isnan(right):
            told = float(right) if math.isfinite(right) else str(right)  # JSON has no infinite number
            result = text("Measured: {} {}", float(right), self.unit).rstrip() + "."
        if os.environ.get("PRIVLAB_STRICT") == "1":
            about = f'data-name="{self.name}" data-right="{html.escape(json.dumps(told))}"'
            return Sentence(f'{result}\n\n<div class="privlab-answer" {about}></div>')
        return Sentence(f"{result} {self._compared(told)}".strip())

    def _compared(self, right: Any) -> str:
        """How the guess compares with what is right, as it is kept; None where that is not measured yet."""
        if self.value is None:
            return "No guess was given: one that can be wrong is what makes the answer stick." * (right is not None)
        if right is None:
            return "Your guess is kept."
        self._keep(right=right)
        if not self.options:
            gap, slider = abs(float(right) - self.value), self.controls[0]
            away = text("That is {:.3g} {}", gap, self.unit).rstrip()
            near = "Close." if gap else "Right."
            verdict = near if gap <= 0.1 * (slider.max - slider.min) else f"{away} away: {WHY}"
            return f"You said {self.value:.4g}. {verdict}"
        said = self.value if self.many else [self.value]
        if said == right:
            return "That is what you said."
        if not self.many:
            return f"You said {self.value}: {'right.' if self.value in right else WHY}"
        surplus, missed = [o for o in said if o not in right], [o for o in right if o not in said]
        wrong = [f"{_listed(surplus)} {'is' if len(surplus) == 1 else 'are'} not right"] * bool(surplus)
        wrong += [f"you missed {_listed(missed)}"] * bool(missed)
        return f"You said {_listed(said)}: {', and '.join(wrong)}."

    def _given(self) -> Any:
        """For what the controls stand."""
        return [one.description for one in self.controls if one.value] if self.many else self.controls[0].value

    def _move(self, _: object = None) -> None:
        if self.press:
            self.press.icon = "check"
        self.value = self._given()
        self._keep()

    def _keep(self, **compared: object) -> None:
        """Write the guess down, and what was right if it was compared; after that it stays, as who has seen the answer guesses no more."""
        there, lab = _read(), _lab()
        asked = there.setdefault(lab, {})
        if lab and "right" not in asked.get(self.name, {}):
            when = datetime.now(UTC).isoformat(timespec="seconds")
            asked[self.name] = dict(question=self.question, guess=self.value, unit=self.unit, when=when) | compared
            with contextlib.suppress(OSError):
                write_atomic(FILE, (json.dumps(there, indent=1, ensure_ascii=False) + "\n").encode())


def predict(question: str, low: float, high: float, unit: str = "", whole: bool = False) -> Guess:
    """Ask for a number between low and high, or a whole one, before the result is shown; the guess is kept, by its question."""
    slider = ipywidgets.FloatSlider(
        (low + high) / 2, min=low, max=high, step=1 if whole else (high - low) / 100, description="your guess", continuous_update=False,
        readout_format=".4", layout={"width": "24em", "max_width": "96%"},  # four digits, and no zeros at the end
    )  # fmt: skip
    words, its_unit = f"your guess, from {low:g} to {high:g}", html.escape(unit)
    field = f'<input type="number" min="{low:g}" max="{high:g}" step="any" data-unit="{its_unit}" required>'
    return Guess(question, [slider], f"<label>{words}: {field} {its_unit}</label>", unit)


def choose(question: str, options: Sequence[str], many: bool = False) -> Guess:
    """Ask which of some answers is right before the result is shown: one of them, or with `many` all that apply; the guess is kept."""
    layout = {"width": "auto", "max_width": "96%"}
    controls: list[Any] = [ipywidgets.RadioButtons(options=options, value=None, layout=layout)]
    if many:
        controls = [ipywidgets.Checkbox(description=option, indent=False, layout=layout) for option in options]
    kind = 'type="checkbox"' if many else 'name="guess" type="radio" required'
    form = "".join(f'<label><input {kind} value="{o}"> {o}</label>' for o in map(html.escape, options))
    return Guess(question, controls, form, options=options, many=many)


def _listed(options: Sequence[str], last: str = "and") -> str:
    """Words one after the other, as a sentence has them."""
    *first, end = options or ["none of them"]
    return f"{', '.join(first)} {last} {end}" if first else end


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
