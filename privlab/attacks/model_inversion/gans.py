"""The GANs of GMI, KEDMI and PLG-MI, and LOMMA's students, trained on public images, once; interrupted, a training goes on where it was.

GMI's and KEDMI's keep their discriminator, so that an attack can ask how real its picture looks. KEDMI's also learns from the target to
tell its classes apart. PLG-MI's is told which class to draw: public images that look most like it to the target are its pseudo-labelled.
A student answers as the target does; an attack asks it beside the target, as what convinces both shows less of the one model's quirks.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from privlab import models, training
from privlab.attacks.model_inversion.generators import Generator
from privlab.attacks.model_inversion.losses import max_margin, random_window
from privlab.compute import store
from privlab.models.forward import drawn_by, preprocessing
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled

FORMAT = 2  # raise it when the same settings begin to give another GAN
Images = Labelled | Tensor
ENTROPY = 0.0064  # its weight for KEDMI's generator; their code adds it up over the 64 images of a batch, with the weight 1e-4
MARGIN = 0.2  # weight of the target's loss for PLG-MI's generator
SHARE = (0.8, 1.0)  # of a made image's area, which the target then looks at


class DCGAN(Generator):
    """Strided transposed convolutions from a latent to a square image (Radford et al. 2016) with a side of 16, 32, 64 or 128 pixels.

    channels: of the last map before the image; each earlier one has twice as many.
    classes: how many it can be told to draw, by the scales and shifts of `ClassBatchNorm`; with 0 it is not told.
    """

    def __init__(self, width: int, shape: tuple[int, ...], channels: int, classes: int = 0) -> None:
        super().__init__()
        self.width, self.shape, self.classes = width, shape, classes
        sizes = widths(shape, channels)[::-1]  # channels of the maps of 4x4, 8x8, ...
        first = nn.ConvTranspose2d(width, sizes[0], 4, bias=False)
        grow = [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False) for a, b in pairwise(sizes)]
        last = nn.ConvTranspose2d(sizes[-1], shape[0], 4, 2, 1, bias=not classes)
        self.maps = nn.ModuleList([first, *grow, last])
        self.norms = nn.ModuleList(ClassBatchNorm(size, classes) if classes else nn.BatchNorm2d(size) for size in sizes)
        for grown, norm in zip(self.maps, self.norms, strict=False):
            small_weights(grown)
            small_weights(norm)
        small_weights(last)

    def synthesise(self, w: Tensor, *labels: Tensor) -> Tensor:
        x = self.maps[0](w[:, :, None, None])
        for norm, grow in zip(self.norms, self.maps[1:], strict=True):
            x = grow(norm(x, *labels).relu())
        return x.sigmoid()


def widths(shape: tuple[int, ...], channels: int) -> list[int]:
    """Channels of each map, from half the side of an image of this shape down to 4x4: `channels`, twice that, and so on."""
    side = shape[1]
    if shape[2] != side or side not in (16, 32, 64, 128):
        raise ValueError(f"shape={shape}: a DCGAN makes square images with a side of 16, 32, 64 or 128 pixels")
    return [channels * 2**k for k in range(side.bit_length() - 3)]


def small_weights(module: nn.Module) -> None:
    """Radford et al. 2016: weights from N(0, 0.02), those of BatchNorm around 1."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d)):
        nn.init.normal_(module.weight, float(isinstance(module, nn.BatchNorm2d)), 0.02)


class Adversary(DCGAN):
    """A DCGAN with its discriminator: strided convolutions from an image in [0, 1] to logits.

    knows: how many classes the discriminator tells apart; with 0 it tells real from made and nothing else.  Else see `DCGAN`.
    """

    def __init__(self, width: int, shape: tuple[int, ...], channels: int, knows: int = 0) -> None:
        super().__init__(width, shape, channels)
        sizes = widths(shape, channels)
        layers: list[nn.Module] = [nn.Conv2d(shape[0], sizes[0], 4, 2, 1), nn.LeakyReLU(0.2)]
        for before, after in pairwise(sizes):
            layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
        layers = [*nn.Sequential(*layers, nn.Conv2d(sizes[-1], 1, 4)).apply(small_weights)]
        self.body, self.head = nn.Sequential(*layers[:-1]), layers[-1]
        if knows:  # drawn after the other, as those of the evidence are
            self.head = nn.Conv2d(sizes[-1], knows, 4)
            nn.init.normal_(self.head.weight, 0.0, 0.02)

    def judged(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What the discriminator says of images: logits (n, 1 or knows), and its features (n, ...) just before."""
        features = self.body(images)
        return self.head(features).flatten(1), features.flatten(1)

    def realism(self, images: Tensor) -> Tensor:
        """The logit of "real", (n,): with K classes of real images, the log-sum-exp of their logits (Salimans et al. 2016, section 5)."""
        return self.judged(images)[0].logsumexp(1)

    def learning(self) -> dict[str, nn.Module]:
        """The two networks that are trained against each other."""
        generator, discriminator = nn.ModuleList([self.maps, self.norms]), nn.ModuleList([self.body, self.head])
        return {"discriminator": discriminator, "generator": generator}


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


class Projection(nn.Module):
    """PLG-MI's discriminator: images (n, *shape) and classes (n,) to the logit (n,) of a real image of the class.

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


def train(
    kind: str, gan: Any, learning: Mapping[str, nn.Module], losses: Callable[[Tensor, Tensor, torch.Generator], Iterator[Tensor]],
    pixels: Tensor, recipe: GANRecipe, settings: Mapping[str, Any], *, betas: tuple[float, float] = (0.5, 0.999),
    watch: Callable[[int, Any], object] | None = None, progress: bool = True,
) -> Any:  # fmt: skip
    """Train networks on images, once; returns the one that is kept.

    kind: of the run.  gan: what is kept, on its device.  learning: the networks that learn, by name, the discriminator first.
    losses: of a batch in [0, 1], the places of its images (batch,), and where to draw from: the discriminator's, and, once its step is
        done, the generator's.  settings: what the result depends on, beside the recipe.  betas: of Adam.
    watch: called after each epoch with the number done and the GAN, in eval mode; it may raise to stop.
    """
    epoch_loop.enough(pixels, recipe.batch_size, recipe.epochs)
    device = next(gan.parameters()).device
    run = store.Run(kind, {**settings, **asdict(recipe), **store.environment(FORMAT, device)})
    optimisers = {name: torch.optim.Adam(net.parameters(), recipe.lr, betas) for name, net in learning.items()}
    on_device = pixels.to(device)

    def step(rows: Tensor, draw: torch.Generator) -> None:
        rows = rows.to(device)
        real = batches.unit(on_device[rows], torch.float32)  # (batch, channels, side, side)
        for optimiser, loss in zip(optimisers.values(), losses(real, rows, draw), strict=True):
            epoch_loop.step(optimiser, loss)

    def learn() -> None:
        epoch_loop.train(
            learning, optimisers, step, len(pixels), epochs=recipe.epochs, batch_size=recipe.batch_size, seed=recipe.seed,
            run=run, title=kind, watch=(lambda done: watch(done, gan)) if watch else None, progress=progress,
        )  # fmt: skip

    epoch_loop.train_once(run, {"kept": gan}, learn)
    return gan


def gmi(images: Images, recipe: GANRecipe, *, device: str = "cpu", **kept: Any) -> Adversary:
    """GMI's GAN (Zhang et al. 2020, who train a Wasserstein GAN): Goodfellow et al. 2014, with -log D for the generator.

    images: (n, channels, side, side), bytes or in [0, 1]; the side is 16, 32, 64 or 128.  recipe: of Adam with betas (0.5, 0.999).
    kept: watch and progress, see `train`.
    Raises ValueError for images that are not of such a size, or fewer than a batch.
    """
    pixels = batches.pixels(images)
    with drawn_by(recipe.seed):
        gan = Adversary(recipe.width, tuple(pixels.shape[1:]), recipe.channels).to(device)

    def losses(real: Tensor, _: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        fake = gan.synthesise(torch.randn(len(real), recipe.width, generator=draw).to(real))
        yield F.softplus(-gan.realism(real)).mean() + F.softplus(gan.realism(fake.detach())).mean()
        yield F.softplus(-gan.realism(fake)).mean()  # -log D(G(z))

    return train("gmi", gan, gan.learning(), losses, pixels, recipe, {"images": store.digest(pixels)}, **kept)


def kedmi(images: Images, target: nn.Module, recipe: GANRecipe, *, device: str = "cpu", **kept: Any) -> Adversary:
    """KEDMI's GAN (Chen et al. 2021), by `discriminator_loss` and `generator_loss`.  For the arguments, and errors, see `gmi`."""
    pixels = batches.pixels(images)
    answers = training.logits(target, pixels).softmax(1).to(device)  # (n, classes)
    with drawn_by(recipe.seed):
        gan = Adversary(recipe.width, tuple(pixels.shape[1:]), recipe.channels, answers.shape[1]).to(device)

    def losses(real: Tensor, rows: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        fake = gan.synthesise(torch.randn(len(real), recipe.width, generator=draw).to(real))
        yield discriminator_loss(gan.judged(real)[0], gan.judged(fake.detach())[0], answers[rows])
        logits, features = gan.judged(fake)
        yield generator_loss(features, gan.judged(real)[1].detach(), logits)

    of = {"images": store.digest(pixels), "target": epoch_loop.fingerprint(target)}
    return train("kedmi", gan, gan.learning(), losses, pixels, recipe, of, **kept)


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
    images: Images, target: nn.Module, recipe: GANRecipe, *, each: int, device: str = "cpu", **kept: Any
) -> DCGAN:
    """PLG-MI's GAN (Yuan et al. 2023), on pseudo-labelled images, and against the target's max-margin loss on a crop of made images.

    each: images of each class, see `pseudo_labels`.  Else, and for errors, see `gmi`.
    recipe: of Adam with betas (0, 0.9). A rate of 3e-3 suits some hundred steps; theirs is 2e-4 over 30,000, with five steps of the
        discriminator for one of the generator, and they also turn, mirror and colour the images.
    """
    pixels = batches.pixels(images)
    places, labels = pseudo_labels(training.logits(target, pixels).softmax(1).cpu(), each)
    shape, classes, labels = tuple(pixels.shape[1:]), int(labels[-1]) + 1, labels.to(device)
    with drawn_by(recipe.seed):
        generator = DCGAN(recipe.width, shape, recipe.channels, classes).to(device)
        discriminator = Projection(shape, recipe.channels, classes).to(device)
    # gradients pass through a copy; the target is left as it was
    frozen, normalise = copy.deepcopy(target).to(device).eval().requires_grad_(False), preprocessing(target)

    def losses(real: Tensor, rows: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        drawn = torch.randint(classes, (len(rows),), generator=draw).to(device)
        fake = generator.synthesise(torch.randn(len(real), recipe.width, generator=draw).to(real), drawn)
        genuine = discriminator(real, labels[rows])
        # the hinge loss of Lim and Ye 2017
        yield F.relu(1 - genuine).mean() + F.relu(1 + discriminator(fake.detach(), drawn)).mean()
        certain = max_margin(frozen(normalise(random_window(fake, SHARE, draw))), drawn).mean()
        yield MARGIN * certain - discriminator(fake, drawn).mean()

    of = {"images": store.digest(pixels), "target": epoch_loop.fingerprint(target), "each": each}
    learning = {"discriminator": discriminator, "generator": generator}
    return train("plg_mi", generator, learning, losses, pixels[places], recipe, of, betas=(0.0, 0.9), **kept)


def pseudo_labels(answers: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Of each class the n images that the target is surest of: their places (classes x n,) and the classes, class after class.

    answers: the target's probabilities or logits (images, classes), n images or more.  An image may serve several classes.
    """
    places = answers.topk(n, dim=0).indices.T.flatten()
    return places, torch.arange(answers.shape[1], device=answers.device).repeat_interleave(n)


def distil(
    target: nn.Module, student: str, images: Images, *, model: Mapping[str, Any], epochs: int, seed: int,
    batch_size: int = 64, device: str = "cpu", progress: bool = True,
) -> nn.Module:  # fmt: skip
    """A student of LOMMA's (Nguyen et al. 2023, augmented models): a network of the zoo that learns to answer public images as the target.

    By the KL divergence, with Adam at a constant rate of 1e-3. It takes over the target's preprocessing and classes; it is in eval mode.
    student, model: what `zoo.build` takes: the name, and the changes.  images: public, (n, channels, height, width), bytes or in [0, 1].
    """
    pixels = batches.pixels(images)
    taught = training.logits(target, pixels).to(device)  # (n, classes)
    changes = {"num_classes": taught.shape[1], **model}
    network: Any = models.build(student, seed=seed, **changes).to(device)
    network.normalise = preprocessing(target)

    def losses(x: Tensor, rows: Tensor, _: Any) -> Iterator[Tensor]:
        pair = F.log_softmax(network(network.normalise(x)), 1), F.log_softmax(taught[rows], 1)
        yield F.kl_div(*pair, reduction="batchmean", log_target=True)

    recipe = GANRecipe(epochs, seed, batch_size=batch_size, lr=1e-3)
    of = {"images": store.digest(pixels), "target": epoch_loop.fingerprint(target), "student": [student, changes]}
    learning, betas = {"student": network}, (0.9, 0.999)
    return train("distilled", network, learning, losses, pixels, recipe, of, betas=betas, progress=progress)
