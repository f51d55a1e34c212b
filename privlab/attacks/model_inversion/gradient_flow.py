"""How gradients flow back through a network with skip connections: equation 2 of Koh et al. 2024, measured block by block.

A residual block computes z_{i+1} = z_i + g_i(z_i), so that dL/dz_i = dL/dz_{i+1} + dL/dz_{i+1} dg_i/dz_i: one part of the gradient returns
through the shortcut, the other through the branch. Here z_{i+1} is the sum itself, before the ReLU that follows it in a ResNet.
images: (n, channels, height, width) in [0, 1].  labels: (n,).  loss: (logits, labels) -> one number, or one an image, which are summed.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from timm.models.resnet import BasicBlock, Bottleneck
from torch import Tensor, nn

from privlab.attacks.model_inversion.losses import Loss
from privlab.models.forward import functional, preprocessing


@dataclass(frozen=True)
class Split:
    """One residual block; each norm is the L2 norm of an image's gradient, averaged over images."""

    block: str  # its name in the model
    arriving: float  # at the sum z_i + g_i(z_i)
    skip: float  # what of it returns to z_i through the one ...
    branch: float  # ... and the other
    total: float  # at z_i, from a pass of its own
    error: float  # L2 norm of skip + branch - total over that of total; 0 where both passes round alike


def split(model: nn.Module, images: Tensor, labels: Tensor, loss: Loss) -> list[Split]:
    """Both parts of equation 2, for each block of a timm ResNet, from the first to the last. A removed shortcut gives 0."""
    blocks: dict[str, Any] = {n: m for n, m in model.named_modules() if isinstance(m, BasicBlock | Bottleneck)}
    totals = _gradients(model, images, labels, loss, blocks)  # a pass of its own, in which nothing is taken apart
    places: dict[Any, nn.Module] = {}
    for name, block in blocks.items():
        last = block.act2 if isinstance(block, BasicBlock) else block.act3
        places |= {(name, "branch"): block.conv1, (name, "sum"): last}
        if block.downsample is not None:
            places[name, "skip"] = block.downsample
    parts, rows = _gradients(model, images, labels, loss, places), []
    for name in blocks:
        total, arriving, branch = totals[name], parts[name, "sum"], parts[name, "branch"]
        # where the shortcut is an identity there is no module to hook: its derivative is 1, its part what arrives at the sum
        skip = parts.get((name, "skip"), arriving)
        parted = {"arriving": arriving, "skip": skip, "branch": branch, "total": total}
        norms = {where: part.flatten(1).norm(dim=1).mean().item() for where, part in parted.items()}
        rows.append(Split(name, **norms, error=((skip + branch - total).norm() / total.norm()).item()))
    return rows


def input_norms(model: nn.Module, images: Tensor, labels: Tensor, loss: Loss) -> Tensor:
    """L2 norm of the loss's gradient in the pixels, before preprocessing, of each image: (n,)."""
    return _gradients(model, images, labels, loss, {})["input"].flatten(1).norm(dim=1)


def _gradients(
    model: nn.Module, images: Tensor, labels: Tensor, loss: Loss, places: Mapping[Any, nn.Module]
) -> dict[Any, Tensor]:
    """The loss's gradients at what enters these modules, each by itself, and under "input" at the pixels, all from one pass."""
    passed: dict[Any, Tensor] = {}

    def listen(where: Any) -> Callable[..., Tensor]:
        def hook(_: nn.Module, args: tuple[Tensor]) -> Tensor:
            passed[where] = args[0].clone()  # whose gradient is this module's part alone
            return passed[where].clone()  # what follows may write into it, as timm's ReLU does into the sum

        return hook

    like = next(model.parameters())
    with torch.enable_grad(), ExitStack() as hooks:
        for where, module in places.items():
            hooks.enter_context(module.register_forward_pre_hook(listen(where)))
        passed["input"] = images.detach().clone().to(like.device).requires_grad_()
        logits = functional(model)({}, preprocessing(model)(passed["input"].to(like)))
        value = loss(logits, labels.to(like.device)).sum()
    gradients = torch.autograd.grad(value, [*passed.values()], allow_unused=True, materialize_grads=True)
    return dict(zip(passed, gradients, strict=True))
