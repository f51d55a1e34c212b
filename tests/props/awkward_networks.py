"""Layers that an attack meets and cannot treat like others."""

from __future__ import annotations

import torch
from torch import nn


class Once(torch.autograd.Function):
    """Sine, to be differentiated once only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return slope * x.cos()


class Sine(nn.Module):
    def forward(self, x):
        return Once.apply(x)
