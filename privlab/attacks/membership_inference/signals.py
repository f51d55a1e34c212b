"""What an attacker reads off a model's raw logits. Each signal is a function (logits, labels) -> scores, and *higher means member*.

logits: (..., n, classes), finite, of any float type.  labels: (n,) class indices.  Returns (..., n), float64.
All are computed in float64 from the logits themselves, never from probabilities, which have lost what matters: in float32 a softmax is
1 from a gap of 17 between the logits on, in float64 from 37. Everything here comes from one number a class,

    m_i = z_i - logsumexp_{j != i} z_j,        p_i = 1 / (1 + exp(-m_i)),   1 - p_i = 1 / (1 + exp(m_i))

so that neither p nor 1 - p is ever the difference of two nearly equal numbers. All raise ValueError for what is not so.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the cross-entropy, log p_y (Yeom et al. 2018), at most 0; `margin` in another scale, so it ranks samples as `margin` does."""
    return F.logsigmoid(margin(logits, labels))


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """The probability of the true class, p_y. Beyond a margin of 37 it *is* 1, where `margin` still tells samples apart."""
    return margin(logits, labels).sigmoid()


def modified_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the modified entropy of Song & Mittal 2021: how sure the model is, to be sure and wrong counting against membership.

        (1 - p_y) log p_y + sum_{i != y} p_i log(1 - p_i)

    From minus infinity (sure and wrong; about twice the margin) to 0 (sure and right), which float64 reaches at a margin of 370.
    """
    z, y = _checked(logits, labels)
    top = z.argmax(-1, keepdim=True)  # only the largest p can be near 1, so only it needs its margin
    m = log_odds(z, top)
    log_p = z.log_softmax(-1)
    log_not_p = torch.log1p(-log_p.exp()).scatter(-1, top, F.logsigmoid(-m))
    log_p = log_p.scatter(-1, top, F.logsigmoid(m))
    terms = (log_p.exp() * log_not_p).scatter(-1, y, 0.0)  # not subtracted afterwards: that would cancel
    return terms.sum(-1) + (log_not_p.exp() * log_p).gather(-1, y).squeeze(-1)


def correct(logits: Tensor, labels: Tensor) -> Tensor:
    """1 where the true class has the largest logit, else 0 (Yeom et al. 2018's gap attack); of equal logits the first counts."""
    z, y = _checked(logits, labels)
    return (z.argmax(-1, keepdim=True) == y).squeeze(-1).double()


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit-scaled confidence, phi = log(p_y / (1 - p_y)) = z_y - logsumexp_{j != y} z_j (Carlini et al. 2022, section IV-C).

    Any real number, near Gaussian over models: what `lira` is fitted to. It never saturates.
    """
    z, y = _checked(logits, labels)
    return log_odds(z, y).squeeze(-1)


def log_odds(z: Tensor, y: Tensor) -> Tensor:
    """m_y, from logits in float64, (..., n, classes), and a class for each row, (..., n, 1).  Returns (..., n, 1)."""
    rest = z.scatter(-1, y, float("-inf")).logsumexp(-1, keepdim=True)
    return z.gather(-1, y) - rest


def _checked(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits in float64, (..., n, classes), and for each row its label, (..., n, 1)."""
    if labels.shape != logits.shape[-2:-1] or not logits.isfinite().all():
        shapes = f"{tuple(logits.shape)} and {tuple(labels.shape)}"
        raise ValueError(f"logits, labels: got {shapes}; give finite ones (..., n, classes), and whole numbers (n,)")
    return logits.double(), labels.long().to(logits.device)[:, None].expand(*logits.shape[:-1], 1)
