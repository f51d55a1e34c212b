"""Where an attack or a trained victim is compared, the claim says what must be there for the question to make sense."""

import pytest

from privlab.ledger import papers
from privlab.ledger.comparison import names

# no attack and no trained victim
OF_ALGEBRA_AND_COUNTS = {
    "decided_share", "from_grey", "from_grey_ratio", "log10_sense_of_place", "max_abs_error", "null_space_gap", "params_m",
    "relative_error", "relative_residual",
}  # fmt: skip
WITHOUT_NEEDS = {
    "the comparison holds the attack against a bar that no guess reaches, so a failed attack refutes it, as it should": [
        "lu2022.figure2.closed_form_exact", "lu2022.figure5.width_leaks", "privlab.patch_embedding.bfloat16_base",
        "privlab.patch_embedding.width_below_tokens", "privlab.subspace.frozen_random_std002_patch8",
        "privlab.scale.closed_form_does_not_care", "privlab.withheld.costs_algebra_nothing", "privlab.source.two_parts_suffice",
        "hatamizadeh2022.section31.labels_restored",
    ],
    "one side of the comparison is the guess, or says that the attack works": [
        "privlab.gradvit.below_the_mean_photograph", "privlab.april.batch_by_the_bias",
    ],
    "the comparison holds the attack against a bar above what a guess has on average, which the claim's note names": [
        "privlab.scale.mean_patch_always",
    ],
    "no attack and no victim: numbers that are drawn, or a quantity of the true images": [
        "hatamizadeh2022.section341.permutations",
    ],
}  # fmt: skip
EXCEPTIONS = {name for names in WITHOUT_NEEDS.values() for name in names}


def compares_attacks(claim: papers.Claim) -> bool:
    metrics = {name.partition("[")[0] for name in names(claim.compare)}
    return claim.kind != "identity" and not metrics <= OF_ALGEBRA_AND_COUNTS


@pytest.mark.parametrize("claim", filter(compares_attacks, papers.claims()), ids=lambda c: c.id)
def test_a_claim_that_compares_attacks_or_trained_victims_has_needs(claim):
    assert bool(claim.needs) != (claim.id in EXCEPTIONS), "give it needs, or a reason why it can have none"


def test_every_exception_is_a_claim():
    assert {c.id for c in filter(compares_attacks, papers.claims())} >= EXCEPTIONS
