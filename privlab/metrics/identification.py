"""Whether a recovered image points at its own person: the rank of the true image among others, and IIP, the share of first ranks.

Image identifiability precision (IIP; Yin et al. 2021; Hatamizadeh et al. 2022, appendix A, with 15,000 people and an ImageNet ResNet-50)
asks of each recovery which image it is nearest to, among the true images of its batch and many others, the distractors.
"""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.metrics import image_quality
from privlab.models import zoo

PIXELS_AT_ONCE = 2**18  # of one channel: 256 images of 32 x 32, 16 of 128 x 128
FEATURES_SIDE = 128  # pixels; smaller images are enlarged to this


def iip(images: Tensor, truth: Tensor, distractors: Tensor, by: str = "features") -> float:
    """The share of recoveries whose nearest image is their own true one; a random guess has 1 / (batch + distractors). See `ranks`."""
    return (ranks(images, truth, distractors, by) == 1).double().mean().item()


def ranks(images: Tensor, truth: Tensor, distractors: Tensor, by: str = "features") -> Tensor:
    """How many images are as near to a recovery as its own true one, that one included: 1 says that none is.  (batch,) int64, on the CPU.

    images, truth: (batch, channels, height, width); images[i] is to be recognised as truth[i].
    distractors: (n, channels, height, width), embedded piece by piece and not kept.  None is in the batch, or there twice.
    All in bytes, or in [0, 1], which `images` may leave.
    by: the space of the Euclidean distance: "pixels"; "lpips", see `perceptual`; "features", see `pooled`.
    Candidates are the distractors *and all true images of the batch* (the paper says neither what it does with these nor its distance).
    A tie counts against the recovery: one that is grey everywhere is not to be lucky.
    """
    embed: dict[str, Callable[[Tensor], Tensor]] = {"pixels": nn.Flatten(), "lpips": perceptual, "features": pooled}
    side = FEATURES_SIDE if by == "features" else 1
    step = max(1, PIXELS_AT_ONCE // (max(side, truth.shape[2]) * max(side, truth.shape[3])))

    def points(some: Tensor) -> Tensor:
        pixels = some.to(images.device)
        return embed[by](pixels if pixels.is_floating_point() else pixels.float() / 255).cpu().double()

    here = torch.cat([points(x) for x in images.split(step)])  # (batch, numbers)
    own = torch.cat([points(x) for x in truth.split(step)])
    right = (here - own).square().sum(1, keepdim=True)  # (batch, 1)
    rank = _as_near(here, own, right).sum(1)  # itself included
    for some in distractors.split(step):
        rank += _as_near(here, points(some), right).sum(1)
    return rank


def perceptual(images: Tensor) -> Tensor:
    """Images as points (batch, numbers) whose squared Euclidean distance is their LPIPS: embed each once, then compare all with all.

    LPIPS sums, over layers l and channels c, w_lc times the squared difference of features f of unit length, averaged over the h_l x w_l
    places (Zhang et al. 2018, equation 1): the squared distance of the vectors sqrt(w_lc / (h_l w_l)) f_lc.
    images: (batch, 1 or 3, height, width), clamped to [0, 1], sides of 31 or more.
    """
    network = image_quality.perceptual_network().to(images.device)
    x = network.scaling_layer(images.clamp(0, 1).expand(-1, 3, -1, -1).float() * 2 - 1)
    points = []
    with torch.no_grad():
        for maps, head in zip(network.net(x), network.lins, strict=True):  # maps: (batch, channels, h, w)
            weights = head.model[-1].weight  # (1, channels, 1, 1)
            length = maps.square().sum(1, keepdim=True).sqrt() + 1e-10  # the library's guard against all zeros
            points.append((maps / length * (weights / maps[0, 0].numel()).sqrt()).flatten(1))
    return torch.cat(points, dim=1)


def pooled(images: Tensor) -> Tensor:
    """EfficientNet-lite0's features, averaged over the image, (batch, 1280). It was trained on ImageNet, at 224 pixels, not on faces.

    images: (batch, 1 or 3, height, width), clamped to [0, 1]. Where the shorter side has less than 128 pixels they are enlarged to that.
    """
    x = images.clamp(0, 1).expand(-1, 3, -1, -1).float()
    height, width = x.shape[2:]
    if (short := min(height, width)) < FEATURES_SIDE:
        size = (round(height * FEATURES_SIDE / short), round(width * FEATURES_SIDE / short))
        x = F.interpolate(x, size, mode="bilinear", align_corners=False)
    network = imagenet_network().to(images.device)
    with torch.no_grad():
        return network.forward_head(network.forward_features(network.normalise(x)), pre_logits=True)


imagenet_network = cache(zoo.efficientnet_lite0)


def _as_near(here: Tensor, there: Tensor, right: Tensor) -> Tensor:
    """Which of the points `there` lie no further than `right`, a squared distance; (batch, n) bool.

    Equal is what float64 cannot tell apart: 1e-12 of the squared lengths, a hundredth of one level of one byte in 3 x 224 x 224 pixels.
    """
    lengths = here.square().sum(1, keepdim=True) + there.square().sum(1)  # (batch, n)
    return lengths - 2 * here @ there.T <= right + 1e-12 * lengths
