"""Students of a target model, which an attack asks beside it: what convinces all of them shows less of the one model's quirks.

LOMMA (Nguyen et al. 2023) calls them augmented models, and what they are against overfitting to the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import models, training
from privlab.compute import store
from privlab.models.forward import preprocessing
from privlab.training import batches, epoch_loop
from privlab.training.batches import Labelled

FORMAT = 1  # raise it when the same settings begin to give another student


def distil(
    target: nn.Module, student: str, images: Labelled | Tensor, *, model: Mapping[str, Any], epochs: int, seed: int,
    batch_size: int = 64, device: str = "cpu", progress: bool = True,
) -> nn.Module:  # fmt: skip
    """Teach a network of the zoo to answer public images as the target does, by the KL divergence; returns it in eval mode.

    It is trained once by Adam, at a constant rate of 1e-3, kept in the run store, and goes on where it was interrupted. It takes over the
    target's preprocessing and classes.
    student, model: what `zoo.build` takes: the name, and the changes.  images: public, (n, channels, height, width), bytes or in [0, 1].
    """
    pixels = batches.pixels(images)
    epoch_loop.enough(pixels, batch_size, epochs)
    taught = training.logits(target, pixels).to(device)  # (n, classes)
    changes = {"num_classes": taught.shape[1], **model}
    how: dict[str, Any] = {"epochs": epochs, "seed": seed, "batch_size": batch_size}
    of = {"target": epoch_loop.fingerprint(target), "images": store.digest(pixels)}
    run = store.keyed("distilled", {"student": student, "changes": changes, **how, **of}, format=FORMAT, device=device)
    network: Any = models.build(student, seed=seed, **changes).to(device)
    network.normalise = preprocessing(target)
    optimiser, pixels = torch.optim.Adam(network.parameters(), 1e-3), pixels.to(device)

    def step(rows: Tensor, draw: torch.Generator) -> None:
        rows = rows.to(pixels.device)
        answers = network(network.normalise(batches.unit(pixels[rows], torch.float32)))
        pair = F.log_softmax(answers, 1), F.log_softmax(taught[rows], 1)
        epoch_loop.step(optimiser, F.kl_div(*pair, reduction="batchmean", log_target=True))

    def train() -> None:
        title = f"{student}, taught by the target"
        learning, rule = {"weights": network}, {"weights": optimiser}
        epoch_loop.train(learning, rule, step, len(pixels), **how, run=run, title=title, progress=progress)

    epoch_loop.train_once(run, {"weights": network}, train)
    return network
