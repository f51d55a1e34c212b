"""GANs that keep their discriminator, so that an attack can ask how real its picture looks: those of GMI and of KEDMI.

GMI's is trained on public images alone. KEDMI's discriminator also learns to tell the target's classes apart, from what the target model
says of public images, so that the generator comes to know which of their traits the target looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import training
from privlab.attacks.model_inversion import dcgan, generators
from privlab.attacks.model_inversion.gan_training import GANRecipe
from privlab.attacks.model_inversion.generators import PlainLatents
from privlab.compute import store
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled


class Adversary(PlainLatents, nn.Module):
    """A generator (see `generators`) with its discriminator.

    width, shape, channels: see `dcgan.DCGAN`.
    knows: how many classes the discriminator tells apart; with 0 it tells real from made and nothing else.
    """

    def __init__(self, width: int, shape: tuple[int, int, int], channels: int, knows: int = 0) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        self.generator = dcgan.DCGAN(width, shape, channels)
        body = dcgan.discriminator(shape, channels)
        last: Any = body[-2]
        self.body, self.head = body[:-2], nn.Conv2d(last.in_channels, knows, 4) if knows else last
        if knows:
            nn.init.normal_(self.head.weight, 0.0, 0.02)

    def synthesise(self, w: Tensor) -> Tensor:
        return self.generator.synthesise(w)

    def judged(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What the discriminator says of images: logits (n, 1 or knows), and its features (n, ...) just before."""
        features = self.body(images)
        return self.head(features).flatten(1), features.flatten(1)

    def realism(self, images: Tensor) -> Tensor:
        """The logit of "real", (n,): with K classes of real images, the log-sum-exp of their logits (Salimans et al. 2016, section 5)."""
        return self.judged(images)[0].logsumexp(1)


def gmi(images: Labelled | Tensor, recipe: GANRecipe, *, device: str | torch.device = "cpu", **kept: Any) -> Adversary:
    """A DCGAN with its discriminator, trained on public images: GMI's GAN (Zhang et al. 2020, who train a Wasserstein GAN).

    Its losses are those of Goodfellow et al. 2014, with -log D for the generator (Radford et al. 2016).
    It is kept in the run store and read from there the second time, and goes on where it was interrupted.
    images: (n, channels, side, side), bytes or in [0, 1]; the side is 16, 32, 64 or 128.  recipe: of Adam with betas (0.5, 0.999).
    kept: root, watch and progress, see `GANRecipe.train`.
    Raises ValueError for images that are not of such a size, or fewer than a batch.
    """
    pixels = batches.pixels(images)
    epoch_loop.enough(pixels, recipe.batch_size, recipe.epochs)
    shape = generators.shape_of(pixels)
    gan = recipe.build(lambda: Adversary(recipe.width, shape, recipe.channels).to(device))
    discriminator, on_device = nn.Sequential(*gan.body, gan.head, nn.Flatten(0)), pixels.to(device)

    def losses(rows: Tensor, draw: torch.Generator) -> Iterator[tuple[str, Tensor]]:
        real = batches.unit(on_device[rows.to(device)], torch.float32)  # (batch, channels, side, side)
        fake = gan.synthesise(torch.randn(len(rows), recipe.width, generator=draw).to(device))
        loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
        yield "discriminator", loss
        yield "generator", F.softplus(-discriminator(fake)).mean()  # -log D(G(z))

    return recipe.train("gmi", gan, discriminator, losses, len(pixels), {"images": store.digest(pixels)}, **kept)


def kedmi(
    images: Labelled | Tensor,
    target: nn.Module,
    recipe: GANRecipe,
    *,
    entropy: float = 0.0064,
    device: str | torch.device = "cpu",
    **kept: Any,
) -> Adversary:
    """KEDMI's GAN (Chen et al. 2021), trained on public images and on what the target says of them; kept, and resumed, as `gmi` is.

    entropy: weight of the entropy of the discriminator's classes in the generator's loss, `generator_loss`. Their code adds it up over
        the 64 images of a batch with the weight 1e-4, which is this one on the mean.
    For the other arguments, and errors, see `gmi`.  The discriminator's loss is `discriminator_loss`.
    """
    pixels = batches.pixels(images)
    epoch_loop.enough(pixels, recipe.batch_size, recipe.epochs)
    shape = generators.shape_of(pixels)
    answers = training.logits(target, pixels).softmax(1).to(device)  # (n, classes)
    gan = recipe.build(lambda: Adversary(recipe.width, shape, recipe.channels, answers.shape[1]).to(device))
    on_device = pixels.to(device)

    def losses(rows: Tensor, draw: torch.Generator) -> Iterator[tuple[str, Tensor]]:
        rows = rows.to(device)
        real = batches.unit(on_device[rows], torch.float32)
        fake = gan.synthesise(torch.randn(len(rows), recipe.width, generator=draw).to(device))
        yield "discriminator", discriminator_loss(gan.judged(real)[0], gan.judged(fake.detach())[0], answers[rows])
        logits, features = gan.judged(fake)
        with torch.no_grad():
            public = gan.judged(real)[1]
        yield "generator", generator_loss(features, public, logits, entropy)

    settings = {"images": store.digest(pixels), "entropy": entropy, "target": epoch_loop.fingerprint(target)}
    return recipe.train("kedmi", gan, nn.ModuleList([gan.body, gan.head]), losses, len(pixels), settings, **kept)


def discriminator_loss(real: Tensor, fake: Tensor, answers: Tensor) -> Tensor:
    """KEDMI's, from logits (n, classes) of public and of made images, and the target's probabilities (n, classes) for the public ones.

    The cross-entropy to the target's answer, plus half of -log D(real) - log(1 - D(made)), D the sigmoid of the logits' log-sum-exp
    (Chen et al. 2021; Salimans et al. 2016, section 5; the half is that of both their codes).
    """
    judged = F.softplus(-real.logsumexp(1)).mean() + F.softplus(fake.logsumexp(1)).mean()
    return F.cross_entropy(real, answers) + judged / 2


def generator_loss(features: Tensor, public: Tensor, logits: Tensor, entropy: float) -> Tensor:
    """KEDMI's: mean absolute difference of the mean features (n, width) of made and of public images, plus the weighted mean entropy of
    the discriminator's classes for the made ones, logits (n, classes).

    Chen et al. 2021 print a squared norm; this is their code, whose entropy, too, is of the discriminator and not of the target.
    """
    unsure = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
    return (features.mean(0) - public.mean(0)).abs().mean() + entropy * unsure
