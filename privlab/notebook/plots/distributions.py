"""Figures of membership and attribute inference: losses of members beside those of others, ROC curves, one image's Gaussians, a table of
verdicts, and features as dots on a plane.

Each returns a `plots.Picture` and insists on `alt`, and tells its series apart by dash or hatching as well as by colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axis import Axis

from privlab.metrics.roc import Curve
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS, DASHES, MARKERS, Picture, Values

IN, OUT = COLOURS[1], COLOURS[0]  # members, whoever draws them, and the others
HATCHES = ("//", "\\\\")  # of two groups; more would be a thicket
GRID = 1_000  # points of a curve on its log axis: closer than the picture's own, so its steps show


def histogram(groups: Mapping[str, Values], *, xlabel: str, alt: str, log: bool = False) -> Picture:
    """How the values of up to seven groups are spread, one outline over the other: members' losses and non-members', say.

    groups: name -> values, of any number; each outline encloses the area 1, so groups of different size compare.
    log: whether the axis of the values is logarithmic. Its bins are then equally wide there, and heights count a decade of values.
    There are 40 bins, the same for all groups, from the smallest value of all to the largest.
    Raises ValueError for a group without values, NaN or infinite ones, values <= 0 on a log axis, none or more than seven groups, or
    an empty alt.
    Source: Zhang et al. 2024, figure 12.
    """
    import seaborn  # not at the top: it brings pandas and scipy.stats, two seconds

    _several("groups", groups)
    columns = picture.columns("groups", groups, log)
    figure, ax = picture.empty_chart(xlabel, "density (per decade)" if log else "density", "x" if log else "")
    pair = len(columns) == 2  # members and others, who keep their colours from figure to figure
    colours, hatches = ((IN, OUT), HATCHES) if pair else (COLOURS, [""] * len(columns))
    sizes = [*map(len, columns.values())]
    values, names = np.concatenate([*columns.values()]), np.repeat([*columns], sizes)
    shape: dict[str, Any] = {"stat": "density", "common_norm": False, "element": "step", "alpha": 0.16, "legend": False}
    palette, last_first = dict(zip(columns, colours, strict=False)), [*columns][::-1]  # as it draws them
    seaborn.histplot(x=values, hue=names, hue_order=last_first, palette=palette, bins=40, ax=ax, **shape)
    for name, size, outline, dash, hatch in zip(columns, sizes, ax.collections, DASHES, hatches, strict=False):
        outline.set(linestyle=dash, hatch=hatch, linewidth=1.8, label=f"{name} ({size:,})")
    if log:
        _decades(ax.xaxis, *ax.get_xlim(), "{:g}".format)
    picture.legend_above(figure)
    return picture.render(figure, alt)


def roc(curves: Mapping[str, Sequence[Curve]], *, alt: str, mark: Sequence[float] = (0.001, 0.01)) -> Picture:
    """ROC curves on two log axes, where the false positive rates that matter take up half of the width.

    curves: name -> one curve a target or seed (of `privlab.metrics.roc.curve`, or anything with .fpr and .tpr); up to seven names. Several
        are drawn as their mean at each FPR with a band from the lowest to the highest.
    mark: FPRs where a dotted line stands, as long as they lie on the axis.
    A curve starts at the lowest FPR that it resolves, one false positive: left of it nothing was measured, and left of all of them
    the axis ends. A TPR of zero has no place on a log axis, so a curve that starts there comes up from below.
    Raises ValueError for none or more than seven names, a name without curves, rates that are not rising from 0 to 1, a mark
    outside (0, 1), or an empty alt.
    Source: Carlini et al. 2022; Zhang et al. 2024, figure 2.
    """
    _several("curves", curves)
    for name, several in curves.items():
        if len(several) == 0:
            raise ValueError(f"curves: {name!r} holds none; give at least one")
        for curve in several:
            _check_rates(name, curve)
    if wrong := [rate for rate in mark if not 0 < rate < 1]:
        raise ValueError(f"mark={wrong[0]} is no false positive rate to mark; give one between 0 and 1, such as 0.001")
    left = min(0.1, *(_first(curve) for several in curves.values() for curve in several))  # .1: there is always an axis
    grid = np.geomspace(left, 1, GRID)
    figure, ax = picture.empty_chart("false positive rate", "true positive rate", "xy", height=4.8)
    ax.plot([left, 1], [left, 1], color="#777777", linewidth=1, zorder=1, label="chance")
    for (name, several), colour, dash in zip(curves.items(), COLOURS, DASHES, strict=False):
        rates = np.stack([_at(grid, curve) for curve in several])  # (curves, points)
        low, mean, high = (np.maximum(line, left / 100) for line in (rates.min(0), rates.mean(0), rates.max(0)))
        label = name if len(several) == 1 else f"{name} (mean of {len(several)})"
        ax.plot(grid, mean, color=colour, linestyle=dash, linewidth=1.8, label=label)
        if len(several) > 1:
            ax.fill_between(grid, low, high, color=colour, alpha=0.18, linewidth=0)
    if any(len(several) > 1 for several in curves.values()):
        ax.fill_between([], [], color="#777777", alpha=0.3, linewidth=0, label="lowest to highest")
    marks = {f"FPR {100 * rate:g}%": rate for rate in mark if rate >= left}
    picture.draw_thresholds(ax, {}, marks, foot=True)  # good attacks run along the top
    for axis in (ax.xaxis, ax.yaxis):
        _decades(axis, left, 1, lambda rate: f"{100 * rate:.12g}%")
    picture.legend_above(figure)
    return picture.render(figure, alt)


def confusion(tp: int, fn: int, fp: int, tn: int, *, alt: str) -> Picture:
    """What one threshold makes of members and non-members: four counts, each with its share of the row, shaded by it.

    tp, fn: members that the attack calls members, and non-members.  fp, tn: the same of non-members.
    Raises ValueError for counts below 0 or no whole numbers, no members, no non-members, or an empty alt.
    """
    for name, count in {"tp": tp, "fn": fn, "fp": fp, "tn": tn}.items():
        if isinstance(count, bool) or int(count) != count or count < 0:
            raise ValueError(f"{name}={count!r} is no count; give whole numbers of 0 or more")
    table = np.array([[tp, fn], [fp, tn]], dtype=np.int64)
    totals = table.sum(axis=1)
    for kind, total in zip(("members (tp + fn)", "non-members (fp + tn)"), totals, strict=True):
        if total == 0:
            raise ValueError(f"there are no {kind}; give the counts of both kinds")
    shares = table / totals[:, None]
    figure, ax = picture.empty_chart("", "", "", height=2.6)
    sides = [-0.5, 0.5, 1.5]  # and the light end of the colours, so that black reads well on all of them
    ax.pcolormesh(sides, sides, shares, cmap="Blues", vmin=0, vmax=2.6, edgecolor="white", linewidth=3)
    ax.invert_yaxis()
    for (row, column), number in np.ndenumerate(table):
        rate = (("TPR", "FNR"), ("FPR", "TNR"))[row][column]
        ax.text(column, row - 0.1, f"{number:,}", ha="center", va="center", fontsize=15, fontweight="bold")
        ax.text(column, row + 0.22, f"{rate} {100 * shares[row, column]:.3g}%", ha="center", va="center", fontsize=11)
    ax.set_xticks([0, 1], ["called a member", "called a non-member"])
    ax.set_yticks([0, 1], [f"{totals[0]:,} members", f"{totals[1]:,} non-members"])
    ax.set_xlabel(f"balanced accuracy {shares.trace() / 2:.3f}", fontsize=11)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=11, labeltop=True, labelbottom=False)
    return picture.render(figure, alt)


# -- what they are given -------------------------------------------------------------------------------------------------


def flat(features: Values) -> np.ndarray:
    """Features (n, width) on the plane in which they vary most, (n, 2): the first two principal components, standardised features."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    values = np.asarray(features, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        raise ValueError(f"features: got shape {values.shape}; give (n, width), two images and two features or more")
    return PCA(2, svd_solver="full").fit_transform(StandardScaler().fit_transform(values))


def cloud(groups: Mapping[str, Values], *, alt: str) -> Picture:
    """A dot an image on a plane without units, up to fourteen groups told apart by colour and marker; see `flat`.

    groups: name -> places (n, 2); a group without images has a legend and no dot.
    Raises ValueError for places of another shape, NaN or infinite ones, none or more than fourteen groups, or an empty alt.
    """
    if not 1 <= len(groups) <= 2 * len(MARKERS):
        raise ValueError(f"groups: got {len(groups)}; give 1 to {2 * len(MARKERS)}, as more cannot be told apart")
    figure, ax = picture.empty_chart("", "", "", height=3.9)
    for n, (name, places) in enumerate(groups.items()):
        dots = np.asarray(places, dtype=np.float64)
        if dots.ndim != 2 or dots.shape[1] != 2 or not np.isfinite(dots).all():
            raise ValueError(f"groups: {name!r} has shape {dots.shape}; give finite places (n, 2)")
        colour, marker = COLOURS[n % len(COLOURS)], MARKERS[(n + n // len(COLOURS)) % len(MARKERS)]
        face = "none" if n >= len(COLOURS) else colour  # the second seven are open
        ax.plot(*dots.T, marker, color=colour, mfc=face, ms=5, alpha=0.75, linestyle="none", label=name)
    ax.set_xticks([])
    ax.set_yticks([])
    picture.legend_above(figure, most=5, handlelength=1.5)
    return picture.render(figure, alt)


def _several(argument: str, groups: Mapping[str, object]) -> None:
    if not 1 <= len(groups) <= len(COLOURS):
        raise ValueError(f"{argument}: got {len(groups)}; give 1 to {len(COLOURS)}, as more cannot be told apart")


def _check_rates(name: str, curve: Curve) -> None:
    for rates in (curve.fpr, curve.tpr):
        inside = rates.ndim == 1 and len(rates) > 1 and (rates >= 0).all() and (np.diff(rates) >= 0).all()
        if not inside or rates[-1] != 1 or len(curve.fpr) != len(curve.tpr):
            raise ValueError(
                f"curves: {name!r} holds rates that do not rise to 1; give what privlab.metrics.roc.curve returns"
            )


def _at(grid: np.ndarray, curve: Curve) -> np.ndarray:
    """The TPR at the lowest threshold whose FPR is no more than each of the grid's; NaN left of the first false positive."""
    last = np.searchsorted(curve.fpr, grid, side="right") - 1
    return np.where(grid >= _first(curve), curve.tpr[last.clip(0)], np.nan)


def _first(curve: Curve) -> float:
    return float(curve.fpr[curve.fpr > 0][0])


def _decades(axis: Axis, low: float, high: float, written: Callable[[float], str]) -> None:
    """Ticks of a log axis from low to high: each decade, or 1, 2 and 5 where there are few; and hairlines at the other digits.

    matplotlib's own small ticks take as long to draw as all the rest of a figure.
    """
    ax, upright = axis.axes, axis is axis.axes.xaxis
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    step = 1 + len(powers) // 9
    digits = (1, 2, 5) if len(powers) <= 3 else (1,)
    ticks = [digit * 10.0**power for power in powers[::step] for digit in digits]
    axis.set_ticks([], minor=True)
    axis.set_ticks(ticks, [written(tick) for tick in ticks])
    draw, across = (ax.vlines, ax.get_xaxis_transform()) if upright else (ax.hlines, ax.get_yaxis_transform())
    between = [digit * 10.0**power for power in powers for digit in range(2, 10) if step == 1]
    draw(between, 0, 1, transform=across, color="#f0f0f0", linewidth=0.6, zorder=0.5)
    (ax.set_xlim if upright else ax.set_ylim)(low, high)
