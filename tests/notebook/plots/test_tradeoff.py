"""The plane: marks where the numbers are, cards that belong to them, and nothing that needs a script."""

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


def drawn(**changes):
    return plots.tradeoff_chart(
        POINTS, {name: card(name) for name in ("none", "RoLSS")}, alt="Three defences.", **changes
    )


def test_places_are_where_the_marks_are():
    made = drawn()
    image = np.asarray(Image.open(io.BytesIO(made.chart.png)))
    for i, (x, y) in enumerate(made.places.values()):
        pixel = image[round(y * image.shape[0]), round(x * image.shape[1])]
        assert "#{:02X}{:02X}{:02X}".format(*pixel) == COLOURS[i]
    (x0, y0), (x1, y1), _ = made.places.values()
    assert x0 > x1 and y0 < y1  # more accurate is to the right, more for the attacker is above


def test_words_say_what_the_marks_say():
    words = drawn().words
    assert words["none"] == "none: task 97.0, attack 72.0, on the front"
    assert words["RoLSS"] == "RoLSS: task 91.0, attack 63.0, on the front"
    assert words["BiDO"] == "BiDO: task 86.0, attack 67.0"
    assert all(word in repr(drawn()) for word in words.values())


def test_each_card_has_a_place_that_takes_the_tab_key_and_a_rule():
    page = drawn().tag("q")
    assert page.count('tabindex="0"') == 2 == page.count('class="card ')
    for i in range(2):
        assert f".place.q{i}:is(:hover,:focus)) .card.q{i}" in page
    assert "<script" not in page and "http" not in page
    alts = re.findall(r'<img [^>]*alt="([^"]*)"', page)
    assert alts == ["Three defences.", "What was found of none.", "What was found of RoLSS."]
    assert "Point at" in page and "Point at" not in plots.tradeoff_chart(POINTS, alt="No cards.").tag()


def test_two_planes_on_a_page_share_no_rule():
    cards = {"none": card("none")}
    one, other = (plots.tradeoff_chart({k: np.add(v, up) for k, v in POINTS.items()}, cards, alt="x") for up in (0, 1))
    rules = [set(re.findall(r"\.card\.(\S+?)\{", p._repr_mimebundle_()["text/html"])) for p in (one, other)]
    assert not rules[0] & rules[1]


def test_the_cards_have_room():
    tall = drawn().tall
    width, height = Image.open(io.BytesIO(card("x").png)).size
    assert tall == pytest.approx(card("x").width * height / width + 34, abs=1)


def test_a_name_with_markup_stays_text():
    page = plots.tradeoff_chart({"<b>": [[1, 2]]}, {"<b>": card("x")}, alt="x").tag()
    assert "&lt;b&gt;: task 1.0" in page and "<b><b>" not in page


@pytest.mark.parametrize(
    ("points", "cards", "message"),
    [
        ({}, {}, r"points: got 0; give 1 to 14"),
        ({"a": [1, 2]}, {}, r"points: 'a' has shape \(2,\); give finite pairs"),
        ({"a": [[1, float("nan")]]}, {}, r"points: 'a' has shape \(1, 2\); give finite"),
        ({"a": [[1, 2]]}, {"b": None}, r"cards: there is no 'b' among the points; they are \['a'\]"),
    ],
)
def test_bad_input(points, cards, message):
    with pytest.raises(ValueError, match=message):
        plots.tradeoff_chart(points, cards, alt="x")


def test_an_alt_is_asked_for():
    with pytest.raises(ValueError, match="alt="):
        plots.tradeoff_chart(POINTS, alt=" ")
