"""What the experiments on batches share: a client's batch, its victims, GradViT with the prior at hand, and how good an answer is."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import data, metrics, models, training
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion.results import Result
from privlab.compute import store
from privlab.experiments.protocol import Values
from privlab.experiments.reconstruction import baselines
from privlab.leak import Leak

STDS = {"std_1": 1.0, "std_0p02": 0.02}  # scale of the position embedding; .02 is timm's
LONG = 200  # steps from which on a search keeps its checkpoints in the store
SCORES = ("psnr", "fft2d", "lpips")
CHANNELS = (16, 32, 64, 128)  # of the small ResNet


def fresh_number(repeat: int) -> int:
    """Seed of all that a repeat draws. Bars were set after a look at batches 0 to 43: none of them comes again."""
    return 7_000 + repeat


def photographs(size: int, number: int, large: bool = False) -> tuple[Tensor, Tensor]:
    """A client's batch: images (size, 3, side, side) in [0, 1] and labels (size,), the smaller batches the beginning of the larger.

    From CIFAR-10's test split, of different classes up to ten; large: from the twenty ImageNet samples, 224 pixels, each once in
    20 / size batches.
    """
    if large:
        samples = data.load("imagenet_samples")
        some = [samples.one((size * number + k) % len(samples), size=224) for k in range(size)]
        images, labels = zip(*some, strict=True)
        return torch.cat(images), torch.cat(labels)
    photos = data.load("cifar10", "test")
    drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(number)).tolist()
    first: dict[int, int] = {}
    for i in drawn[:1_000]:
        first.setdefault(int(photos.labels[i]), i)
    return photos.take([*first.values(), *(i for i in drawn[:100] if i not in first.values())][:size])


def guesses(images: Tensor) -> dict[str, Tensor]:
    """Answers that look at no gradient, shaped like `images`."""
    mean = F.interpolate(baselines()["mean_photograph"], images.shape[-2:], mode="bilinear")
    return {"grey": torch.full_like(images, 0.5), "mean_photograph": mean.expand_as(images)}


def vit(number: int, std: float = 1.0, device: str = "cpu", **changes: Any) -> nn.Module:
    """A fresh ViT for 32 x 32 pixels: width 384, two blocks, patches of 8, unless `changes` say otherwise."""
    return models.april.build("b", **(dict(width=384, depth=2, position_std=std, seed=number) | changes)).to(device)


def trained(
    name: str,
    number: int,
    images: int,
    epochs: int,
    std: float = 1.0,
    width: int = 384,
    depth: int = 2,
    device: str = "cpu",
) -> nn.Module:
    """A small "vit" or "resnet" that has learnt from public photographs of its own, for some epochs; kept in the store."""
    public = len(data.load("cifar10"))
    members = torch.randperm(public, generator=torch.Generator().manual_seed(number))[:images]
    changes = dict(channels=CHANNELS) if name == "resnet" else dict(embed_dim=width, depth=depth, position_std=std)
    recipe = replace(training.RECIPES["smoke"], epochs=epochs, precision="auto")
    with contextlib.redirect_stdout(None):  # it says whether it was trained or reused
        model, _ = training.victim(
            f"{name}_cifar", recipe, images=members, test=200, sample=200, seed=number, model=changes, device=device, progress=False
        )  # fmt: skip
    return model


@cache
def prior() -> nn.Module:
    return models.pretrained_networks.efficientnet_lite0()


def gradvit(steps: int, **changes: Any) -> gradient_inversion.GradientMatching:
    """GradViT without registration, its image prior fitted to EfficientNet-lite0: relative, at 64 pixels, weight 1e-4 (ours)."""
    settings: dict[str, Any] = dict(group=1, size=64, relative=True, image=1e-4)
    return gradient_inversion.gradvit(steps, prior(), **(settings | changes))


def search(
    attack: Any, model: nn.Module, leak: Leak, number: int, space: Any = None, start: Tensor | None = None
) -> Result:
    """One search, its direction by differences where they agree with the exact one. A long one keeps its checkpoints in the store,
    under the contents of model, leak, space and start.
    """
    if isinstance(attack, gradient_inversion.GradientMatching) and attack.optimiser == "adam":
        attack = replace(attack, derivative="auto")
    run = None
    if attack.steps >= LONG:
        given = [*([] if space is None else [space.origin, space.basis]), *([] if start is None else [start])]
        about = {
            "weights": store.digest(*model.state_dict().values()),
            "sent": store.digest(*leak.grads.values(), *([] if leak.labels is None else [leak.labels]), *given),
            "names": store.key({"names": list(leak.grads)}),
        }
        run = gradient_inversion.kept_run(attack, number, next(model.parameters()).device.type, **about)
    large = dict(chunk=2) if leak.image_shape[-1] > 64 else {}
    return attack.run(
        model, leak, seed=number, snapshots=0, store=run, progress=False, space=space, start=start, **large
    )


def scores(key: str, images: Tensor, truth: Tensor) -> Values:
    """The measures of the paper's tables, each the mean over a batch: psnr, fft2d and lpips."""
    for name in SCORES:
        yield f"{name}[{key}]", getattr(metrics, name)(images, truth).mean().item()


def blind_scores(truth: Tensor) -> Values:
    """The same of the answers that look at no gradient."""
    for name, images in guesses(truth).items():
        yield from scores(name, images, truth)
