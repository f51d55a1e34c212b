"""Lab 04: which architecture's gradient gives a photograph away to a search?"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from privlab import data, metrics
from privlab.attacks.gradient_inversion.cases import Case, searched
from privlab.experiments.protocol import Size, Values, experiment

SMALL = {"resnet": "resnet_cifar", "swin": "swin_cifar", "vit": "vit_cifar", "convnext": "convnext_cifar"}
PAPER = {"resnet": "resnet50_cifar", "swin": "swin_tiny_cifar", "convnext": "convnext_tiny_cifar"}
LARGER = {"resnet": "resnet101_cifar", "swin": "swin_small_cifar"}
FAMILIES = {"small": SMALL, "paper": PAPER, "larger": LARGER}
NARROW: dict[str, dict[str, object]] = {"resnet": dict(channels=(16, 32, 64, 128)), "vit": dict(depth=2)}


@cache
def guess(name: str = "cifar10") -> dict[str, Tensor]:
    """Pictures that look at no gradient, (1, channels, height, width) in [0, 1]: grey, and the mean of the public photographs."""
    public = data.load(name)  # the train split; photographs under attack are of the test split
    mean = (public.pixels.float() / 255).mean(0, keepdim=True)
    return {"grey": torch.full_like(mean, 0.5), "mean_photograph": mean}


@experiment(
    protocol=1,
    data=("cifar10",),
    smoke=Size(2, "small networks, 8 steps", settings=dict(networks="small", attack="annealed", steps=8, narrow=True)),
    class_=Size(8, "small networks, 200 steps", settings=dict(networks="small", attack="annealed", steps=200)),
    night=Size(
        8,
        "ResNet-50, Swin-T and ConvNeXt-T, untrained, one photograph each",
        own=True,
        settings=dict(networks="paper", attack="inverting_gradients", steps=3_000),
    ),
)
def architectures(
    repeat: int, networks: str, attack: str, steps: int, narrow: bool = False, device: str = "cpu"
) -> Values:
    """One photograph of the test split, one draw of weights for each network, the same noise to begin with."""
    photograph, _ = data.load("cifar10", "test").one(repeat)
    for name, picture in guess().items():
        yield f"psnr[cifar10, {name}]", metrics.psnr(picture, photograph).item()
        yield f"ssim[cifar10, {name}]", metrics.ssim(picture, photograph).item()
        yield f"lpips[cifar10, {name}]", metrics.lpips(picture, photograph).item()
    rows = [photograph]
    for name, network in FAMILIES[networks].items():
        changes: dict[str, object] = {"num_classes": 10, **(NARROW[name] if narrow and name in NARROW else {})}
        case = Case(network, (repeat,), attack, dict(steps=steps), changes, victim=repeat, seed=repeat)
        image = searched(case, device).images.cpu()
        rows.append(image)
        yield f"psnr[cifar10, {name}]", metrics.psnr(image, photograph).item()
        yield f"ssim[cifar10, {name}]", metrics.ssim(image, photograph).item()
        yield f"lpips[cifar10, {name}]", metrics.lpips(image, photograph).item()
        yield f"mse[cifar10, {name}]", metrics.mse(image, photograph).item()
    strip = torch.cat(rows, -1)[0].permute(1, 2, 0)  # (height, width * images, 3)
    yield "picture[photograph_and_reconstructions]", (strip * 255).round().to(torch.uint8)
