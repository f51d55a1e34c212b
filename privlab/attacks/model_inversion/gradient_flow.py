"""How gradients flow back through a network with skip connections: equation 2 of Koh et al. 2024, measured block by block.

A residual block computes z_{i+1} = z_i + g_i(z_i), so that dL/dz_i = dL/dz_{i+1} + dL/dz_{i+1} dg_i/dz_i: one part of the gradient returns
through the shortcut, the other through the branch. Here z_{i+1} is the sum itself, before the ReLU that follows it in a ResNet.

Hooks read the gradients and are taken off again, also when a pass fails; BatchNorm in train mode counts into copies.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from torch import Tensor, nn

from privlab.models import ir_resnet, skip_connections
from privlab.models.forward import preprocessing, stateless

Loss = Callable[[Tensor, Tensor], Tensor]
Place = Callable[..., Any]  # registers a hook, such as `module.register_forward_hook`


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
    begins = {name: block.register_forward_pre_hook for name, block in blocks.items()}
    totals = _gradients(model, images, labels, loss, begins)  # a pass of its own, in which nothing is taken apart
    places = {(name, point): place for name, block in blocks.items() for point, place in _places(block).items()}
    inside = {where for where in places if where[1] != "sum"}
    parts = _gradients(model, images, labels, loss, places, inside)
    rows = []
    for name in blocks:
        total, arriving, branch = totals[name], parts[name, "sum"], parts[name, "branch"]
        # where the shortcut is an identity there is no module to hook: its derivative is 1, its part what arrives at the sum
        skip = parts.get((name, "skip"), arriving)
        error = ((skip + branch - total).norm() / total.norm()).item()
        rows.append(Split(name, _mean(arriving), _mean(skip), _mean(branch), _mean(total), error))
    return rows


def norms(model: nn.Module, images: Tensor, labels: Tensor, loss: Loss) -> dict[int | str, Tensor]:
    """L2 norms of the loss's gradient at the output of each stage and at the input: {1: (n,), 2: (n,), ..., "input": (n,)}.

    model: of any family in `skip_connections`; its stages are those of `skip_connections.stages`, and those without skips too.
    images: (n, channels, height, width) in [0, 1]; "input" is the gradient in these pixels, before preprocessing.  labels: (n,).
    loss: (logits, labels) -> one number, or one an image, which are summed.
    """
    places: dict[int | str, Place] = {
        stage: end.register_forward_hook for stage, end in skip_connections.ends(model).items()
    }
    gradients = _gradients(model, images, labels, loss, places)
    return {where: _norms(gradients[where]) for where in [*places, "input"]}


def _norms(gradients: Tensor) -> Tensor:
    return gradients.flatten(1).norm(dim=1)  # (n, ...) -> (n,)


def _mean(gradients: Tensor) -> float:
    return _norms(gradients).mean().item()


def _places(block: Any) -> dict[str, Place]:
    """Where to hook a block: its branch, its shortcut, and what follows the sum; in an IR net nothing follows it."""
    places: dict[str, Place] = {}
    if isinstance(block, ir_resnet.Block):
        first, shortcut, places["sum"] = block.body, block.shortcut, block.register_forward_hook
    else:
        last = block.act2 if isinstance(block, BasicBlock) else block.act3
        first, shortcut, places["sum"] = block.conv1, block.downsample, last.register_forward_pre_hook
    places["branch"] = first.register_forward_pre_hook
    if shortcut is not None:
        places["skip"] = shortcut.register_forward_pre_hook
    return places


def _gradients(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    loss: Loss,
    places: Mapping[Any, Place],
    apart: Container[Any] = (),
) -> dict[Any, Tensor]:
    """The loss's gradients at what passes these places, and under "input" at the pixels, all from one pass.

    apart: places that share their input with others; each works on a copy, whose gradient is its part alone.
    """
    if not images.is_floating_point() or images.ndim != 4 or not len(images) == len(labels) > 0:
        raise ValueError(
            f"images: got {images.dtype} of shape {tuple(images.shape)} with {len(labels)} labels; give floats in [0, 1], "
            "(n, channels, height, width), with a label each"
        )
    passed: dict[Any, Tensor] = {}

    def keep(where: Any) -> Callable[..., Tensor]:
        def hook(module: nn.Module, args: tuple[Tensor], *output: Tensor) -> Tensor:
            value = output[0] if output else args[0]
            # a copy goes on in any case: what follows may write into it, as timm's ReLU does into the sum
            copied = value.clone()
            passed[where] = copied if where in apart else value
            return copied

        return hook

    handles = []
    like = next(model.parameters())
    try:
        handles = [place(keep(where)) for where, place in places.items()]
        with torch.enable_grad(), torch.random.fork_rng([like.device] if like.is_cuda else []):
            passed["input"] = images.detach().clone().to(like.device).requires_grad_()
            logits = stateless(model)(preprocessing(model)(passed["input"].to(like)))
            value = loss(logits, labels.to(like.device)).sum()
    finally:
        for handle in handles:
            handle.remove()
    gradients = torch.autograd.grad(value, [*passed.values()], allow_unused=True, materialize_grads=True)
    return dict(zip(passed, gradients, strict=True))
