"""Figures of membership inference: what the axes hold is read back and held against the definition."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from colours import contrast
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from privlab.metrics.roc import curve
from privlab.notebook import plots
from privlab.notebook.plots import distributions

LOSSES = {"members": [0.1, 0.2, 0.2, 0.9], "non-members": [0.5, 1.0, 2.0, 4.0, 8.0]}
CURVES = {
    "ViT": [curve([3, 2.5, 2, 1, 0.5, 0.2], [True, True, False, True, False, False])],
    "CNN": [curve(np.arange(2_000), np.arange(2_000) % k > 0) for k in (2, 3)],
}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def named(figure: Figure, label: str) -> tuple[np.ndarray, np.ndarray]:
    """(x, y) of the line with this label."""
    (line,) = (line for line in figure.axes[0].lines if line.get_label() == label)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_outlines_are_densities_over_the_same_bins(figures: list[Figure]) -> None:
    plots.histogram(LOSSES, xlabel="loss", alt="x")
    edges = np.linspace(0.1, 8, 41)
    for outline, values in zip(figures[0].axes[0].patches, LOSSES.values(), strict=True):
        assert outline.get_data().edges == pytest.approx(edges)
        counts = [sum(low <= v < high for v in values) for low, high in pairwise([*edges[:-1], 8.01])]
        assert outline.get_data().values == pytest.approx(np.array(counts) / len(values) / 0.1975)
    assert legend(figures[0]) == ["members (4)", "non-members (5)"]


def test_on_a_log_axis_an_outline_encloses_one_by_decades(figures: list[Figure]) -> None:
    plots.histogram({"a": [0.001, 1, 10]}, xlabel="loss", log=True, alt="x")
    (ax,) = figures[0].axes
    heights, edges, _ = ax.patches[0].get_data()
    widths = np.diff(np.log10(edges))
    assert (heights * widths).sum() == pytest.approx(1) and widths == pytest.approx(widths[0])
    assert (ax.get_xscale(), ax.get_ylabel()) == ("log", "density (per decade)")
    assert {"0.001", "0.01", "0.1", "1", "10"} <= {label.get_text() for label in ax.get_xticklabels()}


def test_groups_differ_in_more_than_colour_and_members_keep_theirs(figures: list[Figure]) -> None:
    plots.histogram({f"group {i}": [i, i + 1] for i in range(7)}, xlabel="x", alt="x")
    groups = figures[0].axes[0].patches
    assert (
        len({group.get_edgecolor() for group in groups}) == len({str(group.get_linestyle()) for group in groups}) == 7
    )
    plots.histogram(LOSSES, xlabel="x", alt="x")
    members, others = figures[1].axes[0].patches
    assert (to_hex(members.get_edgecolor()).upper(), to_hex(others.get_edgecolor()).upper()) == (
        distributions.IN,
        distributions.OUT,
    )
    assert members.get_hatch() != others.get_hatch()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=40).filter(
        lambda s: len({m for _, m in s}) == 2
    )
)
def test_a_curve_is_the_best_tpr_at_each_fpr(samples: list[tuple[int, bool]]) -> None:
    scores, members = (np.array(column) for column in zip(*samples, strict=True))
    grid = np.linspace(0.013, 1, 60)
    got = distributions._at(grid, curve(scores, members))
    rates = [((scores >= t)[~members].mean(), (scores >= t)[members].mean()) for t in [*np.unique(scores), np.inf]]
    least = min(fpr for fpr, _ in rates if fpr > 0)
    for t, tpr in zip(grid, got, strict=True):
        assert math.isnan(tpr) if t < least else tpr == max(rate for fpr, rate in rates if fpr <= t)


def test_roc_by_hand(figures: list[Figure]) -> None:
    plots.roc(CURVES, alt="x")
    (ax,) = figures[0].axes
    x, y = named(figures[0], "ViT")
    seen = ~np.isnan(y)
    assert x[seen][0] == pytest.approx(1 / 3, rel=0.01)  # three non-members: nothing is known of a lower rate
    assert y[seen] == pytest.approx(1)
    assert ax.get_xlim() == pytest.approx((1 / 1000, 1))  # of the curve with the most non-members
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert legend(figures[0]) == ["chance", "ViT", "CNN (mean of 2)", "lowest to highest"]
    labels = {tick.get_text() for tick in ax.get_xticklabels()}
    assert {"0.1%", "1%", "10%", "100%"} <= labels and [note.get_text() for note in ax.texts] == ["FPR 0.1%", "FPR 1%"]
    assert not [*ax.get_xticks(minor=True), *ax.get_yticks(minor=True)]  # they would double the time


def test_several_curves_are_a_mean_and_a_band_and_a_tpr_of_zero_lies_below_the_axis(figures: list[Figure]) -> None:
    steps = [SimpleNamespace(fpr=np.array([0, 0.01, 1]), tpr=np.array([0, low, 1])) for low in (0, 0.4, 0.8)]
    plots.roc({"a": steps, "b": steps[:1]}, alt="x")
    (_, y), (ax,) = named(figures[0], "a (mean of 3)"), figures[0].axes
    assert y[:-1] == pytest.approx(0.4, abs=1e-3)
    corners = ax.collections[0].get_paths()[0].vertices
    assert {*corners[corners[:, 0] < 0.9, 1].round(3)} == {0, 0.8}
    assert 0 < named(figures[0], "b")[1][0] < ax.get_ylim()[0]


@pytest.mark.parametrize("non_members", [1, 12])
def test_even_few_non_members_get_an_axis(non_members: int, figures: list[Figure]) -> None:
    plots.roc({"a": [curve(np.arange(non_members + 1), np.arange(non_members + 1) == 0)]}, alt="x")
    assert figures[0].axes[0].get_xlim() == pytest.approx((min(0.1, 1 / non_members), 1))


def test_confusion_prints_counts_and_rates_and_black_reads_well_on_every_shade(figures: list[Figure]) -> None:
    plots.confusion(75, 25, 0, 1200, alt="x")
    (ax,) = figures[0].axes
    said = {note.get_position(): note.get_text() for note in ax.texts}
    assert said == {
        (0.5, 0.5): "75\nTPR 75%", (1.5, 0.5): "25\nFNR 25%", (0.5, 1.5): "0\nFPR 0%", (1.5, 1.5): "1,200\nTNR 100%",
    }  # fmt: skip
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["100 members", "1,200 non-members"]
    assert ax.yaxis_inverted() and ax.get_xlabel() == "balanced accuracy 0.875"  # members on top
    shades = ax.collections[0].get_facecolors()
    assert min(contrast(shade[:3], "black") for shade in shades) >= 7  # what WCAG asks of text, at its strictest


def test_every_group_of_a_cloud_is_drawn_at_its_places_in_a_style_of_its_own(figures: list[Figure]) -> None:
    groups = {f"group {n}": np.random.default_rng(n).normal(n, 1, (5, 2)) for n in range(14)}
    plots.cloud(groups, alt="fourteen groups")
    lines = figures[0].axes[0].lines
    for line, places in zip(lines, groups.values(), strict=True):
        assert (np.stack(line.get_data(), 1) == places).all()
    assert len({(line.get_color(), line.get_marker(), line.get_markerfacecolor()) for line in lines}) == len(groups)
    with pytest.raises(ValueError, match="groups: got 15; give 1 to 14"):
        plots.cloud({f"{n}": [[0, 0]] for n in range(15)}, alt="none")


def test_features_are_laid_flat_along_what_varies_most() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 2)) * (3, 1) @ random.normal(size=(2, 6))
    plane = distributions.flat(features)
    assert plane.shape == (200, 2) and plane[:, 0].var() > plane[:, 1].var() > 0
    standard = (features - features.mean(0)) / features.std(0)
    between = [np.linalg.norm(of[:, None] - of[None], axis=-1) for of in (plane, standard)]
    np.testing.assert_allclose(*between, atol=1e-6)  # rank two: nothing is lost
