"""What is known of a ViT's tokens without the image: the patch projection, the embedding, the tokens in front; and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form.least_squares import Solved
from privlab.leak import Leak


@dataclass(frozen=True)
class Recovery:
    """What a linear system gave back.

    images: (1, channels, height, width), in pixels but not clamped: a value outside [0, 1] says that something was lost.
    condition: largest over smallest singular value of the system that was solved, undamped.
    rank: directions that stand above the noise.  unknowns: how many there are; with a lower rank some directions stay undetermined.
    """

    images: Tensor
    condition: float
    rank: int
    unknowns: int

    @property
    def clamped(self) -> Tensor:
        """The images with every pixel moved into [0, 1]."""
        return self.images.clamp(0, 1)

    @property
    def hidden(self) -> int:
        """Directions that the system leaves undetermined."""
        return self.unknowns - self.rank


def pixel_size(leak: Leak) -> float:
    """Standard deviation of a normalised pixel, if pixels of natural images have one of 1/4."""
    return 0.25 * len(leak.normalise.std) / sum(leak.normalise.std)


def recovery(patches: Tensor, model: VisionTransformer, leak: Leak, solved: Solved, unknowns: int) -> Recovery:
    """patches: (patches, numbers of a patch), normalised."""
    size, patch = model.patch_embed.img_size, model.patch_embed.patch_size
    normalised = F.fold(patches.T[None], size, patch, stride=patch)  # (1, channels, height, width)
    return Recovery(leak.normalise.inverse(normalised), solved.condition, solved.rank, unknowns)


def projection(model: VisionTransformer) -> tuple[Tensor, Tensor]:
    """The patch embedding as a matrix, (width, patch pixels), and its bias, (width,)."""
    layer = model.patch_embed.proj
    weight = layer.weight.detach().flatten(1).double()
    return weight, torch.zeros_like(weight[:, 0]) if layer.bias is None else layer.bias.detach().double()


def known(model: VisionTransformer) -> Tensor:
    """What enters the first block for a normalised image of zeros, (tokens, width): prefix tokens first."""
    patches = projection(model)[1].expand(model.patch_embed.num_patches, -1)  # (patches, width): the bias
    prefix = [t[0] for t in (model.cls_token, model.reg_token, getattr(model, "dist_token", None)) if t is not None]
    tokens = torch.cat([*prefix, patches]).detach().double()
    if isinstance(model.pos_embed, Tensor):
        embedding = model.pos_embed[0].detach().double()
        tokens[-len(embedding) :] += embedding  # of all tokens, or of the patches alone
    return tokens


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


def require_patches(model: nn.Module, leak: Leak) -> None:
    """Images that are cut into patches by one linear layer, with nothing between that and the position embedding."""
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
    if not plain or not isinstance(model.patch_embed.norm, nn.Identity):
        raise ValueError(
            "model: its patches are not made from the image by one linear layer; try a ViT whose patch_embed is one convolution"
        )
