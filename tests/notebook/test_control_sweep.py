"""The sweep reaches both ends of every control, leaves things as they were, and lets no exception pass."""

import ipywidgets as w
import pytest

from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("shell", "no_widgets_of_other_tests")


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (lambda: w.IntSlider(3, min=1, max=9), [1, 9, 3]),
        (lambda: w.IntRangeSlider(value=(2, 3), min=0, max=4), [(0, 0), (0, 4), (4, 4), (2, 3)]),
        (lambda: w.Checkbox(True), [False, True]),
        (lambda: w.SelectionSlider(options=list(range(13)), value=4), [0, 12, 4]),
        (lambda: w.IntSlider(3, disabled=True), []),
        (lambda: w.IntSlider(3).add_class("no_sweep"), []),
    ],
)
def test_each_kind_of_control_goes_to_its_ends_and_back(control, expected):
    made, seen = control(), []
    before = made.value
    made.observe(lambda change: seen.append(change["new"]), "value")
    sweep()
    assert seen == expected and made.value == before


def test_what_an_observer_raises_or_interact_and_a_button_swallow_is_found_with_its_place(shell):
    before, clicked = shell.showtraceback, []
    w.Button(description="run").on_click(lambda button: clicked.append(button.description))
    assert sweep() == ["run"] == clicked
    control = w.Dropdown(options=[("fine", 0), ("coarse", 1)], description="grain")
    control.observe(lambda change: [0][change["new"]], "value")
    w.interact(lambda k: 1 / (k - 5), k=(0, 5))
    w.Button(description="go").on_click(lambda button: {}["missing"])
    told = "grain at coarse: IndexError: list index.*k at 5: ZeroDivisionError.*go at a click: KeyError: 'missing'"
    with pytest.raises(RuntimeError, match=told) as error:
        sweep()
    assert isinstance(error.value.__cause__, IndexError)  # its traceback shows the line
    assert control.value == 0 and shell.showtraceback == before
