"""The image behind the gradients of any model that adds a learnable embedding to its patches, whatever its class.

Hooks and one match of gradients find what the algebra needs: an nn.Conv2d or an nn.Linear that takes the image piece by piece, and a
parameter whose gradient is that at its output: one that is added to it, with nothing between. One behind a norm, a stack of convolutions
or an interpolation is none.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares
from privlab.attacks.gradient_inversion.closed_form.least_squares import Noise, Recovery, deviation, gradient
from privlab.leak import Leak
from privlab.models.forward import functional

Entering = Callable[[Tensor], Tensor]  # image -> what enters some layer
Calls = list[tuple[Any, Tensor, Tensor]]  # of layers: which, what enters it, and what it makes of that


def patch_embedding(model: nn.Module, leak: Leak, noise: Noise = None) -> Recovery:
    """Solve for the pixels behind one image's gradients, for any model that adds a learnable embedding to its patches. Not in the papers.

    Patch i enters the network as W x_i + b + e_i, so the gradient at its position embedding, g_i, is also the gradient at W x_i, and

        dL/dW = sum_i g_i x_i^T = G^T X        G: (patches, width)   X: (patches, patch pixels)

    Both sides are in the leak. With width > patches (a LayerNorm behind takes the mean out of g_i) and two blocks or more (with one, only
    the class token's query reaches back) the system has one solution: the image.

    model: any whose embedding is added to what its first nn.Conv2d or nn.Linear makes of the patches, which is seen by running it.
    leak: one image's gradients, those of the embedding and of that layer's weight among them.  noise: see `closed_form`.
    Warns where the width is not above the number of patches.
    Raises ValueError for a model without such an embedding, more than one image, missing or NaN gradients.
    """
    least_squares.require_one(leak)
    names, axis, where, image = find(model, leak)
    rows = gradient(leak, model, names[0]).movedim(axis, -1).flatten(0, -2)[where]  # (patches, width)
    weight = gradient(leak, model, names[1]).flatten(1)  # (width, patch pixels)
    relative, size = least_squares.relative(leak, noise), least_squares.pixel_size(leak)
    of_tokens, of_weight = (deviation(noise, name) for name in names)
    if of_tokens or of_weight:
        solved = least_squares.weighed(rows.T, weight / size, relative, of_tokens, of_weight / size)
    else:
        scale = least_squares.row_sizes(rows.T)
        right = weight / (size * scale)  # (width, patch pixels)
        solved = least_squares.solve(rows.T / scale, right, relative, relative * least_squares.rms(right))
    if len(weight) <= len(rows):
        least_squares.warn(f"width {len(weight)} is not above the {len(rows)} patches: rank {solved.rank}")
    images = leak.normalise.inverse(image(solved.X * size))
    return Recovery(images, solved.condition, len(rows), names, lambda: solved.rank)


def find(model: nn.Module, leak: Leak) -> tuple[tuple[str, str], int, Tensor, Callable[[Tensor], Tensor]]:
    """The embedding, and the layer that takes patches, which is the first that is called, by one pass forward and back on noise.

    leak: for the shape of its images.  Returns the names of the embedding and of the layer's weight; the embedding's axis of width; which
    of its rows are patches; and the way from what enters the layer, (patches, numbers), to the image, (1, channels, height, width).
    Raises ValueError where no learnable parameter is added to what that layer makes of the patches.
    """
    learnable: dict[Tensor, str] = {p: n for n, p in model.named_parameters() if p.requires_grad}
    if not learnable:
        raise ValueError("model: all its parameters are frozen; call model.requires_grad_(True) on the attacker's copy")
    probe = torch.randn(1, *leak.image_shape, generator=torch.Generator().manual_seed(0)).to(next(iter(learnable)))
    with torch.enable_grad():
        calls, logits = heard(model, probe, filter(_plain, model.modules()))
        layer, entered, output = calls[0] if calls else (None, probe, logits)
        loss = (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)).to(logits)).sum()
        at_output, *grads = torch.autograd.grad(loss, [output, *learnable], materialize_grads=True)
    weight: Any = getattr(layer, "weight", None)
    wanted = at_output[0].flatten(1).T if isinstance(layer, nn.Conv2d) else at_output.flatten(0, -2)  # (patches, width)
    for embedding, its in zip(learnable, grads, strict=True):
        axes = [i for i, n in enumerate(its.shape) if its.ndim > 1 and n == wanted.shape[1]]
        for axis in axes if weight in learnable and embedding is not weight else []:
            where = _rows_of(wanted, its.movedim(axis, -1).flatten(0, -2))
            if where is not None:
                names = learnable[embedding], learnable[weight]
                return names, axis, where, _way_back(model, layer, names[1], entered, probe)
    raise ValueError(
        "model: no learnable position embedding is added to what its first nn.Conv2d or nn.Linear makes of the patches; it may be fixed "
        "or rotary, scaled or resized, behind a norm, or a last layer of zeros lets no gradient through"
    )


def _way_back(model: nn.Module, layer: Any, name: str, entered: Tensor, probe: Tensor) -> Callable[[Tensor], Tensor]:
    """From what enters the layer to the image.  entered: what does of the image `probe`."""
    side, entering = getattr(layer, "kernel_size", ()), _entering(model, layer)
    tiled = side and layer.stride == side and layer.padding in ((0, 0), "valid") and torch.equal(entered, probe)
    if tiled and not any(n % k for n, k in zip(probe.shape[2:], side, strict=True)):
        return lambda numbers: F.fold(numbers.T[None], probe.shape[2:], side, stride=side)
    if not affine(entering, probe):
        raise ValueError(f"model: what enters {name!r} is not affine in the image, so no linear system leads back")
    return lambda numbers: undone(entering, numbers, probe)


def _rows_of(wanted: Tensor, rows: Tensor) -> Tensor | None:
    """Which rows (rows, width) of a parameter's gradient are those wanted (patches, width): at either end, or each by its nearest."""
    if len(rows) < len(wanted) or len(wanted) < 2 or not wanted.any():
        return None
    order, eps = torch.arange(len(wanted)), torch.finfo(wanted.dtype).eps
    wanted, rows = wanted.double(), rows.double()
    sizes = wanted.norm(dim=1)
    for where in (order + len(rows) - len(wanted), order, torch.cdist(wanted, rows).argmin(1)):
        if ((wanted - rows[where]).norm(dim=1) <= 64 * eps * sizes.clamp(min=sizes.norm() * eps)).all():
            return where
    return None


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
    for _ in range(100):
        if size <= enough:
            break
        seen = entering(direction.to(like)).detach().double() - nothing
        step = size / seen.square().sum()
        answer, left = answer + step * direction, left - step * back(seen)
        direction, size = left + left.square().sum() / size * direction, left.square().sum()
    return answer


def heard(model: nn.Module, image: Tensor, layers: Iterable[nn.Module]) -> tuple[Calls, Tensor]:
    """The calls of these layers in a pass, and the logits."""
    calls: Calls = []

    def hear(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((layer, inputs[0], output))

    with ExitStack() as hooks, torch.random.fork_rng([image.device] if image.is_cuda else []):
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(hear))
        return calls, functional(model)({}, image)


def _plain(layer: nn.Module) -> bool:
    """Whether F.unfold says what enters a layer in each place: no subclass, which may do something else to its weight or image."""
    whole = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding != "same" and layer.padding_mode == "zeros"
    return whole or type(layer) is nn.Linear


def _entering(model: nn.Module, layer: Any) -> Entering:
    """Image -> what enters the layer in each place, (places, numbers)."""

    def entering(image: Tensor) -> Tensor:
        ((_, x, _),), _ = heard(model, image, [layer])
        if isinstance(layer, nn.Linear):
            return x.flatten(0, -2)
        padding = 0 if layer.padding == "valid" else layer.padding
        return F.unfold(x, layer.kernel_size, layer.dilation, padding, layer.stride)[0].T

    return entering
