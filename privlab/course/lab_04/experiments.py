"""Lab 04: which architecture's gradient gives a photograph away to a search, and what else decides?

A repeat has one photograph that no baseline and no victim has seen, one draw of weights for each network, and one noise to begin with.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from privlab import data, metrics
from privlab.attacks.gradient_inversion import GaussNewton, label_recovery, presets
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.trial import Trial, relative_residual, tiled
from privlab.experiments.victims.batches import labels_read
from privlab.experiments.victims.designs import matching

SMALL = {"resnet": "resnet_cifar", "swin": "swin_cifar", "vit": "vit_cifar", "convnext": "convnext_cifar"}
IMAGENET = {"resnet": "resnet50", "swin": "swin_tiny_patch4_window7_224"}
IMAGENET |= {"resnet_101": "resnet101", "swin_s": "swin_small_patch4_window7_224"}
NETWORKS = {
    "small": SMALL,
    "pair": {"resnet_101": "resnet_cifar", "swin_s": "swin_cifar"},
    "paper": {"resnet": "resnet50_cifar", "swin": "swin_tiny_cifar", "convnext": "convnext_tiny_cifar"},
    "larger": {"resnet_101": "resnet101_cifar", "swin_s": "swin_small_cifar"},
}
NARROW: dict[str, Settings] = {"resnet_cifar": dict(channels=(16, 32, 64, 128)), "vit_cifar": dict(depth=2)}
QUICK: Settings = dict(attack="annealed", steps=8, narrow=True)
SHORT: Settings = dict(attack="annealed", steps=120)
LONG: dict[str, Any] = dict(attack="inverting_gradients", steps=3_000)
FEW = "small untrained networks (0.3 to 7 M parameters), 8 steps"
SOME = "small untrained networks (0.3 to 7 M parameters), 120 steps of a shorter attack"
FULL = "ResNet-50, Swin-T and ConvNeXt-T, untrained, "
ALL = "psnr ssim lpips mse"


def victim(trial: Trial, network: str, narrow: bool, **changes: Any) -> Any:
    """An untrained network of this repeat."""
    return trial.network(network, **(NARROW.get(network, {}) if narrow else {}), **changes)


@experiment("gradient_inversion.architectures", on=Trial.unseen)
@Size("smoke", 2, FEW, networks="small", public=64, **QUICK)
@Size("class", 8, SOME, networks="small", public=500, **SHORT)
@Size("night", 8, FULL + "3,000 steps", own=True, networks="paper", **LONG)
def architectures(
    trial: Trial, networks: str, attack: str, steps: int, public: int = 2_000, narrow: bool = False
) -> Values:
    """Zhang et al. 2024, Tables 5 and 7, Figure 5b: the same search behind each network."""
    yield from trial.guesses("cifar10, ", ALL)
    others, _ = data.load("cifar10").take(range(public))  # what luck and a look at the truth could bring
    yield "lpips[cifar10, nearest_public]", metrics.lpips(others, trial.images.expand_as(others)).min()
    images = [trial.images]
    for name, network in NETWORKS[networks].items():
        result = trial.search(matching(attack, steps), victim(trial, network, narrow), snapshots=(steps // 6,))
        images.append(result.images)
        yield from trial.scores(f"cifar10, {name}", result.images, ALL)
        yield from trial.scores(f"cifar10, {name}, a_sixth", result.snapshots[0].images)
    yield "picture[photograph_and_reconstructions]", tiled([images])


@experiment("gradient_inversion.larger_networks", on=Trial.unseen)
@Size("smoke", 2, "a small ResNet and a small Swin in their place, 8 steps", networks="pair", **QUICK)
@Size("night", 6, "ResNet-101 and Swin-S, untrained, 3,000 steps", own=True, networks="larger", **LONG)
def larger_networks(trial: Trial, networks: str, attack: str, steps: int, narrow: bool = False) -> Values:
    """Zhang et al. 2024, Table 5: its larger pair."""
    yield from trial.guesses("cifar10, larger_networks, ")
    images = [trial.images]
    for name, network in NETWORKS[networks].items():
        images.append(trial.search(matching(attack, steps), victim(trial, network, narrow)).images)
        yield from trial.scores(f"cifar10, {name}", images[-1], ALL)
    yield "picture[photograph_and_reconstructions]", tiled([images])


@experiment("gradient_inversion.imagenet", data=("imagenet_samples",))
@Size("smoke", 2, "small networks, photographs of 32 pixels, 8 steps", side=32, **QUICK)
@Size("gpu", 8, "the paper's networks, untrained, 3,000 steps", own=True, side=224, **LONG, first=2_008)
def imagenet(repeat: int, side: int, attack: str, steps: int, narrow: bool = False, device: str = "cpu") -> Values:
    """Zhang et al. 2024, Figure 5c: the two pairs on photographs of ImageNet. There are twenty; a baseline is the mean of the others."""
    trial = Trial.unseen(repeat, "imagenet_samples", side=side, device=device)
    others = Trial.of(0, "imagenet_samples", [n for n in range(20) if n != repeat % 20], side)
    yield from trial.scores("imagenet, mean_photograph", others.images.mean(0, keepdim=True))
    small = dict(zip(IMAGENET, 2 * ["resnet_cifar", "swin_cifar"], strict=True))
    for name, network in (IMAGENET if side == 224 else small).items():
        model = victim(trial, network, narrow, num_classes=1_000)
        yield from trial.scores(f"imagenet, {name}", trial.search(matching(attack, steps), model).images)


@experiment("gradient_inversion.position_scale", on=Trial.unseen)
@Size("smoke", 2, FEW, **QUICK)
@Size("class", 8, SOME, **SHORT)
def position_scale(trial: Trial, attack: str, steps: int, narrow: bool = False) -> Values:
    """A ViT whose position embedding has timm's standard deviation, 0.02, and one with 1."""
    yield from trial.guesses("vit, ")
    for key, std in {"std_0p02": None, "std_1": 1.0}.items():
        model = victim(trial, "vit_cifar", narrow, position_std=std)
        yield from trial.scores(f"vit, {key}", trial.search(matching(attack, steps), model).images)


@experiment("gradient_inversion.labels", on=Trial.unseen)
@Size("smoke", 2, "small untrained networks, 10 photographs each", photographs=10, narrow=True)
@Size("class", 8, "small untrained networks, 20 photographs each", photographs=20)
def labels(trial: Trial, photographs: int, narrow: bool = False) -> Values:
    """The share of photographs whose label a rule reads off the last layer's gradient of one untrained network."""
    many = Trial.of(trial.number, places=range(photographs * trial.number, photographs * (trial.number + 1)))
    attacked = [*zip(many.images.split(1), many.labels.split(1), strict=True)]
    for name in ("resnet", "swin", "vit"):
        model = victim(trial, SMALL[name], narrow)
        for rule in label_recovery.RULES:
            yield f"label_accuracy[{rule}, {name}]", labels_read(rule, model, attacked)


@experiment("gradient_inversion.dlg", on=Trial.unseen)
@Size("smoke", 2, "LeNet, 2 steps of L-BFGS", steps=2)
@Size("class", 8, "LeNet with smaller first weights than the paper's, 15 steps of L-BFGS", steps=15)
def dlg(trial: Trial, steps: int) -> Values:
    """Zhu et al. 2019: image and label searched for at once, behind three activations in the paper's LeNet."""
    yield from trial.guesses("dlg, ")
    for activation in (nn.Sigmoid, nn.GELU, nn.ReLU):
        layers, name = list[nn.Module](), activation.__name__.lower()
        for channels, stride in ((3, 2), (12, 2), (12, 1)):
            layers += [nn.Conv2d(channels, 12, 5, stride=stride, padding=2), activation()]
        model: Any = nn.Sequential(*layers, nn.Flatten(), nn.Linear(768, 10)).eval()
        draw = torch.Generator().manual_seed(trial.number)
        for parameter in model.parameters():
            parameter.data.uniform_(-0.1, 0.1, generator=draw)
        model.normalise = data.NORMALISE["cifar10"]
        model.to(trial.device)
        result = trial.search(presets.dlg(steps), model, replace(trial.leak(model), labels=None), restarts=2)
        yield from trial.scores(f"dlg, {name}", result.images)
        yield f"label_accuracy[dlg, {name}]", float(result.labels.equal(trial.labels))


@experiment("gradient_inversion.second_order_full", on=Trial.unseen)
@Size("smoke", 2, FEW + " in their place", networks="small", **QUICK)
@Size("night", 8, FULL + "1,000 steps, 2,000 passes of Gauss-Newton", networks="paper", **LONG | dict(steps=1_000))
def second_order_full(trial: Trial, networks: str, attack: str, steps: int, narrow: bool = False) -> Values:
    """Ours: Adam and Gauss-Newton for as many passes, a gradient, a J v or a J^T u each; a step of Adam takes two."""
    yield from trial.guesses("second_order_full, ")
    attacks = {"adam": matching(attack, steps), "gauss_newton": GaussNewton(2 * steps)}
    rows = {method: [trial.images] for method in attacks}
    for name, kind in {"resnet_50": "resnet", "swin_t": "swin", "convnext_t": "convnext"}.items():
        model = victim(trial, NETWORKS[networks][kind], narrow)
        for method, search in attacks.items():
            result = trial.search(search, model)
            rows[method].append(result.images)
            yield from trial.scores(f"{method}, {name}", result.images, ALL)
        yield f"relative_residual[gauss_newton, {name}]", relative_residual(result, model)
    yield "picture[adam_above_gauss_newton]", tiled([*rows.values()])
