"""Figures of membership inference: losses of members beside those of others, ROC curves, and a table of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privlab.metrics.roc import Curve
from privlab.notebook.plots import charts, picture
from privlab.notebook.plots.picture import COLOURS, DASHES, Picture, Values


def histogram(groups: Mapping[str, Values], *, xlabel: str, alt: str) -> Picture:
    """How the values of two groups are spread on a log axis, one outline over the other: members' losses and non-members', say.

    groups: name -> values above 0, of any number: a height is a share of the group. All have the same 40 bins, equally wide on the axis.
    Raises ValueError for infinite values, values <= 0, or an empty alt.
    Source: Zhang et al. 2024, figure 12.
    """
    import seaborn  # not at the top: it brings scipy.stats, a second

    figure, ax = picture.empty_chart(xlabel, "share of the group", "x")
    columns = {f"{name} ({len(values):,})": picture.column(name, values, True) for name, values in groups.items()}
    every = np.concatenate([*columns.values()])
    edges = np.linspace(
        np.log10(every.min()), np.log10(every.max()), 41
    )  # seaborn counts on the axis, which is logarithmic
    looks = zip(columns.items(), COLOURS[1::-1], DASHES, ("//", "\\\\"), strict=False)
    for (name, values), colour, dash, hatch in looks:
        outline: dict[str, Any] = {"edgecolor": colour, "linestyle": dash, "linewidth": 1.8}
        shares = {"stat": "proportion", "bins": [*edges], "element": "step", "label": name, "ax": ax}
        seaborn.histplot(x=values, facecolor=(colour, 0.16), hatch=hatch, **shares, **outline)
    picture.plain_decades(ax.xaxis)
    picture.legend_above(figure)
    return picture.render(figure, alt)


def roc(curves: Mapping[str, Sequence[Curve]], *, alt: str, mark: Sequence[float] = (0.001, 0.01)) -> Picture:
    """ROC curves on two log axes, where the false positive rates that matter take up half of the width.

    curves: name -> one curve a target or seed, of `privlab.metrics.roc.curve`; up to seven names. Several are thin lines.
    mark: FPRs where a dotted line stands, as long as they lie on the axis.
    A curve starts at the lowest FPR that it resolves, one false positive: left of it nothing was measured, and left of all of them
    the axis ends. A TPR of zero has no place on a log axis, so a curve that starts there comes up from below.
    Raises ValueError for none or more than seven names, or an empty alt.
    Source: Carlini et al. 2022; Zhang et al. 2024, figure 2.
    """
    picture.check_few("curves", curves)
    left = min(0.1, *(one.fpr[one.fpr > 0][0] for several in curves.values() for one in several))  # .1: always an axis
    figure, ax = picture.empty_chart("false positive rate", "true positive rate", "xy", height=4.8)
    ax.plot([left, 1], [left, 1], color="#777777", linewidth=1, zorder=1, label="chance")
    for (name, several), colour, dash in zip(curves.items(), COLOURS, DASHES, strict=False):
        look: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.8 if len(several) == 1 else 0.9}
        ax.plot([], [], label=name if len(several) == 1 else f"{name} ({len(several)} curves)", **look)
        for one in several:
            seen = (one.fpr > 0) & (np.diff(one.fpr, append=2) > 0)  # the best TPR of each FPR
            ax.step(one.fpr[seen], one.tpr[seen], where="post", **look)
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
    table = np.array([[tp, fn], [fp, tn]])
    shares = table / table.sum(1, keepdims=True)
    rates = np.array([["TPR", "FNR"], ["FPR", "TNR"]])
    words = [f"{table[k]:,}\n{rates[k]} {100 * share:.3g}%" for k, share in np.ndenumerate(shares)]
    return charts.heat(
        shares,
        words=[words[:2], words[2:]],
        rows=[f"{total:,} {kind}" for total, kind in zip(table.sum(1), ("members", "non-members"), strict=True)],
        columns=["called a member", "called a non-member"],
        xlabel="",
        ylabel="",
        unit=f"balanced accuracy {shares.trace() / 2:.3f}",
        alt=alt,
        vmin=0,
        vmax=1,
    )
