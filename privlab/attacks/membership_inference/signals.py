"""What an attacker reads off a model's raw logits. Each signal is a function (logits, labels) -> scores, and *higher means member*.

All are computed in float64 from the logits themselves, never from probabilities, which have lost what matters: in float32 a softmax is
1 from a gap of 17 between the logits on, in float64 from 37. Everything here comes from one number a class,

    m_i = z_i - logsumexp_{j != i} z_j,        p_i = 1 / (1 + exp(-m_i)),   1 - p_i = 1 / (1 + exp(m_i))

so that neither p nor 1 - p is ever the difference of two nearly equal numbers. `margin` is m at the true class.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the cross-entropy, log p_y (Yeom et al. 2018); `margin` in another scale, so it ranks samples as `margin` does.

    logits: (..., n, classes), of any float type, 2 classes or more, finite.  labels: (n,) class indices.
    Returns (..., n), float64, at most 0; it stays below 0, and in order, up to margins of 708, where float64 ends.
    Raises ValueError, as all signals do, for shapes that do not fit, labels out of range, logits that are NaN or infinite.
    """
    return F.logsigmoid(margin(logits, labels))


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """The probability of the true class, p_y.

    From 0 to 1. Beyond a margin of 37 it *is* 1, also in float64, and samples that `margin` tells apart become ties.
    Arguments, shape of the result and errors are those of `loss`.
    """
    return margin(logits, labels).sigmoid()


def entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the entropy of the prediction, sum_i p_i log p_i (Salem et al. 2019): how sure the model is, right or wrong.

    From -log(classes) to 0; the labels are checked and not used. Arguments, shape of the result and errors are those of `loss`.
    """
    log_p, _ = _log_probabilities(_checked(logits, labels)[0])
    return (log_p.exp() * log_p).sum(-1)


def modified_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the modified entropy of Song & Mittal 2021: as `entropy`, but to be sure and wrong counts against membership.

        (1 - p_y) log p_y + sum_{i != y} p_i log(1 - p_i)

    From minus infinity (sure and wrong; about twice the margin) to 0 (sure and right), which float64 reaches at a margin of 370.
    Arguments, shape of the result and errors are those of `loss`.
    """
    z, y = _checked(logits, labels)
    log_p, log_not_p = _log_probabilities(z)
    terms = (log_p.exp() * log_not_p).scatter(-1, y, 0.0)  # not subtracted afterwards: that would cancel
    return terms.sum(-1) + (log_not_p.exp() * log_p).gather(-1, y).squeeze(-1)


def correct(logits: Tensor, labels: Tensor) -> Tensor:
    """1 where the true class has the largest logit, else 0 (Yeom et al. 2018's gap attack); of equal logits the first counts.

    Arguments, shape of the result and errors are those of `loss`.
    """
    z, y = _checked(logits, labels)
    return (z.argmax(-1, keepdim=True) == y).squeeze(-1).double()


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit-scaled confidence, phi = log(p_y / (1 - p_y)) = z_y - logsumexp_{j != y} z_j (Carlini et al. 2022, section IV-C).

    Any real number, near Gaussian over models: what `lira` is fitted to. It never saturates: c more on the true logit is c more on phi.
    Arguments, shape of the result and errors are those of `loss`.
    """
    z, y = _checked(logits, labels)
    return log_odds(z, y).squeeze(-1)


def log_odds(z: Tensor, y: Tensor) -> Tensor:
    """m_y, from logits in float64, (..., n, classes), and a class for each row, (..., n, 1).  Returns (..., n, 1)."""
    rest = z.scatter(-1, y, float("-inf")).logsumexp(-1, keepdim=True)
    return z.gather(-1, y) - rest


def _log_probabilities(z: Tensor) -> tuple[Tensor, Tensor]:
    """log p and log(1 - p) of every class, each (..., n, classes). Only the largest p can be near 1, so only it needs its margin."""
    log_p = z.log_softmax(-1)
    log_not_p = torch.log1p(-log_p.exp())
    top = z.argmax(-1, keepdim=True)
    m = log_odds(z, top)
    return log_p.scatter(-1, top, F.logsigmoid(m)), log_not_p.scatter(-1, top, F.logsigmoid(-m))


def _checked(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits in float64, (..., n, classes), and for each row its label, (..., n, 1)."""
    logits, labels = torch.as_tensor(logits), torch.as_tensor(labels)
    if not logits.is_floating_point() or logits.ndim < 2 or logits.shape[-1] < 2 or logits.shape[-2] == 0:
        raise ValueError(
            f"logits: got shape {tuple(logits.shape)} of {logits.dtype}; give floats of shape (..., n, classes), 2 classes or more"
        )
    if labels.shape != logits.shape[-2:-1] or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"labels: got shape {tuple(labels.shape)} of {labels.dtype} for logits of shape {tuple(logits.shape)}; "
            f"give {logits.shape[-2]} whole numbers, one a sample"
        )
    classes = logits.shape[-1]
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"labels: go from {int(labels.min())} to {int(labels.max())}; logits of {classes} classes know 0 to {classes - 1}"
        )
    if broken := int((~logits.isfinite()).sum()):
        raise ValueError(
            f"logits: {broken:,} of {logits.numel():,} values are NaN or infinite; look for a training that diverged, "
            "or for an overflow in a short float format"
        )
    index = labels.long().to(logits.device)[:, None].expand(*logits.shape[:-1], 1)
    return logits.double(), index
