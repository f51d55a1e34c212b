"""The pad as a reader uses it: letters, inks, buttons and a photograph; what a pointer does on the sheet is tested in a browser."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import numpy as np
import pytest
import torch
from PIL import Image

from privlab.course.lab_00 import pad
from privlab.notebook import plots
from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

CELLS = pad.CELLS


@pytest.fixture
def sent():
    """Images that a pad handed over."""
    return []


@pytest.fixture
def made(sent):
    def send(image):
        sent.append(image)
        return plots.side_by_side(image, titles=["sent"], alt=f"Image {len(sent)}.")

    return pad.Pad(send, side=2 * CELLS)


def press(made, name):
    next(b for b in made.children[2].children if b.description == name).click()


def shown(made):
    (output,) = made.result.outputs
    return output["data"]["text/plain"]


def colour(ink):
    return torch.tensor([*bytes.fromhex(pad.COLOURS[ink][1:])]) / 255


def choose(made, name, content):
    made.upload.value = (
        {
            "name": name,
            "type": "",
            "size": len(content),
            "content": memoryview(content),
            "last_modified": datetime.now(UTC),
        },
    )


def file(image, form="PNG", **how):
    buffer = io.BytesIO()
    image.save(buffer, form, **how)
    return buffer.getvalue()


def test_it_begins_with_a_drawing_and_sends_nothing_unasked(made, sent):
    assert sent == [] and not made.result.outputs
    press(made, "Send")
    assert len(sent) == 1 and sent[0].equal(made.image) and shown(made) == "Image 1."
    made.text.value += "k"
    assert not made.result.outputs  # of another drawing
    assert made.image.shape == (1, 3, 2 * CELLS, 2 * CELLS) and made.image.min() >= 0 and made.image.max() <= 1
    assert len(made.cells) == CELLS and {len(row) for row in made.cells} == {CELLS}
    assert set("".join(made.cells)) == {"b", "y", "k", "r", "g"}


def test_a_letter_is_the_ink_of_a_cell(made):
    made.clear()
    assert made.image.eq(1).all()
    made.text.value = ".r\n\n  G"
    image = made.image
    assert image[0, :, 0, 2].equal(colour("r")) and image[0, :, 1, 3].equal(colour("r"))  # twice as large
    assert image[0, :, 4, 4].equal(colour("g"))
    assert image[0, :, 0, 0].eq(1).all() and image[0, :, 5, 6].eq(1).all()
    assert image.flatten(2).ne(1).any(1).sum() == 8  # two cells of 2 x 2 pixels


def test_what_is_no_ink_or_too_much_does_no_harm(made):
    made.text.value = "\n".join(["k" * 99] + ["?é1"] * 50)
    assert made.cells == ["k" * CELLS] + ["." * CELLS] * (CELLS - 1)


def test_the_sheet_shows_the_drawing_and_knows_the_ink(made):
    made.text.value = "kk\nr"
    assert f'<path fill="{pad.COLOURS["k"]}" d="M0 0h1v1h-1zM1 0h1v1h-1z"/>' in made.sheet.value
    assert f'<path fill="{pad.COLOURS["r"]}" d="M0 1h1v1h-1z"/>' in made.sheet.value
    made.ink.value = "y"
    assert f'data-ink="y" data-colour="{pad.COLOURS["y"]}"' in made.sheet.value
    assert 'role="img" aria-label="The sheet' in made.sheet.value and made.text.tooltip


def test_the_buttons(made, sent):
    example = made.text.value
    press(made, "Clear")
    assert made.image.eq(1).all() and not sent
    press(made, "Send")
    assert sent[0].eq(1).all() and shown(made) == "Image 1."
    press(made, "Example")
    assert made.text.value == example


def test_a_photograph_is_cropped_to_a_square_and_sent_until_one_draws_again(made, sent):
    wide = Image.new("RGB", (90, 30), "white")
    wide.paste("red", (30, 0, 60, 30))
    choose(made, "mine.png", file(wide))
    assert "mine.png, cropped to a square" in made.says.value
    press(made, "Send")
    assert sent[0].shape == (1, 3, 2 * CELLS, 2 * CELLS)
    assert sent[0][0, 0].eq(1).all() and sent[0][0, 1:, :, 2:-2].eq(0).all()  # the red square in the middle
    made.text.value += "\n"
    assert "your drawing" in made.says.value and made.photograph is None
    press(made, "Send")
    assert sent[1].equal(made.image)


def test_a_photograph_stands_upright_and_may_be_grey(made):
    grey = Image.fromarray(np.repeat(np.array([[0, 255]], np.uint8), 8, 0).repeat(4, 1))  # black left, white right
    exif = Image.Exif()
    exif[0x0112] = 3  # held upside down
    choose(made, "turned.jpg", file(grey, "JPEG", exif=exif, quality=100))
    assert made.image[0, :, :, 0].min() > 0.9 and made.image[0, :, :, -1].max() < 0.1


@pytest.mark.parametrize("content", [b"no image", b"", file(Image.new("RGB", (50, 50)))[:60]])
def test_what_is_no_image_is_said_and_the_drawing_stays(made, content):
    choose(made, "<b>notes</b>.txt", content)
    assert "&lt;b&gt;notes&lt;/b&gt;.txt cannot be read as an image" in made.says.value
    assert made.photograph is None


def test_an_exception_of_the_function_is_shown_and_raised(made):
    def broken(image):
        raise RuntimeError("the server is down")

    made.send = broken
    with pytest.raises(RuntimeError, match="server is down"):
        made.hand_over()
    assert made.result.outputs[0]["ename"] == "RuntimeError"


def test_a_sweep_moves_the_inks_and_clicks_every_button(made, sent, shell):
    example = made.text.value
    assert list(sweep()) == ["ink", "Send", "Clear", "Example"]
    assert len(sent) == 1 and made.text.value == example
    assert not made.result.outputs  # so a page shows no result before its reader sends something
