"""What a drawing of a block marks as changed, and what it says in words."""

import pytest
from colours import contrast
from markup import Page

from privlab.models import morph
from privlab.notebook import plots
from privlab.notebook.plots import architecture_drawing

OLD = ["1 x 1, 8 to 4", "BatchNorm", "ReLU", "add the shortcut", "ReLU"]


@pytest.mark.parametrize(
    "new, old_marks, new_marks",
    [
        (OLD[:2] + OLD[3:], ["", "", "gone", "", ""], [""] * 4),
        (["1 x 1, 8 to 8", *OLD[1:]], ["changed", "", "", "", ""], ["changed", "", "", "", ""]),
        ([OLD[0], "GELU", *OLD[2:]], ["", "gone", "", "", ""], ["", "new", "", "", ""]),  # no norm turns into one
    ],
)
def test_marks_by_hand(new, old_marks, new_marks):
    assert architecture_drawing.marks(OLD, new) == (old_marks, new_marks)


def test_the_block_of_a_step_stands_beside_the_one_before_and_is_told_in_words():
    drawn = plots.morph_block(10)
    page = Page(drawn.html)
    assert page.tags[0] == ("div", {"role": "img", "aria-label": drawn.alt}) and page.texts["span"] == "shortcut" * 2
    assert f"10: {morph.STEPS[10].name}" in drawn.alt and "9: " in drawn.alt
    assert drawn.alt.count("GELU (gone)") == 2 == drawn.html.count("<strong>gone: </strong>GELU")
    assert "(" not in plots.morph_block(1).alt.partition("layers.")[2]  # nothing before it, nothing changed
    assert "maximum of 3 x 3" in plots.morph_block(4).alt  # the step changes the stem, so the stem is shown
    assert all(contrast(face, "black") >= 7 for face in architecture_drawing.FACES.values())
