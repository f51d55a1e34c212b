"""Red team and blue team: what a move does, who moves next, what counts, and what is told at the end. Numbers by hand."""

import pytest
import torch

from privlab.course.lab_13.red_blue import BLUE, MOST, RED, Duel
from privlab.notebook.control_sweep import SKIP

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

PHOTOGRAPH = torch.full((1, 3, 8, 8), 0.5)


def off(decibels):
    """An image so far from the photograph."""
    return PHOTOGRAPH + 10 ** (-decibels / 20)


BASELINE = off(12)
BOARD = {  # dB, by defence and attack
    "none": {"algebra": off(150), "search": off(18)},
    "noise": {"algebra": off(11), "search": off(15)},
    "less": {"algebra": off(13), "search": off(10)},
}
COSTS = {"none": 0.0, "noise": 6.0, "less": -0.5}


def game(rounds=3):
    return Duel(PHOTOGRAPH, BASELINE, BOARD, COSTS, rounds)


def test_decibels_above_the_baseline_count_from_0_to_20_and_a_cost_is_added():
    one = game()
    assert one.floor == pytest.approx(12, abs=1e-3)
    assert one.gain("none", "algebra") == MOST == 20  # 138 above it
    assert one.gain("none", "search") == pytest.approx(6, abs=1e-3)
    assert one.gain("noise", "algebra") == 0  # a dB below it
    assert one.loss("noise", "search") == pytest.approx(3 + 6, abs=1e-3)
    assert one.loss("less", "algebra") == pytest.approx(1 - 0.5, abs=1e-3)


def test_the_best_attack_is_the_one_that_recovers_most():
    one = game()
    assert [one.best(name) for name in BOARD] == ["algebra", "search", "algebra"]
    assert [one.worst(name) for name in BOARD] == pytest.approx([20, 9, 0.5], abs=1e-3)


def test_two_players_take_turns_and_a_defence_is_used_once():
    one = game()
    one.attack("search")
    assert one.played == [], "Red waits for Blue"
    assert one.defence.value == "none", "the first is chosen until Blue takes another"
    one.defence.value = "noise"
    one.send.click()
    assert one.sent == "noise" and one.red.layout.display is None and one.blue.layout.display == "none"
    one.defend("none")
    assert one.sent == "noise", "one defence a round"
    one.picks["algebra"].click()
    assert one.played == [("noise", "algebra")] and one.left == ["none", "less"]
    assert [name for _, name in one.defence.options] == ["none", "less"] and one.defence.value == "none"
    assert "Round 2 of 3" in one.words.value and "Blue loses 6.0" in one.sheet.value
    one.defend("noise")
    assert not one.sent


def test_the_machine_as_red_answers_at_once_with_the_best_attack():
    one = game()
    one.mode.value = BLUE
    one.defend("none")
    one.defend("noise")
    assert one.played == [("none", "algebra"), ("noise", "search")]


def test_the_machine_as_blue_takes_what_loses_least_in_the_worst_case():
    one = game()
    one.mode.value = RED
    assert one.sent == "less"
    one.attack("search")
    assert one.sent == "noise"
    one.attack("search")
    assert one.sent == "none"
    one.attack("algebra")
    assert one.over and not one.sent


def test_the_end_tells_what_was_lost_and_what_the_best_moves_would_have_changed():
    one = game(rounds=2)
    for defence, attack in (("none", "search"), ("noise", "search")):
        one.defend(defence)
        one.attack(attack)
    assert one.over
    assert "Blue has lost 15.0 in 2 rounds" in one.words.value  # 6 and 9
    assert "would have taken 29.0" in one.words.value  # 20 and 9
    assert "would have lost 9.5" in one.words.value  # less, then noise
    one.defend("less")
    assert len(one.played) == 2
    one.again.click()
    assert one.played == [] and "Round 1 of 2" in one.words.value


def test_another_mode_begins_again():
    one = game()
    one.defend("none")
    one.attack("search")
    one.mode.value = BLUE
    assert one.played == [] and not one.sent


def test_every_image_says_what_it_is_and_a_sweep_does_not_play():
    one = game()
    one.defend("noise")
    one.attack("algebra")
    for alt in ('alt="the photograph."', 'alt="algebra."', 'alt="best: search."'):
        assert alt in one.sheet.value
    moving = [one.mode, one.defence, one.send, *one.picks.values(), one.again]
    assert all(SKIP in each._dom_classes for each in moving)
    assert "3 defences and 2 attacks" in repr(one)


def test_what_is_no_board_is_said():
    with pytest.raises(ValueError, match="board is empty"):
        Duel(PHOTOGRAPH, BASELINE, {}, COSTS)
    with pytest.raises(ValueError, match="'noise' has .'search'.; give it the attacks"):
        Duel(PHOTOGRAPH, BASELINE, {**BOARD, "noise": {"search": BASELINE}}, COSTS)
    with pytest.raises(ValueError, match="'less' has .*one of the costs"):
        Duel(PHOTOGRAPH, BASELINE, BOARD, {"none": 0.0, "noise": 1.0})


def test_a_page_without_a_kernel_has_the_whole_board():
    one = game(rounds=2)
    page = one.page(5, 10**6)
    assert page.count("data-frame=") == 6 and page.count("<select") == 2 and one.played == []
    one.defend("noise")
    one.attack("search")
    assert f'<div data-frame="1-1" hidden>{one.sheet.value}</div>' in page
