"""A function whose arguments become controls, drawn again at each change; a headless run draws beforehand what time and room allow."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import median

import ipywidgets
from IPython.display import display

from privlab.notebook import pages
from privlab.notebook.live import Live
from privlab.notebook.pages import Control, Setting

TOGETHER = 3  # so many controls move independently of each other on a page; of more the grid has too many settings


class Explorer(Live):
    """Controls, and what a function returns for their values below them; `explore` makes it.

    options: name of a control -> the values that it may take.  start: the position of each with which it began.
    above: HTML that stands above whatever is drawn.
    """

    def __init__(
        self,
        draw: Callable[..., object],
        options: Mapping[str, tuple[Hashable, ...]],
        start: Mapping[str, Hashable],
        above: str = "",
    ) -> None:
        self.draw, self.options, self.above = draw, options, above
        self.start: Setting = tuple(values.index(start[name]) for name, values in options.items())
        self.controls = {name: _control(name, values, start[name]) for name, values in options.items()}
        self.drawn: dict[Setting, tuple[object, ...]] = {}
        self.seconds: list[float] = []  # of the processor, for each drawing
        output = ipywidgets.interactive_output(self._show, self.controls)
        fixed = [ipywidgets.HTML(above)] if above else []
        super().__init__([*self.controls.values(), *fixed, output])

    def __repr__(self) -> str:
        return f"Controls: {', '.join(self.options)}."

    @property
    def settings(self) -> int:
        return math.prod(map(len, self.options.values()))

    def at(self, setting: Setting) -> tuple[object, ...]:
        """What `draw` returns at a setting, as a tuple; what was drawn once is not drawn again."""
        if setting not in self.drawn:
            began = time.thread_time()
            results = self.draw(**self._values(setting))
            self.seconds.append(time.thread_time() - began)
            self.drawn[setting] = results if isinstance(results, tuple) else (results,)
        return self.drawn[setting]

    def page(self, seconds: float, room: int) -> str:
        """The settings that were drawn, behind HTML controls that have their positions."""
        frames = self.frames(seconds, room)
        places = [sorted({setting[axis] for setting in frames}) for axis in range(len(self.options))]
        controls = [
            _tag(name, [values[at] for at in there], there.index(rest))
            for (name, values), there, rest in zip(self.options.items(), places, self.start, strict=True)
        ]
        note = ""
        if len(frames) < self.settings:
            note = f"Here are {len(frames)} of {self.settings:,} settings, drawn beforehand. The notebook draws all."
        if len(frames) < math.prod(map(len, places)):
            note += " One control moves at a time: the others go back."
        shown = {
            tuple(there.index(at) for there, at in zip(places, setting, strict=True)): frame
            for setting, frame in sorted(frames.items())
        }
        return pages.turning(controls, shown, note, self.above)

    def frames(self, seconds: float, room: int) -> dict[Setting, str]:
        """HTML by setting. Drawing goes on by whole rows of the grid, and stops before the first that takes more time or room.

        First come two positions of each control, then all words, then the ends and middles of numbers. Raises RuntimeError that names the
        setting, if drawing it failed.
        """
        began = time.thread_time()
        made = {self.start: self._frame(self.start)}
        numeric = [_numeric(values) for values in self.options.values()]
        orders = [
            _order(len(values), at, number)
            for values, at, number in zip(self.options.values(), self.start, numeric, strict=True)
        ]
        chosen, alone = [order[:1] for order in orders], self._alone(seconds)

        def lag(axis: int) -> tuple[bool, bool, float]:
            return len(chosen[axis]) > 1, numeric[axis], len(chosen[axis]) / len(orders[axis])

        while growing := [axis for axis, order in enumerate(orders) if len(chosen[axis]) < len(order)]:
            axis = min(growing, key=lag)
            places = [[at] for at in self.start] if alone else [*chosen]
            places[axis] = [orders[axis][len(chosen[axis])]]
            row = [*itertools.product(*places)]
            length = sum(map(len, made.values())) / len(made) * (len(made) + len(row))
            if time.thread_time() - began + self._cost(row) > seconds or length > room:
                break
            made |= {setting: self._frame(setting) for setting in row}
            chosen[axis].append(places[axis][0])
        return made

    def _alone(self, seconds: float) -> bool:
        """Whether one control moves at a time: where not all settings can be drawn, and those within a small corner would show less.

        A sweep of the controls has drawn most settings with one control elsewhere: they are there at no cost.
        """
        single = {
            (*self.start[:axis], at, *self.start[axis + 1 :])
            for axis, values in enumerate(self.options.values())
            for at in range(len(values))
        }
        short = self._cost(itertools.product(*(range(len(values)) for values in self.options.values()))) > seconds
        slow = median(self.seconds) * len(single) >= seconds >= self._cost(single)
        return short and (slow or len(self.options) > TOGETHER)

    def _cost(self, settings: Iterable[Setting]) -> float:
        """Seconds that drawing these would take."""
        return median(self.seconds) * sum(setting not in self.drawn for setting in settings)

    def _show(self, **values: Hashable) -> None:
        display(*self.at(tuple(self.options[name].index(value) for name, value in values.items())))

    def _values(self, setting: Setting) -> dict[str, Hashable]:
        return {name: self.options[name][at] for name, at in zip(self.options, setting, strict=True)}

    def _frame(self, setting: Setting) -> str:
        try:
            return pages.smaller("".join(map(pages.shown, self.at(setting))))
        except Exception as error:
            at = ", ".join(f"{name}={value!r}" for name, value in self._values(setting).items())
            raise RuntimeError(f"an explorer at {at}: {type(error).__name__}: {error}") from error


def explore(
    draw: Callable[..., object], start: dict[str, Hashable] | None = None, **controls: Sequence[Hashable]
) -> Explorer:
    """A control for each argument of `draw`, and what it returns for their values below them, drawn again at each change.

    controls: argument name -> the values it may take: a slider for numbers, buttons for words, a menu for many words, a box to tick for
        (False, True).
    start: values to begin with; the first of each if not given.  What was drawn once is kept, so going back answers at once:
        return all that is to be seen, several things as a tuple. What `draw` prints or displays by itself is seen the first time only.
    An exception inside `draw` shows in the output, where the headless runner looks for it too.
    Raises ValueError for a control without values, or a start that is none of them.
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
    if _ticked(values):
        return ipywidgets.Checkbox(value=bool(value), description=label, indent=False)
    common = {
        "options": [(str(v), v) for v in values],
        "value": value,
        "description": label,
        "style": {"description_width": "9em"},
    }
    if _numeric(values):
        layout = {"width": "32em", "max_width": "96%"}
        return ipywidgets.SelectionSlider(continuous_update=False, layout=layout, **common)
    return (ipywidgets.ToggleButtons if len(values) <= 4 else ipywidgets.Dropdown)(**common)


def _tag(name: str, values: Sequence[Hashable], rest: int) -> Control:
    """What stands for a control on a page."""
    kind: pages.Kind = "box" if _ticked(values) else "slider" if _numeric(values) else "menu"
    return Control(name.replace("_", " "), tuple(map(str, values)), rest, kind)


def _ticked(values: Sequence[Hashable]) -> bool:
    return [*values] == [False, True] and all(isinstance(v, bool) for v in values)  # not 0 and 1, which equal them


def _numeric(values: Sequence[Hashable]) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _order(count: int, rest: int, numeric: bool) -> list[int]:
    """The positions of a control in the order of their drawing: where it rests, then words as they come, numbers by the widest gaps."""
    order, left = [rest], [at for at in range(count) if at != rest]
    while left:
        order.append(max(left, key=lambda at: min(abs(at - one) for one in order)) if numeric else left[0])
        left.remove(order[-1])
    return order
