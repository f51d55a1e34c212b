"""What the command line of the audit names: a model with its weights, and photographs to try it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision.transforms.functional import to_pil_image, to_tensor

from privlab import data, models
from privlab.compute import reading
from privlab.data import faces, sources
from privlab.models import morph_steps, zoo
from privlab.models.forward import preprocessing

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
COUNT, PUBLIC = 4, 32  # images that are audited; others of the same set, at most, whose mean is the baseline


def named(name: str, classes: int | None = None, weights: Path | None = None) -> nn.Module:
    """A model of timm's or of the zoo's, in eval mode.  classes: rows of its head.  weights: a safetensors file of its state dict."""
    model: nn.Module = models.build(name, num_classes=classes, seed=0)
    if weights is not None:
        try:
            model.load_state_dict(load_file(weights))
        except (OSError, SafetensorError, RuntimeError) as error:
            why = " ".join(str(error).split())[:200]
            raise ValueError(f"weights={str(weights)!r} are no safetensors of {name} ({why})") from error
    return model


def photographs(where: str | None, model: Any, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """`COUNT` images as a model takes them, (n, channels, height, width) in [0, 1], their labels, and others, or None where there are none.

    where: a set of `data.names()`, whose labels count modulo the model's classes, or a folder of image files, which get the model's own
    answers for labels. If not given, "imagenet_samples", or "cifar10_samples" for small images.  name: as `named` has it.
    """
    small = name in zoo.CIFAR or name in morph_steps.NAMES
    channels, *sides = (3, 32, 32) if small else getattr(model, "pretrained_cfg", {}).get("input_size", (3, 64, 64))
    sides = getattr(getattr(model, "patch_embed", None), "img_size", None) or sides
    where, labels = where or ("imagenet_samples" if min(sides) > 64 else "cifar10_samples"), None
    if where in data.names():
        try:
            chosen = data.load(where)
        except RuntimeError as error:  # no origin delivered
            raise ValueError(f"images={where!r} could not be fetched; give photographs: --images FOLDER") from error
        rows = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0))[: COUNT + PUBLIC]
        photos, labels = [to_pil_image(pixels) for pixels in chosen.pixels[rows]], chosen.labels[rows]
    else:
        files = [f for f in reading.visible(where, "**/*") if f.suffix.lower() in SUFFIXES][: COUNT + PUBLIC]
        photos = [ImageOps.exif_transpose(Image.open(file)) for file in files]
    if not photos:
        raise ValueError(f"images={where!r} has no image, and is no known set{sources.nearest(where, data.names())}")
    mode, size = "L" if channels == 1 else "RGB", (sides[1], sides[0])
    sized = [to_tensor(ImageOps.fit(faces.converted(photo, mode), size)) for photo in photos]
    images = torch.stack(sized)  # (up to COUNT + PUBLIC, channels, height, width)
    with torch.no_grad():
        logits = model(preprocessing(model)(images[:COUNT]))  # (images, classes)
    own = logits.argmax(1) if labels is None else labels[:COUNT] % logits.shape[1]
    return images[:COUNT], own, images[COUNT:] if len(images) > COUNT else None
