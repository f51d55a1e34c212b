"""What the command line of the audit names: a model with its weights, and photographs to try it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from privlab import data, models
from privlab.compute import reading
from privlab.data import faces, sources
from privlab.models import morph_steps, zoo
from privlab.models.forward import preprocessing

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
COUNT = 4  # images that are audited
PUBLIC = 32  # others of the same set, at most, whose mean is the baseline


def named(name: str, classes: int | None = None, weights: Path | None = None, seed: int = 0) -> nn.Module:
    """A model of timm's or of the zoo's, in eval mode, fresh or with the weights of a file.

    classes: rows of its head; its own number if not given.  weights: a safetensors file of its state dict; other kinds are not read, as
    a pickle is a program.  seed: of fresh weights.
    Raises ValueError for an unknown name (with the nearest), and for a file that does not fit, naming what does not.
    """
    if classes is not None and classes < 2:
        raise ValueError(f"classes={classes} leaves nothing to tell apart; give 2 or more")
    model: nn.Module = models.build(name, num_classes=classes, seed=seed)
    return model if weights is None else _filled(model, name, weights)


def _filled(model: nn.Module, name: str, path: Path) -> nn.Module:
    if path.suffix != ".safetensors":
        raise ValueError(
            f"weights={str(path)!r} is no .safetensors file; where you trust it, write one: "
            "safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')"
        )
    if not path.is_file():
        raise ValueError(f"weights={str(path)!r} is not there; give the path of a .safetensors file")
    try:
        state = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"weights={str(path)!r} cannot be read ({error})") from error
    expected = model.state_dict()
    absent, strange = [n for n in expected if n not in state], [n for n in state if n not in expected]
    if absent or strange:
        faults = [f"{len(n)} {what}, such as {n[0]!r}" for n, what in ((absent, "lack"), (strange, "are unknown")) if n]
        raise ValueError(f"weights={str(path)!r} are not those of {name}: of its tensors {' and '.join(faults)}")
    if odd := [n for n in expected if expected[n].shape != state[n].shape]:
        here, there = tuple(state[odd[0]].shape), tuple(expected[odd[0]].shape)
        raise ValueError(
            f"weights={str(path)!r}: {odd[0]!r} is {here}, and in {name} {there}; if it is the head, give the number of classes"
        )
    model.load_state_dict(state)
    return model


def input_shape(model: Any, name: str) -> tuple[int, int, int]:
    """(channels, height, width) that a model of the zoo is made for: 32 x 32 for its small members, else as timm says, else 3 x 64 x 64."""
    if name in zoo.CIFAR or name in morph_steps.NAMES:
        return 3, 32, 32
    channels, *sides = getattr(model, "pretrained_cfg", {}).get("input_size", (3, 64, 64))
    if size := getattr(getattr(model, "patch_embed", None), "img_size", None):
        sides = size
    return channels, sides[0], sides[1]


def photographs(
    where: str | None, model: nn.Module, shape: tuple[int, int, int], seed: int = 0
) -> tuple[Tensor, Tensor, Tensor | None]:
    """`COUNT` images, (n, *shape) in [0, 1], their labels, (n,), and others of the same kind, or None where there are no more.

    where: a set of `data.names()`, or a folder of image files; if not given, "imagenet_samples", or "cifar10_samples" for small images.
        The labels of a folder are the numbers of its subfolders in the order of the alphabet; without subfolders, the model's own answers.
        Labels count modulo the model's classes, so that any set does for any model.
    seed: which of them are taken.
    Raises ValueError for what is neither a set nor a folder with images, and for a set that is not here and cannot be fetched.
    """
    where = where or ("imagenet_samples" if min(shape[1:]) > 64 else "cifar10_samples")
    order = torch.Generator().manual_seed(seed)
    if where in data.names():
        dataset = _loaded(where)
        rows = torch.randperm(len(dataset), generator=order)[: COUNT + PUBLIC].tolist()
        pixels = [_sized(Image.fromarray(_bytes(dataset.pixels[i])), shape) for i in rows]
        labels = dataset.labels[rows]
    else:
        folder = Path(where)
        files = [f for f in reading.visible(folder, "**/*") if f.suffix.lower() in SUFFIXES]
        if not files:
            lacks = "holds no image" if folder.is_dir() else "is neither a folder nor a known set"
            raise ValueError(f"images={where!r} {lacks}{sources.nearest(where, data.names())}")
        files = [files[i] for i in torch.randperm(len(files), generator=order)[: COUNT + PUBLIC].tolist()]
        pixels = [_opened(file, shape) for file in files]
        classes = [f.name for f in reading.visible(folder) if f.is_dir()]
        tops = [file.relative_to(folder).parts[0] for file in files]
        labels = torch.tensor([classes.index(top) if top in classes else -1 for top in tops])
    images = torch.cat(pixels)  # (up to COUNT + PUBLIC, channels, height, width)
    labels = _answers(model, images[:COUNT], labels[:COUNT])
    return images[:COUNT], labels, images[COUNT:] if len(images) > COUNT else None


def _loaded(name: str) -> data.Images:
    try:
        return data.load(name)
    except RuntimeError as error:  # no origin delivered
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"images={name!r} are not here and could not be fetched ({first}); give photographs: --images FOLDER"
        ) from error


def _answers(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    with torch.no_grad():
        logits = model(preprocessing(model)(images))  # (images, classes)
    return torch.where(labels < 0, logits.argmax(1), labels % logits.shape[1])


def _bytes(pixels: Tensor) -> np.ndarray:
    """(channels, height, width) bytes as PIL takes them."""
    return pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous().numpy()


def _opened(file: Path, shape: tuple[int, int, int]) -> Tensor:
    try:
        with Image.open(file) as image:
            return _sized(ImageOps.exif_transpose(image), shape)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"images: {str(file)!r} cannot be read ({error}); take it out of the folder") from error


def _sized(image: Image.Image, shape: tuple[int, int, int]) -> Tensor:
    """The middle of an image at the model's size, (1, channels, height, width) in [0, 1]."""
    channels, height, width = shape
    if channels not in (1, 3):
        raise ValueError(
            f"images: the model takes {channels} channels; photographs have 1 or 3, so call privlab.audit from Python"
        )
    photo = faces.converted(image, "L" if channels == 1 else "RGB")
    fitted = ImageOps.fit(photo, (width, height), Image.Resampling.BICUBIC)
    values = torch.from_numpy(np.array(fitted)).float() / 255
    return (values[None] if channels == 1 else values.permute(2, 0, 1))[None]
