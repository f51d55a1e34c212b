"""What a model inversion lowers: losses of the target model's answer, and how far its features stray from those of public images.

A loss takes (n, classes) logits and (n,) targets and gives (n,) numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.models import representations
from privlab.models.forward import preprocessing


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The negative log-likelihood of the target class (Koh et al. 2024, eq. 1; GMI, Zhang et al. 2020)."""
    return F.cross_entropy(logits, targets, reduction="none")


def poincare(logits: Tensor, targets: Tensor) -> Tensor:
    """The Poincaré distance between the logits, scaled to a sum of absolutes of 1, and the one-hot target (Struppek et al. 2022, PPA).

    Its gradient does not fade as the target becomes certain, as that of the cross-entropy does. Both points have to lie inside the
    unit ball: the target's 1 is drawn in by 1e-4, as the authors have it. Ours alone are the guards against a point on the rim (all
    logits but one are 0: infinite) and against logits that are all 0 (not a number). Computed in float64.
    """
    z = logits.double()
    u = z / z.abs().sum(1, keepdim=True).clamp_min(1e-12)
    v = (F.one_hot(targets, z.shape[1]).double() - 1e-4).clamp(0, 1)
    inside = [(1 - x.square().sum(1)).clamp_min(1e-6) for x in (u, v)]
    return torch.arccosh(1 + 2 * (u - v).square().sum(1) / (inside[0] * inside[1])).to(logits.dtype)


def max_margin(logits: Tensor, targets: Tensor) -> Tensor:
    """The largest of the other logits less the target's (PLG-MI, Yuan et al. 2023): pushes on when the target is certain, too."""
    own = F.one_hot(targets, logits.shape[1]).bool()
    return logits.masked_fill(own, -torch.inf).amax(1) - logits[own]


def logit(logits: Tensor, targets: Tensor) -> Tensor:
    """The target's logit, negative (LOMMA, Nguyen et al. 2023): says nothing of other classes, and has no floor; see `feature_distance`."""
    return -logits.gather(1, targets[:, None])[:, 0]


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    loss.__name__: loss for loss in (poincare, cross_entropy, max_margin, logit)
}


def answer(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (n, classes) of images in [0, 1], and the features (n, width) that entered the last Linear layer for them."""
    features: list[Tensor] = []
    head = dict(model.named_modules())[representations.last_linear(model)]
    hook = head.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    try:
        return model(preprocessing(model)(images)), features[-1]
    finally:
        hook.remove()


def feature_distance(features: Tensor, point: Tensor) -> Tensor:
    """Mean square of the distance between features (n, width) and a point (width,) that public images could have: (n,).

    LOMMA's regulariser (Nguyen et al. 2023), which keeps the target's logit from growing with the length of the features alone. The mean
    is over the width, as in the authors' code, so that its weight means the same in networks of any width.
    """
    return (features - point).square().mean(1)
