"""Charts of measured numbers: what the axes hold is read back; what cannot be drawn is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from colours import contrast
from markup import Page
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
    plots.lines({"a": ([1, 10], [1, 10], [5, 5])}, xlabel="x", ylabel="y", log="xy", alt="One line.")
    ax = figures[-1].axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylim()[0] > 1e-3  # a band that reaches below zero does not stretch a log axis


def test_spectrum_counts_zeros(figures: list[Figure]) -> None:
    plots.spectrum({"G": [100.0, 10.0, 1.0, 0.0, 0.0], "H": [1.0]}, alt="Two spectra.")
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


def test_heat_is_a_table_that_says_what_it_is() -> None:
    cells = [[1, 2], [3, math.nan]]
    table = plots.heat(cells, rows=["a", "b"], columns=["c", "d"], xlabel="x", ylabel="y", unit="dB", alt="Four.")
    page = Page(table.html)
    assert page.texts["caption"] == "dB" and page.texts["td"] == "1.02.03.0"
    assert "".join(page.texts["th"].split()) == "xcdyab" and page.all("div")[0]["aria-label"] == "Four."
    assert re.search(r"row1_col1 \{[^}]*background-color: ?transparent", table.html)  # the NaN stays blank


def test_numbers_of_a_heat_map_can_be_read() -> None:
    values = [np.linspace(0, 1, 101)]
    table = plots.heat(values, rows=["a"], columns=[*map(str, range(101))], xlabel="", ylabel="", unit="", alt="x")
    pairs = re.findall(r"background-color: (#\w+);\s*color: (#\w+)", table.html)
    assert len(pairs) == 101 and min(contrast(*pair) for pair in pairs) >= 4.5  # what WCAG asks of text


def test_a_plane_has_a_look_for_each_group_and_a_line_through_the_front(figures: list[Figure]) -> None:
    groups = {f"group {n}": np.random.default_rng(n).normal(n, 1, (5, 2)) for n in range(14)}
    plots.scatter(groups, xlabel="", ylabel="", alt="fourteen groups")
    drawn = figures[0].axes[0].lines[::2]
    assert [line.get_xydata().tolist() for line in drawn] == [places.tolist() for places in groups.values()]
    assert len({(line.get_color(), line.get_marker(), line.get_markerfacecolor()) for line in drawn}) == len(groups)
    with pytest.raises(ValueError, match="groups: got 15; give 1 to 14"):
        plots.scatter({f"{n}": [0, 0] for n in range(15)}, xlabel="", ylabel="", alt="none")


def test_a_tradeoff_says_what_its_marks_say_and_unfolds_pictures(figures: list[Figure]) -> None:
    points = {"none": [[96, 70], [98, 74]], "<b>": [[90, 60], [92, 66]], "BiDO": [[85, 68], [87, 66]]}
    cards = {name: plots.images({"found": torch.rand(3, 1, 8, 8)}, alt="What was found.") for name in ("none", "<b>")}
    drawn = plots.tradeoff_chart(points, cards, alt="Three defences.")
    told = ["none: task 97.0, attack 72.0, on the front", "<b>: task 91.0, attack 63.0, on the front"]
    assert repr(drawn) == f"Three defences. {'; '.join(told)}; BiDO: task 86.0, attack 67.0"
    assert figures[0].axes[0].lines[-1].get_xydata().tolist() == [[97, 72], [91, 63]]
    page = Page(drawn.html)
    assert page.texts["summary"] == "".join(told) and ["open" in one for one in page.all("details")] == [True, False]
    assert not page.all("b") and not page.all("script") and len({one["name"] for one in page.all("details")}) == 1


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
