"""Explorers as a reader moves them, and what a headless run draws of them beforehand."""

import time

import pytest
from markup import Page

from privlab.notebook import live, widgets

pytestmark = pytest.mark.usefixtures("shell", "no_widgets_of_other_tests")
WORDS, NUMBERS = ("a", "b", "c"), tuple(range(9))


def say(**values):
    return widgets.Sentence(" ".join(map(str, values.values())))


@pytest.fixture
def slow(monkeypatch):
    """A drawing that takes a second of a clock that otherwise stands still."""
    now = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: now[0])

    def draw(**values):
        now[0] += 1
        return say(**values)

    return draw


def test_each_setting_is_drawn_once_and_shown_again():
    calls = []
    box = widgets.explore(lambda n, mode: calls.append((n, mode)), start={"n": 2}, n=(1, 2, 4), mode=WORDS)
    box.controls["n"].value, box.controls["mode"].value = 4, "b"
    box.controls["n"].value = 2
    box.controls["mode"].value = "a"
    assert calls == [(2, "a"), (4, "a"), (4, "b"), (2, "b")]
    with pytest.raises(ValueError, match=r"start has \['m'\]"):
        widgets.explore(say, start={"m": 2}, n=(1, 2))


def test_the_control_follows_the_values():
    values = dict(many=tuple("abcdef"), few=("x", "y"), zero=(0, 1), flag=(False, True))
    box = widgets.explore(lambda **_: None, **values)
    kinds = [type(control).__name__ for control in box.controls.values()]
    assert kinds == ["Dropdown", "ToggleButtons", "SelectionSlider", "Checkbox"]
    found = Page(box.page(5, 100_000))
    assert [one["type"] for one in found.all("input")] == ["range", "checkbox"] and len(found.all("select")) == 2


def test_a_slow_grid_moves_one_control_at_a_time_first_and_the_ends_before_the_middles(slow):
    frames = widgets.explore(slow, mode=WORDS, size=NUMBERS).frames(5, 10**6)
    assert [*frames] == [(0, 0), (0, 8), (2, 0), (0, 4), (1, 0), (0, 2)]
    told = "Here are 6 of 27 settings, drawn beforehand. The notebook draws all. Where one is missing, the other"
    assert told in widgets.explore(slow, mode=WORDS, size=NUMBERS).page(5, 10**6)
    assert len(widgets.explore(say, n=NUMBERS).frames(600, 20)) == 2  # of ten characters each


def test_small_grids_take_of_the_time_first_and_leave_what_they_do_not_need(slow, monkeypatch):
    shown = {}
    keep = lambda bundle, display_id, **_: shown.update({display_id: bundle["text/html"]})  # noqa: E731
    monkeypatch.setattr(live, "display", keep)
    large, small, unseen = (widgets.explore(slow, n=tuple(range(n))) for n in (40, 2, 3))
    large.was_shown = small.was_shown = True
    live.leave_pages(5)
    assert unseen.model_id not in shown
    assert [shown[box.model_id].count("data-frame=") for box in (small, large)] == [2, 10]


def test_a_setting_that_fails_is_named_and_words_stay_words_on_a_page_that_touches_nothing_beyond_its_figure():
    box = widgets.explore(lambda a, b: 1 / (2 - a * b), a=(0, 1), b=(1, 2))
    with pytest.raises(RuntimeError, match=r"^an explorer at a=1, b=2: ZeroDivisionError: division by zero$"):
        box.page(600, 10**6)
    control = live.Control("way <b>", ("a", 'b "quoted"', "c"), 1, "menu")
    page = live.turning([control], {(0,): "one", (1,): "other", (2,): "third"}, "a note")
    (script,) = (one["oninput"] for _, one in Page(page).tags if "oninput" in one)
    assert not Page(page).all("b") and "document" not in script and "//" not in page  # nor fetches
    assert live.as_html(widgets.Sentence("**a** < b")).startswith("<p><strong>a</strong>")
    assert live.as_html([1, "<"]) == "<pre>[1, &#x27;&lt;&#x27;]</pre>"
