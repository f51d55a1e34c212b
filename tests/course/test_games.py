"""The games: what an answer does, who is in a round, what is told at the end, and what a page without a kernel has."""

import math
import re

import pytest
import torch

from privlab import ledger
from privlab.course.lab_01.member_game import MemberGame
from privlab.course.lab_11.line_up import LineUp
from privlab.course.lab_14 import referee
from privlab.notebook.control_sweep import SKIP, sweep
from privlab.notebook.game import Game, Round

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")
CLASSES = ["cat", "dog", "frog", "ship"]


# -- any game ------------------------------------------------------------------------------------------------------------


def three():
    return Game([Round(f"<p>{n}</p>", n % 2, f"told {n}") for n in range(3)], {0: "even", 1: "<odd>"}, "Which?")


def test_an_answer_is_told_the_next_round_comes_and_the_end_counts():
    game = three()
    assert "Round 1 of 3" in game.words.value and game.sheet.value == "<p>0</p>" and game.again.layout.display == "none"
    game.row.children[1].click()
    assert "You said: &lt;odd&gt;. No: even. told 0" in game.words.value and "Round 2 of 3" in game.words.value
    game.answer(1), game.answer(0)
    assert game.right == [False, True, True] and game.played and "You were right 2 times of 3." in game.words.value
    assert game.sheet.value == "<p>0</p><p>1</p><p>2</p>" and game.row.layout.display == "none"
    game.answer(0)
    assert len(game.said) == 3, "an answer after the end counts"
    game.again.click()
    assert game.said == [] and "Round 1 of 3" in game.words.value and game.row.layout.display is None


def test_a_page_has_every_round_with_its_answer_folded_and_a_sweep_does_not_play(shell):
    game = three()
    assert sweep() == {} and all(
        SKIP in each._dom_classes and each.tooltip for each in (*game.row.children, game.again)
    )
    page = game.page(5, 10**6)
    assert page.count("data-frame=") == 3
    assert "<p>1</p><details><summary>Which? Look it up</summary>&lt;odd&gt;. told 1</details>" in page
    assert "A game of 3 rounds" in repr(game) and Game([], {0: "a"}, "?").page(5, 10**6)


# -- member or not -------------------------------------------------------------------------------------------------------


def members(n=60, **more):
    """Every third picture is a member; the attack says so of the first half, and of nothing behind it."""
    truth = torch.arange(n) % 3 == 0
    attack = truth & (torch.arange(n) < n // 2)
    labels = torch.arange(n) % 4
    logits = 3.0 * torch.nn.functional.one_hot(labels, 4)
    return MemberGame(torch.rand(n, 3, 8, 8), labels, logits, CLASSES, truth, attack, **more)


def test_half_of_the_pictures_are_members_and_the_seed_draws_them():
    game = members()
    assert len(set(game.chosen)) == 20 and sum(game.truth) == 10 and len(members(9).rounds) == 6
    assert members(seed=1).chosen == members(seed=1).chosen != members(seed=2).chosen
    assert 30 < sum(members(seed=seed, rounds=2).truth[0] for seed in range(100)) < 70  # 50 on average, spread 5


def test_the_victims_confidences_come_with_the_second_half_alone():
    game, shown = members(rounds=4), []
    for _ in game.rounds:
        shown.append(re.findall(r"</span>(\d\.\d+)", game.sheet.value))
        game.answer(True)
    right = torch.tensor([3.0, 0, 0, 0]).softmax(0).tolist()
    assert [len(each) for each in shown] == [0, 0, 3, 3]
    assert [float(x) for x in shown[2]] == pytest.approx([right[0], right[1], right[1]], abs=1e-3)
    assert f'alt="Round 1: a photograph, {CLASSES[game.chosen[0] % 4]}."' in game.rounds[0].shown


def test_the_end_counts_the_reader_the_attack_and_guessing():
    game = members(rounds=6)
    for truth, good in zip(game.truth, [True, False, False, True, True, False], strict=True):
        game.answer(truth == good)
    assert "right 1 times of 3 by the picture alone, and 2 times of 3 with the victim's answers" in game.words.value
    theirs = sum(game.attack_right)
    assert (
        f"The attack was right {theirs} times of 6; you, 3 times. Random guessing is right 3 times" in game.words.value
    )
    assert re.findall(r"you: (\w+)", game.sheet.value) == ["right", "wrong", "wrong", "right", "right", "wrong"]
    assert game.sheet.value.count("attack: right") == theirs


def test_pictures_that_make_no_game_are_named():
    five, some = [torch.rand(5, 3, 8, 8), torch.arange(5), torch.rand(5, 4), CLASSES], torch.tensor([True] * 5)
    with pytest.raises(ValueError, match="members: 5 of 5; give members and non-members"):
        MemberGame(*five, some, some)
    with pytest.raises(ValueError, match=r"have \[4, 5\] rows"):
        MemberGame(*five, some[:4], some)


# -- a line-up -----------------------------------------------------------------------------------------------------------


def people(n=10):
    """Flat grey pictures: found faces and photographs of n people, each as grey as their number says."""
    levels = torch.linspace(0, 1, n).view(n, 1, 1, 1).expand(-1, 1, 8, 8)
    return levels.clone(), levels.clone()


def test_every_round_has_its_person_among_six_different_ones_at_a_place_drawn_anew():
    games = [LineUp(*people(), rounds=10, seed=seed) for seed in range(10)]
    assert all(sorted(game.people) == list(range(10)) for game in games)
    counts = torch.bincount(torch.tensor([one.right for game in games for one in game.rounds]), minlength=6)
    assert counts.min() > 4  # of 100, 17 each on average
    for one in games[0].rounds:
        pictures = re.findall(r'src="([^"]+)"', one.shown)
        found, photographs = pictures[0], pictures[1:]
        assert len(set(photographs)) == 6 and photographs[one.right] == found


def test_the_end_of_a_line_up_counts_the_reader_guessing_and_the_judge():
    game = LineUp(*people(), judge=torch.arange(10) < 4, rounds=6)
    for k, one in enumerate(game.rounds):
        game.answer(one.right if k < 2 else (one.right + 1) % 6)
    named = sum(person < 4 for person in game.people)
    assert "You named 2 of 6. Random guessing names 1.0 of 6 on average." in game.words.value
    assert f"The judge named {named}, out of all 10 people." in game.words.value
    with pytest.raises(ValueError, match="at least 6 people"):
        LineUp(*people(5))


# -- the referee ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged():
    return ledger.judgements()


def test_the_cases_are_judged_claims_about_one_number_with_their_repeats(judged):
    cases = referee.cases(judged, number=9, seed=3)
    assert 3 <= len(cases) <= 9 and len({case.judgement.claim.id for case in cases}) == len(cases)
    for case in cases:
        assert len(case.values) >= 3 and math.isfinite(case.low) + math.isfinite(case.high) >= 1
        right = [case.low < case.values.mean() < case.high]
        if case.judgement.verdict != "inconclusive":  # what is decided lies where its verdict says
            assert right == [case.judgement.verdict == "reproduced"]
    assert len({case.judgement.verdict for case in referee.cases(judged, 3, 0)}) == 3


def test_a_ruling_is_held_beside_the_rules(judged):
    desk = referee.Referee(referee.cases(judged, number=2))
    due = [case.judgement.verdict for case in desk.cases]
    desk.answer(next(ruling for ruling in referee.RULINGS if ruling != due[0]))
    assert f"No: {due[0]}." in desk.words.value
    desk.answer(due[1])
    assert "You agree with the rule on 1 of 2 claims." in desk.words.value
    assert desk.cases[0].chart().tag() in desk.rounds[0].shown
    assert "No claim is judged yet" in referee.Referee([]).words.value
