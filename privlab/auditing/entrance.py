"""Where an image enters a model: the part that takes it behind wrappers and normalisation, and the layers that take it whole.

A closed form knows a model by its kind. A wrapper around it, a normalisation of its own or a permutation of the pixels change nothing of
what its gradients give away, so an audit looks behind them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import Recovery
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
    inside: list[tuple[nn.Module, Tensor]] = []
    probe = _probe(model, leak)
    names = {module: name for name, module in model.named_modules()}

    def hear(module: nn.Module, inputs: Any, keywords: Any) -> None:
        x = next((x for x in (*inputs, *keywords.values()) if isinstance(x, Tensor)), None)
        if x is not None and x.ndim == 4 and x.shape[:2] == probe.shape[:2]:
            inside.append((module, x))

    _run(model, leak, [module.register_forward_pre_hook(hear, with_kwargs=True) for module in names])
    leaves = (x for m, x in inside if next(m.parameters(recurse=False), None) is not None and not [*m.children()])
    first = next(leaves, None)
    seen_by = leak.normalise if first is None else _fitted(probe, first)
    if seen_by is not None and (seen_by(probe) - leak.normalise(probe)).abs().max() <= AFFINE:
        seen_by = leak.normalise
    takers = dict.fromkeys(m for m, _ in inside if m is not model and any(m.children()))
    return [Part("", model, seen_by or leak.normalise), *(Part(f"{names[m]}.", m, seen_by) for m in takers)]


def _run(model: nn.Module, leak: Leak, hooks: list[Any]) -> None:
    """One pass of the probe, after which the hooks are taken off."""
    try:
        with torch.no_grad():
            stateless(model)(leak.normalise(_probe(model, leak)))
    finally:
        for hook in hooks:
            hook.remove()


def _probe(model: nn.Module, leak: Leak) -> Tensor:
    """An image of which no two pixels are alike."""
    draw = torch.Generator().manual_seed(0)
    return torch.rand(1, *leak.image_shape, generator=draw).to(next(model.parameters()))


def _fitted(probe: Tensor, x: Tensor) -> Normalise | None:
    """The normalisation that makes x of the probe; None where it is no such thing."""
    if x.shape != probe.shape:
        return None
    before, after = (t[0].flatten(1).double() for t in (probe, x.detach()))  # (channels, pixels)
    middle, centred = before.mean(1, keepdim=True), before - before.mean(1, keepdim=True)
    scale = (centred * after).sum(1) / centred.square().sum(1)  # of each channel
    shift = after.mean(1) - scale * middle[:, 0]
    rest = after - scale[:, None] * before - shift[:, None]
    if not (scale > 0).all() or not rest.norm() <= AFFINE * (after - after.mean(1, keepdim=True)).norm():
        return None
    return Normalise(tuple((-shift / scale).tolist()), tuple((1 / scale).tolist()))


# -- layers that take the image whole ------------------------------------------------------------------------------------------


def whole(model: nn.Module, leak: Leak) -> Iterator[str]:
    """Names of the layers with a bias that the image enters in one place, as an affine function of it, in the order that they run.

    Not only the first one, nor only the image as it is: a normalisation, an order of its own for the pixels or a smaller size are
    affine too, and are undone by `image`.
    """
    names: dict[nn.Module, str] = {
        m: n for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)
    }
    ran: dict[nn.Module, int] = {}

    def hear(module: Any, inputs: Any, output: Tensor) -> None:
        ran[module] = ran.get(module, 0) + output.numel() // len(module.bias) if module.bias is not None else 2

    _run(model, leak, [module.register_forward_hook(hear) for module in names])
    probe = _probe(model, leak)
    for module, places in ran.items():
        name = names[module]
        if places == 1 and f"{name}.bias" in leak.grads and len(own(model, leak, name)) > 1:
            enters = _entering(model, leak, module)
            with torch.no_grad():
                one, other, middle = enters(probe), enters(probe.flip(3)), enters((probe + probe.flip(3)) / 2)
            if (middle - (one + other) / 2).norm() <= AFFINE * (one - other).norm():
                yield name


def own(model: nn.Module, leak: Leak, layer: str) -> dict[str, nn.Parameter]:
    """The parameters of a layer whose gradients are there: its weights may be made of several."""
    return {n: p for n, p in model.get_submodule(layer).named_parameters(layer) if n in leak.grads}


def image(model: nn.Module, leak: Leak, layer: str) -> Recovery:
    """The image whose affine function enters a layer, by least squares on the gradients of the layer's parameters.

    The gradient of the bias is that of what leaves the layer; with it, those of its weights, and of whatever the weights are made of,
    are linear in what enters.
    """
    module = model.get_submodule(layer)
    enters, parameters = _entering(model, leak, module), own(model, leak, layer)
    leaves = leak[f"{layer}.bias"]
    weights = [n for n in parameters if n != f"{layer}.bias"]
    if not leaves.any():
        raise ValueError("leak: the gradient of the bias is zero everywhere, so the ratio has nothing to divide by")

    def gradients(x: Tensor) -> Tensor:
        output = module(enters(x)).flatten()
        parts = torch.autograd.grad(output, [parameters[n] for n in weights], leaves.to(output), create_graph=True)
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
        moved = (affine(x.detach() + direction) - start).detach()
        length = square / moved.square().sum()
        solution, rest = solution + length * direction, rest - length * moved
        gradient = back(rest)
        square, before = gradient.square().sum(), square
        direction = gradient + square / before * direction
    return solution


# -- weights as wide as the image ----------------------------------------------------------------------------------------------


def wide(model: nn.Module, leak: Leak) -> Iterator[str]:
    """Names of the parameters with a row or a column a pixel and a gradient of rank one: it is an image times a column.

    So are those of a linear layer without a bias, of an RNN that takes the image in one step, of adapters, and of what no layer holds.
    """
    pixels = math.prod(leak.image_shape)
    for name, gradient in leak.grads.items():
        if gradient.ndim == 2 and pixels in gradient.shape and gradient.any() and gradient.isfinite().all():
            column, row = _outer(gradient, pixels)
            if (gradient if gradient.shape[1] == pixels else gradient.T).sub(
                torch.outer(column, row)
            ).norm() <= AFFINE * gradient.norm():
                yield name


def ray(model: nn.Module, leak: Leak, name: str) -> Recovery:
    """The image of which a gradient of rank one is a multiple.

    How long it is says the gradient of a bias that stands beside it, where there is one. Else it is the length, among those that leave
    the pixels in [0, 1], at which the image's own gradients are nearest to the leak.
    """
    pixels = math.prod(leak.image_shape)
    column, row = _outer(leak[name], pixels)
    unit = column / column.norm()
    for other in leak.grads.values():
        if other.shape == column.shape and (cosine := (other @ unit) / other.norm()).abs() > 1 - AFFINE:
            entered = row * column.norm() / (cosine * other.norm())
            return Recovery(leak.normalise.inverse(entered.reshape(1, *leak.image_shape)), 1.0, 1, 1)
    row = row.reshape(1, *leak.image_shape)
    row = row / (leak.normalise.inverse(row) - leak.normalise.inverse(0 * row)).abs().max()

    def miss(length: float) -> float:
        picture = leak.normalise.inverse(length * row)
        grads = observe(model, picture.clamp(0, 1), cast(Tensor, leak.labels), leak.normalise, list(leak.grads)).grads
        return sum((g - leak.grads[n]).double().square().sum().item() for n, g in grads.items())

    lengths = [sign * k / GRID for k in range(1, GRID + 1) for sign in (1, -1)]
    middle = min(lengths, key=miss)
    low, high = middle - 1 / GRID, middle + 1 / GRID
    for _ in range(HALVINGS):  # golden section
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if miss(left) < miss(right) else (left, high)
    return Recovery(leak.normalise.inverse((low + high) / 2 * row), 1.0, 1, 1)


def _outer(gradient: Tensor, pixels: int) -> tuple[Tensor, Tensor]:
    """The column and the row of the nearest matrix of rank one, by power iteration; the row is a pixel a number."""
    matrix = gradient if gradient.shape[1] == pixels else gradient.T  # (rows, pixels)
    row = matrix[matrix.norm(dim=1).argmax()]
    for _ in range(POWER):
        column = matrix @ (row / row.norm())
        row = matrix.T @ (column / column.norm())
    return column / column.norm(), row


class _Reached(Exception):
    """Carries what enters a layer out of the pass."""

    def __init__(self, entering: Tensor) -> None:
        self.entering = entering


def _entering(model: nn.Module, leak: Leak, layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model up to a layer, as a function of the image."""

    def reached(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        raise _Reached(inputs[0])

    def enters(x: Tensor) -> Tensor:
        hook = layer.register_forward_pre_hook(reached)
        try:
            stateless(model)(leak.normalise(x))
        except _Reached as stop:
            return stop.entering
        finally:
            hook.remove()
        raise ValueError(f"model: {type(layer).__name__} was not run a second time")

    return enters
