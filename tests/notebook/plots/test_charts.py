"""Charts of measured numbers: what the axes hold is read back; what cannot be drawn is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from colours import contrast
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from privlab.notebook import plots

DRAW: dict[str, Callable[[str], plots.Picture]] = {
    "lines": lambda alt: plots.lines(
        {"float64": ([1, 2, 4], [3, 2, 1], [0.1, 0.2, 0.1]), "float32": ([1, 2, 4], [2, 2, 1])},
        xlabel="batch size", ylabel="PSNR in dB", thresholds={"looks clean": 1.5}, xthresholds={"limit": 3}, alt=alt,
    ),
    "dots": lambda alt: plots.dots({"ViT": [1, 2, 3], "CNN": [0.5]}, xlabel="dB", published={"ViT": 2.5}, alt=alt),
    "heat": lambda alt: plots.heat(
        [[1, 2], [3, math.nan]], rows=["a", "b"], columns=["c", "d"], xlabel="x", ylabel="y", unit="dB", alt=alt
    ),
}  # fmt: skip


def test_lines_differ_in_more_than_colour(figures: list[Figure]) -> None:
    series = {f"line {i}": ([1, 2], [i, i + 1]) for i in range(7)}
    plots.lines(series, xlabel="x", ylabel="y", alt="Seven lines.")
    drawn = figures[0].axes[0].lines
    assert len(drawn) == 7
    for cue in ("get_marker", "get_color", "_dash_pattern"):
        assert len({str(getattr(line, cue)() if cue[0] == "g" else getattr(line, cue)) for line in drawn}) == 7
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == list(series)


def test_lines_show_what_they_are_given(figures: list[Figure]) -> None:
    DRAW["lines"]("Two lines.")
    (ax,) = figures[0].axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("batch size", "PSNR in dB")
    assert ax.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [4, 1]]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "4"]
    assert [note.get_text() for note in ax.texts] == ["looks clean", "limit"]
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == pytest.approx((0.9, 3.1))


def test_words_on_the_axis(figures: list[Figure]) -> None:
    words = ["float64", "float32", "bfloat16"]
    plots.lines({"a": (words, [3, 2, 1], [1, 1, 1])}, xlabel="format", ylabel="dB", alt="One line.")
    assert [tick.get_text() for tick in figures[0].axes[0].get_xticklabels()] == words


def test_log_axes(figures: list[Figure]) -> None:
    for log in ("", "x", "y", "xy"):
        plots.lines({"a": ([1, 10], [1, 10], [5, 5])}, xlabel="x", ylabel="y", log=log, alt="One line.")
        ax = figures[-1].axes[0]
        assert (ax.get_xscale() == "log", ax.get_yscale() == "log") == ("x" in log, "y" in log)
    assert ax.get_ylim()[0] > 1e-3  # a band that reaches below zero does not stretch a log axis


def test_spectrum_sorts_and_counts_zeros(figures: list[Figure]) -> None:
    plots.spectrum({"G": [1.0, 0.0, 100.0, 10.0, 0.0], "H": [1.0]}, alt="Two spectra.")
    line = figures[0].axes[0].lines[0]
    assert line.get_xydata().tolist() == [[1, 100], [2, 10], [3, 1]]
    assert [t.get_text() for t in figures[0].legends[0].get_texts()] == ["G (2 exact zeros not shown)", "H"]


def test_dots_show_every_repeat(figures: list[Figure]) -> None:
    DRAW["dots"]("Two groups.")
    (ax,) = figures[0].axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["ViT", "CNN"]
    assert ax.yaxis_inverted()  # the first on top
    (repeats,) = (line for line in ax.lines if line.get_marker() == "o")
    places = sorted((round(y), x) for x, y in repeats.get_xydata().tolist())
    assert places == [(0, 1), (0, 2), (0, 3), (1, 0.5)]
    assert intervals(ax) == ([2, 0.5], [[1, 3], []])  # 2 ± 1, and none of a single repeat
    assert sorted(t.get_text() for t in figures[0].legends[0].get_texts()) == ["mean ± std", "one repeat", "the paper"]


def intervals(ax: Axes) -> tuple[list[float], list[list[float]]]:
    """The means that a chart of dots marks, and the ends of the bars through them, row by row."""
    (means,) = (line for line in ax.lines if line.get_marker() == "|")
    (bars,) = ax.collections
    return means.get_xdata().tolist(), [[x for x, _ in bar.tolist()] for bar in bars.get_segments()]


def test_on_a_log_axis_mean_and_deviation_are_those_of_the_logarithms(figures: list[Figure]) -> None:
    values = [1e-3, 1e-1, 4.0]
    plots.dots({"a": values}, xlabel="error", log=True, alt="One group.")
    means, (bar,) = intervals(figures[0].axes[0])
    logs = np.log(values)
    assert means == pytest.approx([np.exp(logs.mean())])
    assert bar == pytest.approx(np.exp([logs.mean() - logs.std(ddof=1), logs.mean() + logs.std(ddof=1)]))
    assert figures[0].legends[0].get_texts()[1].get_text() == "geometric mean and std"


def apart(labels: Sequence[Text], side: str) -> bool:
    """Whether labels along an axis leave a gap, where `side` is the direction of the axis: x or y."""
    boxes = [label.get_window_extent() for label in labels if label.get_text()]
    ends = sorted(getattr(box, f"interval{side}").tolist() for box in boxes)
    return all(one[1] + 2 < other[0] for one, other in pairwise(ends))


@pytest.mark.parametrize("ends", [(0.6, 0.95), (0.2, 0.9), (0.25, 2.2), (0.01, 1.2)])
def test_the_numbers_of_a_log_axis_stand_apart(ends: tuple[float, float], figures: list[Figure]) -> None:
    plots.dots({"without stage 1's": [*ends, math.sqrt(math.prod(ends))]}, xlabel="norm", log=True, alt="One group.")
    (ax,) = figures[0].axes
    labels = [*ax.get_xticklabels(), *ax.get_xticklabels(minor=True)]
    low, high = ax.get_xlim()
    shown = [label for label in labels if label.get_text() and low <= label.get_position()[0] <= high]
    assert len(shown) >= 2
    assert apart(shown, "x")


def test_a_label_longer_than_its_axis_is_broken_into_lines(figures: list[Figure]) -> None:
    series = {f"{name}_patch16_224.augreg_in21k": ([1, 2], [1, 2]) for name in ("vit_tiny", "vit_small", "vit_base")}
    words = "attack accuracy on the photographs that the victim never saw, over all of its epochs"
    plots.lines(series, xlabel="epoch", ylabel=words, alt="Three lines.")
    plots.dots({name: [1, 2] for name in series}, xlabel=words, alt="Three groups.")
    for figure, label, side in ((figures[0], "yaxis", "height"), (figures[1], "xaxis", "width")):
        (ax,) = figure.axes
        drawn = getattr(ax, label).label
        assert "\n" in drawn.get_text() and drawn.get_text().split() == words.split()
        assert getattr(drawn.get_window_extent(), side) <= getattr(ax.bbox, side)
        assert not any(drawn.get_window_extent().overlaps(legend.get_window_extent()) for legend in figure.legends)


def test_long_names_of_groups_leave_room_for_the_numbers(figures: list[Figure]) -> None:
    kinds = ("network, sorted", "labels, five pictures", "on the victim's training images")
    names = [f"vit_tiny_patch16_224.augreg_in21k: {kind}" for kind in kinds]
    plots.dots({name: [0.525 + k / 40, 0.675] for k, name in enumerate(names)}, xlabel="accuracy", alt="Three groups.")
    (ax,) = figures[0].axes
    assert [label.get_text().split() for label in ax.get_yticklabels()] == [name.split() for name in names]
    assert ax.bbox.width > 0.4 * figures[0].bbox.width
    assert apart(ax.get_xticklabels(), "x") and apart(ax.get_yticklabels(), "y")


def test_x_values_with_many_digits_are_not_written_out(figures: list[Figure]) -> None:
    x = [0.125, 0.46 / 3, 0.58 / 3, 0.65 / 3, 0.8 / 3, 0.34]
    plots.lines({"a": (x, x)}, xlabel="overfitting level", ylabel="accuracy", alt="One line.")
    assert apart(figures[0].axes[0].get_xticklabels(), "x")


def test_heat_prints_its_numbers(figures: list[Figure]) -> None:
    DRAW["heat"]("A table.")
    (ax,) = figures[0].axes
    assert [text.get_text() for text in ax.texts] == ["1.0", "2.0", "3.0"]  # the NaN stays blank
    assert [text.get_position() for text in ax.texts] == [(0.5, 0.5), (1.5, 0.5), (0.5, 1.5)] and ax.yaxis_inverted()
    assert [label.get_text() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())] == ["c", "d", "a", "b"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title("left")) == ("x", "y", "dB")
    assert not any(label.get_rotation() for label in (*ax.get_xticklabels(), *ax.get_yticklabels()))


@pytest.mark.parametrize("value", np.linspace(0, 1, 11))
def test_numbers_of_a_heat_map_can_be_read(value: float, figures: list[Figure]) -> None:
    plots.heat([[0, value, 1]], rows=["a"], columns=["b", "c", "d"], xlabel="", ylabel="", unit="", alt="Three cells.")
    ax = figures[0].axes[0]
    ground = ax.collections[0].get_facecolors()[1]
    ink = (1.0,) * 3 if ax.texts[1].get_color() == "white" else (0.0,) * 3
    assert contrast(ground[:3], ink) >= 4.5  # what WCAG asks of text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"series": {}}, "series: got 0 lines; give 1 to 7"),
        ({"series": {str(i): ([1], [1]) for i in range(8)}}, "series: got 8 lines; give 1 to 7"),
        ({"series": {"a": ([1, 2], [1])}}, r"series: 'a' has lengths \[2, 1\]"),
        (
            {"series": {"a": ([1, 2], [1, math.inf])}},
            "'a' holds an infinite value, which no axis can show; leave it out",
        ),
        ({"series": {"a": ([1, 2], [1, 0])}, "log": "y"}, "'a' holds 0, which a log axis cannot show"),
        ({"series": {"a": ([-1, 2], [1, 0])}, "log": "x"}, "'a' holds -1, which a log axis cannot show"),
        ({"series": {"a": ([1], [1])}, "log": "z"}, "log='z' names no axes; use '', 'x', 'y' or 'xy'"),
        ({"series": {"a": ([[1]], [1])}}, r"'a': got shape \(1, 1\); give a flat list of values"),
    ],
)
def test_bad_lines(call: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plots.lines(**call, xlabel="x", ylabel="y", alt="x")


def test_bad_dots_and_heat() -> None:
    with pytest.raises(ValueError, match=r"there is no group 'b'; the groups are \['a'\]"):
        plots.dots({"a": [1]}, xlabel="x", published={"b": 1}, alt="x")
    with pytest.raises(ValueError, match=r"groups=\{\} holds nothing to draw"):
        plots.dots({}, xlabel="x", alt="x")
    with pytest.raises(ValueError, match="'a' holds no values"):
        plots.dots({"a": []}, xlabel="x", alt="x")
    with pytest.raises(ValueError, match="'a' holds NaN"):
        plots.dots({"a": [1, math.nan]}, xlabel="x", alt="x")
    with pytest.raises(ValueError, match="'a' holds an infinite value"):
        plots.dots({"a": [math.inf]}, xlabel="x", alt="x")
    with pytest.raises(ValueError, match=r"matrix: got shape \(1, 2\) for 2 rows and 2 columns; match them"):
        plots.heat([[1, 2]], rows=["a", "b"], columns=["c", "d"], xlabel="", ylabel="", unit="", alt="x")


def test_scatter_names_its_points_and_refuses_what_no_axis_shows():
    one = plots.scatter({"1": (1.0, 10.0), "2": (2.0, 20.0)}, xlabel="rank", ylabel="dB", alt="two points")
    other = plots.scatter({"1": (1.0, 10.0), "3": (2.0, 20.0)}, xlabel="rank", ylabel="dB", alt="two points")
    assert one.png != other.png and one.alt == "two points"
    with pytest.raises(ValueError, match=r"points=\{\} holds nothing to draw"):
        plots.scatter({}, xlabel="rank", ylabel="dB", alt="none")
    with pytest.raises(ValueError, match="'2' holds an infinite value"):
        plots.scatter({"1": (1.0, 1.0), "2": (float("inf"), 1.0)}, xlabel="rank", ylabel="dB", alt="two")
