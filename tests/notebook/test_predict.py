"""Predictions, as a reader gives them, and the file in which they are kept beside the notebook."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from markup import Page

from privlab.notebook import widgets
from privlab.notebook.control_sweep import sweep


@pytest.fixture(autouse=True)
def notebook(tmp_path, monkeypatch):
    """A folder of its own, and the surroundings of a kernel that JupyterLab began for labs/04_race.ipynb."""
    InteractiveShell.instance()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/reader/labs/04_race.ipynb")
    monkeypatch.delenv("PRIVLAB_STRICT", raising=False)
    return tmp_path


NETWORKS = ["ResNet", "Swin", "ViT", "ConvNeXt"]


def which(**changes):
    return widgets.choose(**{"question": "Which leak?", "options": NETWORKS, "many": True} | changes)


def tick(guess, *options):
    for box in guess.controls:
        box.value = box.description in options


def test_a_guess_counts_once_the_slider_was_moved():
    guess = widgets.predict("How far?", 0, 100, "dB")
    assert guess.value is None and "No guess was given" in guess.against(40)
    guess.controls[0].value = 45
    assert guess.value == 45
    assert guess.against(40) == "Measured: 40 dB. You said 45. Close."
    assert "55 dB away" in guess.against(100)
    assert not repr(guess.against(40)).startswith("'")
    assert guess.against(math.inf).startswith("Measured: ∞ dB. You said 45. That is ∞ dB away")


def test_a_guess_may_be_where_the_slider_starts():
    guess = widgets.predict("How far?", 0, 100, "dB")
    assert guess.value is None
    guess.press.click()
    assert guess.value == 50 and guess.press.icon == "check"
    assert guess.against(50) == "Measured: 50 dB. You said 50. Close."
    assert widgets.predict("How far?", 0, 100, "dB").value == 50  # kept, for a lab that is opened again


def test_one_option_is_picked():
    guess = which(many=False)
    assert guess.value is None and guess.against("Swin").startswith("The answer: Swin. No guess was given")
    guess.controls[0].value = "Swin"
    assert guess.value == "Swin" and guess.against("Swin") == "The answer: Swin. That is what you said."
    assert guess.against(["Swin", "ViT"]) == "The answer: Swin or ViT. You said Swin: right."
    assert guess.against("ViT") == "The answer: ViT. You said Swin: what did you assume that does not hold here?"


def test_several_options_are_ticked():
    guess = which()
    assert guess.value is None and "No guess" in guess.against(["Swin"])
    tick(guess, "ViT", "Swin")
    assert guess.value == ["Swin", "ViT"]
    assert guess.against({"ViT", "Swin"}) == "The answer: Swin and ViT. That is what you said."
    assert guess.against(["Swin", "ViT", "ConvNeXt"]) == (
        "The answer: Swin, ViT and ConvNeXt. You said Swin and ViT: you missed ConvNeXt."
    )
    assert guess.against(["ConvNeXt", "Swin"]) == (
        "The answer: Swin and ConvNeXt. You said Swin and ViT: ViT is not right, and you missed ConvNeXt."
    )
    assert guess.against([]) == "The answer: none of them. You said Swin and ViT: Swin and ViT are not right."
    tick(guess)
    assert guess.value == [] and guess.against([]) == "The answer: none of them. That is what you said."


def test_what_is_not_measured_yet_is_said_and_compared_later():
    guess, choice = widgets.predict("How far?", 0, 100), which()
    assert guess.against(math.nan) == choice.against(None) == "This is not measured yet."
    guess.controls[0].value = 5
    assert guess.against(math.nan) == "This is not measured yet. Your guess is kept."
    assert "right" not in json.loads(Path("guesses.json").read_text())["04_race"]["how-far"]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="right={'Mamba'}: no option of 'Which leak.'; there are ResNet, Swin"):
        which().against(["Swin", "Mamba"])


def test_a_reopened_lab_shows_the_guesses_again():
    tick(which(), "Swin")
    which(many=False, question="One of them?").controls[0].value = "ViT"
    widgets.predict("How far?", 0, 10).controls[0].value = 2.5
    again = which(), which(many=False, question="One of them?"), widgets.predict("How far?", 0, 10)
    assert [guess.value for guess in again] == [["Swin"], "ViT", 2.5]
    assert [box.value for box in again[0].controls] == [False, True, False, False]
    assert again[1].controls[0].value == "ViT"
    assert which(options=["ResNet", "Mamba"]).value is None  # the option is gone
    assert widgets.predict("How far?", 0, 1).value is None  # out of the range


def test_who_has_seen_the_answer_guesses_no_more():
    guess = widgets.predict("How far?", 0, 100, "dB")
    guess.controls[0].value = 10
    guess.controls[0].value = 20
    guess.against(np.float64(70.0))
    guess.controls[0].value = 70
    assert guess.against(70) == "Measured: 70 dB. You said 70. Close."
    (row,) = json.loads(Path("guesses.json").read_text(encoding="utf-8"))["04_race"].values()
    assert (row["guess"], row["right"], row["unit"], row["question"]) == (20, 70, "dB", "How far?")
    assert widgets.predict("How far?", 0, 100).value == 20


def test_nothing_is_kept_where_nobody_guessed_nor_where_no_notebook_is_and_each_lab_has_its_own(monkeypatch):
    which().against(["Swin"])
    monkeypatch.setenv("JPY_SESSION_NAME", "")
    tick(which(), "Swin")
    assert not Path("guesses.json").exists()
    for lab, said in (("04_race.ipynb", "Swin"), ("labs/05_closed_form.ipynb", "ViT")):
        monkeypatch.setenv("JPY_SESSION_NAME", lab)
        guess = which()
        assert guess.value is None
        tick(guess, said)
    labs = json.loads(Path("guesses.json").read_text(encoding="utf-8"))
    kept = {lab: [one["guess"] for one in asked.values()] for lab, asked in labs.items()}
    assert kept == {"04_race": [["Swin"]], "05_closed_form": [["ViT"]]}


def test_a_headless_run_neither_writes_nor_shows_what_a_reader_kept(notebook, monkeypatch):
    tick(which(), "Swin")
    before = Path("guesses.json").read_bytes()
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    guess, one, number = which(), which(many=False), widgets.predict("How far?", 0, 10)
    assert guess.value is None
    sweep()
    assert Path("guesses.json").read_bytes() == before
    assert one.value is None and number.controls[0].value == 5


@pytest.mark.parametrize("content", ["{", "[]", '{"04_race": {"which-leak": {}}}'])
def test_a_damaged_file_stops_no_lab(content):
    Path("guesses.json").write_text(content, encoding="utf-8")
    guess = which()
    tick(guess, "Swin")
    assert guess.value == ["Swin"] and which().value == ["Swin"]


def test_a_page_without_a_kernel_has_the_question_as_a_form():
    page = which(question="Is a < b?", options=["a & b", "c"]).page(1, 1)
    form = Page(page)
    assert form.all("form") == [
        {"class": "privlab-prediction", "method": "dialog", "data-name": "is-a-b"}
    ]  # sent nowhere
    assert "<legend>Is a &lt; b?</legend>" in page
    assert [(i["type"], i["value"]) for i in form.all("input")] == [("checkbox", "a & b"), ("checkbox", "c")]
    (field,) = Page(widgets.predict("How far?", -1, 1, "dB").page(1, 1)).all("input")
    assert (field["type"], field["min"], field["max"], field["data-unit"]) == ("number", "-1", "1", "dB")


def test_a_page_says_what_is_right_and_has_a_place_to_compare_a_guess_that_is_made_there(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")

    def right(sentence):
        words, _, place = sentence.partition("\n\n")
        (about,) = Page(place).all("div")
        return about["data-name"], words, json.loads(about["data-right"])

    one, number = which(many=False), widgets.predict("How far?", 0, 100, "dB")
    assert right(one.against("Swin")) == ("which-leak", "The answer: Swin.", ["Swin"])
    assert right(number.against(40)) == ("how-far", "Measured: 40 dB.", 40.0)
    assert right(number.against(-math.inf)) == ("how-far", "Measured: −∞ dB.", "-inf")
    assert right(number.against(math.nan)) == ("how-far", "This is not measured yet.", None)
