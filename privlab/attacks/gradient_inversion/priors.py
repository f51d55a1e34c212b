"""What an attack assumes about images: each a function (normalised images, their gradients, leak) -> scalar that needs no gradients.

Norms are taken over the whole batch, as the papers do; where one is zero, its gradient is zero too.
"""

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self
from zlib import crc32

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.linalg import vector_norm

from privlab.leak import Leak
from privlab.models.forward import RightGradients, functional, preprocessing


def total_variation(images: Tensor, *_: object) -> Tensor:
    """Mean absolute difference between neighbouring pixels, down and across added (Geiping et al. 2020, eq. 4)."""
    return images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()


def total_variation_norm(images: Tensor, *_: object) -> Tensor:
    """Euclidean norms of the differences between neighbours, added: across, down and along both diagonals.

    As in DeepInversion, GradInversion (Yin et al. 2020, 2021) and GradViT (Hatamizadeh et al. 2022, eq. 11).
    """
    falling = images[..., 1:, 1:] - images[..., :-1, :-1]
    rising = images[..., 1:, :-1] - images[..., :-1, 1:]
    return torch.stack([vector_norm(d) for d in (images.diff(dim=-1), images.diff(dim=-2), falling, rising)]).sum()


def squared_variation(images: Tensor, *_: object) -> Tensor:
    """Mean squared difference between neighbouring pixels, down and across added."""
    return torch.stack([part.square().sum() for part in neighbours(images)]).sum()


def neighbours(images: Tensor) -> list[Tensor]:
    """What `squared_variation` squares and adds up: differences across and down, each over the root of their number."""
    return [d / d.numel() ** 0.5 for d in (images.diff(dim=-1), images.diff(dim=-2))]


def pixel_norm(images: Tensor, *_: object) -> Tensor:
    """L2 norm of the normalised batch, not squared (Yin et al. 2020; Hatamizadeh et al. 2022, eq. 11)."""
    return vector_norm(images)


@dataclass(frozen=True)
class PatchJoints:
    """Sum over the joints between rows and columns of patches of the L2 norm of the jump across (Hatamizadeh et al. 2022, eq. 8).

    patch: pixels a side, or (down, across); read from the model by `prepare` if not given, which raises ValueError where there is none.
    """

    patch: int | tuple[int, int] | None = None

    def __call__(self, images: Tensor, *_: object) -> Tensor:
        down, across = (self.patch, self.patch) if isinstance(self.patch, int) else self.patch or (0, 0)
        rows = images[:, :, down::down] - images[:, :, down - 1 : -1 : down]  # (batch, channels, joints, width)
        columns = images[..., across::across] - images[..., across - 1 : -1 : across]  # (..., height, joints)
        return vector_norm(rows, dim=(0, 1, 3)).sum() + vector_norm(columns, dim=(0, 1, 2)).sum()

    def prepare(self, model: nn.Module, leak: Leak) -> "PatchJoints":
        patch: Any = self.patch or getattr(getattr(model, "patch_embed", None), "patch_size", None)
        if patch is None:
            raise ValueError(f"patch=None: {type(model).__name__} has no patches; give their side in pixels, such as 8")
        return PatchJoints(patch if isinstance(patch, int) else tuple(patch))


@dataclass(frozen=True, repr=False)
class BatchNormStatistics:
    """How far the images' statistics are from those that a network was trained on (Hatamizadeh et al. 2022, eq. 4).

    Over the BatchNorm2d layers, the sum of two L2 norms: of (mean over batch and map of what enters - running mean) and of (variance -
    running variance), each a vector of channels. The variance divides by the number of values: our choice, the paper does not say.

    network: trained, with BatchNorm2d layers; a copy is taken, in eval mode. GradViT's is not the victim, see `zoo.efficientnet_lite0`.
    size: resize the images to so many pixels a side first, bilinearly.
    relative: count means in units of the running deviation and variances in units of the running variance: these differ a thousandfold
        between networks, and a weight that fits one of them fits no other. The papers do not.
    Images come as the victim takes them; grey ones are repeated over channels.  Raises ValueError for a network without such layers.
    """

    network: nn.Module
    size: int | None = None
    relative: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", copy.deepcopy(self.network).eval().requires_grad_(False))
        if not self._layers():
            raise ValueError("network: has no BatchNorm2d with running statistics; try zoo.efficientnet_lite0()")

    def __call__(self, images: Tensor, _: object, leak: Leak) -> Tensor:
        pixels, normalise = leak.normalise.inverse(images), preprocessing(self.network)
        x = normalise(pixels.expand(-1, len(normalise.mean), -1, -1) if pixels.shape[1] == 1 else pixels)
        if self.size is not None:
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=True)
        gaps: list[Tensor] = []

        def compare(layer: Any, entering: tuple[Tensor]) -> None:
            variance, mean = torch.var_mean(entering[0], dim=(0, 2, 3), correction=0)  # (channels,) each
            unit = layer.running_var + layer.eps if self.relative else torch.ones_like(layer.running_var)
            gaps.append(vector_norm((mean - layer.running_mean) / unit.sqrt()))
            gaps.append(vector_norm((variance - layer.running_var) / unit))

        with RightGradients(), ExitStack() as hooks:
            for layer in self._layers():
                hooks.enter_context(layer.register_forward_pre_hook(compare))
            self.network(x)
        return torch.stack(gaps).sum()

    def prepare(self, model: nn.Module, leak: Leak) -> Self:
        own = replace(self)
        own.network.to(next(model.parameters()))
        return own

    def _layers(self) -> list[Any]:
        return [m for m in self.network.modules() if isinstance(m, nn.BatchNorm2d) and m.running_mean is not None]

    def __repr__(self) -> str:
        size = "" if self.size is None else f", size={self.size}"
        statistics = torch.cat([x.flatten().float() for y in self._layers() for x in (y.running_mean, y.running_var)])
        which = f"#{crc32(statistics.cpu().numpy().tobytes()):08x}"  # tells two networks of one shape apart
        what = f"{type(self.network).__name__} {which} of {len(self._layers())} layers"
        return f"BatchNormStatistics({what}{size}{', relative' * self.relative})"


@dataclass(frozen=True)
class Classification:
    """Cross-entropy of the victim's logits on the images against the leak's labels: DeepInversion's objective (Yin et al. 2020)."""

    def prepare(self, model: nn.Module, leak: Leak) -> Callable[..., Tensor]:
        if leak.labels is None:
            raise ValueError("leak.labels=None, and Classification() needs to know what to look for; give a rule")
        labels, forward = leak.labels, partial(functional(model), {})
        return lambda images, *_: F.cross_entropy(forward(images), labels.to(images.device))


@dataclass(frozen=True)
class Registration:
    """How far each of several searches is from what they agree on (Hatamizadeh et al. 2022, eqs. 9 and 10).

    Every member is aligned to the pixelwise mean of all, image by image; the consensus is the mean of the aligned members; the value
    is each member's L2 distance to it, over its whole batch. Gradients reach the images through the member and through the consensus: the
    paper does not say whether.

    align: "shift", by whole pixels: cross-correlation of the means over channels; "none". The paper aligns with RANSAC-Flow.
    Called with images (group, batch, channels, height, width); returns (group,).
    """

    align: Literal["shift", "none"] = "shift"

    def __call__(self, images: Tensor, *_: object) -> Tensor:
        consensus = self.aligned(images).mean(0)  # (batch, channels, height, width), eq. 9
        return vector_norm(images - consensus, dim=(1, 2, 3, 4))  # eq. 10

    def aligned(self, images: Tensor) -> Tensor:
        """The members (group, batch, channels, height, width), each moved to where it fits their mean best."""
        if self.align == "none" or not images.isfinite().all():
            return images
        grey = images.detach().mean(2).double().cpu()  # (group, batch, height, width)
        shifts = [_shift(member, target) for each in grey for member, target in zip(each, grey.mean(0), strict=True)]
        return _shifted(images.flatten(0, 1), torch.stack(shifts).to(images)).view_as(images)


def _shift(moving: Tensor, target: Tensor) -> Tensor:
    """(2,): how many pixels down and across to look in `moving` for what `target` has; both (height, width)."""
    from skimage.registration import phase_cross_correlation  # not at the top: few searches need it

    if moving.std() == 0 or target.std() == 0:  # nothing to hold on to
        return torch.zeros(2, dtype=torch.float64)
    # not normalised to phases, which noise would decide; what was at x belongs at x + shift
    shift, _, _ = phase_cross_correlation(target.numpy(), moving.numpy(), normalization=None)
    return -torch.as_tensor(shift, dtype=torch.float64)


def _shifted(images: Tensor, shifts: Tensor) -> Tensor:
    """images (n, channels, height, width) seen through shifts (n, 2) in pixels; beyond the border, the border."""
    height, width = images.shape[-2:]
    rows = torch.arange(height).to(shifts) + shifts[:, :1]  # (n, height)
    columns = torch.arange(width).to(shifts) + shifts[:, 1:]  # (n, width)
    across, down = 2 * columns / max(width - 1, 1) - 1, 2 * rows / max(height - 1, 1) - 1
    grid = torch.stack(torch.broadcast_tensors(across[:, None, :], down[:, :, None]), dim=-1)  # (n, height, width, 2)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)
