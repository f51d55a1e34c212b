"""What a model inversion lowers: losses, (n, classes) logits and (n,) targets -> (n,), of the answer to a random window of a picture."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms.functional import resized_crop


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The negative log-likelihood of the target class (Koh et al. 2024, eq. 1; GMI, Zhang et al. 2020)."""
    return F.cross_entropy(logits, targets, reduction="none")


def poincare(logits: Tensor, targets: Tensor) -> Tensor:
    """The Poincaré distance between the logits, scaled to a sum of absolutes of 1, and the one-hot target (Struppek et al. 2022, PPA).

    Its gradient does not fade as the target becomes certain, as that of the cross-entropy does. Both points have to lie inside the unit
    ball: the target's 1 is drawn in by 1e-4, as the authors have it; the other guards are ours.  Computed in float64.
    """
    z = logits.double()
    u = z / z.abs().sum(1, keepdim=True).clamp_min(1e-12)
    v = (F.one_hot(targets, z.shape[1]).double() - 1e-4).clamp(0, 1)
    inside = [(1 - x.square().sum(1)).clamp_min(1e-6) for x in (u, v)]
    return torch.arccosh(1 + 2 * (u - v).square().sum(1) / (inside[0] * inside[1])).to(logits.dtype)


def max_margin(logits: Tensor, targets: Tensor) -> Tensor:
    """The largest of the other logits less the target's (PLG-MI, Yuan et al. 2023): pushes on when the target is certain, too."""
    own = F.one_hot(targets, logits.shape[1]).bool()
    return logits.masked_fill(own, -torch.inf).amax(1) - logits[own]


def logit(logits: Tensor, targets: Tensor) -> Tensor:
    """The target's logit, negative (LOMMA, Nguyen et al. 2023): says nothing of other classes, and has no floor."""
    return -logits.gather(1, targets[:, None])[:, 0]


Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in (poincare, cross_entropy, max_margin, logit)}


def random_window(
    images: Tensor, share: tuple[float, float], draw: torch.Generator, ratio: tuple[float, float] = (1.0, 1.0),
    mirror: bool = False,
) -> Tensor:  # fmt: skip
    """One random window of these images (n, channels, height, width), the same of each, enlarged to their size.

    share: of the area, drawn evenly from this range; (1, 1) leaves them as they are.
    ratio: of the window's width to its height, against the image's own.  mirror: flip every other view.
    """
    area, shape, down, right, flip = torch.rand(5, generator=draw).tolist()
    size, stretch = (low + (high - low) * x for (low, high), x in ((share, area), (ratio, shape)))
    height, width = images.shape[-2:]
    h = min(max(round(height * (size / stretch) ** 0.5), 1), height)
    w = min(max(round(width * (size * stretch) ** 0.5), 1), width)
    place = round(down * (height - h)), round(right * (width - w))
    images = resized_crop(images, *place, h, w, [height, width], antialias=True)
    return images.flip(-1) if mirror and flip < 0.5 else images
