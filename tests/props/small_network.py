"""A small smooth network and what a client sends of it: searches on it take a fraction of a second."""

import torch
from torch import nn

from privlab.data import Normalise
from privlab.leak import observe


def network(seed=0):
    """A small smooth network on 6 x 6 images: searches on it take a fraction of a second."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Conv2d(3, 12, 3, padding=1, stride=2), nn.Sigmoid(), nn.Conv2d(12, 12, 3, padding=1), nn.Sigmoid()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(108, 5))
        for p in model.parameters():
            nn.init.uniform_(p, -0.5, 0.5)
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    return model.double().eval()


def sent(model, batch=1, seed=0):
    """Photographs of 6 x 6 pixels, for a ViT 32 x 32, and what a client sends of them; labels 1, 2, ..."""
    shape = (batch, 3, *([32, 32] if hasattr(model, "patch_embed") else [6, 6]))
    images = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return images, observe(model, images, (torch.arange(batch) + 1) % 5)
