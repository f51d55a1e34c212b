"""A race as its reader runs it: by its buttons, on an event loop, to its end by the cell that asks who was recognised, and headless."""

from __future__ import annotations

import asyncio
import itertools
import re
import time

import numpy as np
import pytest
import torch
from ipywidgets.widgets import widget as registry
from torch import nn

from privlab import metrics
from privlab.attacks.gradient_inversion import GradientMatching, Term
from privlab.attacks.gradient_inversion.descent import State
from privlab.attacks.gradient_inversion.objectives import cosine_distance
from privlab.data import Normalise
from privlab.leak import observe
from privlab.notebook import playback, player, racing
from privlab.notebook.control_sweep import sweep

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

TRUTH = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))
BLANK = torch.full_like(TRUTH, 0.5)


def way(images, reason="steps", restart=0):
    """The states of a search with these images, one a step."""
    for step, image in enumerate(images):
        why = reason if step == len(images) - 1 else ""
        yield State(restart, step, step + 1, image, torch.tensor([0]), {"gradients": 1.0}, 1.0, why, image[None], dict)


def towards(truth, steps):
    return [BLANK + (truth - BLANK) * k / steps for k in range(steps + 1)]


def two(steps=6, **arguments):
    searches = {"open": way(towards(TRUTH, steps)), "shut": way([BLANK] * (steps + 1))}
    return player.race(searches, TRUTH, **{"stride": 2, **arguments})


def words(widget):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", widget.value)).strip()


def test_it_stands_at_its_start():
    race = two()
    assert race.line == "step 0 · paused · SSIM above 0.5: none yet" == words(race.text)
    assert repr(race) == f"Race: {race.line}" == race._repr_mimebundle_()["text/plain"]
    assert [b.description for b in race.children[1].children] == ["Play", "Pause", "Step"]
    assert all(b.tooltip and not b.disabled for b in race.moves)
    assert words(race.lanes).split("dB") == [
        f"open SSIM {race.ssim['open']:.2f} {race.psnr['open']:.1f} ",
        f" shut SSIM {race.ssim['shut']:.2f} {race.psnr['shut']:.1f} ",
        " the photograph no search sees it",
    ]


def test_a_step_is_as_many_steps_of_each_and_the_scores_are_those_of_the_images():
    race = two()
    race.moves[2].click()
    assert {name: state.step for name, state in race.states.items()} == {"open": 2, "shut": 2}
    third = BLANK + (TRUTH - BLANK) / 3
    assert race.ssim["open"] == metrics.ssim(third, TRUTH).item()
    assert race.psnr["open"] == pytest.approx(-10 * np.log10(((2 / 3) * (TRUTH - BLANK)).square().mean().item()))
    assert race.ssim["shut"] == metrics.ssim(BLANK, TRUTH).item() and not race.ended


def test_its_end_and_who_is_recognised():
    race = two(steps=5)  # a stride more than it has
    assert race.recognised == ["open"] and race.ended and race.ssim["open"] == pytest.approx(1)
    assert race.line == "step 5 · over · SSIM above 0.5: open" and all(b.disabled for b in race.moves)
    assert race.recognised == ["open"]  # asked again
    assert two(bar=1.0).recognised == []
    for b in race.moves:
        b.click()  # a click that was on its way does no harm
    assert race.states["open"].step == 5


def test_the_bar_of_a_lane_grows_with_its_ssim_towards_the_finishing_line():
    race = two(bar=0.25)
    assert "M25 0V9" in race.lanes.value
    race.finish()
    lengths = [float(n) for n in re.findall(r'width="([\d.]+)" height="5" fill="#', race.lanes.value)]
    assert lengths == [99.0, pytest.approx(99 * max(0, race.ssim["shut"]), abs=0.05)]


def test_one_that_ends_early_waits_and_of_several_restarts_the_first_is_run():
    searches = {
        "short": itertools.chain(way([BLANK] * 3), way([TRUTH] * 3, restart=1)),
        "long": way(towards(TRUTH, 8)),
        "unended": way([BLANK] * 5, reason=""),
    }
    race = player.race(searches, TRUTH, stride=4)
    race.step()
    assert {name: state.step for name, state in race.states.items()} == {"short": 2, "long": 4, "unended": 4}
    assert race.recognised == ["long"] and race.states["short"].restart == 0 and race.states["unended"].step == 4


def test_the_picture_has_a_row_for_each_from_its_start_to_where_it_stands():
    race = two(steps=8)
    race.finish()
    picture = race.picture()
    assert picture.alt.startswith("A row of reconstructions for each architecture, from noise")
    assert f"open is at step 8, SSIM 1.00; shut is at step 8, SSIM {race.ssim['shut']:.2f}." in picture.alt
    assert [frame["open"].state.step for frame in race.way] == [0, 2, 4, 6, 8]
    assert two().picture().png  # before it began


def test_its_page_has_frames_from_its_start_to_where_it_stands():
    race = two(steps=8)
    race.finish()
    page = race.page(5, 10**6)
    assert page.count("data-frame=") == 5 and "open after 2 steps" in page
    assert f'<div data-frame="4">{race.lanes.value}</div>' in page
    long = two(steps=80)
    long.finish()
    assert long.page(5, 10**6).count("data-frame=") == racing.STILLS < len(long.way)


def test_nan_is_shown_grey_and_is_not_recognised():
    race = player.race({"lost": way([BLANK, TRUTH * torch.nan], reason="not finite")}, TRUTH)
    assert race.recognised == [] and np.isnan(race.ssim["lost"]) and race.picture().png


def test_every_image_has_an_alt_text_and_names_are_escaped():
    race = player.race({"<b>x</b>": way([BLANK, BLANK])}, TRUTH)
    alts = re.findall(r'<img [^>]*alt="([^"]*)"', race.lanes.value)
    assert alts == [f"&lt;b&gt;x&lt;/b&gt; after 0 steps: SSIM {race.ssim['<b>x</b>']:.2f}.", "The photograph."]
    assert "<b>" not in race.lanes.value + race.text.value


def breaks():
    yield from way([BLANK, BLANK], reason="")
    raise RuntimeError("the network broke")


def test_an_exception_in_a_search_is_shown_and_raised():
    race = player.race({"fine": way([BLANK] * 9), "broken": breaks()}, TRUTH)
    with pytest.raises(RuntimeError, match="network broke"):
        race.step()
    assert race.ended and "stopped by RuntimeError, see below" in race.line
    assert race.failure.outputs[0]["evalue"] == "the network broke" and all(b.disabled for b in race.moves)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (dict(stride=0), r"stride=0 goes nowhere"),
        (dict(searches={}), r"got 0 searches for 1 images"),
        (dict(searches={"a": iter([])}), r"searches: 'a' has no state; give attack\.search"),
        (dict(searches={"a": iter([3])}), r"searches: 'a' has no state"),
        (dict(truth=torch.zeros(2, 3, 12, 12)), r"got 1 searches for 2 images"),
        (dict(truth=torch.zeros(1, 3, 16, 16)), r"is not the shape of truth, \(1, 3, 16, 16\)"),
    ],
)
def test_bad_input_is_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        player.race(**{"searches": {"a": way([BLANK])}, "truth": TRUTH, **arguments})
    assert not registry._instances


def endless():
    for step in itertools.count():
        yield State(0, step, 1, BLANK, torch.tensor([0]), {"gradients": 1.0}, 1.0, "", BLANK[None], dict)


async def until(condition):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + 60, "it did not happen"
        await asyncio.sleep(0.005)


def test_play_pause_and_the_cell_that_asks_while_it_plays():
    async def watch():
        race = player.race({"a": endless(), "b": endless()}, TRUTH, stride=1)
        race.moves[0].click()
        await until(lambda: race.states["b"].step > 2)
        assert "playing" in race.line and playback._playing == {race}
        other = two(steps=400)  # the cell was run again
        assert race.task is None and "paused" in race.line
        stood = race.states["a"].step
        other.play()
        await until(lambda: other.states["open"].step > 0)
        assert other.recognised == ["open"] and other.task is None and race.states["a"].step == stood

    asyncio.run(watch())


def test_real_searches_race():
    def search(activation):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), activation, nn.Flatten(), nn.Linear(864, 5))
        model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
        attack = GradientMatching((Term("gradients", 1.0, cosine_distance),), 3)
        return attack.search(model, observe(model, TRUTH, torch.tensor([1])))

    race = player.race({"sigmoid": search(nn.Sigmoid()), "relu": search(nn.ReLU())}, TRUTH)
    expected = list(search(nn.ReLU()))[-1]
    race.finish()
    assert race.states["relu"].step == 3 and race.states["relu"].images.equal(expected.images)
    assert race.ssim["relu"] == metrics.ssim(expected.images, TRUTH).item()
    with pytest.raises(ValueError, match="11 x 11"):  # of SSIM's window
        player.race({"a": way([BLANK[..., :8, :8]])}, TRUTH[..., :8, :8])


def test_a_sweep_clicks_every_button_of_a_race_and_leaves_one_that_is_over(shell):
    race = two(steps=50)
    assert list(sweep()) == ["Play", "Pause", "Step"]
    assert race.states["open"].step == 4  # Play is a step where no loop runs
    race.finish()
    assert sweep() == {}
