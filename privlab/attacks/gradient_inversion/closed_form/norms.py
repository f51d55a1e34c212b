"""The norm in front of attention: gamma * C(z) / sigma + beta, with or without each of its parts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Norm(NamedTuple):
    """What a norm does to a token of the width: (z less its mean, if it centres) over its size, times gamma, plus beta."""

    gamma: Tensor  # (width,), 1 where there is none
    beta: Tensor  # (width,), 0 where there is none
    centres: bool

    @classmethod
    def of(cls, module: nn.Module, width: int) -> Norm:
        """A LayerNorm or an RMSNorm, of any library, affine or not: told apart by running it on a token.

        Raises ValueError for what divides a token by something else than its size.
        """
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        like = next(module.parameters(), torch.zeros(()))
        gamma = (
            torch.ones(width, dtype=torch.float64, device=like.device) if weight is None else weight.detach().double()
        )
        beta = torch.zeros_like(gamma) if bias is None else bias.detach().double()
        token = torch.randn(1, 1, width, generator=torch.Generator().manual_seed(0)).to(like) + 1
        if gamma.shape == (width,) == beta.shape:
            with torch.no_grad():
                output = (module(token).double() - beta).flatten()
            for centres in (True, False):
                norm = cls(gamma, beta, centres)
                expected = gamma * norm.centred(token.double().flatten())
                if torch.cosine_similarity(output, expected, dim=0) > 1 - 8 * torch.finfo(token.dtype).eps:
                    return norm
        raise ValueError(
            f"model: what stands before its first attention, {type(module).__name__}, does not divide a token by its size; "
            "the form needs a LayerNorm or an RMSNorm"
        )

    def centred(self, rows: Tensor) -> Tensor:
        """Rows of (..., width) less their mean, where the norm takes that out."""
        return rows - rows.mean(dim=-1, keepdim=True) if self.centres else rows
