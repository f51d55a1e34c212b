"""The pad as a reader uses it: letters, inks, buttons and a photograph; what a pointer does on the sheet is tested in a browser."""

import io
from datetime import UTC, datetime

import numpy as np
import pytest
import torch
from IPython.display import HTML
from PIL import Image

from privlab.course.lab_00 import pad
from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests", "shell")
CELLS = pad.CELLS


@pytest.fixture
def made():
    """A pad; `sent` are the images that it handed over."""
    made, sent = pad.Pad(lambda image: sent.append(image) or HTML(f"Image {len(sent)}.")), []
    made.sent = sent
    return made


def press(made, name):
    next(b for b in made.children[2].children if b.description == name).click()


def choose(made, name, image=None):
    file = io.BytesIO()  # without an image it is no image file
    if image:
        image.save(file, name.split(".")[1], exif=image.getexif())
    made.upload.value = (dict(name=name, type="", size=9, last_modified=datetime.now(UTC), content=file.getvalue()),)


def test_it_begins_with_a_drawing_and_sends_nothing_unasked(made):
    assert made.sent == [] and set("".join(made.cells)) == {"b", "y", "k", "r", "g"}
    press(made, "Send")
    assert made.sent[0].equal(made.image) and made.result.value == "Image 1."
    made.text.value += "k"
    assert not made.result.value, "of another drawing"


def test_a_letter_is_the_ink_of_a_cell_and_what_is_none_or_too_much_does_no_harm(made):
    press(made, "Clear")
    assert made.image.eq(1).all()
    made.text.value = ".r\n\n  G"
    red, green = (torch.tensor([*bytes.fromhex(pad.COLOURS[ink][1:])])[:, None, None] / 255 for ink in "rg")
    assert made.image[0, :, :8, 8:16].eq(red).all() and made.image[0, :, 16:24, 16:24].eq(green).all()
    assert (
        made.image.shape == (1, 3, 224, 224) and made.image.ne(1).any(1).sum() == 2 * 8 * 8
    )  # two cells of 8 x 8 pixels
    assert f'<path fill="{pad.COLOURS["g"]}" d="M2 2h1v1h-1z"/>' in made.sheet.value
    made.text.value = "\n".join(["k" * 99] + ["?é1"] * 50)
    assert made.cells == ["k" * CELLS] + ["." * CELLS] * (CELLS - 1)
    made.ink.value = "y"
    assert f'role="img" aria-label="The sheet, {CELLS} by' in made.sheet.value and 'data-ink="y"' in made.sheet.value


def test_a_photograph_is_cropped_upright_and_sent_until_one_draws_again_and_what_is_no_image_is_said(made):
    wide = Image.new("RGB", (90, 30), "white")
    wide.paste("red", (30, 0, 60, 30))
    choose(made, "mine.png", wide)
    press(made, "Send")
    assert made.sent[0][0, 0].eq(1).all() and made.sent[0][0, 1:, :, 8:-8].eq(0).all()  # the red square in the middle
    made.text.value += "\n"
    assert "your drawing" in made.says.value and not made.image.equal(made.sent[0])
    grey = Image.fromarray(np.repeat(np.array([[0, 255]], np.uint8), 8, 0).repeat(4, 1))  # black left, white right
    grey.getexif()[0x0112] = 3  # held upside down
    choose(made, "turned.jpeg", grey)
    assert made.image[0, :, :, 0].min() > 0.9 and made.image[0, :, :, -1].max() < 0.1
    choose(made, "<b>.txt")
    assert "&lt;b&gt;.txt cannot be read as an image" in made.says.value


def test_a_sweep_moves_the_inks_and_clicks_every_button_and_an_error_of_the_function_is_said(made):
    assert sweep() == ["ink", "Send", "Clear", "Example"]
    assert len(made.sent) == 1 and made.text.value == pad.HOUSE and "Image 2." in made.page(5, 10**6)
    made.send = lambda image: 1 / 0
    with pytest.raises(ZeroDivisionError):
        made.hand_over()
    assert "ZeroDivisionError: division by zero" in made.says.value
