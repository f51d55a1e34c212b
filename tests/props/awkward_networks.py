"""Layers that an attack meets and cannot treat like others."""

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


class Tokens(nn.Module):
    """A map behind a norm, read as tokens: a gradient that PyTorch's CPU kernel misreads where the batch is one image."""

    def __init__(self, channels, patch, norm, classes):
        super().__init__()
        width = norm.num_features
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.patches, self.norm = nn.Conv2d(channels, width, patch, stride=patch), norm
            self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x):
        return self.head(self.norm(self.patches(x)).flatten(2).transpose(1, 2)).tanh().mean(1)
