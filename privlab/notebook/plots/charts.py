"""Charts of measured numbers: lines, singular values, every repeat as a dot, named points, and a table in shades."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from torch import Tensor

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
    Raises ValueError for lengths that differ, infinite values (an exact image's PSNR has no place on an axis: leave it
    out and say so), values that a log axis cannot show, more than seven lines or an empty alt.
    """
    if not 1 <= len(series) <= len(MARKERS):
        raise ValueError(f"series: got {len(series)} lines; give 1 to {len(MARKERS)}, as more cannot be told apart")
    figure, ax = picture.empty_chart(xlabel, ylabel, log)
    positions: set[Any] = set()
    for (name, data), colour, marker, dash in zip(series.items(), COLOURS, MARKERS, DASHES, strict=False):
        x, y, *spread = (picture.numbers(name, values) for values in data)
        if len({len(x), len(y), *map(len, spread)}) != 1:
            raise ValueError(f"series: {name!r} has lengths {[len(v) for v in data]}; x, y and spread go together")
        picture.check_showable(name, x, "x" in log)
        picture.check_showable(name, y, "y" in log)
        every = max(1, len(x) // 12)  # markers identify a line; on a long one they would hide it
        ax.plot(x, y, color=colour, marker=marker, linestyle=dash, markevery=every, label=name)
        if spread:
            low = y - spread[0]
            floor = np.nanmin(y) / 10 if "y" in log else -np.inf  # a band may reach below zero, a log axis may not
            ax.fill_between(x, np.maximum(low, floor), y + spread[0], color=colour, alpha=0.18, linewidth=0)
        if live and name in live:
            mine = [picture.numbers(name, values) for values in live[name]]
            picture.check_showable(name, mine[1], "y" in log)
            ax.plot(*mine, "^", ms=9, mfc="none", mec=colour, mew=2)
        positions.update(x.tolist())
    if live:
        ax.plot(
            [], [], "^", ms=9, mfc="none", mec="#555555", mew=2, label=yours
        )  # of every line, so in no line's colour
    _name_points(ax, positions, "x" in log)
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
        ordered = np.sort(picture.numbers(name, data))[::-1]
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
    Raises ValueError for no values, NaN or infinite ones, a published name that is no group, or an empty alt.
    """
    import seaborn  # not at the top: it brings pandas and scipy.stats, two seconds

    published, live = published or {}, live or {}
    for argument, names in (("published", published), ("live", live)):
        if unknown := [name for name in names if name not in groups]:
            raise ValueError(f"{argument}: there is no group {unknown[0]!r}; the groups are {list(groups)}")
    if not groups:
        raise ValueError("groups={} holds nothing to draw; give at least one group")
    figure, ax = picture.empty_chart(
        xlabel, "", "x" if log else "", height=1.1 + (0.52 if live else 0.44) * len(groups)
    )
    there = {name: values for name, values in groups.items() if len(values) or name not in live}
    columns = picture.columns("groups", there, log)
    row = {name: number for number, name in enumerate(groups)}
    values = np.concatenate([np.array([]), *columns.values()])
    rows = np.array([row[name] for name, column in columns.items() for _ in column])
    bar: dict[str, Any] = {"marker": "|", "markersize": 10, "markeredgecolor": COLOURS[0], "markeredgewidth": 2.5}
    bar |= {"color": COLOURS[0], "linestyle": "none", "err_style": "bars", "err_kws": {"linewidth": 2}, "legend": False}
    label = "geometric mean and std" if log else "mean ± std"
    # lineplot, as with pointplot matplotlib 3.11 keeps every figure alive
    if len(values):
        up, down = (0.24, -0.02) if live else (0.14, 0.14)
        ax.plot(values, rows - up, "o", color=COLOURS[0], alpha=0.5, markeredgewidth=0, label=each)
        seaborn.lineplot(x=values, y=rows + down, orient="y", errorbar="sd", label=label, ax=ax, **bar)
    if live:
        mine = [(x, row[name]) for name, column in picture.columns("live", live, log).items() for x in column]
        x, y = np.array(mine).T
        ax.plot(x, y + 0.26 * bool(len(values)), "^", ms=10, color="black", markeredgecolor="white", label=yours)
    if published:
        beside = [row[name] for name in published]
        ax.plot([*published.values()], beside, "D", ms=9, mfc="none", mec=COLOURS[1], mew=2, label="the paper")
    ax.set_yticks(range(len(groups)), [textwrap.fill(name, 24, break_long_words=False) for name in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    if not log:
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # few, as long names leave little room
    elif ax.get_xlim()[0] > 1e-4 and ax.get_xlim()[1] < 1e5:
        ax.xaxis.set_major_formatter("{x:g}")  # 0.01, which everybody reads
        decades = np.ptp(np.log10(ax.get_xlim()))
        subs = range(1, 10) if decades < 0.6 else (1, 2, 5) if decades < 1.5 else (1,)
        ax.xaxis.set_major_locator(LogLocator(subs=subs))
        ax.xaxis.set_minor_formatter(NullFormatter())  # it would name 3, 4 and 6 of a decade, over each other
    ax.grid(axis="y", visible=False)
    picture.draw_thresholds(ax, {}, xthresholds or {})
    picture.legend_above(figure, handlelength=1.5)
    return picture.render(figure, alt)


def scatter(points: Mapping[str, tuple[float, float]], *, xlabel: str, ylabel: str, alt: str) -> Picture:
    """A dot for each point, its name beside it.

    points: name -> (x, y); short names.
    Raises ValueError for no points, infinite values, or an empty alt.
    """
    if not points:
        raise ValueError("points={} holds nothing to draw; give at least one")
    figure, ax = picture.empty_chart(xlabel, ylabel, "")
    for name, (x, y) in points.items():
        picture.check_showable(name, np.asarray([x, y]), False)
        ax.plot(x, y, "o", color=COLOURS[0])
        ax.annotate(name, (x, y), (5, 4), textcoords="offset points", fontsize=10)
    return picture.render(figure, alt)


def heat(
    matrix: Sequence[Sequence[float]] | np.ndarray | Tensor,
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
    Raises ValueError for a matrix that does not fit its rows and columns, infinite values or an empty alt.
    """
    import seaborn

    values = np.asarray(matrix.detach().cpu() if isinstance(matrix, Tensor) else matrix, dtype=np.float64)
    height, width = len(rows), len(columns)
    if values.size == 0 or values.shape != (height, width):
        raise ValueError(f"matrix: got shape {values.shape} for {height} rows and {width} columns; match them")
    picture.check_showable("matrix", values, False)
    figure, ax = picture.empty_chart(xlabel, ylabel, "", height=1.5 + 0.4 * len(rows))
    ax.grid(visible=False)
    across, down = (
        [textwrap.fill(name, room, break_long_words=False) for name in names]
        for names, room in ((columns, 44 // width), (rows, 24))
    )
    labels: dict[str, Any] = {"xticklabels": across, "yticklabels": down, "cbar": False}  # each cell has its number
    seaborn.heatmap(values, annot=True, fmt=".1f", cmap="cividis", ax=ax, **labels)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_title(unit, loc="left", fontsize=10)
    ax.tick_params(length=0, labelrotation=0)
    shades = np.asarray(ax.collections[0].norm(values[~np.isnan(values)]))  # from 0, the darkest, to 1
    for number, shade in zip(ax.texts, shades, strict=True):
        number.set_color("white" if shade <= 0.46 else "black")  # there both read equally well on cividis
    return picture.render(figure, alt)


def _name_points(ax: Axes, positions: set[Any], log: bool) -> None:
    """Ticks at the x values themselves, where they are few, short and stand apart; never between two whole numbers."""
    if any(isinstance(x, str) for x in positions):
        return
    ticks = np.array(sorted(positions))
    gaps = np.diff(np.log10(ticks) if log else ticks)
    words = [f"{x:g}" for x in ticks]
    if len(ticks) <= 8 and max(map(len, words)) <= 6 and (len(gaps) == 0 or gaps.min() >= gaps.sum() / 12):
        ax.set_xticks(ticks, words)
        ax.minorticks_off()
    elif not log and (ticks == ticks.round()).all():
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
