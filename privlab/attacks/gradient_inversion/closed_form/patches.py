"""Where a model adds a learnable embedding to the patches of an image: found by hooks and one match of gradients, whatever its class.

What the algebra needs is an nn.Conv2d or an nn.Linear that takes the image piece by piece, and a parameter whose gradient is that at its
output: one that is added to it, with nothing between. One behind a norm, a stack of convolutions or an interpolation is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.leak import Leak
from privlab.models.forward import stateless

STEPS = 100  # of conjugate gradients, at most

Entering = Callable[[Tensor], Tensor]  # image -> what enters some layer


class Patches(NamedTuple):
    """A layer that takes patches, and the embedding that is added to what it makes of them.

    weight, position: names of the two parameters.  scale: the output's gradient over the position's.
    tokens: gradient of the position embedding -> that at the layer's output, (patches, width).
    image: numbers that enter the layer, (patches, numbers), an image for its shape and format -> the image, (1, channels, height, width).
    """

    weight: str
    position: str
    scale: float
    tokens: Callable[[Tensor], Tensor]
    image: Callable[[Tensor, Tensor], Tensor]


def find(model: nn.Module, leak: Leak) -> Patches:
    """The layer and the embedding, by one pass forward and back on noise; of several pairs the one with most width for its patches.

    leak: for the shape of its images.  Raises ValueError where no learnable parameter is added to what one layer makes of the patches.
    """
    learnable: dict[Tensor, str] = {p: n for n, p in model.named_parameters() if p.requires_grad}
    if not learnable:
        raise ValueError("model: all its parameters are frozen; call model.requires_grad_(True) on the attacker's copy")
    probe = torch.randn(1, *leak.image_shape, generator=torch.Generator().manual_seed(0)).to(next(iter(learnable)))
    embeddings = [p for p in learnable if p.ndim > 1]
    with torch.enable_grad():
        calls, logits = heard(model, probe, filter(_plain, model.modules()))
        once = [c for c in calls if sum(c[0].weight is other[0].weight for other in calls) == 1]
        first = [c for c in once if c[0].weight in learnable and not c[1].requires_grad]  # on the image alone
        loss = (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)).to(logits)).sum()
        grads = torch.autograd.grad(loss, [output for *_, output in first] + embeddings, allow_unused=True)

    pairs = []
    for (layer, entered, _), at_output in zip(first, grads, strict=False):
        if at_output is None or not at_output.any():
            continue
        wanted = (at_output[0].flatten(1).T if isinstance(layer, nn.Conv2d) else at_output.flatten(0, -2)).double()
        places, width = wanted.shape
        for parameter, its in zip(embeddings, grads[len(first) :], strict=True):
            for axis in () if its is None or places < 2 else [i for i, n in enumerate(its.shape) if n == width]:
                rows = its.movedim(axis, -1).flatten(0, -2).double()
                match = _match(wanted, rows, torch.finfo(its.dtype).eps)
                if match and parameter is not layer.weight:
                    pairs.append((width - places, layer, entered, learnable[parameter], axis, *match))
    if not pairs:
        raise ValueError(
            f"model: no learnable position embedding of this {type(model).__name__} is seen to be added to what one nn.Conv2d or nn.Linear "
            "makes of the image's patches, so nothing gives dL/dZ away; it may be fixed or rotary, resized, behind a norm, or a last layer "
            "of zeros lets no gradient through"
        )
    _, layer, entered, position, axis, where, scale = max(pairs, key=lambda pair: pair[0])
    weight, side, entering = learnable[layer.weight], getattr(layer, "kernel_size", ()), _entering(model, layer)
    tiled = side and layer.stride == side and layer.padding in ((0, 0), "valid") and torch.equal(entered, probe)
    tiled = tiled and not any(n % k for n, k in zip(probe.shape[2:], side, strict=True))
    if not tiled and not affine(entering, probe):
        raise ValueError(f"model: what enters {weight!r} is not affine in the image, so no linear system leads back")

    def tokens(gradient: Tensor) -> Tensor:
        return gradient.movedim(axis, -1).flatten(0, -2)[where] * scale

    def image(numbers: Tensor, like: Tensor) -> Tensor:
        return F.fold(numbers.T[None], like.shape[2:], side, stride=side) if tiled else undone(entering, numbers, like)

    return Patches(weight, position, scale, tokens, image)


def affine(entering: Entering, image: Tensor, share: float | None = None) -> bool:
    """Whether a map adds up, but for such a share of what it makes of the image; half of the float format's digits if not given."""
    both, one, other, none = map(entering, (image + image.flip(0, -1), image, image.flip(0, -1), image * 0))
    off, most = (both + none - one - other).norm(), torch.finfo(image.dtype).eps ** 0.5 if share is None else share
    return bool(off <= most * (one - none).norm())


def undone(entering: Entering, numbers: Tensor, like: Tensor) -> Tensor:
    """The image, shaped as `like`, that an affine map takes nearest to `numbers`, by conjugate gradients from zero; in float64."""
    at = torch.zeros_like(like, requires_grad=True)
    with torch.enable_grad():
        entered = entering(at)
    nothing = entered.detach().double()

    def back(rows: Tensor) -> Tensor:
        return torch.autograd.grad(entered, at, rows.to(entered), retain_graph=True)[0].double()

    left, answer = back(numbers - nothing), torch.zeros_like(like, dtype=torch.float64)
    direction, size = left, left.square().sum()
    enough = torch.finfo(like.dtype).eps ** 2 * size
    for _ in range(STEPS):
        if size <= enough:
            break
        seen = entering(direction.to(like)).detach().double() - nothing
        step = size / seen.square().sum()
        answer, left = answer + step * direction, left - step * back(seen)
        direction, size = left + left.square().sum() / size * direction, left.square().sum()
    return answer


def heard(
    model: nn.Module, image: Tensor, layers: Iterable[nn.Module]
) -> tuple[list[tuple[Any, Tensor, Tensor]], Tensor]:
    """The calls of these layers in a pass, each with what enters it and what it makes of it; and the logits."""
    calls: list[tuple[Any, Tensor, Tensor]] = []

    def hear(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((layer, inputs[0], output))

    hooks = [layer.register_forward_hook(hear) for layer in layers]
    try:
        with torch.random.fork_rng([image.device] if image.is_cuda else []):
            return calls, stateless(model)(image)
    finally:
        for hook in hooks:
            hook.remove()


def _plain(layer: nn.Module) -> bool:
    """Whether F.unfold says what enters a layer in each place: no subclass, which may do something else to its weight or image."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding != "same" and layer.padding_mode == "zeros"
    return type(layer) is nn.Linear


def _entering(model: nn.Module, layer: Any) -> Entering:
    """Image -> what enters the layer in each place, (places, numbers)."""

    def entering(image: Tensor) -> Tensor:
        ((_, x, _),), _ = heard(model, image, [layer])
        if isinstance(layer, nn.Linear):
            return x.flatten(0, -2)
        padding = 0 if layer.padding == "valid" else layer.padding
        return F.unfold(x, layer.kernel_size, layer.dilation, padding, layer.stride)[0].T

    return entering


def _match(wanted: Tensor, rows: Tensor, eps: float) -> tuple[Tensor, float] | None:
    """Which rows of a parameter's gradient are those at the output, and the factor between; None where they are not.

    wanted: (patches, width).  rows: (rows, width).  First as they stand, at either end; then each by its nearest.
    """
    if len(rows) < len(wanted):
        return None
    order, nearest = torch.arange(len(wanted)), torch.cdist(wanted, rows).argmin(1)
    for where in [order + len(rows) - len(wanted), order] + [nearest] * (len(nearest.unique()) == len(wanted)):
        own = rows[where]
        scale = ((own * wanted).sum() / own.square().sum()).item() if own.any() else 0.0
        off = (wanted - scale * own).norm(dim=1) > 64 * eps * wanted.norm(dim=1).clamp(min=wanted.norm() * eps)
        if scale != 0 and not off.any():
            return where, 1.0 if abs(scale - 1) < 64 * eps else scale
    return None
