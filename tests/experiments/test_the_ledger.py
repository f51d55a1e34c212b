"""Lab 14's experiment: repeats are independent, and draws decide as they should."""

import numpy as np

from privlab.course.lab_14 import experiments as the_ledger
from privlab.experiments import find


def test_a_repeat_is_its_number_alone():
    measure = find("the_ledger.decisions").measure
    one, again, other = (dict(measure(number, times=4)) for number in (3, 3, 4))
    assert one == again != other and dict(measure(-1, times=1))


def test_a_decision_by_hand():
    """1, 2, 3, 4: t = 3.87 against 2.35; and of two samples 2.5 apart with a standard error of 0.91, t = 2.74 against 1.94."""
    steps = np.array([1.0, 2.0, 3.0, 4.0])
    assert the_ledger.decision("a[x] > 0", {"a": steps}) == "holds"
    assert the_ledger.decision("a[x] < 0", {"a": steps}) == "fails"
    assert the_ledger.decision("a[x] > 2", {"a": steps}) == ""
    assert the_ledger.decision("a[x] > b[x]", {"a": steps + 2.5, "b": steps[::-1]}) == ""  # paired: 5.5, 3.5 ... -0.5
    assert the_ledger.decision("a[x] > b[x]", {"a": steps + 2.5, "b": steps[::-1]}, apart=True) == "holds"
