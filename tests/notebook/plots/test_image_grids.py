"""Grids of images: words around them, and their pixels read back."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
import torch
from markup import Page
from PIL import Image

from privlab.notebook import plots, sheet

RED, BLUE = (torch.tensor(c).view(1, 3, 1, 1).expand(1, 3, 4, 4) for c in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]))


def opened(markup: str) -> list[np.ndarray]:
    """The images in HTML, as (height, width, 3)."""
    found = re.findall(r"data:image/webp;base64,([^\"]+)", markup)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))).convert("RGB")) for one in found]


def test_images_keep_their_colours_clamped_and_their_order() -> None:
    grid = plots.images({"red": RED * 7 - BLUE, "blue": BLUE}, alt="Red above blue.", captions={"blue": ["7 dB"]})
    red, blue = opened(grid.html)
    assert (red == [255, 0, 0]).all() and (blue == [0, 0, 255]).all()
    assert Page(grid.html).text == "redblue7 dB" and "pixelated" in grid.html
    assert "pixelated" not in plots.images({"": RED}, alt="A face.", smooth=True).html


def test_every_pixel_is_sent_as_it_is_and_grey_is_shown_grey() -> None:
    board = torch.tensor([[0.0, 1.0], [1.0, 0.5]]).view(1, 1, 2, 2)
    (shown,) = opened(plots.side_by_side(board, titles=["a board"], alt="A chequered board.").html)
    assert shown[..., 0].tolist() == shown[..., 2].tolist() == [[0, 255], [255, 128]]


def test_images_of_a_strip_have_a_white_pixel_between() -> None:
    (strip,) = opened(sheet.picture(torch.cat([RED, BLUE]), "Red, then blue.", 90))
    assert strip.shape == (4, 9, 3) and strip[2, 3:6].tolist() == [[255, 0, 0], [255, 255, 255], [0, 0, 255]]


def test_a_grid_is_one_picture_for_who_listens_and_no_alt_breaks_out() -> None:
    alt = 'Truth & "recovery" <side by side>'
    grid = plots.side_by_side(RED, BLUE, titles=["<b>truth</b>", "found"], alt=alt)
    (tag, told), *rest = Page(grid.html).tags
    assert (tag, told["role"], told["aria-label"]) == ("div", "img", alt) and repr(grid) == alt
    assert "b" not in [name for name, _ in rest] and [image["alt"] for image in Page(grid.html).all("img")] == [
        "<b>truth</b>",
        "found",
    ]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.side_by_side(RED, titles=[], alt="x"), "titles: 0 for 1 batches of 1 images; give one each"),
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
