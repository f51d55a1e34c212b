"""How finely a gradient tells images apart: the Jacobian of a client's update by its pixels, and what the centre of a network sees.

A search compares updates, so it can only tell images apart whose updates differ. Many singular values of J = d(update) / d(pixels) of
one size: every direction in the space of images shows. A few large ones and a long tail: most hardly show.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from privlab.models.forward import functional, preprocessing

SKETCH = 64  # rows kept for each column: most singular values within some 1 / sqrt(64) of the whole Jacobian's
AT_ONCE = 8  # directions in one pass, which takes the memory of so many gradients


def spectrum(model: nn.Module, image: Tensor, label: Tensor, block: int = 2) -> Tensor:
    """Singular values of the Jacobian of the update by the image, largest first, in units of the update's norm.

    image: (1, channels, height, width) in [0, 1].  label: (1,).
    block: directions are squares of block x block equal pixels, of norm 1 each, a pass each; it divides height and width.
    The Jacobian has a row for each parameter: too many. `SKETCH` times as many random sums of rows as there are columns stand for them
    (each row is added with a random sign to one of the sums), which keeps most singular values to about 12%.
    Returns (channels * height * width / block**2,) float64 on the CPU.
    """
    _, channels, height, width = image.shape
    small = torch.eye(channels * height * width // block**2).view(-1, channels, height // block, width // block)
    directions = small.repeat_interleave(block, 2).repeat_interleave(block, 3) / block
    parameters = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    x = preprocessing(model)(image.to(next(iter(parameters.values()))))
    label, forward = label.to(x.device), functional(model)

    def update(x: Tensor) -> dict[str, Tensor]:
        return grad(lambda weights: F.cross_entropy(forward(weights, x), label))(parameters)

    draw = torch.Generator().manual_seed(0)
    rows = SKETCH * len(directions)
    sketched = torch.zeros(rows, len(directions))
    places = {n: torch.randint(rows, (p.numel(),), generator=draw) for n, p in parameters.items()}
    signs = {n: torch.randint(2, (p.numel(),), generator=draw).mul_(2).sub_(1).float() for n, p in parameters.items()}
    with sdpa_kernel(SDPBackend.MATH):
        norm = math.sqrt(sum(g.square().sum().item() for g in update(x).values()))
        for first in range(0, len(directions), AT_ONCE):
            some = directions[first : first + AT_ONCE].to(x)
            columns = vmap(lambda one: jvp(update, (x,), (one,))[1])(some.unsqueeze(1))
            for name, part in columns.items():  # (some, *shape)
                flat = part.reshape(len(some), -1).T.float().cpu()  # (numbers, some)
                sketched[:, first : first + AT_ONCE].index_add_(0, places[name], flat * signs[name][:, None])
    gram = sketched.double().T @ sketched.double() / norm**2
    return torch.linalg.eigvalsh(gram).clamp(min=0).sqrt().flip(0)


def effective_rank(singular: Tensor) -> float:
    """Exponential of the entropy of singular values' shares of their sum (Roy and Vetterli 2007): 1 (one holds all) to n (all equal)."""
    shares = singular.double() / singular.double().sum()
    return torch.special.entr(shares).sum().exp().item()


def condition(singular: Tensor) -> float:
    """Largest singular value over the middle one, which the smallest few cannot move; inf where that is zero."""
    ordered = singular.double().sort(descending=True).values
    middle = ordered[(len(ordered) - 1) // 2].item()
    return ordered[0].item() / middle if middle > 0 else math.inf


def field(features: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """The effective receptive field of a map's centre: how much each pixel moves it (Luo et al. 2016).

    features: takes images to a map (batch, channels, height, width); not behind a LayerNorm, where channels add up to a constant.
    Returns (height, width): the absolute gradient of the sum over channels at the centre, summed over colours, mean over images, of sum 1.
    """
    x = images.detach().requires_grad_()
    maps = features(x)
    centre = maps[:, :, maps.shape[2] // 2, maps.shape[3] // 2]  # (batch, channels)
    moved = torch.autograd.grad(centre.sum(), x)[0].abs().sum(1).mean(0)  # (height, width)
    return moved / moved.sum()


def area(field: Tensor, share: float = 0.9) -> float:
    """Part of the pixels that hold so much of a `field`, the strongest first: from next to 0 to `share`, where all are alike."""
    ordered = field.flatten().double().sort(descending=True).values.cumsum(0)
    return (int((ordered < share * ordered[-1]).sum()) + 1) / len(ordered)
