"""Figures of membership inference: what the axes hold is read back and held against the definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from markup import Page
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from privlab.metrics.roc import curve
from privlab.notebook import plots
from privlab.notebook.plots.picture import COLOURS

LOSSES = {"members": [0.1, 0.2, 0.2, 0.9], "non-members": [0.5, 1.0, 2.0, 4.0, 8.0]}
CURVES = {
    "ViT": [curve([3, 2.5, 2, 1, 0.5, 0.2], [True, True, False, True, False, False])],
    "CNN": [curve(np.arange(2_000), np.arange(2_000) % k > 0) for k in (2, 3)],
}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_outlines_are_shares_in_the_same_bins_and_members_keep_their_look(figures: list[Figure]) -> None:
    plots.histogram(LOSSES, xlabel="loss", alt="x")
    (ax,), edges = figures[0].axes, np.geomspace(0.1, 8, 41)
    for outline, values in zip(ax.collections, LOSSES.values(), strict=True):
        x, y = outline.get_paths()[0].vertices.T
        counts = np.array([sum(low <= v < high for v in values) for low, high in pairwise([*edges[:-1], 8.01])])
        assert sorted({*y.round(6)}) == pytest.approx(sorted({*(counts / len(values)), 0}))
        assert {*np.log(x).round(6)} <= {*np.log(edges).round(6)}
    members, others = ax.collections
    assert [to_hex(each.get_edgecolor()).upper() for each in (members, others)] == [COLOURS[1], COLOURS[0]]
    assert members.get_hatch() != others.get_hatch() and ax.get_xscale() == "log"
    assert legend(figures[0]) == ["members (4)", "non-members (5)"]
    assert {"0.1", "1"} <= {label.get_text() for label in ax.get_xticklabels()}


def test_roc_by_hand(figures: list[Figure]) -> None:
    plots.roc(CURVES, alt="x")
    (ax,) = figures[0].axes
    vit = next(line for line in ax.lines if line.get_color() == COLOURS[0] and len(line.get_xdata()))
    # three non-members: nothing is known of a rate below a third, and there the best threshold finds all members
    assert vit.get_xydata() == pytest.approx(np.array([[1 / 3, 1], [2 / 3, 1], [1, 1]]))
    assert vit.get_drawstyle() == "steps-post"
    assert ax.get_xlim() == pytest.approx((1 / 1000, 1))  # of the curve with the most non-members
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert legend(figures[0]) == ["chance", "ViT", "CNN (2 curves)"]
    labels = {tick.get_text() for tick in ax.get_xticklabels()}
    assert {"0.1%", "1%", "10%", "100%"} <= labels and [note.get_text() for note in ax.texts] == ["FPR 0.1%", "FPR 1%"]
    assert not [*ax.get_xticks(minor=True), *ax.get_yticks(minor=True)]  # they would double the time


@pytest.mark.parametrize("non_members", [1, 12])
def test_even_few_non_members_get_an_axis(non_members: int, figures: list[Figure]) -> None:
    plots.roc({"a": [curve(np.arange(non_members + 1), np.arange(non_members + 1) == 0)]}, alt="x")
    assert figures[0].axes[0].get_xlim() == pytest.approx((min(0.1, 1 / non_members), 1))


def test_confusion_prints_counts_and_rates() -> None:
    table = plots.confusion(75, 25, 0, 1200, alt="x")
    said = " ".join(Page(table.html).text.split())
    assert said.endswith("100 members 75 TPR 75% 25 FNR 25% 1,200 non-members 0 FPR 0% 1,200 TNR 100%")
    assert "balanced accuracy 0.875 called a member called a non-member" in said
