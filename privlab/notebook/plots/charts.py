"""Charts of measured numbers: lines, dots, points on a plane, a table in shades; of membership inference: losses, ROC, one threshold."""

from __future__ import annotations

import html
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from privlab.metrics.roc import Curve
from privlab.metrics.tradeoff import front as pareto_front
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS, DASHES, LOOKS, Picture, Values

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
    """Lines that are told apart by colour, marker and dash.

    series: name -> (x, y) or (x, y, spread); the spread is drawn as a band y ± spread. x may be words. NaN in y leaves a gap.
    log: the axes that are logarithmic: "", "x", "y" or "xy".
    thresholds, xthresholds: label -> y, or x, where a thin line is drawn across and labelled.
    live: name of a line -> (x, y) of what the reader has just measured, drawn as large open triangles; yours: what the legend calls that.
    Raises ValueError for values that no axis can show, such as an exact image's infinite PSNR, or no log axis.
    """
    figure, ax = picture.empty_chart(xlabel, ylabel, log)
    for n, (name, (across, up, *spread)) in enumerate(series.items()):
        x, y = picture.column(name, across, "x" in log), picture.column(name, up, "y" in log)
        every = max(1, len(x) // 12)  # markers identify a line; on a long one they would hide it
        ax.plot(x, y, markevery=every, label=name, **LOOKS[n])
        for std in map(np.asarray, spread):
            ax.fill_between(x, y - std, y + std, color=LOOKS[n]["color"], alpha=0.18, linewidth=0)
        if live and name in live:
            ax.plot(*live[name], "^", ms=9, mfc="none", mec=LOOKS[n]["color"], mew=2)
    if live:  # of every line, so in no line's colour
        ax.plot([], [], "^", ms=9, mfc="none", mec="#555555", mew=2, label=yours)
    if "x" in log:
        picture.plain_decades(ax.xaxis)
    elif x.dtype.kind == "f" and (x % 1 == 0).all():  # no tick between two whole numbers
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    picture.draw_thresholds(ax, thresholds or {}, xthresholds or {})
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
    """
    live, published = live or {}, published or {}
    figure, ax = picture.empty_chart(xlabel, "", "x" * log, height=1.1 + (0.52 if live else 0.44) * len(groups))
    up, down = (0.24, -0.02) if live else (0.14, 0.14)
    scaled, back = (np.log, np.exp) if log else (np.asarray, np.asarray)
    bar: dict[str, Any] = {"fmt": "|", "ms": 10, "mew": 2.5, "elinewidth": 2, "color": COLOURS[0]}
    for row, (name, values) in enumerate(groups.items()):
        if len(values):
            x = picture.column(name, values, log)
            middle, std = scaled(x).mean(), scaled(x).std(ddof=1) if len(x) > 1 else 0.0
            low, mean, high = back(middle + std * np.array([-1, 0, 1]))
            ax.plot(x, [row - up] * len(x), "o", color=COLOURS[0], alpha=0.5, mew=0, label=each)
            about = "geometric mean and std" if log else "mean ± std"
            ax.errorbar(mean, row + down, xerr=[[mean - low], [high - mean]], label=about, **bar)
        for mine in picture.column(name, live.get(name, ()), log):
            ax.plot(mine, row + 0.26 * bool(len(values)), "^", ms=10, color="black", mec="white", label=yours)
        if name in published:
            ax.plot(published[name], row, "D", ms=9, mfc="none", mec=COLOURS[1], mew=2, label="the paper")
    ax.set_yticks(range(len(groups)), [textwrap.fill(name, 24, break_long_words=False) for name in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    if log:
        picture.plain_decades(ax.xaxis)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # few, as long names leave little room
    ax.grid(axis="y", visible=False)
    picture.draw_thresholds(ax, {}, xthresholds or {})
    picture.legend_above(figure, handlelength=1.5)
    return picture.render(figure, alt)


def scatter(groups: Mapping[str, Values], *, xlabel: str, ylabel: str, alt: str, front: Sequence[str] = ()) -> Picture:
    """Dots on a plane, up to fourteen groups told apart by colour and marker.

    groups: name -> (n, 2), or (2,) for a single dot.  Without labels the axes have no numbers.
    front: names; if given, a large mark stands at the mean of each group, and a dashed line joins those of these names.
    """
    figure, ax = picture.empty_chart(xlabel, ylabel, height=4.2)
    points = {name: picture.column(name, values).reshape(-1, 2) for name, values in groups.items()}
    for n, (name, of) in enumerate(points.items()):
        look = LOOKS[n] | {"linestyle": "none"}
        ax.plot(*of.T, ms=4 if front else 6, alpha=0.45 if front else 0.75, **look)
        ax.plot(*(of.mean(0)[:, None] if front else [[], []]), ms=10, label=name, **look)
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
    """
    means = {name: (float(np.mean(of, 0)[0]), float(np.mean(of, 0)[1])) for name, of in points.items()}
    best = pareto_front(means)
    chart = scatter(points, xlabel="task accuracy (%)", ylabel=ylabel, alt=alt, front=best)
    words = {
        name: f"{name}: task {x:.1f}, attack {y:.1f}{', on the front' * (name in best)}"
        for name, (x, y) in means.items()
    }
    folded, opens = "", " open"
    for name, card in (cards or {}).items():
        folded += f'<details name="{html.escape(alt)}"{opens}><summary>{html.escape(words[name])}</summary>{card.html}</details>'
        opens = ""
    return Picture(chart.html + folded, f"{alt} {'; '.join(words.values())}")


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
    words: (rows, columns), to be read in place of the numbers.  ends: vmin and vmax of the shades, if these are others.
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


def histogram(groups: Mapping[str, Values], *, xlabel: str, alt: str) -> Picture:
    """How the values of two groups are spread on a log axis, one outline over the other: members' losses and non-members', say.

    groups: name -> values above 0, of any number: a height is a share of the group. All have the same 40 bins, equally wide on the axis.
    Source: Zhang et al. 2024, figure 12.
    """
    import seaborn  # not at the top: it brings scipy.stats, a second

    figure, ax = picture.empty_chart(xlabel, "share of the group", "x")
    columns = {f"{name} ({len(values):,})": picture.column(name, values, True) for name, values in groups.items()}
    every = np.concatenate([*columns.values()])
    edges = np.linspace(np.log10(every.min()), np.log10(every.max()), 41)  # seaborn counts on the axis, which has logs
    looks = zip(columns.items(), COLOURS[1::-1], DASHES, ("//", "\\\\"), strict=False)
    for (name, values), colour, dash, hatch in looks:
        outline: dict[str, Any] = {"edgecolor": colour, "linestyle": dash, "linewidth": 1.8, "hatch": hatch}
        shares = {"stat": "proportion", "bins": [*edges], "element": "step", "label": name, "ax": ax}
        seaborn.histplot(x=values, facecolor=(colour, 0.16), **shares, **outline)
    picture.plain_decades(ax.xaxis)
    picture.legend_above(figure)
    return picture.render(figure, alt)


def roc(curves: Mapping[str, Sequence[Curve]], *, alt: str, mark: Sequence[float] = (0.001, 0.01)) -> Picture:
    """ROC curves on two log axes, where the false positive rates that matter take up half of the width.

    curves: name -> one curve a target or seed; several are thin lines.  mark: FPRs where a dotted line stands, if they lie on the axis.
    A curve starts at the lowest FPR that it resolves, one false positive: left of it nothing was measured, and left of all of them
    the axis ends. A TPR of zero has no place on a log axis, so a curve that starts there comes up from below.
    Source: Carlini et al. 2022; Zhang et al. 2024, figure 2.
    """
    left = min(0.1, *(one.fpr[one.fpr > 0][0] for several in curves.values() for one in several))  # .1: always an axis
    figure, ax = picture.empty_chart("false positive rate", "true positive rate", "xy", height=4.8)
    ax.plot([left, 1], [left, 1], color="#777777", linewidth=1, zorder=1, label="chance")
    for n, (name, several) in enumerate(curves.items()):
        label, width = (name, 1.8) if len(several) == 1 else (f"{name} ({len(several)} curves)", 0.9)
        for one in several:
            seen = (one.fpr > 0) & (np.diff(one.fpr, append=2) > 0)  # the best TPR of each FPR
            ax.step(
                one.fpr[seen],
                one.tpr[seen],
                where="post",
                **LOOKS[n] | {"marker": "", "linewidth": width, "label": label},
            )
    ax.set(xlim=(left, 1), ylim=(left, 1))
    for axis in (ax.xaxis, ax.yaxis):
        picture.plain_decades(axis, lambda rate, _: f"{100 * rate:.12g}%")
    picture.draw_thresholds(ax, {}, {f"FPR {100 * rate:g}%": rate for rate in mark if rate >= left})
    picture.legend_above(figure)
    return picture.render(figure, alt)


def confusion(tp: int, fn: int, fp: int, tn: int, *, alt: str) -> Picture:
    """What one threshold makes of members and non-members: four counts, each with its share of the row, shaded by it.

    tp, fn: members that the attack calls members, and non-members.  fp, tn: the same of non-members. There are some of both.
    """
    table, rates = np.array([[tp, fn], [fp, tn]]), [["TPR", "FNR"], ["FPR", "TNR"]]
    of = table.sum(1)
    shares = table / of[:, None]
    return heat(
        shares,
        words=[[f"{table[i, j]:,}\n{rates[i][j]} {100 * shares[i, j]:.3g}%" for j in (0, 1)] for i in (0, 1)],
        rows=[f"{of[0]:,} members", f"{of[1]:,} non-members"],
        columns=["called a member", "called a non-member"],
        xlabel="", ylabel="", unit=f"balanced accuracy {shares.trace() / 2:.3f}", alt=alt, vmin=0, vmax=1,
    )  # fmt: skip
