"""What stands in a gradient without a search: where all its rows are multiples of one, that is what the weights were multiplied with.

A linear layer y = W x + b has dL/dW = g x^T and dL/db = g, with g = dL/dy, whatever stands before and behind it. So the gradient of W has
one singular value, with x up to a factor as its right singular vector, and g tells the factor (Phong et al. 2018, section 3). An attacker
looks for such gradients and needs to know nothing of the model. Where x is the image in another order or size, they run the model once to
see which of its tensors is x, and look for the image that makes this tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from privlab.leak import Leak
from privlab.models.forward import Gradients, functional

REST = 0.3  # of a gradient's length beside its first singular value, at most: nearly rank one
ALIKE = 1e-3  # 1 - cosine, at most, of a bias that has the gradient of what leaves
SIDE, SMALLEST = 8, 64  # of the least square of an image; times fewer numbers than the image has cannot hold it
BENT = 0.1  # how far from affine a map of the image to as many numbers may be that is undone; less for fewer, such as features
ITERATIONS, STEPS, TOP = 8, 60, 16  # of the power method, and of undoing; rows of a matrix that are looked at first

View = Callable[[Tensor], Tensor]  # a gradient as a matrix, (rows, numbers)
Map = Callable[[Tensor], Tensor]  # an image -> what entered, (numbers,)


@dataclass(frozen=True)
class Row:
    """A gradient of nearly rank one.  names: of the weights, and of the bias that tells the factor, where there is one."""

    names: tuple[str, ...]
    view: View

    def of(self, grads: Gradients) -> Tensor:
        """(numbers,): what entered, by least squares over the rows; without a bias its direction, of length 1."""
        matrix, *bias = self.view(grads[self.names[0]]).float(), *(grads[name].float() for name in self.names[1:])
        return bias[0] @ matrix / bias[0].square().sum() if bias else leading(matrix)[1]


def rows(grads: Gradients, numbers: int) -> Iterator[Row]:
    """All that may be an image of so many numbers, what a layer made of it, or a square of it."""
    for name, gradient in grads.items():
        for view in _views(gradient, numbers):
            column, _ = leading(view(gradient).float())
            for bias, other in grads.items():
                if other.shape == column.shape and F.cosine_similarity(other.float(), column, 0).abs() > 1 - ALIKE:
                    yield Row((name, bias), view)
            yield Row((name,), view)


def _views(gradient: Tensor, numbers: int) -> Iterator[View]:
    """Ways to take a gradient for a matrix of nearly rank one with enough columns."""
    sizes = {math.prod(gradient.shape[k:]) for k in range(1, gradient.ndim)}
    sizes |= {gradient.numel() // size for size in sizes} | {numbers}
    for size in sizes:
        if gradient.numel() % size or gradient.numel() == size or size < min(SIDE**2, numbers / SMALLEST):
            continue
        for view in (lambda g, n=size: g.reshape(-1, n), lambda g, n=size: g.reshape(n, -1).T):
            matrix = view(gradient).float()
            largest = matrix[matrix.norm(dim=1).topk(min(TOP, len(matrix))).indices]
            first, *others = torch.linalg.svdvals(largest).square().tolist()
            if first > 0 and sum(others) <= REST**2 * first:
                yield view


def leading(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The left singular vector of the largest singular value, times that, and the right one, by power iteration."""
    row = matrix[matrix.norm(dim=1).argmax()]
    for _ in range(ITERATIONS):
        column = matrix @ (row / row.norm())
        row = matrix.T @ column
    return column, row / row.norm()


class _Reached(Exception):
    """Carries a tensor out of the pass."""


class _Tensors(TorchFunctionMode):
    """Keeps the tensors of one size that torch's functions are given and that the image made; or ends the pass at one of them."""

    def __init__(self, size: int, end: int | None = None) -> None:
        super().__init__()
        self.size, self.end, self.met = size, end, dict[int, Tensor]()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for t in tree_leaves((args, kwargs or {})):
            if isinstance(t, Tensor) and t.requires_grad and t.numel() == self.size and id(t) not in self.met:
                if len(self.met) == self.end:
                    raise _Reached(t)
                self.met[id(t)] = t
        return function(*args, **(kwargs or {}))


def entering(model: nn.Module, leak: Leak, image: Tensor, row: Tensor) -> Map | None:
    """The model up to the tensor that is a row, up to a factor and a shift; None where there is none that can be undone.

    image: one whose gradient has this row, by which the tensor is told.
    """
    forward = partial(functional(model), {n: p.detach() for n, p in model.named_parameters()})
    x = image.clone().requires_grad_()
    with _Tensors(len(row)) as watch:
        forward(leak.normalise(x))
    nearest, place = BENT, None
    for i, t in enumerate(watch.met.values()):
        flat = t.detach().flatten().float()
        off = 1 - F.cosine_similarity(flat - flat.mean(), row - row.mean(), 0).abs().item()
        off += ALIKE * min(1, ((flat - row).norm() / row.norm()).item())  # of several, the one of the same size
        if off < nearest and torch.autograd.grad(t.sum(), x, retain_graph=True)[0].any():
            nearest, place = off, i

    def enters(x: Tensor) -> Tensor:
        try:
            with _Tensors(len(row), place):
                forward(leak.normalise(x if x.requires_grad else x.clone().requires_grad_()))
        except _Reached as reached:
            return reached.args[0].flatten()
        raise ValueError("model: it does not take the same way for every image")

    if place is None:
        return None
    one, other, middle = (enters(y).detach() for y in (image, image.flip(3), (image + image.flip(3)) / 2))
    bent = (middle - (one + other) / 2).norm() / (one - other).norm()
    return enters if bent <= BENT * min(1, len(row) / image.numel()) else None


def undone(enters: Map, target: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The image, (1, channels, height, width), that enters as the target, by least squares from a grey one."""
    x = target.new_full((1, *shape), 0.5).requires_grad_()
    search = torch.optim.LBFGS([x], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        off = (enters(x) - target).double().square().sum()
        off.backward()
        return off

    search.step(loss)
    return x.detach()
