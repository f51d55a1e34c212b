"""Images from one gradient without a search: three linear systems that a Vision Transformer's gradients satisfy.

    attention         Lu et al. 2022, Algorithm 1: needs the position embedding's gradient and attention right behind it
    patch_embedding   ours: needs the position embedding's gradient, whatever comes behind it
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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares
from privlab.leak import Leak
from privlab.models import zoo
from privlab.models.april import PlainBlock

Noise = float | Mapping[str, float] | None

# Error of a backward pass in units of its float format's eps; measured at 7 to 30 on ViTs of 4 to 12 blocks.
BACKWARD = 8


@dataclass(frozen=True)
class Recovery:
    """What a linear system gave back.

    images: (1, channels, height, width), in pixels but not clamped: a value outside [0, 1] says that something was lost.
    condition: largest over smallest singular value of the system that was solved, undamped.
    rank: singular values above the noise.  unknowns: how many there are; with a lower rank some directions stay undetermined.
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


def attention(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Recovery:
    """APRIL's closed form (Lu et al. 2022, Theorems 1 and 2, Algorithm 1, equation 11), for architecture A.

    With Q = Z Wq^T and so on, the chain rule gives dL/dZ = dQ Wq + dK Wk + dV Wv (Theorem 1's opening), and dL/dWq = dQ^T Z. Hence

        (dL/dZ)^T Z = Wq^T dWq + Wk^T dWk + Wv^T dWv         (width, width)

    where everything but Z is known: a learnable position embedding is added to the tokens, so its gradient *is* dL/dZ (Theorem 2).
    Then each patch is the pseudo-inverse of the patch projection applied to its token less its position embedding.
    The paper's statement prints gradients of the activations on the right-hand side; its proof has those of the weights, as here.

    model: `april.build("a")`; on a ViT with a norm before attention the system does not hold, and a warning says so.
    leak: one image's gradients, with `pos_embed` and `blocks.0.attn.qkv.weight` among them.
    noise: known to come on top of the leak's precision, from a defence, say; see above.
    Raises ValueError for a model without a learnable position embedding, more than one image, missing or NaN gradients.
    """
    _require_patches(model, leak)
    _require_positions(model)
    first: Any = model.blocks[0]
    if not hasattr(getattr(first, "attn", None), "qkv"):
        raise ValueError(
            f"model: its first block, {type(first).__name__}, has no attention to read; try closed_form.patch_embedding"
        )
    if not isinstance(first, PlainBlock):
        warnings.warn(
            "a norm or a shortcut stands beside attention, so Theorem 1 does not hold; try closed_form.patch_embedding",
            stacklevel=2,
        )
    if model.no_embed_class and model.num_prefix_tokens:
        raise ValueError(
            "model: its class token has no position embedding, so dL/dZ is not whole; try closed_form.patch_embedding"
        )

    dz = _gradient(leak, model, "pos_embed")[0]  # (tokens, width)
    weight = first.attn.qkv.weight.detach().double()  # (3 width, width)
    gradient = _gradient(leak, model, "blocks.0.attn.qkv.weight")  # (3 width, width)
    grey = _known_tokens(model)  # what the tokens would be for a grey image; the solve is for the difference
    projection, bias = _projection(model)
    size = projection.square().sum(1).mean().sqrt() * _pixel_size(leak)  # of W x
    relative = _relative_error(leak, noise)
    right = (weight.T @ gradient - dz.T @ grey) / size  # (width, width)
    error = relative * least_squares.rms(gradient)
    of_dz, of_gradient = _deviation(noise, "pos_embed"), _deviation(noise, "blocks.0.attn.qkv.weight")
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
    return _recovery(pixels(model, embedded), model, leak, solved, len(dz))


def pixels(model: VisionTransformer, embedded: Tensor) -> Tensor:
    """Patches behind embedded patches, by the pseudo-inverse of the patch projection (Lu et al. 2022, equation 11).

    embedded: (patches, width), without position embedding.  Returns (patches, channels * patch height * patch width), normalised.
    Exact where the width is at least the number of pixels in a patch; the nearest patches in the least-squares sense otherwise.
    """
    projection, bias = _projection(model)  # (width, patch pixels), (width,)
    return (embedded - bias) @ torch.linalg.pinv(projection).T


def patch_embedding(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Recovery:
    """Solve for the pixels behind one image's gradients, for any ViT with a learnable position embedding.

    Patch i enters the network as W x_i + b + e_i, so the gradient at its position embedding, g_i, is also the gradient at W x_i, and

        dL/dW = sum_i g_i x_i^T = G^T X        G: (patches, width)   X: (patches, patch pixels)

    Both sides are in the leak. With width > patches the system has one solution: the image. What stands behind the embedding does
    not enter, and neither do the labels. Not in the papers.

    Why `>` and not `>=`: each g_i has come back through a LayerNorm, which takes the mean out, so the rank is at most width - 1.
    And two blocks at least: with one, only the class token's query reaches back, and the g_i span a few dimensions a head.

    model: a timm VisionTransformer, distilled or not.  leak: one image's gradients, `pos_embed` and `patch_embed.proj.weight` among them.
    noise: known to come on top of the leak's precision, from a defence, say; see above.
    Warns where the width is not above the number of patches.  Raises ValueError as `attention` does.
    """
    _require_patches(model, leak)
    _require_positions(model)
    prefix = 0 if model.no_embed_class else model.num_prefix_tokens
    tokens = _gradient(leak, model, "pos_embed")[0, prefix:]  # (patches, width)
    weight = _gradient(leak, model, "patch_embed.proj.weight").flatten(1)  # (width, patch pixels)
    relative = _relative_error(leak, noise)
    size = _pixel_size(leak)
    of_tokens, of_weight = _deviation(noise, "pos_embed"), _deviation(noise, "patch_embed.proj.weight")
    if of_tokens or of_weight:
        solved = least_squares.weighed(tokens.T, weight / size, relative, of_tokens, of_weight / size)
    else:
        scale = least_squares.row_sizes(tokens.T)
        right = weight / (size * scale)  # (width, patch pixels)
        solved = least_squares.solve(tokens.T / scale, right, relative, relative * least_squares.rms(right))
    if model.embed_dim <= len(tokens):
        warnings.warn(
            f"width {model.embed_dim} is not above the {len(tokens)} patches: rank {solved.rank}, so the image is one of many solutions",
            stacklevel=2,
        )
    return _recovery(solved.X * size, model, leak, solved, len(tokens))


def subspace(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Recovery:
    """Solve for the pixels from the first attention's weight gradient alone: no gradient of the position embedding is needed.

    The first block computes QKV = LN(Z) Wqkv^T, so its gradient, a sum over tokens of (something) LN(z_t)^T, has the normed tokens as
    its row space S: `tokens` dimensions out of `width`. S is known, so each normed token is known to have no part outside of it. With
    N a basis of what is outside, C the subtraction of the mean, gamma and beta the norm's affine, sigma_i the token's deviation:

        N^T (gamma * C(W x_i + b + e_i)) + sigma_i N^T beta = 0        for each patch i

    which is linear in the patch x_i (and in sigma_i, an unknown like the pixels where beta is not 0). The position embedding only has
    to be *known*, as it is when it is frozen. One system, solved for all patches at once. Not in the papers.

    It needs a norm before attention, one image, two blocks or more, and width - tokens > pixels of a patch: one equation is lost,
    since the norm takes the mean out (or sigma_i is an unknown more). What it leaves open is told by the rank of the embedding, see
    `hidden_directions`.

    model: a timm VisionTransformer with pre-norm blocks.  leak: one image's gradients, `blocks.0.attn.qkv.weight` among them.
    noise: known to come on top of the leak's precision, from a defence, say; see above.
    Warns where too few equations are left.  Raises ValueError for a batch, width <= tokens, a model without pre-norm, bad gradients.
    """
    _require_patches(model, leak)
    system = equations(model, leak, noise)
    width, tokens, unknowns = model.embed_dim, len(_known_tokens(model)), _projection(model)[0].shape[1]
    if width - tokens <= unknowns:
        warnings.warn(
            f"width {width} less {tokens} tokens leaves {width - tokens - 1} equations for the {unknowns} pixels of a patch: "
            "the image is one of many solutions",
            stacklevel=2,
        )
    solved = least_squares.solve(*system)
    return _recovery(solved.X[:unknowns].T, model, leak, solved, system.system.shape[1])


class Equations(NamedTuple):
    """A X = B for the patches of an image, X: (unknowns, patches), with what is known of the errors in A and B: `least_squares.solve`."""

    system: Tensor  # (equations, patch pixels), and a column for sigma_i where beta is not 0
    right: Tensor  # (equations, patches)
    relative: float
    error: Tensor
    turn: Tensor


def equations(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Equations:
    """The system of `subspace` for a batch of any size: each of its images satisfies it, see `search_spaces.family`.

    With B images S is spanned by B * patches normed tokens and those of the prefix, which are the same in all images. Arguments and
    errors as there, but for the number of images.
    """
    _require_patches(model, leak, any_batch=True)
    first: Any = model.blocks[0]
    if type(first) is not Block or not isinstance(model.norm_pre, nn.Identity):
        raise ValueError(
            f"model: its first block, {type(first).__name__}, does not stand right behind the embedding with a norm before its attention; "
            "try a stock timm ViT or DeiT, or closed_form.attention for architecture A"
        )
    gradient = _gradient(leak, model, "blocks.0.attn.qkv.weight")  # (3 width, width)
    relative, noisy = _relative_error(leak, noise), _deviation(noise, "blocks.0.attn.qkv.weight")
    rows = least_squares.row_sizes(gradient)
    gradient = gradient / ((relative * rows).hypot(torch.as_tensor(noisy).to(rows)) if noisy else rows)
    tokens = _tokens(model, leak.batch_size)
    if model.embed_dim <= tokens:
        images = "its" if leak.batch_size == 1 else f"the {leak.batch_size} images'"
        raise ValueError(
            f"model: width {model.embed_dim} leaves no equation beside {images} {tokens} tokens; the form needs width > tokens"
        )

    _, inside, Vh = torch.linalg.svd(gradient, full_matrices=False)  # Vh: (width, width)
    outside = Vh[tokens:]  # (width - tokens, width): N^T, by the known count of tokens
    norm: Any = first.norm1
    gamma, beta = norm.weight.detach().double(), norm.bias.detach().double()
    tokens_known = _known_tokens(model)[model.num_prefix_tokens :]  # (patches, width)
    system = outside @ (gamma[:, None] * _centred(_projection(model)[0].T).T)  # (width - tokens, patch pixels)
    if beta.any():
        system = torch.cat([system, (outside @ beta)[:, None]], dim=1)  # sigma_i is unknown too
    right = -outside @ (gamma * _centred(tokens_known)).T  # (width - tokens, patches)
    # Errors turn S by their norm over its smallest singular value; what they turn into view is not seen, only the rank counts it.
    turn = least_squares.norm_of_errors(gradient, relative) / inside[tokens - 1]
    error = relative * least_squares.rms(tokens_known)
    if noisy:
        # Every row errs by 1, so a direction of S is turned by 1 over its singular value; what that lets in errs like B.
        angle = inside[:tokens].pow(-2).mean().sqrt()
        turn = angle * (len(outside) ** 0.5 + tokens**0.5)
        error = angle * least_squares.rms(gamma * _centred(tokens_known))
    return Equations(system, right, relative, error, turn.clamp(max=1.0))


def hidden_directions(model: VisionTransformer, batch_size: int = 1) -> int:
    """How many directions of each patch the system of `subspace` cannot see, told from the model alone: the rank rule.

    Let a combination a of the tokens satisfy sum_t a_t C(k_t) = 0, where k_t is the part of token t that does not depend on the image:
    b + e_i for a patch, its value for a prefix token. Then gamma * C(W sum_i a_i x_i) is a combination of normed tokens (and of beta,
    where sigma_i moves along), hence no equation sees the direction sum_i a_i x_i. The combinations form a space of dimension
    tokens - rank[C k], so

        hidden = min(patch pixels, tokens - rank[C k])        where width - tokens > patch pixels

    and at least as many as equations are missing where the model is narrower. With a patch bias and a class token in general position
    this is min(3 p^2, patches - rank[E 1]), E the (patches, width) embedding with a column of ones. A random embedding has full rank
    and hides nothing; the 2-D sinusoid of an n x n grid is a function of row plus a function of column, has rank 2n - 1 together with
    the ones, and hides (n - 1)^2. Images whose patches repeat, such as a digit on black, hide more: their normed tokens are dependent.
    In a batch the k_t of the patches come once for each of the B images and add no rank: n (B - 1) directions more are hidden.
    """
    fixed, unknowns = _known_tokens(model), _projection(model)[0].shape[1]
    rank = int(torch.linalg.matrix_rank(_centred(fixed), rtol=1e-12))
    tokens = _tokens(model, batch_size)
    missing = unknowns - (fixed.shape[1] - tokens - 1)
    return min(unknowns, max(tokens - rank, missing))


def _tokens(model: VisionTransformer, batch_size: int) -> int:
    """Different tokens that enter the first block: those of the prefix are the same in all images."""
    return batch_size * model.patch_embed.num_patches + model.num_prefix_tokens


def _pixel_size(leak: Leak) -> float:
    """Standard deviation of a normalised pixel, if pixels of natural images have one of 1/4."""
    return 0.25 * len(leak.normalise.std) / sum(leak.normalise.std)


def _relative_error(leak: Leak, noise: Noise) -> float:
    """Size of the errors in a leak's gradients over their own size: the backward pass, the rounding for the wire, a known noise.

    Backward passes were measured to err by about 8 eps (BACKWARD); rounding adds eps / sqrt(12) of the number rounded.
    """
    if isinstance(noise, Mapping):
        noise = 0.0  # see `_deviation`
    if noise is not None and not 0 <= noise < math.inf:
        raise ValueError(f"noise={noise} is no share of the gradient's size; try 0.01, or None if nothing is known")
    computed = max(torch.finfo(g.dtype).eps for g in leak.grads.values())
    return math.hypot(computed * BACKWARD + torch.finfo(leak.precision).eps / 12**0.5, noise or 0.0)


def _deviation(noise: Noise, name: str) -> float:
    """Standard deviation of the noise in one gradient, where it is known tensor by tensor; 0 otherwise."""
    size = noise.get(name, 0.0) if isinstance(noise, Mapping) else 0.0
    if not 0 <= size < math.inf:
        raise ValueError(f"noise[{name!r}]={size} is no standard deviation; give 0 or more, or leave it out")
    return size


def _recovery(
    patches: Tensor, model: VisionTransformer, leak: Leak, solved: least_squares.Solved, unknowns: int
) -> Recovery:
    size, patch = model.patch_embed.img_size, model.patch_embed.patch_size
    normalised = F.fold(patches.T[None], size, patch, stride=patch)  # (1, channels, height, width)
    return Recovery(leak.normalise.inverse(normalised), solved.condition, solved.rank, unknowns)


def _projection(model: VisionTransformer) -> tuple[Tensor, Tensor]:
    """The patch embedding as a matrix, (width, patch pixels), and its bias, (width,)."""
    layer = model.patch_embed.proj
    weight = layer.weight.detach().flatten(1).double()
    bias = (
        torch.zeros(len(weight), dtype=torch.float64, device=weight.device)
        if layer.bias is None
        else layer.bias.detach().double()
    )
    return weight, bias


def _known_tokens(model: VisionTransformer) -> Tensor:
    """What enters the first block for a normalised image of zeros, (tokens, width): prefix tokens first."""
    count = model.patch_embed.num_patches
    patches = _projection(model)[1].expand(count, -1)  # (patches, width): the bias
    if isinstance(model.pos_embed, Tensor):
        patches = patches + model.pos_embed[0, -count:].detach().double()
    prefix = [t[0] for t in (model.cls_token, model.reg_token, getattr(model, "dist_token", None)) if t is not None]
    if not prefix:
        return patches
    tokens = torch.cat(prefix).detach().double()
    if isinstance(model.pos_embed, Tensor) and not model.no_embed_class:
        tokens = tokens + model.pos_embed[0, : len(tokens)].detach().double()
    return torch.cat([tokens, patches])


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(dim=-1, keepdim=True)


def _gradient(leak: Leak, model: nn.Module, name: str) -> Tensor:
    """One gradient in float64; ValueError where it is missing, broken, zero, or of another model."""
    gradient, shape = leak[name].double(), model.get_parameter(name).shape
    if gradient.shape != shape:
        raise ValueError(
            f"leak: the gradient of {name!r} has shape {tuple(gradient.shape)} and the model's parameter {tuple(shape)}; "
            "give the model that the client trained"
        )
    if not gradient.any():
        raise ValueError(f"leak: the gradient of {name!r} is zero everywhere, so it says nothing about the image")
    return gradient


def _require_patches(model: nn.Module, leak: Leak, any_batch: bool = False) -> None:
    """One image, cut into patches by one linear layer, with nothing between that and the position embedding."""
    if leak.batch_size != 1 and not any_batch:
        raise ValueError(
            f"leak: it averages {leak.batch_size} images, whose tokens cannot be told apart here; give a leak of one image"
        )
    if not isinstance(model, VisionTransformer):
        raise ValueError(
            f"model: {type(model).__name__} is no VisionTransformer of timm; try vit_base_patch16_224 or a DeiT"
        )
    layer = getattr(model.patch_embed, "proj", None)
    plain = isinstance(layer, nn.Conv2d) and layer.in_channels == leak.image_shape[0]
    if not plain or not isinstance(model.patch_embed.norm, nn.Identity):
        raise ValueError(
            "model: its patches are not made from the image by one linear layer; try a ViT whose patch_embed is one convolution"
        )


def _require_positions(model: VisionTransformer) -> None:
    if not zoo.embeds_positions(model):
        raise ValueError(
            f"model: this {type(model).__name__} has no learnable position embedding (pos_embed), so nothing gives dL/dZ away; "
            "try closed_form.subspace, which does without"
        )
