"""Move every live control of a notebook to its ends, and say which callback raised there.

What a callback of `interact` raises goes unseen in a headless run: the shell prints it into the widget's own output, and the cell counts
as done. So for the length of a sweep the shell's way of showing an exception is replaced by one that keeps it.
"""

import sys
from typing import Any

import ipywidgets as w
from IPython import get_ipython
from ipywidgets.widgets import widget as registry

# control.add_class("no_sweep") keeps a control out of it
SKIP = "no_sweep"
EVERY = 12  # a selection with up to this many options is tried at each of them, a longer one at both ends


def sweep() -> list[str]:
    """Set every control to its ends (a selection to each option), click every button, and put each back as it was.

    Returns the names of those that were moved. Left alone: controls that are disabled or of class "no_sweep".
    Raises RuntimeError that names each control, the value, and the error, if a callback raised.
    """
    shell, caught = get_ipython(), list[BaseException | None]()
    shell.showtraceback = lambda info=None, *_, **__: caught.append((info or sys.exc_info())[1])
    moved, failures = list[str](), dict[str, BaseException]()
    try:
        for control in list(registry._instances.values()):
            if getattr(control, "disabled", False) or SKIP in getattr(control, "_dom_classes", ()):
                continue
            name, positions = getattr(control, "description", "") or type(control).__name__, _positions(control)
            for trait, value in positions:
                try:
                    control.click() if trait == "click" else setattr(control, trait, value)
                except Exception as error:  # what a callback of observe() raises comes straight through
                    caught.append(error)
                at = getattr(control, "label", None) or value
                failures |= {f"{name} at {at}: {type(e).__name__}: {e}": e for e in caught if e is not None}
                caught.clear()
            moved += [name] * bool(positions)
    finally:
        del shell.showtraceback
    if failures:
        raise RuntimeError("; ".join(failures)) from next(iter(failures.values()))
    return moved


def _positions(control: w.Widget) -> list[tuple[str, Any]]:
    """(trait, value) of each position to try, the present one last; empty for what is not a control."""
    if isinstance(control, w.Button):
        return [("click", "a click")]
    if labels := getattr(control, "_options_labels", ()):
        each = range(len(labels)) if len(labels) <= EVERY else (0, len(labels) - 1)
        return [("index", at) for at in (*each, control.index)]
    ends: list[Any] = [False, True] if isinstance(control, w.Checkbox) else []
    if isinstance(control, w.IntRangeSlider):
        ends = [(control.min, control.min), (control.min, control.max), (control.max, control.max)]
    elif isinstance(control, w.IntSlider | w.FloatSlider):
        ends = [control.min, control.max]
    return [("value", value) for value in (*ends, control.value)] if ends else []
