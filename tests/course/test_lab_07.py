"""Lab 07: what its checks of stages and of a registration tell apart, which no table of slips holds."""

import pytest
import torch

from privlab.notebook import checks

EQ_5, EQ_6 = ((0, 1), (0.5, 0.5)), ((0, 0), (0.5, 1))


@pytest.mark.parametrize(
    ("gradients", "statistics", "why"),
    [
        (EQ_5, EQ_6, ""),
        ([[0, 1], [0.5, 0.5]], ((0, 0), (0.25, 0), (0.5, 1)), ""),
        (EQ_6, EQ_5, "The two are swapped"),
        (EQ_5, ((0, 1), (0.5, 0)), "counts from the first step"),
        (((0, 1), (0.5, 0)), EQ_6, "nothing holds the images"),
        (((0, 4e-3), (0.5, 2e-3)), EQ_6, "A stage is a *factor*"),
        (((0, 1), (60_000, 0.5)), EQ_6, "do not divide a run"),
        (EQ_5, ((0, 0), (0.75, 1)), "should be 0 and 1; yours are 0 and 1"),
        (0.5, EQ_6, "no tuple of pairs"),
        (..., EQ_6, "Nothing is written yet"),
    ],
)
def test_stages_are_judged_by_what_they_make_of_a_run(gradients, statistics, why):
    outcome = checks.verify("07.stages", {"gradients": gradients, "statistics": statistics})
    assert outcome.passed is not bool(why) and why in outcome.why


def distances(members, held=lambda x: x, towards=lambda x: x):
    return (held(members) - towards(members.mean(0))).square().sum((1, 2, 3, 4)).sqrt()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (distances, ""),
        (lambda m: distances(m, towards=torch.Tensor.detach), ""),
        (lambda m: distances(m.detach()), "the gradient is still zero"),
        (lambda m: torch.tensor(distances(m).tolist()), "the gradient is still zero"),
        (lambda m: distances(m, held=torch.Tensor.detach), "each member would be driven *away*"),
        (lambda m: distances(m).tolist(), "Give a tensor"),
    ],
)
def test_a_registration_needs_the_gradient_as_well(answer, why):
    outcome = checks.verify("07.registration", answer)
    assert outcome.passed is not bool(why) and why in outcome.why
