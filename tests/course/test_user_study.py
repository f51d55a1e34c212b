"""The user study: its game as a reader works it, its board, its files, and the interval of what they add up to."""

import asyncio
import base64
import io
import itertools
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from markup import Page
from PIL import Image

from privlab.course.lab_12 import study, user_study
from privlab.course.lab_12.user_study import Board, Game, Pair, Study
from privlab.notebook.control_sweep import sweep

NAMES = ("no <defence>", "skip")


@pytest.fixture(autouse=True)
def no_game_of_other_tests(no_widgets_of_other_tests, monkeypatch):
    monkeypatch.setattr(Game, "running", None)


def three(**options):
    """Three pairs whose pictures say by their grey what they are: targets .0 to .2, the first's .3 to .5, the second's .6 to .8."""
    flat = [torch.full((3, 8, 8), 0.1 * level) for level in range(9)]
    bytes_ = [(flat[i] * 255).round().byte() for i in range(3)]  # as photographs are, where reconstructions are not
    return Study([Pair(bytes_[i], flat[i + 3], flat[i + 6], f"person {i}") for i in range(3)], NAMES, **options)


@pytest.fixture
def clock(monkeypatch):
    """Time that a test lets pass."""
    made = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(Game, "clock", staticmethod(lambda: made.now))
    return made


def answer(g, clock, side, after=2.0):
    clock.now += after
    g.buttons[("left", "right").index(side)].click()


def said(g):
    return " ".join(Page(g.text.value).text.split())


def greys(g):
    """The levels of the flat pictures on show, in tenths."""
    images = [Image.open(io.BytesIO(base64.b64decode(png))) for png in re.findall(r'base64,([^"]+)', g.sheet.value)]
    assert all(len(np.unique(image)) == 1 for image in images)
    return [round(np.asarray(image)[0, 0, 0] / 25.5) for image in images]


def shown(g):
    """The buttons on the page."""
    below = g.children[1]
    rows = [below, *getattr(below, "children", ()), *(g.buttons if below is g.round else ())]
    return [each.description for each in rows if each._view_name == "ButtonView"]


def saved(folder):
    """The answers of the one game in a folder."""
    (path,) = folder.glob("*.json")
    return user_study.read(path).answers


# -- a game ------------------------------------------------------------------------------------------------------------


def test_a_whole_game_by_clicks(tmp_path, clock):
    g = Game(three(), tmp_path)
    assert shown(g) == ["Start"] and "3 pairs of pictures, 60 seconds for each" in said(g) and str(tmp_path) in said(g)
    assert not list(tmp_path.iterdir()) and not g.sheet.value
    g.go.click()
    rounds, sides = study.schedule(g.played.seed, 3), ("left", "right", "left")
    for number, ((pair, first_left), side) in enumerate(zip(rounds, sides, strict=True), 1):
        assert shown(g) == ["left", "right"] and f"Pair {number} of 3." in said(g)
        assert greys(g) == [pair, *((3 + pair, 6 + pair)[:: 1 if first_left else -1])]
        assert g.bar.description == "60 s left" and g.bar.value == 60
        clock.now += 10.25
        g.tick()
        assert g.bar.description == "50 s left" and g.bar.value == 50
        answer(g, clock, side, after=0)
        assert len(saved(tmp_path)) == number
    assert shown(g) == ["New game"] and not Game.running
    assert [(a.pair, a.seconds) for a in saved(tmp_path)] == [(pair, 10.25) for pair, _ in rounds]
    chosen = [NAMES[left != (side == "left")] for (_, left), side in zip(rounds, sides, strict=True)]
    assert [a.choice for a in saved(tmp_path)] == chosen
    assert user_study.summary([g.played]) in said(g) and "There is no other game yet." in said(g)
    assert "69.51% found the picture from the full network closer" in said(g)
    assert "3 answers show nothing either way" in said(g) and "recognise the person" in said(g)
    alts = [image["alt"] for image in Page(g.text.value).all("img")]  # which was which
    told = [f"{name}{', your choice' * (name == choice)}." for choice in chosen for name in NAMES]
    assert [alt for alt in alts if "person" not in alt] == told and len(alts) == 9


def test_nothing_tells_which_is_which_before_the_end(tmp_path, clock, monkeypatch):
    """Nothing that the page is sent differs between games in which the sides are swapped, but for the pictures' bytes."""

    def sent(seed):
        monkeypatch.setattr(study.secrets, "randbits", lambda _: seed)
        g = Game(three(), tmp_path / str(seed))
        g.go.click()
        texts = []
        for _ in range(2):
            clock.now += 1
            g.tick()
            state = [w.get_state() for w in (g, g.text, g.sheet, g.bar, *g.buttons)]
            texts.append(re.sub(r"base64,[^\"]+|IPY_MODEL_\w+", "", json.dumps(state, default=repr)))
            answer(g, clock, "left")
        assert all("defence" not in text and "skip" not in text and "person 0" not in text for text in texts)
        return texts

    assert sent(0) == sent(1) == sent(2)
    assert len({study.schedule(seed, 3)[0][1] for seed in range(3)}) == 2  # the sides did differ


# -- time --------------------------------------------------------------------------------------------------------------


def test_no_answer_in_time_is_written_down_and_neither_a_late_nor_a_double_click_counts(tmp_path, clock):
    g = Game(three(seconds=5), tmp_path)
    g.go.click()
    answer(g, clock, "left", after=0)  # came with the start
    assert not list(tmp_path.iterdir())
    clock.now += 4.9
    g.tick()
    assert "Pair 1" in said(g) and g.bar.description == "1 s left"
    clock.now += 0.1
    g.tick()
    assert said(g).startswith("No answer in time for the last pair. Pair 2 of 3.") and g.bar.value == 5
    answer(g, clock, "left")
    answer(g, clock, "left", after=0.1)
    assert said(g).startswith("Pair 3 of 3.")
    answer(g, clock, "left", after=61)  # as when another cell has kept the kernel busy, and the clock with it
    assert [(a.choice is None, a.seconds) for a in saved(tmp_path)] == [(True, 5), (False, 2), (True, 5)]


def test_where_nobody_is_there_the_game_waits(tmp_path, clock):
    g = Game(three(seconds=5), tmp_path)
    g.go.click()
    for _ in range(2):
        clock.now += 5
        g.tick()
    assert len(saved(tmp_path)) == 2 and not Game.running and shown(g) == ["Go on", "New game"]
    assert "2 pairs in a row went without an answer, so the game waits for you." in said(g)
    g.go.click()
    assert "Pair 3 of 3" in said(g) and g.bar.value == 5
    clock.now += 5
    g.tick()
    assert shown(g) == ["New game"] and "Nobody answered in time" in said(g)


def test_the_clock_runs_on_an_event_loop_and_leaves_no_task(tmp_path):
    async def reader():
        g = Game(three(seconds=1), tmp_path)
        assert len(asyncio.all_tasks()) == 1  # nothing runs before the start
        g.go.click()
        for _ in range(100):
            if g.played.answers:
                break
            await asyncio.sleep(0.05)
        for button in g.buttons:
            await asyncio.sleep(user_study.GUARD + 0.05)
            button.click()
        await asyncio.sleep(0.01)
        return len(asyncio.all_tasks())

    assert asyncio.run(reader()) == 1  # the test's own
    assert [a.choice is None for a in saved(tmp_path)] == [True, False, False]


# -- again -------------------------------------------------------------------------------------------------------------


def test_the_cell_is_run_again_in_the_middle_and_somebody_else_begins_a_new_game(tmp_path, clock):
    one = Game(three(), tmp_path)
    one.go.click()
    answer(one, clock, "left")
    two = Game(three(), tmp_path)
    assert not Game.running and "The game was stopped." in said(one) and shown(two) == ["Go on", "New game"]
    assert "A game is half played: 1 of 3." in said(two)
    two.go.click()
    assert "Pair 2 of 3" in said(two) and two.played.player == one.played.player
    answer(two, clock, "left")
    one.go.click()  # the old one goes on from what the other has written
    assert Game.running is one and "Pair 3 of 3" in said(one)
    answer(one, clock, "left")
    assert [a.pair for a in saved(tmp_path)] == [pair for pair, _ in study.schedule(one.played.seed, 3)]
    one.anew.click()
    assert "Pair 1 of 3" in said(one) and one.played.player != two.played.player
    for _ in range(3):
        answer(one, clock, "left")
    assert len(study.games(three(), tmp_path)[0]) == 2 and "Players: 2; pairs: 3" in said(one)


def test_a_sweep_does_not_play_and_an_answer_that_cannot_be_kept_is_said(shell, tmp_path, clock):
    (tmp_path / "file").write_text("a file where the folder should be")
    g = Game(three(), tmp_path / "file" / "study")
    assert sweep() == [] and shown(g) == ["Start"] and "3 pairs of pictures" in g.page(5, 10**6)
    g.go.click()
    answer(g, clock, "left")
    assert not Game.running and shown(g) == ["Start"] and "could not be kept: cannot write" in said(g)


# -- the board, files, and what they add up to ---------------------------------------------------------------------------


def finish(of, folder, firsts):
    """A game of somebody who chooses the first network in so many rounds."""
    game = study.begin(of, folder, fresh=True)
    while not game.over:
        wanted = NAMES[0 if len(game.answers) < firsts else 1]
        game = game.answer("left" if game.upcoming[1] == wanted else "right", 2.0, folder)
    return game


def test_the_board_counts_finished_games_of_these_pictures_and_sees_new_ones_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(user_study, "LOOK", 0.02)
    board = Board(three(), tmp_path / "study")
    assert "Nobody has finished a game yet." in board.words.value and "number of pairs: none yet" in board.chart.value
    finish(three(), tmp_path / "study", 1)
    study.begin(three(), tmp_path / "study", fresh=True).answer("left", 2.0, tmp_path / "study")  # half played
    finish(three(seconds=9), tmp_path / "study", 3)
    (tmp_path / "study" / "strange.json").write_text('{"format": 77}')

    async def watched():
        board.live.value = True
        for _ in range(200):
            await asyncio.sleep(0.02)
            if board.games:
                break
        board.live.value = False
        await asyncio.sleep(0.01)
        return len(asyncio.all_tasks())

    assert asyncio.run(watched()) == 1
    assert len(board.games) == 1 and "players by number of pairs: 1 with 1" in board.chart.value
    assert "strange.json holds no answers that can be read here" in board.words.value
    assert "it answers for other pictures" in board.words.value


def test_a_schedule_has_every_pair_once_and_each_side_half_the_time():
    for seed, count in itertools.product(range(50), (1, 5, 12)):
        rounds = study.schedule(seed, count)
        assert sorted(pair for pair, _ in rounds) == list(range(count))
        assert abs(2 * sum(left for _, left in rounds) - count) <= 1
    assert study.schedule(2, 3) == [(2, False), (1, True), (0, False)], "half-played games go on"


def test_a_study_that_is_handed_out_is_the_same_study(tmp_path):
    of = three(seconds=7, title="Which?")
    of.save(tmp_path / "study.safetensors")
    again = user_study.load(tmp_path / "study.safetensors")
    assert again.digest == of.digest and (tuple(again.names), again.seconds, again.title) == (NAMES, 7, "Which?")
    assert [pair.person for pair in again.pairs] == ["person 0", "person 1", "person 2"]
    (tmp_path / "broken").write_bytes(b"{}")
    with pytest.raises(ValueError, match="is no study that can be read here"):
        user_study.load(tmp_path / "broken")


def test_a_file_holds_nothing_personal_and_one_that_no_game_wrote_is_refused(tmp_path):
    game = finish(three(), tmp_path, 2)
    (path,) = tmp_path.iterdir()
    content = json.loads(path.read_text())
    assert set(content) == {"format", "study", "names", "pairs", "limit", "player", "seed", "answers"}
    assert user_study.read(path) == game
    first = content["answers"][0]
    other = {**first, "left": NAMES[first["left"] == NAMES[0]]}
    wrong = [{"format": 2}, {"pairs": 1}, {"pairs": 10**12}, {"names": ["a", "a"]}, {"player": 3}, {"player": "../x"}]
    wrong += [{"answers": [other]}, {"answers": [{**first, "seconds": 61}]}, {"answers": [{**first, "choice": "x"}]}]
    for text in (*(json.dumps(content | change) for change in wrong), "", "[]", "null", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match="holds no answers that can be read here"):
            user_study.read(path)


def test_one_player_has_wilsons_interval_and_tastes_of_their_own_make_that_of_several_wider():
    votes = np.array([[1.0] * 17 + [0.0] * 7 + [np.nan]])
    assert study.interval(votes) == pytest.approx((0.508, 0.851), abs=1e-3)  # Wilson's of 17 of 24
    player, pair = np.mgrid[:6, :12]
    apart, mixed = study.interval(player % 2.0), study.interval((player + pair) % 2.0)
    assert apart[1] - apart[0] > 1.5 * (mixed[1] - mixed[0])
    assert study.interval(np.ones((6, 12))) == study.interval(np.ones((1, 72)))  # agreement of all is no certainty


def test_a_player_counts_once_with_the_longer_game_and_silence_is_told():
    def played(player, *choices):
        answers = tuple(study.Answer(k, "a", choice, 1.0) for k, choice in enumerate(choices))
        return study.Played("d" * 64, ("a", "b"), 4, 60, player, 0, answers)

    games = [played("0", "a", "b", None), played("0", "b"), played("1", "a", "a"), played("2", None)]
    told = user_study.summary(games)
    assert told.startswith("3 of 4 (75%") and "Players: 2; pairs: 2; 2 without an answer in time." in told
    assert user_study.summary(games[::-1]) == told and "Nobody answered" in user_study.summary(games[3:])
