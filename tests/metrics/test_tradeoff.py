"""Delta with its interval against the formula worked by hand, and the Pareto front against its definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privlab.metrics import tradeoff


def test_its_ends_are_where_the_t_test_turns():
    x, y = np.array([2.0, 3.1, 2.4, 2.7]), np.array([11.0, 18.0, 15.0, 12.5])
    found = tradeoff.ratio(x, y)
    for end in (found.low, found.high):
        assert stats.ttest_1samp(y - end * x, 0).pvalue == pytest.approx(0.05)
    assert found.low < found.value < found.high and found.value == pytest.approx(y.mean() / x.mean()) and found.n == 4


def test_a_cost_that_may_be_nothing_gives_no_ratio():
    found = tradeoff.ratio([-1.0, 1.5, 0.2], [10.0, 12.0, 11.0])
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert math.isnan(tradeoff.ratio([-1.0, 1.0], [3.0, 4.0]).value)


@settings(max_examples=30)
@given(st.dictionaries(st.integers(0, 99), st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(points):
    on = tradeoff.front(points)
    for name, (acc, attacc) in points.items():
        beaten = any((a >= acc and b <= attacc) and (a, b) != (acc, attacc) for a, b in points.values())
        assert (name in on) != beaten
    assert [points[name][0] for name in on] == sorted((points[name][0] for name in on), reverse=True)
