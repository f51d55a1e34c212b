"""A function whose arguments become controls, drawn again at each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

import ipywidgets
from IPython.display import display

from privlab.notebook.stills import Stills

if TYPE_CHECKING:
    from privlab.notebook.flipbook import Kind, Setting

KEPT = 256  # what was drawn last stays at hand


class Explorer(Stills):
    """Controls, and what a function returns for their values below them; `explore` makes it.

    options: name of a control -> the values that it may take.  start: the position of each with which it began.
    """

    def __init__(
        self, draw: Callable[..., object], options: dict[str, tuple[Hashable, ...]], start: dict[str, Hashable]
    ) -> None:
        self.draw, self.options = draw, options
        self.start: Setting = tuple(values.index(start[name]) for name, values in options.items())
        self.controls = {name: _control(name, values, start[name]) for name, values in options.items()}
        self._drawn: dict[tuple[Hashable, ...], tuple[object, ...]] = {}
        self._seconds: list[float] = []
        output = ipywidgets.interactive_output(lambda **values: display(*self.drawn(**values)), self.controls)
        super().__init__([*self.controls.values(), output])

    @property
    def slow(self) -> float:
        """Seconds of the processor that drawing anew takes, the median; 0 if nothing was drawn yet."""
        return median(self._seconds or [0.0])

    def at(self, setting: Setting) -> dict[str, Hashable]:
        """The values at a setting, as `draw` takes them."""
        return {name: self.options[name][place] for name, place in zip(self.options, setting, strict=True)}

    def fresh(self, setting: Setting) -> bool:
        """Whether this setting would have to be drawn anew."""
        return tuple(self.at(setting).values()) not in self._drawn

    def drawn(self, **values: Hashable) -> tuple[object, ...]:
        """What `draw` returns for these values, as a tuple; what was drawn lately is not drawn again."""
        key = tuple(values[name] for name in self.options)
        if key not in self._drawn:
            began = time.thread_time()
            results = self.draw(**values)
            self._seconds.append(time.thread_time() - began)
            self._drawn[key] = results if isinstance(results, tuple) else (results,)
            for oldest in list(self._drawn)[:-KEPT]:
                del self._drawn[oldest]
        return self._drawn[key]

    def kinds(self) -> Iterator[Kind]:
        """What stands for each control on a page without a kernel."""
        known: dict[type[ipywidgets.Widget], Kind] = {
            ipywidgets.Checkbox: "box",
            ipywidgets.SelectionSlider: "slider",
            ipywidgets.ToggleButtons: "buttons",
            ipywidgets.Dropdown: "menu",
        }
        yield from (known[type(control)] for control in self.controls.values())


def explore(
    draw: Callable[..., object], start: dict[str, Hashable] | None = None, **controls: Sequence[Hashable]
) -> Explorer:
    """A control for each argument of `draw`, and what it returns for their values below them, drawn again at each change.

    controls: argument name -> the values it may take: a slider for numbers, buttons for words, a menu for many words, a box to tick for
        (False, True).
    start: values to begin with; the first of each if not given.  What was drawn once is kept, so going back answers at once:
        return all that is to be seen, several things as a tuple. What `draw` prints or displays by itself is seen the first time only.
    An exception inside `draw` shows in the output, where the headless runner looks for it too.
    A headless run draws as much as time allows beforehand, so that the controls work on pages without a kernel.
    """
    options = {name: tuple(values) for name, values in controls.items()}
    start = start or {}
    if empty := [name for name, values in options.items() if not values]:
        raise ValueError(f"{empty[0]}=() leaves nothing to choose; give at least one value")
    if strangers := sorted(start.keys() - options.keys()):
        raise ValueError(f"start: {strangers[0]!r} is no control; there are {', '.join(options)}")
    if wrong := [name for name, value in start.items() if value not in options[name]]:
        raise ValueError(f"start: {wrong[0]}={start[wrong[0]]!r} is none of {options[wrong[0]]}")
    return Explorer(draw, options, {name: start.get(name, values[0]) for name, values in options.items()})


def _control(name: str, values: tuple[Hashable, ...], value: Hashable) -> ipywidgets.Widget:
    label = name.replace("_", " ")
    if all(isinstance(v, bool) for v in values) and values == (False, True):  # not 0 and 1, which equal them
        return ipywidgets.Checkbox(value=bool(value), description=label, indent=False)
    options = [(str(v), v) for v in values]
    style = {"description_width": "9em"}
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return ipywidgets.SelectionSlider(
            options=options,
            value=value,
            description=label,
            continuous_update=False,
            style=style,
            layout={"width": "32em", "max_width": "96%"},
        )
    if len(values) <= 4:
        return ipywidgets.ToggleButtons(options=options, value=value, description=label, style=style)
    return ipywidgets.Dropdown(options=options, value=value, description=label, style=style)
