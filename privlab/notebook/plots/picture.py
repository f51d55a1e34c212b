"""What every figure stands on: a `Picture` that carries its own description, the colours, an empty chart and its labels.

A figure that cannot be read aloud is missing for some readers, so each function of `plots` insists on `alt`. Colour is never the only cue:
lines differ in marker and dash too, and a heat map prints its numbers.
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from torch import Tensor

from privlab.notebook.sheet import img

# Okabe and Ito's colours, which people with any of the common colour deficiencies tell apart, without the pale yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))
# Of up to fourteen groups; more could not be told apart. The second seven have open markers, paired with other colours.
OPEN = {"marker": MARKERS[1:] + MARKERS[:1], "markerfacecolor": ["white"] * 7}
LOOKS = [*cycler(color=COLOURS, linestyle=DASHES, marker=MARKERS), *cycler(color=COLOURS, linestyle=DASHES, **OPEN)]

CHART = 5.0  # inches, 480 px on a page, as a drawing: on a telephone its letters of 10 points still have 9 pixels
DPI = 144  # one and a half pixels of the picture to a pixel of the page

Values = Sequence[Any] | np.ndarray | Tensor  # numbers; of an axis, words, too


@dataclass(frozen=True, repr=False)
class Picture:
    """HTML that a notebook and the book show, and in words what it shows.  Raises ValueError for an empty alt."""

    html: str
    alt: str

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(f"alt={self.alt!r} tells a listener nothing; say in a sentence what the figure shows")

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        return self.html


def chart(xlabel: str, ylabel: str, log: str = "", height: float = 3.4) -> tuple[Figure, Axes]:
    """An empty chart, for `render` once it is drawn on. It belongs to no window manager, so it is gone then.

    log: the axes that are logarithmic: "", "x", "y" or "xy".  height: in inches.
    """
    figure = Figure(figsize=(CHART, height), dpi=DPI, layout="constrained")
    ax = figure.add_subplot(xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear")
    ax.set_xlabel(xlabel, wrap=True)
    ax.set_ylabel(textwrap.fill(ylabel, round(8 * height)))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4")
    ax.set_axisbelow(True)
    return figure, ax


def column(name: str, values: Values, log: bool = False) -> np.ndarray:
    """Values as float64, words as they are.  Raises ValueError, which names them, for what no axis can show, or no log axis."""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if array.dtype.kind == "U":
        return array
    array = array.astype(np.float64)
    if len(lost := array[np.isinf(array) | (log & (array <= 0))]):
        raise ValueError(f"{name!r} holds {lost[0]:.3g}, which no {'log ' * log}axis can show; leave it out and say so")
    return array


def thresholds(ax: Axes, across: Mapping[str, float], upright: Mapping[str, float]) -> None:
    """Thin lines below the data: across the chart at label -> y, named on its right, and upright at label -> x, named above it."""
    line: dict[str, Any] = {"color": "#555555", "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 1}
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 10}
    for label, y in across.items():
        ax.axhline(y, **line)
        ax.annotate(textwrap.fill(label, 12), (1, y), (4, 0), ax.get_yaxis_transform(), va="center", **text)
    for label, x in upright.items():
        ax.axvline(x, **line)
        ax.annotate(label, (x, 1), (0, 2), ax.get_xaxis_transform(), ha="center", va="bottom", **text)


def render(figure: Figure, alt: str, sample: float = 3.2) -> Picture:
    """A chart with its alt text and a legend above it, as a lossless WebP, which takes a quarter of a PNG's room.

    sample: how long the legend draws a look, in heights of a letter: 3.2 shows a dash, 1.5 is enough for a mark.
    """
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        if axis.get_scale() == "log":  # powers of ten as plain numbers, and between them others where these are few
            low, high = axis.get_view_interval()
            between = range(1, 10) if high < 4 * low else (1, 2, 5) if high < 30 * low else (1,)
            axis.set_major_locator(LogLocator(subs=between))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_locator(NullLocator())  # small ticks take as long to draw as all the rest of a figure
    _legend_above(figure, sample)
    file = io.BytesIO()
    figure.savefig(file, format="webp", dpi=DPI, pil_kwargs={"lossless": True, "method": 1, "quality": 20})
    return Picture(img(file, alt, round(figure.get_figwidth() * 96)), alt)


def _legend_above(figure: Figure, sample: float) -> None:
    """An entry for each label, in as many columns as fit; no legend for a single label."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    entries = {textwrap.fill(label, 44): handle for label, handle in zip(labels, handles, strict=True)}
    for columns in (5, 4, 3, 2, 1) if len(entries) > 1 else ():
        look = {"ncols": columns, "handlelength": sample, "frameon": False}
        legend = figure.legend(entries.values(), entries.keys(), loc="outside upper left", **look)
        if columns == 1 or legend.get_window_extent().width <= 0.97 * figure.bbox.width:
            return
        legend.remove()
