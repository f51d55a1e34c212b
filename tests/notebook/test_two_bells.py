"""The slider of lab 02: its Gaussians and ratios by hand, what it says at each place, and that only one picture and place is seen."""

from __future__ import annotations

import re
import statistics

import pytest
import torch
from scipy.stats import norm

from privlab.notebook import two_bells

PHOTOS = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
KEEP = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]] * 3).bool()  # three pairs: the victim's, and two of shadow models
MARGINS = torch.tensor(
    [
        [2.0, -1.0, 3.0, 0.5],
        [9.0, 9.0, 9.0, 9.0],  # the victim's partner, which must not count
        [3.0, -2.0, 4.0, 1.0],
        [-3.0, 2.0, 3.0, 2.0],
        [5.0, -4.0, 6.0, 2.0],
        [-1.0, 4.0, 1.0, 4.0],
    ],
    dtype=torch.float64,
)


@pytest.fixture(scope="module")
def slider():
    return two_bells.TwoBells(PHOTOS, ["A: ship", "B: cat"], MARGINS, KEEP, [0, 3], threshold=1.25)


def test_the_gaussians_are_those_of_the_shadow_models_alone(slider):
    fit = slider.fit(0, "per-example")
    assert [x.item() for x in fit] == pytest.approx([4, 2**0.5, -2, 2**0.5])  # in 3 and 5, out -3 and -1
    ins, outs = [3, 5, 2, 4, 4, 6, 2, 4], [-3, -1, -2, -4, 3, 1, 1, 2]  # of all four pictures
    shared = slider.fit(1, "fixed")
    assert [x.item() for x in shared] == pytest.approx([3, statistics.stdev(ins), 1.5, statistics.stdev(outs)])


def test_the_ratio_is_that_of_two_densities(slider):
    by_hand = norm.logpdf(1.0, 4, 2**0.5) - norm.logpdf(1.0, -2, 2**0.5)
    assert slider.ratio(0, "per-example", 1.0) == pytest.approx(by_hand) == pytest.approx(0)  # in the middle of both
    assert slider.ratio(0, "per-example", 2.0) > 0 > slider.ratio(0, "per-example", 0.0)


def test_it_goes_over_all_answers_and_begins_at_one_half(slider):
    assert slider.places[0] == slider.low == -4 and slider.places[-1] == slider.high == 6
    assert abs(slider.places[slider.start]) <= 10 / 80


def test_one_picture_and_one_place_are_seen(slider):
    page = slider.tag()
    for kind, many in (("photo", 2), ("bells", 4), ("said", 4 * two_bells.STEPS)):
        parts = re.findall(rf'<(?:div|p) data-{kind}="([^"]*)"([^>]*)>', page)
        assert len({key for key, _ in parts}) == len(parts) == many
        assert [key for key, rest in parts if not rest.endswith("hidden")] == [
            {"photo": "0", "bells": "0-0", "said": f"0-0-{slider.start}"}[kind]
        ]


def test_what_is_said_at_a_place_follows_from_its_margin(slider):
    for k, kind in enumerate(two_bells.SPREADS):
        for one, name in enumerate(slider.names):
            for n in (0, 20, two_bells.STEPS - 1):
                said = re.search(rf'data-said="{one}-{k}-{n}".*?</p>', slider.tag())[0]
                ratio, margin = slider.ratio(one, kind, slider.places[n]), slider.places[n]
                verdicts = re.findall("<b>(.*?)</b>", said)
                assert verdicts == ["not a member" if bad else "a member" for bad in (ratio <= 0, margin < 1.25)], name
                assert f"margin {margin:+.1f}" in said and f'as likely "{"in" if ratio > 0 else "out"}"' in said


def test_the_circles_stand_on_the_curves(slider):
    """At the victim's line the ratio of the two heights above the floor is the likelihood ratio, where the pixels can show it."""
    n = min(range(two_bells.STEPS), key=lambda k: abs(slider.places[k] - 1.5))
    up, down = slider._at(0, "per-example", n)
    heights = (two_bells.FLOOR - up) / (two_bells.FLOOR - down)
    assert torch.tensor(heights).log().item() == pytest.approx(
        slider.ratio(0, "per-example", slider.places[n]), abs=0.2
    )


def test_it_is_worked_by_keyboard_and_read_aloud(slider):
    page = slider.tag()
    controls = page.count("<select") + page.count("<input")
    assert controls == page.count("<label") == page.count("onchange=") + page.count("oninput=") == 3
    assert page.count('aria-live="polite"') == 1 and "aria-valuetext" in page
    assert page.count("<svg") == page.count('role="img" aria-label="Two bell curves') == 4
    assert all(alt for alt in re.findall(r"<img[^>]* alt=\"([^\"]*)\"", page)) and page.count("<img") == 2
    assert len(page) < 200_000


def test_the_truth_is_folded_away(slider):
    assert re.findall(r"<summary>Look it up</summary>(.*?)</details>", slider.tag()) == [
        "The victim was 88% sure (margin +2.0). The picture is a member.",
        "The victim was 62% sure (margin +0.5). The picture is not a member.",
    ]


@pytest.mark.parametrize(
    ("margin", "said"), [(0, "50%"), (4, "98%"), (-8, "0.034%"), (8, "99.966%"), (20, "100.0000%")]
)
def test_a_confidence_is_told_from_certainty(margin, said):
    assert two_bells._percent(margin) == said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["one"]}, "names: 1 for 2 pictures"),
        ({"photos": PHOTOS[:3]}, "are of 3, 4 and 4 pictures"),
        ({"margins": MARGINS[:4], "members": KEEP[:4]}, "has 1 shadow models on one side"),
    ],
)
def test_bad_input(change, message):
    good = {"photos": PHOTOS, "names": ["a", "b"], "margins": MARGINS, "members": KEEP, "shown": [0, 3]}
    with pytest.raises(ValueError, match=message):
        two_bells.TwoBells(**good | change, threshold=0.0)
