"""What every figure stands on: a `Picture` that carries its own description, the colours, an empty chart and its labels.

A figure that cannot be read aloud is missing for some readers, so each function of `plots` insists on `alt`. Colour is never the only cue:
lines differ in marker and dash too, and a heat map prints its numbers.
"""

from __future__ import annotations

import base64
import html
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from torch import Tensor

# Okabe and Ito's colours, which people with any of the common colour deficiencies tell apart, without the pale yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))

CHART = 5.0  # inches, 480 px on a page, as a drawing: on a telephone its letters of 10 points still have 9 pixels
DPI = 144  # one and a half pixels of the picture to a pixel of the page

Values = Sequence[float] | np.ndarray | Tensor


class Described:
    """What shows itself as HTML in a notebook, in nbconvert's pages and in the book, and is told in words where nothing can be seen."""

    alt: str

    def tag(self) -> str:
        """The HTML."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": repr(self)}


@dataclass(frozen=True, repr=False)
class Picture(Described):
    """A PNG with its alt text.  width: in CSS pixels, at most; it shrinks with the page.  Raises ValueError for an empty alt."""

    png: bytes
    alt: str
    width: int

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(f"alt={self.alt!r} tells a listener nothing; say in a sentence what the figure shows")

    def tag(self, style: str = "") -> str:
        """The <img>, with the file inside it and the alt text, which notebooks would not pass on for a bare PNG.

        style: more CSS, starting with a semicolon.
        """
        source = f"data:image/png;base64,{base64.b64encode(self.png).decode()}"
        style = f"width:{self.width}px;max-width:100%;height:auto{style}"
        return f'<img src="{source}" alt="{html.escape(self.alt)}" style="{style}">'


@dataclass(frozen=True, repr=False)
class Drawing(Described):
    """HTML or SVG that is drawn by the page itself, with what it shows in words."""

    markup: str
    alt: str

    def tag(self) -> str:
        return self.markup


def empty_chart(xlabel: str, ylabel: str, log: str, height: float = 3.4) -> tuple[Figure, Axes]:
    """An empty chart. It belongs to no window manager, so it is gone once it is rendered.

    log: the axes that are logarithmic: "", "x", "y" or "xy".  height: in inches.
    """
    figure = Figure(figsize=(CHART, height), dpi=DPI, layout="constrained")
    ax = figure.add_subplot()
    ax.set(xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear")
    ax.set_xlabel(xlabel, wrap=True)
    ax.set_ylabel(textwrap.fill(ylabel, round(8 * height)))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4")
    ax.set_axisbelow(True)
    return figure, ax


def column(name: str, values: Values | Sequence[str], log: bool = False) -> np.ndarray:
    """Values as float64, words as they are. Raises ValueError, which names them, for what no axis can show, or no log axis."""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if array.dtype.kind == "U":
        return array
    array = array.astype(np.float64)
    if len(lost := array[np.isinf(array) | (log & (array <= 0))]):
        raise ValueError(f"{name!r} holds {lost[0]:.3g}, which no {'log ' * log}axis can show; leave it out and say so")
    return array


def check_few(argument: str, groups: Sized, most: int = len(COLOURS)) -> None:
    """Raise ValueError, which names the argument, for no groups or more than can be told apart."""
    if not 1 <= len(groups) <= most:
        raise ValueError(f"{argument}: got {len(groups)}; give 1 to {most}, as more cannot be told apart")


def mark(n: int) -> dict[str, Any]:
    """How the dots of group number `n` look, of up to fourteen: the second seven are open, and pair colours with other markers."""
    again, n = divmod(n, len(COLOURS))
    face = "white" if again else COLOURS[n]
    return {"marker": MARKERS[(n + again) % len(MARKERS)], "color": COLOURS[n], "mfc": face, "linestyle": "none"}


def draw_thresholds(ax: Axes, across: Mapping[str, float], upright: Mapping[str, float]) -> None:
    """Thin lines below the data: across the chart at label -> y, named on its right, and upright at label -> x, named above it."""
    line: dict[str, Any] = {"color": "#555555", "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 1}
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 10}
    for label, y in across.items():
        ax.axhline(y, **line)
        ax.annotate(textwrap.fill(label, 12), (1, y), (4, 0), ax.get_yaxis_transform(), va="center", **text)
    for label, x in upright.items():
        ax.axvline(x, **line)
        ax.annotate(label, (x, 1), (0, 2), ax.get_xaxis_transform(), ha="center", va="bottom", **text)


def plain_decades(axis: Axis, written: str | Callable[[float, float], str] = "{x:g}") -> None:
    """Ticks of a log axis as numbers that everybody reads: powers of ten, and between them others where these are few."""
    low, high = axis.axes.get_xlim() if axis is axis.axes.xaxis else axis.axes.get_ylim()
    between = range(1, 10) if high < 4 * low else (1, 2, 5) if high < 30 * low else (1,)
    axis.set_major_locator(LogLocator(subs=between))
    axis.set_major_formatter(written)
    axis.set_minor_locator(NullLocator())  # small ticks take as long to draw as all the rest of a figure


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


def render(figure: Figure, alt: str) -> Picture:
    """The figure as a PNG with its alt text. From now on its axes know where they lie."""
    file = io.BytesIO()
    figure.savefig(file, dpi=DPI, pil_kwargs={"compress_level": 2})  # higher: twice the time for a tenth of the size
    return Picture(file.getvalue(), alt, round(figure.get_figwidth() * 96))
