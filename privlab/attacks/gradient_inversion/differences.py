"""The derivative of a distance between gradients as a difference of two first derivatives.

A distance D of the update g(x) = dL/d(weights) has the derivative J^T u by the images x, with u = dD/dg and J = dg/dx. Autograd takes it by
differentiating twice. But mixed derivatives commute, so J^T u is also the derivative of dL/dx along u in the *weights*:

    J^T u  =  lim  [ dL/dx (weights + e u) - dL/dx (weights) ] / e,

one more first derivative, at shifted weights. (Liu et al. 2019, DARTS, take their second-order term so; of gradient attacks breaching does,
in its Pearlmutter losses.) No graph of a graph is kept: less time and less memory. What is ours: the second pass replays the pattern of
ReLUs and max pooling of the first, see `activation_patterns`. The forward pass has to be deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import objectives
from privlab.attacks.gradient_inversion.activation_patterns import ActivationPattern
from privlab.attacks.gradient_inversion.objectives import Objective
from privlab.leak import Leak
from privlab.models.forward import Gradients, forgetful, kept, stateless

Forward = Callable[[Tensor], Tensor]  # images -> logits
Loss = Callable[[Forward], Tensor]  # what the client differentiates, by a forward pass

SHIFT = 0.03  # e |u| / |weights|, over the root of the float's precision: 1e-5 in float32; longer is less straight, shorter less precise


class Difference:
    """J^T u by two first derivatives.  parameters: the weights of the model that u is of; while the second is taken they are shifted."""

    def __init__(self, model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
        self.model, self.parameters = model, parameters
        self.weights = [p.data for p in parameters.values()]
        self.shifted = [torch.empty_like(w) for w in self.weights]
        self.length = norm(self.weights)
        self.pattern = ActivationPattern(model)
        self.forward: Forward | None = None  # known after the first pass

    def update(self, loss: Loss, inputs: Sequence[Tensor]) -> Gradients:
        """dL/d(weights), without a graph; dL/d(inputs) and the pattern are noted for `vjp`."""
        wanted = [*inputs, *self.parameters.values()]

        def gradients(forward: Forward) -> tuple[Tensor, ...]:
            return torch.autograd.grad(loss(forward), wanted, materialize_grads=True)

        if self.forward is None:
            careful = stateless(self.model)
            plain = runs_plain(self.model, gradients(careful), lambda: gradients(self.model))
            self.forward = self.model if plain else careful
        with self.pattern.recorded():
            both = gradients(self.forward)
        self.here = both[: len(inputs)]
        return dict(zip(self.parameters, both[len(inputs) :], strict=True))

    def vjp(self, loss: Loss, inputs: Sequence[Tensor], u: Sequence[Tensor]) -> list[Tensor]:
        """J^T u for each of the inputs, where `update` was taken last."""
        assert self.forward is not None
        shift = (SHIFT * torch.finfo(u[0].dtype).eps ** 0.5 * self.length / norm(u)).item()
        for weight, part, out in zip(self.weights, u, self.shifted, strict=True):
            torch.add(weight, part, alpha=shift, out=out)
        with self._moved(), self.pattern.replayed():
            there = torch.autograd.grad(loss(self.forward), inputs, materialize_grads=True)
        return [(t - h) / shift for t, h in zip(there, self.here, strict=True)]

    @contextmanager
    def _moved(self) -> Iterator[None]:
        try:
            for parameter, shifted in zip(self.parameters.values(), self.shifted, strict=True):
                parameter.data, parameter.requires_grad = shifted, False
            yield
        finally:
            for parameter, weight in zip(self.parameters.values(), self.weights, strict=True):
                parameter.data, parameter.requires_grad = weight, True


def runs_plain(model: nn.Module, careful: Sequence[Tensor], plain: Callable[[], Sequence[Tensor]]) -> bool:
    """Whether `plain`, which runs the model without the care of `stateless`, leaves no trace in it and gives the same, to the bit."""
    with forgetful(model):
        before = kept(model)
        same = all(map(torch.equal, careful, plain()))
        return same and kept(model) == before


def once_differentiable(distance: Objective) -> Objective:
    """The same distance, faster where it has to be differentiated by the gradients only once."""
    return _cosine_distance if distance is objectives.cosine_distance else distance


def _cosine_distance(_: Tensor, grads: Gradients, leak: Leak) -> Tensor:
    """`objectives.cosine_distance`, for which autograd makes so many trips through memory that a pass of a small network is as fast."""
    return _Cosine.apply(leak, *(grads[name] for name in leak.grads))


class _Cosine(torch.autograd.Function):
    """1 - cosine; its derivative by the gradients is u = -(g* - (<g, g*> / |g|^2) g) / (|g| |g*|)."""

    @staticmethod
    def forward(ctx: Any, leak: Leak, *ours: Tensor) -> Tensor:
        flat = [(g.flatten(), t.flatten()) for g, t in zip(ours, leak.grads.values(), strict=True)]
        dot, square = torch.stack([torch.stack((torch.dot(g, t), torch.dot(g, g))) for g, t in flat]).sum(0)
        ctx.leak, ctx.ours, ctx.length = leak, ours, square.sqrt()
        ctx.cosine = dot / (ctx.length * leak.norm)
        return 1 - ctx.cosine

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Any, ...]:
        theirs = (-weight / (ctx.length * ctx.leak.norm)).item()
        own = (weight * ctx.cosine / ctx.length**2).item()
        pairs = zip(ctx.leak.grads.values(), ctx.ours, strict=True)
        return None, *(torch.mul(t, theirs).add_(g, alpha=own) for t, g in pairs)


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of all tensors, taken as one long vector."""
    return torch.stack(torch._foreach_norm(list(tensors))).norm()
