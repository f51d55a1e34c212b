"""Charts of measured numbers: lines, dots, points on a plane, a table in shades, ROC curves. Others a lab draws itself, on a `chart`.

Charts of evidence have the committed repeats, the paper's number, and the reader's own dots in one picture.
"""

import html
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from privlab import ledger
from privlab.experiments.loading import Evidence
from privlab.metrics.roc import Curve
from privlab.metrics.tradeoff import front as pareto_front
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS, LOOKS, Picture, Values

YOURS = "your run"
NOTHING = ", and nothing was measured live: there is nothing to draw"


def lines(
    series: Mapping[str, Sequence[Values]], *, xlabel: str, ylabel: str, alt: str, log: str = "",
    thresholds: Mapping[str, float] = {}, xthresholds: Mapping[str, float] = {},
    live: Mapping[str, Sequence[Values]] = {}, yours: str = YOURS,
) -> Picture:  # fmt: skip
    """Lines that are told apart by colour, marker and dash.

    series: name -> (x, y) or (x, y, spread); the spread is drawn as a band y ± spread. x may be words. NaN in y leaves a gap.
    log: the axes that are logarithmic: "", "x", "y" or "xy".
    thresholds, xthresholds: label -> y, or x, where a thin line is drawn across and labelled.
    live: name of a line -> (x, y) of what the reader has just measured, drawn as large open triangles; yours: what the legend calls that.
    Raises ValueError for values that no axis can show, such as an exact image's infinite PSNR, or no log axis.
    """
    figure, ax = picture.chart(xlabel, ylabel, log)
    for n, (name, (across, up, *spread)) in enumerate(series.items()):
        x, y = picture.column(name, across, "x" in log), picture.column(name, up, "y" in log)
        every = max(1, len(x) // 12)  # markers identify a line; on a long one they would hide it
        ax.plot(x, y, markevery=every, label=name, **LOOKS[n])
        for std in map(np.asarray, spread):
            ax.fill_between(x, y - std, y + std, color=LOOKS[n]["color"], alpha=0.18, linewidth=0)
        if name in live:
            ax.plot(*live[name], "^", ms=9, mfc="none", mec=LOOKS[n]["color"], mew=2)
    if series.keys() & live.keys():  # of every line, so in no line's colour
        ax.plot([], [], "^", ms=9, mfc="none", mec="#555555", mew=2, label=yours)
    if "x" not in log and x.dtype.kind == "f" and (x % 1 == 0).all():  # no tick between two whole numbers
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    picture.thresholds(ax, thresholds, xthresholds)
    return picture.render(figure, alt)


def dots(
    groups: Mapping[str, Values], *, xlabel: str, alt: str, published: Mapping[str, float] = {},
    live: Mapping[str, Values] = {}, xthresholds: Mapping[str, float] = {}, log: bool = False,
    each: str = "one repeat", yours: str = YOURS,
) -> Picture:  # fmt: skip
    """Every repeat of every group as a dot on a row of its own, with a bar for the mean ± one standard deviation.

    groups: name -> its values, first name on top.  published: name -> the paper's number, drawn as an open diamond.
    live: name -> what the reader has just measured, drawn as black triangles below the dots; a group that has some may be without others.
    xthresholds: label -> x, where a thin line is drawn upright and labelled.  each, yours: what the legend calls dots and triangles.
    log: whether the axis of the values is logarithmic; mean and deviation are then those of the logarithms.
    """
    figure, ax = picture.chart(xlabel, "", "x" * log, height=1.1 + (0.52 if live else 0.44) * len(groups))
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
    if not log:
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # few, as long names leave little room
    ax.grid(axis="y", visible=False)
    picture.thresholds(ax, {}, xthresholds)
    return picture.render(figure, alt, sample=1.5)


def scatter(groups: Mapping[str, Values], *, xlabel: str, ylabel: str, alt: str, front: bool = False) -> Picture:
    """Dots on a plane, up to fourteen groups told apart by colour and marker.

    groups: name -> (n, 2), or (2,) for a single dot.  Without labels the axes have no numbers.
    front: whether a large mark stands at the mean of each group, and a dashed line joins those that no other beats, further to the
        right and further down: the Pareto front, whose names are told to a listener, too.
    """
    figure, ax = picture.chart(xlabel, ylabel, height=4.2)
    points = {name: picture.column(name, values).reshape(-1, 2) for name, values in groups.items()}
    for n, (name, of) in enumerate(points.items()):
        look = LOOKS[n] | {"linestyle": "none"}
        ax.plot(*of.T, ms=4 if front else 6, alpha=0.45 if front else 0.75, **look)
        ax.plot(*(of.mean(0)[:, None] if front else [[], []]), ms=10, label=name, **look)
    if front:
        means = {name: tuple(of.mean(0).tolist()) for name, of in points.items()}
        best = pareto_front(means)
        ax.plot(*zip(*map(means.get, best), strict=True), "--", color="#555555", linewidth=1, zorder=0)
        alt = f"{alt} On the front: {', '.join(best)}."
    if not xlabel:
        ax.set(xticks=[], yticks=[])
    return picture.render(figure, alt, sample=1.5)


def heat(
    matrix: Values, *, rows: Sequence[str], columns: Sequence[str], xlabel: str = "", ylabel: str = "",
    unit: str, alt: str,
) -> Picture:  # fmt: skip
    """A table of numbers with one decimal, shaded from dark for the smallest to light for the largest.

    matrix: (rows, columns). A NaN cell, for what was not measured, stays blank.  unit: of the numbers, which stands above them.
    """
    import pandas as pd  # not at the top: it takes a second

    index, across = pd.Index(rows, name=ylabel or None), pd.Index(columns, name=xlabel or None)
    table = pd.DataFrame(picture.column("matrix", matrix), index, across).style
    table.background_gradient("cividis", axis=None, text_color_threshold=0.18)
    table.format(precision=1, na_rep="").highlight_null(props="background-color:transparent")
    look = "text-align:center;padding:.3em .4em;white-space:pre-line"
    table.set_caption(unit).set_table_styles([{"selector": "*", "props": look}])
    table.set_uuid(f"{zlib.crc32(alt.encode())}")  # the same each time, and another for each table of a page
    markup = table.to_html().replace("#f1f1f1", "#ffffff")  # pandas' light grey cannot be read on the middle shades
    scrolled = f'role="group" aria-label="{html.escape(alt)}" tabindex="0" style="overflow-x:auto"'
    return Picture(f"<div {scrolled}>{markup}</div>", alt)


def roc(curves: Mapping[str, Sequence[Curve]], *, alt: str, mark: Sequence[float] = (0.1, 1)) -> Picture:
    """ROC curves in percent on two log axes, where the false positive rates that matter take up half of the width.

    curves: name -> one curve a target or seed; several are thin lines.  mark: FPRs, in percent, where a dotted line stands, if they
        lie on the axis.
    A curve starts at the lowest FPR that it resolves, one false positive: left of it nothing was measured, and left of all of them
    the axis ends. A TPR of zero has no place on a log axis, so a curve that starts there comes up from below.
    Source: Carlini et al. 2022; Zhang et al. 2024, figure 2.
    """
    left = 100 * min(0.1, *(one.fpr[one.fpr > 0][0] for several in curves.values() for one in several))
    figure, ax = picture.chart("false positive rate (%)", "true positive rate (%)", "xy", height=4.8)
    ax.plot([left, 100], [left, 100], color="#777777", linewidth=1, zorder=1, label="chance")
    for look, (name, several) in zip(LOOKS, curves.items(), strict=False):
        label, width = (name, 1.8) if len(several) == 1 else (f"{name} ({len(several)} curves)", 0.9)
        for one in several:
            seen = (one.fpr > 0) & (np.diff(one.fpr, append=2) > 0)  # the best TPR of each FPR
            thin = look | {"marker": "", "linewidth": width, "label": label}
            ax.step(100 * one.fpr[seen], 100 * one.tpr[seen], where="post", **thin)
    ax.set(xlim=(left, 100), ylim=(left, 100))
    picture.thresholds(ax, {}, {f"FPR {rate:g}%": rate for rate in mark if rate >= left})
    return picture.render(figure, alt)


def evidence(
    kept: Evidence, mine: Evidence | None, rows: Mapping[str, str], *, xlabel: str,
    published: Mapping[str, float] = {}, log: bool = False,
) -> Picture:  # fmt: skip
    """Every repeat of the evidence as a dot, a row for each name, beside what was just measured; it describes itself.

    kept: the committed evidence, which may be empty.  mine: measured live; None where the lab measures nothing here.
    rows: label -> name of a value, such as psnr[cifar10, swin], or a difference of two, "psnr[a] - psnr[b]", taken repeat by repeat.
    published: label -> the paper's number.  log: whether the axis is logarithmic.
    Raises ValueError where no row has a value, KeyError for a name that the evidence does not know.
    """
    live = {label: mine[name] for label, name in rows.items() if mine is not None and name in mine}
    groups = {label: kept[name] for label, name in rows.items() if len(kept) and (name in kept or label not in live)}
    groups = {label: groups.get(label, np.array([])) for label in rows if label in groups or label in live}
    if not groups:
        raise ValueError(f"{kept!r}{NOTHING}")
    printed = {label: number for label, number in published.items() if label in groups}
    spoken = []
    for label, values in groups.items():
        said = [f"{values.mean():.3g} ± {values.std(ddof=1):.2g}"] if len(values) > 1 else [f"{v:.3g}" for v in values]
        said += [f"yours {live[label].mean():.3g}"] if label in live else []
        said += [f"the paper {printed[label]:g}"] if label in printed else []
        spoken.append(f"{label}: {', '.join(said)}")
    each, yours = _called(kept, mine)
    alt = f"{xlabel}. {'; '.join(spoken)}. {kept!r}."
    return dots(groups, xlabel=xlabel, alt=alt, published=printed, live=live, log=log, each=each, yours=yours)


def published(table: str, rows: Mapping[str, str], **where: str) -> dict[str, float]:
    """The paper's numbers for the rows of a chart: published("zhang2024_table5", {"Swin": "Swin-T"}, metric="psnr", dataset="CIFAR10").

    table: as `ledger.papers.table` names it.  rows: label -> what the paper's row is called, in any of its columns.
    where: column -> what stands in it, until each row is the only one.  Raises ValueError for one that none or several lines fit.
    """
    frame = ledger.papers.table(table)
    for column, value in where.items():
        frame = frame[frame[column] == value]
    found = {label: frame.loc[(frame == name).any(axis=1), "mean"] for label, name in rows.items()}
    if wrong := [label for label, means in found.items() if len(means) != 1]:
        several = f"{len(found[wrong[0]])} rows of {table} with {where} are called {rows[wrong[0]]!r}"
        raise ValueError(f"{several}; name one, by {', '.join(frame.columns[:3])}")
    return {label: float(means.item()) for label, means in found.items()}


def evidence_lines(
    kept: Evidence, mine: Evidence | None, series: Mapping[str, Mapping[float | str, str]], *, xlabel: str,
    ylabel: str, **more: Any,
) -> Picture:  # fmt: skip
    """Mean and standard deviation of the evidence along an axis, a line for each label, with the reader's own points.

    series: label -> {x: name of a value}, such as {"Swin": {0.01: "psnr[swin, noise_0p01]"}}.
    kept, mine: as in `evidence`.  more: log and thresholds of `lines`.  Raises ValueError where nothing is measured.
    """
    drawn, live = _points(kept, series), {label: points[:2] for label, points in _points(mine, series).items()}
    (committed, yours), shown = _called(kept, mine), kept
    about = f"{committed}, mean ± std"
    if not drawn:
        drawn, live, shown, about = live, {}, mine or kept, "your run alone"
    if not drawn:
        raise ValueError(f"{kept!r}{NOTHING}")
    spoken = [f"{label} from {y[0]:.3g} at {x[0]} to {y[-1]:.3g} at {x[-1]}" for label, (x, y, *_) in drawn.items()]
    alt = f"{ylabel} against {xlabel}: {'; '.join(spoken)}. {shown!r}."
    return lines(drawn, live=live, yours=yours, xlabel=f"{xlabel}; {about}", ylabel=ylabel, alt=alt, **more)


def _points(of: Evidence | None, series: Mapping[str, Mapping[float | str, str]]) -> dict[str, list[np.ndarray]]:
    """x, mean and standard deviation along each line, of the names that are there; a line without any is left out."""
    lines = {}
    for label, names in series.items():
        if there := {x: of[name] for x, name in names.items() if of is not None and name in of}:
            values = np.array([*there.values()])
            lines[label] = [np.array([*there]), values.mean(1), values.std(1, ddof=values.shape[1] > 1)]
    return lines


def _called(kept: Evidence, mine: Evidence | None) -> tuple[str, str]:
    """What a legend calls the evidence, and the reader's run: with its size, where the evidence has another."""
    committed = f"committed: {len(kept)} repeat{'s' * (len(kept) != 1)} at {kept.size}"
    return committed, f"{YOURS}, at {mine.size}" if mine and len(kept) and mine.size != kept.size else YOURS
