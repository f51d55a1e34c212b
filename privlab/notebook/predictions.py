"""Predictions: a number or a choice that the reader writes down before the result is shown, and that is kept beside the notebook."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import ipywidgets

from privlab.notebook import guesses
from privlab.notebook.sentences import Sentence, text

# Long options go on in a second line, where the widgets would cut them. A link, as text inside a <style> would be read out on a page.
_LABELS = ".privlab-choice .widget-label-basic,.privlab-choice .widget-radio-box label"
_CSS = (
    f"{_LABELS},.privlab-choice .widget-label-basic span,.privlab-choice .widget-checkbox,.privlab-choice .widget-html-content"
    "{height:auto!important;line-height:1.35!important;overflow:visible!important;white-space:normal!important}"
    f"{_LABELS}{{padding-left:24px!important;position:relative}}"
    ".privlab-choice .widget-label-basic input,.privlab-choice .widget-radio-box input"
    "{left:0;position:absolute;top:.2em;height:auto!important;margin:0!important}"
)
_BROKEN = f'<link rel="stylesheet" href="data:text/css,{quote(_CSS)}">'

NO_GUESS = "No guess was given: one that can be wrong is what makes the answer stick."


class Comparison(Sentence):
    """What is right and what the reader had; of a headless run, what is right, and a place where the page compares a guess made there."""

    page: str

    def _repr_markdown_(self) -> str:
        return self.page if os.environ.get("PRIVLAB_STRICT") == "1" else str(self)


class _Asked:
    """What a number and a choice share: the question above the controls, and a guess that is kept when it changes."""

    unit = ""

    def __init__(self, question: str, controls: Sequence[ipywidgets.Widget]) -> None:
        self.question, self.name = question, guesses.named(question)
        self.moved = False
        if (kept := guesses.kept(self.name)) is not None and self._set(kept):
            self.moved = True
        for control in controls:
            control.observe(self._move, "value")
        words = ipywidgets.HTML(f"{_BROKEN}<label>{html.escape(question)}</label>")
        self.box = ipywidgets.VBox([words, *self._rows()])
        self.box.add_class("privlab-choice")

    def _rows(self) -> Sequence[ipywidgets.Widget]:
        """The controls as they stand below the question."""
        raise NotImplementedError

    def _set(self, kept: Any) -> bool:
        """Put a kept guess back; False where it is none that can be given here."""
        raise NotImplementedError

    def _inputs(self) -> str:
        """The controls as HTML."""
        raise NotImplementedError

    @property
    def value(self) -> Any:
        raise NotImplementedError

    def _move(self, _: object) -> None:
        self.moved = True
        self._keep()

    def _keep(self, right: object = None) -> None:
        if self.value is not None:
            guesses.keep(self.name, self.question, self.value, self.unit, right)

    def _repr_mimebundle_(self, **kwargs: object) -> Any:
        """The widget; and the question and its answers as an HTML form, for a page without a kernel."""
        bundle: Any = self.box._repr_mimebundle_(**kwargs)
        form = f'<form class="privlab-prediction" method="dialog" data-name="{html.escape(self.name)}">'  # sent nowhere
        fields = f"<fieldset><legend>{html.escape(self.question)}</legend>{self._inputs()}</fieldset>"
        return {**bundle, "text/html": f"{form}{fields}</form>"}

    def _compared(self, result: str, comparison: str, right: object) -> Comparison:
        """result: what is right.  comparison: what follows it.  right: a number or options; None where it is not measured yet."""
        sentence = Comparison(result + comparison)
        told = html.escape(json.dumps(right))
        sentence.page = f'{result}\n\n<div class="privlab-answer" data-name="{self.name}" data-right="{told}"></div>'
        return sentence

    def _open(self) -> Comparison:
        return self._compared("This is not measured yet.", " Your guess is kept." * (self.value is not None), None)


class Prediction(_Asked):
    """A number that the reader guesses; `against` holds it beside what was measured."""

    def __init__(self, question: str, low: float, high: float, unit: str) -> None:
        self.low, self.high, self.unit = low, high, unit
        self.slider = ipywidgets.FloatSlider(
            (low + high) / 2,
            min=low,
            max=high,
            step=(high - low) / 100,
            description="your guess",
            continuous_update=False,
            readout_format=".4",  # four digits, and no zeros at the end
            layout={"width": "24em", "max_width": "96%"},
        )
        self.button = ipywidgets.Button(description="That is my guess", tooltip="Also where the slider stands now")
        self.button.on_click(self._move)
        super().__init__(question, [self.slider])

    def _rows(self) -> Sequence[ipywidgets.Widget]:
        row = [self.slider, ipywidgets.Label(self.unit), self.button]
        return [ipywidgets.HBox(row, layout={"flex_flow": "row wrap"})]

    def _move(self, _: object) -> None:
        super()._move(_)
        self.button.icon = "check"

    def _set(self, kept: Any) -> bool:
        if isinstance(kept, bool) or not isinstance(kept, (int, float)) or not self.low <= kept <= self.high:
            return False
        self.slider.value = kept
        return True

    def _inputs(self) -> str:
        unit, limits = html.escape(self.unit), f'min="{self.low:g}" max="{self.high:g}" step="any"'
        words = f"your guess, from {self.low:g} to {self.high:g}"
        return f'<label>{words}: <input type="number" {limits} data-unit="{unit}" required> {unit}</label>'

    @property
    def value(self) -> float | None:
        """The guess, or None while neither the slider was moved nor the button pressed."""
        return self.slider.value if self.moved else None

    def against(self, measured: float) -> Comparison:
        """One sentence that compares the guess with the measurement, and keeps both; NaN stands for what is not measured yet."""
        if math.isnan(measured):
            return self._open()
        right = float(measured) if math.isfinite(measured) else str(measured)
        self._keep(right)
        result = text("Measured: {} {}", float(measured), self.unit).rstrip() + "."
        if self.value is None:
            return self._compared(result, f" {NO_GUESS}", right)
        gap = text("{:.3g} {}", abs(measured - self.value), self.unit).rstrip()
        near = abs(measured - self.value) <= 0.1 * (self.high - self.low)
        verdict = "Close." if near else f"That is {gap} away: what did you assume that does not hold here?"
        return self._compared(result, f" You said {self.value:.4g}. {verdict}", right)


class Choice(_Asked):
    """One of several answers, or some of them, that the reader picks; `against` holds them beside what is right."""

    def __init__(self, question: str, options: Sequence[str], many: bool) -> None:
        self.options, self.many = tuple(options), many
        layout = {"width": "auto", "max_width": "96%"}
        if many:
            self.boxes = [ipywidgets.Checkbox(description=o, indent=False, layout=layout) for o in options]
        else:
            self.boxes = [ipywidgets.RadioButtons(options=self.options, value=None, layout=layout)]
        super().__init__(question, self.boxes)

    def _rows(self) -> Sequence[ipywidgets.Widget]:
        return self.boxes

    def _set(self, kept: Any) -> bool:
        picked = kept if self.many else [kept]
        if not isinstance(picked, list) or any(each not in self.options for each in picked):
            return False
        if self.many:
            for box, option in zip(self.boxes, self.options, strict=True):
                box.value = option in picked
        else:
            self.boxes[0].value = kept
        return True

    def _inputs(self) -> str:
        kind = f'type="{"checkbox" if self.many else "radio"}" name="{html.escape(self.name)}"' + " required" * (
            not self.many
        )
        return "".join(f'<label><input {kind} value="{o}"> {o}</label>' for o in map(html.escape, self.options))

    @property
    def value(self) -> str | list[str] | None:
        """The option picked, or where there may be many, those ticked, in their order; None while nothing has been touched."""
        if not self.moved:
            return None
        if not self.many:
            return self.boxes[0].value
        return [option for box, option in zip(self.boxes, self.options, strict=True) if box.value]

    def against(self, right: str | Iterable[str] | None) -> Comparison:
        """A sentence that says what is right and what the reader had, and keeps both.

        right: an option or several; where one was to be picked and several are right, each of them counts. None: not measured yet.
        Raises ValueError for what is no option.
        """
        if right is None:
            return self._open()
        wanted = {right} if isinstance(right, str) else set(right)
        if strangers := sorted(map(str, wanted - set(self.options))):
            raise ValueError(
                f"right: {strangers[0]!r} is no option of {self.question!r}; there are {', '.join(self.options)}"
            )
        due = [option for option in self.options if option in wanted]
        self._keep(due if self.many or len(due) != 1 else due[0])
        result = f"The answer: {_listed(due, 'and' if self.many else 'or')}."
        return self._compared(result, f" {self._judged(due)}", due)

    def _judged(self, due: list[str]) -> str:
        """How the reader's options compare with those that are right."""
        if self.value is None:
            return NO_GUESS
        said = [self.value] if isinstance(self.value, str) else self.value
        if said == due:
            return "That is what you said."
        if not self.many:
            return (
                f"You said {said[0]}: {'right.' if said[0] in due else 'what did you assume that does not hold here?'}"
            )
        surplus, missed = [o for o in said if o not in due], [o for o in due if o not in said]
        wrong = [f"{_listed(surplus)} {'is' if len(surplus) == 1 else 'are'} not right"] if surplus else []
        wrong += [f"you missed {_listed(missed)}"] if missed else []
        return f"You said {_listed(said)}: {', and '.join(wrong)}."


def _listed(options: Sequence[str], last: str = "and") -> str:
    """Words one after the other, as a sentence has them."""
    if len(options) < 2:
        return options[0] if options else "none of them"
    return f"{', '.join(options[:-1])} {last} {options[-1]}"


def predict(question: str, low: float, high: float, unit: str = "") -> Prediction:
    """Ask for a number between low and high before the result is shown; the guess is kept in `guesses.json`, by its question.

    Raises ValueError unless low < high.
    """
    if not low < high:
        raise ValueError(f"low={low}, high={high}: there is nothing to choose between; give low < high")
    return Prediction(question, low, high, unit)


def choose(question: str, options: Sequence[str], many: bool = False) -> Choice:
    """Ask which of some answers is right before the result is shown: one of them, or with `many` all that apply.

    The guess is kept in `guesses.json`, by its question.
    Raises ValueError for fewer than two options, or one given twice.
    """
    if isinstance(options, str) or len(options) < 2 or len(set(options)) < len(options):
        raise ValueError(f"options={options!r}: give at least two, each once, such as ['ResNet', 'Swin']")
    return Choice(question, options, many)
