"""Distances between gradients, the terms that `search.Term` weighs: each (normalised images, their gradients, leak) -> scalar."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self
from zlib import crc32

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.linalg import vector_norm

from privlab.leak import Leak
from privlab.models import parts
from privlab.models.forward import Gradients

Objective = Callable[[Tensor, Gradients, Leak], Tensor]
FLOOR = 1e-6  # of the whole gradient's norm: float32 knows no more


def squared_distance(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """Sum of squared differences over all gradients (Zhu et al. 2019, eq. 4; Lu et al. 2022, eqs. 2 and 12; Zhang et al. 2024, 3.1.3)."""
    return torch.stack([F.mse_loss(grads[n], g, reduction="sum") for n, g in leak.grads.items()]).sum()


def relative_distance(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """Sum over parameter tensors of the squared difference over the square of the client's, which is `FLOOR` of the whole at least."""
    return torch.stack([difference.square().sum() for difference in relative_differences(grads, leak)]).sum()


def relative_differences(grads: Gradients, leak: Leak) -> list[Tensor]:
    """What `relative_distance` squares and adds up, tensor by tensor."""
    floor = FLOOR * leak.norm
    return [(grads[n] - g) / vector_norm(g).clamp(min=floor) for n, g in leak.grads.items()]


def cosine_distance(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """1 - cosine between the two gradients, each one long vector: 0 to 2, NaN if one is zero throughout (Geiping et al. 2020, eq. 4)."""
    dot = torch.stack([(grads[n] * g).sum() for n, g in leak.grads.items()]).sum()
    square = torch.stack([grads[n].square().sum() for n in leak.grads]).sum()
    return 1 - dot / (square.sqrt() * leak.norm)


def layer_norms(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """Sum over parameter tensors of the L2 norm of the difference, not squared (Hatamizadeh et al. 2022, eq. 3; layers there)."""
    return torch.stack([vector_norm(grads[n] - g) for n, g in leak.grads.items()]).sum()


def tag(scale: float = 0.1) -> Objective:
    """Squared distance plus scale * the sum over parameter tensors of w * L1 norm of the difference (TAG, Deng et al. 2021).

    The paper's w is larger for earlier layers, and it leaves open how. Ours falls linearly from 1 at the first of the leak's L tensors to
    1/L at the last.
    """

    def value(images: Tensor, grads: Gradients, leak: Leak) -> Tensor:
        absolute = torch.stack([(grads[n] - g).abs().sum() for n, g in leak.grads.items()])  # (tensors,)
        falling = torch.arange(len(absolute), 0, -1).to(absolute) / len(absolute)
        return squared_distance(images, grads, leak) + scale * (falling * absolute).sum()

    value.__name__ = f"tag(scale={scale:g})"
    return value


class PositionDirection:
    """Minus the cosine between the two gradients of the position embedding (L_A of Lu et al. 2022, eq. 12).

    From -1 (same direction) to 1. Prepared for a leak without "pos_embed", it warns and is left out.
    """

    __name__ = "position_direction"

    def __call__(self, _: Tensor, grads: Gradients, leak: Leak) -> Tensor:
        theirs, ours = leak["pos_embed"], grads["pos_embed"]  # (1, tokens, width)
        return -(ours * theirs).sum() / (vector_norm(ours) * vector_norm(theirs))

    def prepare(self, model: nn.Module, leak: Leak) -> Self | None:
        if "pos_embed" in leak.grads:
            return self
        why = f"it lacks the gradient of 'pos_embed' (withheld, or {type(model).__name__} learns none)"
        warnings.warn(f"leak: {why}: the APRIL attack falls back to the distance alone", stacklevel=2)
        return None


position_direction = PositionDirection()


def weighted(objective: Objective, weights: Mapping[str, float]) -> Objective:
    """An objective, both gradients multiplied by a factor a parameter first.  weights: parameter name -> factor, 1 if not listed."""

    def multiply(grads: Gradients) -> Gradients:
        return {n: g if (w := weights.get(n, 1.0)) == 1 else w * g for n, g in grads.items()}

    def value(images: Tensor, grads: Gradients, leak: Leak) -> Tensor:
        return objective(images, multiply({n: grads[n] for n in leak.grads}), replace(leak, grads=multiply(leak.grads)))

    factors = ", ".join(f"{f:g}" for f in sorted(set(weights.values()))) or "nothing"
    key = f" #{crc32(repr(sorted(weights.items())).encode()):08x}" if weights else ""  # tells any two apart
    name = getattr(objective, "__name__", objective)
    value.__name__ = f"weighted({name}, {len(weights)} by {factors}{key})"
    return value


def by_part(model: nn.Module, **factors: float) -> dict[str, float]:
    """Weights for `weighted`, by part of `privlab.models.parts`: by_part(model, attention=2.0, mlp=0.0)."""
    groups = parts.group(model)
    learnable = {n for n, p in model.named_parameters() if p.requires_grad}
    return {n: factor for part, factor in factors.items() for n in groups[part] if n in learnable}
