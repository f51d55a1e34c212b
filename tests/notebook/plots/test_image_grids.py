"""Grids of images: words around them, and their pixels read back."""

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


def opened(markup):
    """The images in HTML, as (height, width, 3)."""
    found = re.findall(r"data:image/webp;base64,([^\"]+)", markup)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))).convert("RGB")) for one in found]


def test_images_keep_their_colours_clamped_and_their_order():
    grid = plots.images({"red": RED * 7 - BLUE, "blue": BLUE}, alt="Red above blue.", captions={"blue": ["7 dB"]})
    red, blue = opened(grid.html)
    assert (red == [255, 0, 0]).all() and (blue == [0, 0, 255]).all()
    assert Page(grid.html).text == "redblue7 dB" and "pixelated" in grid.html
    board = torch.tensor([[0.0, 1.0], [1.0, 0.5]]).view(1, 1, 2, 2)
    (shown,) = opened(plots.side_by_side(board, titles=["a board"], alt="A chequered board.").html)
    assert shown[..., 0].tolist() == shown[..., 2].tolist() == [[0, 255], [255, 128]]  # grey is shown grey
    (strip,) = opened(sheet.picture(torch.cat([RED, BLUE]), "Red, then blue.", 90))
    assert strip.shape == (4, 9, 3) and strip[2, 3:6].tolist() == [[255, 0, 0], [255, 255, 255], [0, 0, 255]]


def test_a_grid_is_one_picture_for_who_listens_and_no_alt_breaks_out():
    alt = 'Truth & "recovery" <side by side>'
    grid = plots.side_by_side(RED, BLUE, titles=["<b>truth</b>", "found"], alt=alt)
    page = Page(grid.html)
    (tag, told), *_ = page.tags
    assert (tag, told["role"], told["aria-label"]) == ("div", "img", alt) and repr(grid) == alt
    with pytest.raises(ValueError, match="NaN among the pixels"):
        plots.images({"a": RED / 0}, alt="x")
    assert not page.all("b") and [image["alt"] for image in page.all("img")] == ["<b>truth</b>", "found"]


def test_a_strip_comes_apart_into_its_images():
    strip = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    images = plots.tiles(strip, 2)  # two rows of three
    assert images.shape == (6, 3, 2, 2)
    assert (images[4].permute(1, 2, 0) * 255).round().numpy().tolist() == strip[2:4, 2:4].tolist()
