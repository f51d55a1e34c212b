"""Grids of images, read back pixel by pixel."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from privlab.notebook import plots

RED, BLUE = (torch.tensor(c).view(1, 3, 1, 1).expand(1, 3, 4, 4) for c in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]))


def opened(picture: plots.Picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.png)))


def test_images_keep_their_colours_and_order() -> None:
    shown = opened(plots.side_by_side(RED, BLUE, titles=["", ""], alt="Red, then blue."))
    middle, left, right = shown.shape[0] // 2, shown.shape[1] // 4, 3 * shown.shape[1] // 4
    assert shown[middle, left].tolist() == [255, 0, 0]
    assert shown[middle, right].tolist() == [0, 0, 255]


def test_rows_stand_below_each_other() -> None:
    shown = opened(plots.images({"red": RED, "blue": BLUE}, alt="Red above blue."))
    column = [tuple(pixel) for pixel in shown[:, 100].tolist()]
    assert column.index((255, 0, 0)) < column.index((0, 0, 255))


def test_small_images_are_enlarged_without_smoothing() -> None:
    board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).view(1, 1, 2, 2)
    shown = opened(plots.images({"": board}, alt="A chequered board."))
    assert {tuple(p) for p in shown[10:-30, :300].reshape(-1, 3).tolist()} == {(0, 0, 0), (255, 255, 255)}


def test_smooth_enlarges_and_has_no_edges_between_pixels() -> None:
    steps = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(1, 1, 4, 2)
    large = plots.smooth(steps, 16)
    assert large.shape == (1, 1, 32, 16) and large[0, 0, 16].diff().abs().max() < 0.3


def test_shown_clamped() -> None:
    over = plots.side_by_side(RED * 7 - BLUE, titles=["x"], alt="x")
    assert over.png == plots.side_by_side(RED, titles=["x"], alt="x").png


def test_grey_is_shown_grey() -> None:
    shown = opened(plots.side_by_side(torch.full((1, 1, 4, 4), 0.5), titles=["x"], alt="x"))
    assert shown[shown.shape[0] // 2, shown.shape[1] // 2].tolist() == [128, 128, 128]


def test_more_than_eight_images_wrap() -> None:
    eight, nine = (plots.images({"x": RED.expand(n, 3, 4, 4)}, alt="x") for n in (8, 9))
    assert eight.width == nine.width
    assert opened(nine).shape[0] > opened(eight).shape[0] + 100


def test_long_titles_wrap_within_their_image(figures: list[Figure]) -> None:
    plots.side_by_side(*[RED] * 6, titles=["recovered by the server from bfloat16"] * 6, alt="x")
    (figure,) = figures
    boxes = [text.get_window_extent() for text in figure.texts]
    assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))
    assert min(box.y0 for box in boxes) >= 0


def test_a_word_shrinks_before_it_breaks(figures: list[Figure]) -> None:
    for many, word in ((6, "photographs"), (7, "photograph"), (8, "attention")):
        cells = [torch.zeros(1, 3, 8, 8)] * many
        plots.side_by_side(*cells, titles=[word, *["b"] * (many - 1)], alt="One word below the first of many.")
        caption = figures[-1].texts[0]
        assert caption.get_text() == word and caption.get_window_extent().x0 >= 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.side_by_side(RED, titles=[], alt="x"), "titles: got 0 for 1 images; give one each"),
        (
            lambda: plots.side_by_side(RED.expand(2, 3, 4, 4), titles=["a"], alt="x"),
            r"got \[2\] images; .* plots.images",
        ),
        (lambda: plots.side_by_side(titles=[], alt="x"), "images: got none"),
        (lambda: plots.images({}, alt="x"), "images: got none"),
        (lambda: plots.images({"a": RED[0]}, alt="x"), r"got shape \(3, 4, 4\); give \(batch, 1 or 3, height, width\)"),
        (lambda: plots.images({"a": RED[:, :2]}, alt="x"), r"got shape \(1, 2, 4, 4\)"),
        (lambda: plots.images({"a": RED / 0}, alt="x"), "NaN among the pixels"),
        (lambda: plots.images({"a": RED.byte()}, alt="x"), "got torch.uint8; give floats, black at 0 and white at 1"),
        (lambda: plots.images({"a": RED}, "x", {"b": ["1"]}), r"there is no row 'b'; the rows are \['a'\]"),
        (
            lambda: plots.images({"a": RED}, "x", {"a": ["1", "2"]}),
            "captions: 2 for the 1 images of 'a'; give one each",
        ),
    ],
)
def test_bad_images(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_captions_do_not_run_into_each_other(figures: list[Figure]) -> None:
    digits = ["0.000001: SSIM 0.72, gradients 0.00055 apart", "BatchNorm, evaluation: 11 dB", "photograph"]
    for count in (5, 8):
        plots.side_by_side(*[torch.rand(1, 3, 8, 8)] * count, titles=(digits * 3)[:count], alt="Noise.")
        boxes = [text.get_window_extent() for text in figures[-1].texts]
        assert len(boxes) == count
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
        assert "photograph" in [text.get_text() for text in figures[-1].texts]  # a word is smaller, not broken


def test_a_strip_comes_apart_into_its_images():
    strip = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    images = plots.tiles(strip, 2)  # two rows of three
    assert images.shape == (6, 3, 2, 2)
    assert (images[4].permute(1, 2, 0) * 255).round().numpy().tolist() == strip[2:4, 2:4].tolist()
    with pytest.raises(ValueError, match="side=4 does not divide a strip of 4 x 6"):
        plots.tiles(strip, 4)
