"""GANs that keep their discriminator, so that an attack can ask how real its picture looks: those of GMI and of KEDMI.

GMI's is trained on public images alone. KEDMI's discriminator also learns to tell the target's classes apart, from what the target model
says of public images, so that the generator comes to know which of their traits the target looks at.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import compute, training
from privlab.attacks.model_inversion import dcgan
from privlab.attacks.model_inversion.dcgan import DCGAN
from privlab.compute import store
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled

FORMAT = 1  # raise it when the same settings begin to give another GAN


class Adversary(nn.Module):
    """A generator (see `generators`) with its discriminator.

    width, shape, channels: see `generators.DCGAN`.
    knows: how many classes the discriminator tells apart; with 0 it tells real from made and nothing else.
    """

    def __init__(self, width: int, shape: tuple[int, int, int], channels: int, knows: int = 0) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        self.settings = {"width": width, "shape": list(shape), "channels": channels, "knows": knows}
        self.generator = DCGAN(width, shape, channels)
        body = dcgan.discriminator(shape, channels)
        last: Any = body[-2]
        self.body, self.head = body[:-2], nn.Conv2d(last.in_channels, knows, 4) if knows else last
        if knows:
            nn.init.normal_(self.head.weight, 0.0, 0.02)

    def sample(self, n: int, seed: int) -> Tensor:
        return self.generator.sample(n, seed)

    def map(self, z: Tensor) -> Tensor:
        return z

    def synthesise(self, w: Tensor) -> Tensor:
        return self.generator.synthesise(w)

    def judged(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What the discriminator says of images: logits (n, 1 or knows), and its features (n, ...) just before."""
        features = self.body(images)
        return self.head(features).flatten(1), features.flatten(1)

    def realism(self, images: Tensor) -> Tensor:
        """The logit of "real", (n,): with K classes of real images, the log-sum-exp of their logits (Salimans et al. 2016, section 5)."""
        return self.judged(images)[0].logsumexp(1)


def gmi(
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
    watch: epoch_loop.Watch | None = None,
    progress: bool = True,
) -> Adversary:
    """GMI's GAN (Zhang et al. 2020): `generators.dcgan`, the same to the bit, with its discriminator kept. They train a Wasserstein GAN.

    watch: called after each epoch with the number done and the GAN, in eval mode; it may raise to stop. For the other arguments see there.
    """
    given = dict(epochs=epochs, seed=seed, width=width, channels=channels, batch_size=batch_size, lr=lr)
    made, run, pixels = _begun("gmi", images, given, device, root)
    judge = nn.Sequential(*made.body, made.head, nn.Flatten(0))
    epoch_loop.kept(
        run,
        {"adversary": made},
        lambda: dcgan._adversarial(
            made.generator, judge, pixels, epochs, batch_size, lr, seed, run, progress, epoch_loop.shown(watch, made)
        ),
    )
    return made


def kedmi(
    images: Labelled | Tensor,
    target: nn.Module,
    *,
    epochs: int,
    seed: int,
    entropy: float = 0.0064,
    width: int = 64,
    channels: int = 32,
    batch_size: int = 64,
    lr: float = 2e-4,
    device: str | torch.device = "cpu",
    root: Any = None,
    watch: epoch_loop.Watch | None = None,
    progress: bool = True,
) -> Adversary:
    """KEDMI's GAN (Chen et al. 2021), trained on public images and on what the target says of them; kept, and resumed, as `dcgan` is.

    entropy: weight of the entropy of the discriminator's classes in the generator's loss, `generator_loss`. Their code adds it up over
        the 64 images of a batch with the weight 1e-4, which is this one on the mean.
    For the other arguments see `generators.dcgan`, for watch `gmi`.  The discriminator's loss is `discriminator_loss`.
    Raises ValueError as `dcgan` does.
    """
    given = dict(epochs=epochs, seed=seed, width=width, channels=channels, batch_size=batch_size, lr=lr)
    pixels = batches.pixels(images)
    epoch_loop.square(pixels, batch_size, epochs)
    said = training.logits(target, pixels).softmax(1).to(device)  # (n, classes)
    told = {"entropy": entropy, "target": epoch_loop.fingerprint(target)}
    made, run, pixels = _begun("kedmi", pixels, given | told, device, root, knows=said.shape[1])
    judge = nn.ModuleList([made.body, made.head])
    networks = {"generator": made.generator, "judge": judge}
    optimisers = {name: torch.optim.Adam(net.parameters(), lr, (0.5, 0.999)) for name, net in networks.items()}

    def step(rows: Tensor, draw: torch.Generator) -> None:
        rows = rows.to(pixels.device)
        real = batches.unit(pixels[rows], torch.float32)
        fake = made.synthesise(torch.randn(len(rows), width, generator=draw).to(pixels.device))
        loss = discriminator_loss(made.judged(real)[0], made.judged(fake.detach())[0], said[rows])
        epoch_loop.step(optimisers["judge"], loss)
        logits, features = made.judged(fake)
        with torch.no_grad():
            wanted = made.judged(real)[1]
        epoch_loop.step(optimisers["generator"], generator_loss(features, wanted, logits, entropy))

    epoch_loop.kept(
        run,
        {"adversary": made},
        lambda: epoch_loop.train(
            networks, optimisers, step, len(pixels), epochs=epochs, batch_size=batch_size, seed=seed, run=run, title="KEDMI's GAN",
            watch=epoch_loop.shown(watch, made), progress=progress,
        ),
    )  # fmt: skip
    return made


def discriminator_loss(real: Tensor, fake: Tensor, said: Tensor) -> Tensor:
    """KEDMI's, from logits (n, classes) of public and of made images, and the target's probabilities (n, classes) for the public ones.

    The cross-entropy to the target's answer, plus half of -log D(real) - log(1 - D(made)), D the sigmoid of the logits' log-sum-exp
    (Chen et al. 2021; Salimans et al. 2016, section 5; the half is that of both their codes).
    """
    known = F.cross_entropy(real, said)
    return known + (F.softplus(-real.logsumexp(1)).mean() + F.softplus(fake.logsumexp(1)).mean()) / 2


def generator_loss(features: Tensor, wanted: Tensor, logits: Tensor, entropy: float) -> Tensor:
    """KEDMI's: mean absolute difference of the mean features (n, width) of made and of public images, plus the weighted mean entropy of
    the discriminator's classes for the made ones, logits (n, classes).

    Chen et al. 2021 print a squared norm; this is their code, whose entropy, too, is of the discriminator and not of the target.
    """
    unsure = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
    return (features.mean(0) - wanted.mean(0)).abs().mean() + entropy * unsure


def _begun(
    kind: str,
    images: Labelled | Tensor,
    settings: dict[str, Any],
    device: str | torch.device,
    root: Any,
    knows: int = 0,
) -> tuple[Adversary, compute.Run, Tensor]:
    """Fresh networks, where they will be kept, and the pixels, on the device."""
    pixels = batches.pixels(images)
    shape = epoch_loop.square(pixels, settings["batch_size"], settings["epochs"])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings["seed"])
        made = Adversary(settings["width"], shape, settings["channels"], knows).to(device)
    config = {
        "format": FORMAT, "images": store.digest(pixels), **settings, "device": torch.device(device).type, "torch": torch.__version__
    }  # fmt: skip
    return made, compute.Run(kind, config, root), pixels.to(device)
