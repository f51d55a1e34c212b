"""The plane: marks where the numbers are, cards that belong to them, and nothing that needs a script."""

import base64
import io
import re

import numpy as np
import pytest
import torch
from PIL import Image

from privlab.notebook import plots
from privlab.notebook.plots.picture import COLOURS

POINTS = {"none": [[96, 70], [98, 74]], "RoLSS": [[90, 60], [92, 66]], "BiDO": [[85, 68], [87, 66]]}


def card(name):
    return plots.images({"found": torch.rand(3, 1, 8, 8)}, alt=f"What was found of {name}.")


def test_places_are_where_the_marks_are_and_take_the_tab_key():
    page = plots.tradeoff_chart(POINTS, {name: card(name) for name in POINTS}, alt="Three defences.").tag()
    png = base64.b64decode(re.search(r"base64,([^\"]+)", page)[1])
    image = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    places = re.findall(r'class="place (\S+)" tabindex="0" role="button" .*?style="left:([\d.]+)%;top:([\d.]+)%', page)
    for colour, (_, x, y) in zip(COLOURS, places, strict=False):
        pixel = image[round(float(y) / 100 * image.shape[0]), round(float(x) / 100 * image.shape[1])]
        assert "#{:02X}{:02X}{:02X}".format(*pixel) == colour
    for key, *_ in places:
        assert f".place.{key}:is(:hover,:focus)) .card.{key}{{visibility:visible" in page
    assert len(places) == 3 == page.count('class="card ') and "<script" not in page and "http" not in page
    alts = re.findall(r'<img [^>]*alt="([^"]*)"', page)
    assert alts == ["Three defences.", *(f"What was found of {name}." for name in POINTS)]
    assert "Point at" in page and "Point at" not in plots.tradeoff_chart(POINTS, alt="No cards.").tag()


def test_words_say_what_the_marks_say_and_markup_in_a_name_stays_text():
    drawn = plots.tradeoff_chart(POINTS, alt="Three defences.")
    assert repr(drawn) == (
        "Three defences. none: task 97.0, attack 72.0, on the front; RoLSS: task 91.0, attack 63.0, on the front; "
        "BiDO: task 86.0, attack 67.0"
    )
    page = plots.tradeoff_chart({"<b>": [[1, 2]]}, {"<b>": card("x")}, alt="x").tag()
    assert "&lt;b&gt;: task 1.0" in page and "<b><b>" not in page


def test_two_planes_on_a_page_share_no_rule():
    cards = {"none": card("none")}
    one, other = (plots.tradeoff_chart({k: np.add(v, up) for k, v in POINTS.items()}, cards, alt="x") for up in (0, 1))
    rules = [set(re.findall(r"\.card\.(\S+?)\{", drawn.tag())) for drawn in (one, other)]
    assert not rules[0] & rules[1]


def test_an_alt_is_asked_for_and_no_more_than_fourteen():
    with pytest.raises(ValueError, match="alt="):
        plots.tradeoff_chart(POINTS, alt=" ")
    with pytest.raises(ValueError, match="points: got 15; give 1 to 14"):
        plots.tradeoff_chart({str(n): [[n, n]] for n in range(15)}, alt="x")
