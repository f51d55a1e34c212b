"""Move every live control of a notebook to its ends, and say which callback raised there and which was slow.

A callback of `interact` that raises goes unseen in a headless run: ipywidgets hands the exception to the shell, which
prints it into the widget's own output, and the cell counts as done. So for the length of a sweep the shell's way of
showing an exception is replaced by one that keeps it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets as w
from IPython import get_ipython
from ipywidgets.widgets import widget as registry

# control.add_class("no_sweep") keeps a control out of it: one whose callback is long, or writes something
SKIP = "no_sweep"
_EVERY = 12  # a selection with up to this many options is tried at each of them, a longer one at both ends


def sweep() -> dict[str, float]:
    """Set every control to its ends (a selection to each option), click every button, and put each back as it was.

    Returns control -> seconds of its slowest answer. Left alone: controls that are disabled or of class "no_sweep".
    Raises RuntimeError that names each control, the value, and the error, if a callback raised.
    """
    live = [widget for widget in registry._instances.values() if not left_alone(widget)]
    press = {id(c): box.manual_button for box in live if _manual(box) for c in box.kwargs_widgets}
    pressed = {id(button) for button in press.values()}
    slowest: dict[str, float] = {}
    failures: dict[str, BaseException] = {}
    with _exceptions() as caught:
        for control in live:
            positions = [] if id(control) in pressed else _positions(control)
            if not positions:
                continue
            name = _name(control, slowest)
            for label, trait, value in positions:
                began = time.perf_counter()
                _move(control, trait, value, press.get(id(control)), caught)
                slowest[name] = max(slowest.get(name, 0.0), time.perf_counter() - began)
                failures |= {f"{name} at {label}: {type(e).__name__}: {e}": e for e in caught}
                caught.clear()
    if failures:
        raise RuntimeError("; ".join(failures)) from next(iter(failures.values()))
    return slowest


def left_alone(widget: w.Widget) -> bool:
    """Whether a control is disabled, or of the class that keeps it out of a sweep."""
    return getattr(widget, "disabled", False) or SKIP in getattr(widget, "_dom_classes", ())


def _manual(widget: w.Widget) -> bool:
    """Whether this is an `interact_manual`, whose controls do nothing until its button is clicked."""
    return isinstance(widget, w.interactive) and widget.manual


def _move(control: w.Widget, trait: str, value: Any, button: w.Button | None, caught: list[BaseException]) -> None:
    try:
        if trait == "click":
            control.click()
        else:
            setattr(control, trait, value)
        if button is not None:
            button.click()
    except Exception as error:  # what a callback of observe() raises comes straight through
        caught.append(error)


def _positions(control: w.Widget) -> list[tuple[str, str, Any]]:
    """(as shown, trait, value) of each position to try, the present one last; empty for what is not a control."""
    if isinstance(control, w.Button):
        return [("a click", "click", None)]
    ends = _ends(control)
    if ends is None:
        return []
    trait, values = ends
    labels = getattr(control, "_options_labels", ())

    def label(value: Any) -> str:
        if trait == "value":
            return f"{value:.6g}" if isinstance(value, float) else str(value)
        return str([labels[i] for i in value]) if isinstance(value, tuple) else repr(labels[value])

    now = getattr(control, trait)
    tried = [(label(value), trait, value) for value in values]
    return [*tried, (label(now) if now is not None else "nothing", trait, now)]


def _ends(control: w.Widget) -> tuple[str, list[Any]] | None:
    if isinstance(control, (w.IntProgress, w.FloatProgress, w.Valid)):
        return None  # these show, nobody moves them
    if isinstance(control, (w.Checkbox, w.ToggleButton)):
        return "value", [False, True]
    if isinstance(control, (w.IntRangeSlider, w.FloatRangeSlider)):
        low, high = control.min, control.max
        return "value", [(low, low), (low, high), (high, high)]
    if isinstance(control, w.FloatLogSlider):
        return "value", [control.base**control.min, control.base**control.max]
    if isinstance(control, (w.IntSlider, w.FloatSlider, w.BoundedIntText, w.BoundedFloatText, w.Play)):
        return "value", [control.min, control.max]
    if not hasattr(control, "_options_labels") or not control._options_labels:
        return None
    last = len(control._options_labels) - 1
    each = list(range(last + 1)) if last < _EVERY else [0, last]
    if isinstance(control, w.SelectionRangeSlider):
        return "index", [(0, 0), (0, last), (last, last)]
    if isinstance(control, w.SelectMultiple):
        return "index", [(), *((i,) for i in each), tuple(range(last + 1))]
    return "index", each


def _name(control: w.Widget, taken: dict[str, float]) -> str:
    name = control.description or type(control).__name__
    same = sum(1 for other in taken if other == name or other.startswith(f"{name} ("))
    return f"{name} ({same + 1})" if same else name


@contextmanager
def _exceptions() -> Iterator[list[BaseException]]:
    """Collects what ipywidgets would hand to the shell's `showtraceback`."""
    caught: list[BaseException] = []

    def keep(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            caught.append(error)

    shell = get_ipython()
    if shell is None:  # outside IPython they are lost in a log: better no sweep than one that sees nothing
        raise RuntimeError("sweep() needs a notebook or IPython; call it in the last cell of a lab")
    shell.showtraceback = keep
    try:
        yield caught
    finally:
        del shell.showtraceback
