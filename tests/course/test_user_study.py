"""The user study: its game as a reader works it, its board, its files, and the interval of what they add up to."""

import asyncio
import base64
import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from markup import Page
from PIL import Image

from privlab.course.lab_12 import user_study
from privlab.course.lab_12.user_study import Board, Game, Study
from privlab.notebook.control_sweep import sweep

NAMES = ("no <defence>", "skip")
pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")


def three(**options):
    """Three pairs whose pictures say by their grey what they are: targets .0 to .2, the first's .3 to .5, the second's .6 to .8."""
    flat = [torch.full((3, 8, 8), 0.1 * level) for level in range(9)]
    return Study([(flat[i], flat[i + 3], flat[i + 6]) for i in range(3)], NAMES, **options)


@pytest.fixture
def clock(monkeypatch):
    """Time that a test lets pass."""
    made = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(user_study, "monotonic", lambda: made.now)
    return made


def answer(g, clock, side, after=2.0):
    clock.now += after
    g.row.children[("left", "right").index(side)].click()


def said(g):
    return " ".join(Page(g.words.value).text.split())


def greys(g):
    """The levels of the flat pictures on show, in tenths."""
    files = (io.BytesIO(base64.b64decode(png)) for png in re.findall(r'base64,([^"]+)', g.sheet.value))
    return [round(np.asarray(Image.open(file)).mean() / 25.5) for file in files]


def saved(folder):
    """Choice and seconds of the one game in a folder."""
    ((game,), _) = user_study.games(three(seconds=5), folder)
    return [*zip(game.choice, game.seconds, strict=True)]


def test_a_whole_game_by_clicks(tmp_path, clock):
    g, chosen = Game(three(seconds=5), tmp_path), []
    assert g.children == (g.words, g.again) and "3 pairs of pictures, 5 seconds for each" in said(g)
    g.again.click()
    for number, side in enumerate(("left", "right", "left"), 1):
        assert g.row in g.children and f"Pair {number} of 3." in said(g)
        now = g.table.loc[number - 1]
        first, second = 3 + now.pair, 6 + now.pair
        assert greys(g) == [now.pair, *((first, second) if now.left == NAMES[0] else (second, first))]
        sent = json.dumps([each.get_state() for each in (g, g.words, g.sheet, *g.row.children)], default=repr)
        assert not re.search("defence|skip|person [0-9]", sent), "which is which is not told before the end"
        answer(g, clock, side, after=4.25)
        chosen.append(now[side])
    assert saved(tmp_path) == [(name, 4.25) for name in chosen]
    assert g.again in g.children and user_study.summary(three(), [g.table]) in said(g)
    alts = [image["alt"] for image in Page(g.words.value).all("img")]  # which was which
    told = [f"{name}{', your choice' * (name == choice)}." for choice in chosen for name in NAMES]
    assert [alt for alt in alts if "person" not in alt] == told and len(alts) == 9


def test_a_click_after_the_time_is_no_answer_and_the_browser_knows_the_time(tmp_path, clock):
    g = Game(three(seconds=5), tmp_path)
    g.again.click()
    for after in (5.5, 2, 61):
        assert "animation: privlab-hide 5s" in g.sheet.value
        answer(g, clock, "left", after)
        assert said(g).startswith("No answer in time for the last pair. Pair") is (after == 5.5)
    assert [(isinstance(choice, str), s) for choice, s in saved(tmp_path)] == [(False, 5), (True, 2), (False, 5)]


def test_a_sweep_does_not_play_and_an_answer_that_cannot_be_kept_is_said(shell, tmp_path, clock):
    (tmp_path / "file").write_text("a file where the folder should be")
    g = Game(three(), tmp_path / "file" / "study")
    assert sweep() == [] and g.children == (g.words, g.again)
    g.again.click()
    for _ in range(4):  # the last comes after the end
        answer(g, clock, "left")
    assert "could not be kept: cannot write" in said(g) and g.again in g.children and g.table.choice.count() == 3


def finish(of, folder, firsts):
    """A game of somebody who chooses the first network in so many rounds."""
    game = user_study.begin(of).assign(choice=[NAMES[k >= firsts] for k in range(3)], seconds=2.0)
    game.to_json(folder / f"{game.player[0]}.json", orient="records")


def test_the_board_counts_finished_games_of_these_pictures(tmp_path, monkeypatch):
    board = Board(three(), tmp_path)
    assert "Nobody has finished a game yet." in board.words.value and "number of pairs: none yet" in board.chart.value
    finish(three(), tmp_path, 1)
    finish(three(seconds=9), tmp_path, 3)
    finish(three(), tmp_path, 1)
    for number, text in enumerate(['[{"study": "x"}]', "null", "[" * 100_000]):
        (tmp_path / f"strange{number}.json").write_text(text)

    async def teacher():  # a live board looks again, and leaves no task behind
        board.live.value = True
        await asyncio.sleep(0)
        board.live.value = False
        await asyncio.sleep(0.1)
        return len(asyncio.all_tasks())

    monkeypatch.setattr(user_study, "LOOK", 0.02)
    assert asyncio.run(teacher()) == 1  # the test's own
    assert len(board.games) == 2 and "players by number of pairs: 2 with 1" in board.chart.value
    assert all(f"strange{number}.json holds no answers" in board.words.value for number in range(3))
    assert "it answers for other pictures" in board.words.value


def test_a_game_has_every_pair_once_and_each_side_half_the_time():
    for count in (1, 5, 12):
        game = user_study.begin(Study([(torch.zeros(3, 1, 1),) * 3] * count, NAMES))
        assert sorted(game.pair) == list(range(count)) and (game.left != game.right).all()
        assert abs(2 * (game.left == NAMES[0]).sum() - count) <= 1


def test_a_study_that_is_handed_out_is_the_same_study(tmp_path):
    of = three(seconds=7)
    of.save(tmp_path / "study.safetensors")
    again = user_study.load(tmp_path / "study.safetensors")
    assert again.digest == of.digest and (tuple(again.names), again.seconds) == (NAMES, 7)
    assert all(torch.equal(of.images(1)[name], again.images(1)[name]) for name in ("target", *NAMES))
    (tmp_path / "broken").write_bytes(b"{}")
    with pytest.raises(ValueError, match="is no study that can be read here"):
        user_study.load(tmp_path / "broken")


def test_one_player_has_wilsons_interval_and_tastes_of_their_own_make_that_of_several_wider():
    votes = np.array([[1.0] * 17 + [0.0] * 7 + [np.nan]])
    assert user_study.interval(votes) == pytest.approx((0.508, 0.851), abs=1e-3)  # Wilson's of 17 of 24
    player, pair = np.mgrid[:6, :12]
    apart, mixed = user_study.interval(player % 2.0), user_study.interval((player + pair) % 2.0)
    assert apart[1] - apart[0] > 1.5 * (mixed[1] - mixed[0])
    agreed = user_study.interval(np.ones((6, 12)))
    assert agreed == user_study.interval(np.ones((1, 72))), "agreement of all is no certainty"


def test_an_answer_of_a_player_counts_once_and_silence_is_told():
    def played(player, *choices):
        return pd.DataFrame(dict(player=player, pair=range(len(choices)), choice=choices, seconds=1.0))

    two = Study([[torch.zeros(1, 2, 2)] * 3] * 2, ("a", "b"))
    games = [played("0", "a", "b", None), played("0", "a"), played("1", "a", "a"), played("2", None)]
    told = user_study.summary(two, games)
    assert told.startswith("3 of 4 (75%") and "Players: 2; pairs: 2; 2 without an answer in time." in told
    assert "Nobody answered" in user_study.summary(two, games[3:])
