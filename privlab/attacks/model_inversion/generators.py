"""What an attacker believes images look like, learnt from public ones: from a latent to an image.

A generator has a `width` (numbers in a latent), a `shape` (channels, height, width of its images), and three methods:

    sample(n, seed) -> z (n, width)        latents as they are drawn before anything is known
    map(z)          -> w (n, width)        to the space that an attack searches in; for most generators the same
    synthesise(w)   -> images (n, *shape)  in [0, 1], differentiable in w

One that kept its discriminator has `realism(images) -> (n,)`, the logit of "real". One that is told the class to draw has
`conditional = True` and `classes`, and takes `synthesise(w, labels)`; `shown` asks either kind.

`Eigenfaces` are linear and fitted at once, `DCGAN` is trained here, `stylegan2.StyleGAN2` comes from an external checkout; the GANs of
`gans` and `conditional_gan` are trained with a target model's help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import compute
from privlab.compute import store
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled

FORMAT = 1  # raise it when the same settings begin to give another generator


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


def normal(n: int, width: int, seed: int, like: Tensor) -> Tensor:
    """Standard normal latents (n, width), drawn on the CPU so that devices agree, on the device of another tensor."""
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).to(like)


# -- a linear one ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Eigenfaces:
    """The mean image plus a weighted sum of principal components, each weighted in standard deviations (Turk and Pentland 1991).

    mean: (1, channels, height, width).  components: (width, pixels), orthonormal rows.  deviations: (width,), in pixel units.
    explained: share of the variance of the images fitted on that the components hold.
    """

    mean: Tensor = field(repr=False)
    components: Tensor = field(repr=False)
    deviations: Tensor = field(repr=False)
    explained: float

    @property
    def width(self) -> int:
        return len(self.components)

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.mean.shape[1:]
        return channels, height, width

    def to(self, device: str | torch.device) -> Eigenfaces:
        """The same on another device."""
        return Eigenfaces(self.mean.to(device), self.components.to(device), self.deviations.to(device), self.explained)

    def sample(self, n: int, seed: int) -> Tensor:
        return normal(n, self.width, seed, self.mean)

    def map(self, z: Tensor) -> Tensor:
        return z

    def synthesise(self, w: Tensor) -> Tensor:
        return (self.mean + ((w * self.deviations) @ self.components).view(-1, *self.shape)).clamp(0, 1)

    def latent(self, images: Tensor) -> Tensor:
        """The latent (n, width) whose image is nearest to each of these, (n, channels, height, width) in [0, 1]."""
        return ((images - self.mean).flatten(1) @ self.components.T) / self.deviations


def eigenfaces(images: Tensor, width: int = 100) -> Eigenfaces:
    """Fit eigenfaces to public images (n, channels, height, width) in [0, 1] or bytes; exact, and the same each time.

    width: components to keep, at most n - 1.  Raises ValueError for more.
    """
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


# -- a network trained here --------------------------------------------------------------------------------------------


class DCGAN(nn.Module):
    """Strided transposed convolutions from a latent to a square image (Radford et al. 2016), in eval mode when it is done.

    width: numbers in a latent.  shape: of its images; the side is 16, 32, 64 or 128.  channels: of the last map before the image;
    each earlier one has twice as many.
    """

    def __init__(self, width: int, shape: tuple[int, int, int], channels: int) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        sizes = [channels * 2**k for k in reversed(range(doublings(shape)))]  # 4x4, 8x8, ... maps
        layers: list[nn.Module] = [nn.ConvTranspose2d(width, sizes[0], 4, bias=False)]
        for before, after in pairwise(sizes):
            layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(sizes[-1]), nn.ReLU(), nn.ConvTranspose2d(sizes[-1], shape[0], 4, 2, 1), nn.Sigmoid()]
        self.layers = nn.Sequential(*layers)
        self.layers.apply(small_weights)

    def sample(self, n: int, seed: int) -> Tensor:
        return normal(n, self.width, seed, next(self.parameters()))

    def map(self, z: Tensor) -> Tensor:
        return z

    def synthesise(self, w: Tensor) -> Tensor:
        return self.layers(w[:, :, None, None])

    forward = synthesise


def discriminator(shape: tuple[int, int, int], channels: int) -> nn.Sequential:
    """The DCGAN's opponent: strided convolutions from an image in [0, 1] to one number, the logit of "real"."""
    sizes = [channels * 2**k for k in range(doublings(shape))]
    layers: list[nn.Module] = [nn.Conv2d(shape[0], sizes[0], 4, 2, 1), nn.LeakyReLU(0.2)]
    for before, after in pairwise(sizes):
        layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    layers += [nn.Conv2d(sizes[-1], 1, 4), nn.Flatten(0)]
    return nn.Sequential(*layers).apply(small_weights)


def dcgan(
    images: Labelled | Tensor,
    *,
    epochs: int,
    seed: int,
    width: int = 64,
    channels: int = 32,
    batch_size: int = 64,
    lr: float = 2e-4,
    device: str | torch.device = "cpu",
    root: Any = None,
    progress: bool = True,
) -> DCGAN:
    """A DCGAN trained on public images; kept in the run store and read from there the second time. It goes on where it was interrupted.

    images: (n, channels, side, side), bytes or in [0, 1]; the side is 16, 32, 64 or 128.
    epochs, batch_size, lr: Adam with betas (.5, .999) for both networks, one step each a batch, the losses of Goodfellow et al. 2014
        with -log D for the generator (Radford et al. 2016).  width, channels: see `DCGAN`.
    Raises ValueError for images that are not of such a size, or fewer than a batch.
    """
    pixels = batches.pixels(images)
    shape = epoch_loop.square(pixels, batch_size, epochs)
    config = {
        "format": FORMAT, "images": store.digest(pixels), "epochs": epochs, "seed": seed, "width": width, "channels": channels,
        "batch_size": batch_size, "lr": lr, "device": torch.device(device).type, "torch": torch.__version__,
    }  # fmt: skip
    run = compute.Run("dcgan", config, root)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        made, judge = DCGAN(width, shape, channels).to(device), discriminator(shape, channels).to(device)
    epoch_loop.kept(
        run,
        {"generator": made},
        lambda: _adversarial(made, judge, pixels.to(device), epochs, batch_size, lr, seed, run, progress),
    )
    return made


def _adversarial(
    made: DCGAN,
    judge: nn.Module,
    pixels: Tensor,
    epochs: int,
    batch_size: int,
    lr: float,
    seed: int,
    run: compute.Run,
    progress: bool,
    watch: Callable[[int], object] | None = None,
) -> None:
    """Both networks in turn, an epoch at a time."""
    networks = {"generator": made, "judge": judge}
    optimisers = {name: torch.optim.Adam(net.parameters(), lr, (0.5, 0.999)) for name, net in networks.items()}

    def step(rows: Tensor, draw: torch.Generator) -> None:
        real = batches.unit(pixels[rows.to(pixels.device)], torch.float32)  # (batch, channels, side, side)
        fake = made(torch.randn(len(rows), made.width, generator=draw).to(pixels.device))
        epoch_loop.step(optimisers["judge"], F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean())
        epoch_loop.step(optimisers["generator"], F.softplus(-judge(fake)).mean())  # -log D(G(z))

    epoch_loop.train(
        networks, optimisers, step, len(pixels), epochs=epochs, batch_size=batch_size, seed=seed, run=run, title="DCGAN", watch=watch,
        progress=progress,
    )  # fmt: skip


def doublings(shape: tuple[int, int, int]) -> int:
    """How often a map of 4x4 doubles until it has the side of the image."""
    side = shape[1]
    if shape[2] != side or side not in (16, 32, 64, 128):
        raise ValueError(f"shape={shape}: a DCGAN makes square images with a side of 16, 32, 64 or 128 pixels")
    return side.bit_length() - 3


def small_weights(module: nn.Module) -> None:
    """Radford et al. 2016: weights from N(0, .02), those of BatchNorm around 1."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
