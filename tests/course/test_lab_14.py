"""Lab 14: what is said of a count that would not end, and of a study's flaw."""

import pytest
from scipy.stats import t

from privlab.notebook import checks


def test_a_limit_that_n_does_not_make_smaller_is_told_before_it_is_asked_where_it_never_ends():
    def for_ever(effect, spread):
        n = 2
        while t.ppf(0.95, n - 1) * spread > effect:
            n += 1
            assert n < 1_000, "it does not come to an end"
        return n

    assert "does not make your limit smaller" in checks.verify("14.repeats", for_ever).why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"D": "S", "C": "R", "B": " P ", "A": "Q"}, ""),
        ({"A": "q", "B": "p", "C": "r", "D": "t"}, "yours is 't'"),
        ({"A": "q", "B": "s", "C": "r", "D": "s"}, "Study B: what differs from repeat to repeat?"),
        (dict.fromkeys("ABCD", ...), "Nothing is written yet"),
    ],
)
def test_a_flaw_that_was_missed_is_asked_for(answer, why):
    outcome = checks.verify("14.flaws", answer)
    assert outcome.passed is not bool(why) and why in outcome.why
