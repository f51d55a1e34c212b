"""Charts of measured numbers: lines, singular values, every repeat as a dot, points on a plane, and a table in shades."""

from __future__ import annotations

import html
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from privlab.metrics.tradeoff import front as pareto_front
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
        picture.legend_above(figure)
    return picture.render(figure, alt)


def spectrum(values: Mapping[str, Values], *, alt: str, cutoffs: Mapping[str, float] | None = None) -> Picture:
    """Singular values on a log axis, where exact zeros have no place: the legend counts them.

    values: name -> singular values, from the largest to the smallest.  cutoffs: label -> the size below which a solver ignores them.
    """
    series = {}
    for name, data in values.items():
        ordered = picture.column(name, data)
        count = np.count_nonzero(ordered)
        zeros = f" ({len(ordered) - count} exact zeros not shown)" if count < len(ordered) else ""
        series[name + zeros] = (np.arange(1, count + 1), ordered[:count])
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


def scatter(
    groups: Mapping[str, Values], *, xlabel: str, ylabel: str, alt: str, front: Sequence[str] | None = None
) -> Picture:
    """Dots on a plane, up to fourteen groups told apart by colour and marker.

    groups: name -> (n, 2), or (2,) for a single dot.  Without labels the axes have no numbers.
    front: names; if given, a large mark stands at the mean of each group, and a dashed line joins those of these names.
    Raises ValueError for more than fourteen groups, infinite values, or an empty alt.
    """
    picture.check_few("groups", groups, 2 * len(COLOURS))
    figure, ax = picture.empty_chart(xlabel, ylabel, "", height=4.2)
    points = {name: picture.column(name, values).reshape(-1, 2) for name, values in groups.items()}
    for number, (name, of) in enumerate(points.items()):
        again, n = divmod(number, len(COLOURS))  # the second seven are open, and pair colours with other markers
        look: dict[str, Any] = {"marker": MARKERS[(n + again) % len(MARKERS)], "color": COLOURS[n], "linestyle": "none"}
        look["mfc"] = "white" if again else COLOURS[n]
        ax.plot(*of.T, ms=6 if front is None else 4, alpha=0.75 if front is None else 0.45, **look)
        ax.plot(*(of.mean(0)[:, None] if front is not None else [[], []]), ms=10, label=name, **look)
    if front:
        ax.plot(*np.array([points[name].mean(0) for name in front]).T, "--", color="#555555", linewidth=1, zorder=0)
    if not xlabel:
        ax.set(xticks=[], yticks=[])
    picture.legend_above(figure, handlelength=1.5)
    return picture.render(figure, alt)


def tradeoff_chart(
    points: Mapping[str, Values],
    cards: Mapping[str, Picture] | None = None,
    *,
    alt: str,
    ylabel: str = "attack accuracy (%)",
) -> Picture:
    """Each defence where its mean lies, its draws as small marks, and a line through those that no other beats in both.

    points: name -> (draws, 2), task accuracy and attack accuracy of each draw, in percent; up to fourteen.
    cards: name -> what to show of it below the chart, such as the reconstructions, of which one at a time is unfolded.
    Raises ValueError for more than fourteen, or an empty alt.
    """
    means = {name: (float(np.mean(of, 0)[0]), float(np.mean(of, 0)[1])) for name, of in points.items()}
    best = pareto_front(means)
    chart = scatter(points, xlabel="task accuracy (%)", ylabel=ylabel, alt=alt, front=best)
    words = {
        name: f"{name}: task {x:.1f}, attack {y:.1f}{', on the front' * (name in best)}"
        for name, (x, y) in means.items()
    }
    folded = [
        f'<details name="{html.escape(alt)}"{" open" * (n == 0)}><summary>{html.escape(words[name])}</summary>{card.html}</details>'
        for n, (name, card) in enumerate((cards or {}).items())
    ]
    return Picture(chart.html + "".join(folded), f"{alt} {'; '.join(words.values())}")


def heat(
    matrix: Sequence[Sequence[float]] | Values,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    xlabel: str,
    ylabel: str,
    unit: str,
    alt: str,
    words: Sequence[Sequence[str]] | None = None,
    **ends: float,
) -> Picture:
    """A table of numbers with one decimal, shaded from dark for the smallest to light for the largest.

    matrix: (rows, columns). A NaN cell, for what was not measured, stays blank.  unit: of the numbers, which stands above them.
    words: (rows, columns), to be read in place of the numbers.
    ends: vmin and vmax of the shades, if these are not the smallest and the largest number.
    Raises ValueError for infinite values or an empty alt.
    """
    import pandas as pd  # not at the top: it takes a second

    names = {"index": pd.Index(rows, name=ylabel or None), "columns": pd.Index(columns, name=xlabel or None)}
    values = pd.DataFrame(picture.column("matrix", matrix), **names)  # type: ignore[arg-type]
    table = values.style if words is None else pd.DataFrame(words, **names).style
    table.background_gradient("cividis", axis=None, gmap=values, text_color_threshold=0.18, **ends)
    table.format(precision=1, na_rep="").highlight_null(props="background-color:transparent")
    look = "text-align:center;padding:.3em .4em;white-space:pre-line"
    table.set_caption(unit).set_table_styles([{"selector": "*", "props": look}])
    table.set_uuid(f"{zlib.crc32(alt.encode())}")  # the same each time, and another for each table of a page
    markup = table.to_html().replace("#f1f1f1", "#ffffff")  # pandas' light grey cannot be read on the middle shades
    scrolled = f'role="group" aria-label="{html.escape(alt)}" tabindex="0" style="overflow-x:auto"'
    return Picture(f"<div {scrolled}>{markup}</div>", alt)


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
