"""Lab 00: how a reconstruction is scored, and which gradients are enough."""

from collections.abc import Collection, Iterator

import torch

from privlab import metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import observe
from privlab.notebook.kit import function

BLACK = torch.zeros(1, 3, 4, 4)
GREY = torch.full((1, 3, 4, 4), 0.1)  # an error that is the same everywhere
HALF = torch.cat([torch.full((1, 3, 4, 2), 0.2), torch.zeros(1, 3, 4, 2)], dim=-1)
psnr = function(
    metrics.psnr,
    [(GREY, BLACK), (HALF, BLACK)],
    {
        "That is the natural logarithm; decibels take the one to base 10.": lambda a, b: -10 * (a - b).square().mean().log(),
        "Right for an error that is the same everywhere, wrong for one that is not: average the squares, not the differences.":
            lambda a, b: -20 * (a - b).abs().mean().log10(),
        "That sums over the pixels; PSNR takes their mean, or it would change with the size of the image.":
            lambda a, b: -10 * (a - b).square().sum().log10(),
    },
    "An error of 0.1 at every pixel must give exactly 20 dB.",
)  # fmt: skip


def enough(answer: Collection[str]) -> Iterator[str]:
    if isinstance(answer, str):
        yield "Give the set of parameter names that the server needs."
    names = {name.strip() for name in answer}
    model = models.build("vit_cifar", depth=1, embed_dim=64, num_heads=4)
    leak = observe(model, torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.tensor([0]))
    if strange := sorted(names - leak.grads.keys()):
        yield f"The leak has no gradient named {strange[0]!r}; look at sorted(leak.grads)."
    try:
        closed_form.patch_embedding(model, leak.only(names))
    except ValueError as error:
        yield f"With these alone the solve stops: {error}."
    if extra := sorted(names - {"pos_embed", "patch_embed.proj.weight"}):
        yield f"It works, but {extra[0]!r} is not needed: leave it out and try again."
