"""The line-up: who stands in it, what an answer does, and what is told at the end."""

import base64
import io
import re

import numpy as np
import pytest
import torch
from PIL import Image

from privlab.notebook.control_sweep import SKIP
from privlab.notebook.line_up import LineUp, play

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")


def people(n=10):
    """Flat grey pictures: found faces and photographs of n people, each as grey as their number says."""
    levels = torch.linspace(0, 1, n).view(n, 1, 1, 1).expand(-1, 1, 8, 8)
    return levels.clone(), levels.clone()


def answered(game, right):
    """Answer every round, rightly or wrongly as `right` says."""
    for (person, who), good in zip(game.rounds, right, strict=True):
        place = who.index(person)
        game.buttons[place if good else (place + 1) % 6].click()


def test_every_round_has_its_person_among_six_different_ones():
    game = play(*people(), rounds=10)
    assert sorted(person for person, _ in game.rounds) == list(range(10))
    assert all(person in who and len(set(who)) == 6 for person, who in game.rounds)


def test_the_right_place_is_drawn_anew():
    places = [who.index(person) for s in range(20) for person, who in play(*people(), rounds=10, seed=s).rounds]
    counts = torch.bincount(torch.tensor(places), minlength=6)
    assert counts.min() > 15  # of 200, 33 each on average


def test_the_seed_decides_the_rounds():
    assert play(*people(), seed=1).rounds == play(*people(), seed=1).rounds != play(*people(), seed=2).rounds


def test_an_answer_is_told_and_the_next_round_comes():
    game = play(*people(), rounds=3)
    first, (person, who) = game.sheet.value, game.rounds[0]
    assert "Round 1 of 3" in game.words.value and game.again.layout.display == "none"
    game.buttons[(who.index(person) + 2) % 6].click()
    assert f"No, it was number {who.index(person) + 1}." in game.words.value and "Round 2 of 3" in game.words.value
    assert game.sheet.value != first and game.again.layout.display is None
    game.buttons[game.rounds[1][1].index(game.rounds[1][0])].click()
    assert "Right." in game.words.value and game.right == [False, True]


def test_the_end_counts_the_reader_guessing_and_the_judge():
    found, photographs = people()
    judge = torch.arange(10) < 4
    game = play(found, photographs, judge, rounds=6, seed=3)
    answered(game, [True, True, False, True, False, False])
    known = int(judge[[person for person, _ in game.rounds]].sum())
    assert "You named 3 of 6. Random guessing names 1.0 of 6 on average." in game.words.value
    assert f"The judge named {known}, out of all 10 people." in game.words.value
    assert game.row.layout.display == "none" and "Round" not in game.words.value
    game.buttons[0].click()
    assert len(game.said) == 6, "an answer after the end counts"
    game.again.click()
    assert game.said == [] and "Round 1 of 6" in game.words.value and game.row.layout.display is None


def test_the_end_says_nothing_of_a_judge_that_there_is_not():
    game = play(*people(), rounds=1)
    answered(game, [True])
    assert game.score == "You named 1 of 1. Random guessing names 0.2 of 1 on average."


def test_every_picture_describes_itself_and_the_answer_can_be_looked_up():
    game = play(*people(), rounds=2)
    person, who = game.rounds[0]
    alts = re.findall(r'alt="([^"]+)"', game.sheet.value)
    assert alts == ["Round 1: a face that the attack found.", *(f"Photograph {k} of six." for k in range(1, 7))]
    assert f"<details><summary>Look it up</summary>It is number {who.index(person) + 1}.</details>" in game.sheet.value


def test_the_pictures_are_those_of_the_round():
    game = play(*people(), rounds=1)
    person, who = game.rounds[0]
    files = re.findall(r"base64,([^\"]+)", game.sheet.value)
    greys = [np.asarray(Image.open(io.BytesIO(base64.b64decode(file)))).mean() / 255 for file in files]
    assert greys == pytest.approx([person / 9, *(k / 9 for k in who)], abs=0.01)


def test_a_sweep_leaves_it_at_its_first_round_and_keys_reach_every_button():
    game = play(*people())
    assert all(SKIP in each._dom_classes for each in (*game.buttons.values(), game.again))
    assert [b.description for b in game.buttons.values()] == list("123456")
    assert all(b.tooltip for b in game.buttons.values())
    assert isinstance(game, LineUp) and "needs a running kernel" in repr(game)


def test_fewer_people_make_fewer_rounds():
    assert len(play(*people(7), rounds=20).rounds) == 7


@pytest.mark.parametrize(
    ("found", "photographs", "why"),
    [
        (torch.zeros(8, 1, 4, 4), torch.zeros(7, 1, 4, 4), "give a face and a photograph of each person"),
        (torch.zeros(8, 4, 4), torch.zeros(8, 4, 4), "give a face and a photograph of each person"),
        (torch.zeros(5, 1, 4, 4), torch.zeros(5, 1, 4, 4), "5 people do not fill a line-up"),
    ],
)
def test_what_is_no_line_up_is_refused(found, photographs, why):
    with pytest.raises(ValueError, match=why):
        play(found, photographs)


def test_a_page_without_a_kernel_has_every_round_as_it_is_asked():
    game = play(*people(), rounds=3)
    page = game.page(5, 10**6)
    for n in range(3):
        assert f'<div data-frame="{n}"{" hidden" * (n > 0)}>{game.sheet.value}</div>' in page
        game.answer(0)
