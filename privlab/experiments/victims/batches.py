"""A client's batch, its victims, GradViT with the prior at hand, and what algebra leaves open of a batch: for labs 06 to 08."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import data, models, training
from privlab.attacks.gradient_inversion import GradientMatching, Term, objectives, presets, priors, search_spaces
from privlab.attacks.gradient_inversion.label_recovery import RULES, classifier, overlap
from privlab.attacks.gradient_inversion.results import Result
from privlab.attacks.gradient_inversion.schedules import constant
from privlab.experiments.trial import Trial
from privlab.leak import Leak, observe

STDS = {"std_1": 1.0, "std_0p02": 0.02}  # of the position embedding; .02 is timm's
SCORES = "psnr fft2d lpips"  # of the paper's tables
CHANNELS = (16, 32, 64, 128)  # of the small ResNet
DLG = (Term("gradients", 1.0, objectives.squared_distance),)
CURVED = (  # Gauss-Newton's own terms; for L-BFGS the wish for smooth images fades by the clock
    Term("gradients", 1.0, objectives.relative_distance),
    Term("smoothness", 0.3, priors.squared_variation, of="images", end=1e-5),
)


def photographs(size: int, number: int, large: bool = False) -> tuple[Tensor, Tensor]:
    """A client's batch: images (size, 3, side, side) in [0, 1] and labels (size,), the smaller batches the beginning of the larger.

    From CIFAR-10's test split, of different classes up to ten; large: from the twenty ImageNet samples, 224 pixels, one after another.
    """
    if large:
        there = Trial.of(number, "imagenet_samples", range(size * number, size * (number + 1)), 224)
        return there.images, there.labels
    photos = data.load("cifar10", "test")
    drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(number)).tolist()
    first: dict[int, int] = {}
    for i in drawn[:1_000]:
        first.setdefault(int(photos.labels[i]), i)
    return photos.take([*first.values(), *(i for i in drawn[:100] if i not in first.values())][:size])


def client(repeat: int, size: int, large: bool = False, device: str = "cpu") -> Trial:
    """The batch of a repeat. Bars were set after a look at batches 0 to 43: none of them comes again."""
    return Trial(*photographs(size, 7_000 + repeat, large), number=7_000 + repeat, device=device)


def vit(number: int, std: float = 1.0, device: str = "cpu", **changes: Any) -> nn.Module:
    """A fresh ViT for 32 x 32 pixels: width 384, two blocks, patches of 8, unless `changes` say otherwise."""
    return models.april.build("b", **(dict(width=384, depth=2, position_std=std, seed=number) | changes)).to(device)


def trained(trial: Trial, name: str, images: int, epochs: int, **changes: Any) -> nn.Module:
    """A small "vit" or "resnet" that has learnt from public photographs of the trial's own, for some epochs; kept in the store."""
    draw, seed = torch.Generator().manual_seed(trial.number), trial.number
    members = torch.randperm(len(data.load("cifar10")), generator=draw)[:images]
    recipe = replace(training.RECIPES["smoke"], epochs=epochs, precision="auto")
    small = dict(channels=CHANNELS) if name == "resnet" else dict(depth=2, position_std=1.0)
    return training.victim(
        f"{name}_cifar", recipe, images=members, test=200, seed=seed, model={**small, **changes}, device=trial.device
    )[0]


def labels_read(rule: str, model: nn.Module, batches: Sequence[tuple[Tensor, Tensor]]) -> float:
    """The share of the labels of these batches (images, labels) that a rule reads off the classifier's gradient, 0 to 1."""
    names = [f"{classifier(model)}.{kind}" for kind in ("weight", "bias")]
    leaks = [replace(observe(model, *batch, names=names), labels=None) for batch in batches]
    return statistics.mean(overlap(RULES[rule](model, leak), y) for leak, (_, y) in zip(leaks, batches, strict=True))


@cache
def prior() -> nn.Module:
    return models.zoo.efficientnet_lite0()


def gradvit(steps: int, **changes: Any) -> GradientMatching:
    """GradViT without registration, its image prior fitted to EfficientNet-lite0: relative, at 64 pixels, weight 1e-4 (ours)."""
    settings: dict[str, Any] = dict(group=1, size=64, relative=True, image=1e-4)
    return presets.gradvit(steps, prior(), **(settings | changes))


def lbfgs(steps: int, terms: tuple[Term, ...] = DLG) -> GradientMatching:
    """L-BFGS, up to twenty evaluations a step."""
    return GradientMatching(terms, steps, lr=1.0, optimiser="lbfgs", schedule=constant, boxed=False)


def search(trial: Trial, attack: Any, model: nn.Module, leak: Leak | None = None, **how: Any) -> Result:
    """One search, Adam's direction by differences where they agree with the exact one; of large images two at a time."""
    if isinstance(attack, GradientMatching) and attack.optimiser == "adam":
        attack = replace(attack, derivative="auto")
    if trial.images.shape[-1] > 64:
        how["chunk"] = 2
    return trial.search(attack, model, leak, **how)


def family(
    model: nn.Module, leak: Leak, truth: Tensor, numbers: Sequence[int], noise: float | None = None
) -> tuple[search_spaces.Affine, list[Tensor], dict[str, Tensor]]:
    """What algebra leaves open of a batch, in the coordinates of public patches, starts inside it, and what it says without a search.

    numbers: seeds of the starts.  noise: how much the gradient errs beyond its format, as `closed_form.subspace` takes it.
    nearest_point: of the family to the truth, which only we can know.  guess: the likeliest point, the same for all images of the batch.
    """
    public = shrunk(data.load("cifar10").take(range(500))[0], leak.image_shape[-1])
    exact = search_spaces.family(model, leak, noise)  # type: ignore[arg-type]
    nearest = leak.normalise.inverse(exact.images(exact.begin(leak.normalise(truth.double()))))
    space = exact.expected(public)
    middle = torch.zeros(len(truth), len(space.origin), space.hidden, dtype=torch.float64)
    draws = [torch.randn(middle.shape, generator=torch.Generator().manual_seed(n), dtype=middle.dtype) for n in numbers]
    latents = [middle, *(0.3 * draw for draw in draws)]
    guess, *inside = (leak.normalise.inverse(space.images(z.to(space.origin))) for z in latents)
    starts = [start.clamp(0, 1).float() for start in inside]
    return space.to(next(model.parameters())), starts, {"nearest_point": nearest, "guess": guess}


def shrunk(images: Tensor, side: int) -> Tensor:
    return F.interpolate(images, side, mode="bilinear", antialias=True).clamp(0, 1)
