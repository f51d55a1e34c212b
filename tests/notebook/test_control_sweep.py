"""The sweep reaches both ends of every control, leaves things as they were, and lets no exception pass."""

from __future__ import annotations

import ipywidgets as w
import pytest
from IPython.core.interactiveshell import InteractiveShell

from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("shell", "no_widgets_of_other_tests")


def visited(control, trait="value"):
    seen = []
    control.observe(lambda change: seen.append(change["new"]), trait)
    sweep()
    return seen


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (lambda: w.IntSlider(3, min=1, max=9), [1, 9, 3]),
        (lambda: w.FloatSlider(0.5, min=-1.0, max=1.0), [-1.0, 1.0, 0.5]),
        (lambda: w.FloatLogSlider(1.0, base=10, min=-2, max=3), [0.01, 1000.0, 1.0]),
        (lambda: w.BoundedIntText(2, min=0, max=4), [0, 4, 2]),
        (lambda: w.BoundedFloatText(2.0, min=0.0, max=4.0), [0.0, 4.0, 2.0]),
        (lambda: w.Play(5, min=0, max=20), [0, 20, 5]),
        (lambda: w.IntRangeSlider(value=(2, 3), min=0, max=4), [(0, 0), (0, 4), (4, 4), (2, 3)]),
        (
            lambda: w.FloatRangeSlider(value=(2.0, 3.0), min=0.0, max=4.0),
            [(0.0, 0.0), (0.0, 4.0), (4.0, 4.0), (2.0, 3.0)],
        ),
        (lambda: w.Checkbox(True), [False, True]),
        (lambda: w.ToggleButton(False), [True, False]),
        (lambda: w.Dropdown(options=["a", "b", "c"], value="b"), ["a", "b", "c", "b"]),
        (lambda: w.Dropdown(options=["a", "b"], value=None), ["a", "b", None]),
        (lambda: w.ToggleButtons(options={"one": 1, "two": 2}), [2, 1]),
        (lambda: w.RadioButtons(options=["a", "b"]), ["b", "a"]),
        (lambda: w.SelectionSlider(options=list(range(12)), value=4), [*range(12), 4]),
        (lambda: w.SelectionSlider(options=list(range(13)), value=4), [0, 12, 4]),
        (lambda: w.SelectionRangeSlider(options=[1, 2, 3], index=(0, 2)), [(1, 1), (1, 3), (3, 3), (1, 3)]),
        (lambda: w.SelectMultiple(options=["a", "b"], value=["b"]), [(), ("a",), ("b",), ("a", "b"), ("b",)]),
        (lambda: w.IntProgress(3), []),
        (lambda: w.Text("free"), []),
        (lambda: w.IntSlider(3, disabled=True), []),
        (lambda: w.IntSlider(3).add_class("no_sweep"), []),
    ],
)
def test_each_kind_of_control_goes_to_its_ends_and_back(control, expected):
    made = control()
    before = made.value
    assert visited(made) == expected
    assert made.value == before


def test_a_button_is_clicked_unless_it_is_tagged():
    clicked = []
    for name in ("run", "delete"):
        w.Button(description=name).on_click(lambda button: clicked.append(button.description))
    next(b for b in live(w.Button) if b.description == "delete").add_class("no_sweep")
    sweep()
    assert clicked == ["run"]


def live(kind):
    from ipywidgets.widgets.widget import _instances

    return [widget for widget in _instances.values() if isinstance(widget, kind)]


def test_returns_the_slowest_answer_of_each_control_by_its_name():
    w.IntSlider(description="width"), w.IntSlider(description="width"), w.Checkbox()
    assert list(sweep()) == ["width", "width (2)", "Checkbox"]
    assert all(seconds >= 0 for seconds in sweep().values())


def test_an_observer_that_fails_at_the_upper_end_only():
    control = w.IntSlider(2, min=0, max=10, description="depth")
    control.observe(lambda change: [0][change["new"] // 10], "value")
    with pytest.raises(RuntimeError, match=r"^depth at 10: IndexError: list index out of range$"):
        sweep()
    assert control.value == 2


def test_what_interact_swallows_is_found(capsys):
    w.interact(lambda k: 1 / (k - 5), k=(0, 5))
    with pytest.raises(RuntimeError, match=r"^k at 5: ZeroDivisionError: division by zero$") as error:
        sweep()
    assert isinstance(error.value.__cause__, ZeroDivisionError)  # its traceback shows the line


def test_what_a_button_swallows_is_found():
    w.Button(description="go").on_click(lambda button: {}["missing"])
    with pytest.raises(RuntimeError, match=r"^go at a click: KeyError: 'missing'$"):
        sweep()


def test_a_manual_interact_is_run_at_each_end():
    seen = []
    w.interact_manual(lambda k: seen.append(k), k=(0, 5, 1))
    sweep()
    assert {0, 5} <= set(seen) and seen[-1] == 2


def test_every_failing_control_is_named():
    for name in ("a", "b"):
        control = w.Checkbox(False, description=name)
        control.observe(lambda change: [][0] if change["new"] else None, "value")
    with pytest.raises(RuntimeError, match=r"a at True: IndexError.*; b at True: IndexError"):
        sweep()


def test_options_are_named_by_their_label():
    control = w.Dropdown(options=[("fine", 0), ("coarse", 1)], description="grain")
    control.observe(lambda change: 1 / (1 - change["new"]), "value")
    with pytest.raises(RuntimeError, match=r"^grain at 'coarse': ZeroDivisionError"):
        sweep()


def test_the_shell_shows_exceptions_again_afterwards(shell):
    before = shell.showtraceback
    sweep()
    assert shell.showtraceback == before


def test_outside_ipython_it_says_so():
    InteractiveShell.clear_instance()
    with pytest.raises(RuntimeError, match="needs a notebook"):
        sweep()
