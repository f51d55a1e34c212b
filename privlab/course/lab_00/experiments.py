"""Lab 00: one photograph from one gradient, by a linear solve."""

import torch

from privlab.attacks.gradient_inversion.closed_form import patch_embedding
from privlab.experiments import Size, Trial, experiment, tiled
from privlab.experiments.protocol import Values

NEEDED = ["pos_embed", "patch_embed.proj.weight"]


@experiment("start_here.closed_form", data=("imagenet_samples",))
@Size("smoke", 2, "a ViT-S with patches of 32 pixels, untrained", network="vit_small_patch32_224")
@Size("class", 8, "a ViT-B with patches of 16 pixels, untrained", network="vit_base_patch16_224")
def closed_form(repeat: int, network: str, device: str = "cpu") -> Values:
    """One photograph and fresh weights; the gradient as it is, and rounded to bfloat16. A baseline is the mean of the other photographs."""
    trial = Trial.unseen(repeat, "imagenet_samples", side=224, device=device)  # counted round 20 photographs
    others = Trial.of(0, "imagenet_samples", [n for n in range(20) if n != repeat % 20], 224)
    yield from trial.scores("mean_photograph", others.images.mean(0, keepdim=True))
    model = trial.network(network, num_classes=1000)
    leak = trial.leak(model, NEEDED)
    image, rounded = (patch_embedding(model, sent).images for sent in (leak, leak.rounded(torch.bfloat16)))
    yield from trial.scores("closed_form, one_image", image)
    yield from trial.scores("closed_form, one_image, bfloat16", rounded)
    shown = [picture.clamp(0, 1)[..., ::2, ::2] for picture in (trial.images, image, rounded)]
    yield "picture[photograph_recovered_rounded]", tiled([shown])
