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
def sent():
    """Images that the pad handed over."""
    return []


@pytest.fixture
def made(sent):
    return pad.Pad(lambda image: sent.append(image) or HTML(f"Image {len(sent)}."))


def press(made, name):
    next(b for b in made.children[2].children if b.description == name).click()


def colour(ink):
    return torch.tensor([*bytes.fromhex(pad.COLOURS[ink][1:])]) / 255


def choose(made, name, content):
    if not isinstance(content, bytes):
        buffer = io.BytesIO()
        content.save(buffer, name.split(".")[1], exif=content.getexif())
        content = buffer.getvalue()
    made.upload.value = (dict(name=name, type="", size=9, last_modified=datetime.now(UTC), content=content),)


def test_it_begins_with_a_drawing_and_sends_nothing_unasked(made, sent):
    assert sent == [] and not made.result.value
    press(made, "Send")
    assert len(sent) == 1 and sent[0].equal(made.image) and made.result.value == "Image 1."
    made.text.value += "k"
    assert not made.result.value  # of another drawing
    assert made.image.shape == (1, 3, 224, 224) and made.image.min() >= 0 and made.image.max() <= 1
    assert set("".join(made.cells)) == {"b", "y", "k", "r", "g"} and "Image 2." in made.page(5, 10**6)


def test_a_letter_is_the_ink_of_a_cell_and_what_is_none_or_too_much_does_no_harm(made):
    press(made, "Clear")
    assert made.image.eq(1).all()
    made.text.value = ".r\n\n  G"
    assert made.image[0, :, 0, 8].equal(colour("r")) and made.image[0, :, 7, 15].equal(colour("r"))
    assert made.image[0, :, 16, 16].equal(colour("g"))
    assert made.image.flatten(2).ne(1).any(1).sum() == 2 * 8 * 8  # two cells of 8 x 8 pixels
    assert f'<path fill="{pad.COLOURS["g"]}" d="M2 2h1v1h-1z"/>' in made.sheet.value
    made.text.value = "\n".join(["k" * 99] + ["?é1"] * 50)
    assert made.cells == ["k" * CELLS] + ["." * CELLS] * (CELLS - 1)
    made.ink.value = "y"
    assert f'data-ink="y" data-colour="{pad.COLOURS["y"]}"' in made.sheet.value
    assert 'role="img" aria-label="The sheet' in made.sheet.value and made.text.tooltip


def test_a_photograph_is_cropped_to_a_square_and_sent_until_one_draws_again(made, sent):
    wide = Image.new("RGB", (90, 30), "white")
    wide.paste("red", (30, 0, 60, 30))
    choose(made, "mine.png", wide)
    assert "mine.png, cropped to a square" in made.says.value
    press(made, "Send")
    assert sent[0].shape == (1, 3, 224, 224)
    assert sent[0][0, 0].eq(1).all() and sent[0][0, 1:, :, 8:-8].eq(0).all()  # the red square in the middle
    made.text.value += "\n"
    assert "your drawing" in made.says.value and made.image[0, :, 0, 0].equal(colour("b"))


def test_a_photograph_stands_upright_and_may_be_grey_and_what_is_no_image_is_said(made):
    grey = Image.fromarray(np.repeat(np.array([[0, 255]], np.uint8), 8, 0).repeat(4, 1))  # black left, white right
    grey.getexif()[0x0112] = 3  # held upside down
    choose(made, "turned.jpeg", grey)
    assert made.image[0, :, :, 0].min() > 0.9 and made.image[0, :, :, -1].max() < 0.1
    choose(made, "<b>.txt", b"no image")
    assert "&lt;b&gt;.txt cannot be read as an image" in made.says.value


def test_a_sweep_moves_the_inks_and_clicks_every_button_and_an_error_of_the_function_is_said(made, sent):
    assert sweep() == ["ink", "Send", "Clear", "Example"]
    assert len(sent) == 1 and made.text.value == pad.HOUSE and not made.result.value
    made.send = lambda image: 1 / 0
    with pytest.raises(ZeroDivisionError):
        made.hand_over()
    assert "ZeroDivisionError: division by zero" in made.says.value
