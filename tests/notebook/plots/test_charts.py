"""Charts of measured numbers: what the axes hold is read back, some of it held against the definition."""

import math
import re

import numpy as np
import pytest
from colours import contrast
from markup import Page

from privlab.metrics.roc import curve
from privlab.notebook import plots
from privlab.notebook.plots.picture import COLOURS

CURVES = {
    "ViT": [curve([3, 2.5, 2, 1, 0.5, 0.2], [True, True, False, True, False, False])],
    "CNN": [curve(np.arange(2_000), np.arange(2_000) % k > 0) for k in (2, 3)],
}


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_show_what_they_are_given(figures):
    plots.lines(
        {"float64": ([1, 2, 4], [3, 2, 1], [0.1, 0.2, 0.1]), "float32": ([1, 2, 4], [2, 2, 1])}, live={"float32": ([2], [2])},
        xlabel="batch size", ylabel="PSNR in dB", thresholds={"looks clean": 1.5}, xthresholds={"limit": 3}, alt="Lines.",
    )  # fmt: skip
    (ax,) = figures[0].axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("batch size", "PSNR in dB")
    assert ax.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [4, 1]]
    assert all(float(tick.get_text()) % 1 == 0 for tick in ax.get_xticklabels())  # never between two images
    assert [note.get_text() for note in ax.texts] == ["looks clean", "limit"]
    corners = ax.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == pytest.approx((0.9, 3.1))
    assert legend(figures[0]) == ["float64", "float32", "your run"]


def test_an_axis_may_have_words_or_be_logarithmic_and_what_it_cannot_show_is_named(figures):
    words = ["float64", "float32", "bfloat16"]
    plots.lines({"a": (words, [3, 2, 1], [1, 1, 1])}, xlabel="format", ylabel="dB", alt="One line.")
    plots.lines({"a": ([1, 10], [1, 10], [5, 5])}, xlabel="x", ylabel="y", log="xy", alt="One line.")
    formats, both = (figure.axes[0] for figure in figures)
    assert [tick.get_text() for tick in formats.get_xticklabels()] == words
    assert both.get_xscale() == both.get_yscale() == "log"
    assert both.get_ylim()[0] > 1e-3  # a band that reaches below zero does not stretch a log axis
    for worst in (math.inf, 0):
        with pytest.raises(ValueError, match=f"'a' holds {worst}, which no log axis"):
            plots.lines({"a": ([1, 2], [1, worst])}, log="y", xlabel="x", ylabel="y", alt="x")


@pytest.mark.parametrize("log", [False, True])
def test_dots_show_every_repeat_with_mean_and_deviation(log, figures):
    three = [1.0, 2.0, 4.0]
    plots.dots({"ViT": three, "CNN": [0.5]}, xlabel="dB", published={"ViT": 2.5}, log=log, alt="Two groups.")
    (ax,) = figures[0].axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["ViT", "CNN"] and ax.yaxis_inverted()
    places = [[round(y), x] for line in ax.lines if line.get_marker() == "o" for x, y in line.get_xydata().tolist()]
    assert places == [[0, 1], [0, 2], [0, 4], [1, 0.5]]
    there, back = (np.log, np.exp) if log else (np.asarray, np.asarray)
    mean, std = there(three).mean(), there(three).std(ddof=1)
    means = [line.get_xdata() for line in ax.lines if line.get_marker() == "|"]
    assert np.ravel(means) == pytest.approx([float(back(mean)), 0.5])
    ends = [x for bars in ax.collections for bar in bars.get_segments() for x in bar[:, 0]]
    assert ends == pytest.approx([*back([mean - std, mean + std]), 0.5, 0.5])
    assert sorted(legend(figures[0])) == ["geometric mean and std" if log else "mean ± std", "one repeat", "the paper"]


def test_a_front_joins_the_means_that_no_other_beats_and_is_told_in_words(figures):
    points = {"none": [[96, 70], [98, 74]], "BiDO": [[85, 68], [87, 66]], "RoLSS": [[90, 60], [92, 66]]}
    drawn = plots.scatter(points, front=True, xlabel="task", ylabel="attack", alt="Three defences.")
    assert repr(drawn) == "Three defences. On the front: none, RoLSS."
    assert figures[0].axes[0].lines[-1].get_xydata().tolist() == [[97, 72], [91, 63]]


def test_heat_is_a_table_that_says_what_it_is_and_whose_numbers_can_be_read():
    cells = [[1, 2], [3, math.nan]]
    table = plots.heat(cells, rows=["a", "b"], columns=["c", "d"], xlabel="x", ylabel="y", unit="dB", alt="Four.")
    page = Page(table.html)
    assert page.texts["caption"] == "dB" and page.texts["td"] == "1.02.03.0"
    assert "".join(page.texts["th"].split()) == "xcdyab" and page.all("div")[0]["aria-label"] == "Four."
    assert re.search(r"row1_col1 \{[^}]*background-color: ?transparent", table.html)  # the NaN stays blank
    values = [np.linspace(0, 1, 101)]
    table = plots.heat(values, rows=["a"], columns=[*map(str, range(101))], xlabel="", ylabel="", unit="", alt="x")
    pairs = re.findall(r"background-color: (#\w+);\s*color: (#\w+)", table.html)
    assert len(pairs) == 101 and min(contrast(*pair) for pair in pairs) >= 4.5  # what WCAG asks of text


def test_roc_by_hand(figures):
    plots.roc(CURVES, alt="x")
    (ax,) = figures[0].axes
    vit = next(line for line in ax.lines if line.get_color() == COLOURS[0])
    # three non-members: nothing is known of a rate below a third, and there the best threshold finds all members
    assert vit.get_xydata() == pytest.approx(np.array([[100 / 3, 100], [200 / 3, 100], [100, 100]]))
    assert vit.get_drawstyle() == "steps-post" and (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlim() == pytest.approx((0.1, 100))  # of the curve with the most non-members
    assert legend(figures[0]) == ["chance", "ViT", "CNN (2 curves)"]
    labels = {tick.get_text() for tick in ax.get_xticklabels()}
    assert {"0.1", "1", "10", "100"} <= labels and [note.get_text() for note in ax.texts] == ["FPR 0.1%", "FPR 1%"]
