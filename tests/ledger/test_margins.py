"""What the parts of a comparison are about, where the claim wants them, and their repeats; all by hand."""

import math

import numpy as np
import pytest

from privlab.ledger import rule
from privlab.ledger.figures import Figure
from privlab.ledger.grammar import parse
from privlab.ledger.margins import margins

END = math.inf


@pytest.mark.parametrize(
    ("compare", "parts"),
    [
        ("psnr[a] > psnr[b]", [("psnr[a] - psnr[b]", 0, END)]),
        ("psnr[a] < psnr[b] < psnr[c]", [("psnr[b] - psnr[a]", 0, END), ("psnr[c] - psnr[b]", 0, END)]),
        ("psnr[a] > psnr[b] + 10", [("psnr[a] - psnr[b]", 10, END)]),
        ("psnr[a] - 3 >= psnr[b] - 1", [("psnr[a] - psnr[b]", 2, END)]),
        ("abs(psnr[a] - psnr[b]) < 2", [("psnr[a] - psnr[b]", -2, 2)]),
        ("abs(psnr[a] - psnr[b] - 24.9) < 5", [("psnr[a] - psnr[b]", 19.9, 29.9)]),
        ("0 < psnr[a] - psnr[b] < 5", [("psnr[a] - psnr[b]", 0, 5)]),
        ("psnr[a] > 20 and ssim[a] - ssim[b] < 0.1", [("psnr[a]", 20, END), ("ssim[a] - ssim[b]", -END, 0.1)]),
        ("psnr[a] > max(psnr[b], psnr[c])", [("psnr[a] - psnr[b]", 0, END), ("psnr[a] - psnr[c]", 0, END)]),
        ("min(psnr[a], psnr[b]) > 20", [("psnr[a]", 20, END), ("psnr[b]", 20, END)]),
        ("psnr[a] > 3 * psnr[b]", [("psnr[a] - 3 * psnr[b]", 0, END)]),
        ("mse[a] < mse[b]", [("mse[b] / mse[a]", 1, END)]),  # errors are compared in logs, so as a quotient
        ("mse[a] - mse[b] < 0.1", [("mse[a] - mse[b]", -END, 0.1)]),
        ("mse[a] < psnr[b]", [("psnr[b] - mse[a]", 0, END)]),
        ("not psnr[a] > psnr[b]", [("psnr[a] - psnr[b]", -END, END)]),
        ("gap[a] == 0", []),
    ],
)
def test_the_parts_of_a_comparison_and_where_they_are_wanted(compare, parts):
    assert [(m.text, m.low, m.high) for m in margins(parse(compare))] == [
        (text, pytest.approx(low), pytest.approx(high)) for text, low, high in parts
    ]


def sample(*values, experiment="lab.one"):
    return rule.Sample(np.array(values), experiment)


def test_a_difference_is_taken_repeat_by_repeat_and_only_within_one_experiment():
    (margin,) = margins(parse("psnr[a] > psnr[b]"))
    a = sample(11.0, 22.0, 33.0)
    assert margin.repeats({"psnr[a]": a, "psnr[b]": sample(10.0, 20.0, 30.0)}).tolist() == [1.0, 2.0, 3.0]
    assert margin.repeats({"psnr[a]": a, "psnr[b]": sample(10.0, 20.0, 30.0, experiment="lab.two")}).size == 0
    assert margin.repeats({"psnr[a]": a, "psnr[b]": sample(10.0, 20.0)}).size == 0
    assert margin.repeats({"psnr[a]": a}).size == 0


def test_the_interval_of_a_mean_and_of_a_geometric_mean():
    """1, 2, 3, 4: mean 2.5, standard error 0.6455, t of 3 degrees of freedom has 0.025 above 3.182."""
    low, high = Figure.of("psnr[a]", [1.0, 2.0, 3.0, 4.0]).interval
    assert (low, high) == (pytest.approx(2.5 - 3.182 * 0.6455, abs=1e-3), pytest.approx(2.5 + 3.182 * 0.6455, abs=1e-3))
    figure = Figure.of("mse[a]", [math.exp(v) for v in (1.0, 2.0, 3.0, 4.0)])
    assert figure.interval == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert Figure.of("mse[b] / mse[a]", [math.e, math.e**3], logs=True).centre == pytest.approx(math.e**2)
    assert Figure.of("psnr[a]", [1.0]).interval is None
    low, high = Figure.of("mse[a]", [0.0, 1e30]).interval
    assert low < 1e-200 and high > 1e200
