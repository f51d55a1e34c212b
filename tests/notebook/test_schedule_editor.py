"""The schedule editor: what its sliders mean for a search, which schedules can be searched, and what it keeps of each."""

import pytest
import torch

from privlab import models
from privlab.attacks.gradient_inversion import GradientMatching, Term, objectives, priors
from privlab.leak import observe
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.schedule_editor import ScheduleEditor, stages

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

STEPS = 4
TRUTH = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
GREY = torch.full_like(TRUTH, 0.5)
START = {"gradients": (0, 100), "smoothness": (50, 100)}


@pytest.fixture(scope="module")
def search():
    """A real search of four steps on a small ViT, and the schedules that it was asked for."""
    model = models.april.build("b", width=16, depth=1, seed=0, image_size=16, patch_size=8)
    leak, asked = observe(model, TRUTH, torch.tensor([1, 2])), []

    def begin(given):
        asked.append(given)
        terms = (
            Term("gradients", 1.0, objectives.squared_distance, given["gradients"]),
            Term("smoothness", 0.1, priors.squared_variation, given["smoothness"], of="images"),
        )
        return GradientMatching(terms, STEPS).search(model, leak)

    begin.asked = asked
    return begin


@pytest.fixture
def editor(search):
    search.asked.clear()
    return ScheduleEditor(search, TRUTH, START, GREY, STEPS)


@pytest.mark.parametrize(
    ("span", "factors"),  # at the start, just before and from each quarter, at the end
    [
        ((0, 100), [1, 1, 1, 1, 1, 1]),
        ((0, 0), [0, 0, 0, 0, 0, 0]),
        ((100, 100), [0, 0, 0, 0, 0, 0]),
        ((0, 50), [1, 1, 1, 0, 0, 0]),
        ((50, 100), [0, 0, 0, 1, 1, 1]),
        ((25, 75), [0, 1, 1, 1, 0, 0]),
    ],
)
def test_a_term_counts_from_one_end_of_its_span_to_the_other(span, factors):
    term = Term("any", 1.0, objectives.squared_distance, stages(*span))
    assert [term.factor(part) for part in (0.0, 0.25, 0.49, 0.5, 0.75, 1.0)] == factors


def test_it_searches_with_the_schedule_of_its_sliders_and_says_what_came_back(editor, search):
    assert editor.schedule == ((0, 100), (50, 100)) and "not searched yet" in editor.words.value
    editor.step()
    assert search.asked == [{"gradients": ((0.0, 1.0),), "smoothness": ((0.0, 0.0), (0.5, 1.0))}]
    while not editor.ended:
        editor.step()
    state = editor.tried[editor.schedule]
    expected = sum(10 * torch.log10(1 / (x - t).square().mean()) for x, t in zip(state.images, TRUTH, strict=True)) / 2
    assert state.step == STEPS and editor.psnr(editor.schedule) == pytest.approx(expected.item(), abs=1e-3)
    assert f"step 4 of 4: {expected:.1f} dB" in editor.words.value and all(move.disabled for move in editor.moves)
    assert "gradients 0 to 100 %, smoothness 50 to 100 %" in editor.board.value
    floor = 10 * torch.log10(1 / (GREY - TRUTH).square().flatten(1).mean(1))
    assert f"the baseline has {floor.mean():.1f} dB" in editor.board.value


def test_a_schedule_that_was_searched_is_shown_again_and_not_searched_again(editor, search):
    first = editor.run(smoothness=(0, 50))
    assert editor.schedule == ((0, 100), (0, 50))
    other = editor.run()
    assert editor.schedule == ((0, 100), (0, 0)) and len(search.asked) == 2
    editor.sliders["smoothness"].value = (0, 50)
    assert editor.ended and f"{first:.1f} dB" in editor.words.value
    assert editor.run(smoothness=(0, 50)) == first and len(search.asked) == 2
    best, last = sorted((first, other), reverse=True)
    assert editor.board.value.index(f"<li>{best:.1f} dB") <= editor.board.value.index(f"<li>{last:.1f} dB")


def test_a_search_that_was_left_goes_on_from_where_it_stood(editor, search):
    editor.step()
    editor.step()
    at = editor.tried[editor.schedule].step
    editor.sliders["smoothness"].value = (0, 25)
    assert "not searched yet" in editor.words.value and not editor.ended
    editor.sliders["smoothness"].value = (50, 100)
    editor.step()
    assert editor.tried[editor.schedule].step == at + 1 and len(search.asked) == 1


@pytest.mark.parametrize(
    ("gradients", "smoothness", "said"),
    [
        ((0, 0), (0, 100), "The gradients never count"),
        ((0, 50), (0, 75), "No term counts at the end"),
        ((0, 50), (100, 100), "No term counts at the end"),
    ],
)
def test_what_cannot_be_searched_is_said_and_cannot_be_played(editor, search, gradients, smoothness, said):
    for name, span in (("gradients", gradients), ("smoothness", smoothness)):
        editor.sliders[name].value = span
    assert said in editor.words.value and all(move.disabled for move in editor.moves)
    editor.play()
    assert not search.asked
    with pytest.raises(ValueError, match=said):
        editor.run(gradients=gradients, smoothness=smoothness)


def test_gradients_may_end_before_a_prior(editor):
    assert editor.run(gradients=(0, 50), smoothness=(50, 100)) > 0


def test_the_chart_tells_the_schedule_to_those_who_cannot_see_it(editor):
    assert 'aria-label="When each term counts: gradients from 0 to 100 %; smoothness from 50 to 100 %."' in (
        editor.chart.value
    )


def test_a_sweep_moves_the_sliders_and_starts_no_search(editor):
    assert all(SKIP in move._dom_classes for move in editor.moves)
    assert not any(SKIP in slider._dom_classes for slider in editor.sliders.values())


def test_bad_input_is_named(editor, search):
    with pytest.raises(ValueError, match="no term 'tv'; the terms are gradients, smoothness"):
        editor.run(tv=(0, 50))
    with pytest.raises(ValueError, match="without 'gradients'"):
        ScheduleEditor(search, TRUTH, {"smoothness": (0, 50)}, GREY, STEPS)


def test_a_page_without_a_kernel_has_the_schedules_that_were_searched_the_best_first(editor):
    assert "Nothing was searched" in editor.page(5, 10**6)
    scores = {editor.named(((0, 100), span)): editor.run(smoothness=span) for span in ((0, 50), (50, 100))}
    editor.sliders["smoothness"].value = (0, 100)
    editor.step()  # not to its end
    page = editor.page(5, 10**6)
    places = [page.index(f">{name}</option>") for name in sorted(scores, key=scores.get, reverse=True)]
    assert page.count("data-frame=") == 2 and places == sorted(places)
