"""Sentences with measured numbers, as a reader sees them."""

import math

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from privlab.notebook import text


def test_numbers_stand_where_the_template_says():
    assert (
        text("Swin is {:.1f} dB ahead of {other}, on {} of {}.", 7.26, 8, 12, other="ResNet")
        == "Swin is 7.3 dB ahead of ResNet, on 8 of 12."
    )
    assert text("{1} before {0}", "a", "b") == "b before a"
    assert text("{:.0%} of {:.2f}", 0.256, 0.5) == "26% of 0.50"


def test_a_float_without_a_format_is_short():
    assert text("{}, {} and {}", 1 / 3, 12, np.float64(0.1) * 3) == "0.3333, 12 and 0.3"


@pytest.mark.parametrize("value", [np.float32(0.5), np.array(0.5), torch.tensor(0.5), torch.tensor([0.5])])
def test_one_element_of_an_array_is_a_number(value):
    assert text("{:.2f}", value) == "0.50"


@pytest.mark.parametrize("value", [math.nan, np.float32("nan"), torch.tensor(math.nan)])
def test_what_is_not_measured_keeps_the_sentence(value):
    assert text("The Swin is {:.1f} dB ahead, on {:d} of {}.", value, value, 12) == (
        "The Swin is … dB ahead, on … of 12. *(…: not measured yet.)*"
    )


def test_an_infinite_value_is_written_as_a_sign():
    assert text("{:.1f} and {}", math.inf, -math.inf) == "∞ and −∞"


def test_a_notebook_shows_markdown_and_no_quotation_marks():
    data, _ = InteractiveShell.instance().display_formatter.format(text("**{:.1f}** dB", 3.14))
    assert data["text/markdown"] == "**3.1** dB" and data["text/plain"] == "**3.1** dB"


@pytest.mark.parametrize(
    ("template", "values", "names", "says"),
    [
        ("{} and {}", (1,), {}, "more places than the 1 values"),
        ("{gap}", (), {}, "names 'gap', and no such value"),
        ("nothing", (1,), {}, "value 0 has no place"),
        ("{}", (1,), {"gap": 2}, "value 'gap' has no place"),
        ("{:.1f}", ("Swin",), {}, r"'Swin' cannot be written as \{:.1f\}"),
    ],
)
def test_what_does_not_fit_is_named(template, values, names, says):
    with pytest.raises(ValueError, match=says):
        text(template, *values, **names)
