"""Grids of images, read back pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from privlab.notebook import plots

RED, BLUE = (torch.tensor(c).view(1, 3, 1, 1).expand(1, 3, 4, 4) for c in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]))


def opened(picture: plots.Picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))


def test_images_keep_their_colours_clamped_and_their_order() -> None:
    shown = opened(plots.side_by_side(RED * 7 - BLUE, BLUE, titles=["", ""], alt="Red, then blue."))
    middle, left, right = shown.shape[0] // 2, shown.shape[1] // 4, 3 * shown.shape[1] // 4
    assert (shown[middle, left].tolist(), shown[middle, right].tolist()) == ([255, 0, 0], [0, 0, 255])
    shown = opened(plots.images({"red": RED, "blue": BLUE}, alt="Red above blue."))
    column = [tuple(pixel) for pixel in shown[:, 100].tolist()]
    assert column.index((255, 0, 0)) < column.index((0, 0, 255))


def test_small_images_are_enlarged_without_smoothing_and_grey_is_shown_grey() -> None:
    board = torch.tensor([[0.0, 1.0], [1.0, 0.5]]).view(1, 1, 2, 2)
    shown = opened(plots.images({"": board}, alt="A chequered board."))
    assert {tuple(p) for p in shown[10:-30, 10:-10].reshape(-1, 3).tolist()} == {(g,) * 3 for g in (0, 128, 255)}


def test_smooth_enlarges_and_has_no_edges_between_pixels() -> None:
    steps = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(1, 1, 4, 2)
    large = plots.smooth(steps, 16)
    assert large.shape == (1, 1, 32, 16) and large[0, 0, 16].diff().abs().max() < 0.3


def test_more_than_eight_images_wrap() -> None:
    eight, nine = (plots.images({"x": RED.expand(n, 3, 4, 4)}, alt="x") for n in (8, 9))
    assert eight.width == nine.width and opened(nine).shape[0] > opened(eight).shape[0] + 90


@pytest.mark.parametrize("count", [2, 5, 6, 8])
def test_captions_stay_below_their_image_and_a_word_is_smaller_rather_than_broken(count: int) -> None:
    words = ["0.000001: SSIM 0.72, gradients 0.00055 apart", "BatchNorm, evaluation: 11 dB", "photograph"]
    shown, bare = (
        plots.side_by_side(*[torch.rand(1, 3, 8, 8)] * count, titles=titles, alt="Noise.")
        for titles in ((words * 3)[:count], [""] * count)
    )
    assert shown.width == bare.width <= 576 and opened(shown).shape[0] > opened(bare).shape[0] + 20


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.side_by_side(RED, titles=[], alt="x"), "titles: 0 for 1 batches of 1 images; give one each"),
        (lambda: plots.images({"a": RED[0]}, alt="x"), r"got shape \(3, 4, 4\); give \(batch, 1 or 3, height, width\)"),
        (lambda: plots.images({"a": RED / 0}, alt="x"), "NaN among the pixels"),
        (
            lambda: plots.images({"a": RED}, "x", {"a": ["1", "2"]}),
            "captions: 2 for the 1 images of 'a'; give one each",
        ),
    ],
)
def test_bad_images(draw, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


def test_a_strip_comes_apart_into_its_images() -> None:
    strip = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    images = plots.tiles(strip, 2)  # two rows of three
    assert images.shape == (6, 3, 2, 2)
    assert (images[4].permute(1, 2, 0) * 255).round().numpy().tolist() == strip[2:4, 2:4].tolist()
