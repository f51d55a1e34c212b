"""Twenty images of three classes, a small network of each family, and a short training."""

import torch
from torch import nn

from privlab import models, training
from privlab.training import Recipe

RECIPE = Recipe(epochs=2, batch_size=8, lr=2e-3)
PIXELS = torch.randint(0, 256, (20, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = torch.arange(20) % 3
FAMILIES = {
    "resnet18": dict(layers=(1, 1, 2, 2), channels=(8, 8, 12, 16)),
    "densenet121": dict(growth_rate=8, block_config=(1, 1, 2, 3)),
    "ir152": dict(layers=(1, 1, 1, 1), image_size=32),
    "vit_cifar": dict(embed_dim=16, depth=4, num_heads=2),
    "swin_cifar": dict(embed_dim=12, depths=(1, 1), num_heads=(1, 2)),
    "convnext_cifar": dict(depths=(1, 1, 1, 1), dims=(8, 8, 12, 16)),
}


def build(name="resnet18", **more):
    return models.build(name, seed=1, num_classes=3, **FAMILIES[name], **more)


def linear(numbers=3 * 32 * 32, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(numbers, 3)).to(dtype)


def fit(model, *defences, recipe=RECIPE, **more):
    return training.fit(model, (PIXELS, LABELS), recipe, seed=0, defences=defences, **more)
