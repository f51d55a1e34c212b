"""RMIA, the relative membership attack (Zarifzadeh et al. 2024).

LiRA asks how likely the victim's answer is with and without the sample x. RMIA asks whether the victim favours x over others: it holds x
against samples z of the population that no model was trained on. p(x | victim) is the victim's confidence in the true class, p(x) what
models give it on average:

    ratio(x) = p(x | victim) / p(x)
    score(x) = share of z with ratio(x) / ratio(z) >= gamma

    p(x) = (mean_in + mean_out) / 2             over shadows that were trained on x, and that were not: the online attack
    p(z) = ((1 + a) mean_out + (1 - a)) / 2     with mean_in, which no z has, guessed to be a mean_out + 1 - a

(The authors' code averages p(z) as it does p(x), for its z are samples that other models were trained on, and has > for the paper's >=.)
"""

import torch
from torch import Tensor

from privlab.attacks.membership_inference import lira

GAMMA, A = 2.0, 1 / 3  # the authors' values on CIFAR-10


def every_target(confidence: Tensor, keep: Tensor, population: Tensor, *, pairs: bool = False) -> Tensor:
    """Each model as the target once, all others as its shadows; (models, n), float64, in steps of 1 / m, higher = member.

    confidence: (models, n), in (0, 1], each model's in the true class of audited samples (`signals.confidence`).
    population: (models, m), the same in samples that *no* model was trained on.
    keep, pairs, and errors: see `lira.every_target`.
    """
    if not all(((p > 0) & (p <= 1)).all() for p in (confidence, population)):
        raise ValueError("confidence, population: give probabilities in (0, 1]; float32 rounds small ones to 0")
    x, z, keep = confidence.double(), population.double(), keep.to(confidence.device)
    shadows = lira.shadows_of_each(keep, 2, True, pairs)  # (targets, models)

    def mean_of_shadows(values: Tensor, side: Tensor) -> Tensor:
        return (shadows @ (values * side) / (shadows @ side.double())).clamp(max=1)  # a mean of ones may round up

    ratio_x = x / ((mean_of_shadows(x, keep) + mean_of_shadows(x, ~keep)) / 2)
    # the bracket counts: 1e-40 + 1 - 1 is 0
    ratio_z = z / (((1 + A) * mean_of_shadows(z, torch.ones_like(z)) + (1 - A)) / 2)
    dominated = torch.searchsorted(ratio_z.sort().values, ratio_x / GAMMA, right=True)  # how many ratio_z are no larger
    return dominated.double() / z.shape[1]
