"""What an attacker believes images look like, learnt from public ones: from a latent to an image.

`Eigenfaces` are linear and fitted at once, `gans` are trained, and `stylegan2` comes from an external checkout.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

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
        mean = rows.mean(0)
        _, values, components = torch.linalg.svd(rows - mean, full_matrices=False)
        deviations = (values[:width] ** 2 / (len(rows) - 1)).sqrt()
        # contiguous, as it is read back from a file: products then agree to the bit
        parts = (mean.view(1, *self.shape), components[:width].contiguous(), deviations)
        self.mean, self.components, self.deviations = (nn.Buffer(part.float()) for part in parts)

    def synthesise(self, w: Tensor) -> Tensor:
        return (self.mean + ((w * self.deviations) @ self.components).view(-1, *self.shape)).clamp(0, 1)
