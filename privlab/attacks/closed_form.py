"""Images from one gradient without a search: three linear systems that a Vision Transformer's gradients satisfy.

    attention         Lu et al. 2022, Algorithm 1: needs the position embedding's gradient and attention right behind it
    patch_embedding   ours: needs the position embedding's gradient, whatever comes behind it
    subspace          ours: needs no gradient of the position embedding, so a frozen one does not stop it

Rows are tokens throughout: Z is (tokens, width) and a linear layer computes Z W^T. All systems are solved in float64, whatever
the gradients are, and damped where the leak's own rounding (or a noise that the attacker knows of) has drowned the signal.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from privlab.leak import Leak
from privlab.models import zoo

BACKWARD = (
    8  # error of a backward pass in units of its float format's eps; measured at 7 to 30 on ViTs of 4 to 12 blocks
)


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


def attention(model: VisionTransformer, leak: Leak, noise: float | None = None) -> Recovery:
    """APRIL's closed form (Lu et al. 2022, Theorems 1 and 2, Algorithm 1, equation 11), for architecture A.

    With Q = Z Wq^T and so on, the chain rule gives dL/dZ = dQ Wq + dK Wk + dV Wv (Theorem 1's opening), and dL/dWq = dQ^T Z. Hence

        (dL/dZ)^T Z = Wq^T dWq + Wk^T dWk + Wv^T dWv         (width, width)

    where everything but Z is known: a learnable position embedding is added to the tokens, so its gradient *is* dL/dZ (Theorem 2).
    Then each patch is the pseudo-inverse of the patch projection applied to its token less its position embedding.
    The paper's statement prints gradients of the activations on the right-hand side; its proof has those of the weights, as here.

    model: `april.build("a")`; on a ViT with a norm before attention the system does not hold, and a warning says so.
    leak: one image's gradients, with `pos_embed` and `blocks.0.attn.qkv.weight` among them.
    noise: error in the gradients relative to their size, where more is known than the leak's precision tells (a defence, say).
    Raises ValueError for a model without a learnable position embedding, more than one image, missing or NaN gradients.
    """
    _require_positions(model, leak)
    first: Any = model.blocks[0]
    if isinstance(first, Block):
        warnings.warn(
            "a norm stands between embedding and attention, so Theorem 1 does not hold; try closed_form.patch_embedding",
            stacklevel=2,
        )
    if model.no_embed_class and model.num_prefix_tokens:
        raise ValueError(
            "model: its class token has no position embedding, so dL/dZ is not complete; try closed_form.patch_embedding"
        )

    dz = leak["pos_embed"][0].double()  # (tokens, width)
    weight = first.attn.qkv.weight.detach().double()  # (3 width, width)
    gradient = leak["blocks.0.attn.qkv.weight"].double()  # (3 width, width)
    known = _known_tokens(model)  # what the tokens would be for a grey image; the solve is for the difference
    projection, bias = _projection(model)
    size = projection.square().sum(1).mean().sqrt() * _pixel_size(leak)  # of W x
    relative = _relative_error(leak, "pos_embed") if noise is None else noise
    error = relative * _rms(gradient) * weight.square().sum(0).mean().sqrt() / size
    solved = _solve(dz.T, (weight.T @ gradient - dz.T @ known) / size, relative, error)
    embedded = solved.X[model.num_prefix_tokens :] * size + bias  # (patches, width): W x_i + b
    return _recovery(pixels(model, embedded), model, leak, solved, len(dz))


def pixels(model: VisionTransformer, embedded: Tensor) -> Tensor:
    """Patches behind embedded patches, by the pseudo-inverse of the patch projection (Lu et al. 2022, equation 11).

    embedded: (patches, width), without position embedding.  Returns (patches, channels * patch height * patch width), normalised.
    Exact where the width is at least the number of pixels in a patch; the nearest patches in the least-squares sense otherwise.
    """
    projection, bias = _projection(model)  # (width, patch pixels), (width,)
    return torch.linalg.lstsq(projection, (embedded - bias).T, driver="gelsd").solution.T


def patch_embedding(model: VisionTransformer, leak: Leak, noise: float | None = None) -> Recovery:
    """Solve for the pixels behind one image's gradients, for any ViT with a learnable position embedding.

    Patch i enters the network as W x_i + b + e_i, so the gradient at its position embedding, g_i, is also the gradient at W x_i, and

        dL/dW = sum_i g_i x_i^T = G^T X        G: (patches, width)   X: (patches, patch pixels)

    Both sides are in the leak. With width > patches the system has one solution: the image. What stands behind the embedding does
    not enter, and neither do the labels. Not in the papers.

    Why `>` and not `>=`: each g_i has come back through a LayerNorm, which takes the mean out, so the rank is at most width - 1.
    And two blocks at least: with one, only the class token's query reaches back, and the g_i span a few dimensions a head.

    model: a timm VisionTransformer, distilled or not.  leak: one image's gradients, `pos_embed` and `patch_embed.proj.weight` among them.
    noise: error in the gradients relative to their size, where more is known than the leak's precision tells (a defence, say).
    Warns where the width is not above the number of patches.  Raises ValueError as `attention` does.
    """
    _require_positions(model, leak)
    prefix = 0 if model.no_embed_class else model.num_prefix_tokens
    tokens = leak["pos_embed"][0, prefix:].double()  # (patches, width)
    weight = leak["patch_embed.proj.weight"].flatten(1).double()  # (width, patch pixels)
    relative = _relative_error(leak, "pos_embed") if noise is None else noise
    size = _pixel_size(leak)
    scale = _row_sizes(tokens.T)
    right = weight / (size * scale)  # (width, patch pixels)
    solved = _solve(tokens.T / scale, right, relative, relative * _rms(right))
    if model.embed_dim <= len(tokens):
        warnings.warn(
            f"width {model.embed_dim} is not above the {len(tokens)} patches: rank {solved.rank}, so the image is one of many solutions",
            stacklevel=2,
        )
    return _recovery(solved.X * size, model, leak, solved, len(tokens))


def subspace(model: VisionTransformer, leak: Leak, noise: float | None = None) -> Recovery:
    """Solve for the pixels from the first attention's weight gradient alone: no gradient of the position embedding is needed.

    The first block computes QKV = LN(Z) Wqkv^T, so its gradient, a sum over tokens of (something) LN(z_t)^T, has the normed tokens as
    its row space S: `tokens` dimensions out of `width`. S is known, so each normed token is known to have no part outside of it. With
    N a basis of what is outside, C the subtraction of the mean, gamma and beta the norm's affine, sigma_i the token's deviation:

        N^T (gamma * C(W x_i + b + e_i)) + sigma_i N^T beta = 0        for each patch i

    which is linear in the patch x_i (and in sigma_i, an unknown like the pixels where beta is not 0). The position embedding only has
    to be *known*, as it is when it is frozen. One system, solved for all patches at once. Not in the papers.

    It needs a norm before attention, one image, and width - tokens >= pixels of a patch. What it leaves open is told by the rank of
    the embedding, see `hidden_directions`.

    model: a timm VisionTransformer with pre-norm blocks.  leak: one image's gradients, `blocks.0.attn.qkv.weight` among them.
    noise: error in the gradients relative to their size, where more is known than the leak's precision tells (a defence, say).
    Warns where too few equations are left.  Raises ValueError for a batch, width <= tokens, a model without pre-norm, bad gradients.
    """
    _require_one_image(leak)
    first: Any = model.blocks[0] if isinstance(model, VisionTransformer) else None
    if not isinstance(getattr(first, "norm1", None), nn.LayerNorm):
        raise ValueError(
            f"model: {type(model).__name__} has no norm before its first attention; try a timm ViT, or closed_form.attention"
        )
    gradient = leak["blocks.0.attn.qkv.weight"].double()  # (3 width, width)
    gradient = gradient / _row_sizes(gradient)
    patches = model.patch_embed.num_patches
    tokens = patches + model.num_prefix_tokens
    projection, bias = _projection(model)  # (width, patch pixels), (width,)
    width, unknowns = projection.shape
    if width <= tokens:
        raise ValueError(
            f"model: width {width} leaves no equation beside its {tokens} tokens; the form needs width > tokens"
        )
    if width - tokens < unknowns:
        warnings.warn(
            f"width {width} less {tokens} tokens leaves {width - tokens} equations for the {unknowns} pixels of a patch: "
            "the image is one of many solutions",
            stacklevel=2,
        )

    _, inside, Vh = torch.linalg.svd(gradient, full_matrices=False)  # Vh: (width, width)
    outside = Vh[tokens:]  # (width - tokens, width): N^T, by the known count of tokens
    gamma, beta = (p.detach().double() for p in (first.norm1.weight, first.norm1.bias))
    known = bias + _patch_positions(model)  # (patches, width)
    system = outside @ (gamma[:, None] * _centred(projection.T).T)  # (width - tokens, patch pixels)
    if beta.any():
        system = torch.cat([system, (outside @ beta)[:, None]], dim=1)  # sigma_i is unknown too
    relative = _relative_error(leak, "blocks.0.attn.qkv.weight") if noise is None else noise
    # Errors turn S by their norm over its smallest singular value; what they turn into view is not seen, only the rank counts it.
    turn = (_norm_of_errors(gradient, relative) / inside[tokens - 1]).clamp(max=1.0)
    right = -outside @ (gamma * _centred(known)).T  # (width - tokens, patches)
    solved = _solve(system, right, relative, relative * _rms(known), turn)  # X: (patch pixels (+ 1), patches)
    return _recovery(solved.X[:unknowns].T, model, leak, solved, system.shape[1])


def hidden_directions(model: VisionTransformer) -> int:
    """How many directions of each patch the `subspace` form cannot see, told from the model alone: the rank rule.

    Let a combination a of the tokens satisfy sum_t a_t C(k_t) = 0, where k_t is the part of token t that does not depend on the image:
    b + e_i for a patch, its value for a prefix token. Then gamma * C(W sum_i a_i x_i) is a combination of normed tokens, hence in S,
    and no equation sees the direction sum_i a_i x_i. The combinations form a space of dimension tokens - rank[C(k)], so

        hidden = min(patch pixels, tokens - rank[C k])

    With a patch bias and a class token in general position this is min(3 p^2, patches - rank[E 1]), E the (patches, width) embedding
    with a column of ones. A random embedding has full rank and hides nothing; the 2-D sinusoid of an n x n grid is a function of row
    plus a function of column, has rank 2n - 1 together with the ones, and hides (n - 1)^2.
    """
    known = _known_tokens(model)
    rank = int(torch.linalg.matrix_rank(_centred(known), rtol=1e-12))
    return min(_projection(model)[0].shape[1], len(known) - rank)


class _Solved(NamedTuple):
    X: Tensor  # (unknowns, right-hand sides)
    condition: float
    rank: int


def _solve(A: Tensor, B: Tensor, relative: float, error: Tensor, turn: Tensor | float = 0.0) -> _Solved:
    """Ridge least squares A X = B for X of about unit size, damped at the noise.

    relative: size of the errors in A over the size of A.  error: size of the errors in B.
    turn: angle by which the whole of A may be off; singular values that it explains do not count for the rank.
    Below the norm of its errors a singular value of A says nothing about the image; for errors in B, damping by their size is
    Wiener's filter.
    """
    U, spectrum, Vh = torch.linalg.svd(A, full_matrices=False)
    floor = _norm_of_errors(A, relative).hypot(error)
    X = Vh.T @ ((U.T @ B) * (spectrum / (spectrum**2 + floor**2))[:, None])
    rank = int((spectrum > torch.maximum(floor, turn * spectrum[0])).sum())
    return _Solved(X, (spectrum[0] / spectrum[-1]).item(), rank)


def _norm_of_errors(A: Tensor, relative: float) -> Tensor:
    """Spectral norm, about, of independent errors of size relative * rms(A): theirs times sqrt(rows) + sqrt(columns)."""
    return relative * _rms(A) * (len(A) ** 0.5 + A.shape[1] ** 0.5)


def _pixel_size(leak: Leak) -> float:
    """Standard deviation of a normalised pixel, if pixels of natural images have one of 1/4."""
    return 0.25 * len(leak.normalise.std) / sum(leak.normalise.std)


def _relative_error(leak: Leak, name: str) -> float:
    """Size of the errors in a leak's gradients over their own size, from the float formats alone.

    Backward passes were measured to err by about 8 eps (BACKWARD); rounding for the wire adds eps / sqrt(12) of the number rounded.
    """
    computed = torch.finfo(leak.grads[name].dtype).eps * BACKWARD
    return float(computed + torch.finfo(leak.precision).eps / 12**0.5)


def _recovery(patches: Tensor, model: VisionTransformer, leak: Leak, solved: _Solved, unknowns: int) -> Recovery:
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


def _patch_positions(model: VisionTransformer) -> Tensor:
    """Position embeddings of the patches, (patches, width); zeros where the model has none."""
    weight, _ = _projection(model)
    if not isinstance(model.pos_embed, Tensor):
        return weight.new_zeros(model.patch_embed.num_patches, len(weight))
    return model.pos_embed[0, -model.patch_embed.num_patches :].detach().double()


def _known_tokens(model: VisionTransformer) -> Tensor:
    """What enters the first block for a normalised image of zeros, (tokens, width): prefix tokens first."""
    _, bias = _projection(model)
    patches = bias + _patch_positions(model)
    prefix = [t[0] for t in (model.cls_token, model.reg_token, getattr(model, "dist_token", None)) if t is not None]
    if not prefix:
        return patches
    tokens = torch.cat(prefix).detach().double()
    if isinstance(model.pos_embed, Tensor) and not model.no_embed_class:
        tokens = tokens + model.pos_embed[0, : len(tokens)].detach().double()
    return torch.cat([tokens, patches])


def _row_sizes(A: Tensor) -> Tensor:
    """Root mean square of each row, (rows, 1). Floats err in proportion to a number's size, so rows of one size err alike.

    Worth 4 to 28 dB: small rows (queries and keys, say) are as exact as large ones and no longer drowned by these.
    """
    sizes = A.square().mean(1, keepdim=True).sqrt()
    return sizes.where(sizes > 0, 1.0)


def _rms(numbers: Tensor) -> Tensor:
    return numbers.square().mean().sqrt()


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(dim=-1, keepdim=True)


def _require_one_image(leak: Leak) -> None:
    if leak.batch_size != 1:
        raise ValueError(
            f"leak: it averages {leak.batch_size} images, whose tokens cannot be told apart here; give a leak of one image"
        )


def _require_positions(model: nn.Module, leak: Leak) -> None:
    _require_one_image(leak)
    if not zoo.embeds_positions(model):
        raise ValueError(
            f"model: {type(model).__name__} has no learnable position embedding (pos_embed), so nothing gives dL/dZ away; "
            "try closed_form.subspace on a ViT whose embedding is frozen"
        )
