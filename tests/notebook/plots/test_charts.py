"""Charts of measured numbers: what the axes hold is read back; what cannot be drawn is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from colours import contrast
from matplotlib.figure import Figure

from privlab.notebook import plots


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_differ_in_more_than_colour(figures: list[Figure]) -> None:
    series = {f"line {i}": ([1, 2], [i, i + 1]) for i in range(7)}
    plots.lines(series, xlabel="x", ylabel="y", alt="Seven lines.")
    drawn = figures[0].axes[0].lines
    for cue in ("_marker", "_color", "_dash_pattern"):
        looks = {str(getattr(line, cue) if cue != "_marker" else line.get_marker()) for line in drawn}
        assert len(looks) == len(drawn) == 7
    assert legend(figures[0]) == list(series)


def test_lines_show_what_they_are_given(figures: list[Figure]) -> None:
    plots.lines(
        {"float64": ([1, 2, 4], [3, 2, 1], [0.1, 0.2, 0.1]), "float32": ([1, 2, 4], [2, 2, 1])}, live={"float32": ([2], [2])},
        xlabel="batch size", ylabel="PSNR in dB", thresholds={"looks clean": 1.5}, xthresholds={"limit": 3}, alt="Lines.",
    )  # fmt: skip
    (ax,) = figures[0].axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("batch size", "PSNR in dB")
    assert ax.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [4, 1]]
    assert all(float(tick.get_text()) % 1 == 0 for tick in ax.get_xticklabels())  # never between two images
    assert [note.get_text() for note in ax.texts] == ["looks clean", "limit"]
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == pytest.approx((0.9, 3.1))
    assert legend(figures[0]) == ["float64", "float32", "your run"]


def test_an_axis_may_have_words_or_be_logarithmic(figures: list[Figure]) -> None:
    words = ["float64", "float32", "bfloat16"]
    plots.lines({"a": (words, [3, 2, 1], [1, 1, 1])}, xlabel="format", ylabel="dB", alt="One line.")
    assert [tick.get_text() for tick in figures[0].axes[0].get_xticklabels()] == words
    for log in ("", "x", "y", "xy"):
        plots.lines({"a": ([1, 10], [1, 10], [5, 5])}, xlabel="x", ylabel="y", log=log, alt="One line.")
        ax = figures[-1].axes[0]
        assert (ax.get_xscale() == "log", ax.get_yscale() == "log") == ("x" in log, "y" in log)
    assert ax.get_ylim()[0] > 1e-3  # a band that reaches below zero does not stretch a log axis


def test_spectrum_sorts_and_counts_zeros(figures: list[Figure]) -> None:
    plots.spectrum({"G": [1.0, 0.0, 100.0, 10.0, 0.0], "H": [1.0]}, alt="Two spectra.")
    assert figures[0].axes[0].lines[0].get_xydata().tolist() == [[1, 100], [2, 10], [3, 1]]
    assert legend(figures[0]) == ["G (2 exact zeros not shown)", "H"]


@pytest.mark.parametrize("log", [False, True])
def test_dots_show_every_repeat_with_mean_and_deviation(log: bool, figures: list[Figure]) -> None:
    three = [1.0, 2.0, 4.0]
    plots.dots({"ViT": three, "CNN": [0.5]}, xlabel="dB", published={"ViT": 2.5}, log=log, alt="Two groups.")
    (ax,) = figures[0].axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["ViT", "CNN"] and ax.yaxis_inverted()
    of = {line.get_marker(): line for line in ax.lines}
    places = sorted((round(y), x) for x, y in of["o"].get_xydata().tolist())
    assert places == [(0, 1), (0, 2), (0, 4), (1, 0.5)]
    there, back = (np.log, np.exp) if log else (np.asarray, np.asarray)
    mean, std = there(three).mean(), there(three).std(ddof=1)
    (bars,) = ax.collections
    assert of["|"].get_xdata() == pytest.approx([float(back(mean)), 0.5])
    assert [x for bar in bars.get_segments() for x in bar[:, 0]] == pytest.approx(
        [*back([mean - std, mean + std]), 0.5, 0.5]
    )
    assert sorted(legend(figures[0])) == ["geometric mean and std" if log else "mean ± std", "one repeat", "the paper"]


def test_heat_prints_its_numbers(figures: list[Figure]) -> None:
    cells = [[1, 2], [3, math.nan]]
    plots.heat(cells, rows=["a", "b"], columns=["c", "d"], xlabel="x", ylabel="y", unit="dB", alt="A table.")
    (ax,) = figures[0].axes
    assert [text.get_text() for text in ax.texts] == ["1.0", "2.0", "3.0"]  # the NaN stays blank
    assert [text.get_position() for text in ax.texts] == [(0.5, 0.5), (1.5, 0.5), (0.5, 1.5)] and ax.yaxis_inverted()
    assert [label.get_text() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())] == ["c", "d", "a", "b"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title("left")) == ("x", "y", "dB")


@pytest.mark.parametrize("value", np.linspace(0, 1, 11))
def test_numbers_of_a_heat_map_can_be_read(value: float, figures: list[Figure]) -> None:
    plots.heat([[0, value, 1]], rows=["a"], columns=["b", "c", "d"], xlabel="", ylabel="", unit="", alt="Three cells.")
    ax = figures[0].axes[0]
    ground = ax.collections[0].get_facecolors()[1]
    assert contrast(ground[:3], ax.texts[1].get_color()) >= 4.5  # what WCAG asks of text


@pytest.mark.parametrize(
    ("series", "log", "message"),
    [
        ({str(i): ([1], [1]) for i in range(8)}, "", "series: got 8; give 1 to 7, as more cannot be told apart"),
        ({"a": ([1, 2], [1, math.inf])}, "", "'a' holds inf, which no axis can show; leave it out and say so"),
        ({"a": ([1, 2], [1, 0])}, "y", "'a' holds 0, which no log axis can show"),
    ],
)
def test_what_no_axis_can_show_is_named(series: dict, log: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plots.lines(series, log=log, xlabel="x", ylabel="y", alt="x")
