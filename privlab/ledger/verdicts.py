"""How a claim is judged: the grammar of its comparison, and what the spread of the repeats allows one to say.

A claim of the papers is about means: "the PSNR of Swin-T is above that of ResNet-50" speaks of images in general, not of
the few that were tried. So the question is what the repeats say about the means behind them.

    1. Each recorded name has n repeats, with a mean and a standard deviation s. What they tell about the true mean is
       Student's t distribution with n - 1 degrees of freedom, around the mean, of width s / sqrt(n).
    2. The mean of each name is drawn 4,000 times from it, each name by itself, and the whole comparison is put to each draw.
    3. Holds in 95% of the draws or more: reproduced. In 5% or less: not reproduced. Between: inconclusive, the spread covers
       the difference.

So two names whose true means are equal end in a decisive verdict about once in ten times, five in a hundred each way, as in
a pair of one-sided tests at 5%; with `and`, min and max nothing has to be worked out anew. The draws are evenly spaced
quantiles in an order shuffled by the name, hence the same in every run, and a mean that moves up moves all its draws up.

Errors such as an MSE spread over decades. Their arithmetic mean is the worst repeat in disguise, and its t distribution
reaches below zero. Names in `records.IN_LOGS` are therefore drawn in logs, and the claim is about geometric means: the
typical error. Averaging PSNR, which is a log of the MSE, is the same thing. A PSNR itself is drawn as it is.

One repeat far off on the good side, an exact image above all, would widen the distribution on both sides and so take away
from what all repeats agree in. With five repeats or more a mean is therefore kept within their range: that all five lie on
one side of a typical value has a chance of 1 in 32. In simulations (normal, skewed, heavy-tailed, with outliers; 4 to 8
repeats) two equal means then still end in a decision in about 5% of cases each way, and no more.

An identity is not about means. It must hold in every repeat, and one repeat is enough to judge it.

What this leaves out: repeats of one image under several seeds are less independent than n suggests, which makes verdicts
too firm; names measured on the same images vary together, which makes comparisons of them too cautious. A lab that wants
the paired comparison records the difference.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Iterable

import numpy as np
from scipy.special import stdtrit

from privlab.ledger.evidence import SIZES, checked
from privlab.ledger.grammar import Comparison, parse
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Judgement, holds_on_printed_numbers
from privlab.ledger.papers import Claim
from privlab.ledger.records import Record

__all__ = ["VERDICTS", "Comparison", "Judgement", "holds_on_printed_numbers", "judge", "parse"]

NOT_RUN = "not run at this profile"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)
DRAWS = 4_000
SURE = 0.95
IN_RANGE = 5  # repeats from which on a mean is kept within their range


def judge(claim: Claim, records: Iterable[Record], profile: str, ran: bool | None = None) -> Judgement:
    """Hold what a lab recorded against a claim.

    records: of any labs and profiles; those of the claim's lab at this profile count.
    profile: the one that was run.  ran: whether the claim's lab was run; if not given, whether it recorded anything.
    Raises ValueError for a comparison outside of the grammar, or an unknown profile.
    """
    checked(profile, "profile")
    comparison = parse(claim.compare, claim.id)
    mine = {r.name: r for r in records if r.lab == claim.lab and r.profile == profile}
    used = [mine[n] for n in comparison.names if n in mine]
    ours = tuple(r.figure for r in used)
    if SIZES.index(profile) < SIZES.index(claim.profile):
        return Judgement(claim, profile, NOT_RUN, f"needs the profile {claim.profile}: {claim.profile_why}", None, ours)
    if not (bool(mine) if ran is None else ran):
        return Judgement(claim, profile, NOT_RUN, f"lab {claim.lab} was not run")
    if missing := [n for n in comparison.names if n not in mine]:
        near = difflib.get_close_matches(missing[0], mine, n=1)
        hint = f"; there is {near[0]}" if near else ""
        return Judgement(claim, profile, INCONCLUSIVE, f"not recorded: {', '.join(missing)}{hint}", None, ours)
    if claim.kind == "identity":
        return Judgement(claim, profile, *_each_repeat(comparison, used), None, ours)
    if single := [r.name for r in used if len(r.values) < 2]:
        return Judgement(claim, profile, INCONCLUSIVE, f"one value of {single[0]}, so no spread; repeat it", None, ours)
    share = float(np.mean(comparison({r.name: _draws(r) for r in used})))
    reason = f"holds in {share:.1%} of {DRAWS:,} draws of the means"
    if share >= SURE:
        return Judgement(claim, profile, REPRODUCED, reason, share, ours)
    if share <= 1 - SURE + 1e-12:
        return Judgement(claim, profile, NOT_REPRODUCED, reason, share, ours)
    return Judgement(claim, profile, INCONCLUSIVE, f"{reason}: the spread covers the difference", share, ours)


def _each_repeat(comparison: Comparison, used: list[Record]) -> tuple[str, str]:
    """Verdict and reason for an identity: repeats of several names belong together in their order, a single value to all."""
    counts = {len(r.values) for r in used} - {1}
    if len(counts) > 1:
        return INCONCLUSIVE, f"{' and '.join(map(str, sorted(counts)))} repeats cannot be held against each other"
    n = max(counts, default=1)
    holds = np.broadcast_to(comparison({r.name: np.array(r.values) for r in used}), (n,))
    if holds.all():
        return REPRODUCED, "holds in the one repeat" if n == 1 else f"holds in all {n} repeats"
    return NOT_REPRODUCED, f"fails in {int((~holds).sum())} of {n} repeats"


def _draws(record: Record) -> np.ndarray:
    """(DRAWS,) means that the repeats allow, on the scale of the values."""
    scaled = np.array(record.scaled)
    error = scaled.std(ddof=1) / math.sqrt(len(scaled))
    quantiles = stdtrit(
        len(scaled) - 1, (np.arange(DRAWS) + 0.5) / DRAWS
    )  # Student's t; scipy.stats takes 2 s to import
    seed = int.from_bytes(hashlib.sha256(record.name.encode()).digest()[:8], "big")
    means = scaled.mean() + error * np.random.default_rng(seed).permutation(quantiles)
    if len(scaled) >= IN_RANGE:
        means = means.clip(scaled.min(), scaled.max())
    return np.exp(means.clip(-700, 700)) if record.logs else means
