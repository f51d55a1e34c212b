"""Live controls for a lab: a prediction to write down before a result is shown, and a function whose arguments become sliders."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import ipywidgets

from privlab.notebook.explorer import explore
from privlab.notebook.predictions import choose, predict
from privlab.notebook.sentences import Sentence

WRAP = {"flex_flow": "row wrap"}  # layout of a row that a narrow page breaks

__all__ = ["WRAP", "Sentence", "button", "choose", "explore", "predict", "running_loop", "shown_error"]


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
