"""Member or not: which pictures are asked about, what an answer does, and what is told at the end."""

import re

import pytest
import torch

from privlab.notebook.control_sweep import SKIP
from privlab.notebook.member_game import MemberGame, play

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

CLASSES = ["cat", "dog", "frog", "ship"]


def game(n=60, **more):
    """Every third picture is a member; the attack says so of the first half, and of nothing behind it."""
    members = torch.arange(n) % 3 == 0
    attack = members & (torch.arange(n) < n // 2)
    labels = torch.arange(n) % 4
    logits = 3.0 * torch.nn.functional.one_hot(labels, 4)
    return play(torch.rand(n, 3, 8, 8), labels, logits, CLASSES, members, attack, **more)


def answered(one, right):
    """Answer every round, rightly or wrongly as `right` says."""
    for at, good in zip(one.rounds, right, strict=True):
        one.buttons[bool(one.members[at]) == good].click()


def test_half_of_twenty_different_pictures_are_members():
    one = game()
    assert len(set(one.rounds)) == 20 and one.members[one.rounds].sum() == 10


def test_their_order_says_nothing_and_the_seed_decides_it():
    firsts = [bool(one.members[one.rounds[0]]) for one in (game(seed=s) for s in range(100))]
    assert 30 < sum(firsts) < 70  # 50 on average, standard deviation 5
    assert game(seed=1).rounds == game(seed=1).rounds != game(seed=2).rounds


def test_fewer_members_make_fewer_rounds_and_still_half():
    one = game(9)
    assert len(one.rounds) == 6 and one.members[one.rounds].sum() == 3


def test_an_answer_is_told_beside_that_of_the_attack_and_the_next_round_comes():
    one = game(rounds=4)
    at = one.rounds[0]
    says = not one.members[at]
    one.buttons[says].click()
    yours, theirs = ("a member" if each else "not a member" for each in (says, one.attack[at]))
    assert f"You said: {yours}. Wrong. The attack said: {theirs}." in one.words.value
    assert "Round 2 of 4" in one.words.value and one.right == [False]


def test_the_victims_confidences_come_with_the_second_half_alone():
    one, shown = game(rounds=4), []
    for _ in one.rounds:
        shown.append("confidences" in one.sheet.value)
        one.answer(True)
    assert shown == [False, False, True, True] and one.blind == 2


def test_the_confidences_are_those_of_the_picture():
    one = game(rounds=2)
    one.answer(True)
    numbers = [float(x) for x in re.findall(r"</span>(\d\.\d+)", one.sheet.value)]
    right = torch.tensor([3.0, 0, 0, 0]).softmax(0).tolist()
    assert numbers[0] == pytest.approx(right[0], abs=1e-3) and numbers[1:] == pytest.approx([right[1]] * 2, abs=1e-3)


def test_the_end_counts_the_reader_the_attack_and_guessing():
    one = game(rounds=6)
    answered(one, [True, False, False, True, True, False])
    theirs = sum(bool(one.attack[at]) == bool(one.members[at]) for at in one.rounds)
    assert (
        "You were right 1 times of 3 by the picture alone, and 2 times of 3 with the victim's answers."
        in one.words.value
    )
    assert (
        f"The attack was right {theirs} times of 6; you, 3 times. Random guessing is right 3 times" in one.words.value
    )
    assert re.findall(r"you: (\w+)", one.sheet.value) == ["right", "wrong", "wrong", "right", "right", "wrong"]
    assert (
        one.sheet.value.count("attack: right") == sum(one.attack_right) == theirs and one.row.layout.display == "none"
    )
    one.answer(True)
    assert len(one.said) == 6, "an answer after the end counts"
    one.again.click()
    assert one.said == [] and "Round 1 of 6" in one.words.value and one.row.layout.display is None


def test_the_picture_describes_itself_and_the_answer_can_be_looked_up():
    one = game()
    at = one.rounds[0]
    assert f'alt="Round 1: a photograph, {CLASSES[one.labels[at]]}."' in one.sheet.value
    truth = "a member" if one.members[at] else "not a member"
    call = "a member" if one.attack[at] else "not a member"
    look = f"<details><summary>Look it up</summary>It is {truth}. The attack says: {call}.</details>"
    assert look in one.sheet.value


def test_a_sweep_leaves_it_at_its_first_round_and_keys_reach_every_button():
    one = game()
    buttons = [*one.buttons.values(), one.again]
    assert all(SKIP in each._dom_classes and each.tooltip for each in buttons)
    assert [b.description for b in buttons] == ["A member", "Not a member", "Play again"]
    assert isinstance(one, MemberGame) and "needs a running kernel" in repr(one)


def test_what_is_no_game_is_refused():
    five = (torch.rand(5, 3, 8, 8), torch.zeros(5, dtype=torch.long), torch.zeros(5, 4), CLASSES)
    some = torch.tensor([True, False, True, False, True])
    with pytest.raises(ValueError, match=r"\[4, 5\] rows"):
        play(*five, some, some[:4])
    with pytest.raises(ValueError, match="5 of 5; give members and non-members"):
        play(*five, torch.ones(5, dtype=torch.bool), some)
    with pytest.raises(ValueError, match="rounds=1"):
        play(*five, some, some, rounds=1)


def test_a_page_without_a_kernel_has_every_round_as_it_is_asked():
    one = game(rounds=4)
    page = one.page(5, 10**6)
    for n in range(4):
        assert f'<div data-frame="{n}"{" hidden" * (n > 0)}>{one.sheet.value}</div>' in page
        one.answer(True)
