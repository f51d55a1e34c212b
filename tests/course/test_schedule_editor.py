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

    def search(given):
        terms = (
            Term("gradients", 1.0, objectives.squared_distance, given["gradients"]),
            Term("smoothness", 0.1, priors.squared_variation, given["smoothness"], of="images"),
        )
        return GradientMatching(terms, 4).search(model, leak)

    return ScheduleEditor(search, TRUTH, START, GREY)


@pytest.mark.parametrize(("span", "factors"), [((0, 100), [1] * 5), ((0, 0), [0] * 5), ((25, 75), [0, 1, 1, 0, 0])])
def test_a_term_counts_from_one_end_of_its_span_to_the_other(span, factors):
    term = Term("any", 1.0, objectives.squared_distance, stages(*span))
    assert [term.factor(part) for part in (0.0, 0.25, 0.74, 0.75, 1.0)] == factors


def test_a_schedule_is_searched_once_and_goes_on_from_where_it_was_left(editor):
    first = editor.run(smoothness=(0, 50))
    assert editor.schedule == ((0, 100), (0, 50)) and editor.tried[editor.schedule].step == 4
    assert first == metrics.psnr(editor.tried[editor.schedule].images, TRUTH).mean().item()
    editor.sliders["smoothness"].value = (50, 100)
    (watched,) = editor.place.children
    watched.step()
    editor.sliders["smoothness"].value = (0, 50)
    editor.sliders["smoothness"].value = (50, 100)
    assert editor.place.children == (watched,) and watched.states["what comes back"].step == 1
    assert f"<li>{first:.1f} dB: gradients 0 to 100 %, smoothness 0 to 50 %</li>" in editor.board.value


def test_what_cannot_be_searched_is_said(editor):
    for spans, said in ((((0, 0), (0, 100)), "The gradients never count"), (((0, 50), (75, 100)), "from 50 to 75 %")):
        with pytest.raises(ValueError, match=said):
            editor.run(**dict(zip(START, spans, strict=True)))
        assert said in editor.place.children[0].value


def test_a_sweep_moves_the_sliders_alone_and_a_page_has_what_was_searched_the_best_first(editor, shell):
    assert set(sweep()) == {"gradients", "smoothness"} and not editor.tried
    scores = {editor.named(((0, 100), span)): editor.run(smoothness=span) for span in ((0, 50), (50, 100))}
    page = editor.page(5, 10**6)
    places = [page.index(f">{name}</option>") for name in sorted(scores, key=scores.get, reverse=True)]
    assert places == sorted(places)
