"""One door to every victim: timm's models by their own names, and a few small members of the same families for 32 x 32 images."""

from __future__ import annotations

import difflib
from typing import Any

import timm
import torch
from timm.layers import set_fused_attn, use_fused_attn
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from privlab.data import NORMALISE, Normalise
from privlab.leak import preprocessing
from privlab.models import positions

# Small victims: the same timm classes, sized for a laptop. A row is (timm name, what differs, preprocessing).
SMALL: dict[str, tuple[str, dict, Normalise]] = {
    "vit_cifar": (  # omihub777/ViT-CIFAR's shape, as Lu et al. 2022 use it for small images, with timm's blocks
        "vit_tiny_patch16_224",
        dict(img_size=32, patch_size=8, embed_dim=384, depth=4, num_heads=4, num_classes=10),
        NORMALISE["cifar10"],
    ),
}


def build(
    name: str,
    num_classes: int | None = None,
    seed: int = 0,
    position: str = "learnable",
    position_std: float | None = None,
    position_rank: int | None = None,
    **changes: object,
) -> Any:
    """A fresh victim in eval mode, its weights drawn from `seed`, with its preprocessing in `model.normalise`.

    name: any timm model, or one of `SMALL`.  num_classes: rows of the head; the model's own number if not given.
    position, position_std, position_rank: kind, scale and rank of a ViT's position embedding (see `positions.draw`);
        timm's own learnable one, with standard deviation .02, if nothing is given.
    changes: passed to timm as they are: img_size, patch_size, embed_dim, depth, num_heads, in_chans, ...
    Attention is built unfused, because gradient attacks differentiate twice and the fused kernels have no second derivative.
    Raises ValueError for a name that is not there (with the nearest), or an image size that the patch does not divide.
    """
    if name not in SMALL and not timm.is_model(name):
        known = [*SMALL, *timm.list_models()]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(
            f"name={name!r} is not in the zoo; nearest: {', '.join(near) or 'none, see timm.list_models()'}"
        )
    timm_name, settings, normalise = SMALL.get(name, (name, {}, None))
    settings = {**settings, **changes} | ({} if num_classes is None else {"num_classes": num_classes})
    _check_patches(settings.get("img_size"), settings.get("patch_size"))
    width, heads = settings.get("embed_dim"), settings.get("num_heads")
    if isinstance(width, int) and isinstance(heads, int) and (heads < 1 or width % heads):
        raise ValueError(
            f"embed_dim={width} does not split into num_heads={heads}; try num_heads=1, or a multiple of it"
        )

    fused = use_fused_attn()
    set_fused_attn(False)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model: Any = timm.create_model(timm_name, **settings)
    finally:
        set_fused_attn(bool(fused))
    if isinstance(model, VisionTransformer):
        _check_patches(
            settings.get("img_size"), model.patch_embed.patch_size[0]
        )  # the model's own, where none was given
    model.normalise = normalise or preprocessing(model)
    if position != "learnable" or position_std is not None or position_rank is not None:
        positions.place(model, position, position_std, position_rank, seed)
    return model.eval()


def embeds_positions(model: nn.Module) -> bool:
    """Whether the model adds a learnable position embedding to its patches, as timm's ViT and DeiT do."""
    return (
        isinstance(model, VisionTransformer)
        and isinstance(model.pos_embed, nn.Parameter)
        and model.pos_embed.requires_grad
    )


def _check_patches(size: object, patch: object) -> None:
    if isinstance(size, tuple):
        for side in size:
            _check_patches(side, patch)
    if not isinstance(size, int) or not isinstance(patch, int):
        return
    if patch < 1:
        raise ValueError(f"patch_size={patch} is no number of pixels; try 8 or 16")
    if size % patch:
        low, high = size // patch * patch, (size // patch + 1) * patch
        raise ValueError(
            f"img_size={size} is not a multiple of patch_size={patch}; try {f'{low} or ' if low else ''}{high}"
        )
