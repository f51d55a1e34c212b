"""The switches of lab 10: which network a setting makes, what is marked in it, and the ranking and the main effects of what was found."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from privlab.experiments import micro_designs
from privlab.notebook import switchboard

TRUTH = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
BLANK = torch.full_like(TRUTH, 0.5)
SWITCHES = {name: micro_designs.SWITCHES[name] for name in ("addition", "norm")}
WORDS = {"addition": ("one behind it", "none behind it"), "norm": ("BatchNorm", "LayerNorm")}
SHARES = {(0, 0): 0.2, (0, 1): 0.4, (1, 0): 0.6, (1, 1): 0.9}  # how much of the photograph was found
FOUND = {one: BLANK.lerp(TRUTH, share) for one, share in SHARES.items()}


@pytest.fixture(scope="module")
def board():
    return switchboard.Switchboard(9, SWITCHES, WORDS, FOUND, TRUTH)


def part(page, setting):
    """What is seen of a setting."""
    return re.search(
        rf'<div data-setting="{setting}".*?(?=<div data-setting=|<p style="margin:\.8em)', page, re.DOTALL
    )[0]


def test_settings_are_ranked_and_said_in_words(board):
    assert board.ranked == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert board.said((1, 0)) == "none behind it, BatchNorm"
    assert repr(board).endswith("(none behind it, LayerNorm)") and "over 4 settings of 2 switches" in repr(board)


def test_a_setting_changes_what_its_switches_say(board):
    assert board.changes((0, 1)) == {"activations": "111", "norm": "ln"}
    assert board.layers[0, 0]["a block"][-1] == "ReLU" or board.layers[0, 0]["a block"][-1] == "GELU"
    assert board.layers[1, 1]["a block"][-1] == "add the shortcut"
    assert "LayerNorm" in board.layers[1, 1]["the stem"] and "BatchNorm" not in board.layers[1, 1]["a block"]


def test_a_main_effect_is_the_mean_where_it_is_on_minus_the_mean_where_it_is_off(board):
    db = board.psnr
    assert board.effects["addition"] == pytest.approx((db[1, 0] + db[1, 1] - db[0, 0] - db[0, 1]) / 2)
    assert board.effects["norm"] == pytest.approx((db[0, 1] + db[1, 1] - db[0, 0] - db[1, 0]) / 2)


def test_all_switches_are_off_and_one_setting_is_seen(board):
    page = board.tag()
    assert page.count('<input type="checkbox"') == page.count("<label") == 2 and " checked" not in page.replace(
        ".checked", ""
    )
    assert re.findall(r'<div data-setting="(\d+)"( hidden)?>', page) == [
        ("00", ""), ("01", " hidden"), ("10", " hidden"), ("11", " hidden")
    ]  # fmt: skip
    assert re.findall(r'data-thumb="(\d+)"', page) == ["00", "01", "10", "11"]  # in the order of the ranking


def test_what_a_switch_changes_is_marked(board):
    page = board.tag()
    assert "changed" not in part(page, "00") and "gone" not in part(page, "00")
    assert "<strong>changed: </strong>LayerNorm" in part(page, "01") and "gone" not in part(page, "01")
    assert re.search("gone: (ReLU|GELU)<", part(page, "10")) and "number 2 of 4" in part(page, "10")
    alts = re.findall(r"<img[^>]* alt=\"([^\"]*)\"", page)
    assert len(alts) == page.count("<img") == 3 * len(FOUND) and all(alts)


def test_it_takes_all_sixteen_of_the_lab():
    settings = [*itertools.product((0, 1), repeat=4)]
    words = WORDS | {"stem": ("7 x 7", "4 x 4"), "kind": ("ReLU", "GELU")}
    whole = switchboard.Switchboard(9, micro_designs.SWITCHES, words, dict.fromkeys(settings, BLANK), TRUTH)
    assert len(whole.layers) == 16 and any("4 x 4" in layer for layer in whole.layers[0, 1, 0, 0]["the stem"])


@pytest.mark.parametrize(
    ("words", "found", "message"),
    [
        ({"addition": ("a", "b")}, FOUND, "words: 'norm' needs two"),
        (WORDS, {(0, 0): BLANK}, r"found: there is no image for \(0, 1\); give one for each of 4"),
    ],
)
def test_bad_input(words, found, message):
    with pytest.raises(ValueError, match=message):
        switchboard.Switchboard(9, SWITCHES, words, found, TRUTH)
