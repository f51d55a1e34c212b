"""Named image sets as tensors: pixels, labels, class names, and the normalisation that goes with each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

from privlab.data import sources


def check_range(argument: str, pixels: Tensor, remedy: str) -> None:
    """Raise ValueError, naming the argument, for pixels that are not finite and in [0, 1] (a hundredth beside it is rounding)."""
    low, high = pixels.min().item(), pixels.max().item()
    if not (low >= -0.01 and high <= 1.01):  # not: so that NaN is caught too
        raise ValueError(f"{argument}: pixels go from {low:.4g} to {high:.4g}; {remedy}")


@dataclass(frozen=True)
class Normalise:
    """Per-channel (x - mean) / std and its inverse; preprocessing is public, so the attacker knows it too.

    mean, std: one value a channel, for pixels in [0, 1], std above 0; a single value serves every channel. The default does nothing.
    Images are (batch, channels, height, width), on any device and of any float type; so are the results.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(float(m) for m in self.mean))
        object.__setattr__(self, "std", tuple(float(s) for s in self.std))
        if len(self.mean) != len(self.std) or min(self.std, default=0) <= 0:
            raise ValueError(f"mean={self.mean}, std={self.std}: give one of each a channel, and a std above 0")

    def __call__(self, images: Tensor) -> Tensor:
        return (images - self._row(self.mean, images)) / self._row(self.std, images)

    def inverse(self, images: Tensor) -> Tensor:
        """What `__call__` made of the images, undone: back to pixels in [0, 1]."""
        return images * self._row(self.std, images) + self._row(self.mean, images)

    @staticmethod
    def _row(values: tuple[float, ...], like: Tensor) -> Tensor:
        if like.dim() != 4 or len(values) not in (1, like.shape[1]):
            wanted = f"a normalisation of {len(values)} channels; give (batch, {len(values)}, height, width)"
            raise ValueError(f"images of shape {tuple(like.shape)} do not fit {wanted}")
        return like.new_tensor(values).view(1, -1, 1, 1)


# Over every pixel of the training images, computed by us from the sets (a test repeats it); CIFAR-100's are those in common use, ImageNet's
# those of torchvision and timm. The .2023/.1994/.2010 of many codes for CIFAR-10 is the mean of each image's own deviation.
NORMALISE = {
    "cifar10": Normalise((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": Normalise((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "mnist": Normalise((0.1307,), (0.3081,)),
    "orl": Normalise((0.4416,), (0.1958,)),
    "imagenet_samples": Normalise((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
NORMALISE |= {f"{name}_samples": NORMALISE[name] for name in ("cifar10", "mnist")}


@dataclass(frozen=True, repr=False)
class Images:
    """One split of a set. The pixels stay on disk until they are asked for.

    pixels: uint8 (images, channels, height, width), mapped from the file: reading some touches those alone.
    labels: int64 (images,), each an index into `classes`.
    """

    name: str
    split: str
    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    normalise: Normalise

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.pixels.shape[1:])
        return f"Images({self.name}, {self.split}: {len(self):,} of {shape}, {len(self.classes)} classes)"

    def take(self, indices: slice | Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
        """The images at these places, in this order: (n, channels, height, width), float32 in [0, 1], and labels (n,), int64."""
        rows = indices if isinstance(indices, slice) else torch.as_tensor(indices)
        return self.pixels[rows].float() / 255, self.labels[rows]

    def one(self, i: int, size: int | None = None) -> tuple[Tensor, Tensor]:
        """The i-th image as a batch of one, (1, channels, height, width), float32 in [0, 1], and its label, (1,).

        size: of the square that it is resized to (bilinear, antialiased, so values stay in [0, 1]); None leaves it as it is.
        """
        image, label = self.take([i])
        if size is not None and image.shape[-2:] != (size, size):
            image = F.interpolate(image, (size, size), mode="bilinear", align_corners=False, antialias=True).clamp(0, 1)
        return image, label

    def sample(self, n: int, seed: int) -> tuple[Tensor, Tensor]:
        """n different images and their labels, as `take` gives them, drawn with equal chances by this seed alone."""
        return self.take(torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))[:n])


def names() -> list[str]:
    """The sets that `load` knows."""
    return sorted(NORMALISE)


def load(name: str, split: str = "train", to: sources.Where = None) -> Images:
    """One split of a named set; it is fetched first where it is missing, which says so.

    name: one of `names()`.  split: "train" or "test"; orl and the samples have no published split and are all "train".
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for a name or a split that does not exist, and for a file that has changed; see also `sources.fetch`.
    """
    if name not in NORMALISE:
        raise ValueError(f"name={name!r} is not a known image set{sources.nearest(name, names())}")
    splits = sources.splits(name)
    if split not in splits:
        raise ValueError(f"split={split!r} does not exist in {name!r}; it has {' and '.join(map(repr, splits))}")
    with safe_open(sources.fetch(name, to) / f"{split}.safetensors", framework="pt") as file:
        classes = tuple(json.loads(file.metadata()["classes"]))
        return Images(name, split, file.get_tensor("images"), file.get_tensor("labels"), classes, NORMALISE[name])
