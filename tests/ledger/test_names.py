"""Every name that a claim compares or needs is one that its experiments yield, by the committed lines of every size that has some.

Where a size yields all that a claim compares it yields what the claim needs, or the claim would wait for ever at a size that is complete.
And where an attack or a trained victim is compared, the claim says what must be there for the question to make sense.
"""

from functools import cache

import pytest

from privlab import experiments
from privlab.ledger import evidence, papers
from privlab.ledger.comparison import names

STAND_INS = {"vit_base_patch16_224": "vit_small_patch32_224"}  # at smoke an experiment may have a smaller network

ELSEWHERE = {
    "zhang2024.table6.attention_over_norm.best_of_three",  # night has one more part of a ViT
    "koh2024.figure3.fine_shallow", "koh2024.figure3.fine", "koh2024.figure3.fine_deep",  # night, to come, has the networks
    "koh2024.figure3.densenet_small.fresh_draws", "koh2024.table11.vgg_resists.fine", "privlab.skips.deeper_more",
}  # fmt: skip


@cache
def yielded(experiment: str, size: str) -> frozenset[str]:
    """Names of the first committed repeat of the protocol as it is now; none where the size has no line."""
    one = experiments.find(experiment)
    rows = evidence.read(experiment, size, one.digest(size)) if size in one.sizes else ()
    return frozenset(rows[0].values) if rows else frozenset()


def sizes(claim: papers.Claim) -> dict[str, dict[str, set[str]]]:
    """Size -> what each of the claim's experiments yields there, of the sizes at which all of them have lines."""
    every = {size: {e: set(yielded(e, size)) for e in claim.experiments} for size in evidence.SIZES}
    return {size: there for size, there in every.items() if all(there.values())}


@pytest.mark.parametrize("lab", sorted({claim.lab for claim in papers.claims()}))
def test_what_a_claim_names_is_yielded(lab):
    for claim in papers.claims(lab):
        compared, needed, whole = {*names(claim.compare)}, {*names(*claim.needs)}, claim.id in ELSEWHERE
        for size, there in sizes(claim).items():
            known = set().union(*there.values())
            known |= {name.replace(small, large) for name in known for large, small in STAND_INS.items()}
            assert not compared <= known or needed <= known, f"{claim.id} can never be judged at {size}"
            whole = whole or compared | needed <= known
            if len(there) > 1:
                assert all(sum(name in each for each in there.values()) <= 1 for name in compared | needed), claim.id
                assert claim.id in ELSEWHERE or all(each & (compared | needed) for each in there.values()), claim.id
        assert whole, f"of {claim.id} no committed line has every name"


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


def test_a_claim_that_compares_attacks_or_trained_victims_has_needs_or_a_reason_why_it_can_have_none():
    compare = set()
    for claim in papers.claims():
        metrics = {name.partition("[")[0] for name in names(claim.compare)}
        if claim.kind != "identity" and not metrics <= OF_ALGEBRA_AND_COUNTS:
            compare.add(claim.id)
            assert bool(claim.needs) != (claim.id in EXCEPTIONS), claim.id
    assert compare >= EXCEPTIONS
