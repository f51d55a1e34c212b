"""What a drawing marks as changed, and what it says in words."""

from __future__ import annotations

import pytest

from privlab.models import morph, morph_steps
from privlab.notebook import plots
from privlab.notebook.plots import architecture_drawing

OLD = ["1 x 1, 8 to 4", "BatchNorm", "ReLU", "add the shortcut", "ReLU"]


@pytest.mark.parametrize(
    "new, old_marks, new_marks",
    [
        (OLD, [""] * 5, [""] * 5),
        (OLD[:4], ["", "", "", "", "gone"], [""] * 4),
        (OLD[:2] + OLD[3:], ["", "", "gone", "", ""], [""] * 4),
        (["BatchNorm", *OLD], [""] * 5, ["new", "", "", "", "", ""]),
        (["1 x 1, 8 to 8", *OLD[1:]], ["changed", "", "", "", ""], ["changed", "", "", "", ""]),
        ([OLD[0], "LayerNorm", *OLD[2:]], ["", "changed", "", "", ""], ["", "changed", "", "", ""]),
        (
            [OLD[0], "GELU", *OLD[2:]],
            ["", "gone", "", "", ""],
            ["", "new", "", "", ""],
        ),  # a norm does not become an activation
    ],
)
def test_marks_by_hand(new, old_marks, new_marks):
    assert architecture_drawing.marks(OLD, new) == (old_marks, new_marks)


@pytest.mark.parametrize("number", list(morph_steps.STEPS)[1:])
def test_the_drawing_of_a_step_marks_something_where_its_blocks_differ(number):
    small = dict(width=0.05, depths=(2, 2, 2, 2))
    stacks = [morph.outline(morph.build(n, **small)) for n in (number - 1, number)]
    old, new = architecture_drawing.marks(*stacks)
    assert (len(old), len(new)) == (len(stacks[0]), len(stacks[1]))
    assert any(old + new) == (stacks[0] != stacks[1])
    kept = [
        [layer for layer, mark in zip(stack, told, strict=True) if not mark]
        for stack, told in zip(stacks, (old, new), strict=True)
    ]
    assert kept[0] == kept[1]


def test_kinds():
    layers = [
        "7 x 7 depthwise, 4 to 4",
        "LayerNorm",
        "GELU",
        "add the shortcut",
        "maximum of 3 x 3, stride 2",
        "layer scale",
    ]
    assert [architecture_drawing.kind(layer) for layer in layers] == [
        "convolution",
        "norm",
        "activation",
        "other",
        "other",
        "other",
    ]


def test_picture_and_its_words():
    picture = plots.blocks(OLD, OLD[:4], ["step 9", "step 10"])
    assert picture.png.startswith(b"\x89PNG") and picture.width > 300
    assert picture.alt == (
        "Two blocks as stacks of layers. step 9: 1 x 1, 8 to 4, BatchNorm, ReLU, add the shortcut, ReLU (gone). "
        "step 10: 1 x 1, 8 to 4, BatchNorm, ReLU, add the shortcut."
    )
    assert picture.png != plots.blocks(OLD, OLD, ["step 9", "step 10"]).png


def test_titles_for_both():
    with pytest.raises(ValueError, match=r"titles=\['one'\]: give one for each of the two blocks"):
        plots.blocks(OLD, OLD, ["one"])
