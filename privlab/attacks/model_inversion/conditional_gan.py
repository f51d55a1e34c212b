"""A GAN that is told which class to draw, on public images that the target model takes for its own: PLG-MI (Yuan et al. 2023).

No public image shows a private class; but for each, some look to the target more like it than others. The most alike are given the class as
a pseudo-label, a conditional GAN learns them apart, and the search then stays among the images of one class.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from privlab import training
from privlab.attacks.model_inversion import dcgan, generators
from privlab.attacks.model_inversion.gan_training import GANRecipe
from privlab.attacks.model_inversion.losses import max_margin
from privlab.attacks.model_inversion.random_window import random_window
from privlab.compute import store
from privlab.models.forward import preprocessing
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled


class ClassBatchNorm(nn.Module):
    """BatchNorm of a map (n, channels, height, width) whose scale and shift belong to the class (de Vries et al. 2017)."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.plain = nn.BatchNorm2d(channels, affine=False)
        self.scale, self.shift = nn.Embedding(classes, channels), nn.Embedding(classes, channels)
        nn.init.ones_(self.scale.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        scale, shift = self.scale(labels)[:, :, None, None], self.shift(labels)[:, :, None, None]
        return scale * self.plain(x) + shift


class ConditionalDCGAN(generators.PlainLatents, nn.Module):
    """A DCGAN (see `generators`) that draws the class it is told to.

    width, shape, channels: see `dcgan.DCGAN`.  classes: how many it knows.
    """

    conditional = True

    def __init__(self, width: int, shape: tuple[int, int, int], channels: int, classes: int) -> None:
        super().__init__()
        self.width, self.shape, self.classes = width, shape, classes
        sizes = dcgan.widths(shape, channels)[::-1]  # 4x4, 8x8, ... maps
        first = nn.ConvTranspose2d(width, sizes[0], 4, bias=False)
        rest = [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False) for a, b in pairwise([*sizes, shape[0]])]
        self.maps = nn.ModuleList([first, *rest])
        self.norms = nn.ModuleList([ClassBatchNorm(size, classes) for size in sizes])
        self.maps.apply(dcgan.small_weights)

    def synthesise(self, w: Tensor, labels: Tensor) -> Tensor:
        """Images (n, *shape) of latents (n, width) in these classes (n,)."""
        x = self.maps[0](w[:, :, None, None])
        for norm, grow in zip(self.norms, self.maps[1:], strict=True):
            x = grow(norm(x, labels).relu())
        return x.sigmoid()


class Projection(nn.Module):
    """The opponent: strided convolutions to features, whose product with a vector of the class says how real an image of it they show.

    The logit is a linear function of the features plus their inner product with the class's vector (Miyato and Koyama 2018); all layers
    with spectral normalisation (Miyato et al. 2018), and without BatchNorm, in place of their residual blocks.
    """

    def __init__(self, shape: tuple[int, int, int], channels: int, classes: int) -> None:
        super().__init__()
        sizes = [shape[0], *dcgan.widths(shape, channels)]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, 1)), nn.LeakyReLU(0.2)]
        self.body = nn.Sequential(*layers)
        self.plain = spectral_norm(nn.Linear(sizes[-1], 1))
        self.classes = spectral_norm(nn.Embedding(classes, sizes[-1]))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.body(images).sum((2, 3))  # (n, width)
        return self.plain(features)[:, 0] + (features * self.classes(labels)).sum(1)


def pseudo_labels(answers: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Of each class the n images that the target is surest of: their places (classes x n,) and the classes, class after class.

    answers: the target's probabilities or logits (images, classes).  An image may serve several classes.
    Raises ValueError for more images than there are.
    """
    if not 1 <= n <= len(answers):
        raise ValueError(f"n={n} images of each class: there are {len(answers)}; give 1 to that")
    places = answers.topk(n, dim=0).indices.T.flatten()
    return places, torch.arange(answers.shape[1], device=answers.device).repeat_interleave(n)


def hinge(real: Tensor, fake: Tensor) -> Tensor:
    """The discriminator's loss, from logits (n,) of real and of made images: 0 once they are beyond 1 and -1 (Lim and Ye 2017)."""
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def plg_mi(
    images: Labelled | Tensor,
    target: nn.Module,
    recipe: GANRecipe,
    *,
    each: int = 30,
    margin: float = 0.2,
    share: tuple[float, float] = (0.8, 1.0),
    device: str | torch.device = "cpu",
    **kept: Any,
) -> ConditionalDCGAN:
    """PLG-MI's GAN (Yuan et al. 2023), trained on pseudo-labelled public images; kept, and resumed, as `gans.gmi` is.

    images: public, (n, channels, side, side), bytes or in [0, 1].  target: is asked for the pseudo-labels, and of each made image.
    recipe: of Adam with betas (0, 0.9). A rate of 3e-3 suits some hundred steps; theirs is 2e-4 over 30,000, with five steps of the
        discriminator for one of the generator.
    each: images of each class, see `pseudo_labels`.  margin: weight of the target's max-margin loss on a crop of made images in the
        generator's loss, the crop being of so large a `share` of the area. Theirs also turn, mirror and colour the images.
    kept: root, watch and progress, see `GANRecipe.train`.
    Raises ValueError as `gans.gmi` and `pseudo_labels` do.
    """
    pixels = batches.pixels(images)
    shape = generators.shape_of(pixels)
    places, labels = pseudo_labels(training.logits(target, pixels).softmax(1).cpu(), each)
    epoch_loop.enough(chosen := pixels[places], recipe.batch_size, recipe.epochs)
    classes = int(labels[-1]) + 1

    def networks() -> tuple[ConditionalDCGAN, Projection]:
        made = ConditionalDCGAN(recipe.width, shape, recipe.channels, classes).to(device)
        return made, Projection(shape, recipe.channels, classes).to(device)

    generator, discriminator = recipe.build(networks)
    # gradients pass through a copy; the target is left as it was
    frozen = copy.deepcopy(target).to(device).eval().requires_grad_(False)
    normalise = preprocessing(target)
    chosen, labels = chosen.to(device), labels.to(device)

    def losses(rows: Tensor, draw: torch.Generator) -> Iterator[tuple[str, Tensor]]:
        rows = rows.to(device)
        drawn = torch.randint(classes, (len(rows),), generator=draw).to(device)
        fake = generator.synthesise(torch.randn(len(rows), recipe.width, generator=draw).to(device), drawn)
        real = batches.unit(chosen[rows], torch.float32)
        yield "discriminator", hinge(discriminator(real, labels[rows]), discriminator(fake.detach(), drawn))
        certain = max_margin(frozen(normalise(random_window(fake, share, draw))), drawn).mean()
        yield "generator", margin * certain - discriminator(fake, drawn).mean()

    settings: dict[str, Any] = {"images": store.digest(pixels), "target": epoch_loop.fingerprint(target)}
    settings |= {"each": each, "margin": margin, "share": list(share)}
    return recipe.train("plg_mi", generator, discriminator, losses, len(chosen), settings, betas=(0.0, 0.9), **kept)
