"""Images from one gradient without a search: linear systems that a Vision Transformer's gradients satisfy.

    attention         Lu et al. 2022, Algorithm 1: needs the position embedding's gradient and attention right behind it
    patch_embedding   ours: needs the gradient of an embedding that is added to patches, in any model, whatever comes behind it
    subspace          ours: needs no gradient of the position embedding, so a frozen one does not stop it

Rows are tokens throughout: Z is (tokens, width) and a linear layer computes Z W^T. All systems are solved in float64, whatever
the gradients are, and damped where the leak's own rounding (or a noise that the attacker knows of) has drowned the signal.

`noise`, an argument of all three, is what the attacker knows of a defence. A number is the error in the gradients relative to their size,
the same for all. A mapping, parameter name -> standard deviation of the noise in each number of its gradient, is what
`defences.noise_budget.deviations` gives; names that it lacks have none. It makes better use of what is known: rows of a system are weighed
by their errors, which rounding makes proportional to a row's size and noise does not.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares, patches, tokens
from privlab.attacks.gradient_inversion.closed_form.least_squares import Noise, deviation
from privlab.attacks.gradient_inversion.closed_form.tokens import Recovery, gradient, projection
from privlab.leak import Leak
from privlab.models import zoo
from privlab.models.april import PlainBlock


def attention(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Recovery:
    """APRIL's closed form (Lu et al. 2022, Theorems 1 and 2, Algorithm 1, equation 11), for architecture A.

    With Q = Z Wq^T and so on, the chain rule gives dL/dZ = dQ Wq + dK Wk + dV Wv (Theorem 1's opening), and dL/dWq = dQ^T Z. Hence

        (dL/dZ)^T Z = Wq^T dWq + Wk^T dWk + Wv^T dWv         (width, width)

    where everything but Z is known: a learnable position embedding is added to the tokens, so its gradient *is* dL/dZ (Theorem 2).
    Then each patch is the pseudo-inverse of the patch projection applied to its token less its position embedding.
    The paper's statement prints gradients of the activations on the right-hand side; its proof has those of the weights, as here.

    model: `april.build("a")`; on a ViT with a norm before attention the system does not hold, and a warning says so.
    leak: one image's gradients, with `pos_embed` and `blocks.0.attn.qkv.weight` among them.  noise: see above.
    Raises ValueError for a model without a learnable position embedding, more than one image, missing or NaN gradients.
    """
    tokens.require_one(leak)
    tokens.require_patches(model, leak)
    first: Any = model.blocks[0]
    if not zoo.embeds_positions(model) or (model.no_embed_class and model.num_prefix_tokens):
        raise ValueError(
            f"model: this {type(model).__name__} has no learnable position embedding (pos_embed) of all its tokens, so nothing gives dL/dZ "
            "away; try closed_form.patch_embedding, or closed_form.subspace, which does without"
        )
    if not hasattr(getattr(first, "attn", None), "qkv"):
        raise ValueError(
            f"model: its first block, {type(first).__name__}, has no attention to read; try closed_form.patch_embedding"
        )
    if not isinstance(first, PlainBlock):
        warnings.warn(
            "a norm or a shortcut stands beside attention, so Theorem 1 does not hold; try closed_form.patch_embedding",
            stacklevel=2,
        )

    dz = gradient(leak, model, "pos_embed")[0]  # (tokens, width)
    weight = first.attn.qkv.weight.detach().double()  # (3 width, width)
    dweight = gradient(leak, model, "blocks.0.attn.qkv.weight")  # (3 width, width)
    grey = tokens.known(model)  # what the tokens would be for a grey image; the solve is for the difference
    weights, bias = projection(model)
    size = weights.square().sum(1).mean().sqrt() * tokens.pixel_size(leak)  # of W x
    relative = least_squares.relative(leak, noise)
    right = (weight.T @ dweight - dz.T @ grey) / size  # (width, width)
    error = relative * least_squares.rms(dweight)
    of_dz, of_gradient = deviation(leak, noise, "pos_embed", dz), deviation(leak, noise, "blocks.0.attn.qkv.weight")
    if of_dz or of_gradient:
        columns = weight.norm(dim=0)[:, None]  # (width, 1)
        of_right = (columns * math.hypot(of_gradient, error)).hypot(of_dz * grey.norm(dim=0).square().mean().sqrt())
        solved = least_squares.weighed(dz.T, right, relative, of_dz, of_right / size)
    else:
        solved = least_squares.solve(dz.T, right, relative, error * weight.square().sum(0).mean().sqrt() / size)
    if model.embed_dim < len(dz):
        warnings.warn(
            f"width {model.embed_dim} is below the {len(dz)} tokens: rank {solved.rank}, so the image is one of many solutions",
            stacklevel=2,
        )
    embedded = solved.X[model.num_prefix_tokens :] * size + bias  # (patches, width): W x_i + b
    return tokens.recovery(pixels(model, embedded), model, leak, solved, len(dz))


def pixels(model: VisionTransformer, embedded: Tensor) -> Tensor:
    """Patches behind embedded patches, by the pseudo-inverse of the patch projection (Lu et al. 2022, equation 11).

    embedded: (patches, width), without position embedding.  Returns (patches, channels * patch height * patch width), normalised.
    Exact where the width is at least the number of pixels in a patch; the nearest patches in the least-squares sense otherwise.
    """
    weights, bias = projection(model)  # (width, patch pixels), (width,)
    return (embedded - bias) @ torch.linalg.pinv(weights).T


def patch_embedding(model: nn.Module, leak: Leak, noise: Noise = None) -> Recovery:
    """Solve for the pixels behind one image's gradients, for any model that adds a learnable embedding to its patches.

    Patch i enters the network as W x_i + b + e_i, so the gradient at its position embedding, g_i, is also the gradient at W x_i, and

        dL/dW = sum_i g_i x_i^T = G^T X        G: (patches, width)   X: (patches, patch pixels)

    Both sides are in the leak. With width > patches the system has one solution: the image. What stands behind the embedding does
    not enter, and neither do the labels. Not in the papers.

    Why `>` and not `>=`: each g_i has come back through a LayerNorm, which takes the mean out, so the rank is at most width - 1.
    And two blocks at least: with one, only the class token's query reaches back, and the g_i span a few dimensions a head.

    model: any whose embedding is added to what one nn.Conv2d or nn.Linear makes of the patches, which is seen by running it.
    leak: one image's gradients, those of the embedding and of that layer's weight among them.  noise: see above.
    Warns where the width is not above the number of patches.
    Raises ValueError for a model without such an embedding, more than one image, missing or NaN gradients.
    """
    tokens.require_one(leak)
    read = patches.find(model, leak)
    rows = read.tokens(gradient(leak, model, read.position))  # (patches, width)
    weight = gradient(leak, model, read.weight).flatten(1)  # (width, patch pixels)
    relative, size = least_squares.relative(leak, noise), tokens.pixel_size(leak)
    of_tokens = abs(read.scale) * deviation(leak, noise, read.position, rows / read.scale)
    of_weight = deviation(leak, noise, read.weight)
    if of_tokens or of_weight:
        solved = least_squares.weighed(rows.T, weight / size, relative, of_tokens, of_weight / size)
    else:
        scale = least_squares.row_sizes(rows.T)
        right = weight / (size * scale)  # (width, patch pixels)
        solved = least_squares.solve(rows.T / scale, right, relative, relative * least_squares.rms(right))
    if len(weight) <= len(rows):
        warnings.warn(
            f"width {len(weight)} is not above the {len(rows)} patches: rank {solved.rank}, so the image is one of many solutions",
            stacklevel=2,
        )
    like = torch.zeros(1, *leak.image_shape).to(model.get_parameter(read.weight))
    normalised = read.image(solved.X * size, like)
    return Recovery(leak.normalise.inverse(normalised), solved.condition, solved.rank, len(rows))
