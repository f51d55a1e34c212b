"""What is left of a widget on a page without a kernel."""

from __future__ import annotations

import json

import ipywidgets
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_output

from privlab.attacks.gradient_inversion.descent import State
from privlab.notebook import frames, player, plots, widgets
from privlab.runner import static_pages

PICTURE = '<figure><img src="data:image/png;base64,AAAA" alt="noise"></figure>'


pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")


def still(widget):
    view = {"model_id": widget.model_id, "version_major": 2, "version_minor": 0}
    saved = ipywidgets.Widget.get_manager_state()["state"]
    before = json.dumps(saved)
    shown, kept = static_pages.still(new_output("display_data", {static_pages.VIEW: view}), saved)
    assert json.dumps(saved) == before, "what was saved is not changed"
    return [output.data["text/html"] for output in shown], kept


def names(kept):
    return sorted(model["model_name"] for model in kept.values())


def test_what_is_no_widget_stays_as_it_is():
    output = new_output("display_data", {"text/html": PICTURE})
    assert static_pages.still(output, {}) == ([output], {})


def test_the_frame_of_a_player_becomes_a_picture_of_the_page_below_its_buttons():
    play, frame = ipywidgets.Button(description="Play"), ipywidgets.HTML(PICTURE)
    (controls, picture), kept = still(ipywidgets.VBox([ipywidgets.HBox([play]), ipywidgets.HBox([frame])]))
    assert picture == PICTURE and "<li>Play</li>" in controls and "IPY_MODEL" not in controls
    assert names(kept) == ["ButtonModel", "HBoxModel", "VBoxModel"]


def test_a_guess_shows_its_question_and_range_and_not_where_the_slider_happened_to_stand():
    question = ipywidgets.HTML("<label>PSNR of the <b>solve</b>:</label>")
    (controls,), _ = still(
        ipywidgets.VBox([question, ipywidgets.FloatSlider(75, min=0, max=150, description="your guess")])
    )
    assert "<li>PSNR of the solve:</li><li>your guess, from 0 to 150</li>" in controls


def shown(value):
    """A value as an output of the notebook that a kernel sends."""
    data, metadata = InteractiveShell.instance().display_formatter.format(value)
    return new_output("display_data", data, metadata=metadata)


def test_a_prediction_is_a_form_of_the_page_and_its_comparison_says_what_is_right_to_whoever_guesses_there():
    guess = widgets.choose("Is a < b?", ["a & b", '"c"'])
    saved = ipywidgets.Widget.get_manager_state()["state"]
    (form,), kept = static_pages.still(shown(guess), saved)
    assert (
        not kept
        and form.data["text/html"] == guess._repr_mimebundle_()["text/html"]
        and static_pages.VIEW not in form.data
    )
    (answer,), kept = static_pages.still(shown(guess.against('"c"')), saved)
    words, _, place = answer.data["text/markdown"].partition("\n\n")
    assert (
        words == 'The answer: "c".' and not kept
    )  # nobody guessed in the run, which the page does not say of its reader
    assert place == '<div class="privlab-answer" data-name="is-a-b" data-right="[&quot;\\&quot;c\\&quot;&quot;]"></div>'


def test_a_box_that_is_ticked_and_words_with_signs_are_told_as_text():
    (controls,), _ = still(
        ipywidgets.VBox(
            [ipywidgets.Checkbox(True, description="BatchNorm < 1"), ipywidgets.Text("a<b", description="name")]
        )
    )
    assert "<li>BatchNorm &lt; 1: yes</li><li>name: a&lt;b</li>" in controls


def test_a_bar_of_progress_leaves_nothing():
    bar = ipywidgets.HBox([ipywidgets.HTML("training: 100%"), ipywidgets.IntProgress(8, max=8), ipywidgets.HTML("8/8")])
    assert still(bar) == ([], {})


def test_an_output_that_a_run_did_not_save_leaves_nothing():
    view = {"model_id": "gone", "version_major": 2, "version_minor": 0}
    assert static_pages.still(new_output("display_data", {static_pages.VIEW: view}), {}) == ([], {})


def explorer(draw, **options):
    box = widgets.explore(draw, **options)
    box.frames = frames.fill(box, seconds=600)
    return box


def test_an_explorer_becomes_a_flipbook_of_what_was_drawn_beforehand(shell):
    def draw(mode, size):
        face = plots.face(torch.zeros(1, 4, 4), f"{mode} {size}.", 64)
        return face, widgets.Sentence(f"**{mode}** {size}")

    (shown,), kept = still(explorer(draw, start={"size": 2}, mode=("a<b", "c"), size=(1, 2, 3)))
    assert not kept and "privlab-controls" not in shown, "nothing is left for the widget manager"
    assert shown.count("data-frame=") == 6 and shown.count(" hidden>") == 5
    resting = shown[shown.index('<div data-frame="0-1">') :].split("</div>")[0]
    assert 'alt="a&lt;b 2."' in resting and "<strong>a&lt;b</strong>" in resting
    assert "<p>mode: a&lt;b; size: 2</p></noscript>" in shown and "of 6 settings" not in shown


def test_a_race_becomes_a_flipbook_of_its_steps(shell):
    ipywidgets.Widget.close_all()
    images = [torch.full((1, 3, 12, 12), shade) for shade in (0.0, 0.5, 1.0)]
    labels = torch.tensor([0])
    states = [
        State(0, k, k, one, labels, {}, 0.0, "" if k < 2 else "steps", one[None], dict) for k, one in enumerate(images)
    ]
    race = player.race({"Swin": iter(states)}, images[2], stride=1)
    while not race.ended:
        race.step()
    assert frames.compute() == {"step of each search": "3 of 3"}
    (shown,), kept = still(race)
    assert not kept and shown.count("data-frame=") == 3 and "Swin after 1 steps" in shown


def test_of_a_grid_that_was_not_drawn_whole_it_says_so(shell):
    box = explorer(lambda **values: widgets.Sentence(str(values)), **dict.fromkeys("pqrs", (0, 1)))
    (shown,), _ = still(box)
    assert "Here are 5 of 16 settings, drawn beforehand. The notebook draws all." in shown
    assert "One control moves at a time: the others go back." in shown


def test_an_explorer_of_which_a_run_drew_nothing_rests(shell):
    (controls, *_), kept = still(widgets.explore(lambda n: ipywidgets.HTML(str(n)), n=(1, 2)))
    assert "Here the controls rest" in controls and "SelectionSliderModel" in names(kept)
