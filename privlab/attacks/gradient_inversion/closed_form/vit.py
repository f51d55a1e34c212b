"""APRIL's closed form (Lu et al. 2022), and what is known of a Vision Transformer before a solve.

Rows are tokens: Z is (tokens, width) and a linear layer computes Z W^T.
"""

import contextlib
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares, patches
from privlab.attacks.gradient_inversion.closed_form.least_squares import Noise, Recovery, gradient
from privlab.leak import Leak
from privlab.models.april import PlainBlock

QKV = "blocks.0.attn.qkv.weight"


def folded(patches: Tensor, model: VisionTransformer, leak: Leak) -> Tensor:
    """The image, in pixels, of normalised patches, (patches, numbers of a patch)."""
    size, patch = model.patch_embed.img_size, model.patch_embed.patch_size
    return leak.normalise.inverse(F.fold(patches.T[None], size, patch, stride=patch))


def projection(model: VisionTransformer) -> tuple[Tensor, Tensor]:
    """The patch embedding as a matrix, (width, patch pixels), and its bias, (width,)."""
    layer = model.patch_embed.proj
    weight = layer.weight.detach().flatten(1).double()
    return weight, torch.zeros_like(weight[:, 0]) if layer.bias is None else layer.bias.detach().double()


def known(model: VisionTransformer) -> Tensor:
    """What enters the first block for a normalised image of zeros, (tokens, width): prefix tokens first (the sum of eq. 10)."""
    patches = projection(model)[1].expand(model.patch_embed.num_patches, -1)  # (patches, width): the bias
    prefix = [t[0] for t in (model.cls_token, model.reg_token, getattr(model, "dist_token", None)) if t is not None]
    tokens = torch.cat([*prefix, patches]).detach().double()
    if isinstance(model.pos_embed, Tensor):
        embedding = model.pos_embed[0].detach().double()
        tokens[-len(embedding) :] += embedding  # of all tokens, or of the patches alone
    return tokens


@torch.no_grad()
def require_vit(model: nn.Module, leak: Leak) -> None:
    """What enters the first block has to be `known`, and the image's patches through one convolution; a pass on noise tells."""
    layer = getattr(getattr(model, "patch_embed", None), "proj", None)
    if isinstance(model, VisionTransformer) and isinstance(layer, nn.Conv2d):
        probe = torch.rand(1, *leak.image_shape, generator=torch.Generator().manual_seed(0)).to(layer.weight)
        with contextlib.suppress(AssertionError, RuntimeError, ValueError):  # images of another size
            ((_, entered, _),), _ = patches.heard(model, probe, [model.blocks[0]])
            rows = F.unfold(probe, layer.kernel_size, stride=layer.kernel_size)[0].T.double()
            tokens = torch.cat([known(model)[: -len(rows)], known(model)[-len(rows) :] + rows @ projection(model)[0].T])
            if (entered[0] - tokens).norm() <= torch.finfo(probe.dtype).eps ** 0.5 * tokens.norm():
                return
    raise ValueError(
        f"model: this is no VisionTransformer of timm where one convolution makes patches of {tuple(leak.image_shape)} and nothing but a "
        f"position embedding stands between that and the first block ({type(model).__name__}); try vit_base_patch16_224"
    )


def attention(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Recovery:
    """APRIL's closed form (Lu et al. 2022, Theorems 1 and 2, Algorithm 1, equations 6 to 11), for architecture A.

    With Q = Z Wq^T and so on, the chain rule gives dL/dZ = dQ Wq + dK Wk + dV Wv, and dL/dWq = dQ^T Z. Hence

        (dL/dZ)^T Z = Wq^T dWq + Wk^T dWk + Wv^T dWv         (width, width)

    where all but Z is known: a learnable position embedding is added to the tokens, so its gradient *is* dL/dZ (Theorem 2). (The paper's
    statement prints gradients of activations on the right; its proof has those of weights.) What is known of the tokens, the position
    embedding too (eq. 10), is taken off before the solve. A damped one stands for the pseudo-inverse: see `least_squares.solve`.

    model: `april.build("a")`; on a ViT with a norm before attention the system does not hold, and a warning says so.
    leak: one image's gradients, with `pos_embed` and `blocks.0.attn.qkv.weight` among them.  noise: the error over the gradients' size.
    Raises ValueError for a model without a learnable position embedding, more than one image, missing or NaN gradients.
    """
    least_squares.require_one(leak)
    require_vit(model, leak)
    first: Any = model.blocks[0]
    learnt = isinstance(model.pos_embed, nn.Parameter) and model.pos_embed.requires_grad
    own = learnt and not (model.no_embed_class and model.num_prefix_tokens)
    if not own or not hasattr(getattr(first, "attn", None), "qkv"):
        raise ValueError("model: no learnable position embedding of all its tokens has attention behind it to read")
    if not isinstance(first, PlainBlock):
        beside = "a norm or a shortcut stands beside attention, so Theorem 1 does not hold"
        warnings.warn(f"{beside}; try closed_form.patch_embedding", stacklevel=2)

    dz = gradient(leak, model, "pos_embed")[0]  # (tokens, width), eq. 9: A of Algorithm 1, line 4
    weight = first.attn.qkv.weight.detach().double()  # (3 width, width)
    dweight = gradient(leak, model, QKV)  # (3 width, width)
    grey = known(model)  # what the tokens would be for a grey image; the solve is for the difference
    weights, bias = projection(model)
    size = weights.square().sum(1).mean().sqrt() * least_squares.pixel_size(leak)  # of W x
    relative = least_squares.relative(leak, noise)
    right = (
        weight.T @ dweight - dz.T @ grey
    ) / size  # (width, width), eq. 8: b of line 5, whose sum over q, k, v the stacked rows make
    error = relative * least_squares.rms(dweight)
    # line 6; rows are tokens already, so line 8 has nothing to transpose
    solved = least_squares.solve(dz.T, right, relative, error * weight.square().sum(0).mean().sqrt() / size)
    if model.embed_dim < len(dz):
        least_squares.warn(f"width {model.embed_dim} is below the {len(dz)} tokens: rank {solved.rank}")
    embedded = solved.X[model.num_prefix_tokens :] * size + bias  # (patches, width): W x_i + b
    images = folded(pixels(model, embedded), model, leak)
    return Recovery(images, solved.condition, len(dz), ("pos_embed", QKV), lambda: solved.rank)


def pixels(model: VisionTransformer, embedded: Tensor) -> Tensor:
    """Normalised patches, (patches, pixels), behind embedded ones, (patches, width), less their position (Lu et al. 2022, eq. 11)."""
    weights, bias = projection(model)  # (width, patch pixels), (width,)
    return (embedded - bias) @ torch.linalg.pinv(weights).T
