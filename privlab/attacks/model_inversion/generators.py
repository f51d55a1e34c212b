"""What an attacker believes images look like, learnt from public ones: from a latent to an image.

`Eigenfaces` are linear and fitted at once, `gans` are trained, and `StyleGAN2` comes from an external checkout.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.transforms.functional import center_crop

from privlab.training import batches


class Generator(nn.Module):
    """From a latent to an image."""

    width: int  # numbers in a latent
    shape: tuple[int, ...]  # (channels, height, width) of its images
    classes = 0  # how many it can be told to draw; 0: it is not told
    # w (n, width)[, labels (n,)] -> images (n, *shape) in [0, 1], differentiable in w
    synthesise: Callable[..., Tensor]
    realism: Callable[[Tensor], Tensor]  # images -> (n,), the logit of "real", if it kept its discriminator

    def sample(self, n: int, seed: int) -> Tensor:
        """Latents z (n, width) as they are drawn before anything is known: standard normal."""
        z = torch.randn(n, self.width, generator=torch.Generator().manual_seed(seed))  # on the CPU, so devices agree
        return z.to(next(iter(self.state_dict().values())))

    def map(self, z: Tensor) -> Tensor:
        """To the space that an attack searches in; for most generators the same."""
        return z

    def draw(self, w: Tensor, labels: Tensor) -> Tensor:
        """The images of latents w (n, width); those of these classes (n,), if it is told what to draw."""
        return self.synthesise(w, labels) if self.classes else self.synthesise(w)


class Eigenfaces(Generator):
    """The mean image plus a weighted sum of principal components (Turk and Pentland 1991); exact, and the same each time.

    images: public ones, (n, channels, height, width) in [0, 1] or bytes.  width: how many components.
    components: (width, pixels), orthonormal rows, each weighted in its deviations (width,), in pixel units.
    Raises ValueError for more components than n - 1, and for pixels out of [0, 1].
    """

    def __init__(self, images: Tensor, width: int = 100) -> None:
        super().__init__()
        batches.check_unit(images)
        rows = batches.unit(images, torch.float64).flatten(1)  # (n, pixels)
        if not 1 <= width < len(rows):
            raise ValueError(f"width={width}: {len(rows)} images have {len(rows) - 1} components; give 1 to that")
        self.width, self.shape = width, tuple(images.shape[1:])
        _, values, components = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
        deviations = (values[:width] ** 2 / (len(rows) - 1)).sqrt()
        mean = rows.mean(0).view(1, *self.shape)
        # contiguous, as it is read back from a file: products then agree to the bit
        parts = (mean, components[:width].contiguous(), deviations)
        self.mean, self.components, self.deviations = (nn.Buffer(part.float()) for part in parts)

    def synthesise(self, w: Tensor) -> Tensor:
        return (self.mean + ((w * self.deviations) @ self.components).view(-1, *self.shape)).clamp(0, 1)


class StyleGAN2(Generator):
    """The authors' StyleGAN2 (Karras et al. 2020), searched in W: one style for all layers, as in PPA (Struppek et al. 2022).

    checkout: the folder of https://github.com/NVlabs/stylegan2-ada-pytorch, whose code then runs in your process.
    network: one of the authors' files (`ffhq.pkl`). A pickle can run anything when it is opened, so take it from them alone.
    crop, resize: side of the square cut out of the middle (PPA: 800 of 1024 pixels), and to which this is resized (PPA: 224).
    Styles are pulled half-way to their mean, in every layer; PPA looks at candidates with the first 8 layers pulled and begins the search
    from that one style in all of them. Pixels may leave [0, 1]: cut off they would have no gradient.
    """

    def __init__(self, checkout: str, network: str, crop: int, resize: int) -> None:
        super().__init__()
        sys.path.insert(0, place := str(Path(checkout).expanduser().absolute()))
        try:
            with Path(network).expanduser().open("rb") as file:
                self.network: Any = importlib.import_module("legacy").load_network_pkl(file)["G_ema"]
        finally:
            sys.path.remove(place)
        self.network.eval().requires_grad_(False)
        self.width, self.shape = int(self.network.z_dim), (int(self.network.img_channels), resize, resize)
        self.crop, self.resize = crop, resize

    def extra_repr(self) -> str:
        return f"crop={self.crop}, resize={self.resize}"

    def map(self, z: Tensor) -> Tensor:
        """The styles w of latents z, (n, w_dim), pulled to the mean."""
        return self.network.mapping(z, None, truncation_psi=0.5)[:, 0]  # the rows of all layers are the same

    def synthesise(self, w: Tensor) -> Tensor:
        """The images (n, *shape) of styles (n, w_dim), with fixed noise and in float32; differentiable in w."""
        rows = w[:, None].expand(-1, self.network.num_ws, -1)  # (n, layers, w_dim)
        images = self.network.synthesis(rows, noise_mode="const", force_fp32=True) / 2 + 0.5
        images, size = center_crop(images, [self.crop]), (self.resize, self.resize)
        return F.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)
