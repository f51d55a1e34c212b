"""How to train, as data: the papers' recipes, and some of our own for small models."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from privlab.data.sources import nearest

_CHOICES = {
    "optimiser": ("adamw", "adam", "sgd"),
    "schedule": ("cosine", "constant", "steps"),
    "augment": ("none", "flip", "crop_flip", "resized_crop"),
    "precision": ("full", "bf16", "auto"),
}


@dataclass(frozen=True)
class Recipe:
    """How to train: all that the result depends on beside the model, the images and the seed.

    epochs: passes over the images.  batch_size: images a step.
    optimiser: "adamw" or "adam" (with `betas`) or "sgd" (with `momentum`); weight_decay falls on every parameter, as torch does it.
    lr: the highest learning rate.  schedule: "cosine" falls to 0 over the steps, "constant" stays, "steps" falls to a tenth after 75% and
    again after 90% of the epochs; see `learning_rate`.  warmup_epochs: the rate first rises linearly for so long.
    mixup, cutmix: alpha of their Beta distribution, 0 for off; with both on, each batch takes one of them by a fair coin (timm).
    label_smoothing: share of the target that is spread over all classes.
    augment: "none", "flip" (left to right, every other image), "crop_flip" (and shifted by up to 1/8 of the side, black outside),
        "resized_crop" (flip, a square of 85 to 100% of the area at full size again, torchvision's ColorJitter: how PPA trains targets).
    clip_norm: the norm that a step's gradient is cut to; None for off.
    precision: "full" computes in the weights' own float type; "bf16" takes forward and backward pass in bfloat16 (torch.autocast; weights
        and steps stay in float32); "auto" is bf16 where the device computes in it and the training allows it, see `settled`.
    Raises ValueError for a value that trains nothing or does not exist.
    """

    epochs: int
    batch_size: int = 256
    optimiser: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.05
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9
    schedule: str = "cosine"
    warmup_epochs: float = 0
    mixup: float = 0.0
    cutmix: float = 0.0
    label_smoothing: float = 0.0
    augment: str = "none"
    clip_norm: float | None = None
    precision: str = "full"

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size) < 1 or not 0 <= self.warmup_epochs < self.epochs:
            about = f"epochs={self.epochs}, batch_size={self.batch_size}, warmup_epochs={self.warmup_epochs}"
            raise ValueError(f"{about} trains nothing; give 1 or more, and a warm-up of less than all epochs")
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name}={value!r} is not known{nearest(value, [*choices])}")
        object.__setattr__(self, "betas", tuple(self.betas))

    def settings(self) -> dict[str, Any]:
        """All that a training depends on, to be kept as JSON; full precision goes without saying.  `Recipe(**settings)` undoes it."""
        return {n: value for n, value in asdict(self).items() if (n, value) != ("precision", "full")}


RECIPES: dict[str, Recipe] = {
    # Zhang et al. 2024, Table 1; it has no schedule for the second, so the rate stays. AdamW and a rate of 1e-3 are the defaults above.
    "zhang2024_membership": Recipe(
        epochs=300, batch_size=256, lr=1e-3, weight_decay=0.05, schedule="cosine", mixup=0.8, cutmix=1.0
    ),
    "zhang2024_attribute": Recipe(
        epochs=100, batch_size=256, optimiser="sgd", lr=0.01, weight_decay=5e-4, momentum=0.9, schedule="constant"
    ),
    # Ours: 2,000 images in seconds.
    "smoke": Recipe(epochs=8, batch_size=32, lr=2e-3, warmup_epochs=1),
    # Targets of model inversion. Table 12 of Koh et al. 2024 names Adam at 1e-3, MultiStepLR, 100 epochs, batches of 128, and the kinds of
    # augmentation; milestones and ranges are those of PPA's settings, which the paper says it follows, IR152's decay and momentum KEDMI's.
    "koh2024_ppa": Recipe(
        epochs=100, batch_size=128, optimiser="adam", weight_decay=0.0, schedule="steps", augment="resized_crop"
    ),
    "koh2024_ir152": Recipe(
        epochs=100, batch_size=64, optimiser="sgd", lr=0.01, weight_decay=1e-4, schedule="constant", augment="flip"
    ),
    # Ours: seven photographs each of twenty people, the same three quarters as long, and in seconds; thousands of digits in half a minute.
    "identities": Recipe(epochs=40, batch_size=20, lr=2e-3, warmup_epochs=2, augment="crop_flip"),
    "identities_laptop": Recipe(epochs=30, batch_size=20, lr=2e-3, warmup_epochs=2, augment="crop_flip"),
    "identities_smoke": Recipe(epochs=8, batch_size=10, lr=2e-3, warmup_epochs=1, augment="crop_flip"),
    "digits": Recipe(epochs=6, batch_size=64, lr=2e-3, warmup_epochs=0.5),
}


def settled(recipe: Recipe, device: str | torch.device = "cpu", defences: Sequence[Any] = ()) -> Recipe:
    """A recipe with its precision settled: "auto" becomes "bf16" or "full".

    device: it is bf16 on processors with instructions for it (avx512_bf16, AMX, ARM's) and on GPUs from Ampere on.
    defences: of the training; where one takes the steps (DP-SGD), its gradients, one an image, are in full precision.
    Raises ValueError for bf16 with a defence's own steps.
    """
    own_steps = any(each.own_steps for each in defences)
    if recipe.precision == "bf16" and own_steps:
        raise ValueError("precision='bf16': DP-SGD takes its gradients, one an image, in full; give 'full' or 'auto'")
    if recipe.precision == "auto":
        return replace(recipe, precision="bf16" if not own_steps and computes_bf16(device) else "full")
    return recipe


def computes_bf16(device: str | torch.device) -> bool:
    """Whether this kind of device has instructions for bfloat16; where it has none, autocast works and is slower than float32."""
    if torch.device(device).type == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_capability(device)[0] >= 8
    return torch.device(device).type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def learning_rate(recipe: Recipe, step: int, images: int) -> float:
    """The learning rate of one step, counted from 0 over the whole training of so many images.

    Warm-up: lr (step + 1) / w over the first w steps. Then "cosine": lr (1 + cos(pi t)) / 2, t rising from 0 at the first step to 1 just
    behind the last (Loshchilov & Hutter 2017, eq. 5, without restarts). The papers say "cosine annealing" and leave open whether by
    step or by epoch; here by step. "steps": a tenth from the epoch on that is nearest to 75% of all, a hundredth from 90%.
    """
    total = recipe.epochs * steps(recipe, images)
    warmup = round(recipe.warmup_epochs * steps(recipe, images))
    if step < warmup:
        return recipe.lr * (step + 1) / warmup
    if recipe.schedule == "constant":
        return recipe.lr
    if recipe.schedule == "steps":
        epoch = step // steps(recipe, images)
        return recipe.lr * 0.1 ** sum(epoch >= round(share * recipe.epochs) for share in (0.75, 0.9))
    return recipe.lr * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


def steps(recipe: Recipe, images: int) -> int:
    """Steps an epoch; a last batch of one image joins the one before."""
    whole, rest = divmod(images, recipe.batch_size)
    return whole + (rest > 1)
