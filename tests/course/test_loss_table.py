"""The table of a loss: each term times its weight, and the sums of the auxiliary terms and of all."""

import pytest

from privlab.course.lab_07.loss_table import AUXILIARY, WHOLE, loss_table


def test_the_last_terms_are_added_up_and_so_are_all():
    weights = {"gradients": 0.5, "patches": 0.1, "pixels": 0.2}
    table = loss_table({"gradients": 8.0, "patches": 10.0, "pixels": 5.0}, weights, auxiliary=2).data
    assert table["product"].to_dict() == pytest.approx(
        {"gradients": 4.0, "patches": 1.0, "pixels": 1.0, AUXILIARY: 2.0, WHOLE: 6.0}
    )
