"""How finely a gradient tells images apart: the Jacobian of a client's update by its pixels, and what the centre of a network sees.

A search compares updates, so near the truth it can only tell images apart whose updates differ. Column k of J = d(update) / d(pixel k)
says how the update answers to pixel k. Many singular values of one size: every direction in the space of images shows, and a step
down the loss goes home. A few large ones and a long tail: most directions hardly show.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from privlab.models.forward import functional, preprocessing

SKETCH = (
    64  # rows kept for each column of the Jacobian: most singular values within some 1 / sqrt(64) of the whole one's
)
AT_ONCE = 8  # directions in one pass, which takes the memory of so many gradients
CONSTANT = 1e-4  # a sum over channels that moves by less than this part of a sum with signs is rounding


def spectrum(model: nn.Module, image: Tensor, label: Tensor, block: int = 2) -> Tensor:
    """Singular values of the Jacobian of the update by the image, largest first, in units of the update's norm.

    image: (1, channels, height, width) in [0, 1].  label: (1,).
    block: directions are squares of block x block equal pixels, of norm 1 each; 1 takes every pixel by itself. Their number is
        channels * height * width / block**2, and costs one forward-over-reverse pass each.
    The Jacobian has a row for each parameter: too many. `SKETCH` times as many random sums of rows as there are columns stand for them
    (each row is added with a random sign to one of the sums), which keeps most singular values to about 12%.
    Returns (directions,) float64 on the CPU.  Raises ValueError for a block that does not divide the image's sides.
    """
    directions = _squares(image, block)
    parameters = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    x = preprocessing(model)(image.to(next(iter(parameters.values()))))
    label, forward = label.to(x.device), functional(model)

    def update(x: Tensor) -> dict[str, Tensor]:
        return grad(lambda parameters: F.cross_entropy(forward(parameters, x), label))(parameters)

    def column(direction: Tensor) -> dict[str, Tensor]:
        return jvp(update, (x,), (direction,))[1]

    draw = torch.Generator().manual_seed(0)
    rows = SKETCH * len(directions)
    sketched = torch.zeros(rows, len(directions))
    places = {n: torch.randint(rows, (p.numel(),), generator=draw) for n, p in parameters.items()}
    signs = {n: torch.randint(2, (p.numel(),), generator=draw).mul_(2).sub_(1).float() for n, p in parameters.items()}
    with sdpa_kernel(SDPBackend.MATH):
        norm = math.sqrt(sum(g.square().sum().item() for g in update(x).values()))
        for first in range(0, len(directions), AT_ONCE):
            some = directions[first : first + AT_ONCE].to(x)
            for name, part in vmap(column)(some.unsqueeze(1)).items():  # (some, *shape)
                flat = part.reshape(len(some), -1).T.float().cpu()  # (numbers, some)
                sketched[:, first : first + AT_ONCE].index_add_(0, places[name], flat * signs[name][:, None])
    gram = sketched.double().T @ sketched.double() / norm**2
    return torch.linalg.eigvalsh(gram).clamp(min=0).sqrt().flip(0)


def _squares(image: Tensor, block: int) -> Tensor:
    """Orthonormal squares of equal pixels: (directions, channels, height, width)."""
    _, channels, height, width = image.shape
    if block < 1 or height % block or width % block:
        raise ValueError(f"block={block} does not divide an image of {height} x {width}; try 1, 2 or 4")
    small = torch.eye(channels * height * width // block**2).view(-1, channels, height // block, width // block)
    return small.repeat_interleave(block, 2).repeat_interleave(block, 3) / block


def effective_rank(singular: Tensor) -> float:
    """How many singular values count: the exponential of the entropy of their shares of the sum (Roy and Vetterli 2007).

    singular: (n,), none negative. Between 1 (one holds all) and n (all equal).
    """
    shares = singular.double() / singular.double().sum()
    return torch.special.entr(shares).sum().exp().item()


def condition(singular: Tensor, share: float = 1.0) -> float:
    """Largest singular value over the one that is not smaller than the last of the first `share` of them; inf where that is zero.

    share: above 0, up to 1, which compares with the smallest of all; 0.5 with the middle one, which the smallest few cannot move.
    """
    ordered = singular.double().sort(descending=True).values
    last = ordered[math.ceil(share * len(ordered)) - 1].item()
    return ordered[0].item() / last if last > 0 else math.inf


def field(features: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """The effective receptive field of a map's centre: how much each pixel moves it (Luo et al. 2016).

    features: takes images to a map (batch, channels, height, width).  images: (batch, channels, height, width), as `features` wants them.
    Returns (height, width): the absolute gradient of the sum over channels at the centre, summed over colours, mean over images, of sum 1.
    Raises ValueError where the centre does not depend on the image at all, or where that sum does not, up to rounding.
    """
    x = images.detach().requires_grad_()
    maps = features(x)
    centre = maps[:, :, maps.shape[2] // 2, maps.shape[3] // 2]  # (batch, channels)
    signs = 1.0 - 2.0 * (torch.arange(centre.shape[1], device=centre.device) % 2)
    gradient = _gradient(centre.sum(), x)  # (height, width)
    if not gradient.sum() > CONSTANT * _gradient((centre * signs).sum(), x).sum():
        raise ValueError(
            "features: the centre of the map does not move with any pixel, or its channels add up to a constant, as behind a LayerNorm; "
            "give the map before the norm"
        )
    return (gradient / gradient.sum()).detach()


def _gradient(number: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(number, x, retain_graph=True)[0].abs().sum(1).mean(0)


def area(field: Tensor, share: float = 0.9) -> float:
    """Part of the image's pixels that hold so much of the field, the strongest taken first: from next to 0 up to `share`.

    field: as `field` returns it. A field that is alike everywhere has an area of `share`.
    """
    ordered = field.flatten().double().sort(descending=True).values.cumsum(0)
    return (int((ordered < share * ordered[-1]).sum()) + 1) / len(ordered)
