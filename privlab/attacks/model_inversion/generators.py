"""What an attacker believes images look like, learnt from public ones: from a latent to an image.

A generator has a `width` (numbers in a latent), a `shape` (channels, height, width of its images), and three methods:

    sample(n, seed) -> z (n, width)        latents as they are drawn before anything is known
    map(z)          -> w (n, width)        to the space that an attack searches in; for most generators the same
    synthesise(w)   -> images (n, *shape)  in [0, 1], differentiable in w

One that kept its discriminator has `realism(images) -> (n,)`, the logit of "real". One that is told the class to draw has
`conditional = True` and `classes`, and takes `synthesise(w, labels)`; `shown` asks either kind. All are modules, and print all that they
are beside their weights.

`Eigenfaces` are linear and fitted at once, `dcgan.DCGAN` is trained, `stylegan2.StyleGAN2` comes from an external checkout; the GANs of
`gans` and `conditional_gan` are trained with a target model's help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from privlab.training import batches


class Generator(Protocol):
    """From a latent to an image; see the head of this file."""

    @property
    def width(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int, int]: ...

    def sample(self, n: int, seed: int) -> Tensor: ...

    def map(self, z: Tensor) -> Tensor: ...

    @property
    def synthesise(self) -> Callable[..., Tensor]: ...


def shown(generator: Generator, w: Tensor, labels: Tensor) -> Tensor:
    """The images of latents w (n, width); those of these classes (n,), if the generator is told what to draw."""
    return generator.synthesise(w, labels) if getattr(generator, "conditional", False) else generator.synthesise(w)


def shape_of(pixels: Tensor) -> tuple[int, int, int]:
    """(channels, height, width) of images (n, channels, height, width)."""
    channels, height, width = pixels.shape[1:]
    return int(channels), int(height), int(width)


def normal(n: int, width: int, seed: int, like: Tensor) -> Tensor:
    """Standard normal latents (n, width), drawn on the CPU so that devices agree, on the device of another tensor."""
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).to(like)


class PlainLatents:
    """For modules that are searched in the space that they draw from."""

    width: int

    def sample(self: Any, n: int, seed: int) -> Tensor:
        return normal(n, self.width, seed, next(iter(self.state_dict().values())))

    def map(self, z: Tensor) -> Tensor:
        return z


class Eigenfaces(PlainLatents, nn.Module):
    """The mean image plus a weighted sum of principal components, each weighted in standard deviations (Turk and Pentland 1991).

    mean: (1, channels, height, width).  components: (width, pixels), orthonormal rows.  deviations: (width,), in pixel units.
    explained: share of the variance of the images fitted on that the components hold.
    """

    mean: Tensor
    components: Tensor
    deviations: Tensor

    def __init__(self, mean: Tensor, components: Tensor, deviations: Tensor, explained: float) -> None:
        super().__init__()
        self.width, self.shape = len(components), shape_of(mean)
        self.explained = explained
        for name, tensor in {"mean": mean, "components": components, "deviations": deviations}.items():
            self.register_buffer(name, tensor)

    def extra_repr(self) -> str:
        return f"explained={self.explained}"

    def synthesise(self, w: Tensor) -> Tensor:
        return (self.mean + ((w * self.deviations) @ self.components).view(-1, *self.shape)).clamp(0, 1)


def eigenfaces(images: Tensor, width: int = 100) -> Eigenfaces:
    """Fit eigenfaces to public images (n, channels, height, width) in [0, 1] or bytes; exact, and the same each time.

    width: components to keep, at most n - 1.  Raises ValueError for more, and for pixels out of [0, 1].
    """
    batches.check_unit(images)
    rows = batches.unit(images, torch.float64).flatten(1)  # (n, pixels)
    if not 1 <= width < len(rows):
        raise ValueError(f"width={width}: {len(rows)} images have {len(rows) - 1} principal components; give 1 to that")
    mean = rows.mean(0)
    _, values, components = torch.linalg.svd(rows - mean, full_matrices=False)
    variances = values**2 / (len(rows) - 1)
    if variances[width - 1] <= 1e-12 * variances[0]:
        raise ValueError(f"width={width}: these images vary in fewer directions than that; give fewer components")
    return Eigenfaces(
        mean.float().view(1, *images.shape[1:]),
        components[:width].float().contiguous(),  # as it is read back from a file: products then agree to the bit
        variances[:width].sqrt().float(),
        (variances[:width].sum() / variances.sum()).item(),
    )
