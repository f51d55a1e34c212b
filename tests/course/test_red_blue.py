"""Red team and blue team: what a move does, who moves next, what counts, and what is told at the end. Numbers by hand."""

import pytest
import torch

from privlab.course.lab_13 import red_blue
from privlab.course.lab_13.red_blue import BLUE, RED, Duel
from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")
PHOTOGRAPH = torch.full((1, 3, 8, 8), 0.5)
DECIBELS = {"none": (150, 18), "<noise>": (11, 15), "less": (13, 10)}  # by algebra and by search
COSTS = {"none": 0.0, "<noise>": 6.0, "less": -0.5}


@pytest.fixture
def one(monkeypatch):
    monkeypatch.setattr(red_blue, "ROUNDS", 2)

    def off(decibels):  # an image so far from the photograph
        return PHOTOGRAPH + 10 ** (-decibels / 20)

    board = {name: {"algebra": off(a), "search": off(b)} for name, (a, b) in DECIBELS.items()}
    return Duel(PHOTOGRAPH, off(12), board, COSTS)


def test_decibels_above_the_baseline_count_from_0_to_20_a_cost_is_added_and_a_page_has_the_whole_board(one, shell):
    assert one.gain.to_numpy().ravel() == pytest.approx([20, 6, 0, 3, 1, 0], abs=1e-3)  # of 138, 6, -1, 3, 1 and -2
    assert one.loss.at["<noise>", "search"] == pytest.approx(3 + 6, abs=1e-3)
    assert one.best.to_dict() == {"none": "algebra", "<noise>": "search", "less": "algebra"}
    assert one.worst.to_dict() == pytest.approx({"none": 20, "<noise>": 9, "less": 1 - 0.5}, abs=1e-3)
    assert sweep() == [] and one.played == []
    page = one.page(5, 10**6)
    one.defend("<noise>")
    one.attack("search")
    assert f'<div data-frame="1-1" hidden>{one.sheet.value}</div>' in page


def test_two_players_take_turns_a_defence_is_used_once_and_the_end_tells_what_was_lost(one):
    one.attack("search")
    assert one.played == [], "Red waits for Blue"
    one.defence.value = "<noise>"
    one.blue.children[1].click()
    assert one.red in one.children and one.blue not in one.children
    assert "Blue sends: <b>&lt;noise&gt;</b> (costs 6.0 points). Red, attack." in one.words.value
    one.defend("none")
    assert one.sent == "<noise>", "one defence a round"
    one.red.children[2].click()
    assert one.played == [("<noise>", "search")] and "Blue loses 9.0" in one.sheet.value
    assert [name for name, _ in one.defence.options] == ["none: costs 0.0 points", "less: gains 0.5 points"]
    one.defend("none")
    one.attack("search")
    for told in (
        "Blue has lost 15.0 in 2",
        "would have taken 29.0",
        "would have lost 9.5",
    ):  # 9 + 6, 20 + 9, less and noise
        assert told in one.words.value
    one.defend("less")
    assert len(one.played) == 2 and not one.sent
    one.again.click()
    assert one.played == [] and "Round 1 of 2" in one.words.value


def test_the_machine_answers_with_the_best_attack_or_defends_with_what_loses_least_in_the_worst_case(one):
    one.mode.value = BLUE
    one.defend("none")
    one.defend("<noise>")
    assert one.played == [("none", "algebra"), ("<noise>", "search")]
    one.mode.value = RED
    for due in ("less", "<noise>"):
        assert one.sent == due
        one.attack("search")
    assert not one.sent
