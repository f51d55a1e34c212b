"""Lab 09: what its check of a step tells apart."""

import pytest

from privlab.models import morph
from privlab.notebook import checks


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (morph.variant(9, activations="010"), ""),
        (morph.variant(9, activations="101"), "which ones stay"),
        (morph.variant(9, activations="110"), "keeps 2 of a block"),
        (morph.STEPS[9], "nothing is taken away"),
        (morph.STEPS[10], "Make it yourself, out of step 9"),
        (morph.variant(8, activations="010"), "More than the activations differs"),
        ("010", "this is a str"),
        (..., "Nothing is written yet"),
    ],
)
def test_a_step_is_compared_with_what_step_9_becomes(step, why):
    outcome = checks.verify("09.variant", step)
    assert outcome.passed is not bool(why) and why in outcome.why
