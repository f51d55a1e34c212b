"""Live controls for a lab: a prediction to write down before a result is shown, and a function whose arguments become sliders."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import ipywidgets
from IPython.display import display

from privlab.notebook.predictions import choose, predict
from privlab.notebook.sentences import Sentence

WRAP = {"flex_flow": "row wrap"}  # layout of a row that a narrow page breaks

__all__ = ["WRAP", "Sentence", "button", "choose", "explore", "predict", "running_loop", "shown_error"]


def explore(
    draw: Callable[..., object], start: dict[str, Hashable] | None = None, **controls: Sequence[Hashable]
) -> ipywidgets.VBox:
    """A control for each argument of `draw`, and what it returns for their values below them, drawn again at each change.

    controls: argument name -> the values it may take: a slider for numbers, buttons for words, a menu for many words, a box to tick for
        (False, True).
    start: values to begin with; the first of each if not given.  What was drawn once is kept, so going back answers at once:
        return all that is to be seen, several things as a tuple. What `draw` prints or displays by itself is seen the first time only.
    An exception inside `draw` shows in the output, where the headless runner looks for it too.
    """
    empty = [name for name, values in controls.items() if len(values) == 0]
    if empty:
        raise ValueError(f"{empty[0]}=() leaves nothing to choose; give at least one value")
    if strangers := sorted((start or {}).keys() - controls.keys()):
        raise ValueError(f"start: {strangers[0]!r} is no control; there are {', '.join(controls)}")
    widget_of = {name: _control(name, tuple(values), (start or {}).get(name)) for name, values in controls.items()}
    drawn = lru_cache(maxsize=256)(draw)

    def show(**values: Hashable) -> None:
        results = drawn(**values)
        display(*results if isinstance(results, tuple) else (results,))

    output = ipywidgets.interactive_output(show, widget_of)
    return ipywidgets.VBox([*widget_of.values(), output])


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that this code runs on, as in a notebook; None in plain Python."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def button(name: str, tip: str, act: Callable[[], None], **layout: str) -> ipywidgets.Button:
    """A button whose clicks are worked on the event loop on which it was made, whatever thread they arrive on.

    With some kernels (ipykernel 7.0 to 7.3) JupyterLab's clicks arrive on a thread of their own, beside the cell that runs.
    """
    button, home = ipywidgets.Button(description=name, tooltip=tip, layout=layout), running_loop()

    def click(_: ipywidgets.Button) -> None:
        if home is None or home is running_loop() or not home.is_running():
            act()
        else:
            home.call_soon_threadsafe(act)

    button.on_click(click)
    return button


def shown_error(error: BaseException) -> tuple[dict[str, Any], ...]:
    """An exception as the content of an Output: it shows there, and the headless runner finds it in the saved state."""
    name, lines = type(error).__name__, traceback.format_exception(error)
    return ({"output_type": "error", "ename": name, "evalue": str(error), "traceback": lines},)


def _control(name: str, values: tuple[Hashable, ...], start: Hashable | None) -> ipywidgets.Widget:
    label = name.replace("_", " ")
    value = values[0] if start is None else start
    if value not in values:
        raise ValueError(f"start: {name}={value!r} is none of {values}")
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
