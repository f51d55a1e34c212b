"""The frames of explorers, games, desks and races, drawn while a lab is run headlessly, for pages where no kernel will be.

An explorer's settings are a grid. As much of it is drawn as time and room allow: first the setting at rest, then two positions of
each control, then all words, then the ends and middles of numbers. With more than three controls the grid has too many settings,
and where drawing is slow only a corner of it would be there; then one control moves at a time. Pictures become WebP, which takes a
third of the room.
"""

from __future__ import annotations

import base64
import io
import itertools
import math
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from IPython import get_ipython
from ipywidgets.widgets import widget as registry
from PIL import Image

from privlab.notebook.control_sweep import left_alone
from privlab.notebook.explorer import Explorer
from privlab.notebook.stills import Stills

if TYPE_CHECKING:
    from privlab.notebook.flipbook import Kind, Setting

SECONDS = 2.5  # that an explorer may take, of the processor: what else runs on the machine does not thin the book
PATIENCE = 10  # times as long by the clock on the wall, where a drawing waits for something
ROOM = 850_000  # characters for all frames of a lab: the picture at rest and the controls are in its page too
TOGETHER = 3  # so many controls move independently of each other
VIEW = "application/vnd.jupyter.widget-view+json"
SMALL = 96  # pixels: a picture of which both sides are shorter is enlarged on the page, and keeps every pixel
BUSY = 0.25  # bytes of PNG to a pixel: a chart has a tenth, a photograph one or more

RICH = ("text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain")  # the best of these is kept

Bundle = dict[str, Any]  # what a thing shows: media type -> data
_PNG = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")


class _NotStill(Exception):
    """A frame is a widget."""


def compute(seconds: float = SECONDS) -> dict[str, str]:
    """Give all that plays in this kernel its frames; its controls -> how many of its settings it has, such as "12 of 60".

    seconds: for each explorer; they are one sum, of which small grids take first, and a third stays for each of the others. Of the room
    that games and races leave each has its share, and leaves the rest of it.
    Left alone: an explorer that a sweep of the controls leaves alone, and one whose frames are widgets.
    Raises RuntimeError that names the setting, if drawing it failed.
    """
    live = [one for one in list(registry._instances.values()) if isinstance(one, Stills)]
    told: dict[str, str] = {}
    room = ROOM
    for one in live:
        if not (still := one.stills()):
            continue
        still["frames"] = [(at, [{"text/html": smaller(each["text/html"])}]) for at, (each,) in still["frames"]]
        if (size := sum(_size(frame) for _, frame in still["frames"])) <= room:
            one.frames, room = still, room - size
            _tell(told, ", ".join(control["label"] for control in still["controls"]), still)
    explorers = [one for one in live if isinstance(one, Explorer) and not any(map(left_alone, one.controls.values()))]
    left = seconds * len(explorers)
    for n, explorer in enumerate(sorted(explorers, key=lambda one: math.prod(map(len, one.options.values())))):
        began = time.thread_time()
        try:
            later = len(explorers) - n - 1  # each keeps a third of its time, enough for what a sweep has drawn already
            explorer.frames = fill(explorer, left - later * seconds / 3, room // (later + 1))
        except _NotStill:
            continue
        left -= time.thread_time() - began
        room -= sum(_size(frame) for _, frame in explorer.frames["frames"])
        _tell(told, ", ".join(explorer.options), explorer.frames)
    return told


def _tell(told: dict[str, str], name: str, frames: dict[str, Any]) -> None:
    told[f"{name} ({len(told) + 1})" if name in told else name] = f"{len(frames['frames'])} of {frames['grid']}"


def fill(explorer: Explorer, seconds: float = SECONDS, room: int = ROOM) -> dict[str, Any]:
    """The frames of an explorer, as JSON.

    controls: label, kind, options and rest of each.  frames: pairs of a setting and what it shows.  grid: the number of all settings.
    alone: whether one control moves at a time.
    seconds, room (characters): what they may take together. Drawing goes on by whole rows of the grid, and stops before the first that
    would take more.
    """
    began, wall = time.thread_time(), time.monotonic()
    kinds, start = tuple(explorer.kinds()), explorer.start
    orders = [_order(len(v), at, kind) for v, at, kind in zip(explorer.options.values(), start, kinds, strict=True)]
    chosen = [order[:1] for order in orders]
    made = {start: _frame(explorer, start)}
    alone = len(orders) > TOGETHER or _in_a_corner(explorer, orders, seconds)

    def row(axis: int) -> list[Setting]:
        """The settings that one position more of a control brings."""
        places = [[at] for at in start] if alone else [*chosen]
        places[axis] = [orders[axis][len(chosen[axis])]]
        return [*itertools.product(*places)]

    def affordable(settings: Sequence[Setting]) -> bool:
        drawing = explorer.slow * sum(map(explorer.fresh, settings))
        taken = sum(_size(frame) for frame in made.values()) / len(made)
        in_time = time.thread_time() - began + drawing <= seconds and time.monotonic() - wall <= PATIENCE * seconds
        return in_time and taken * (len(made) + len(settings)) <= room

    while settings := next((r for axis in _growing(kinds, orders, chosen) if affordable(r := row(axis))), None):
        made |= {setting: _frame(explorer, setting) for setting in settings}
        for places, at in zip(chosen, settings[-1], strict=True):
            places += [at] * (at not in places)
    shown = [sorted(places) for places in chosen]
    return {
        "controls": [
            {
                "label": name.replace("_", " "),
                "kind": kind,
                "options": [_said(values[at], kind) for at in places],
                "rest": places.index(rest),
            }
            for (name, values), kind, places, rest in zip(explorer.options.items(), kinds, shown, start, strict=True)
        ],
        "frames": [
            ([places.index(at) for places, at in zip(shown, setting, strict=True)], frame)
            for setting, frame in sorted(made.items())
        ],
        "grid": math.prod(map(len, orders)),
        "alone": alone,
    }


def _in_a_corner(explorer: Explorer, orders: Sequence[list[int]], seconds: float) -> bool:
    """Whether so few settings can be drawn that moving each control alone shows more than moving them together."""
    alone = {
        (*explorer.start[:axis], at, *explorer.start[axis + 1 :]) for axis, order in enumerate(orders) for at in order
    }
    whole, single = (
        explorer.slow * math.prod(map(len, orders)) <= seconds,
        explorer.slow * sum(map(explorer.fresh, alone)) <= seconds,
    )
    return not whole and single and explorer.slow * len(alone) >= seconds


def _order(count: int, rest: int, kind: Kind) -> list[int]:
    """The positions of a control in the order of their drawing: where it rests, then words as they come, numbers by the widest gaps."""
    order, left = [rest], [at for at in range(count) if at != rest]
    while left:
        order.append(max(left, key=lambda at: min(abs(at - one) for one in order)) if kind == "slider" else left[0])
        left.remove(order[-1])
    return order


def _growing(kinds: Sequence[Kind], orders: Sequence[list[int]], chosen: Sequence[list[int]]) -> Iterator[int]:
    """The controls that have positions left, the one whose next matters most first."""
    left = [axis for axis, order in enumerate(orders) if len(chosen[axis]) < len(order)]
    yield from sorted(
        left, key=lambda axis: (len(chosen[axis]) > 1, kinds[axis] == "slider", len(chosen[axis]) / len(orders[axis]))
    )


def _said(value: object, kind: Kind) -> str:
    return ("no", "yes")[bool(value)] if kind == "box" else str(value)


def _frame(explorer: Explorer, setting: Setting) -> list[Bundle]:
    """What a notebook would show of a setting. Raises _NotStill for widgets, RuntimeError for whatever drawing raises."""
    values = explorer.at(setting)
    try:
        results = explorer.drawn(**values)
    except Exception as error:
        at = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise RuntimeError(f"an explorer at {at}: {type(error).__name__}: {error}") from error
    shell = get_ipython()
    if shell is None:
        raise RuntimeError("frames need a notebook or IPython; compute them in the last cell of a lab")
    bundles = [shell.display_formatter.format(one)[0] for one in results]
    if any(VIEW in bundle for bundle in bundles):
        raise _NotStill
    best = [next(kind for kind in (*RICH, *bundle) if kind in bundle) for bundle in bundles if bundle]
    return [
        {kind: smaller(bundle[kind]) if kind == "text/html" else bundle[kind]}
        for kind, bundle in zip(best, filter(None, bundles), strict=True)
    ]


def smaller(text: str) -> str:
    """HTML whose PNGs are WebP, where that is shorter."""
    return _PNG.sub(lambda found: min(found[0], _webp(found[1]), key=len), text)


def _webp(png: str) -> str:
    """A PNG in base64 as the address of a WebP: charts and small pictures keep every pixel, large photographs do not."""
    data, file = base64.b64decode(png), io.BytesIO()
    image = Image.open(io.BytesIO(data))
    if max(image.size) > SMALL and len(data) > BUSY * image.width * image.height:
        image.save(file, "WEBP", quality=85, method=3)
    else:
        image.save(file, "WEBP", lossless=True, method=3)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def _size(frame: list[Bundle]) -> int:
    return sum(len(data) for bundle in frame for data in bundle.values() if isinstance(data, str))
