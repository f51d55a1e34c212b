"""What a lab shows: image grids and a few kinds of chart, each a `Picture` that carries its own description.

A figure that cannot be read aloud is missing for some readers, so every function insists on `alt`. Colour is never the
only cue: lines differ in marker and dash too, and a heat map prints its numbers.
"""

from __future__ import annotations

import base64
import html
import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image
from torch import Tensor

# Okabe and Ito's colours, which people with any of the common colour deficiencies tell apart, without the pale yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))

WIDTH = 7.5  # inches, 720 px on a page: the column of a notebook
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


# -- images ------------------------------------------------------------------------------------------------------------


def side_by_side(*batches: Tensor, titles: Sequence[str], alt: str) -> Picture:
    """Single images next to each other, each with its title below it, such as "truth" and "recovered, 110 dB".

    batches: (1, channels, height, width) each, shown clamped to [0, 1]; sizes may differ.  titles: one an image.
    Raises ValueError for other shapes, NaN, a missing title or an empty alt.
    """
    cells = [pixels(batch) for batch in batches]
    if any(len(cell) != 1 for cell in cells):
        raise ValueError(f"batches: got {[len(cell) for cell in cells]} images; give single ones, or call plots.images")
    if len(cells) != len(titles):
        raise ValueError(f"titles: got {len(titles)} for {len(cells)} images; give one each")
    return _grid([("", [cell[0] for cell in cells], list(titles))], alt)


def images(rows: Mapping[str, Tensor], alt: str, captions: Mapping[str, Sequence[str]] | None = None) -> Picture:
    """Batches of images, a titled row each (more than eight wrap), for instance the truth above what was recovered.

    rows: title -> (batch, 1 or 3, height, width), shown clamped to [0, 1]. Small images are enlarged without smoothing.
    captions: row title -> one line an image, such as its PSNR; rows may be missing.
    Raises ValueError for other shapes, NaN, a caption too few or an empty alt.
    """
    captions = captions or {}
    if unknown := [title for title in captions if title not in rows]:
        raise ValueError(f"captions: there is no row {unknown[0]!r}; the rows are {list(rows)}")
    for title, texts in captions.items():
        if len(texts) != len(rows[title]):
            raise ValueError(f"captions: {len(texts)} for the {len(rows[title])} images of {title!r}; give one each")
    return _grid([(title, pixels(batch), list(captions.get(title, ()))) for title, batch in rows.items()], alt)


def pixels(batch: Tensor) -> list[np.ndarray]:
    """The images of a batch as (height, width, 3) bytes, clamped to [0, 1] as a screen would."""
    if batch.ndim != 4 or batch.shape[1] not in (1, 3) or batch.numel() == 0:
        raise ValueError(f"images: got shape {tuple(batch.shape)}; give (batch, 1 or 3, height, width)")
    if not batch.is_floating_point() or batch.isnan().any():
        what = "NaN among the pixels" if batch.is_floating_point() else str(batch.dtype)
        raise ValueError(f"images: got {what}; give floats, black at 0 and white at 1")
    rounded = (batch.detach().float().cpu().clamp(0, 1) * 255).round().byte().expand(-1, 3, -1, -1)
    return list(rounded.permute(0, 2, 3, 1).numpy())


def _grid(rows: list[tuple[str, list[np.ndarray], list[str]]], alt: str) -> Picture:
    """Titled rows of captioned images. They are pasted into one array first: an axes for each would take far longer."""
    rows = [
        (title if start == 0 else "", cells[start : start + 8], below[start : start + 8])
        for title, cells, below in rows
        for start in range(0, len(cells), 8)
    ]
    if not rows:
        raise ValueError("images: got none; give at least one")
    columns = max(len(cells) for _, cells, _ in rows)
    gap, line = 0.08, 0.19  # inches; a line of 10 point text
    side = min(2.4, (WIDTH - gap * (columns - 1)) / columns)
    width = columns * (side + gap) - gap
    if any(title for title, _, _ in rows):
        width = max(width, 4.0)  # room for a title over a single image
    wrapped = [[textwrap.wrap(text, int(side / 0.078)) for text in below] for _, _, below in rows]
    above = [line * 1.5 if title else 0.0 for title, _, _ in rows]  # heights: of the titles,
    tall = [side * max(cell.shape[0] / cell.shape[1] for cell in cells) for _, cells, _ in rows]  # of the images,
    under = [line * max(map(len, below), default=0) for below in wrapped]  # and of the captions
    total = sum(above) + sum(tall) + sum(under) + 2 * gap * len(rows)

    figure = Figure(figsize=(width, total), dpi=DPI)
    canvas = np.full((math.ceil(total * DPI), math.ceil(width * DPI), 3), 255, np.uint8)
    top = gap / 2
    for row, (title, cells, _) in enumerate(rows):
        top += above[row]
        if title:
            figure.text(0, 1 - (top - 0.05) / total, title, va="bottom", fontsize=10.5, fontweight="bold")
        for i, cell in enumerate(cells):
            left = i * (side + gap)
            _paste(canvas, cell, left, top, side)
            if wrapped[row]:
                middle, below = (left + side / 2) / width, 1 - (top + tall[row] + 0.03) / total
                figure.text(middle, below, "\n".join(wrapped[row][i]), ha="center", va="top", fontsize=10)
        top += tall[row] + under[row] + 2 * gap
    figure.figimage(canvas, origin="upper")
    return _picture(figure, alt)


def _paste(canvas: np.ndarray, cell: np.ndarray, left: float, top: float, side: float) -> None:
    """Put an image at (left, top), `side` wide (inches): enlarged as squares, shrunk smoothly."""
    size = round(side * DPI), round(side * DPI * cell.shape[0] / cell.shape[1])
    how = Image.Resampling.NEAREST if size[0] >= cell.shape[1] else Image.Resampling.LANCZOS
    x, y = round(left * DPI), round(top * DPI)
    area = canvas[y : y + size[1], x : x + size[0]]
    area[:] = np.asarray(Image.fromarray(cell).resize(size, how))[: area.shape[0], : area.shape[1]]


# -- charts ------------------------------------------------------------------------------------------------------------


def lines(
    series: Mapping[str, Sequence[Values]],
    *,
    xlabel: str,
    ylabel: str,
    alt: str,
    log: str = "",
    thresholds: Mapping[str, float] | None = None,
    xthresholds: Mapping[str, float] | None = None,
) -> Picture:
    """Up to seven lines, told apart by colour, marker and dash.

    series: name -> (x, y) or (x, y, spread); the spread is drawn as a band y ± spread, so say in the text what it is.
    x may be words, such as the names of float formats. NaN in y leaves a gap.
    log: the axes that are logarithmic: "", "x", "y" or "xy".
    thresholds, xthresholds: label -> y, or x, where a thin line is drawn across and labelled.
    Raises ValueError for lengths that differ, infinite values (an exact image's PSNR has no place on an axis: leave it
    out and say so), values that a log axis cannot show, more than seven lines or an empty alt.
    """
    if not 1 <= len(series) <= len(MARKERS):
        raise ValueError(f"series: got {len(series)} lines; give 1 to {len(MARKERS)}, as more cannot be told apart")
    figure, ax = _chart(xlabel, ylabel, log)
    shown: set[Any] = set()
    for (name, data), colour, marker, dash in zip(series.items(), COLOURS, MARKERS, DASHES, strict=False):
        x, y, *spread = (_numbers(name, values) for values in data)
        if len({len(x), len(y), *map(len, spread)}) != 1:
            raise ValueError(f"series: {name!r} has lengths {[len(v) for v in data]}; x, y and spread go together")
        _showable(name, x, "x" in log)
        _showable(name, y, "y" in log)
        every = max(1, len(x) // 12)  # markers identify a line; on a long one they would hide it
        ax.plot(x, y, color=colour, marker=marker, linestyle=dash, markevery=every, label=name)
        if spread:
            low = y - spread[0]
            floor = np.nanmin(y) / 10 if "y" in log else -np.inf  # a band may reach below zero, a log axis may not
            ax.fill_between(x, np.maximum(low, floor), y + spread[0], color=colour, alpha=0.18, linewidth=0)
        shown.update(x.tolist())
    _name_points(ax, shown, "x" in log)
    _thresholds(ax, thresholds or {}, xthresholds or {})
    if len(series) > 1:
        fit = 95 // (max(map(len, series)) + 7)  # columns of the legend: 95 letters or so fill the width
        figure.legend(loc="outside upper left", ncols=min(max(fit, 1), 4), handlelength=3.2, frameon=False)
    return _picture(figure, alt)


def spectrum(values: Mapping[str, Values], *, alt: str, cutoffs: Mapping[str, float] | None = None) -> Picture:
    """Singular values from the largest to the smallest, on a log axis.

    values: name -> singular values, in any order. Exact zeros have no place on a log axis; the legend counts them.
    cutoffs: label -> the size below which a solver ignores them.
    """
    series = {}
    for name, data in values.items():
        ordered = np.sort(_numbers(name, data))[::-1]
        kept = ordered[ordered > 0]
        zeros = f" ({len(ordered) - len(kept)} exact zeros not shown)" if len(kept) < len(ordered) else ""
        series[name + zeros] = (np.arange(1, len(kept) + 1), kept)
    return lines(series, xlabel="rank", ylabel="singular value", log="y", thresholds=cutoffs, alt=alt)


def dots(
    groups: Mapping[str, Values],
    *,
    xlabel: str,
    alt: str,
    published: Mapping[str, float] | None = None,
    log: bool = False,
) -> Picture:
    """Every repeat of every group as a dot on a row of its own, with a bar for the mean ± one standard deviation.

    groups: name -> its values, first name on top.  published: name -> the paper's number, drawn as an open diamond.
    log: whether the axis of the values is logarithmic.
    Raises ValueError for no values, NaN or infinite ones, a published name that is no group, or an empty alt.
    """
    published = published or {}
    if unknown := [name for name in published if name not in groups]:
        raise ValueError(f"published: there is no group {unknown[0]!r}; the groups are {list(groups)}")
    if not groups:
        raise ValueError("groups={} holds nothing to draw; give at least one group")
    figure, ax = _chart(xlabel, "", "x" if log else "", height=0.9 + 0.42 * len(groups))
    for row, (name, data) in enumerate(groups.items()):
        values = _numbers(name, data)
        if len(values) == 0 or np.isnan(values).any():
            raise ValueError(f"groups: {name!r} holds {'NaN' if len(values) else 'no values'}; give finite ones")
        _showable(name, values, log)
        mean, spread = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
        left = min(spread, 0.9 * mean) if log else spread  # a bar may reach below zero, a log axis may not
        names = ("one repeat", "mean ± std") if row == 0 else (None, None)
        ax.plot(values, np.full(len(values), row - 0.14), "o", color=COLOURS[0], alpha=0.55, label=names[0])
        ax.errorbar(mean, row + 0.14, xerr=[[left], [spread]], fmt="|", ms=10, lw=2, color="black", label=names[1])
    if published:
        rows = [list(groups).index(name) for name in published]
        ax.plot([*published.values()], rows, "D", ms=9, mfc="none", mec=COLOURS[1], mew=2, label="the paper")
    ax.set_yticks(range(len(groups)), [textwrap.fill(name, 34, break_long_words=False) for name in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    if not log:
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))  # few, as long names leave little room
    ax.grid(axis="y", visible=False)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    return _picture(figure, alt)


def scatter(points: Mapping[str, tuple[float, float]], *, xlabel: str, ylabel: str, alt: str, log: str = "") -> Picture:
    """A dot for each point, its name beside it.

    points: name -> (x, y); short names.  log: the axes that are logarithmic: "", "x", "y" or "xy".
    Raises ValueError for no points, values that an axis cannot show, or an empty alt.
    """
    if not points:
        raise ValueError("points={} holds nothing to draw; give at least one")
    figure, ax = _chart(xlabel, ylabel, log)
    for name, (x, y) in points.items():
        _showable(name, np.asarray([x]), "x" in log)
        _showable(name, np.asarray([y]), "y" in log)
        ax.plot(x, y, "o", color=COLOURS[0])
        ax.annotate(name, (x, y), (5, 4), textcoords="offset points", fontsize=10)
    return _picture(figure, alt)


def heat(
    matrix: Sequence[Sequence[float]] | np.ndarray | Tensor,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    xlabel: str,
    ylabel: str,
    unit: str,
    alt: str,
    digits: str = ".1f",
) -> Picture:
    """A table of numbers, shaded from dark for the smallest to light for the largest; each cell prints its number.

    matrix: (rows, columns). A NaN cell, for what was not measured, stays blank.
    unit: of the numbers, for the scale at the side.  digits: their format.
    Raises ValueError for a matrix that does not fit its rows and columns, infinite values or an empty alt.
    """
    values = np.asarray(matrix.detach().cpu() if isinstance(matrix, Tensor) else matrix, dtype=np.float64)
    height, width = len(rows), len(columns)
    if values.size == 0 or values.shape != (height, width):
        raise ValueError(f"matrix: got shape {values.shape} for {height} rows and {width} columns; match them")
    _showable("matrix", values, False)
    figure, ax = _chart(xlabel, ylabel, "", height=1.1 + 0.4 * len(rows))
    shades = ax.imshow(values, cmap="cividis", aspect="auto")
    middle = 0.54 * np.nanmin(values) + 0.46 * np.nanmax(values)  # where black and white read equally well on cividis
    for (row, column), value in np.ndenumerate(values):
        if not math.isnan(value):
            colour = "white" if value <= middle else "black"
            ax.text(column, row, f"{value:{digits}}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(columns)), list(columns))
    ax.set_yticks(range(len(rows)), list(rows))
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    figure.colorbar(shades, ax=ax, label=unit).outline.set_visible(False)
    return _picture(figure, alt)


# -- what they stand on ------------------------------------------------------------------------------------------------


def _chart(xlabel: str, ylabel: str, log: str, height: float = 3.4) -> tuple[Figure, Axes]:
    """An empty chart. It belongs to no window manager, so it is gone once its picture is taken."""
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log={log!r} names no axes; use '', 'x', 'y' or 'xy'")
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    ax = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    ax.set_xscale("log" if "x" in log else "linear")
    ax.set_yscale("log" if "y" in log else "linear")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4")
    ax.set_axisbelow(True)
    return figure, ax


def _name_points(ax: Axes, shown: set[Any], log: bool) -> None:
    """Ticks at the x values themselves, where they are few, short and stand apart; never between two whole numbers."""
    if any(isinstance(x, str) for x in shown):
        return
    ticks = np.array(sorted(shown))
    gaps = np.diff(np.log10(ticks) if log else ticks)
    words = [f"{x:g}" for x in ticks]
    if len(ticks) <= 8 and max(map(len, words)) <= 6 and (len(gaps) == 0 or gaps.min() >= gaps.sum() / 12):
        ax.set_xticks(ticks, words)
        ax.minorticks_off()
    elif not log and (ticks == ticks.round()).all():
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))


def _thresholds(ax: Axes, across: Mapping[str, float], upright: Mapping[str, float]) -> None:
    line: dict[str, Any] = {"color": "#555555", "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 1}
    text: dict[str, Any] = {"textcoords": "offset points", "zorder": 1.5, "bbox": PAPER}  # between grid and data
    for label, y in across.items():
        ax.axhline(y, **line)
        ax.annotate(label, (1, y), (0, 4), ax.get_yaxis_transform(), ha="right", **text)
    for label, x in upright.items():
        ax.axvline(x, **line)
        ax.annotate(label, (x, 1), (5, 0), ax.get_xaxis_transform(), va="top", **text)


def _numbers(name: str, values: Values | Sequence[str]) -> np.ndarray:
    """A column of float64 values, or of words as they are."""
    array = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name!r}: got shape {array.shape}; give a flat list of values")
    return array if array.dtype.kind == "U" else array.astype(np.float64)


def _showable(name: str, values: np.ndarray, log: bool) -> None:
    if values.dtype.kind == "U":
        return
    if np.isinf(values).any():
        raise ValueError(f"{name!r} holds an infinite value, which no axis can show; leave it out and say so")
    if log and (values <= 0).any():
        lost = values[values <= 0][0]
        raise ValueError(f"{name!r} holds {lost:.3g}, which a log axis cannot show; leave it out and say so")


def _fold(figure: Figure) -> bool:
    """Break the labels that are longer than their axis, as drawn, into lines that fit; whether there were any."""
    folded = False
    for ax in figure.axes:
        for label, side in ((ax.xaxis.label, "width"), (ax.yaxis.label, "height")):
            text, length, room = label.get_text(), getattr(label.get_window_extent(), side), getattr(ax.bbox, side)
            if length > room and len(text.split()) > 1:
                label.set_text(textwrap.fill(text, int(0.9 * len(text) * room / length) or 1, break_long_words=False))
                folded = True
    return folded


def _picture(figure: Figure, alt: str) -> Picture:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    if _fold(figure):
        canvas.draw()
    opaque = np.asarray(canvas.buffer_rgba())[..., :3]
    file = io.BytesIO()
    Image.fromarray(opaque).save(file, "PNG", compress_level=2)  # higher: twice the time for a tenth of the size
    return Picture(file.getvalue(), alt, round(figure.get_figwidth() * 96))
