"""Explorers, as a reader moves them."""

import ipywidgets
import pytest

from privlab.notebook import explorer, widgets


def controls(box):
    return [w for w in box.children if not isinstance(w, ipywidgets.Output)]


def test_explore_shows_several_things_and_shows_them_again(monkeypatch):
    shown = []
    monkeypatch.setattr(explorer, "display", lambda *things: shown.append(things))
    box = widgets.explore(lambda n: (n, -n), n=(1, 2))
    (slider,) = controls(box)
    slider.value = 2
    slider.value = 1
    assert shown == [(1, -1), (2, -2), (1, -1)]


def test_explore_draws_for_each_value_once():
    calls = []

    def draw(width, mode):
        calls.append((width, mode))
        return width

    box = widgets.explore(draw, start=dict(width=2), width=(1, 2, 4), mode=("a", "b"))
    slider, buttons = controls(box)
    assert isinstance(slider, ipywidgets.SelectionSlider) and isinstance(buttons, ipywidgets.ToggleButtons)
    assert calls == [(2, "a")]
    slider.value = 4
    buttons.value = "b"
    slider.value = 2
    buttons.value = "a"  # seen before: kept
    assert calls == [(2, "a"), (4, "a"), (4, "b"), (2, "b")]


def test_the_control_follows_the_values():
    box = widgets.explore(lambda **_: None, many=tuple("abcdef"), flag=(True, False), numbers=(0.1, 1))
    assert [type(w).__name__ for w in controls(box)] == ["Dropdown", "ToggleButtons", "SelectionSlider"]
    assert controls(box)[2].description == "numbers" and not controls(box)[2].continuous_update


def test_0_and_1_stay_numbers():
    seen = []
    (control,) = controls(widgets.explore(lambda photograph: seen.append(photograph), photograph=(0, 1)))
    assert type(control).__name__ == "SelectionSlider" and [type(v) for v in seen] == [int]


def test_false_and_true_are_a_box_to_tick():
    calls = []
    stages = dict.fromkeys(("stage_1", "stage_4"), (False, True))
    box = widgets.explore(lambda **given: calls.append(given), start={"stage_4": True}, **stages)
    one, four = controls(box)
    assert (
        type(one).__name__ == "Checkbox" and one.description == "stage 1" and (one.value, four.value) == (False, True)
    )
    one.value = True
    assert calls == [{"stage_1": False, "stage_4": True}, {"stage_1": True, "stage_4": True}]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(width=()), r"width=\(\) leaves nothing"),
        (dict(width=(1,), start=dict(width=5)), "width=5 is none of"),
        (dict(width=(1,), start=dict(depth=5)), "'depth' is no control"),
    ],
)
def test_bad_controls_are_named(options, says):
    with pytest.raises(ValueError, match=says):
        widgets.explore(lambda width: width, **options)
