"""The schedule editor: what its sliders mean for a search, which schedules can be searched, and what it keeps of each."""

import pytest
import torch

from privlab import metrics, models
from privlab.attacks.gradient_inversion import GradientMatching, Term, objectives, priors
from privlab.course.lab_07.schedule_editor import ScheduleEditor, stages
from privlab.leak import observe
from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")
TRUTH = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
GREY = torch.full_like(TRUTH, 0.5)
START = {"gradients": (0, 100), "smoothness": (50, 100)}


@pytest.fixture
def editor():
    """A real search of four steps on a small ViT."""
    model = models.april.build("b", width=16, depth=1, seed=0, image_size=16, patch_size=8)
    leak = observe(model, TRUTH, torch.tensor([1, 2]))

    def search(optimiser, given):
        terms = (
            Term("gradients", 1.0, objectives.squared_distance, given["gradients"]),
            Term("smoothness", 0.1, priors.squared_variation, given["smoothness"], of="images"),
        )
        return GradientMatching(terms, 4, optimiser={"Adam": "adam", "L-BFGS": "lbfgs"}[optimiser]).search(model, leak)

    return ScheduleEditor(search, TRUTH, START, GREY)


@pytest.mark.parametrize(("span", "factors"), [((0, 100), [1] * 5), ((0, 0), [0] * 5), ((25, 75), [0, 1, 1, 0, 0])])
def test_a_term_counts_from_one_end_of_its_span_to_the_other(span, factors):
    term = Term("any", 1.0, objectives.squared_distance, stages(*span))
    assert [term.factor(part) for part in (0.0, 0.25, 0.74, 0.75, 1.0)] == factors


def test_the_gradients_may_count_half_in_the_second_half_of_the_run():
    """Equation 5 of GradViT."""
    term = Term("any", 1.0, objectives.squared_distance, stages(0, 100, halved=True))
    assert [term.factor(part) for part in (0.0, 0.49, 0.5, 1.0)] == [1, 1, 0.5, 0.5]


def test_a_schedule_is_searched_once_and_goes_on_from_where_it_was_left(editor):
    first = editor.run("Adam", smoothness=(0, 50))
    assert editor.setting == "Adam: gradients 0 to 100 %, smoothness 0 to 50 %"
    assert editor.tried[editor.setting].step == 4
    assert first == metrics.psnr(editor.tried[editor.setting].images, TRUTH).mean().item()
    editor.optimiser.value = "L-BFGS"
    (watched,) = editor.place.children
    watched.step()
    assert watched.states["what comes back, by L-BFGS"].step == 1
    editor.optimiser.value = "Adam"
    editor.optimiser.value = "L-BFGS"
    assert editor.place.children == (watched,) and not watched.ended
    assert f"<li>{first:.1f} dB: Adam: gradients 0 to 100 %, smoothness 0 to 50 %</li>" in editor.board.value


def test_a_box_switches_a_term_off_and_a_search_that_nobody_began_is_let_go(editor):
    (first,) = editor.place.children
    editor.boxes["smoothness"].value = False
    assert editor.spans == {"gradients": (0, 100), "smoothness": (0, 0)} and [*editor.watches] == [editor.setting]
    assert not first.running
    editor.halved.value = True
    assert editor.setting == "Adam: gradients 0 to 100 %; gradients count half from 50 % on"


def test_the_gradients_alone_are_halved(editor):
    seen, search = [], editor.search
    editor.search = lambda optimiser, terms: seen.append(terms) or search(optimiser, terms)
    editor.run("Adam", halved=True, smoothness=(0, 100))
    assert seen == [{"gradients": stages(0, 100, halved=True), "smoothness": stages(0, 100)}]


def test_what_cannot_be_searched_is_said(editor):
    for spans, said in ((((0, 0), (0, 100)), "The gradients never count"), (((0, 50), (75, 100)), "from 50 to 75 %")):
        with pytest.raises(ValueError, match=said):
            editor.run("Adam", **dict(zip(START, spans, strict=True)))
        assert said in editor.place.children[0].value


def test_a_sweep_moves_the_controls_alone_and_a_page_has_what_was_searched_the_best_first(editor, shell):
    assert {"optimiser", "gradients", "smoothness"} <= set(sweep()) and not editor.tried
    scores = {}
    for optimiser, span in (("Adam", (0, 50)), ("L-BFGS", (50, 100))):
        score = editor.run(optimiser, smoothness=span)
        scores[editor.setting] = score
    page = editor.page(5, 10**6)
    places = [page.index(f">{name}</option>") for name in sorted(scores, key=scores.get, reverse=True)]
    assert places == sorted(places)
