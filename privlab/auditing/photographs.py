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


def photographs(where: str | None, model: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """`COUNT` images as a model takes them, (n, channels, height, width) in [0, 1], their labels, and others, or None where there are none.

    where: a set of `data.names()`, whose labels count modulo the model's classes, or a folder of image files, which get the model's own
    answers for labels. If not given, "imagenet_samples", or "cifar10_samples" for small images.
    """
    channels, *sides = getattr(model, "pretrained_cfg", {}).get("input_size", (3, 32, 32))
    sides = getattr(getattr(model, "patch_embed", None), "img_size", None) or sides
    where = where or ("imagenet_samples" if min(sides) > 64 else "cifar10_samples")
    if where in data.names():
        chosen = data.load(where)
        rows = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0))[: COUNT + PUBLIC]
        photos, labels = (
            [
                Image.fromarray(p.squeeze(0).numpy() if len(p) == 1 else p.permute(1, 2, 0).numpy())
                for p in chosen.pixels[rows]
            ],
            chosen.labels[rows],
        )
    else:
        files = [f for f in reading.visible(where, "**/*") if f.suffix.lower() in SUFFIXES][: COUNT + PUBLIC]
        if not files:
            raise ValueError(
                f"images={where!r} is no folder with images, nor a set{sources.nearest(where, data.names())}"
            )
        photos, labels = [Image.open(file) for file in files], None
    mode = "L" if channels == 1 else "RGB"
    arrays = [
        np.array(ImageOps.fit(faces.converted(ImageOps.exif_transpose(photo), mode), tuple(sides)[::-1]))
        for photo in photos
    ]
    images = torch.from_numpy(np.stack(arrays)).reshape(-1, *sides, channels).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        logits = model(preprocessing(model)(images[:COUNT]))  # (images, classes)
    own = logits.argmax(1) if labels is None else labels[:COUNT] % logits.shape[1]
    return images[:COUNT], own, images[COUNT:] if len(images) > COUNT else None
