"""Figures of membership and attribute inference: losses of members beside those of others, ROC curves, a table of verdicts, and features
as dots on a plane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

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
    Raises ValueError for infinite values, values <= 0 on a log axis, none or more than seven groups, or an empty alt.
    Source: Zhang et al. 2024, figure 12.
    """
    picture.check_few("groups", groups)
    figure, ax = picture.empty_chart(xlabel, "density (per decade)" if log else "density", "x" if log else "")
    columns = {f"{name} ({len(values):,})": picture.column(name, values, log) for name, values in groups.items()}
    scaled = {name: np.log10(values) if log else values for name, values in columns.items()}
    edges = np.histogram_bin_edges(np.concatenate([*scaled.values()]), 40)
    # members and others keep their colours from figure to figure
    colours, hatches = ((IN, OUT), HATCHES) if len(columns) == 2 else (COLOURS, repeat(""))
    for (name, values), colour, dash, hatch in zip(scaled.items(), colours, DASHES, hatches, strict=False):
        heights, _ = np.histogram(values, edges, density=True)
        ax.stairs(
            heights, 10**edges if log else edges, fill=True, facecolor=(colour, 0.16), edgecolor=colour, linestyle=dash, hatch=hatch,
            linewidth=1.8, label=name,
        )  # fmt: skip
    if log:
        picture.plain_decades(ax.xaxis)
    picture.legend_above(figure)
    return picture.render(figure, alt)


def roc(curves: Mapping[str, Sequence[Curve]], *, alt: str, mark: Sequence[float] = (0.001, 0.01)) -> Picture:
    """ROC curves on two log axes, where the false positive rates that matter take up half of the width.

    curves: name -> one curve a target or seed (of `privlab.metrics.roc.curve`, or anything with .fpr and .tpr); up to seven names. Several
        are drawn as their mean at each FPR with a band from the lowest to the highest.
    mark: FPRs where a dotted line stands, as long as they lie on the axis.
    A curve starts at the lowest FPR that it resolves, one false positive: left of it nothing was measured, and left of all of them
    the axis ends. A TPR of zero has no place on a log axis, so a curve that starts there comes up from below.
    Raises ValueError for none or more than seven names, or an empty alt.
    Source: Carlini et al. 2022; Zhang et al. 2024, figure 2.
    """
    picture.check_few("curves", curves)
    left = min(0.1, *(_first(curve) for several in curves.values() for curve in several))  # .1: there is always an axis
    grid = np.geomspace(left, 1, GRID)
    figure, ax = picture.empty_chart("false positive rate", "true positive rate", "xy", height=4.8)
    ax.plot([left, 1], [left, 1], color="#777777", linewidth=1, zorder=1, label="chance")
    for (name, several), colour, dash in zip(curves.items(), COLOURS, DASHES, strict=False):
        rates = np.maximum([_at(grid, curve) for curve in several], left / 100)  # (curves, points)
        label = name if len(several) == 1 else f"{name} (mean of {len(several)})"
        ax.plot(grid, rates.mean(0), color=colour, linestyle=dash, linewidth=1.8, label=label)
        ax.fill_between(grid, rates.min(0), rates.max(0), color=colour, alpha=0.18, linewidth=0)
    if any(len(several) > 1 for several in curves.values()):
        ax.fill_between([], [], color="#777777", alpha=0.3, linewidth=0, label="lowest to highest")
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
    import seaborn  # not at the top: it brings pandas and scipy.stats, two seconds

    table = np.array([[tp, fn], [fp, tn]])
    shares = table / table.sum(1, keepdims=True)
    rates = np.array([["TPR", "FNR"], ["FPR", "TNR"]])
    words = [f"{table[k]:,}\n{rates[k]} {100 * share:.3g}%" for k, share in np.ndenumerate(shares)]
    figure, ax = picture.empty_chart("", "", "", height=2.6)
    ax.grid(visible=False)
    seaborn.heatmap(
        shares, annot=np.reshape(words, (2, 2)), fmt="", annot_kws={"color": "black", "fontsize": 13}, cmap="Blues",
        vmin=0, vmax=2.6,  # the light end of the colours, so that black reads well on all of them
        cbar=False, linewidths=3, linecolor="white", ax=ax,
        xticklabels=["called a member", "called a non-member"],
        yticklabels=[f"{total:,} {kind}" for total, kind in zip(table.sum(1), ("members", "non-members"), strict=True)],
    )  # fmt: skip
    ax.set_xlabel(f"balanced accuracy {shares.trace() / 2:.3f}")
    ax.tick_params(length=0, labelsize=11, labeltop=True, labelbottom=False, labelrotation=0)
    return picture.render(figure, alt)


def flat(features: Values) -> np.ndarray:
    """Features (n, width) on the plane in which they vary most, (n, 2): the first two principal components, standardised features."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(np.asarray(features, dtype=np.float64))
    return PCA(2, svd_solver="full").fit_transform(scaled)


def cloud(groups: Mapping[str, Values], *, alt: str) -> Picture:
    """A dot an image on a plane without units, up to fourteen groups told apart by colour and marker; see `flat`.

    groups: name -> places (n, 2); a group without images has a legend and no dot.
    Raises ValueError for none or more than fourteen groups, or an empty alt.
    """
    picture.check_few("groups", groups, 2 * len(MARKERS))
    figure, ax = picture.empty_chart("", "", "", height=3.9)
    for n, (name, places) in enumerate(groups.items()):
        ax.plot(*np.asarray(places).T, ms=5, alpha=0.75, label=name, **picture.mark(n))
    ax.set(xticks=[], yticks=[])
    picture.legend_above(figure, most=5, handlelength=1.5)
    return picture.render(figure, alt)


def _at(grid: np.ndarray, curve: Curve) -> np.ndarray:
    """The TPR at the lowest threshold whose FPR is no more than each of the grid's; NaN left of the first false positive."""
    last = np.searchsorted(curve.fpr, grid, side="right") - 1
    return np.where(grid >= _first(curve), curve.tpr[last.clip(0)], np.nan)


def _first(curve: Curve) -> float:
    return float(curve.fpr[curve.fpr > 0][0])
