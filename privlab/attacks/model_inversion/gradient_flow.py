"""How gradients flow back through a network with skip connections: equation 2 of Koh et al. 2024, measured block by block.

A residual block computes z_{i+1} = z_i + g_i(z_i), so that dL/dz_i = dL/dz_{i+1} + dL/dz_{i+1} dg_i/dz_i: one part of the gradient returns
through the shortcut, the other through the branch. Here z_{i+1} is the sum itself, before the ReLU that follows it in a ResNet.

Hooks read the gradients and are taken off again, also when a pass fails; BatchNorm in train mode counts into copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from torch import Tensor, nn

from privlab.models import ir_resnet, skip_connections
from privlab.models.forward import preprocessing, stateless

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Split:
    """One residual block; each norm is the L2 norm of an image's gradient, averaged over images.

    block: its name in the model.
    arriving: at the sum z_i + g_i(z_i).  skip, branch: what of it returns to z_i through the one and the other.
    total: the gradient at z_i, from a pass of its own.
    error: L2 norm of skip + branch - total over that of total (nan where that is 0). Where both passes round alike, it is 0.
    """

    block: str
    arriving: float
    skip: float
    branch: float
    total: float
    error: float


def split(model: nn.Module, images: Tensor, labels: Tensor, loss: Loss) -> list[Split]:
    """Both parts of equation 2, for each block of a timm ResNet or an IR net, from the first to the last.

    model: in the mode and the float type it is in; cut and scaled ones too. A removed shortcut gives 0.
    images: (n, channels, height, width) in [0, 1], moved to the model and put through its own preprocessing.  labels: (n,).
    loss: (logits, labels) -> one number, or one an image, which are summed.
    Raises ValueError for other families, whose blocks have no such sum.
    Source: Koh et al. 2024, section 3.1, equation 2.
    """
    if not isinstance(model, ResNet | ir_resnet.IR):
        raise ValueError(
            f"model: {type(model).__name__} has no residual blocks known here; give a timm ResNet or an IR net"
        )
    blocks = {name: m for name, m in model.named_modules() if isinstance(m, BasicBlock | Bottleneck | ir_resnet.Block)}
    totals = _gradients(
        model, blocks, ["total"], images, labels, loss
    )  # a pass of its own, in which nothing is taken apart
    parts = _gradients(model, blocks, ["sum", "skip", "branch"], images, labels, loss)
    rows = []
    for name, (total,), (arriving, skip, branch) in zip(blocks, totals, parts, strict=True):
        error = ((skip + branch - total).norm() / total.norm()).item()
        rows.append(Split(name, _mean(arriving), _mean(skip), _mean(branch), _mean(total), error))
    return rows


def norms(model: nn.Module, images: Tensor, labels: Tensor, loss: Loss) -> dict[int | str, Tensor]:
    """L2 norms of the loss's gradient at the output of each stage and at the input: {1: (n,), 2: (n,), ..., "input": (n,)}.

    model: of any family in `skip_connections`; its stages are those of `skip_connections.stages`, and those without skips too.
    images: (n, channels, height, width) in [0, 1]; "input" is the gradient in these pixels, before preprocessing.  labels: (n,).
    loss: (logits, labels) -> one number, or one an image, which are summed.
    """
    ends = skip_connections.ends(model)
    places: list[int | str] = [*ends, "input"]
    outputs: dict[int, Tensor] = {}

    def keep(stage: int) -> Callable[..., Tensor]:
        def hook(module: nn.Module, args: object, output: Tensor) -> Tensor:
            outputs[stage] = output
            return output.clone()  # what follows may write into its input

        return hook

    hooks = [(end.register_forward_hook, keep(stage)) for stage, end in ends.items()]
    with _measured(model, hooks, images, labels, loss) as (pixels, value):
        points = [*(outputs[stage] for stage in ends), pixels]
        gradients = torch.autograd.grad(value, points, allow_unused=True, materialize_grads=True)
    return {where: _norms(gradient) for where, gradient in zip(places, gradients, strict=True)}


def _norms(gradients: Tensor) -> Tensor:
    return gradients.flatten(1).norm(dim=1)  # (n, ...) -> (n,)


def _mean(gradients: Tensor) -> float:
    return _norms(gradients).mean().item()


def _gradients(
    model: nn.Module, blocks: dict[str, Any], points: list[str], images: Tensor, labels: Tensor, loss: Loss
) -> list[list[Tensor]]:
    """The gradients at these points of each block, from one pass."""
    passed: list[dict[str, Tensor]] = [{} for _ in blocks]
    watched = [_places(block) for block in blocks.values()]
    hooks = [
        (place[point], _apart(at, point))
        for place, at in zip(watched, passed, strict=True)
        for point in points
        if point in place
    ]
    with _measured(model, hooks, images, labels, loss) as (_, value):
        # where the shortcut is an identity there is no module to hook: its derivative is 1, its part what arrives at the sum
        points_of_all = [at[point] if point in at else at["sum"] for at in passed for point in points]
        gradients = iter(torch.autograd.grad(value, points_of_all, allow_unused=True, materialize_grads=True))
    return [[next(gradients) for _ in points] for _ in blocks]


def _places(block: Any) -> dict[str, Any]:
    """Where to hook a block: before it, before its branch, its shortcut, and what follows the sum; in an IR net nothing follows it."""
    if isinstance(block, ir_resnet.Block):
        first, shortcut = block.body, block.shortcut
        places: dict[str, Any] = {"sum": block.register_forward_hook}
    else:
        first, shortcut = block.conv1, block.downsample
        places = {"sum": (block.act2 if isinstance(block, BasicBlock) else block.act3).register_forward_pre_hook}
    places |= {"total": block.register_forward_pre_hook, "branch": first.register_forward_pre_hook}
    return places if shortcut is None else {**places, "skip": shortcut.register_forward_pre_hook}


def _apart(values: dict[str, Tensor], point: str) -> Callable[..., Tensor]:
    """A hook that keeps what passes. Shortcut and branch each get a copy of their common input, and the copy is kept: its gradient is
    their part alone. Else the copy goes on: timm applies its ReLU to the sum in place, which would overwrite what was kept."""

    def hook(module: nn.Module, args: tuple[Tensor], *output: Tensor) -> Tensor:
        value = output[0] if output else args[0]
        copied = value.clone()
        values[point], passed = (copied, copied) if point in ("branch", "skip") else (value, copied)
        return passed

    return hook


@contextmanager
def _measured(
    model: nn.Module, hooks: list[Any], images: Tensor, labels: Tensor, loss: Loss
) -> Iterator[tuple[Tensor, Tensor]]:
    """One forward pass under hooks: the pixels that gradients are asked for, and the loss, which autograd can still go back from."""
    fits = images.is_floating_point() and images.ndim == 4 and len(images) == len(labels) > 0
    if not fits:
        raise ValueError(
            f"images: got {images.dtype} of shape {tuple(images.shape)} with {len(labels)} labels; give floats in [0, 1], "
            "(n, channels, height, width), with a label each"
        )
    handles = []
    like = next(model.parameters())
    try:
        handles = [register(hook) for register, hook in hooks]
        with torch.enable_grad(), torch.random.fork_rng([like.device] if like.is_cuda else []):
            pixels = images.detach().clone().to(like.device).requires_grad_()
            value = loss(stateless(model)(preprocessing(model)(pixels.to(like))), labels.to(like.device)).sum()
    finally:
        for handle in handles:
            handle.remove()
    yield pixels, value
