"""No claim that cannot fail: evidence is drawn at random, and every claim comes out each way.

A claim's names are given values within the range of their metric, as wide as an experiment may yield them. Among the draws are names all
alike, far apart, in every order, and at the ends of their range. Of a draw whose means satisfy the needs, eight repeats are made, and the
judge itself passes the verdict.
"""

import ast
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privlab.ledger import evidence, judging, papers
from privlab.ledger.comparison import names, value
from privlab.ledger.judging import NOT_REPRODUCED, NOT_TESTED, REPRODUCED

DRAWS, ROUNDS, REPEATS = 4000, 12, 8
SHARE, SIGNED = (0.0, 1.0), (-1.0, 1.0)
SHARES = """attacc attacc_if_stopped acc attack_acc attack_acc_at_matched_gap attack_acc_at_one_level auc_at_one_level shared_levels
    train_acc task_acc auc auc_at_matched_gap iip fft2d tpr_at_fpr_0p01 tpr_at_fpr_0p01_at_matched_gap tpr_at_fpr_0p001 macro_f1
    train_test_gap test_accuracy decided_share share_of_epochs_ahead roc_share_above label_accuracy likelihood"""
RANGES = dict.fromkeys(SHARES.split(), SHARE) | {
    "psnr": (5.0, 60.0), "lpips": (0.0, 1.2), "ssim": (-0.1, 1.0), "effect": (-3.0, 3.0), "rank_correlation": SIGNED, "spearman": SIGNED,
    "null_space_gap": (-5.0, 60.0), "params_m": (20.0, 30.0), "steps_to_threshold": (1.0, 3000.0), "log10_mse": (-6.0, 0.0),
    "log10_grad_loss_drop": (-1.0, 8.0), "log10_sense_of_place": (-8.0, 0.0),
}  # fmt: skip
DECADES = {
    "mse": (-12, 1), "relative_residual": (-17, 1), "relative_error": (-17, 1), "max_abs_error": (-17, 1), "median_loss": (-4, 1),
    "grad_loss": (-4, 2), "gradient_norm": (-6, 2), "grad_loss_ratio": (-4, 2), "from_grey_ratio": (-2, 3), "from_grey": (-12, 0),
}  # fmt: skip
IN_PERCENT = {"attacc", "acc"}  # where nothing is committed that would tell


@cache
def committed(metric: str, experiments: tuple[str, ...]) -> float:
    """The largest value of a metric that some experiments have at smoke or class; NaN where nothing is committed."""
    rows = [row for name in experiments for size in ("smoke", "class") for row in evidence.read(name, size)]
    found = [v for row in rows for name, v in row.values.items() if name.partition("[")[0] == metric]
    return max(found, default=math.nan)


def scale(metric: str, claim: papers.Claim) -> tuple[float, float]:
    """Of what is drawn: the share or the percent that an experiment counts in, and where algebra is exact all that float64 can tell."""
    assert metric in RANGES or metric in DECADES, f"give {metric} of {claim.id} its range in RANGES or DECADES above"
    low, high = RANGES.get(metric) or DECADES[metric]
    largest = committed(metric, tuple(claim.experiments))
    if (low, high) == SHARE and (largest > 1 or (math.isnan(largest) and metric in IN_PERCENT)):
        return 0.0, 100.0
    return (low, 310.0) if metric == "psnr" and largest > 50 else (low, high)


def draws(claim: papers.Claim, comparisons: Sequence[str], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Means of each name, DRAWS of them; in a draw a metric has a middle and a spread, and each key of a name adds something to it."""
    constants = [n.value for c in comparisons for n in ast.walk(ast.parse(c.strip())) if isinstance(n, ast.Constant)]
    numbers = [float(value) for value in constants if not isinstance(value, str)]

    def anywhere() -> np.ndarray:  # most often at the ends of the range
        return (1 - np.cos(np.pi * rng.random(DRAWS))) / 2

    drawn = {}
    middle = defaultdict(anywhere)
    spread = defaultdict(lambda: 10 ** rng.uniform(-4, 0, DRAWS))
    effects = defaultdict(lambda: rng.standard_normal(DRAWS))
    own = 10 ** rng.uniform(-3, 1, DRAWS)
    for name in names(*comparisons):
        metric, keys = name.removesuffix("]").split("[")
        low, high = scale(metric, claim)
        sway = sum(effects[metric, key] for key in keys.split(", ")) + own * rng.standard_normal(DRAWS)
        place = np.where(rng.random(DRAWS) < 0.1, anywhere(), middle[metric] + spread[metric] * sway)
        values = low + (high - low) * place.clip(0, 1)
        drawn[name] = 10**values if metric in DECADES else values
        if numbers:  # near the threshold, where a name is held against a number
            near = rng.choice(numbers, DRAWS) * (1 + spread[metric] * rng.standard_normal(DRAWS))
            least, most = (10.0**low, 10.0**high) if metric in DECADES else (low, high)
            drawn[name] = np.where((rng.random(DRAWS) < 0.2) & (near >= least) & (near <= most), near, drawn[name])
    return drawn


def judged(claim: papers.Claim, means: Mapping[str, float]) -> str:
    """The verdict on eight repeats, scattered a little around given means; those of an identity have one and the same value."""
    still, rng = names(claim.compare) if claim.kind == "identity" else (), np.random.default_rng(0)
    sway = [{n: 1 + 1e-6 * rng.standard_normal() * (n not in still) for n in means} for _ in range(REPEATS)]
    rows = pd.DataFrame([{n: v * one[n] for n, v in means.items()} for one in sway])
    entry = evidence.Registration("drawn.at_random", "class", 1, "", 0, REPEATS, "drawn at random", False, "2026-01-01")
    return judging.judge_by(claim, [(entry, rows)]).verdict


def found(claim: papers.Claim) -> set[str]:
    """How a claim comes out with some means: reproduced, not reproduced, and, where it has needs, not tested."""
    comparisons = [claim.compare, *claim.needs]
    wanted, seen = {REPRODUCED, NOT_REPRODUCED} | ({NOT_TESTED} if claim.needs else set()), set[str]()
    for seed in range(ROUNDS):
        means = draws(claim, comparisons, np.random.default_rng(seed))
        holds, *needs = (np.broadcast_to(value(text, means), DRAWS) for text in comparisons)
        met = np.logical_and.reduce([np.ones(DRAWS, bool), *needs])
        for verdict, where in ((REPRODUCED, met & holds), (NOT_REPRODUCED, met & ~holds), (NOT_TESTED, ~met)):
            tried = np.flatnonzero(where)[:20] if verdict in wanted - seen else ()
            if any(judged(claim, {n: float(v[at]) for n, v in means.items()}) == verdict for at in tried):
                seen.add(verdict)
        if seen == wanted:
            break
    return seen


@pytest.mark.parametrize("claim", papers.claims(), ids=lambda c: c.id)
def test_every_claim_can_come_out_each_way(claim):
    """Reproduced and not reproduced, its needs met; and not tested, where it has needs."""
    assert found(claim) == {REPRODUCED, NOT_REPRODUCED, *([NOT_TESTED] if claim.needs else [])}


@pytest.mark.parametrize("compare, needs, never", [
    ("lpips[a] < lpips[b] + 2", (), NOT_REPRODUCED),
    ("psnr[a] > psnr[b] - 1", ("psnr[a] > psnr[b]",), NOT_REPRODUCED),
    ("psnr[a] > psnr[b] and psnr[b] > psnr[a]", (), REPRODUCED),
    ("psnr[a] > psnr[b]", ("psnr[a] > psnr[b] or psnr[b] > 1",), NOT_TESTED),
])  # fmt: skip
def test_a_claim_that_can_come_out_one_way_alone_is_caught(compare, needs, never):
    claim = papers.Claim("lu2022.x.y", "T", "05", "ordering", "S.", compare, needs=needs)
    assert found(claim) == {REPRODUCED, NOT_REPRODUCED, *([NOT_TESTED] if needs else [])} - {never}
