"""Lab 04: which architecture's gradient gives a photograph away to a search, and what else decides?

A repeat has one photograph of CIFAR-10's test split, which no baseline and no victim has seen, one draw of weights for each network, and
one noise to begin the searches with.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from privlab import data, models, training
from privlab.attacks.gradient_inversion import label_recovery, presets
from privlab.attacks.gradient_inversion.gauss_newton import GaussNewton
from privlab.attacks.gradient_inversion.results import Result
from privlab.attacks.gradient_inversion.search import GradientMatching
from privlab.experiments import reconstruction
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.leak import Leak, observe

SMALL = {"resnet": "resnet_cifar", "swin": "swin_cifar", "vit": "vit_cifar", "convnext": "convnext_cifar"}
PAPER = {"resnet": "resnet50_cifar", "swin": "swin_tiny_cifar", "convnext": "convnext_tiny_cifar"}
LARGER = {"resnet_101": "resnet101_cifar", "swin_s": "swin_small_cifar"}
FULL = {"resnet": "resnet50", "swin": "swin_tiny_patch4_window7_224"} | {
    "resnet_101": "resnet101",
    "swin_s": "swin_small_patch4_window7_224",
}
NETWORKS = {"small": SMALL, "paper": PAPER, "larger": LARGER, "pair": {n: SMALL[n] for n in ("resnet", "swin")}}
NARROW: dict[str, dict[str, Any]] = {"resnet_cifar": dict(channels=(16, 32, 64, 128)), "vit_cifar": dict(depth=2)}

QUICK = dict(attack="annealed", steps=8, narrow=True)
SHORT = dict(attack="annealed", steps=120)
LONG = dict(attack="inverting_gradients", steps=3_000)
FEW = "small untrained networks (0.3 to 7 M parameters), 8 steps"
SOME = "small untrained networks (0.3 to 7 M parameters), 120 steps of a shorter attack"


def attack_of(attack: str, steps: int) -> GradientMatching:
    """A preset by its name; directions are differences where these agree with the exact ones, which halves the time."""
    return replace(getattr(presets, attack)(steps), derivative="auto")


def victim(network: str, repeat: int, device: str, narrow: bool = False, train: bool = False, **changes: Any) -> Any:
    """An untrained network of this repeat."""
    own = NARROW.get(network, {}) if narrow else {}
    return models.build(network, seed=reconstruction.number(repeat), **own, **changes).to(device).train(train)


def sent(model: nn.Module, repeat: int) -> Leak:
    """The gradient of this repeat's photograph."""
    return observe(model, *reconstruction.photograph(repeat))


def inverted(model: nn.Module, repeat: int, attack: GradientMatching | GaussNewton) -> Result:
    """What the search has at its end, and after a sixth of its steps."""
    return reconstruction.search(
        attack, model, sent(model, repeat), reconstruction.number(repeat), (attack.steps // 6,)
    )


def decibels(model: nn.Module, repeat: int, attack: GradientMatching | GaussNewton) -> float:
    photograph, _ = reconstruction.photograph(repeat)
    return reconstruction.psnr(inverted(model, repeat, attack).images, photograph)


# -- which architecture? ------------------------------------------------------------------------------------------------------


@experiment(
    "gradient_inversion.architectures",
    data=("cifar10",),
    smoke=Size(2, FEW, settings=dict(networks="small", public=64, **QUICK)),
    class_=Size(8, SOME, settings=dict(networks="small", public=500, **SHORT)),
    night=Size(8, "ResNet-50, Swin-T and ConvNeXt-T, untrained, 3,000 steps", True, dict(networks="paper", **LONG)),
    gpu=Size(20, "ResNet-50, Swin-T and ConvNeXt-T, untrained, 3,000 steps", True, dict(networks="paper", **LONG)),
)
def architectures(
    repeat: int, networks: str, attack: str, steps: int, public: int = 2_000, narrow: bool = False, device: str = "cpu"
) -> Values:
    """Zhang et al. 2024, Tables 5 and 7, Figure 5b: the same search behind each network."""
    photograph, _ = reconstruction.photograph(repeat)
    for name, picture in reconstruction.baselines().items():
        yield from reconstruction.scores(f"cifar10, {name}", picture, photograph)
    yield "lpips[cifar10, nearest_public]", reconstruction.nearest_public(photograph, public)
    images = [photograph]
    for name, network in NETWORKS[networks].items():
        result = inverted(victim(network, repeat, device, narrow), repeat, attack_of(attack, steps))
        images.append(result.images)
        yield from reconstruction.scores(f"cifar10, {name}", result.images, photograph)
        yield f"psnr[cifar10, {name}, a_sixth]", reconstruction.psnr(result.snapshots[0].images, photograph)
    yield "picture[photograph_and_reconstructions]", tiled([images])


@experiment(
    "gradient_inversion.larger_networks",
    data=("cifar10",),
    smoke=Size(2, "a small ResNet and a small Swin in their place, 8 steps", settings=dict(networks="pair", **QUICK)),
    night=Size(6, "ResNet-101 and Swin-S, untrained, 3,000 steps", True, dict(networks="larger", **LONG)),
    gpu=Size(20, "ResNet-101 and Swin-S, untrained, 3,000 steps", True, dict(networks="larger", **LONG)),
)
def larger_networks(
    repeat: int, networks: str, attack: str, steps: int, narrow: bool = False, device: str = "cpu"
) -> Values:
    """Zhang et al. 2024, Table 5: its larger pair."""
    photograph, _ = reconstruction.photograph(repeat)
    yield from reconstruction.psnr_of_baselines("cifar10, larger_networks, ", photograph)
    images = [photograph]
    for name, network in zip(LARGER, NETWORKS[networks].values(), strict=True):
        image = inverted(victim(network, repeat, device, narrow), repeat, attack_of(attack, steps)).images
        images.append(image)
        yield from reconstruction.scores(f"cifar10, {name}", image, photograph)
    yield "picture[photograph_and_reconstructions]", tiled([images])


@experiment(
    "gradient_inversion.imagenet",
    data=("imagenet_samples",),
    smoke=Size(2, "small networks, photographs of 32 pixels, 8 steps", settings=dict(side=32, **QUICK)),
    gpu=Size(8, "the paper's networks, untrained, 3,000 steps", True, dict(side=224, **LONG), first=2_008),
)
def imagenet(repeat: int, side: int, attack: str, steps: int, narrow: bool = False, device: str = "cpu") -> Values:
    """Zhang et al. 2024, Figure 5c: the two pairs on photographs of ImageNet. There are twenty; a baseline is the mean of the others."""
    photos, number = data.load("imagenet_samples"), repeat % 20
    photograph, label = photos.one(number, size=side)
    others = torch.cat([photos.one(i, size=side)[0] for i in range(len(photos)) if i != number])
    yield "psnr[imagenet, mean_photograph]", reconstruction.psnr(others.mean(0, keepdim=True), photograph)
    for name, network in FULL.items() if side == 224 else zip(FULL, 2 * [SMALL["resnet"], SMALL["swin"]], strict=True):
        model = victim(network, repeat, device, narrow, num_classes=1_000)
        result = reconstruction.search(
            attack_of(attack, steps), model, observe(model, photograph, label), reconstruction.number(repeat)
        )
        yield f"psnr[imagenet, {name}]", reconstruction.psnr(result.images, photograph)


# -- what else decides? -------------------------------------------------------------------------------------------------------


@experiment(
    "gradient_inversion.position_scale",
    data=("cifar10",),
    smoke=Size(2, FEW, settings=QUICK),
    class_=Size(8, SOME, settings=SHORT),
)
def position_scale(repeat: int, attack: str, steps: int, narrow: bool = False, device: str = "cpu") -> Values:
    """A ViT whose position embedding has timm's standard deviation, 0.02, and one with 1."""
    yield from reconstruction.psnr_of_baselines("vit, ", reconstruction.photograph(repeat)[0])
    for key, std in {"std_0p02": None, "std_1": 1.0}.items():  # timm's own is 0.02
        model = victim("vit_cifar", repeat, device, narrow, position_std=std)
        yield f"psnr[vit, {key}]", decibels(model, repeat, attack_of(attack, steps))


@experiment(
    "gradient_inversion.trained_victims",
    data=("cifar10",),
    smoke=Size(2, FEW + "; trained on 64 images", settings=dict(images=64, epochs=2, **QUICK)),
    class_=Size(8, SOME + "; trained for 3 epochs on 800 images", settings=dict(images=800, epochs=3, **SHORT)),
    gpu=Size(8, SOME + "; trained for 15 epochs on 10,000 images", settings=dict(images=10_000, epochs=15, **SHORT)),
)
def trained_victims(
    repeat: int, attack: str, steps: int, images: int, epochs: int, narrow: bool = False, device: str = "cpu"
) -> Values:
    """Victims before and after a few epochs, on training images of their own, none of them the photograph under attack."""
    yield from reconstruction.psnr_of_baselines("trained_victims, ", reconstruction.photograph(repeat)[0])
    seed, recipe = reconstruction.number(repeat), replace(training.RECIPES["smoke"], epochs=epochs)
    members = torch.randperm(50_000, generator=torch.Generator().manual_seed(seed))[:images]
    for name in ("resnet", "swin"):
        model = victim(SMALL[name], repeat, device, narrow)
        yield f"psnr[{name}, fresh]", decibels(model, repeat, attack_of(attack, steps))
        history = training.fit(
            model, training.subset(data.load("cifar10"), members), recipe, seed=seed,
            test=data.load("cifar10", "test").sample(200, seed), sample=200, progress=False,
        )  # fmt: skip
        yield f"test_accuracy[{name}, trained]", history.test_accuracy[-1]
        yield f"psnr[{name}, trained]", decibels(model, repeat, attack_of(attack, steps))


@experiment(
    "gradient_inversion.first_weights_and_mode",
    data=("cifar10",),
    smoke=Size(2, FEW, settings=QUICK),
    class_=Size(8, SOME, settings=SHORT),
)
def first_weights_and_mode(repeat: int, attack: str, steps: int, narrow: bool = False, device: str = "cpu") -> Values:
    """A ResNet in eval mode, in train mode, and with residual branches that do not start at zero; a Swin beside them."""
    yield from reconstruction.psnr_of_baselines("resnet, ", reconstruction.photograph(repeat)[0])
    variants: dict[str, dict[str, Any]] = {
        "eval": {},
        "train": dict(train=True),
        "plain_init": dict(zero_init_last=False),
    }
    for key, how in variants.items():
        model = victim("resnet_cifar", repeat, device, narrow, **how)
        yield f"psnr[resnet, variant_{key}]", decibels(model, repeat, attack_of(attack, steps))
    model = victim("swin_cifar", repeat, device, narrow)
    yield "psnr[swin, variant_eval]", decibels(model, repeat, attack_of(attack, steps))


@experiment(
    "gradient_inversion.labels",
    data=("cifar10",),
    smoke=Size(2, "small untrained networks, 10 photographs each", settings=dict(photographs=10, narrow=True)),
    class_=Size(8, "small untrained networks, 20 photographs each", settings=dict(photographs=20)),
)
def labels(repeat: int, photographs: int, narrow: bool = False, device: str = "cpu") -> Values:
    """The share of photographs whose label a rule reads off the last layer's gradient of one untrained network."""
    photos, first = data.load("cifar10", "test"), photographs * reconstruction.number(repeat)
    some = [photos.one((first + i) % len(photos)) for i in range(photographs)]
    for name in ("resnet", "swin", "vit"):
        model = victim(SMALL[name], repeat, device, narrow)
        head = [f"{label_recovery.classifier(model, some[0][0].shape[1:])}.{leaf}" for leaf in ("weight", "bias")]
        leaks = [replace(observe(model, *one, names=head), labels=None) for one in some]
        for rule, read in label_recovery.RULES.items():
            right = [read(model, leak).cpu().equal(label) for leak, (_, label) in zip(leaks, some, strict=True)]
            yield f"label_accuracy[{rule}, {name}]", statistics.mean(map(float, right))


# -- other searches -----------------------------------------------------------------------------------------------------------


def lenet(activation: type[nn.Module], seed: int) -> Any:
    """The network of Zhu et al. 2019 on 32 x 32 images: three convolutions, one linear layer, weights from -0.1 to 0.1."""
    layers: list[nn.Module] = []
    for channels, stride in ((3, 2), (12, 2), (12, 1)):
        layers += [nn.Conv2d(channels, 12, 5, stride=stride, padding=2), activation()]
    model: Any = nn.Sequential(*layers, nn.Flatten(), nn.Linear(768, 10))
    draw = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data.uniform_(-0.1, 0.1, generator=draw)
    model.normalise = data.load("cifar10").normalise
    return model.eval()


@experiment(
    "gradient_inversion.dlg",
    data=("cifar10",),
    smoke=Size(2, "LeNet, 2 steps of L-BFGS", settings=dict(steps=2)),
    class_=Size(8, "LeNet with smaller first weights than the paper's, 15 steps of L-BFGS", settings=dict(steps=15)),
)
def dlg(repeat: int, steps: int, device: str = "cpu") -> Values:
    """Zhu et al. 2019: image and label searched for at once, behind three activations."""
    photograph, label = reconstruction.photograph(repeat)
    yield from reconstruction.psnr_of_baselines("dlg, ", photograph)
    for activation in (nn.Sigmoid, nn.GELU, nn.ReLU):
        model = lenet(activation, reconstruction.number(repeat)).to(device)
        leak = replace(sent(model, repeat), labels=None)
        result = reconstruction.search(presets.dlg(steps), model, leak, reconstruction.number(repeat), restarts=2)
        name = activation.__name__.lower()
        yield f"psnr[dlg, {name}]", reconstruction.psnr(result.images, photograph)
        yield f"label_accuracy[dlg, {name}]", float(result.labels.cpu().equal(label))


def by_both(model: nn.Module, repeat: int, attack: str, steps: int) -> dict[str, Result]:
    """What Adam and Gauss-Newton find in as many passes: a gradient, a J v or a J^T u each; a step of Adam takes two."""
    passes = 2 * steps
    newton = GaussNewton(steps=passes, passes=passes)
    return {
        "adam": inverted(model, repeat, attack_of(attack, steps)),
        "gauss_newton": inverted(model, repeat, newton),
    }


RIVALS: dict[str, tuple[str, dict[str, Any]]] = {name: (network, {}) for name, network in SMALL.items()} | {
    "vit_std_1": ("vit_cifar", dict(position_std=1.0))
}


@experiment(
    "gradient_inversion.second_order",
    data=("cifar10",),
    smoke=Size(2, FEW, settings=dict(rivals=list(RIVALS), **QUICK)),
    class_=Size(8, SOME + ", 240 passes of Gauss-Newton", settings=dict(rivals=list(RIVALS), **SHORT)),
)
def second_order(
    repeat: int, rivals: Sequence[str], attack: str, steps: int, narrow: bool = False, device: str = "cpu"
) -> Values:
    """Adam and Gauss-Newton on small networks, for as many passes."""
    photograph, _ = reconstruction.photograph(repeat)
    yield from reconstruction.psnr_of_baselines("second_order, ", photograph)
    for name in rivals:
        network, changes = RIVALS[name]
        model = victim(network, repeat, device, narrow, **changes)
        found = by_both(model, repeat, attack, steps)
        for method, result in found.items():
            yield f"psnr[{method}, {name}]", reconstruction.psnr(result.images, photograph)
        unmet = reconstruction.relative_residual(found["gauss_newton"], model)
        yield f"relative_residual[gauss_newton, {name}]", unmet


@experiment(
    "gradient_inversion.second_order_full",
    data=("cifar10",),
    smoke=Size(2, FEW + " in their place", settings=dict(networks="small", **QUICK)),
    night=Size(
        8,
        "ResNet-50, Swin-T and ConvNeXt-T, untrained, 1,000 steps of the paper's search, 2,000 passes of Gauss-Newton",
        settings=dict(networks="paper", attack="inverting_gradients", steps=1_000),
    ),
    gpu=Size(
        8,
        "ResNet-50, Swin-T and ConvNeXt-T, untrained, 3,000 steps of the paper's search, 6,000 passes of Gauss-Newton",
        settings=dict(networks="paper", **LONG),
    ),
)
def second_order_full(
    repeat: int, networks: str, attack: str, steps: int, narrow: bool = False, device: str = "cpu"
) -> Values:
    """The same comparison behind the networks of `architectures`; at night also its photographs, weights and first noise."""
    photograph, _ = reconstruction.photograph(repeat)
    yield from reconstruction.psnr_of_baselines("second_order_full, ", photograph)
    rows = {"adam": [photograph], "gauss_newton": [photograph]}
    for name, kind in {"resnet_50": "resnet", "swin_t": "swin", "convnext_t": "convnext"}.items():
        model = victim(NETWORKS[networks][kind], repeat, device, narrow)
        found = by_both(model, repeat, attack, steps)
        for method, result in found.items():
            rows[method].append(result.images)
            yield from reconstruction.scores(f"{method}, {name}", result.images, photograph)
        unmet = reconstruction.relative_residual(found["gauss_newton"], model)
        yield f"relative_residual[gauss_newton, {name}]", unmet
    yield "picture[adam_above_gauss_newton]", tiled([*rows.values()])
