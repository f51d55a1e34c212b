"""The games: what an answer does, who is in a round, what is told at the end, and what a page without a kernel has."""

import re

import pytest
import torch

from privlab import ledger
from privlab.course.lab_01.member_game import MemberGame
from privlab.course.lab_11.line_up import LineUp
from privlab.course.lab_14 import referee
from privlab.notebook.control_sweep import sweep
from privlab.notebook.game import Game, Round

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")
CLASSES = ["cat", "dog", "frog", "<ship>"]


def test_an_answer_is_told_the_next_round_comes_the_end_counts_and_a_sweep_does_not_play(shell):
    rounds = [Round(f"<p>{n}</p>", n % 2, f"told {n}") for n in range(3)]
    game = Game(rounds, {0: "even", 1: "<odd>"}, "Which?")
    assert sweep() == []
    page = game.page(5, 10**6)
    assert "<p>1</p><details><summary>Which? Look it up</summary>&lt;odd&gt;. told 1</details>" in page
    assert "Round 1 of 3" in game.words.value and game.sheet.value == "<p>0</p>" and game.again.layout.display == "none"
    game.row.children[1].click()
    assert "You said: &lt;odd&gt;. No: even. told 0" in game.words.value and "Round 2 of 3" in game.words.value
    for _ in range(3):  # the last comes after the end
        game.answer(1)
    assert game.right == [False, True, False] and game.played and "You were right 1 times of 3." in game.words.value
    assert game.sheet.value == "<p>0</p><p>1</p><p>2</p>" and game.row.layout.display == "none"
    game.again.click()
    assert "Round 1 of 3" in game.words.value and game.row.layout.display is None


def members(n=60, seed=0):
    """Member or not: every third picture is a member; the attack says so of the first half, and of nothing behind it."""
    truth, labels = torch.arange(n) % 3 == 0, torch.arange(n) % 4
    attack, logits = truth & (torch.arange(n) < n // 2), 3.0 * torch.nn.functional.one_hot(labels, 4)
    return MemberGame(torch.rand(n, 3, 8, 8), labels, logits, CLASSES, truth, attack, seed)


def test_half_of_the_pictures_are_members_and_the_victims_confidences_come_with_the_second_half_alone():
    game = members()
    assert len(set(game.chosen)) == 20 and sum(one.right for one in game.rounds) == 10 and len(members(9).rounds) == 6
    right, other = torch.tensor([3.0, 0, 0, 0]).softmax(0)[:2].tolist()
    for number, one in enumerate(game.rounds):
        told = [float(x) for x in re.findall(r"</meter> (\d\.\d+)", one.shown)]
        assert told[:3] == pytest.approx([] if number < 10 else [right, other, other], abs=1e-3)
    assert all("&lt;ship" in one.shown or "ship" not in one.shown for one in game.rounds)


def test_the_end_counts_the_reader_the_attack_and_guessing():
    game, good = members(), [True] * 3 + [False] * 7 + [True] * 4 + [False] * 6
    for one, right in zip(game.rounds, good, strict=True):
        game.answer(one.right == right)
    assert "right 3 times of 10 by the picture alone, and 4 times of 10 with the victim's answers" in game.words.value
    theirs = sum(game.attack_right)
    assert f"right {theirs} times of 20; you, 7 times. Random guessing is right 10 times" in game.words.value
    assert re.findall(r"you: (\w+); attack: \w+</", game.sheet.value) == ["right" if x else "wrong" for x in good]


def test_every_round_has_its_person_among_six_different_ones_and_the_end_counts_reader_guessing_and_judge():
    levels = (
        torch.linspace(0, 1, 10).view(10, 1, 1, 1).expand(-1, 1, 8, 8).clone()
    )  # ten people, grey as their number says
    game, other = (LineUp(levels, levels, torch.arange(10) < 4, seed) for seed in (0, 1))
    assert len({one.right for one in game.rounds + other.rounds}) > 3
    for one in game.rounds:
        found, *photographs = re.findall(r'src="([^"]+)"', one.shown)
        assert len(set(photographs)) == 6 and photographs[one.right] == found
    for k, one in enumerate(game.rounds):
        game.answer(one.right if k < 2 else (one.right + 1) % 6)
    named = sum(person < 4 for person in game.people)
    assert "You named 2 of 8. Random guessing names 1.3 of 8 on average." in game.words.value
    assert f"The judge named {named}, out of all 10 people." in game.words.value


def test_the_cases_are_judged_claims_about_one_number_and_a_ruling_is_held_beside_the_rules():
    judged = ledger.judgements("05")
    cases = referee.cases(judged, number=4, seed=3)
    assert len({case.judgement.claim.id for case in cases}) == len(cases) == 4
    for case in cases:
        if case.judgement.verdict != "inconclusive":  # what is decided lies where its verdict says
            assert (case.low < case.values.mean() < case.high) == (case.judgement.verdict == "reproduced")
    desk = referee.Referee(referee.cases(judged, number=2))
    due = [case.judgement.verdict for case in desk.cases]
    assert f"{desk.cases[0].text}, repeat by repeat: {desk.cases[0].values[0]:.3g}, " in desk.rounds[0].shown
    assert "would have a chance of" in desk.rounds[0].told and desk.cases[0].judgement.p is not None
    desk.answer(next(ruling for ruling in referee.RULINGS if ruling != due[0]))
    desk.answer(due[1])
    assert "You agree with the rule on 1 of 2 claims." in desk.words.value
