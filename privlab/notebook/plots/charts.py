"""Charts of measured numbers: lines, singular values, every repeat as a dot, named points, and a table in shades."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS, DASHES, MARKERS, Picture, Values

YOURS = "your run"


def lines(
    series: Mapping[str, Sequence[Values]],
    *,
    xlabel: str,
    ylabel: str,
    alt: str,
    log: str = "",
    thresholds: Mapping[str, float] | None = None,
    xthresholds: Mapping[str, float] | None = None,
    live: Mapping[str, Sequence[Values]] | None = None,
    yours: str = YOURS,
) -> Picture:
    """Up to seven lines, told apart by colour, marker and dash.

    series: name -> (x, y) or (x, y, spread); the spread is drawn as a band y ± spread, so say in the text what it is.
    x may be words, such as the names of float formats. NaN in y leaves a gap.
    log: the axes that are logarithmic: "", "x", "y" or "xy".
    thresholds, xthresholds: label -> y, or x, where a thin line is drawn across and labelled.
    live: name of a line -> (x, y) of what the reader has just measured, drawn as large open triangles in its colour.
    yours: what the legend calls that.
    Raises ValueError for more than seven lines, infinite values (an exact image's PSNR has no place on an axis: leave it out and say so),
    values that a log axis cannot show, or an empty alt.
    """
    picture.check_few("series", series)
    figure, ax = picture.empty_chart(xlabel, ylabel, log)
    for (name, data), colour, marker, dash in zip(series.items(), COLOURS, MARKERS, DASHES, strict=False):
        x, y = picture.column(name, data[0], "x" in log), picture.column(name, data[1], "y" in log)
        every = max(1, len(x) // 12)  # markers identify a line; on a long one they would hide it
        ax.plot(x, y, color=colour, marker=marker, linestyle=dash, markevery=every, label=name)
        for spread in data[2:]:
            ax.fill_between(x, y - np.asarray(spread), y + np.asarray(spread), color=colour, alpha=0.18, linewidth=0)
        if live and name in live:
            mine = [picture.column(name, values) for values in live[name]]
            ax.plot(*mine, "^", ms=9, mfc="none", mec=colour, mew=2)
    if live:  # of every line, so in no line's colour
        ax.plot([], [], "^", ms=9, mfc="none", mec="#555555", mew=2, label=yours)
    if x.dtype.kind == "f":
        _name_points(ax, np.unique(np.concatenate([line.get_xdata() for line in ax.lines])), "x" in log)
    picture.draw_thresholds(ax, thresholds or {}, xthresholds or {})
    if len(series) > 1 or live:
        picture.legend_above(figure, most=4)
    return picture.render(figure, alt)


def spectrum(values: Mapping[str, Values], *, alt: str, cutoffs: Mapping[str, float] | None = None) -> Picture:
    """Singular values from the largest to the smallest, on a log axis.

    values: name -> singular values, in any order. Exact zeros have no place on a log axis; the legend counts them.
    cutoffs: label -> the size below which a solver ignores them.
    """
    series = {}
    for name, data in values.items():
        ordered = np.sort(picture.column(name, data))[::-1]
        positive = ordered[ordered > 0]
        zeros = f" ({len(ordered) - len(positive)} exact zeros not shown)" if len(positive) < len(ordered) else ""
        series[name + zeros] = (np.arange(1, len(positive) + 1), positive)
    return lines(
        series, xlabel="number, from the largest", ylabel="singular value", log="y", thresholds=cutoffs, alt=alt
    )


def dots(
    groups: Mapping[str, Values],
    *,
    xlabel: str,
    alt: str,
    published: Mapping[str, float] | None = None,
    live: Mapping[str, Values] | None = None,
    xthresholds: Mapping[str, float] | None = None,
    log: bool = False,
    each: str = "one repeat",
    yours: str = YOURS,
) -> Picture:
    """Every repeat of every group as a dot on a row of its own, with a bar for the mean ± one standard deviation.

    groups: name -> its values, first name on top.  published: name -> the paper's number, drawn as an open diamond.
    live: name -> what the reader has just measured, drawn as black triangles below the dots; a group that has some may be without others.
    xthresholds: label -> x, where a thin line is drawn upright and labelled.  each, yours: what the legend calls dots and triangles.
    log: whether the axis of the values is logarithmic; mean and deviation are then those of the logarithms.
    Raises ValueError for infinite values, those that a log axis cannot show, or an empty alt.
    """
    row = {name: number for number, name in enumerate(groups)}
    figure, ax = picture.empty_chart(xlabel, "", "x" if log else "", height=1.1 + (0.52 if live else 0.44) * len(row))
    columns = {name: picture.column(name, values, log) for name, values in groups.items() if len(values)}
    if columns:
        up, down = (0.24, -0.02) if live else (0.14, 0.14)
        places = np.array([row[name] for name, values in columns.items() for _ in values])
        ax.plot(np.concatenate([*columns.values()]), places - up, "o", color=COLOURS[0], alpha=0.5, mew=0, label=each)
        low, mean, high = np.array([_mean_and_std(values, log) for values in columns.values()]).T
        ax.errorbar(
            mean, np.array([row[name] for name in columns]) + down, xerr=[mean - low, high - mean], fmt="|", ms=10, mew=2.5,
            elinewidth=2, color=COLOURS[0], label="geometric mean and std" if log else "mean ± std",
        )  # fmt: skip
    if live:
        x, y = np.array([(x, row[name]) for name, values in live.items() for x in picture.column(name, values, log)]).T
        ax.plot(x, y + 0.26 * bool(columns), "^", ms=10, color="black", markeredgecolor="white", label=yours)
    if published:
        beside = [row[name] for name in published]
        ax.plot([*published.values()], beside, "D", ms=9, mfc="none", mec=COLOURS[1], mew=2, label="the paper")
    ax.set_yticks(range(len(row)), [textwrap.fill(name, 24, break_long_words=False) for name in row])
    ax.set_ylim(len(row) - 0.5, -0.5)
    if log:
        picture.plain_decades(ax.xaxis)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # few, as long names leave little room
    ax.grid(axis="y", visible=False)
    picture.draw_thresholds(ax, {}, xthresholds or {})
    picture.legend_above(figure, handlelength=1.5)
    return picture.render(figure, alt)


def scatter(points: Mapping[str, tuple[float, float]], *, xlabel: str, ylabel: str, alt: str) -> Picture:
    """A dot for each point, its name beside it.

    points: name -> (x, y); short names.
    Raises ValueError for infinite values, or an empty alt.
    """
    figure, ax = picture.empty_chart(xlabel, ylabel, "")
    for name, point in points.items():
        ax.plot(*picture.column(name, point), "o", color=COLOURS[0])
        ax.annotate(name, point, (5, 4), textcoords="offset points", fontsize=10)
    return picture.render(figure, alt)


def heat(
    matrix: Sequence[Sequence[float]] | Values,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    xlabel: str,
    ylabel: str,
    unit: str,
    alt: str,
) -> Picture:
    """A table of numbers, shaded from dark for the smallest to light for the largest; each cell prints its number, with one decimal.

    matrix: (rows, columns). A NaN cell, for what was not measured, stays blank.
    unit: of the numbers, which stands above them.
    Raises ValueError for infinite values or an empty alt.
    """
    import seaborn  # not at the top: it brings pandas and scipy.stats, two seconds

    values = picture.column("matrix", matrix)  # type: ignore[arg-type]
    figure, ax = picture.empty_chart("", "", "", height=1.5 + 0.4 * len(rows))
    ax.grid(visible=False)
    across = [textwrap.fill(name, 44 // len(columns), break_long_words=False) for name in columns]
    down = [textwrap.fill(name, 24, break_long_words=False) for name in rows]
    seaborn.heatmap(
        values, annot=True, fmt=".1f", cmap="cividis", cbar=False, xticklabels=across, yticklabels=down, ax=ax
    )
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_title(unit, loc="left", fontsize=10)
    ax.tick_params(length=0, labelrotation=0)
    shades = np.asarray(ax.collections[0].norm(values[~np.isnan(values)]))  # from 0, the darkest, to 1
    for number, shade in zip(ax.texts, shades, strict=True):
        number.set_color("white" if shade <= 0.46 else "black")  # there both read equally well on cividis
    return picture.render(figure, alt)


def _mean_and_std(values: np.ndarray, log: bool) -> np.ndarray:
    """The mean less a standard deviation, the mean, and the mean plus one; of the logarithms on a log axis."""
    scaled = np.log(values) if log else values
    std = scaled.std(ddof=1) if len(values) > 1 else 0.0
    three = scaled.mean() + std * np.array([-1, 0, 1])
    return np.exp(three) if log else three


def _name_points(ax: Axes, ticks: np.ndarray, log: bool) -> None:
    """Ticks at the x values themselves, where they are few, short and stand apart; never between two whole numbers."""
    gaps = np.diff(np.log10(ticks) if log else ticks)
    words = [f"{x:g}" for x in ticks]
    if len(ticks) <= 8 and max(map(len, words)) <= 6 and (gaps >= gaps.sum() / 12).all():
        ax.set_xticks(ticks, words)
        ax.minorticks_off()
    elif log:
        picture.plain_decades(ax.xaxis)
    elif (ticks % 1 == 0).all():
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
