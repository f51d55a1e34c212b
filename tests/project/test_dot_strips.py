"""The dots of a claim's page: what they say in words, and where they stand; by hand."""

import re
from xml.etree import ElementTree

import pytest
from dot_strips import Strip, drawn, number


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.512345, None, "0.512"), (11_173_962, None, "11,173,962"), (-3.0, None, "−3"), (8.31e-9, None, "8.31e-09"),
        (11.2237, 0.61, "11.22"), (57.19, 9.5, "57.2"), (412.3, 35.0, "412"), (0.95461, 0.0027, "0.9546"), (0.0, 0.0, "0"),
    ],
)  # fmt: skip
def test_numbers_have_as_many_digits_as_their_interval_bears(value, half, text):
    assert number(value, half) == text


def test_a_strip_says_its_numbers():
    """1, 2, 3, 4: mean 2.5, 95% interval 2.5 ± 3.182 * 0.6455 = ± 2.054."""
    strip = Strip("psnr[a]", (1.0, 2.0, 3.0, 4.0), printed=(36.24, 5.21), low=20.0)
    assert strip.words() == [
        "mean 2.5 (95% interval 0.4 to 4.6)", "4 repeats", "the paper: 36.24 ± 5.21", "wanted above 20",
    ]  # fmt: skip
    assert Strip("psnr[a]", (1.5,)).words() == ["1.5", "1 repeat"]
    assert Strip("acc[a]", (1.0, 1.0)).words() == ["1 in every repeat", "2 repeats"]
    assert Strip("mse[a]", (0.01, 0.1), logs=True).words()[0].startswith("geometric mean 0.0316 (95% interval ")
    assert [Strip("a[b]", (1.0,), low=low, high=high).wanted for low, high in ((-2, 2), (5, 0))] == [
        "between −2 and 2", "below 0 or above 5",
    ]  # fmt: skip


def places(svg, kind):
    """Percent of the width at which what is of this kind stands: both ends of lines, or the centres of dots."""
    root = ElementTree.fromstring(svg)
    if kind == "dot":
        return [float(e.get("cx").rstrip("%")) for e in root.iter("circle")]
    return [float(e.get(x).rstrip("%")) for e in root.iter("line") if e.get("class") == kind for x in ("x1", "x2")]


def test_strips_of_a_chart_stand_on_one_axis_and_every_dot_is_on_it():
    one = Strip("psnr[a]", (10.0, 10.0, 20.0), printed=(30.0, 10.0), low=15.0)
    other = Strip("psnr[b]", (0.0, 40.0))
    (a, b), axis = drawn([one, other])
    low, high = other.figure.interval  # the widest: 20 ± 254
    at = lambda value: 6 + 88 * (value - low) / (high - low)  # noqa: E731
    assert places(a, "dot") == pytest.approx([at(10), at(10), at(20)], abs=0.01)
    assert places(b, "dot") == pytest.approx([at(0), at(40)], abs=0.01)
    assert places(a, "bound") == pytest.approx([at(15)] * 2, abs=0.01) and places(b, "bound") == []
    assert places(a, "spread") == pytest.approx([at(20), at(40)], abs=0.01)
    assert places(a, "grid") == places(b, "grid") and len(places(axis, "axis")) == 2 + len(places(a, "grid"))
    heights = re.findall(r'cy="(\d+)"', a)
    assert heights[0] != heights[1]  # two repeats of one value are two dots
    assert 'aria-label="psnr[a]: 3 repeats, from 10 to 20; mean 13' in a and "the paper: 30 ± 10; wanted above 15" in a
    assert 'aria-hidden="true"' in axis  # the numbers are told with the strips


def test_errors_stand_on_an_axis_of_logs_from_which_no_spread_falls():
    (svg,), _ = drawn([Strip("mse[a]", (0.01, 1.0), logs=True, printed=(0.1, 0.2))])
    one, other = places(svg, "dot")
    assert places(svg, "mean")[2:] == pytest.approx([(one + other) / 2] * 2, abs=0.01)  # of 0.01 and 1 that is 0.1
    assert all(6 <= place <= 94 for kind in ("dot", "mean", "spread", "grid") for place in places(svg, kind))
