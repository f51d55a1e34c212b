"""Lab 09: its check of a step tells wrong digits from right ones in another step."""

import pytest

from privlab.models import morph
from privlab.notebook import checks


@pytest.mark.parametrize("step", [morph.STEPS[10], morph.variant(8, activations="010"), "010"])
def test_a_step_with_the_right_digits_has_to_be_made_out_of_step_9(step):
    assert "out of step 9" in checks.verify("09.variant", step).why
    assert "nothing is taken away" in checks.verify("09.variant", morph.STEPS[9]).why
