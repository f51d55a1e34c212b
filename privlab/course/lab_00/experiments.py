"""Lab 00: one photograph from one gradient, by a linear solve."""

from __future__ import annotations

import torch

from privlab import data, models
from privlab.attacks.gradient_inversion.closed_form import patch_embedding
from privlab.experiments import reconstruction
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.leak import observe

NEEDED = ["pos_embed", "patch_embed.proj.weight"]


@experiment(
    "start_here.closed_form",
    data=("imagenet_samples",),
    smoke=Size(2, "a ViT-S with patches of 32 pixels, untrained", settings=dict(network="vit_small_patch32_224")),
    class_=Size(8, "a ViT-B with patches of 16 pixels, untrained", settings=dict(network="vit_base_patch16_224")),
)
def closed_form(repeat: int, network: str, device: str = "cpu") -> Values:
    """One photograph and fresh weights; the gradient as it is, and rounded to bfloat16. A baseline is the mean of the other photographs."""
    photos, number = data.load("imagenet_samples"), repeat % 20
    photograph, label = photos.one(number, size=224)
    others = torch.cat([photos.one(i, size=224)[0] for i in range(len(photos)) if i != number]).mean(0, keepdim=True)
    model = models.build(network, num_classes=1000, seed=reconstruction.number(repeat)).to(device)
    leak = observe(model, photograph, label, names=NEEDED)
    yield "psnr[mean_photograph]", reconstruction.psnr(others, photograph)
    image = patch_embedding(model, leak).images
    yield "psnr[closed_form, one_image]", reconstruction.psnr(image, photograph)
    rounded = patch_embedding(model, leak.rounded(torch.bfloat16)).images
    yield "psnr[closed_form, one_image, bfloat16]", reconstruction.psnr(rounded, photograph)
    shown = [picture.clamp(0, 1)[..., ::2, ::2] for picture in (photograph, image, rounded)]
    yield "picture[photograph_recovered_rounded]", tiled([shown])
