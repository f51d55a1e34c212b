"""What every live control stands on: a widget that leaves a page behind, buttons, and errors that are seen.

What a widget shows without a kernel is known only at the end of a run, since later cells finish a race or send a redaction. So there
`leave_pages` puts HTML beside each widget that the lab has shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from threading import current_thread

import ipywidgets
from IPython.display import display
from ipywidgets.widgets import widget as registry

WRAP = {"flex_flow": "row wrap"}  # layout of a row that a narrow page breaks
ROOM = 850_000  # characters of HTML for all widgets of a lab: a megabyte a page, with what else is in it


class Live(ipywidgets.VBox):
    """A widget that has a page for readers without a kernel."""

    was_shown = False
    settings = 0  # how many a page takes its time to draw; 0 for what is there already

    def __repr__(self) -> str:
        return f"{type(self).__name__}, a live control; it needs a running kernel."

    def page(self, seconds: float, room: int) -> str:
        """HTML that says the same without Python, made in so many seconds of the processor and characters, if it can be had in fewer."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        self.was_shown = True
        display(self._repr_mimebundle_(), raw=True, display_id=self.model_id)


def leave_pages(seconds: float) -> None:
    """Put its page beside each widget of this kernel that was shown.

    seconds: for each explorer. They are one sum, of which small grids take first, and leave what they do not need; so it is with the room.
    """
    live = [one for one in list(registry._instances.values()) if isinstance(one, Live) and one.was_shown]
    left, room = seconds * sum(one.settings > 0 for one in live), ROOM
    for done, one in enumerate(sorted(live, key=lambda one: one.settings)):
        began, waiting = time.thread_time(), len(live) - done
        html = one.page(left / waiting, room // waiting)
        left, room = left - (time.thread_time() - began), room - len(html)
        display({**one._repr_mimebundle_(), "text/html": html}, raw=True, display_id=one.model_id, update=True)


def button(name: str, tip: str, act: Callable[[], None], **layout: str) -> ipywidgets.Button:
    """A button whose clicks are worked on the event loop on which it was made, whatever thread they arrive on.

    With some kernels (ipykernel 7.0 to 7.3) JupyterLab's clicks arrive on a thread of their own, beside the cell that runs.
    """
    button, maker, loop = ipywidgets.Button(description=name, tooltip=tip, layout=layout), current_thread(), None
    with contextlib.suppress(RuntimeError):  # plain Python has none
        loop = asyncio.get_running_loop()

    def click(_: ipywidgets.Button) -> None:
        act() if loop is None or current_thread() is maker else loop.call_soon_threadsafe(act)

    button.on_click(click)
    return button
