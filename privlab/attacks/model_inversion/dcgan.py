"""The DCGAN of Radford et al. 2016: a generator and its opponent; `gans` trains them."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from privlab.attacks.model_inversion.generators import PlainLatents


class DCGAN(PlainLatents, nn.Module):
    """Strided transposed convolutions from a latent to a square image (Radford et al. 2016), in eval mode when it is done.

    width: numbers in a latent.  shape: of its images; the side is 16, 32, 64 or 128.  channels: of the last map before the image;
    each earlier one has twice as many.
    """

    def __init__(self, width: int, shape: tuple[int, int, int], channels: int) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        sizes = widths(shape, channels)[::-1]  # 4x4, 8x8, ... maps
        layers: list[nn.Module] = [nn.ConvTranspose2d(width, sizes[0], 4, bias=False)]
        for before, after in pairwise(sizes):
            layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(sizes[-1]), nn.ReLU(), nn.ConvTranspose2d(sizes[-1], shape[0], 4, 2, 1), nn.Sigmoid()]
        self.layers = nn.Sequential(*layers).apply(small_weights)

    def synthesise(self, w: Tensor) -> Tensor:
        return self.layers(w[:, :, None, None])


def discriminator(shape: tuple[int, int, int], channels: int) -> nn.Sequential:
    """The DCGAN's opponent: strided convolutions from an image in [0, 1] to one number, the logit of "real"."""
    sizes = widths(shape, channels)
    layers: list[nn.Module] = [nn.Conv2d(shape[0], sizes[0], 4, 2, 1), nn.LeakyReLU(0.2)]
    for before, after in pairwise(sizes):
        layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    layers += [nn.Conv2d(sizes[-1], 1, 4), nn.Flatten(0)]
    return nn.Sequential(*layers).apply(small_weights)


def widths(shape: tuple[int, int, int], channels: int) -> list[int]:
    """Channels of each map, from half the side of an image of this shape down to 4x4: `channels`, twice that, and so on."""
    side = shape[1]
    if shape[2] != side or side not in (16, 32, 64, 128):
        raise ValueError(f"shape={shape}: a DCGAN makes square images with a side of 16, 32, 64 or 128 pixels")
    return [channels * 2**k for k in range(side.bit_length() - 3)]


def small_weights(module: nn.Module) -> None:
    """Radford et al. 2016: weights from N(0, 0.02), those of BatchNorm around 1."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
