"""Sentences with measured numbers, as a reader sees them."""

import math

import numpy as np
import torch

from privlab.notebook import text


def test_numbers_stand_where_the_template_says_and_a_float_without_a_format_is_short(shell):
    told = text("Swin is {:.1f} dB ahead of {other}, on {} of {}.", 7.26, 8, 12, other="ResNet")
    assert told == "Swin is 7.3 dB ahead of ResNet, on 8 of 12."
    assert text("{}, {} and {:.0%}", 1 / 3, 12, 0.256) == "0.3333, 12 and 26%"
    data, _ = shell.display_formatter.format(text("**{:.1f}** dB", torch.tensor([3.14])))
    assert data["text/markdown"] == "**3.1** dB" and data["text/plain"] == "**3.1** dB"  # no quotation marks


def test_what_is_not_measured_keeps_the_sentence_and_what_is_infinite_is_written_as_a_sign():
    for value in (math.nan, np.float32("nan"), torch.tensor(math.nan)):
        told = text("The Swin is {:.1f} dB ahead, on {:d} of {:.1f} and {}.", value, value, math.inf, -math.inf)
        assert told == "The Swin is … dB ahead, on … of ∞ and −∞. *(…: not measured yet.)*"
