"""Figures of membership inference: what the axes hold is read back and held against the definition; what cannot be drawn is refused."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from colours import contrast
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from privlab.metrics.roc import curve
from privlab.notebook import plots
from privlab.notebook.plots import distributions, picture

LOSSES = {"members": [0.1, 0.2, 0.2, 0.9], "non-members": [0.5, 1.0, 2.0, 4.0, 8.0]}
CURVES = {
    "ViT": [curve([3, 2.5, 2, 1, 0.5, 0.2], [True, True, False, True, False, False])],
    "CNN": [curve(np.arange(2_000), np.arange(2_000) % k > 0) for k in (2, 3)],
}
CLOUD = {f"group {n}": np.random.default_rng(n).normal(n, 1, (5, 2)) for n in range(10)}

DRAW: dict[str, Callable[[str], plots.Picture]] = {
    "histogram": lambda alt: plots.histogram(LOSSES, xlabel="loss", alt=alt),
    "log histogram": lambda alt: plots.histogram(LOSSES, xlabel="loss", log=True, alt=alt),
    "roc": lambda alt: plots.roc(CURVES, alt=alt),
    "confusion": lambda alt: plots.confusion(75, 25, 10, 190, alt=alt),
    "cloud": lambda alt: plots.cloud(CLOUD, alt=alt),
}


def shown(figure: Figure) -> list[Text]:
    """Every text that can be read: matplotlib keeps the labels of ticks beyond an axis, and does not draw them."""
    hidden: set[Text] = set()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        hidden |= {label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)}
    texts = figure.findobj(lambda artist: isinstance(artist, Text))
    return [text for text in texts if text.get_text() and text.get_visible() and text not in hidden]  # type: ignore[attr-defined]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def drawn_groups(figure: Figure) -> list[PolyCollection]:
    return [drawn for drawn in figure.axes[0].collections if isinstance(drawn, PolyCollection)]


def outlines(figure: Figure) -> list[tuple[np.ndarray, np.ndarray]]:
    """(heights, edges) of the outlines of a histogram, one a group: the upper half of what is drawn, step by step."""
    groups = []
    for outline in drawn_groups(figure):
        corners = outline.get_paths()[0].vertices
        upper = corners[len(corners) // 2 :][::-1]
        treads = [(a, b) for a, b in pairwise(upper) if a[0] < b[0]]
        assert all(a[1] == b[1] for a, b in treads)
        groups.append((np.array([a[1] for a, _ in treads]), np.array([treads[0][0][0], *(b[0] for _, b in treads)])))
    return groups


def named(figure: Figure, label: str) -> tuple[np.ndarray, np.ndarray]:
    """(x, y) of the line with this label."""
    (line,) = (line for line in figure.axes[0].lines if line.get_label() == label)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


# -- what every figure has ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAW)
def test_the_alt_text_is_carried(name: str) -> None:
    assert DRAW[name]("Members lie left.")._repr_mimebundle_()["text/plain"] == "Members lie left."


@pytest.mark.parametrize("name", DRAW)
def test_no_figure_without_an_alt_text(name: str) -> None:
    with pytest.raises(ValueError, match="tells a listener nothing; say in a sentence what the figure shows"):
        DRAW[name](" ")


@pytest.mark.parametrize("name", DRAW)
def test_fits_the_column_and_is_legible(name: str, figures: list[Figure]) -> None:
    picture = DRAW[name]("Something.")
    width, height = Image.open(io.BytesIO(picture.png)).size
    assert (picture.width, width) == (480, 720)
    assert 300 <= height <= 800
    texts = shown(figures[0])
    assert min(text.get_fontsize() for text in texts) >= 9
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()


@pytest.mark.parametrize("name", DRAW)
def test_labels_of_an_axis_do_not_touch(name: str, figures: list[Figure]) -> None:
    DRAW[name]("Something.")
    (ax,) = figures[0].axes
    for labels, ends in ((ax.get_xticklabels(), ("x0", "x1")), (ax.get_yticklabels(), ("y0", "y1"))):
        boxes = [label.get_window_extent() for label in labels if label in shown(figures[0])]
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(tuple(getattr(box, end) for end in ends) for box in boxes)))


@pytest.mark.parametrize("name", DRAW)
def test_same_input_same_bytes(name: str) -> None:
    assert DRAW[name]("Something.").png == DRAW[name]("Something.").png


@pytest.mark.parametrize("name", ["", "defence", "defence number", "an attack which has a name of some length, number"])
def test_names_of_any_length_keep_their_legend_on_the_figure(name: str, figures: list[Figure]) -> None:
    names = [f"{name} {i}" for i in range(14)]
    plots.roc({name: CURVES["CNN"] for name in names[:7]}, alt="Seven.")
    plots.cloud({name: [[i, i]] for i, name in enumerate(names)}, alt="Fourteen.")
    plots.tradeoff_chart({name: [[i, i]] for i, name in enumerate(names)}, alt="Fourteen.")
    for figure in figures:
        box = figure.legends[0].get_window_extent()
        assert box.x1 <= figure.bbox.x1 and box.y0 > figure.axes[0].bbox.y0


# -- histograms --------------------------------------------------------------------------------------------------------


def test_outlines_are_densities_over_the_same_bins(figures: list[Figure]) -> None:
    plots.histogram(LOSSES, xlabel="loss", alt="x")
    edges = np.linspace(0.1, 8, 41)
    for (heights, shown), values in zip(outlines(figures[0]), LOSSES.values(), strict=True):
        assert shown == pytest.approx(edges)
        counts = [sum(low <= v < high for v in values) for low, high in pairwise([*edges[:-1], 8.01])]
        assert heights == pytest.approx(np.array(counts) / len(values) / 0.1975)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50), st.booleans())
def test_each_outline_encloses_one(values: list[float], log: bool) -> None:
    seen: list[Figure] = []
    render, picture.render = picture.render, lambda figure, alt: seen.append(figure)  # type: ignore[assignment,misc]
    try:
        plots.histogram({"a": values, "b": [1.0, 2.0]}, xlabel="x", log=log, alt="x")
    finally:
        picture.render = render
    for heights, edges in outlines(seen[0]):
        widths = np.diff(np.log10(edges) if log else edges)
        assert len(heights) == 40
        assert (heights * widths).sum() == pytest.approx(1)
        if log:
            assert widths == pytest.approx(widths[0])


def test_a_log_histogram_has_a_log_axis_and_says_so(figures: list[Figure]) -> None:
    plots.histogram({"a": [0.001, 1, 10]}, xlabel="loss", log=True, alt="x")
    (ax,) = figures[0].axes
    assert (ax.get_xscale(), ax.get_ylabel()) == ("log", "density (per decade)")
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert {"0.001", "0.01", "0.1", "1", "10"} <= set(labels)


def test_the_legend_counts(figures: list[Figure]) -> None:
    DRAW["histogram"]("x")
    assert legend(figures[0]) == ["members (4)", "non-members (5)"]


def test_groups_differ_in_more_than_colour(figures: list[Figure]) -> None:
    plots.histogram({f"group {i}": [i, i + 1] for i in range(7)}, xlabel="x", alt="x")
    groups = drawn_groups(figures[0])
    assert len({str(group.get_edgecolor()) for group in groups}) == 7
    assert len({str(group.get_linestyle()) for group in groups}) == 7
    assert legend(figures[0]) == [f"group {i} (2)" for i in range(7)]
    DRAW["histogram"]("x")
    assert len({group.get_hatch() for group in drawn_groups(figures[1])}) == 2


def test_members_keep_their_colour_from_figure_to_figure(figures: list[Figure]) -> None:
    DRAW["histogram"]("x")
    members, others = (to_hex(group.get_edgecolor()[0]).upper() for group in drawn_groups(figures[0]))
    assert (members, others) == (distributions.IN, distributions.OUT)


# -- ROC curves --------------------------------------------------------------------------------------------------------


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
    DRAW["roc"]("x")
    (ax,) = figures[0].axes
    x, y = named(figures[0], "ViT")
    shown = ~np.isnan(y)
    assert x[shown][0] == pytest.approx(1 / 3, rel=0.01)  # three non-members: nothing is known of a lower rate
    at = {rate: y[shown][np.searchsorted(x[shown], rate)] for rate in (0.4, 0.6, 0.7, 0.99)}
    assert at == pytest.approx({0.4: 1, 0.6: 1, 0.7: 1, 0.99: 1})
    assert ax.get_xlim() == pytest.approx((1 / 1000, 1))  # of the curve with the most non-members
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert named(figures[0], "chance")[0] == pytest.approx(named(figures[0], "chance")[1])
    assert legend(figures[0]) == ["chance", "ViT", "CNN (mean of 2)", "lowest to highest"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.1%", "1%", "10%", "100%"]
    assert not [*ax.get_xticks(minor=True), *ax.get_yticks(minor=True)]  # they would double the time


def test_several_curves_are_a_mean_and_a_band(figures: list[Figure]) -> None:
    steps = [SimpleNamespace(fpr=np.array([0, 0.01, 1]), tpr=np.array([0, low, 1])) for low in (0.2, 0.4, 0.9)]
    plots.roc({"a": steps}, alt="x")
    (_, y), (ax,) = named(figures[0], "a (mean of 3)"), figures[0].axes
    assert y[:-1] == pytest.approx(0.5)
    corners = ax.collections[0].get_paths()[0].vertices
    assert set(corners[corners[:, 0] < 0.9, 1].round(12)) == {0.2, 0.9}


def test_marks_stand_where_the_axis_reaches(figures: list[Figure]) -> None:
    plots.roc({"a": CURVES["CNN"][:1]}, mark=(0.0001, 0.01, 0.5), alt="x")
    assert [note.get_text() for note in figures[0].axes[0].texts] == ["FPR 1%", "FPR 50%"]


def test_a_mark_is_named_below_chance_where_no_good_curve_covers_the_words(figures: list[Figure]) -> None:
    plots.roc({"a": CURVES["CNN"][:1]}, mark=(0.01,), alt="x")
    (ax,) = figures[0].axes
    box = ax.texts[0].get_window_extent().transformed(ax.transData.inverted())
    assert 1 / 1000 < box.y0 < box.y1 < 0.01


def test_a_tpr_of_zero_lies_below_the_axis(figures: list[Figure]) -> None:
    zero = SimpleNamespace(fpr=np.array([0, 0.01, 0.1, 1]), tpr=np.array([0, 0, 0.3, 1]))
    plots.roc({"a": [zero]}, alt="x")
    _, y = named(figures[0], "a")
    assert 0 < y[0] < figures[0].axes[0].get_ylim()[0]
    assert y[-2] == 0.3


@pytest.mark.parametrize("non_members", [1, 2, 12])
def test_even_few_non_members_get_an_axis(non_members: int, figures: list[Figure]) -> None:
    plots.roc({"a": [curve(np.arange(non_members + 1), np.arange(non_members + 1) == 0)]}, alt="x")
    left, right = figures[0].axes[0].get_xlim()
    assert right == 1 and left == pytest.approx(min(0.1, 1 / non_members))


# -- the table of verdicts ---------------------------------------------------------------------------------------------


def test_confusion_prints_counts_and_rates(figures: list[Figure]) -> None:
    DRAW["confusion"]("x")
    (ax,) = figures[0].axes
    cells: dict[tuple[float, int], list[str]] = {}
    for note in ax.texts:
        column, row = note.get_position()
        cells.setdefault((column, round(row)), []).append(note.get_text())
    assert cells == {
        (0, 0): ["75", "TPR 75%"], (1, 0): ["25", "FNR 25%"], (0, 1): ["10", "FPR 5%"], (1, 1): ["190", "TNR 95%"],
    }  # fmt: skip
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["100 members", "200 non-members"]
    assert ax.yaxis_inverted()  # members on top
    assert ax.get_xlabel() == "balanced accuracy 0.850"
    assert ax.collections[0].get_array().ravel().tolist() == pytest.approx([0.75, 0.25, 0.05, 0.95])


def test_black_reads_well_on_every_shade(figures: list[Figure]) -> None:
    plots.confusion(1, 0, 0, 1, alt="x")
    shades = figures[0].axes[0].collections[0].get_facecolors()
    assert min(contrast(shade[:3], "black") for shade in shades) >= 7  # what WCAG asks of text, at its strictest


# -- what they refuse --------------------------------------------------------------------------------------------------


def drawn(**changes: object) -> Callable[[], object]:
    return lambda: plots.histogram(**({"groups": LOSSES, "xlabel": "x", "alt": "x"} | changes))  # type: ignore[arg-type]


def rates(fpr: list[float], tpr: list[float]) -> Callable[[], object]:
    one = SimpleNamespace(fpr=np.array(fpr), tpr=np.array(tpr))
    return lambda: plots.roc({"a": [one]}, alt="x")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (drawn(groups={}), "groups: got 0; give 1 to 7, as more cannot be told apart"),
        (drawn(groups={str(i): [1] for i in range(8)}), "groups: got 8"),
        (drawn(groups={"a": []}), "groups: 'a' holds no values; give finite ones"),
        (drawn(groups={"a": [1, math.nan]}), "groups: 'a' holds NaN"),
        (drawn(groups={"a": [1, math.inf]}), "'a' holds an infinite value, which no axis can show; leave it out"),
        (drawn(groups={"a": [1, 0]}, log=True), "'a' holds 0, which a log axis cannot show"),
        (drawn(groups={"a": [[1]]}), r"'a': got shape \(1, 1\); give a flat list"),
        (lambda: plots.roc({}, alt="x"), "curves: got 0; give 1 to 7"),
        (lambda: plots.roc({"a": []}, alt="x"), "curves: 'a' holds none; give at least one"),
        (lambda: plots.roc(CURVES, mark=(0,), alt="x"), "mark=0 is no false positive rate to mark; give one between"),
        (lambda: plots.roc(CURVES, mark=(0.1, 1), alt="x"), "mark=1 is no false positive rate"),
        (rates([0, 0.5], [0, 1]), "curves: 'a' holds rates that do not rise to 1; give what privlab.metrics.roc.curve returns"),
        (rates([0, 0.5, 0.4, 1], [0, 0, 0, 1]), "'a' holds rates that do not rise"),
        (rates([0, 0.5, 1], [0, 1]), "'a' holds rates that do not rise"),
        (rates([0, 1], [math.nan, 1]), "'a' holds rates that do not rise"),
        (lambda: plots.confusion(-1, 2, 3, 4, alt="x"), "tp=-1 is no count; give whole numbers of 0 or more"),
        (lambda: plots.confusion(1, 2, 3, 4.5, alt="x"), "tn=4.5 is no count"),  # type: ignore[arg-type]
        (lambda: plots.confusion(1, True, 3, 4, alt="x"), "fn=True is no count"),
        (lambda: plots.confusion(0, 0, 3, 4, alt="x"), r"there are no members \(tp \+ fn\); give the counts of both"),
        (lambda: plots.confusion(1, 2, 0, 0, alt="x"), r"there are no non-members \(fp \+ tn\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# -- a cloud of features ---------------------------------------------------------------------------------------------------


def test_every_group_of_a_cloud_is_drawn_at_its_places_in_a_style_of_its_own(figures):
    plots.cloud(CLOUD, alt="ten groups")
    (figure,) = figures
    lines = figure.axes[0].lines
    assert all(
        (np.stack(line.get_data(), 1) == places).all() for line, places in zip(lines, CLOUD.values(), strict=True)
    )
    assert len({(line.get_color(), line.get_marker(), line.get_markerfacecolor()) for line in lines}) == len(CLOUD)
    assert legend(figure) == list(CLOUD)


def test_a_cloud_has_no_units(figures):
    plots.cloud(CLOUD, alt="none")
    (ax,) = figures[0].axes
    assert not (len(ax.get_xticks()) or len(ax.get_yticks()) or ax.get_xlabel() or ax.get_ylabel())


def test_features_are_laid_flat_along_what_varies_most():
    random = np.random.default_rng(0)
    hidden = random.normal(size=(200, 2)) * (3, 1)
    features = np.concatenate([hidden @ random.normal(size=(2, 6)), 1e-9 * random.normal(size=(200, 1))], 1)[:, :6]
    plane = distributions.flat(features)
    assert plane.shape == (200, 2) and plane[:, 0].var() > plane[:, 1].var() > 0
    standard = (features - features.mean(0)) / features.std(0)
    between = np.linalg.norm(plane[:, None] - plane[None], axis=-1)
    np.testing.assert_allclose(
        between, np.linalg.norm(standard[:, None] - standard[None], axis=-1), atol=1e-6
    )  # rank two: nothing is lost


@pytest.mark.parametrize(
    "groups, words",
    [
        ({}, "got 0"),
        ({f"{n}": [[0, 0]] for n in range(15)}, "got 15"),
        ({"a": [[1, 2, 3]]}, "shape"),
        ({"a": [[1, np.nan]]}, "finite"),
    ],
)
def test_a_cloud_of_other_shape_is_told(groups, words):
    with pytest.raises(ValueError, match=words):
        plots.cloud(groups, alt="none")


def test_features_without_a_plane_are_told():
    with pytest.raises(ValueError, match="two features or more"):
        distributions.flat(np.zeros((5, 1)))
