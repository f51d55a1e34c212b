"""What a model is fed in training: members of a set as bytes, augmented and mixed a batch at a time; and what it is asked about later."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from timm.data import Mixup
from torch import Tensor
from torchvision.transforms.v2 import functional as colour

from privlab.data import Images
from privlab.data.images import check_range
from privlab.training.recipes import Recipe, steps

# The queries of the label-only attack: an image moved by one pixel (Choquette-Choo et al. 2021, in the order of their released code).
SHIFTS = ("shift_-1_0", "shift_0_-1", "shift_0_1", "shift_1_0")
Labelled = Images | tuple[Tensor, Tensor]  # a set, or (pixels, labels), pixels being bytes, or floats in [0, 1]


def subset(images: Labelled, indices: Sequence[int] | Sequence[bool] | Tensor) -> tuple[Tensor, Tensor]:
    """Some of a set as a pair of pixels and labels, the pixels as they are stored: the members of one training, say.

    indices: places in the set, in the order wanted, or one truth value an image (a row of a keep matrix).
    """
    pixels, labels = pair(images)
    rows = torch.as_tensor(indices)
    return pixels[rows], labels[rows]


def pair(images: Labelled) -> tuple[Tensor, Tensor]:
    """Pixels and labels of a set or a pair.  Raises ValueError where they do not fit together or are no images in [0, 1]."""
    pixels, labels = (images.pixels, images.labels) if isinstance(images, Images) else images
    labels = torch.as_tensor(labels)
    if pixels.ndim != 4 or len(pixels) == 0 or labels.shape != pixels.shape[:1] or labels.is_floating_point():
        given = f"pixels of shape {tuple(pixels.shape)} with labels of shape {tuple(labels.shape)} of {labels.dtype}"
        raise ValueError(f"images: got {given}; give (n, channels, height, width) and one whole number each")
    check_unit(pixels)
    return pixels, labels.long()


def check_unit(pixels: Tensor) -> None:
    """Raise ValueError for floats that leave [0, 1]."""
    if pixels.is_floating_point():
        check_range("images", pixels, "give values in [0, 1], or bytes; of values in [-1, 1], (images + 1) / 2")


def pixels(images: Labelled | Tensor) -> Tensor:
    """The pixels of a set or a pair; pixels alone stay as they are."""
    return images if isinstance(images, Tensor) else pair(images)[0]


def unit(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """Pixels in [0, 1], as floats of this type."""
    return pixels.to(dtype) if pixels.is_floating_point() else pixels.to(dtype) / 255


def seed_dropout(device: torch.device, seed: int) -> None:
    """Seed the global generators that a model on this device draws from, and no other card's."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def order(images: int, recipe: Recipe, generator: torch.Generator) -> list[Tensor]:
    """One epoch: all places once, in random order, cut into `steps` batches; the last takes what is left over."""
    rows = torch.randperm(images, generator=generator)
    before_last = recipe.batch_size * (steps(recipe, images) - 1)
    return [*rows[:before_last].split(recipe.batch_size), rows[before_last:]] if before_last else [rows]


def augmented(pixels: Tensor, augment: str, generator: torch.Generator) -> Tensor:
    """Each image of a batch (batch, channels, height, width) by itself; the draws are made on the CPU, so devices agree."""
    if augment == "none":
        return pixels
    n, channels, height, width = pixels.shape
    if augment == "crop_flip":
        down, right = height // 8, width // 8
        top, left = (torch.randint(2 * m + 1, (n, 1), generator=generator) for m in (down, right))
        rows, columns = (top + torch.arange(height)).to(pixels.device), (left + torch.arange(width)).to(pixels.device)
        padded = F.pad(pixels, (right, right, down, down))
        image, channel = torch.arange(n).view(-1, 1, 1, 1), torch.arange(channels).view(1, -1, 1, 1)
        pixels = padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
    elif augment == "resized_crop":
        pixels = _jittered(_cropped(unit(pixels, torch.float32), generator), generator)
    flip = torch.rand(n, 1, 1, 1, generator=generator) < 0.5
    return torch.where(flip.to(pixels.device), pixels.flip(-1), pixels)


def _cropped(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Of each image its own random window of 85 to 100% of the area, at full size again (bilinear)."""
    n = len(pixels)
    area, down, right = torch.rand(3, n, generator=generator)
    side = (0.85 + (1.0 - 0.85) * area).sqrt()  # of the window, where the image's is 1
    windows = torch.zeros(n, 2, 3)  # from [-1, 1] of the window to [-1, 1] of the image
    windows[:, 0, 0] = windows[:, 1, 1] = side
    windows[:, 0, 2], windows[:, 1, 2] = (2 * right - 1) * (1 - side), (2 * down - 1) * (1 - side)
    grid = F.affine_grid(windows.to(pixels), list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _jittered(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """torchvision's ColorJitter(0.2, 0.2, 0.1, 0.1), each image by itself, always in the order brightness, contrast, saturation, hue."""
    drawn = (2 * torch.rand(len(pixels), 4, generator=generator) - 1) * torch.tensor([0.2, 0.2, 0.1, 0.1])
    return torch.stack([_jitter(image, *by) for image, by in zip(pixels, drawn.tolist(), strict=True)])


def _jitter(image: Tensor, brightness: float, contrast: float, saturation: float, hue: float) -> Tensor:
    image = colour.adjust_contrast(colour.adjust_brightness(image, 1 + brightness), 1 + contrast)
    if len(image) != 3:  # a grey image has neither of the other two
        return image
    return colour.adjust_hue(colour.adjust_saturation(image, 1 + saturation), hue)


def mixed(mix: Mixup, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """timm's mixup of a batch of any size: it pairs the first with the last, so in an odd one the middle gets a twin to pair with."""
    if len(x) % 2 == 0:
        return mix(x, labels)
    rows = torch.tensor(sorted([*range(len(x)), len(x) // 2]), device=x.device)
    mixed, targets = mix(x[rows], labels[rows])
    once = torch.arange(len(rows), device=x.device) != len(x) // 2
    return mixed[once], targets[once]


def queries(pixels: Tensor, names: Sequence[str]) -> Iterator[Tensor]:
    """Of pixels (n, channels, height, width), of any type, what an attacker asks a model about, one set after the other.

    names: "image" as it is, "mirror" left to right, "shift_DX_DY", DX pixels to the right and DY down, where the free border repeats the
        image's own edge (as in Choquette-Choo et al. 2021's released code).
    All are deterministic, the same for the victim and every shadow model: of a crop drawn anew for each, answers could not be compared.
    """
    height, width = pixels.shape[-2:]
    for name in names:
        if name in ("image", "mirror"):
            yield pixels if name == "image" else pixels.flip(-1)
        else:
            right, down = map(int, name.removeprefix("shift_").split("_"))
            rows, columns = torch.arange(height) - down, torch.arange(width) - right
            yield pixels[..., rows.clamp(0, height - 1)[:, None], columns.clamp(0, width - 1)]
