"""Students of a target model, which an attack asks beside it: what convinces all of them shows less of the one model's quirks.

LOMMA (Nguyen et al. 2023) calls them augmented models, and the trouble that they are against overfitting to the target.
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
    target: nn.Module,
    student: str,
    images: Labelled | Tensor,
    *,
    epochs: int,
    seed: int,
    model: Mapping[str, Any] | None = None,
    batch_size: int = 64,
    device: str | torch.device = "cpu",
    root: Any = None,
    progress: bool = True,
) -> nn.Module:
    """Teach a network of the zoo to answer public images as the target does; returns it in eval mode.

    It is trained once, kept in the run store, and goes on where it was interrupted. It takes over the target's preprocessing and classes.
    student, model: what `zoo.build` takes: the name, and the changes.  images: public, (n, channels, height, width), bytes or in [0, 1].
    epochs, batch_size: Adam's, at a constant rate of 1e-3.  The loss is `divergence`.
    Raises ValueError for images that the target does not take, or fewer than a batch.
    """
    pixels = batches.pixels(images)
    epoch_loop.enough(pixels, batch_size, epochs)
    normalise = preprocessing(target)
    taught = training.logits(target, pixels).to(device)  # (n, classes)
    changes = {"num_classes": taught.shape[1], **(model or {})}
    how: dict[str, Any] = {"epochs": epochs, "seed": seed, "batch_size": batch_size}
    settings = {
        "student": student,
        "changes": changes,
        **how,
        "target": epoch_loop.fingerprint(target),
        "images": store.digest(pixels),
    }
    run = store.keyed("distilled", settings, format=FORMAT, device=device, root=root)
    network: Any = models.build(student, seed=seed, **changes).to(device)
    network.normalise = normalise
    optimiser, pixels = torch.optim.Adam(network.parameters(), 1e-3), pixels.to(device)

    def step(rows: Tensor, draw: torch.Generator) -> None:
        rows = rows.to(pixels.device)
        answers = network(normalise(batches.unit(pixels[rows], torch.float32)))
        epoch_loop.step(optimiser, divergence(answers, taught[rows]))

    epoch_loop.train_once(
        run,
        {"weights": network},
        lambda: epoch_loop.train(
            {"weights": network}, {"weights": optimiser}, step, len(pixels), **how, run=run,
            title=f"{student}, taught by the target", progress=progress,
        ),
    )  # fmt: skip
    return network


def divergence(logits: Tensor, taught: Tensor) -> Tensor:
    """KL divergence of the student's answer from the teacher's, both logits (n, classes), at temperature 1; a mean over the images."""
    return F.kl_div(F.log_softmax(logits, 1), F.log_softmax(taught, 1), reduction="batchmean", log_target=True)
