"""A function whose arguments become controls, drawn again at each change; a headless run draws beforehand what time and room allow."""

import itertools
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any

import ipywidgets
from IPython.display import display

from privlab.notebook.live import Control, Live, Setting, as_html, turning


class Explorer(Live):
    """A control for each argument of `draw`, and what it returns for their values below them, drawn again at each change."""

    def __init__(
        self, draw: Callable[..., object], start: Mapping[str, Hashable] | None = None, *, above: str = "", **controls: Sequence[Hashable]
    ) -> None:  # fmt: skip
        """controls: argument name -> the values it may take: a slider for numbers, buttons for words, a menu for many words, a box to tick
            for (False, True).

        start: values to begin with; the first of each if not given.  above: HTML that stands above whatever is drawn.
        What was drawn once is kept, so going back answers at once: return all that is to be seen, several things as a tuple. What `draw`
        prints or displays by itself is seen the first time only.
        An exception inside `draw` shows in the output, where the headless runner looks for it too.  ValueError: `start` names no control.
        """

        @cache
        def drawn(**values: Hashable) -> tuple[object, ...]:
            shown = draw(**values)
            return shown if isinstance(shown, tuple) else (shown,)

        self.drawn, self.options, self.above = drawn, controls, above
        begin = {name: values[0] for name, values in controls.items()} | dict(start or {})
        if strange := begin.keys() - controls.keys():
            raise ValueError(f"start has {sorted(strange)}, and the controls are {sorted(controls)}")
        if wrong := [name for name, values in controls.items() if begin[name] not in values]:
            raise ValueError(f"start has {begin[wrong[0]]!r} for {wrong[0]!r}, which is none of its values")
        self.start = tuple(list(values).index(begin[name]) for name, values in controls.items())
        self.settings = math.prod(map(len, controls.values()))
        self.controls = {name: _control(name, values, begin[name]) for name, values in controls.items()}
        output = ipywidgets.interactive_output(lambda **values: display(*drawn(**values)), self.controls)
        super().__init__([*self.controls.values(), *[ipywidgets.HTML(above)] * bool(above), output])

    def page(self, seconds: float, room: int) -> str:
        """The settings that were drawn, behind HTML controls that have their positions."""
        frames = self.frames(seconds, room)
        places = [sorted(set(positions)) for positions in zip(*frames, strict=True)]
        controls = [
            Control(name.replace("_", " "), tuple(str(values[at]) for at in there), there.index(rest), _kind(values))
            for (name, values), there, rest in zip(self.options.items(), places, self.start, strict=True)
        ]
        note = ""
        if len(frames) < self.settings:
            note = f"Here are {len(frames)} of {self.settings:,} settings, drawn beforehand. The notebook draws all."
        if len(frames) < math.prod(map(len, places)):
            note += " Where one is missing, the other controls go back."
        shown = {tuple(map(list.index, places, setting)): frames[setting] for setting in sorted(frames)}
        return turning(controls, shown, note, self.above)

    def frames(self, seconds: float, room: int) -> dict[Setting, str]:
        """HTML by setting: where it rests, then each control moved alone, then together, until time or room is used up.

        Raises RuntimeError that names the setting, if drawing it failed.
        """
        orders = [_order(len(values), rest) for values, rest in zip(self.options.values(), self.start, strict=True)]
        ranks = itertools.product(*(range(len(order)) for order in orders))
        made, began = dict[Setting, str](), math.inf
        for rank in sorted(ranks, key=lambda rank: (len(rank) - rank.count(0), max(rank))):
            if time.thread_time() - began >= seconds:
                break
            setting = tuple(map(list.__getitem__, orders, rank))
            values = {name: may[at] for (name, may), at in zip(self.options.items(), setting, strict=True)}
            try:
                frame = "".join(map(as_html, self.drawn(**values)))
            except Exception as error:
                at = ", ".join(f"{name}={value!r}" for name, value in values.items())
                raise RuntimeError(f"an explorer at {at}: {type(error).__name__}: {error}") from error
            room -= len(frame)
            if made and room < 0:
                break
            made[setting] = frame
            began = min(began, time.thread_time())  # the first is not counted: it pays for imports, too
        return made


def _control(name: str, values: Sequence[Hashable], value: Hashable) -> ipywidgets.Widget:
    label = name.replace("_", " ")
    if _kind(values) == "box":
        return ipywidgets.Checkbox(value=bool(value), description=label, indent=False)
    common: dict[str, Any] = {"options": [(str(v), v) for v in values], "value": value, "description": label}
    common["style"] = {"description_width": "9em"}
    if _kind(values) == "slider":
        layout = {"width": "32em", "max_width": "96%"}
        return ipywidgets.SelectionSlider(continuous_update=False, layout=layout, **common)
    return (ipywidgets.ToggleButtons if len(values) <= 4 else ipywidgets.Dropdown)(**common)


def _kind(values: Sequence[Hashable]) -> str:
    """What control such values have: a box to tick for (False, True), which 0 and 1 equal and are not; a slider for numbers."""
    if any(isinstance(value, bool) for value in values):
        return "box" if [*values] == [False, True] else "menu"
    return "slider" if all(isinstance(value, int | float) for value in values) else "menu"


def _order(count: int, rest: int) -> list[int]:
    """So many positions in the order of their drawing: where a control rests, then by halving: 0, 8, 4, 2, 6 of nine."""
    return sorted(range(count), key=lambda at: (at != rest, f"{at:016b}"[::-1]))
