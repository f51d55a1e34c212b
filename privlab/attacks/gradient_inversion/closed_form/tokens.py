"""What is known of a ViT's tokens without the image: the patch projection, the embedding, the tokens in front."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares
from privlab.attacks.gradient_inversion.closed_form.recovery import Recovery
from privlab.leak import Leak
from privlab.models import zoo


def pixel_size(leak: Leak) -> float:
    """Standard deviation of a normalised pixel, if pixels of natural images have one of 1/4."""
    return 0.25 * len(leak.normalise.std) / sum(leak.normalise.std)


def recovery(
    patches: Tensor, model: VisionTransformer, leak: Leak, solved: least_squares.Solved, unknowns: int
) -> Recovery:
    size, patch = model.patch_embed.img_size, model.patch_embed.patch_size
    normalised = F.fold(patches.T[None], size, patch, stride=patch)  # (1, channels, height, width)
    return Recovery(leak.normalise.inverse(normalised), solved.condition, solved.rank, unknowns)


def projection(model: VisionTransformer) -> tuple[Tensor, Tensor]:
    """The patch embedding as a matrix, (width, patch pixels), and its bias, (width,)."""
    layer = model.patch_embed.proj
    weight = layer.weight.detach().flatten(1).double()
    bias = (
        torch.zeros(len(weight), dtype=torch.float64, device=weight.device)
        if layer.bias is None
        else layer.bias.detach().double()
    )
    return weight, bias


def known(model: VisionTransformer) -> Tensor:
    """What enters the first block for a normalised image of zeros, (tokens, width): prefix tokens first."""
    count = model.patch_embed.num_patches
    patches = projection(model)[1].expand(count, -1)  # (patches, width): the bias
    if isinstance(model.pos_embed, Tensor):
        patches = patches + model.pos_embed[0, -count:].detach().double()
    prefix = [t[0] for t in (model.cls_token, model.reg_token, getattr(model, "dist_token", None)) if t is not None]
    if not prefix:
        return patches
    tokens = torch.cat(prefix).detach().double()
    if isinstance(model.pos_embed, Tensor) and not model.no_embed_class:
        tokens = tokens + model.pos_embed[0, : len(tokens)].detach().double()
    return torch.cat([tokens, patches])


def gradient(leak: Leak, model: nn.Module, name: str) -> Tensor:
    """One gradient in float64, on the model's device; ValueError where it is missing, broken, zero, or of another model."""
    gradient, parameter = leak[name], model.get_parameter(name)
    if gradient.shape != parameter.shape:
        raise ValueError(
            f"leak: the gradient of {name!r} has shape {tuple(gradient.shape)} and the model's parameter {tuple(parameter.shape)}; "
            "give the model that the client trained"
        )
    if not gradient.any():
        raise ValueError(f"leak: the gradient of {name!r} is zero everywhere, so it says nothing about the image")
    return gradient.to(parameter.device, torch.float64)


def require_one(leak: Leak) -> None:
    if leak.batch_size != 1:
        raise ValueError(
            f"leak: it averages {leak.batch_size} images, whose tokens cannot be told apart here; give a leak of one image"
        )


def require_patches(model: nn.Module, leak: Leak, any_batch: bool = False) -> None:
    """One image, cut into patches by one linear layer, with nothing between that and the position embedding."""
    if not any_batch:
        require_one(leak)
    if not isinstance(model, VisionTransformer):
        raise ValueError(
            f"model: {type(model).__name__} is no VisionTransformer of timm; try vit_base_patch16_224 or a DeiT"
        )
    size = model.patch_embed.img_size  # of the embedding; None where it is made for each image
    if size is not None and tuple(leak.image_shape[1:]) != tuple(size):
        raise ValueError(
            f"leak: its images have {leak.image_shape[1]} x {leak.image_shape[2]} pixels, and the model's embedding is one of {size[0]} x "
            f"{size[1]}, which it resizes; this form reads one that is added as it is"
        )
    layer = getattr(model.patch_embed, "proj", None)
    plain = isinstance(layer, nn.Conv2d) and layer.in_channels == leak.image_shape[0]
    if not plain or not does_nothing(model.patch_embed.norm, model):
        raise ValueError(
            "model: its patches are not made from the image by one linear layer; try a ViT whose patch_embed is one convolution"
        )


def does_nothing(layer: nn.Module, model: VisionTransformer) -> bool:
    """Whether a layer gives tokens back as they were, as it is now, whatever its class."""
    count, like = model.patch_embed.num_patches, model.patch_embed.proj.weight
    probe = torch.randn(1, count, model.embed_dim, generator=torch.Generator().manual_seed(0)).to(like)
    with torch.no_grad(), torch.random.fork_rng(devices=[like.device] if like.is_cuda else []):
        return isinstance(layer, nn.Identity) or torch.equal(layer(probe.clone()), probe)


def require_positions(model: VisionTransformer) -> None:
    if not zoo.embeds_positions(model):
        raise ValueError(
            f"model: this {type(model).__name__} has no learnable position embedding (pos_embed), so nothing gives dL/dZ away; "
            "try closed_form.subspace, which does without"
        )
