"""What is played in a notebook, as pictures that sliders and menus turn on a page without a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import ipywidgets
import traitlets

from privlab.notebook.flipbook import Control


class Stills(ipywidgets.VBox):
    """A game, a desk, a race or an explorer.

    frames: what pages without a kernel show of it, saved with the notebook by a headless run (see `frames`).
    """

    frames = traitlets.Dict().tag(sync=True)

    def stills(self) -> dict[str, Any]:
        """Its pictures, see `turned`. Empty where there is nothing to turn."""
        return {}


def turned(controls: Sequence[Control], draw: Callable[..., str], note: str = "") -> dict[str, Any]:
    """Pictures of all settings of some controls, as `frames` saves them; empty where there are not two.

    draw: the position of each control -> HTML.  note: what a page says below the controls.
    """
    settings = [*itertools.product(*(range(len(control.options)) for control in controls))]
    if len(settings) < 2:
        return {}
    return {
        "controls": [asdict(control) | {"options": [*control.options]} for control in controls],
        "frames": [([*setting], [{"text/html": draw(*setting)}]) for setting in settings],
        "grid": len(settings),
        "alone": False,
        "note": note,
    }
