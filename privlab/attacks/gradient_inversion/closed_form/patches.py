"""Where a model adds a learnable embedding to the patches of an image: found by hooks and one match of gradients, whatever its class.

What the algebra needs is a layer that takes the image piece by piece, an nn.Conv2d or an nn.Linear, and a parameter whose gradient is
that at the layer's output: one that is added to it, with nothing between. A position embedding behind a norm, a stack of convolutions or
an interpolation is none, and neither is a fixed or a rotary one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.leak import Leak
from privlab.models.forward import stateless

STEPS = 100  # of conjugate gradients, at most
PREFIX = 16  # tokens in front of the patches, at most


@dataclass(frozen=True)
class Patches:
    """A layer that takes patches, and the embedding that is added to what it makes of them.

    weight, position: names of the two parameters.  axis: of the position's that is the width.  rows: (patches,), those of the position,
    with the other axes flattened, that belong to the patches in the layer's order.  scale: the output's gradient over the position's.
    entering: image -> what enters the layer, (patches, numbers); affine.  grid: side of the patches that tile the image; None otherwise.
    """

    weight: str
    position: str
    axis: int
    rows: Tensor
    scale: float
    entering: Callable[[Tensor], Tensor]
    grid: tuple[int, int] | None

    def tokens(self, gradient: Tensor) -> Tensor:
        """The gradient at the layer's output, (patches, width), from that of the position embedding."""
        rows = gradient.movedim(self.axis, -1).flatten(0, -2)[self.rows]
        return rows if self.scale == 1 else rows * self.scale

    def image(self, numbers: Tensor, like: Tensor) -> Tensor:
        """The image, shaped as `like`, that enters as `numbers`, (patches, numbers): the nearest, by conjugate gradients."""
        if self.grid is not None:
            return F.fold(numbers.T[None], like.shape[2:], self.grid, stride=self.grid)
        at = torch.zeros_like(like, requires_grad=True)
        with torch.enable_grad():
            entered = self.entering(at)
        nothing = entered.detach().double()

        def back(rows: Tensor) -> Tensor:
            return torch.autograd.grad(entered, at, rows.to(entered), retain_graph=True)[0].double()

        left, answer = back(numbers - nothing), torch.zeros_like(like, dtype=torch.float64)
        direction, size = left, left.square().sum()
        enough = torch.finfo(like.dtype).eps ** 2 * size
        for _ in range(STEPS):
            if size <= enough:
                break
            seen = self.entering(direction.to(like)).detach().double() - nothing
            step = size / seen.square().sum()
            answer, left = answer + step * direction, left - step * back(seen)
            direction, size = left + left.square().sum() / size * direction, left.square().sum()
        return answer


def find(model: nn.Module, leak: Leak) -> Patches:
    """Look for the layer and the embedding by one pass forward and back on noise; of several pairs the one with most width for its patches.

    model: any classifier.  leak: for the shape of its images.
    Raises ValueError where no learnable parameter is added to what one layer makes of the patches.
    """
    learnable: dict[Tensor, str] = {p: n for n, p in model.named_parameters() if p.requires_grad}
    if not learnable:
        raise ValueError("model: all its parameters are frozen; call model.requires_grad_(True) on the attacker's copy")
    like = next(iter(learnable))
    probe = torch.randn(1, *leak.image_shape, generator=torch.Generator().manual_seed(0)).to(like)
    embeddings = [p for p in learnable if p.ndim > 1]
    with torch.random.fork_rng([like.device] if like.is_cuda else []), torch.enable_grad():
        calls, logits = _calls(model, probe)
        first = [c for c in calls if c[0].weight in learnable and not c[1].requires_grad]  # on the image alone
        loss = (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)).to(logits)).sum()
        grads = torch.autograd.grad(loss, [output for *_, output in first] + embeddings, allow_unused=True)

    pairs = []
    passed, resized = False, ""
    for (layer, entered, _), at_output in zip(first, grads, strict=False):
        if at_output is None or not at_output.any():
            continue
        passed, width = True, len(layer.weight)
        wanted = (at_output[0].flatten(1).T if isinstance(layer, nn.Conv2d) else at_output.flatten(0, -2)).double()
        for parameter, its in zip(embeddings, grads[len(first) :], strict=True):
            if its is None or parameter is layer.weight or len(wanted) < 2:
                continue
            for axis in [i for i, n in enumerate(its.shape) if n == width]:
                rows = its.movedim(axis, -1).flatten(0, -2).double()
                if match := _match(wanted, rows, torch.finfo(its.dtype).eps):
                    pairs.append((width - len(wanted), layer, entered, learnable[parameter], axis, *match))
                elif "pos_emb" in learnable[parameter] and not 0 <= len(rows) - len(wanted) <= PREFIX:
                    resized = learnable[parameter]
    if not pairs:
        raise ValueError(_reason(type(model).__name__, passed or not first, resized))
    _, layer, entered, position, axis, where, scale = max(pairs, key=lambda pair: pair[0])
    weight, grid = learnable[layer.weight], _tiles(layer, entered, probe)
    entering = _entering(model, layer)
    if grid is None:
        _require_affine(entering, probe, weight)
    return Patches(weight, position, axis, where, scale, entering, grid)


def _calls(model: nn.Module, image: Tensor) -> tuple[list[tuple[Any, Tensor, Tensor]], Tensor]:
    """All nn.Conv2d and nn.Linear that are run once, each with what enters it and what it makes of it; and the logits."""
    calls: list[tuple[Any, Tensor, Tensor]] = []

    def hear(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((layer, inputs[0], output))

    hooks = [m.register_forward_hook(hear) for m in model.modules() if _plain(m)]
    try:
        logits = stateless(model)(image)
    finally:
        for hook in hooks:
            hook.remove()
    return [c for c in calls if sum(c[0].weight is other[0].weight for other in calls) == 1], logits


def _plain(layer: nn.Module) -> bool:
    """Whether F.unfold says what enters a layer in each place: no subclass, which may do something else to its weight or image."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding != "same" and layer.padding_mode == "zeros"
    return type(layer) is nn.Linear


def _match(wanted: Tensor, rows: Tensor, eps: float) -> tuple[Tensor, float] | None:
    """Which rows of a parameter's gradient are those at the output, but for one factor; None where they are not.

    wanted: (patches, width).  rows: (rows, width).  First as they stand, at either end; then each by its nearest.
    """
    behind = len(rows) - len(wanted)
    if behind < 0:
        return None
    places = [torch.arange(first, first + len(wanted)) for first in dict.fromkeys((behind, 0))]
    nearest = torch.cdist(wanted, rows).argmin(1)
    for where in [*places, nearest] if len(nearest.unique()) == len(wanted) else places:
        own = rows[where]
        scale = ((own * wanted).sum() / own.square().sum()).item() if own.any() else 0.0
        off = (wanted - scale * own).norm(dim=1) > 64 * eps * wanted.norm(dim=1).clamp(min=wanted.norm() * eps)
        if scale != 0 and not off.any():
            return where, 1.0 if abs(scale - 1) < 64 * eps else scale
    return None


class _Reached(Exception):
    """Carries what entered the layer out of the model."""


def _entering(model: nn.Module, layer: Any) -> Callable[[Tensor], Tensor]:
    """Image -> what enters the layer in each place, (places, numbers)."""

    def stop(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        raise _Reached(inputs[0])

    def entering(image: Tensor) -> Tensor:
        hook = layer.register_forward_pre_hook(stop)
        try:
            with torch.random.fork_rng([image.device] if image.is_cuda else []):
                stateless(model)(image)
        except _Reached as reached:
            x = reached.args[0]
        finally:
            hook.remove()
        if isinstance(layer, nn.Linear):
            return x.flatten(0, -2)
        padding = 0 if layer.padding == "valid" else layer.padding
        return F.unfold(x, layer.kernel_size, layer.dilation, padding, layer.stride)[0].T

    return entering


def _tiles(layer: Any, entered: Tensor, image: Tensor) -> tuple[int, int] | None:
    """The patches' side where a convolution takes the image as it is, in patches that tile it."""
    if isinstance(layer, nn.Linear) or not torch.equal(entered, image):
        return None
    side = layer.kernel_size
    tiled = layer.stride == side and layer.padding in ((0, 0), "valid")
    return side if tiled and all(n % k == 0 for n, k in zip(image.shape[2:], side, strict=True)) else None


def _require_affine(entering: Callable[[Tensor], Tensor], probe: Tensor, name: str) -> None:
    with torch.no_grad():
        both, one, other, none = (entering(x) for x in (probe + probe.flip(0, -1), probe, probe.flip(0, -1), probe * 0))
    if (both + none - one - other).norm() > torch.finfo(probe.dtype).eps ** 0.5 * (one - none).norm():
        raise ValueError(
            f"model: what enters {name!r} is not affine in the image, so no linear system leads back to it"
        )


def _reason(kind: str, passed: bool, resized: str) -> str:
    if not passed:
        return (
            f"model: no gradient comes back to the patches of this {kind}, maybe from a last layer of zeros, as timm begins some, so this "
            "form was not tried: train it a step, or load weights"
        )
    if resized:
        return (
            f"model: the embedding {resized!r} is resized before it is added to the patches, and this form was not tried: give images of "
            "the size that the embedding was made for"
        )
    return (
        f"model: this {kind} has no learnable position embedding that is added to what one nn.Conv2d or nn.Linear makes of the image's "
        "patches, so nothing gives dL/dZ away (a fixed or rotary one has no gradient); try closed_form.subspace"
    )
