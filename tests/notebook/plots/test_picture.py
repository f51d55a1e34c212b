"""What every figure has: its alt text, its size, letters that can be read, a look for each group; and the colours."""

import base64
import io
import itertools
import re

import numpy as np
import pytest
from colorspacious import cspace_convert, deltaE
from markup import Page
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from privlab.metrics.roc import curve
from privlab.notebook import plots
from privlab.notebook.plots import picture

WORDS = "attack accuracy on the photographs that the victim never saw, over all of its epochs"
MODEL = "vit_tiny_patch16_224.augreg_in21k: labels, on the victim's training images"
DRAW = {
    "lines": lambda alt: plots.lines(
        {"float64": ([1, 2, 4], [3, 2, 1], [0.1, 0.2, 0.1]), MODEL: ([1, 2, 4], [2, 2, 1])},
        xlabel=WORDS, ylabel=WORDS, thresholds={"threshold on the loss": 1.5}, xthresholds={"limit": 3}, alt=alt,
    ),
    "dots": lambda alt: plots.dots({MODEL: [0.525, 0.675], "CNN": [0.5]}, xlabel=WORDS, published={"CNN": 2.5}, alt=alt),
    "narrow log dots": lambda alt: plots.dots({"a": [0.6, 0.95, 0.7]}, xlabel="norm", log=True, alt=alt),
    "scatter": lambda alt: plots.scatter(
        {f"an attack with a name, number {n}": [n, n] for n in range(14)}, xlabel="rank", ylabel="dB", alt=alt
    ),
    "roc": lambda alt: plots.roc({MODEL: [curve(np.arange(2_000), np.arange(2_000) % k > 0) for k in (2, 3)]}, alt=alt),
}  # fmt: skip


def shown(figure):
    """Every text that can be read: matplotlib keeps the labels of ticks beyond an axis, and does not draw them."""
    hidden = set()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        hidden |= {label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)}
    texts = figure.findobj(lambda artist: isinstance(artist, Text))
    return [text for text in texts if text.get_text() and text.get_visible() and text not in hidden]


@pytest.mark.parametrize("name", DRAW)
def test_it_has_its_alt_text_fits_the_column_is_legible_and_no_words_touch(name, figures):
    alt = 'Truth & "recovery" <side by side>, 110 dB'
    drawn = DRAW[name](alt)
    ((tag, attributes),) = Page(drawn._repr_html_()).tags
    assert repr(drawn).startswith(alt) and tag == "img" and attributes["alt"] == alt
    size = Image.open(io.BytesIO(base64.b64decode(re.search(r"webp;base64,([^\"]+)", drawn.html)[1]))).size
    assert "width:480px" in drawn.html and size[0] == 720 and not pyplot.get_fignums()  # sharp on a fine screen
    figure, seen = figures[0], shown(figures[0])
    for text in seen:
        box = text.get_window_extent()
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= size[0] + 1 and box.y1 <= size[1] + 1, text.get_text()
        assert text.get_fontsize() * 327 / 480 * 96 / 72 >= 9  # pixels, on a telephone 390 pixels wide
    (ax,) = figure.axes
    for labels, ends in ((ax.get_xticklabels(), ("x0", "x1")), (ax.get_yticklabels(), ("y0", "y1"))):
        boxes = [label.get_window_extent() for label in labels if label in seen]
        sides = sorted(tuple(getattr(box, end) for end in ends) for box in boxes)
        assert all(one[1] + 2 < other[0] for one, other in itertools.pairwise(sides))
    for legend in figure.legends:
        titles = [*ax.texts, ax.xaxis.label, ax.yaxis.label]
        assert not any(text.get_window_extent().overlaps(legend.get_window_extent()) for text in titles)
        assert ax.bbox.width > 0.4 * figure.bbox.width


def test_nothing_is_drawn_without_an_alt_text():
    with pytest.raises(ValueError, match="tells a listener nothing; say in a sentence what the figure shows"):
        DRAW["dots"]("  \n")


def test_groups_differ_in_more_than_colour(figures):
    plots.lines({f"line {i}": ([1, 2], [i, i + 1]) for i in range(7)}, xlabel="x", ylabel="y", alt="Seven lines.")
    lines = figures[0].axes[0].lines
    looks = [(line.get_color(), line.get_marker(), str(line._dash_pattern)) for line in lines]
    assert all(len({*cue}) == len(lines) == 7 for cue in zip(*looks, strict=True))
    groups = {f"group {n}": np.random.default_rng(n).normal(n, 1, (5, 2)) for n in range(14)}
    plots.scatter(groups, xlabel="", ylabel="", alt="fourteen groups")
    drawn = figures[1].axes[0].lines[::2]
    assert [line.get_xydata().tolist() for line in drawn] == [places.tolist() for places in groups.values()]
    assert len({(line.get_color(), line.get_marker(), line.get_markerfacecolor()) for line in drawn}) == len(groups)


@pytest.mark.parametrize("deficiency", ["deuteranomaly", "protanomaly", "tritanomaly"])
def test_colours_are_told_apart_by_colour_blind_readers(deficiency):
    """As Machado et al. (2009) model total lack of one cone; a distance of 10 in CAM02-UCS is seen at a glance."""

    def least(colours):
        space = {"name": "sRGB1+CVD", "cvd_type": deficiency, "severity": 100}
        seen = [np.clip(cspace_convert(to_rgb(c), space, "sRGB1"), 0, 1) for c in colours]
        return min(deltaE(a, b, input_space="sRGB1") for a, b in itertools.combinations(seen, 2))

    usual = [f"tab:{c}" for c in ("blue", "orange", "green", "red", "purple", "brown", "pink")]
    assert least(picture.COLOURS) > 10 > least(usual)  # it can fail
