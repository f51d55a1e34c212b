"""Where an attack or a trained victim is compared, the claim says what must be there for the question to make sense."""

from __future__ import annotations

import pytest

from privlab.ledger import papers
from privlab.ledger.comparison import names

# what an attack achieves, what a trained victim does, and orders over either
MEASURED_ON_ATTACKS = {
    "psnr", "mse", "log10_mse", "lpips", "ssim", "fft2d", "iip", "label_accuracy", "steps_to_threshold", "grad_loss", "grad_loss_ratio",
    "log10_grad_loss_drop", "interaction", "attacc", "attacc_if_stopped", "likelihood", "user_preference",
    "attack_acc", "attack_acc_at_matched_gap", "macro_f1", "skill", "auc", "auc_at_matched_gap", "auc_if_stopped", "tpr_at_fpr_0p001",
    "tpr_at_fpr_0p01", "tpr_at_fpr_0p01_at_matched_gap", "share_of_epochs_ahead", "roc_share_above", "relative_noise_to_15db",
    "weight_noise_to_halve_auc", "rank_correlation", "spearman", "correlation", "effect", "acc", "task_acc", "median_loss", "gradient_norm",
}  # fmt: skip

OF_ALGEBRA_AND_COUNTS = {
    "bend", "decided_share", "effective_rank", "from_grey", "from_grey_ratio", "log10_condition", "log10_sense_of_place", "max_abs_error",
    "null_space_gap", "params_m", "receptive_area", "relative_error", "relative_residual", "row_cosine", "share_of_square",
    "second_share", "slope_share", "verdicts_kept",
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
    return claim.kind != "identity" and bool(metrics & MEASURED_ON_ATTACKS)


@pytest.mark.parametrize("claim", filter(compares_attacks, papers.claims()), ids=lambda c: c.id)
def test_a_claim_that_compares_attacks_or_trained_victims_has_needs(claim):
    assert bool(claim.needs) != (claim.id in EXCEPTIONS), "give it needs, or a reason why it can have none"


def test_every_metric_of_a_claim_is_known_to_be_one_of_attacks_or_not_and_every_exception_is_a_claim():
    assert {c.id for c in filter(compares_attacks, papers.claims())} >= EXCEPTIONS
    metrics = {name.partition("[")[0] for c in papers.claims() for name in names(c.compare)}
    assert metrics <= MEASURED_ON_ATTACKS | OF_ALGEBRA_AND_COUNTS
