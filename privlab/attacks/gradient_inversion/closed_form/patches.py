"""Where a model adds a learnable embedding to the patches of an image, seen by running it, whatever its class.

What the algebra needs is a layer that takes the image piece by piece, a convolution or a linear layer, and a parameter whose gradient is
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
from torch.overrides import TorchFunctionMode

from privlab.leak import Leak
from privlab.models import zoo
from privlab.models.forward import stateless

STEPS = 100  # of conjugate gradients, at most


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
        image = torch.zeros_like(like)
        at = image.clone().requires_grad_()
        with torch.enable_grad():
            entered = self.entering(at)

        def back(rows: Tensor) -> Tensor:
            return torch.autograd.grad(entered, at, rows.to(entered), retain_graph=True)[0].double()

        nothing = entered.detach().double()
        left, answer = back(numbers - nothing), torch.zeros_like(like, dtype=torch.float64)
        direction, size = left, left.square().sum()
        for _ in range(STEPS):
            if size <= torch.finfo(like.dtype).eps ** 2 * back(numbers - nothing).square().sum():
                break
            seen = self.entering(direction.to(like)).detach().double() - nothing
            step = size / seen.square().sum()
            answer, left = answer + step * direction, left - step * back(seen)
            direction, size = left + left.square().sum() / size * direction, left.square().sum()
        return answer


class _Reached(Exception):
    """Carries what entered the layer out of the model."""


class _Calls(TorchFunctionMode):
    """Convolutions and linear layers that are called, with arguments and output; stops at the call with one weight, if given."""

    def __init__(self, stop: Tensor | None = None) -> None:
        super().__init__()
        self.stop, self.calls = stop, []  # type: ignore[var-annotated]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in (F.conv2d, F.linear):
            return func(*args, **(kwargs or {}))
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        said = dict(zip(names, args, strict=False)) | (kwargs or {})
        if said["weight"] is self.stop:
            raise _Reached(_pieces(func, said))
        output = func(*args, **(kwargs or {}))
        self.calls.append((func, said, output))
        return output


def find(model: nn.Module, leak: Leak) -> Patches:
    """Look for the layer and the embedding by one pass forward and back on noise; of several pairs the one with most width for its patches.

    model: any classifier.  leak: for the shape of its images.
    Raises ValueError where no learnable parameter is added to what one layer makes of the patches, and says what stands there.
    """
    learnable = {p: n for n, p in model.named_parameters() if p.requires_grad}
    if not learnable:
        raise ValueError("model: all its parameters are frozen; call model.requires_grad_(True) on the attacker's copy")
    like = next(iter(learnable))
    probe = torch.randn(1, *leak.image_shape, generator=torch.Generator().manual_seed(0)).to(like)
    with torch.random.fork_rng([like.device] if like.is_cuda else []), torch.enable_grad(), _Calls() as heard:
        logits = stateless(model)(probe)
        if not isinstance(logits, Tensor):
            raise ValueError(
                f"model: {type(model).__name__} answers with {type(logits).__name__}; give one that answers with logits"
            )
        calls = [c for c in heard.calls if c[1]["weight"] in learnable and not c[1]["input"].requires_grad]
        weights = [c[1]["weight"] for c in calls]
        calls = [c for c in calls if sum(c[1]["weight"] is w for w in weights) == 1 and c[1].get("groups", 1) == 1]
        loss = (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)).to(logits)).sum()
        others = [p for p in learnable if p.ndim > 1]
        outputs = [output for *_, output in calls]
        grads = torch.autograd.grad(loss, outputs + others, allow_unused=True) if outputs else ()
    embeddings = [(p, g) for p, g in zip(others, grads[len(calls) :], strict=True) if g is not None] if calls else []
    pairs = []
    resized: set[str] = set()
    passed = False
    for (func, said, _), gradient in zip(calls, grads, strict=False):
        if gradient is None or not gradient.any():
            continue
        width, passed = len(said["weight"]), True
        at_output = (gradient[0].flatten(1).T if func is F.conv2d else gradient.flatten(0, -2)).double()
        for parameter, its in embeddings:
            for axis in [i for i, n in enumerate(its.shape) if n == width and parameter is not said["weight"]]:
                rows = its.movedim(axis, -1).flatten(0, -2).double()
                if len(at_output) > 1 and (match := _match(at_output, rows, torch.finfo(its.dtype).eps)):
                    pairs.append((width - len(at_output), func, said, learnable[parameter], axis, *match))
                elif not any(c[1]["weight"] is parameter for c in heard.calls) and _mixes(
                    at_output, rows, torch.finfo(its.dtype).eps
                ):
                    resized.add(learnable[parameter])
    if not pairs:
        raise ValueError(_reason(model, passed or not calls, sorted(resized)))
    _, func, said, position, axis, where, scale = max(pairs, key=lambda pair: pair[0])
    entering, plain = _entering(model, said["weight"]), _tiles(func, said, probe)
    if plain is None:
        _require_affine(entering, probe, learnable[said["weight"]])
    return Patches(learnable[said["weight"]], position, axis, where, scale, entering, plain)


def _pieces(func: Any, said: dict[str, Any]) -> Tensor:
    """What enters a layer in each place, (places, numbers)."""
    if func is F.linear:
        return said["input"].flatten(0, -2)
    rest = {"stride": 1, "padding": 0, "dilation": 1} | {
        k: said[k] for k in ("stride", "padding", "dilation") if k in said
    }
    if isinstance(rest["padding"], str):  # "same", or "valid"
        reach = zip(_two(rest["dilation"]), said["weight"].shape[2:], strict=True)
        rest["padding"] = 0 if rest["padding"] == "valid" else [d * (k - 1) // 2 for d, k in reach]
    return F.unfold(said["input"], said["weight"].shape[2:], **rest)[0].T


def _two(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _tiles(func: Any, said: dict[str, Any], probe: Tensor) -> tuple[int, int] | None:
    """The patches' side where a convolution takes the image as it is, in patches that tile it."""
    if func is F.linear or not torch.equal(said["input"], probe):
        return None
    side = tuple(said["weight"].shape[2:])
    tiled = _two(said.get("stride", 1)) == side and said.get("padding", 0) in (0, (0, 0), "valid")
    return side if tiled and all(n % k == 0 for n, k in zip(probe.shape[2:], side, strict=True)) else None


def _entering(model: nn.Module, weight: Tensor) -> Callable[[Tensor], Tensor]:
    forward = stateless(model)

    def entering(image: Tensor) -> Tensor:
        with torch.random.fork_rng([weight.device] if weight.is_cuda else []), _Calls(weight):
            try:
                forward(image)
            except _Reached as reached:
                return reached.args[0]
        raise ValueError(
            "model: it does not take the same way for every image, so what enters its patches is not known"
        )

    return entering


def _require_affine(entering: Callable[[Tensor], Tensor], probe: Tensor, name: str) -> None:
    with torch.no_grad():
        both, one, other, none = (entering(x) for x in (probe + probe.flip(0, -1), probe, probe.flip(0, -1), probe * 0))
    if (both + none - one - other).norm() > torch.finfo(probe.dtype).eps ** 0.5 * (one - none).norm() or torch.equal(
        one, none
    ):
        raise ValueError(
            f"model: what enters {name!r} is not the image, cut, shifted and scaled, so no linear system leads back to it"
        )


def _match(at_output: Tensor, rows: Tensor, eps: float) -> tuple[Tensor, float] | None:
    """Which rows of a parameter's gradient are those at the output, but for one factor; None where they are not.

    at_output: (patches, width).  rows: (rows, width).  First as they stand, behind any number of others; then each by its nearest.
    """
    count, patches = len(rows), len(at_output)

    def fits(where: Tensor) -> tuple[Tensor, float] | None:
        own = rows[where]
        scale = ((own * at_output).sum() / own.square().sum()).item() if own.any() else 0.0
        off = (at_output - scale * own).norm(dim=1) > 64 * eps * at_output.norm(dim=1).clamp(min=at_output.norm() * eps)
        return None if scale == 0 or off.any() else (where, 1.0 if abs(scale - 1) < 64 * eps else scale)

    for first in range(min(count - patches, 16) + 1 if count >= patches else 0):
        if fitting := fits(torch.arange(first, first + patches, device=rows.device)):
            return fitting
    nearest = torch.cdist(at_output, rows).argmin(1) if count >= patches else torch.zeros(patches, dtype=torch.long)
    return fits(nearest) if count >= patches and len(nearest.unique()) == patches else None


def _mixes(at_output: Tensor, rows: Tensor, eps: float) -> bool:
    """Whether each row of a parameter's gradient, behind those of tokens that are no patches, is a mixture of those at the output.

    at_output: (patches, width).  rows: (rows, width).  So it is behind a resize.
    """
    if not rows.any() or len(rows) < 2 or not 1 < len(at_output) < at_output.shape[1]:
        return False
    inside = torch.linalg.svd(at_output, full_matrices=False).Vh
    off = (rows - rows @ inside.T @ inside).square().sum(1)  # (rows,)
    behind = range(min(16, len(rows) - 2) + 1)  # so many tokens
    return any(off[k:].sum().sqrt() < 1024 * eps * rows[k:].norm() for k in behind)


def _reason(model: nn.Module, passed: bool, resized: list[str]) -> str:
    if not passed:
        return (
            f"model: no gradient comes back to the patches of this {type(model).__name__}, maybe from a last layer of zeros, as timm "
            "begins some; whether an embedding is added to them is not known, and this form was not tried: train it a step, or "
            "load weights"
        )
    if resized:
        return (
            f"model: the embedding {resized[0]!r} is resized or mixed before it is added to the patches, and this form was not tried: "
            "it reads one that is added as it is; give images of the size that the embedding was made for"
        )
    if zoo.embeds_positions(model):
        return (
            "model: its patches are not made from the image by one linear layer with the position embedding added to what that gives; "
            "try a ViT whose patch_embed is one convolution"
        )
    return (
        f"model: this {type(model).__name__} has no learnable position embedding that is added to what one convolution or linear layer "
        "makes of the image's patches, so nothing gives dL/dZ away (a fixed or rotary one has no gradient); try closed_form.subspace"
    )
