"""Whether a recovered image points at its own person: the rank of the true image among others, and IIP, the share of first ranks.

Image identifiability precision (IIP; Yin et al. 2021, GradViT's appendix A) asks of each recovery which image it is nearest to, among
the true images of its batch and many that were not in it, the distractors. Unlike PSNR it does not ask for every pixel: a blurred face
that is still nearer to its owner than to 15,000 strangers has identified them. The number of distractors belongs beside every figure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.data.images import check_range
from privlab.metrics import image_quality
from privlab.models import pretrained_networks

BY = ("pixels", "lpips", "features")
PIXELS_AT_ONCE = 2**18  # of one channel: 256 images of 32 x 32, 16 of 128 x 128; some 200 MB for the networks
FEATURES_SIDE = 128  # pixels; smaller images are enlarged to this


def iip(images: Tensor, truth: Tensor, distractors: Tensor, by: str = "features") -> float:
    """Image identifiability precision: the share of recoveries whose nearest image is exactly their own true one.

    Arguments and errors: see `ranks`.  Returns a number from 0 to 1; a random guess has 1 / (batch + distractors).
    Source: Yin et al. 2021, See through Gradients, CVPR; Hatamizadeh et al. 2022, appendix A and Figure S.1, with 15,000 distinct
    people from MS-Celeb-1M and the embeddings of an ImageNet ResNet-50, where we have EfficientNet-lite0's.
    """
    return (ranks(images, truth, distractors, by) == 1).double().mean().item()


def ranks(images: Tensor, truth: Tensor, distractors: Tensor, by: str = "features") -> Tensor:
    """How many images are as near to a recovery as its own true one, that one included: 1 says that none is.

    images, truth: (batch, channels, height, width); images[i] is to be recognised as truth[i].
    distractors: (n, channels, height, width), images that were not in the batch. They are embedded piece by piece and not kept.
    All three in bytes, or in floats with truth and distractors in [0, 1]; `images` may leave it, as closed-form recoveries do: in pixels it
    is taken as it is, and clamped for the networks, as the metrics do.
    by: the space of the Euclidean distance: "pixels"; "lpips", see `perceptual` (sides of 31 or more); "features", see `pooled`.
    Candidates are the n distractors *and all true images of the batch*: a recovery that mixes two images of its batch may be nearer to the
    other. The paper says neither what it does with these nor its distance; ours is what k nearest neighbours take unasked.
    A tie counts against the recovery: one that is grey everywhere, whatever the image, is not to be lucky.
    Returns (batch,) int64 on the CPU, from 1 to batch + n.
    Raises ValueError for shapes, types or values that do not fit, no distractors, a picture that is there twice (the same true image in
    the batch or among the distractors, to the byte: then either would be right), or another `by`.
    """
    if by not in BY:
        raise ValueError(f"by={by!r} is no space to compare in; use {', '.join(map(repr, BY[:-1]))} or {BY[-1]!r}")
    _check(images, truth, distractors, by)
    embed: Callable[[Tensor], Tensor] = {"pixels": _pixels, "lpips": perceptual, "features": pooled}[by]
    side = FEATURES_SIDE if by == "features" else 1
    step = max(1, PIXELS_AT_ONCE // (max(side, truth.shape[2]) * max(side, truth.shape[3])))

    def points(some: Tensor) -> Tensor:
        return embed(_unit(some.to(images.device))).cpu().double()

    here = torch.cat([points(x) for x in images.split(step)])  # (batch, numbers)
    own = torch.cat([points(x) for x in truth.split(step)])
    right = (here - own).square().sum(1, keepdim=True)  # (batch, 1)
    rank = _as_near(here, own, right).sum(1)  # itself included
    for some in distractors.split(step):
        rank += _as_near(here, points(some), right).sum(1)
    return rank


def perceptual(images: Tensor) -> Tensor:
    """Images as points whose squared Euclidean distance is their LPIPS: embed each once, then compare all with all.

    LPIPS sums, over layers l and channels c, w_lc times the squared difference of features f of unit length over the channels, averaged
    over the h_l x w_l places. As the w_lc are not negative, that is the squared distance of the vectors sqrt(w_lc / (h_l w_l)) f_lc.

    images: (batch, 1 or 3, height, width) in [0, 1] (clamped to it).  Returns (batch, numbers) float32, on the images' device.
    Source: Zhang et al. 2018, equation 1.
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
    """EfficientNet-lite0's features, averaged over the image: 1,280 numbers. It was trained on ImageNet, not on faces.

    Images whose shorter side has less than 128 pixels are enlarged to that, bilinearly. (It was trained at 224; at 128 it takes a third of
    the time.) Grey images are repeated over three channels.

    images: (batch, 1 or 3, height, width) in [0, 1] (clamped to it).  Returns (batch, 1280) float32, on the images' device.
    """
    x = images.clamp(0, 1).expand(-1, 3, -1, -1).float()
    height, width = x.shape[2:]
    if (short := min(height, width)) < FEATURES_SIDE:
        size = (round(height * FEATURES_SIDE / short), round(width * FEATURES_SIDE / short))
        x = F.interpolate(x, size, mode="bilinear", align_corners=False)
    network = imagenet_network().to(images.device)
    with torch.no_grad():
        return network.forward_head(network.forward_features(network.normalise(x)), pre_logits=True)


@cache
def imagenet_network() -> Any:
    """EfficientNet-lite0, read once in a process."""
    return pretrained_networks.efficientnet_lite0()


def _pixels(images: Tensor) -> Tensor:
    return images.flatten(1)


def _unit(images: Tensor) -> Tensor:
    return images if images.is_floating_point() else images.float() / 255


def _as_near(here: Tensor, there: Tensor, right: Tensor) -> Tensor:
    """Which of the points `there` lie no further than `right`, a squared distance; (batch, n) bool.

    In float64, and what its rounding cannot tell apart counts as equal: 1e-12 of the squared lengths, of which one level of one byte is
    still a hundred times more in an image of 3 x 224 x 224.
    """
    lengths = here.square().sum(1, keepdim=True) + there.square().sum(1)  # (batch, n)
    return lengths - 2 * here @ there.T <= right + 1e-12 * lengths


def _bytes(image: Tensor) -> bytes:
    levels = image if image.dtype == torch.uint8 else (image.detach() * 255).round().clamp(0, 255).to(torch.uint8)
    return levels.cpu().numpy().tobytes()


def _check(images: Tensor, truth: Tensor, distractors: Tensor, by: str) -> None:
    if (
        images.shape != truth.shape
        or distractors.shape[1:] != truth.shape[1:]
        or not len(truth)
        or not len(distractors)
    ):
        shapes = ", ".join(str(tuple(batch.shape)) for batch in (images, truth, distractors))
        raise ValueError(
            f"images, truth, distractors: got shapes {shapes}; bring them to one size, one or more of each"
        )
    if images.is_floating_point() and not images.isfinite().all():
        raise ValueError("images: NaN or infinity among the pixels; leave out the images that failed and say so")
    for name, batch in (("truth", truth), ("distractors", distractors)):
        if batch.is_floating_point():
            check_range(name, batch, "give bytes, or values in [0, 1]")
    if by == "lpips" and min(truth.shape[2:]) < image_quality.LPIPS_SIDE:
        raise ValueError(f"truth: {tuple(truth.shape[2:])} pixels, but by='lpips' needs sides of 31; use by='features'")
    index_of: dict[bytes, int] = {}
    for i, image in enumerate(truth):
        if (first := index_of.setdefault(_bytes(image), i)) != i:
            raise ValueError(f"truth: images {first} and {i} are the same picture, so no rank says which was meant")
    for i, image in enumerate(distractors):
        if (twin := index_of.get(_bytes(image))) is not None:
            raise ValueError(
                f"distractors: number {i} is the same picture as truth {twin}; give distractors without it"
            )
