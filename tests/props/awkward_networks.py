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


class Observed(nn.Module):
    """A linear model with buffers that a pass writes in any mode: the largest pixel so far, and the first batch's mean."""

    def __init__(self):
        super().__init__()
        self.fc, self.largest = nn.Linear(3 * 32 * 32, 10), nn.Buffer(torch.zeros(()))
        self.register_buffer("mean", None)

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest, x.detach().max()))
        if self.mean is None:
            self.mean = x.detach().mean((0, 2, 3), keepdim=True)
        return self.fc((x - self.mean).flatten(1))
