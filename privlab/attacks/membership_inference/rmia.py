"""RMIA, the relative membership attack (Zarifzadeh et al. 2024, "Low-Cost High-Power Membership Inference Attacks").

LiRA asks how likely the victim's answer is with and without the sample x. RMIA asks whether the victim favours x over others: it holds x
against samples z of the population that no model was trained on. p(x | victim) is the victim's confidence in the true class, p(x) what
models give it on average:

    ratio(x) = p(x | victim) / p(x)
    score(x) = share of z with ratio(x) / ratio(z) >= gamma

    online     p(x) = (mean_in + mean_out) / 2                    over shadows that were trained on x, and that were not
    offline    p(x) = ((1 + a) mean_out + (1 - a)) / 2            with mean_in guessed to be a mean_out + 1 - a; serves with 1 shadow

No z is in any model, so online too its p(z) takes the offline form. (The authors' code averages p(z) as it does p(x), for its z are
samples that other models were trained on; it has > for the paper's >=, trims the means, and tries other signals.)
Sums and quotients of positive float64 keep all digits from 1e-300 to 1; a difference would not, and there is none.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privlab.attacks.membership_inference import lira


def ratio(target: Tensor, mean_in: Tensor | None, mean_out: Tensor, a: float = 1 / 3) -> Tensor:
    """How much more confident the victim is than models are on average, p(x | victim) / p(x).

    target: (n,), the victim's confidence in the true class.
    mean_in, mean_out: (n,), the shadows' mean confidence, of those trained on the sample and of the others. mean_in=None: offline.
    a: used offline, from 0 (in-shadows are always sure) to 1 (they are as out-shadows); 1/3 is the authors' value on CIFAR-10.
    Returns (n,), float64.  Raises ValueError for confidences outside (0, 1], and for another a.
    """
    if not 0 <= a <= 1:
        raise ValueError(f"a={a} is not in [0, 1], and a mean of confidences would leave [0, 1] too; try 1/3")
    target, mean_out = _confidence("target", target), _confidence("mean_out", mean_out)
    if mean_in is None:
        return target / (((1 + a) * mean_out + (1 - a)) / 2)  # the bracket counts: 1e-40 + 1 - 1 is 0
    return target / ((_confidence("mean_in", mean_in) + mean_out) / 2)


def score(ratio_x: Tensor, ratio_z: Tensor, gamma: float = 2.0) -> Tensor:
    """The share of the population that a sample dominates, ratio(x) / ratio(z) >= gamma.

    ratio_x: (n,), of audited samples.  ratio_z: (m,), of the population, on the same victim.  gamma: above 0; 1 or more in the paper.
    Returns (n,), float64, from 0 to 1 in steps of 1/m, higher = member: with few z it has many ties, and at a low FPR few thresholds.
    Raises ValueError for a gamma that is not above 0.
    """
    if not 0 < gamma < math.inf:
        raise ValueError(f"gamma={gamma} is no threshold for a ratio; give a number above 0, 2 in the paper")
    ratio_x, ratio_z = (torch.as_tensor(values).double() for values in (ratio_x, ratio_z))
    dominated = torch.searchsorted(ratio_z.sort().values, ratio_x / gamma, right=True)  # how many ratio_z are no larger
    return dominated.double() / len(ratio_z)


def every_target(
    confidence: Tensor,
    keep: Tensor,
    population: Tensor,
    *,
    online: bool = True,
    gamma: float = 2.0,
    a: float = 1 / 3,
    pairs: bool = False,
) -> Tensor:
    """Each model as the target once, all others as its shadows.

    confidence: (models, n), each model's confidence in the true class of audited samples (`signals.confidence`, of float64 logits).
    keep: (models, n) bool, which model was trained on which of them.
    population: (models, m), the same confidence in samples that *no* model was trained on.
    pairs: as for `lira.every_target`, and as advisable: on noise an offline attack on 8 models without it has 0.42% TPR at 1% FPR.
    Returns (models, n), float64, higher = member.
    Raises ValueError as `lira.every_target` does, for confidences outside (0, 1], and as `ratio` and `score` do.
    """
    x, z = _confidence("confidence", confidence), _confidence("population", population)
    for name, values in (("confidence", x), ("population", z)):
        if values.ndim != 2 or 0 in values.shape or len(values) != len(x):
            raise ValueError(
                f"{name}: got shape {tuple(values.shape)}; give (models, samples), with as many models in confidence as in population"
            )
    member = lira.checked(keep, x, online, 1, "an online attack" if online else "an offline attack", pairs)
    shadows = lira.shadows_of_each(x, pairs)  # (targets, models)

    def mean_of_shadows(values: Tensor, side: Tensor) -> Tensor:
        """Over those on one side, for each model as the target: (targets, samples)."""
        return (shadows @ (values * side) / (shadows @ side.double())).clamp(max=1)  # a mean of ones may round up

    mean_in = mean_of_shadows(x, member) if online else None
    ratio_x = ratio(x, mean_in, mean_of_shadows(x, ~member), a)
    ratio_z = ratio(z, None, mean_of_shadows(z, torch.ones_like(z)), a)
    return torch.stack([score(*ratios, gamma) for ratios in zip(ratio_x, ratio_z, strict=True)])


def _confidence(name: str, values: Tensor) -> Tensor:
    values = torch.as_tensor(values)
    outside = ~((values > 0) & (values <= 1))  # NaN is outside as well
    if not values.is_floating_point() or outside.any():
        raise ValueError(
            f"{name}: {int(outside.sum()):,} of {values.numel():,} values, of {values.dtype}, are not in (0, 1]; give probabilities of the "
            "true class, as signals.confidence has them from raw logits in float64 (a float32 softmax rounds small ones to 0)"
        )
    return values.double()
