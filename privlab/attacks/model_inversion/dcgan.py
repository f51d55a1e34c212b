"""A generator trained here: the DCGAN of Radford et al. 2016."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import compute
from privlab.attacks.model_inversion.generators import normal
from privlab.compute import store
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled

FORMAT = 1  # raise it when the same settings begin to give another generator


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
