"""For tests of widgets: each begins and ends with none."""

import ipywidgets
import pytest


@pytest.fixture
def no_widgets_of_other_tests():
    ipywidgets.Widget.close_all()
    yield
    ipywidgets.Widget.close_all()
