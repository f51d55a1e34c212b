"""What a headless run draws of an explorer beforehand: as much of the grid as time and room allow, and nothing that it must not."""

import base64
import io
import json
import re
import time

import ipywidgets
import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image

from privlab.notebook import frames, plots, stills, widgets
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.flipbook import Control

WORDS, NUMBERS = ("a", "b", "c"), tuple(range(9))


pytestmark = pytest.mark.usefixtures("shell", "no_widgets_of_other_tests")


def say(**values):
    return widgets.Sentence(" ".join(map(str, values.values())))


def texts(found):
    """Setting in words -> what its frame says."""
    options = [control["options"] for control in found["controls"]]
    return {
        " ".join(words[at] for words, at in zip(options, setting, strict=True)): bundles[0]["text/markdown"]
        for setting, bundles in found["frames"]
    }


def test_a_small_grid_is_drawn_whole_and_each_frame_belongs_to_its_setting():
    found = frames.fill(widgets.explore(say, start={"mode": "b"}, mode=WORDS, size=NUMBERS), seconds=600)
    said = texts(found)
    assert len(said) == 27 == found["grid"] and all(name == text for name, text in said.items())
    assert [control["rest"] for control in found["controls"]] == [1, 0]
    assert [control["kind"] for control in found["controls"]] == ["buttons", "slider"]
    assert json.loads(json.dumps(found)) is not None  # it travels with the state of the widgets


@pytest.fixture
def clock(monkeypatch):
    """Seconds of the processor that stand still, but for what a drawing adds."""
    now = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: now[0])
    return now


def test_a_slow_grid_keeps_whole_rows_with_an_end_and_every_word_first(clock):
    def slow(**values):
        clock[0] += 1
        return say(**values)

    found = frames.fill(widgets.explore(slow, mode=WORDS, size=NUMBERS), seconds=12)
    mode, size = found["controls"]
    assert mode["options"] == [*WORDS] and size["options"] == ["0", "2", "4", "8"], "words, then ends, then middles"
    assert len(found["frames"]) == 12 == clock[0], "the controls move independently, and nothing more was drawn"
    assert all(name == text for name, text in texts(found).items())
    assert frames.fill(widgets.explore(slow, n=(1, 2)), seconds=0.5)["frames"] == [([0], [{"text/markdown": "1"}])]


def test_numbers_come_by_the_widest_gaps_and_stand_in_their_order(clock):
    def slow(size):
        clock[0] += 1
        return say(size=size)

    (size,) = frames.fill(widgets.explore(slow, start={"size": 2}, size=NUMBERS), seconds=3)["controls"]
    assert size["options"] == ["0", "2", "5", "8"] and size["rest"] == 1


def test_room_bounds_what_is_kept():
    found = frames.fill(widgets.explore(lambda n: widgets.Sentence("x" * 1000), n=NUMBERS), 600, room=7500)
    total = sum(len(text) for _, bundles in found["frames"] for text in bundles[0].values())
    assert 2 <= len(found["frames"]) < 9 and total <= 7500


def test_with_four_controls_one_moves_at_a_time():
    start = dict.fromkeys("pqrs", 1)
    found = frames.fill(widgets.explore(say, start, **dict.fromkeys("pqrs", (0, 1, 2))), seconds=600)
    settings = [setting for setting, _ in found["frames"]]
    assert found["alone"] and found["grid"] == 81 and len(settings) == 9
    assert all(sum(at != 1 for at in setting) <= 1 for setting in settings)


def test_where_drawing_is_slow_one_control_moves_at_a_time_rather_than_all_within_a_corner(clock):
    def slow(**values):
        clock[0] += 1
        return say(**values)

    box = widgets.explore(slow, mode=WORDS, size=NUMBERS)
    for control in box.controls.values():  # as a sweep of the controls does
        for at in range(len(control.options)):
            control.index = at
        control.index = 0
    found = frames.fill(box, seconds=10)
    assert found["alone"] and clock[0] == 11 == len(found["frames"])
    assert [len(control["options"]) for control in found["controls"]] == [3, 9]


def test_what_was_drawn_before_is_not_drawn_again():
    calls = []
    box = widgets.explore(lambda n: calls.append(n), n=(1, 2, 3))
    box.controls["n"].value = 3
    frames.fill(box, seconds=600)
    assert calls == [1, 3, 2]


def test_pictures_become_smaller_and_keep_their_words_and_a_chart_every_pixel():
    noise = torch.rand(1, 3, 200, 200, generator=torch.Generator().manual_seed(0))

    def draw(n):
        return plots.lines({"a": ([1, 2], [1, n])}, xlabel="x", ylabel="y", alt=f"A line to {n}."), plots.face(
            noise[0], "Noise.", 200
        )

    found = frames.fill(widgets.explore(draw, n=(1, 2)), seconds=600)
    for (_, bundles), n in zip(found["frames"], (1, 2), strict=True):
        for bundle, picture in zip(bundles, draw(n), strict=True):
            assert len(bundle["text/html"]) < 0.6 * len(picture.tag()) and picture.alt in bundle["text/html"]
        (data,) = re.findall(r"data:image/webp;base64,([^\"]+)", bundles[0]["text/html"])
        kept = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")
        was = Image.open(io.BytesIO(draw(n)[0].png)).convert("RGBA")
        assert (np.asarray(kept) == np.asarray(was)).all()


def test_every_explorer_of_the_kernel_gets_its_frames_within_one_room(monkeypatch):
    monkeypatch.setattr(frames, "ROOM", 20_000)
    large = widgets.explore(lambda n: widgets.Sentence("x" * 1000 + str(n)), n=tuple(range(40)))
    small = widgets.explore(say, mode=WORDS)
    told = frames.compute(600)
    assert told == {"mode": "3 of 3", "n": f"{len(large.frames['frames'])} of 40"}
    assert 5 < len(large.frames["frames"]) < 20 and len(small.frames["frames"]) == 3
    assert ipywidgets.Widget.get_manager_state()["state"][small.model_id]["state"]["frames"] == small.frames


def test_of_the_time_of_all_explorers_small_grids_take_first(clock):
    def slow(**values):
        clock[0] += 1
        return say(**values)

    large, small = widgets.explore(slow, n=tuple(range(40))), widgets.explore(slow, n=(1, 2, 3, 4, 5))
    frames.compute(3)
    assert (len(small.frames["frames"]), len(large.frames["frames"])) == (5, 3)

    ipywidgets.Widget.close_all()
    large, small = widgets.explore(slow, n=tuple(range(40))), widgets.explore(slow, n=tuple(range(30)))
    frames.compute(3)
    assert (len(small.frames["frames"]), len(large.frames["frames"])) == (6, 2), "something is left for the other"


def test_frames_that_are_widgets_and_controls_out_of_the_sweep_are_left_alone():
    inner = widgets.explore(lambda n: ipywidgets.HTML(str(n)), n=(1, 2))
    calls = []
    kept_out = widgets.explore(lambda n: calls.append(n), n=(1, 2))
    kept_out.controls["n"].add_class(SKIP)
    assert frames.compute() == {} and inner.frames == kept_out.frames == {} and calls == [1]


def test_a_setting_that_fails_is_named():
    widgets.explore(lambda a, b: 1 / (2 - a * b), a=(0, 1), b=(1, 2))
    with pytest.raises(RuntimeError, match=r"^an explorer at a=1, b=2: ZeroDivisionError: division by zero$"):
        frames.compute(600)


def test_outside_ipython_it_says_so():
    box = widgets.explore(say, n=(1, 2))
    InteractiveShell.clear_instance()
    with pytest.raises(RuntimeError, match="need a notebook"):
        frames.fill(box)


def test_a_game_has_its_frames_first_and_explorers_the_room_that_is_left(monkeypatch):
    monkeypatch.setattr(frames, "ROOM", 9_000)
    turns = [Control("round", ("1 of 2", "2 of 2"), 0)]

    class Game(stills.Stills):
        def stills(self):
            return stills.turned(turns, lambda k: str(k) * 3_000, "Note. ")

    explorer = widgets.explore(lambda n: widgets.Sentence("x" * 1000 + str(n)), n=tuple(range(40)))
    game = Game()
    told = frames.compute(600)
    assert told == {"round": "2 of 2", "n": f"{len(explorer.frames['frames'])} of 40"}
    assert game.frames["note"] == "Note. " and 1 <= len(explorer.frames["frames"]) <= 2
    ipywidgets.Widget.close_all()
    monkeypatch.setattr(frames, "ROOM", 5_000)
    game = Game()
    assert frames.compute() == {} == game.frames, "what has no room rests"
    assert stills.turned([Control("round", ("1 of 1",), 0)], str) == {}
