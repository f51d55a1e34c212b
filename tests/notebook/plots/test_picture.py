"""What every figure has: its alt text, its size, letters that can be read, the same bytes for the same input; and the colours."""

from __future__ import annotations

import gc
import io
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from colorspacious import cspace_convert, deltaE
from markup import Page
from matplotlib import pyplot, rcParams, rcParamsDefault
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from privlab.notebook import plots
from privlab.notebook.plots import picture

RED, BLUE = (torch.tensor(c).view(1, 3, 1, 1).expand(1, 3, 4, 4) for c in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]))

DRAW: dict[str, Callable[[str], plots.Picture]] = {
    "side_by_side": lambda alt: plots.side_by_side(RED, BLUE, titles=["truth", "recovered · 110 dB"], alt=alt),
    "images": lambda alt: plots.images({"truth": RED, "found": BLUE}, alt, captions={"found": ["7.1 dB"]}),
    "lines": lambda alt: plots.lines(
        {"float64": ([1, 2, 4], [3, 2, 1], [0.1, 0.2, 0.1]), "float32": ([1, 2, 4], [2, 2, 1])},
        xlabel="batch size", ylabel="PSNR in dB", thresholds={"looks clean": 1.5}, xthresholds={"limit": 3}, alt=alt,
    ),
    "spectrum": lambda alt: plots.spectrum({"G": torch.tensor([1.0, 10.0, 0.1])}, cutoffs={"float32": 1e-3}, alt=alt),
    "dots": lambda alt: plots.dots({"ViT": [1, 2, 3], "CNN": [0.5]}, xlabel="dB", published={"ViT": 2.5}, alt=alt),
    "heat": lambda alt: plots.heat(
        [[1, 2], [3, math.nan]], rows=["a", "b"], columns=["c", "d"], xlabel="x", ylabel="y", unit="dB", alt=alt
    ),
}  # fmt: skip


def opened(picture: plots.Picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.png)))


@pytest.mark.parametrize("name", DRAW)
def test_the_alt_text_reaches_the_page(name: str) -> None:
    alt = 'Truth & "recovery" <side by side>, 110 dB'
    bundle = DRAW[name](alt)._repr_mimebundle_()
    assert bundle["text/plain"] == alt
    ((tag, attributes),) = Page(bundle["text/html"]).tags
    assert tag == "img" and attributes["alt"] == alt
    assert attributes["src"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("name", DRAW)
@pytest.mark.parametrize("alt", ["", "  \n", None])
def test_no_picture_without_an_alt_text(name: str, alt: str) -> None:
    with pytest.raises(ValueError, match="tells a listener nothing; say in a sentence what the figure shows"):
        DRAW[name](alt)


@pytest.mark.parametrize("name", DRAW)
def test_fits_the_column_and_is_legible(name: str, figures: list[Figure]) -> None:
    picture = DRAW[name]("Something.")
    assert 100 < picture.width <= 576
    assert opened(picture).shape[1] == pytest.approx(1.5 * picture.width, abs=2)  # sharp on a fine screen
    smallest = min(text.get_fontsize() for text in figures[0].findobj(Text) if text.get_text())
    assert smallest * min(1, 327 / picture.width) * 96 / 72 >= 9  # pixels, on a telephone 390 pixels wide


@pytest.mark.parametrize("name", DRAW)
def test_same_input_same_bytes(name: str) -> None:
    assert DRAW[name]("Something.").png == DRAW[name]("Something.").png


def test_redraws_leave_nothing_behind() -> None:
    def alive() -> int:
        while gc.collect():  # what a first pass finalises, a second one frees
            pass
        return sum(type(thing) is Figure for thing in gc.get_objects())

    before = alive()
    for _ in range(3):
        for draw in DRAW.values():
            draw("Something.")
    assert alive() == before


def test_what_a_reader_draws_besides_keeps_its_look() -> None:
    DRAW["dots"]("Something.")  # brings seaborn
    before = dict(rcParams)
    for draw in DRAW.values():
        draw("Something.")
    assert dict(rcParams) == before and not pyplot.get_fignums()
    assert all(before[name] == rcParamsDefault[name] for name in ("axes.grid", "font.size", "axes.prop_cycle"))


def test_pyplot_and_seaborn_stay_out_until_a_chart_is_drawn() -> None:
    rooms = (
        "sys, privlab.notebook.plots.charts, privlab.notebook.plots.distributions, privlab.notebook.plots.image_grids"
    )
    check = f"import {rooms}; assert not {{'matplotlib.pyplot', 'seaborn'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize("deficiency", ["deuteranomaly", "protanomaly", "tritanomaly"])
def test_colours_are_told_apart_by_colour_blind_readers(deficiency: str) -> None:
    """As Machado et al. (2009) model total lack of one cone; a distance of 10 in CAM02-UCS is seen at a glance."""

    def least(colours: Sequence[str]) -> float:
        space = {"name": "sRGB1+CVD", "cvd_type": deficiency, "severity": 100}
        seen = [np.clip(cspace_convert(to_rgb(c), space, "sRGB1"), 0, 1) for c in colours]
        return min(deltaE(a, b, input_space="sRGB1") for a, b in itertools.combinations(seen, 2))

    assert least(picture.COLOURS) > 10
    assert (
        least([f"tab:{c}" for c in ("blue", "orange", "green", "red", "purple", "brown", "pink")]) < 10
    )  # it can fail
