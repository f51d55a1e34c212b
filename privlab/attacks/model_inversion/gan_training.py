"""What all trainings of GANs share: a recipe, and one function that lowers two losses in turn and keeps what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from privlab.compute import store
from privlab.training import epoch_loop

FORMAT = 1  # raise it when the same settings begin to give another GAN

Networks = TypeVar("Networks")
GAN = TypeVar("GAN", bound=nn.Module)
# of a batch, by the places of its images (batch,) and where to draw from: "discriminator" and its loss, then "generator" and its loss
Losses = Callable[[Tensor, torch.Generator], Iterator[tuple[str, Tensor]]]


@dataclass(frozen=True)
class GANRecipe:
    """How a GAN is trained.

    epochs: times that all images are looked at.  seed: of the weights, the order of the images, and the latents.
    width: numbers in a latent.  channels: of the generator's last map before the image; each earlier one has twice as many.
    batch_size, lr: of Adam, for both networks, one step each a batch.
    """

    epochs: int
    seed: int
    width: int = 64
    channels: int = 32
    batch_size: int = 64
    lr: float = 2e-4

    def build(self, make: Callable[[], Networks]) -> Networks:
        """What `make` gives, its weights drawn from the seed; the caller's random state stays."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            return make()

    def train(
        self, kind: str, gan: GAN, discriminator: nn.Module, losses: Losses, n: int, settings: Mapping[str, Any], *,
        betas: tuple[float, float] = (0.5, 0.999), root: Any = None, watch: Callable[[int, Any], object] | None = None,
        progress: bool = True,
    ) -> GAN:  # fmt: skip
        """Train a GAN by its losses on n images, once: kept in the run store, read from there the second time, resumed where interrupted.

        kind: of the run.  gan: what is kept, on its device; its generator learns, which is all of it if it has no part of that name.
        losses: see `Losses`; each is computed when the step before is done.  settings: what the result depends on, beside the recipe.
        betas: of Adam.  root: of the store.  watch: called after each epoch with the number done and the GAN, in eval mode; it may raise to
            stop.
        """
        device = next(gan.parameters()).device
        run = store.keyed(kind, {**settings, **asdict(self)}, format=FORMAT, device=device, root=root)
        networks: dict[str, nn.Module] = {"generator": getattr(gan, "generator", gan), "discriminator": discriminator}
        optimisers = {name: torch.optim.Adam(net.parameters(), self.lr, betas) for name, net in networks.items()}

        def step(rows: Tensor, draw: torch.Generator) -> None:
            for name, loss in losses(rows, draw):
                epoch_loop.step(optimisers[name], loss)

        epoch_loop.train_once(
            run,
            {"generator": gan},
            lambda: epoch_loop.train(
                networks, optimisers, step, n, epochs=self.epochs, batch_size=self.batch_size, seed=self.seed, run=run,
                title=f"GAN ({kind})", watch=None if watch is None else partial(_called, watch, gan), progress=progress,
            ),
        )  # fmt: skip
        return gan


def _called(watch: Callable[[int, Any], object], gan: nn.Module, done: int) -> None:
    watch(done, gan)
