"""Predictions, as a reader gives them, and the file in which they are kept beside the notebook."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from markup import Page

from privlab.notebook import widgets
from privlab.notebook.control_sweep import sweep

NETWORKS = ["ResNet", "Swin", "ViT", "ConvNeXt"]


@pytest.fixture(autouse=True)
def notebook(tmp_path, monkeypatch, shell):
    """A folder of its own, and the surroundings of a kernel that JupyterLab began for labs/04_race.ipynb."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/reader/labs/04_race.ipynb")
    monkeypatch.delenv("PRIVLAB_STRICT", raising=False)


def number():
    return widgets.predict("How far?", 0, 100, "dB")


def which(**changes):
    return widgets.choose(**{"question": "Which leak?", "options": NETWORKS, "many": True} | changes)


def tick(guess, *options):
    for box in guess.controls:
        box.value = box.description in options


def test_a_guess_counts_once_the_slider_was_moved_or_is_said_to_stand_right():
    guess = number()
    assert guess.value is None and "No guess was given" in guess.against(40)
    guess.press.click()
    assert guess.value == 50 and guess.press.icon == "check"
    guess.controls[0].value = 45
    assert guess.against(40) == "Measured: 40 dB. You said 45. Close."
    assert guess.against(math.inf).startswith("Measured: ∞ dB. You said 45. That is ∞ dB away")


def test_one_option_is_picked():
    guess = which(many=False)
    guess.controls[0].value = "Swin"
    assert guess.value == "Swin" and guess.against("Swin") == "The answer: Swin. That is what you said."
    assert guess.against(["Swin", "ViT"]) == "The answer: Swin or ViT. You said Swin: right."
    assert guess.against("ViT") == "The answer: ViT. You said Swin: what did you assume that does not hold here?"
    with pytest.raises(ValueError, match="Mamba"):
        guess.against(["Swin", "Mamba"])


def test_several_options_are_ticked():
    guess = which()
    tick(guess, "ViT", "Swin")
    assert guess.value == ["Swin", "ViT"]
    assert guess.against({"ViT", "Swin"}) == "The answer: Swin and ViT. That is what you said."
    assert "You said Swin and ViT: ViT is not right, and you missed ConvNeXt." in guess.against(["ConvNeXt", "Swin"])
    assert guess.against([]) == "The answer: none of them. You said Swin and ViT: Swin and ViT are not right."


def test_a_reopened_lab_shows_the_guesses_again():
    tick(which(), "Swin")
    which(many=False, question="One of them?").controls[0].value = "ViT"
    number().controls[0].value = 2.5
    again = which(), which(many=False, question="One of them?"), number()
    assert [guess.value for guess in again] == [["Swin"], "ViT", 2.5]
    assert [box.value for box in again[0].controls] == [False, True, False, False]
    assert which(options=["ResNet", "Mamba"]).value is None  # the option is gone
    assert widgets.predict("How far?", 0, 1).value is None  # out of the range


def test_who_has_seen_the_answer_guesses_no_more_and_what_is_not_measured_yet_is_compared_later():
    guess = number()
    assert guess.against(math.nan) == which().against(None) == "This is not measured yet."
    guess.controls[0].value = 20
    assert guess.against(math.nan) == "This is not measured yet. Your guess is kept."
    assert "right" not in Path("guesses.json").read_text(encoding="utf-8")
    guess.against(np.float64(70.0))
    guess.controls[0].value = 70
    (row,) = json.loads(Path("guesses.json").read_text(encoding="utf-8"))["04_race"].values()
    assert (row["guess"], row["right"], row["unit"], row["question"]) == (20, 70, "dB", "How far?")
    assert number().value == 20


def test_nothing_is_kept_where_nobody_guessed_nor_where_no_notebook_is(monkeypatch):
    which().against(["Swin"])
    monkeypatch.setenv("JPY_SESSION_NAME", "")
    tick(which(), "Swin")
    assert not Path("guesses.json").exists()


def test_a_headless_run_neither_writes_nor_shows_what_a_reader_kept_and_leaves_a_place_to_compare(monkeypatch):
    tick(which(), "Swin")
    before = Path("guesses.json").read_bytes()
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    guess, one, slider = which(), which(many=False), number()
    assert guess.value is None
    sweep()
    assert Path("guesses.json").read_bytes() == before
    assert one.value is None and slider.controls[0].value == 50

    def right(sentence):
        words, _, place = sentence.partition("\n\n")
        (about,) = Page(place).all("div")
        return about["data-name"], words, json.loads(about["data-right"])

    assert right(one.against("Swin")) == ("which-leak", "The answer: Swin.", ["Swin"])
    assert right(slider.against(-math.inf)) == ("how-far", "Measured: −∞ dB.", "-inf")
    assert right(slider.against(math.nan)) == ("how-far", "This is not measured yet.", None)


def test_a_damaged_file_stops_no_lab():
    for content in ("{", '{"04_race": {"which-leak": {}}}'):
        Path("guesses.json").write_text(content, encoding="utf-8")
        tick(which(), "Swin")
        assert which().value == ["Swin"]


def test_a_page_without_a_kernel_has_the_question_as_a_form():
    page = which(question="Is a < b?", options=["a & b", "c"]).page(1, 1)
    form = Page(page)
    sent_nowhere = {"class": "privlab-prediction", "method": "dialog", "data-name": "is-a-b"}
    assert form.all("form") == [sent_nowhere] and "<legend>Is a &lt; b?</legend>" in page
    assert [(i["type"], i["value"]) for i in form.all("input")] == [("checkbox", "a & b"), ("checkbox", "c")]
    (field,) = Page(number().page(1, 1)).all("input")
    assert (field["type"], field["min"], field["max"], field["data-unit"]) == ("number", "0", "100", "dB")
