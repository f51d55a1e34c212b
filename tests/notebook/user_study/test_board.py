"""The board of a class: what it draws of the games in a folder, and that it sees a new one."""

import asyncio
import json

import pytest
import torch

from privlab.notebook import user_study
from privlab.notebook.user_study import Pair, Study, board
from privlab.notebook.user_study.class_board import chart

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")


def study(count=4):
    return Study([Pair(*torch.full((3, 1, 8, 8), (i + 1) / 10)) for i in range(count)], names=("whole", "cut"))


def finish(of, folder, firsts, seed=0):
    """A finished game in which `firsts` pairs went to the first network."""
    game = user_study.begin(of, folder, seed, fresh=True)
    while not game.over:
        _, left = game.upcoming
        wanted = of.names[0] if len(game.answers) < firsts else of.names[1]
        game = game.answer("left" if left == wanted else "right", 2.0, folder)
    return game


def test_nobody_has_played(tmp_path):
    shown = board(study(), tmp_path / "not there")
    assert shown.games == [] and "Nobody has finished a game yet." in shown.words.value
    assert "none yet" in shown.chart.value and repr(shown).startswith("0 finished games of Study: 4 pairs")


def test_finished_games_are_counted_by_how_often_the_first_network_was_chosen(tmp_path):
    of = study()
    for seed, firsts in enumerate((3, 3, 1)):
        finish(of, tmp_path, firsts, seed)
    user_study.begin(of, tmp_path, 9, fresh=True).answer("left", 1.0, tmp_path)  # half played
    shown = board(of, tmp_path)
    assert len(shown.games) == 3 and "1 with 1, 2 with 3" in shown.chart.value
    assert "7 of 12 (58%" in shown.words.value and "Guessing centres on 2 of 4" in shown.chart.value


def test_games_about_other_pictures_and_damaged_files_do_not_count(tmp_path):
    finish(study(5), tmp_path, 2)
    (tmp_path / "broken.json").write_text(json.dumps({"format": 1}))
    shown = board(study(), tmp_path)
    assert shown.games == [] and "left out: broken.json" in shown.words.value


def test_it_draws_again_only_when_a_file_has_changed(tmp_path, monkeypatch):
    of = study()
    finish(of, tmp_path, 2)
    shown = board(of, tmp_path)
    before = shown.chart.value
    monkeypatch.setattr("privlab.notebook.user_study.class_board.chart", lambda *_: pytest.fail("nothing has changed"))
    shown.refresh()
    monkeypatch.undo()
    finish(of, tmp_path, 4, seed=1)
    shown.children[2].children[0].click()
    assert len(shown.games) == 2 and shown.chart.value != before


def test_live_sees_a_new_game_by_itself_and_rests_when_it_is_unticked(tmp_path, monkeypatch):
    monkeypatch.setattr("privlab.notebook.user_study.class_board.BEAT", 0.01)
    of = study()

    async def watched():
        shown = board(of, tmp_path)
        shown.live.value = True
        finish(of, tmp_path, 1)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if shown.games:
                break
        assert len(shown.games) == 1
        shown.live.value = False
        assert shown.task is None
        finish(of, tmp_path, 2, seed=1)
        await asyncio.sleep(0.1)
        assert len(shown.games) == 1
        shown.live.value = True
        shown.close()
        assert shown.task is None

    asyncio.run(watched())


def test_what_goes_wrong_is_shown(tmp_path, monkeypatch):
    shown = board(study(), tmp_path)
    finish(study(), tmp_path, 2)
    monkeypatch.setattr("privlab.notebook.user_study.class_board.chart", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shown.refresh()
    assert shown.failure.outputs[0]["ename"] == "ZeroDivisionError"


def test_the_chart_says_what_guessing_would_give_beside_the_paper():
    alt = chart(study(12), []).alt
    assert "“whole” was found closer than “cut”" in alt and "Guessing centres on 6 of 12" in alt
