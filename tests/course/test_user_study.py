"""The user study: its game as a reader works it, its board, its files, and the interval of what they add up to."""

import asyncio
import base64
import io
import json
import re
import threading

import numpy as np
import pytest
import torch
from markup import Page
from PIL import Image

from privlab.course.lab_12 import study, user_study
from privlab.course.lab_12.user_study import Board, Game, Pair, Study
from privlab.notebook.control_sweep import sweep


@pytest.fixture(autouse=True)
def no_game_of_other_tests(no_widgets_of_other_tests):
    user_study._running.clear()


def flat(level):
    return torch.full((3, 8, 8), level)


def three(**options):
    """Three pairs whose pictures say by their grey what they are: targets .0 to .2, full .3 to .5, skip_4 .6 to .8."""
    return Study(
        [Pair(flat(0.1 * i), flat(0.3 + 0.1 * i), flat(0.6 + 0.1 * i), f"person {i}") for i in range(3)], **options
    )


class Clock:
    """Time that a test lets pass."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(Game, "clock", staticmethod(made))
    return made


def said(g):
    return " ".join(Page(g.text.value).text.split())


def grey(widget):
    """The level of the flat picture that a widget shows, in tenths."""
    (image,) = Page(widget.value).all("img")
    cell = np.asarray(Image.open(io.BytesIO(base64.b64decode(image["src"].split("base64,")[1]))))
    assert cell.shape == (192, 192, 3) and len(np.unique(cell)) == 1
    return round(cell[0, 0, 0] / 25.5)


def shown(g):
    """Which panes are on the page."""
    panes = {"start": g.go, "new": g.anew, "round": g.round}
    return {name for name, pane in panes.items() if pane.layout.display != "none"}


def saved(folder):
    """The answers of the one game in a folder."""
    (path,) = folder.glob("*.json")
    return user_study.read(path).answers


# -- a game ------------------------------------------------------------------------------------------------------------


def test_a_whole_game_by_clicks(tmp_path, clock):
    of = three()
    g = Game(of, tmp_path, seed=2)
    assert shown(g) == {"start"} and "3 pairs of pictures, 60 seconds for each" in said(g) and str(tmp_path) in said(g)
    assert g.go.description == "Start" and not list(tmp_path.iterdir()) and not g.target.value
    g.go.click()
    rounds = study.schedule(2, 3)
    for number, ((pair, first_left), side) in enumerate(zip(rounds, ("left", "right", "left"), strict=True), 1):
        assert shown(g) == {"round"} and f"Pair {number} of 3." in said(g) and "looks more like this person?" in said(g)
        assert (grey(g.target), grey(g.left), grey(g.right)) == (
            pair,
            *((3 + pair, 6 + pair)[:: 1 if first_left else -1]),
        )
        assert g.seconds.value == "60 s left" and g.bar.value == 60
        clock.wait(10.25)
        g.tick()
        assert g.seconds.value == "50 s left" and g.bar.value == 50
        g.buttons[side].click()
        assert len(saved(tmp_path)) == number
    assert shown(g) == {"new"} and not g.running and not user_study._running
    assert [(a.pair, a.seconds) for a in saved(tmp_path)] == [(pair, 10.25) for pair, _ in rounds]
    chosen = [
        ("full", "skip_4")[left != (side == "left")]
        for (_, left), side in zip(rounds, ("left", "right", "left"), strict=True)
    ]
    assert [a.choice for a in saved(tmp_path)] == chosen
    mine = user_study.summary([g.played])
    assert said(g).count(str(mine)) == 1 and "There is no other game yet." in said(g)
    assert "69.51% found the picture from the full network closer" in said(g)
    assert "3 answers show nothing either way" in said(g) and "recognise the person" in said(g)


def test_nothing_tells_which_is_which_before_the_end(tmp_path, clock):
    """Nothing that the page is sent differs between two games in which the sides are swapped, but for the pictures' bytes."""

    def sent(seed):
        g = Game(three(), tmp_path / str(seed), seed)
        g.go.click()
        texts = []
        for _ in range(2):
            clock.wait(1)
            g.tick()
            state = {
                id(w): w.get_state()
                for w in (g, g.text, g.target, g.left, g.right, g.bar, g.seconds, *g.buttons.values())
            }
            text = re.sub(r"base64,[^\"]+|IPY_MODEL_\w+", "", json.dumps([*state.values()], default=repr))
            texts.append(text)
            g.buttons["left"].click()
        assert all("full" not in text and "skip" not in text and "person 0" not in text for text in texts)
        g.close()
        return texts

    assert sent(0) == sent(1) == sent(2)
    assert len({study.schedule(seed, 3)[0][1] for seed in range(3)}) == 2  # the sides did differ


def test_the_end_shows_which_was_which(tmp_path, clock):
    of = three(names=("<one>", "other"))
    g = Game(of, tmp_path, seed=2)
    g.go.click()
    clock.wait(70)
    g.tick()
    for _ in range(2):
        clock.wait(2)
        g.buttons["left"].click()
    (image,) = Page(g.text.value).all("img")
    words = ", ".join(a.choice or "none" for a in saved(tmp_path))
    assert image["alt"] == f"Pairs 1 to 3: the target above, then <one> and other. You chose: {words}."
    assert "<one>" not in g.text.value and words.startswith("none, ")


# -- time --------------------------------------------------------------------------------------------------------------


def test_no_answer_in_time_is_written_down_and_the_next_pair_follows(tmp_path, clock):
    g = Game(three(seconds=5), tmp_path)
    g.go.click()
    clock.wait(4.9)
    g.tick()
    assert "Pair 1" in said(g) and g.seconds.value == "1 s left"
    clock.wait(0.1)
    g.tick()
    assert said(g).startswith("No answer in time for the last pair. Pair 2 of 3.") and g.seconds.value == "5 s left"
    assert [(a.choice, a.seconds) for a in saved(tmp_path)] == [(None, 5)]
    clock.wait(1)
    g.buttons["right"].click()
    assert said(g).startswith("Pair 3 of 3.")


def test_a_click_that_comes_too_late_is_no_answer(tmp_path, clock):
    """As when another cell has kept the kernel busy, and the clock with it."""
    g = Game(three(), tmp_path)
    g.go.click()
    clock.wait(61)
    g.buttons["left"].click()
    assert [(a.choice, a.seconds) for a in saved(tmp_path)] == [(None, 60)]


def test_a_double_click_answers_once(tmp_path, clock):
    g = Game(three(), tmp_path)
    g.go.click()
    g.buttons["left"].click()  # came with the start
    assert not list(tmp_path.iterdir())
    clock.wait(2)
    g.buttons["left"].click()
    clock.wait(0.1)
    g.buttons["left"].click()
    assert len(saved(tmp_path)) == 1 and "Pair 2" in said(g)


def test_where_nobody_is_there_the_game_waits(tmp_path, clock):
    g = Game(three(seconds=5), tmp_path)
    g.go.click()
    for _ in range(5):
        clock.wait(5)
        g.tick()
    assert len(saved(tmp_path)) == 2 and not g.running and shown(g) == {"start", "new"} and g.go.description == "Go on"
    assert "2 pairs in a row went without an answer, so the game waits for you." in said(g)
    g.go.click()
    assert "Pair 3 of 3" in said(g) and g.seconds.value == "5 s left"
    clock.wait(5)
    g.tick()
    assert shown(g) == {"new"} and "Nobody answered in time" in said(g)


def test_the_clock_runs_on_an_event_loop_and_leaves_no_task(tmp_path):
    async def reader():
        g = Game(three(seconds=1), tmp_path)
        assert len(asyncio.all_tasks()) == 1  # nothing runs before the start
        g.go.click()
        assert g.task in asyncio.all_tasks()
        for _ in range(100):
            if g.played.answers:
                break
            await asyncio.sleep(0.05)
        assert g.played.answers[0].choice is None and g.seconds.value == "1 s left"
        await asyncio.sleep(user_study.GUARD + 0.05)
        g.buttons["left"].click()
        await asyncio.sleep(user_study.GUARD + 0.05)
        g.buttons["right"].click()
        assert not g.running and g.task is None
        await asyncio.sleep(0.01)
        return len(asyncio.all_tasks())

    threads = threading.active_count()
    assert asyncio.run(reader()) == 1  # the test's own
    assert threading.active_count() == threads
    assert [a.choice is None for a in saved(tmp_path)] == [True, False, False]


# -- again -------------------------------------------------------------------------------------------------------------


def test_the_cell_is_run_again_in_the_middle(tmp_path, clock):
    of = three()
    one = Game(of, tmp_path, seed=4)
    one.go.click()
    clock.wait(2)
    one.buttons["left"].click()
    two = Game(of, tmp_path)
    assert not one.running and "The game was stopped." in said(one) and shown(two) == {"start", "new"}
    assert "A game is half played: 1 of 3." in said(two)
    two.go.click()
    assert "Pair 2 of 3" in said(two) and two.played.player == one.played.player
    clock.wait(2)
    two.buttons["left"].click()
    one.go.click()  # the old one goes on from what the other has written
    assert not two.running and "Pair 3 of 3" in said(one)
    clock.wait(2)
    one.buttons["left"].click()
    assert [a.pair for a in saved(tmp_path)] == [pair for pair, _ in study.schedule(4, 3)]


def test_somebody_else_begins_a_new_game(tmp_path, clock):
    of = three()
    g = Game(of, tmp_path)
    g.go.click()
    clock.wait(2)
    g.buttons["left"].click()
    g.rest()
    first = g.played.player
    g.anew.click()
    assert "Pair 1 of 3" in said(g) and g.played.player != first
    for _ in range(3):
        clock.wait(2)
        g.buttons["left"].click()
    both, left_out = study.games(of, tmp_path)
    assert user_study.summary(both).players == 2 and "Players: 2; pairs: 3" in said(g) and not left_out
    g.anew.click()
    assert "Pair 1 of 3" in said(g)


# -- headless ----------------------------------------------------------------------------------------------------------


def test_a_sweep_of_the_controls_does_not_play(shell, tmp_path):
    g = Game(three(), tmp_path)
    assert sweep() == {} and shown(g) == {"start"} and not list(tmp_path.iterdir())
    assert g._repr_mimebundle_()["text/plain"] == "A game of 3 pairs, 60 s each; it needs a running kernel."


def test_what_goes_wrong_is_shown_and_passed_on(tmp_path, clock):
    (tmp_path / "file").write_text("a file where the folder should be")
    g = Game(three(), tmp_path / "file" / "study")
    g.go.click()
    clock.wait(2)
    with pytest.raises(OSError, match="cannot write"):
        g.choose("left")
    (output,) = g.failure.outputs
    assert output["ename"] == "NotADirectoryError" and "cannot write" in output["evalue"]
    assert not g.running and shown(g) == {"start"} and "Stopped by NotADirectoryError, see below." in said(g)
    g.go.click()
    assert g.failure.outputs == () and "Pair 1 of 3" in said(g)


HEAD = (
    '# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\n\n# %% [markdown]\n# ## A game\n\n# %%\n'
)
LAB = """\
import torch
from privlab.course.lab_12.user_study import Game, Pair, Study

of = Study([Pair(*torch.rand(3, 3, 8, 8)) for _ in range(3)])
g = Game(of, FOLDER)
"""


@pytest.fixture
def run(execute_lab, tmp_path):
    return lambda end: execute_lab(HEAD + LAB.replace("FOLDER", repr(str(tmp_path / "study"))) + end)


def test_a_headless_run_keeps_the_first_state(run, tmp_path):
    found, kept = run("g")
    assert found["error"] is None and found["controls"] == {}
    assert "3 pairs of pictures, 60 seconds for each" in kept and "data:image/png" not in kept
    assert not (tmp_path / "study").exists()


def test_an_error_reaches_the_runner(run):
    """As that of an `explore` does: the cell is green, and the runner finds it in the saved state of the widget."""
    found, _ = run("g.start()\ng.clock = lambda: 1 / 0\ntry:\n    g.tick()\nexcept ZeroDivisionError:\n    pass\ng")
    assert found["error"] == "widget of In [3], under 'A game': ZeroDivisionError: division by zero"
    assert "1 / 0" in found["traceback"]


# -- the board, files, and what they add up to ---------------------------------------------------------------------------


def finish(of, folder, firsts, seed=0):
    """A game of somebody who chooses the first network in so many rounds."""
    game = study.begin(of, folder, seed=seed, fresh=True)
    while not game.over:
        wanted = of.names[0 if len(game.answers) < firsts else 1]
        game = game.answer("left" if game.upcoming[1] == wanted else "right", 2.0, folder)
    return game


def test_the_board_counts_finished_games_of_these_pictures_and_sees_new_ones_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(user_study, "LOOK", 0.02)
    of = three()
    board = Board(of, tmp_path / "study")
    assert (
        "Nobody has finished a game yet." in board.words.value
        and "players by number of pairs: none yet" in board.chart.value
    )
    finish(of, tmp_path / "study", 1)
    study.begin(of, tmp_path / "study", fresh=True).answer("left", 2.0, tmp_path / "study")  # half played
    finish(three(names=("a", "b")), tmp_path / "study", 3)
    (tmp_path / "study" / "strange.json").write_text('{"format": 77}')

    async def watched():
        board.live.value = True
        for _ in range(200):
            await asyncio.sleep(0.02)
            if board.games:
                break
        board.live.value = False
        assert board.task is None

    asyncio.run(watched())
    assert len(board.games) == 1 and "players by number of pairs: 1 with 1" in board.chart.value
    assert "left out: strange.json holds no answers that can be read here" in board.words.value
    assert "it answers for other pictures" in board.words.value


@pytest.mark.parametrize("count", [1, 5, 12])
def test_a_schedule_has_every_pair_once_and_each_side_half_the_time(count):
    for seed in range(50):
        rounds = study.schedule(seed, count)
        assert sorted(pair for pair, _ in rounds) == list(range(count))
        assert abs(2 * sum(left for _, left in rounds) - count) <= 1


def test_a_study_that_is_handed_out_is_the_same_study(tmp_path):
    of = three(seconds=7, title="Which?")
    of.save(tmp_path / "study.safetensors")
    again = user_study.load(tmp_path / "study.safetensors")
    assert again.digest == of.digest and (again.names, again.seconds, again.title) == (of.names, 7, "Which?")
    assert [pair.person for pair in again.pairs] == ["person 0", "person 1", "person 2"]
    (tmp_path / "broken").write_bytes(b"{}")
    with pytest.raises(ValueError, match="is no study that can be read here"):
        user_study.load(tmp_path / "broken")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dict(names=("a", "a")), "give two different ones"),
        (dict(seconds=0), "from 1 to 3600"),
        (dict(pairs=()), "at least one"),
    ],
)
def test_bad_studies_are_named(given, says):
    with pytest.raises(ValueError, match=says):
        Study(**{"pairs": three().pairs, **given})
    with pytest.raises(ValueError, match="would tell them apart"):
        Pair(flat(0.1), flat(0.2), torch.zeros(3, 9, 9))


def test_a_file_holds_nothing_personal_and_one_that_no_game_wrote_is_refused(tmp_path):
    game = finish(three(), tmp_path, 2)
    (path,) = tmp_path.iterdir()
    content = json.loads(path.read_text())
    assert set(content) == {"format", "study", "names", "pairs", "limit", "player", "seed", "answers"}
    assert user_study.read(path) == game
    first = content["answers"][0]
    other = {**first, "left": "skip_4" if first["left"] == "full" else "full"}
    wrong = [{"format": 2}, {"seed": -1}, {"pairs": 1}, {"names": ["a", "a"]}, {"player": 3}]
    wrong += [{"answers": [other]}, {"answers": [{**first, "seconds": 61}]}, {"answers": [{**first, "choice": "x"}]}]
    for change in wrong:
        path.write_text(json.dumps(content | change))
        with pytest.raises(ValueError, match="holds no answers that can be read here"):
            user_study.read(path)
    for text in ("", "[]", "{", "null", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match="holds no answers that can be read here"):
            user_study.read(path)


def test_wilson_by_hand_and_one_player_has_it():
    z, hits, count = 1.959964, 17, 24
    share, spread = hits / count, z * ((hits / count * (1 - hits / count) + z**2 / 4 / count) / count) ** 0.5
    by_hand = [(share + z**2 / 2 / count + sign * spread) / (1 + z**2 / count) for sign in (-1, 1)]
    assert study.wilson(hits, count) == pytest.approx(by_hand, abs=1e-6) and study.wilson(0, 0) == (0, 1)


def played(choices, player):
    """A game with these choices, pair by pair: 1 for the first name."""
    answers = tuple(study.Answer(k, "a", "ab"[not choice], 1.0) for k, choice in enumerate(choices))
    return user_study.Played("d" * 64, ("a", "b"), len(choices), 60, player, 0, answers)


def test_players_with_tastes_of_their_own_make_the_interval_wider_and_their_order_changes_nothing():
    mixed = [played([k % 2 == n % 2 for k in range(12)], str(n)) for n in range(6)]
    apart = [played([n % 2] * 12, str(n)) for n in range(6)]
    wide, narrow = user_study.summary(apart), user_study.summary(mixed)
    assert wide.first == narrow.first == 36 and wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert (narrow.low, narrow.high) >= (0, 0) and user_study.summary(apart[::-1]) == wide
    agreed = user_study.summary([played([1] * 12, str(n)) for n in range(6)])
    assert (agreed.low, agreed.high) == study.wilson(72, 72)  # agreement of all is no certainty
