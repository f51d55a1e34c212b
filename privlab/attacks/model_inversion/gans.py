"""The GANs of GMI, KEDMI and PLG-MI, trained on public images; each is kept in the run store, and goes on where it was interrupted.

GMI's and KEDMI's keep their discriminator, so that an attack can ask how real its picture looks. KEDMI's also learns to tell the target's
classes apart, from what the target says of public images, so that the generator comes to know which of their traits the target looks at.
PLG-MI's is told which class to draw: the public images that look most like it to the target have the class as a pseudo-label.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from privlab import training
from privlab.attacks.model_inversion.generators import Generator
from privlab.attacks.model_inversion.losses import max_margin, random_window
from privlab.compute import store
from privlab.models.forward import preprocessing
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled

FORMAT = 1  # raise it when the same settings begin to give another GAN
ENTROPY = 0.0064  # its weight for KEDMI's generator; their code adds it up over the 64 images of a batch, with the weight 1e-4
MARGIN = 0.2  # weight of the target's loss for PLG-MI's generator
SHARE = (0.8, 1.0)  # of a made image's area, which the target then looks at
GAN = TypeVar("GAN", bound=nn.Module)


class DCGAN(Generator):
    """Strided transposed convolutions from a latent to a square image (Radford et al. 2016) with a side of 16, 32, 64 or 128 pixels.

    channels: of the last map before the image; each earlier one has twice as many.
    """

    def __init__(self, width: int, shape: tuple[int, ...], channels: int) -> None:
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


def widths(shape: tuple[int, ...], channels: int) -> list[int]:
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


class Adversary(Generator):
    """A DCGAN with its discriminator: strided convolutions from an image in [0, 1] to logits.

    knows: how many classes the discriminator tells apart; with 0 it tells real from made and nothing else.  Else see `DCGAN`.
    """

    def __init__(self, width: int, shape: tuple[int, ...], channels: int, knows: int = 0) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        self.generator = DCGAN(width, shape, channels)
        sizes = widths(shape, channels)
        layers: list[nn.Module] = [nn.Conv2d(shape[0], sizes[0], 4, 2, 1), nn.LeakyReLU(0.2)]
        for before, after in pairwise(sizes):
            layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
        layers = [*nn.Sequential(*layers, nn.Conv2d(sizes[-1], 1, 4)).apply(small_weights)]
        self.body, self.head = nn.Sequential(*layers[:-1]), layers[-1]
        if knows:  # drawn after the other, as those of the evidence are
            self.head = nn.Conv2d(sizes[-1], knows, 4)
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

    def learning(self) -> dict[str, nn.Module]:
        return {"generator": self.generator, "discriminator": nn.ModuleList([self.body, self.head])}


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


class ConditionalDCGAN(Generator):
    """A DCGAN that draws the class it is told to.  classes: how many it knows.  Else see `DCGAN`."""

    def __init__(self, width: int, shape: tuple[int, ...], channels: int, classes: int) -> None:
        super().__init__()
        self.width, self.shape, self.classes = width, shape, classes
        sizes = widths(shape, channels)[::-1]  # 4x4, 8x8, ... maps
        first = nn.ConvTranspose2d(width, sizes[0], 4, bias=False)
        rest = [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False) for a, b in pairwise([*sizes, shape[0]])]
        self.maps = nn.ModuleList([first, *rest])
        self.norms = nn.ModuleList([ClassBatchNorm(size, classes) for size in sizes])
        self.maps.apply(small_weights)

    def synthesise(self, w: Tensor, labels: Tensor) -> Tensor:
        x = self.maps[0](w[:, :, None, None])
        for norm, grow in zip(self.norms, self.maps[1:], strict=True):
            x = grow(norm(x, labels).relu())
        return x.sigmoid()


class Projection(nn.Module):
    """Its opponent: strided convolutions to features; images (n, *shape) and classes (n,) to the logit (n,) of a real image of the class.

    The logit is a linear function of the features plus their inner product with the class's vector (Miyato and Koyama 2018); all layers
    with spectral normalisation (Miyato et al. 2018), and without BatchNorm, in place of their residual blocks.
    """

    def __init__(self, shape: tuple[int, ...], channels: int, classes: int) -> None:
        super().__init__()
        sizes = [shape[0], *widths(shape, channels)]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, 1)), nn.LeakyReLU(0.2)]
        self.body = nn.Sequential(*layers)
        self.plain = spectral_norm(nn.Linear(sizes[-1], 1))
        self.classes = spectral_norm(nn.Embedding(classes, sizes[-1]))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.body(images).sum((2, 3))  # (n, width)
        return self.plain(features)[:, 0] + (features * self.classes(labels)).sum(1)


@dataclass(frozen=True)
class GANRecipe:
    """How a GAN is trained.

    epochs: times that all images are looked at.  seed: of the weights, the order of the images, and the latents.
    width, channels: see `DCGAN`.  batch_size, lr: of Adam, for both networks, one step each a batch.
    """

    epochs: int
    seed: int
    width: int = 64
    channels: int = 32
    batch_size: int = 64
    lr: float = 2e-4

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Inside, weights are drawn from the seed; the caller's random state stays."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            yield

    def latents(self, rows: Tensor, draw: torch.Generator) -> Tensor:
        """As many as rows, on their device."""
        return torch.randn(len(rows), self.width, generator=draw).to(rows.device)

    def train(
        self, kind: str, gan: GAN, learning: Mapping[str, nn.Module],
        losses: Callable[[Tensor, torch.Generator], Iterator[Tensor]], n: int, settings: Mapping[str, Any], *,
        betas: tuple[float, float] = (0.5, 0.999), watch: Callable[[int, Any], object] | None = None, progress: bool = True,
    ) -> GAN:  # fmt: skip
        """Train a GAN on n images, once.

        kind: of the run.  gan: what is kept, on its device.  learning: "discriminator" and "generator", the networks that learn.
        losses: of a batch, by the places of its images (batch,) and where to draw from: the discriminator's, and, once its step is done,
            the generator's.  settings: what the result depends on, beside the recipe.  betas: of Adam.
        watch: called after each epoch with the number done and the GAN, in eval mode; it may raise to stop.
        """
        device = next(gan.parameters()).device
        run = store.keyed(kind, {**settings, **asdict(self)}, format=FORMAT, device=device)
        optimisers = {name: torch.optim.Adam(net.parameters(), self.lr, betas) for name, net in learning.items()}

        def step(rows: Tensor, draw: torch.Generator) -> None:
            for name, loss in zip(("discriminator", "generator"), losses(rows.to(device), draw), strict=True):
                epoch_loop.step(optimisers[name], loss)

        def learn() -> None:
            epoch_loop.train(
                learning, optimisers, step, n, epochs=self.epochs, batch_size=self.batch_size, seed=self.seed, run=run,
                title=f"GAN ({kind})", watch=(lambda done: watch(done, gan)) if watch else None, progress=progress,
            )  # fmt: skip

        epoch_loop.train_once(run, {"generator": gan}, learn)
        return gan


def gmi(images: Labelled | Tensor, recipe: GANRecipe, *, device: str = "cpu", **kept: Any) -> Adversary:
    """GMI's GAN (Zhang et al. 2020, who train a Wasserstein GAN): Goodfellow et al. 2014, with -log D for the generator.

    images: (n, channels, side, side), bytes or in [0, 1]; the side is 16, 32, 64 or 128.  recipe: of Adam with betas (0.5, 0.999).
    kept: watch and progress, see `GANRecipe.train`.
    Raises ValueError for images that are not of such a size, or fewer than a batch.
    """
    pixels = batches.pixels(images)
    epoch_loop.enough(pixels, recipe.batch_size, recipe.epochs)
    with recipe.drawing():
        gan = Adversary(recipe.width, tuple(pixels.shape[1:]), recipe.channels).to(device)
    on_device = pixels.to(device)

    def losses(rows: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        real = batches.unit(on_device[rows], torch.float32)  # (batch, channels, side, side)
        fake = gan.synthesise(recipe.latents(rows, draw))
        yield F.softplus(-gan.realism(real)).mean() + F.softplus(gan.realism(fake.detach())).mean()
        yield F.softplus(-gan.realism(fake)).mean()  # -log D(G(z))

    return recipe.train("gmi", gan, gan.learning(), losses, len(pixels), {"images": store.digest(pixels)}, **kept)


def kedmi(
    images: Labelled | Tensor, target: nn.Module, recipe: GANRecipe, *, device: str = "cpu", **kept: Any
) -> Adversary:
    """KEDMI's GAN (Chen et al. 2021), by `discriminator_loss` and `generator_loss`.  For the arguments, and errors, see `gmi`."""
    pixels = batches.pixels(images)
    epoch_loop.enough(pixels, recipe.batch_size, recipe.epochs)
    answers = training.logits(target, pixels).softmax(1).to(device)  # (n, classes)
    with recipe.drawing():
        gan = Adversary(recipe.width, tuple(pixels.shape[1:]), recipe.channels, answers.shape[1]).to(device)
    on_device = pixels.to(device)

    def losses(rows: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        real = batches.unit(on_device[rows], torch.float32)
        fake = gan.synthesise(recipe.latents(rows, draw))
        yield discriminator_loss(gan.judged(real)[0], gan.judged(fake.detach())[0], answers[rows])
        logits, features = gan.judged(fake)
        with torch.no_grad():
            public = gan.judged(real)[1]
        yield generator_loss(features, public, logits)

    of = {"images": store.digest(pixels), "entropy": ENTROPY, "target": epoch_loop.fingerprint(target)}
    return recipe.train("kedmi", gan, gan.learning(), losses, len(pixels), of, **kept)


def discriminator_loss(real: Tensor, fake: Tensor, answers: Tensor) -> Tensor:
    """KEDMI's, from logits (n, classes) of public and of made images, and the target's probabilities (n, classes) for the public ones.

    The cross-entropy to the target's answer, plus half of -log D(real) - log(1 - D(made)), D the sigmoid of the logits' log-sum-exp
    (Chen et al. 2021; Salimans et al. 2016, section 5; the half is that of both their codes).
    """
    judged = F.softplus(-real.logsumexp(1)).mean() + F.softplus(fake.logsumexp(1)).mean()
    return F.cross_entropy(real, answers) + judged / 2


def generator_loss(features: Tensor, public: Tensor, logits: Tensor) -> Tensor:
    """KEDMI's: mean absolute difference of the mean features (n, width) of made and of public images, plus the weighted mean entropy of
    the discriminator's classes for the made ones, logits (n, classes).

    Chen et al. 2021 print a squared norm; this is their code, whose entropy, too, is of the discriminator and not of the target.
    """
    unsure = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
    return (features.mean(0) - public.mean(0)).abs().mean() + ENTROPY * unsure


def plg_mi(
    images: Labelled | Tensor, target: nn.Module, recipe: GANRecipe, *, each: int, device: str = "cpu", **kept: Any
) -> ConditionalDCGAN:
    """PLG-MI's GAN (Yuan et al. 2023), on pseudo-labelled images, and against the target's max-margin loss on a crop of made images.
    (Theirs also turn, mirror and colour the images.)

    each: images of each class, see `pseudo_labels`.  Else, and for errors, see `gmi`.
    recipe: of Adam with betas (0, 0.9). A rate of 3e-3 suits some hundred steps; theirs is 2e-4 over 30,000, with five steps of the
        discriminator for one of the generator.
    """
    pixels = batches.pixels(images)
    places, labels = pseudo_labels(training.logits(target, pixels).softmax(1).cpu(), each)
    epoch_loop.enough(chosen := pixels[places], recipe.batch_size, recipe.epochs)
    shape, classes = tuple(pixels.shape[1:]), int(labels[-1]) + 1
    with recipe.drawing():
        generator = ConditionalDCGAN(recipe.width, shape, recipe.channels, classes).to(device)
        discriminator = Projection(shape, recipe.channels, classes).to(device)
    # gradients pass through a copy; the target is left as it was
    frozen, normalise = copy.deepcopy(target).to(device).eval().requires_grad_(False), preprocessing(target)
    chosen, labels = chosen.to(device), labels.to(device)

    def losses(rows: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        drawn = torch.randint(classes, (len(rows),), generator=draw).to(device)
        fake = generator.synthesise(recipe.latents(rows, draw), drawn)
        real = discriminator(batches.unit(chosen[rows], torch.float32), labels[rows])
        yield F.relu(1 - real).mean() + F.relu(1 + discriminator(fake.detach(), drawn)).mean()  # hinge: Lim and Ye 2017
        certain = max_margin(frozen(normalise(random_window(fake, SHARE, draw))), drawn).mean()
        yield MARGIN * certain - discriminator(fake, drawn).mean()

    of: dict[str, Any] = {"images": store.digest(pixels), "target": epoch_loop.fingerprint(target)}
    of |= {"each": each, "margin": MARGIN, "share": list(SHARE)}
    learning = {"generator": generator, "discriminator": discriminator}
    return recipe.train("plg_mi", generator, learning, losses, len(chosen), of, betas=(0.0, 0.9), **kept)


def pseudo_labels(answers: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Of each class the n images that the target is surest of: their places (classes x n,) and the classes, class after class.

    answers: the target's probabilities or logits (images, classes), n images or more.  An image may serve several classes.
    """
    places = answers.topk(n, dim=0).indices.T.flatten()
    return places, torch.arange(answers.shape[1], device=answers.device).repeat_interleave(n)
