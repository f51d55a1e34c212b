"""The slider from ResNet-50 to ConvNeXt-T: what its page says of each step, and that only one step is seen at a time."""

from __future__ import annotations

import re

import pytest
import torch

from privlab import metrics, models
from privlab.notebook import morphing

TRUTH = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
FOUND = {n: TRUTH.lerp(torch.full_like(TRUTH, 0.5), 1 - n / 20) for n in (1, 8, 9, 10, 14)}


@pytest.fixture(scope="module")
def page():
    return morphing.Morph(FOUND, TRUTH, start=9).tag()


def part(page, step):
    """What is seen of a step."""
    return re.search(rf'<div data-step="{step}".*?(?=<div data-step=|</div></figure>)', page, re.DOTALL)[0]


def test_the_facts_are_those_of_the_papers_networks():
    assert morphing.facts(1).parameters == pytest.approx(23.53, abs=0.01)  # a ResNet-50 with ten classes
    assert morphing.facts(14).parameters == pytest.approx(27.83, abs=0.01)  # a ConvNeXt-T with ten classes
    assert morphing.facts(9).multiplications == morphing.facts(10).multiplications  # activations multiply nothing
    assert morphing.facts(4).layers[-1, 0][0].startswith("4 x 4")


def test_one_step_is_seen_and_the_slider_stands_at_it(page):
    seen = re.findall(r'<div data-step="(\d+)"( hidden)?>', page)
    assert seen == [("1", " hidden"), ("8", " hidden"), ("9", ""), ("10", " hidden"), ("14", " hidden")]
    assert 'value="2"' in page and 'aria-valuetext="9 of 14: ReLU to GELU"' in page and 'max="4"' in page


def test_a_step_says_what_is_new_and_what_is_gone(page):
    ten = part(page, 10)
    assert "gone: GELU, GELU" in ten and ten.count("<strong>new") == 0
    assert "<strong>changed: </strong>GELU" in part(page, 9)
    assert "<strong>new: </strong>layer scale" in part(page, 14)
    assert "Here it begins." in part(page, 1) and "a block of the second stage" in part(page, 1)
    assert "the stem" in part(page, 8) and "gone: ReLU, maximum of 3 x 3, stride 2" in part(page, 8)


def test_a_step_has_its_scores_and_every_image_a_description(page):
    morph = morphing.Morph(FOUND, TRUTH)
    assert morph.ssim[10] == pytest.approx(metrics.ssim(FOUND[10], TRUTH).item())
    assert f"SSIM {morph.ssim[10]:.2f}, {morph.psnr[10]:.1f} dB" in part(page, 10)
    alts = re.findall(r"<img[^>]* alt=\"([^\"]*)\"", page)
    assert len(alts) == page.count("<img") == 3 * len(FOUND) and all(alts)


def test_without_html_it_is_a_line_of_numbers():
    morph = morphing.Morph({1: FOUND[1], 14: TRUTH}, TRUTH)
    assert (
        morph._repr_mimebundle_()["text/plain"]
        == f"SSIM of the reconstruction by step: 1: {morph.ssim[1]:.2f}, 14: 1.00"
    )


@pytest.mark.parametrize(
    ("found", "start", "message"),
    [
        ({15: TRUTH}, 15, "found=15 is none of the fourteen steps"),
        ({8: TRUTH}, 1, "start=1 has no image; there are 8"),
        ({}, 1, "there are none"),
        ({1: TRUTH[:, :, :16]}, 1, "shape|size|match"),
    ],
)
def test_bad_input(found, start, message):
    with pytest.raises(ValueError, match=message):
        morphing.Morph(found, TRUTH, start=start)


def test_it_knows_every_step():
    assert {*morphing.PLACES} <= {*models.morph.STEPS}
