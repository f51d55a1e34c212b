"""Where an image enters a model: the part that takes it behind wrappers and normalisation, and the layers that take it whole.

A closed form knows a model by its kind. A wrapper around it, a normalisation of its own or a permutation of the pixels change nothing of
what its gradients give away, so an audit looks behind them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import Recovery
from privlab.auditing import operands
from privlab.auditing.operands import Operand, Reached
from privlab.data import Normalise
from privlab.leak import Leak, observe
from privlab.models.forward import stateless

AFFINE = 1e-3  # relative error up to which what enters counts as an affine function of the image
STEPS = 60  # of conjugate gradients; one for each distinct singular value
POWER = 8  # iterations, which is plenty for a gradient of rank one
GRID, HALVINGS, GOLDEN = 20, 16, (math.sqrt(5) - 1) / 2  # of a search for one length


@dataclass(frozen=True)
class Part:
    """A part of a model that takes the image, or an affine function of it.  prefix: of its parameters' names.

    normalise: what it makes of the image, a scale and a shift of each channel; None where that is more: a crop, a flip, another size.
    """

    prefix: str
    module: nn.Module
    normalise: Normalise | None

    def solve(self, form: Callable[..., Recovery], model: nn.Module, leak: Leak, noise: float | None) -> Recovery:
        """What a closed form makes of this part's gradients, as an image that the whole model takes."""
        grads = {n.removeprefix(self.prefix): g for n, g in leak.grads.items() if n.startswith(self.prefix)}
        if self.normalise is not None:
            return form(self.module, replace(leak, grads=grads, normalise=self.normalise), noise)
        enters = _entering(model, leak, self.module)
        with torch.no_grad():
            shape = enters(_probe(model, leak)).shape
        own = replace(leak, grads=grads, normalise=Normalise(), image_shape=(shape[1], shape[2], shape[3]))
        recovery = form(self.module, own, noise)
        return replace(recovery, images=_undone(enters, recovery.images, model, leak))


def parts(model: nn.Module, leak: Leak) -> list[Part]:
    """The model itself, then the parts of it that take the image, from outside to inside.

    Each with the normalisation that the first layer of weights in it sees, be it the leak's or one of the model's own.
    """
    takers: dict[nn.Module, str] = {}
    probe = _probe(model, leak)
    names = {module: name for name, module in model.named_modules() if any(module.children())}

    def hear(module: nn.Module, inputs: Any, keywords: Any) -> None:
        x = _first_tensor(inputs, keywords)
        if module is not model and x is not None and x.ndim == 4 and x.shape[:2] == probe.shape[:2]:
            takers[module] = names[module]

    hooks = [module.register_forward_pre_hook(hear, with_kwargs=True) for module in names]
    try:
        entered = operands.operands(model, leak, probe)
    finally:
        for hook in hooks:
            hook.remove()
    normalise = _fitted(probe, operands.entering(model, leak, entered[0])(probe)) if entered else leak.normalise
    if normalise is not None and (normalise(probe) - leak.normalise(probe)).abs().max() <= AFFINE:
        normalise = leak.normalise
    return [Part("", model, normalise or leak.normalise), *(Part(f"{n}.", m, normalise) for m, n in takers.items())]


def _probe(model: nn.Module, leak: Leak) -> Tensor:
    """An image of which no two pixels are alike."""
    draw = torch.Generator().manual_seed(0)
    return torch.rand(1, *leak.image_shape, generator=draw).to(next(model.parameters()))


def _fitted(probe: Tensor, x: Tensor) -> Normalise | None:
    """The normalisation that makes x of the probe; None where it is no such thing."""
    if x.numel() != probe.numel():
        return None
    before, after = (t.reshape(probe.shape)[0].flatten(1).double() for t in (probe, x))  # (channels, pixels)
    middle, centred = before.mean(1, keepdim=True), before - before.mean(1, keepdim=True)
    scale = (centred * after).sum(1) / centred.square().sum(1)  # of each channel
    shift = after.mean(1) - scale * middle[:, 0]
    rest = after - scale[:, None] * before - shift[:, None]
    if not (scale > 0).all() or not rest.norm() <= AFFINE * (after - after.mean(1, keepdim=True)).norm():
        return None
    return Normalise(tuple((-shift / scale).tolist()), tuple((1 / scale).tolist()))


# -- parameters that take the image whole --------------------------------------------------------------------------------------


def whole(model: nn.Module, leak: Leak) -> Iterator[tuple[tuple[str, ...], Callable[..., Recovery]]]:
    """What reads an affine function of the image that enters beside parameters in one place, and the gradients that it needs.

    Whatever multiplies them, a layer or a function; and wherever it stands, not only first. A normalisation, an order of its own for the
    pixels or another size are affine too, and are undone. What enters with most numbers comes first: it is the finest.
    """
    entered = sorted(operands.operands(model, leak, _probe(model, leak)), key=lambda operand: -operand.size)
    for operand in entered:
        names = tuple(n for n in operand.parameters if n in leak.grads)
        if operand.bias in names and len(names) > 1 and _affine(model, leak, operand):
            yield names, functools.partial(_by_bias, model, operand, names)
    for operand in entered:
        for name in operand.parameters:
            if name in leak.grads and _rank_one(leak.grads[name], operand.size) and _affine(model, leak, operand):
                yield (name,), functools.partial(_by_ray, model, operand, name)


def _affine(model: nn.Module, leak: Leak, operand: Operand) -> bool:
    """Whether an operand is an affine function of the image."""
    probe, enters = _probe(model, leak), operands.entering(model, leak, operand)
    one, other, middle = enters(probe), enters(probe.flip(3)), enters((probe + probe.flip(3)) / 2)
    return bool((middle - (one + other) / 2).norm() < AFFINE * (one - other).norm())


def _by_bias(model: nn.Module, operand: Operand, names: Sequence[str], leak: Leak) -> Recovery:
    """By least squares on the gradients of the weights, or of whatever the weights are made of.

    The gradient of the bias is that of what leaves; with it, those of the weights are linear in what enters.
    """
    enters, leaves = operands.entering(model, leak, operand), leak[operand.bias]
    weights = [n for n in names if n != operand.bias]
    parameters = [model.get_parameter(n) for n in weights]
    if not leaves.any():
        raise ValueError("leak: the gradient of the bias is zero everywhere, so the ratio has nothing to divide by")

    def gradients(x: Tensor) -> Tensor:
        output = operand.function(enters(x)).flatten()
        parts = torch.autograd.grad(output, parameters, leaves.to(output), create_graph=True)
        return torch.cat([part.flatten() for part in parts])

    return Recovery(_undone(gradients, torch.cat([leak[n].flatten() for n in weights]), model, leak), 1.0, 1, 1)


def _undone(affine: Callable[[Tensor], Tensor], target: Tensor, model: nn.Module, leak: Leak) -> Tensor:
    """The image nearest to a grey one that an affine function takes to the target, in the sense of least squares (CGLS)."""
    x = torch.full((1, *leak.image_shape), 0.5).to(next(model.parameters())).requires_grad_()
    start = affine(x)

    def back(rest: Tensor) -> Tensor:
        return torch.autograd.grad(start, x, rest, retain_graph=True)[0]

    rest = (target.to(start).reshape(start.shape) - start).detach()
    solution, direction = x.detach().clone(), back(rest)
    square = first = direction.square().sum()
    for _ in range(STEPS):
        if not square > 1e-12 * first:
            break
        size = direction.abs().max()  # a step as large as a pixel, or the difference is rounding
        moved = size * (affine(x.detach() + direction / size) - start).detach()
        length = square / moved.square().sum()
        if not (rest - length * moved).norm() < rest.norm():
            break
        solution, rest = solution + length * direction, rest - length * moved
        gradient = back(rest)
        square, before = gradient.square().sum(), square
        direction = gradient + square / before * direction
    return solution


# -- gradients of rank one -----------------------------------------------------------------------------------------------------


def _by_ray(model: nn.Module, operand: Operand, name: str, leak: Leak) -> Recovery:
    """The image of which what enters is a multiple of a gradient's row.

    So it is of a linear layer without a bias, of an RNN that takes the image in one step, of adapters, and of what no layer holds.
    How long it is says the gradient of a bias that stands beside it, where there is one. Else it is the length, among those that leave
    the pixels in [0, 1], at which the image's own gradients are nearest to the leak.
    """
    enters, (column, row, _) = operands.entering(model, leak, operand), _outer(leak[name], operand.size)
    unit = column / column.norm()
    for other in leak.grads.values():
        if other.shape == column.shape and (cosine := (other @ unit) / other.norm()).abs() > 1 - AFFINE:
            return Recovery(_undone(enters, row * column.norm() / (cosine * other.norm()), model, leak), 1.0, 1, 1)
    start = _undone(enters, 0 * row, model, leak)
    step = _undone(enters, row / row.norm(), model, leak) - start
    step = step / step.abs().max()

    def miss(length: float) -> float:
        picture = (start + length * step).clamp(0, 1)
        grads = observe(model, picture, cast(Tensor, leak.labels), leak.normalise, list(leak.grads)).grads
        return sum((g - leak.grads[n]).double().square().sum().item() for n, g in grads.items())

    lengths = [sign * k / GRID for k in range(1, GRID + 1) for sign in (1, -1)]
    middle = min(lengths, key=miss)
    low, high = middle - 1 / GRID, middle + 1 / GRID
    for _ in range(HALVINGS):  # golden section
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if miss(left) < miss(right) else (left, high)
    return Recovery(start + (low + high) / 2 * step, 1.0, 1, 1)


def _rank_one(gradient: Tensor, size: int) -> bool:
    """Whether a gradient is a column, of two numbers or more, times a row with a number for each of an operand's."""
    if size < 2 or gradient.numel() % size or gradient.numel() < 2 * size or not gradient.isfinite().all():
        return False
    return bool(gradient.any()) and _outer(gradient, size)[2] <= AFFINE * gradient.norm().item()


def _outer(gradient: Tensor, size: int) -> tuple[Tensor, Tensor, float]:
    """The column and the row, of so many numbers, of the nearest matrix of rank one, by power iteration; and how far it is."""
    nearest = []
    for matrix in (gradient.reshape(-1, size), gradient.reshape(size, -1).T):  # (rows, size)
        row = matrix[matrix.norm(dim=1).argmax()]
        for _ in range(POWER):
            column = matrix @ (row / row.norm())
            row = matrix.T @ (column / column.norm())
        column = column / column.norm()
        nearest.append((column, row, (matrix - torch.outer(column, row)).norm().item()))
    return min(nearest, key=lambda each: each[2])


def _entering(model: nn.Module, leak: Leak, layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model up to a layer, as a function of the image."""

    def reached(_: nn.Module, inputs: Any, keywords: Any) -> None:
        raise Reached(_first_tensor(inputs, keywords))

    def enters(x: Tensor) -> Tensor:
        hook = layer.register_forward_pre_hook(reached, with_kwargs=True)
        try:
            stateless(model)(leak.normalise(x))
        except Reached as stop:
            return stop.args[0]
        finally:
            hook.remove()
        raise ValueError(f"model: {type(layer).__name__} was not run a second time")

    return enters


def _first_tensor(inputs: Any, keywords: Any) -> Tensor | None:
    return next((x for x in (*inputs, *keywords.values()) if isinstance(x, Tensor)), None)
