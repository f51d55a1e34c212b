"""What an attack compares, and what it assumes about images: each a function (normalised images, their gradients, leak) -> scalar."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from privlab.leak import Gradients, Leak


def squared_distance(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """Sum of squared differences over all gradients (Zhu et al. 2019, eq. 4; Zhang et al. 2024, section 3.1.3)."""
    return torch.stack([(grads[n] - g).square().sum() for n, g in leak.grads.items()]).sum()


def cosine_distance(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """1 - cosine between the two gradients, each taken as one long vector (Geiping et al. 2020, eq. 4).

    From 0 (same direction) to 2; blind to the length of the client's gradient. NaN if one of the two is zero throughout.
    """
    dot = torch.stack([(grads[n] * g).sum() for n, g in leak.grads.items()]).sum()
    return 1 - dot / (_norm(grads.values()) * leak.norm)


def total_variation(images: Tensor, *_: object) -> Tensor:
    """Mean absolute difference between neighbouring pixels, down and across added (Geiping et al. 2020, eq. 4).

    Of the normalised images, so that a weight means the same for every data set.
    """
    return images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()


def _norm(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack([t.square().sum() for t in tensors]).sum().sqrt()
