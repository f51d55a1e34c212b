"""What every figure stands on: a `Picture` that carries its own description, the colours, an empty chart and its labels.

A figure that cannot be read aloud is missing for some readers, so each function of `plots` insists on `alt`. Colour is never the only cue:
lines differ in marker and dash too, and a heat map prints its numbers.
"""

from __future__ import annotations

import base64
import html
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

# Okabe and Ito's colours, which people with any of the common colour deficiencies tell apart, without the pale yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))

CHART = 5.0  # inches, 480 px on a page, as a drawing: on a telephone its letters of 10 points still have 9 pixels
WIDTH = 6.0  # of rows of images, whose letters are larger
DPI = 144  # one and a half pixels of the picture to a pixel of the page
PAPER = {"color": "white", "alpha": 0.75, "pad": 1, "linewidth": 0}  # what a label stands on

Values = Sequence[float] | np.ndarray | Tensor


@dataclass(frozen=True, repr=False)
class Picture:
    """A PNG with its alt text, which shows itself in a notebook, in nbconvert's pages and in the book.

    png: the file.  alt: what it shows, in words.  width: in CSS pixels, at most; it shrinks with the page.
    """

    png: bytes
    alt: str
    width: int

    def __post_init__(self) -> None:
        if not isinstance(self.alt, str) or not self.alt.strip():
            raise ValueError(f"alt={self.alt!r} tells a listener nothing; say in a sentence what the figure shows")

    def tag(self, style: str = "") -> str:
        """The <img>, with the file inside it and the alt text, which notebooks would not pass on for a bare PNG.

        style: more CSS, starting with a semicolon.
        """
        source = f"data:image/png;base64,{base64.b64encode(self.png).decode()}"
        style = f"width:{self.width}px;max-width:100%;height:auto{style}"
        return f'<img src="{source}" alt="{html.escape(self.alt)}" style="{style}">'

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": self.alt}


def empty_chart(xlabel: str, ylabel: str, log: str, height: float = 3.4, width: float = CHART) -> tuple[Figure, Axes]:
    """An empty chart. It belongs to no window manager, so it is gone once it is rendered.

    log: the axes that are logarithmic: "", "x", "y" or "xy"; ValueError for anything else.  height, width: in inches.
    """
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log={log!r} names no axes; use '', 'x', 'y' or 'xy'")
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    ax = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    ax.set_xscale("log" if "x" in log else "linear")
    ax.set_yscale("log" if "y" in log else "linear")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4")
    ax.set_axisbelow(True)
    return figure, ax


def draw_thresholds(ax: Axes, across: Mapping[str, float], upright: Mapping[str, float], *, foot: bool = False) -> None:
    """Thin labelled lines between grid and data: across the chart at label -> y, and upright at label -> x.

    A label across stands at the right, or at the left if the data pass it there at a greater distance. A label of an upright
    line stands at its top, or at its foot.
    """
    drawn = [np.asarray(curve.get_xydata()) for curve in ax.lines]
    line: dict[str, Any] = {"color": "#555555", "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 1}
    text: dict[str, Any] = {"textcoords": "offset points", "zorder": 1.5, "bbox": PAPER}  # between grid and data
    for y in across.values():
        ax.axhline(y, **line)
    for label, y in across.items():
        side = _freer_side(ax, drawn, y)
        ax.annotate(label, (side == "right", y), (4 * (side == "left"), 4), ax.get_yaxis_transform(), ha=side, **text)
    for label, x in upright.items():
        ax.axvline(x, **line)
        ax.annotate(
            label, (x, not foot), (5, 2 * foot), ax.get_xaxis_transform(), va="bottom" if foot else "top", **text
        )


def _freer_side(ax: Axes, drawn: Sequence[np.ndarray], y: float) -> str:
    """Where a label just above y is further from the lines drawn (each (n, 2), along x): right or left; right where there is room."""
    left, _ = ax.get_xlim()
    ax.get_ylim()  # from now on the transform below knows the limits
    place = ax.transData + ax.transAxes.inverted()
    level = place.transform((left, y))[1] + 0.04
    paths = [np.asarray(place.transform(points[~np.isnan(points).any(axis=1)])) for points in drawn]
    room = {}
    for side, x in (("right", np.linspace(0.6, 1, 20)), ("left", np.linspace(0, 0.4, 20))):
        apart = [np.abs(np.interp(x, *path.T) - level).min() for path in paths if len(path)]
        room[side] = min(apart, default=1.0)
    return "right" if room["right"] > 0.08 else max(room, key=room.__getitem__)


def numbers(name: str, values: Values | Sequence[str]) -> np.ndarray:
    """A column of float64 values, or of words as they are. Raises ValueError, which names it, for another shape."""
    array = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name!r}: got shape {array.shape}; give a flat list of values")
    return array if array.dtype.kind == "U" else array.astype(np.float64)


def check_showable(name: str, values: np.ndarray, log: bool) -> None:
    """Raise ValueError, which names the column and its value, for what no axis can show, or no log axis."""
    if values.dtype.kind == "U":
        return
    if np.isinf(values).any():
        raise ValueError(f"{name!r} holds an infinite value, which no axis can show; leave it out and say so")
    if log and (values <= 0).any():
        lost = values[values <= 0][0]
        raise ValueError(f"{name!r} holds {lost:.3g}, which a log axis cannot show; leave it out and say so")


def columns(argument: str, groups: Mapping[str, Values], log: bool) -> dict[str, np.ndarray]:
    """The values of each group, (n,) float64. Raises ValueError for a group without values, and for any that no axis can show."""
    arrays = {name: numbers(name, values) for name, values in groups.items()}
    for name, values in arrays.items():
        if len(values) == 0 or np.isnan(values).any():
            raise ValueError(f"{argument}: {name!r} holds {'NaN' if len(values) else 'no values'}; give finite ones")
        check_showable(name, values, log)
    return arrays


def legend_above(figure: Figure, most: int = 3, handlelength: float = 3.2) -> None:
    """Put the legend above the chart, in as many columns as fit, at most `most`; in one column long names are broken into lines.

    handlelength: of a sample, in heights of a letter: 3.2 shows a dash, 1.5 is enough for a mark.
    """
    for ncols in range(most, 0, -1):
        legend = figure.legend(loc="outside upper left", ncols=ncols, handlelength=handlelength, frameon=False)
        if legend.get_window_extent().width <= 0.97 * figure.bbox.width:
            return
        if ncols > 1:
            legend.remove()
    for text in legend.get_texts():
        text.set_text(textwrap.fill(text.get_text(), 44))


def fold_labels(figure: Figure) -> bool:
    """Break the labels that are longer than their axis, as drawn, into lines that fit; whether there were any."""
    folded = False
    for ax in figure.axes:
        for label, side in ((ax.xaxis.label, "width"), (ax.yaxis.label, "height")):
            text, length, room = label.get_text(), getattr(label.get_window_extent(), side), getattr(ax.bbox, side)
            if length > room and len(text.split()) > 1:
                label.set_text(textwrap.fill(text, int(0.9 * len(text) * room / length) or 1, break_long_words=False))
                folded = True
    return folded


def render(figure: Figure, alt: str) -> Picture:
    """The figure as a PNG with its alt text. From now on its axes know where they lie."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    if fold_labels(figure):
        canvas.draw()
    opaque = np.asarray(canvas.buffer_rgba())[..., :3]
    file = io.BytesIO()
    Image.fromarray(opaque).save(file, "PNG", compress_level=2)  # higher: twice the time for a tenth of the size
    return Picture(file.getvalue(), alt, round(figure.get_figwidth() * 96))
