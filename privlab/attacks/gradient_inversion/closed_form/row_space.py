"""Patches from the row space of the first attention's weight gradient: no gradient of the position embedding is needed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.layers import RmsNorm
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares, vit
from privlab.attacks.gradient_inversion.closed_form.least_squares import Noise, Recovery
from privlab.attacks.gradient_inversion.closed_form.vit import QKV, known, projection
from privlab.leak import Leak, observe


def subspace(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Recovery:
    """Solve for the pixels from the first attention's weight gradient alone: no gradient of the position embedding is needed.

    The first block computes QKV = LN(Z) Wqkv^T, so its gradient, a sum over tokens of (something) LN(z_t)^T, has the normed tokens as
    its row space: `tokens` dimensions out of `width`. With N a basis of what is outside of it, C the subtraction of the mean, gamma and
    beta the norm's affine, sigma_i the token's deviation:

        N^T (gamma * C(W x_i + b + e_i)) + sigma_i N^T beta = 0        for each patch i

    which is linear in the patch x_i (and in sigma_i, where beta is not 0). It needs two blocks or more and width - tokens > pixels of a
    patch; see `hidden_directions` for what it leaves open. Not in the papers.

    model: a timm VisionTransformer with pre-norm blocks.  leak: one image's gradients, `blocks.0.attn.qkv.weight` among them.
    noise: see `attention`.  Returns the image, of the rank that `recovered` counts.
    Warns where too few equations are left.  Raises ValueError for a batch, width <= tokens, a model without pre-norm, bad gradients.
    """
    least_squares.require_one(leak)
    system = equations(model, leak, noise)
    width, entering, pixels = model.embed_dim, len(known(model)), projection(model)[0].shape[1]
    if width - entering <= pixels:
        left = f"width {width} less {entering} tokens leaves {width - entering - 1} equations"
        least_squares.warn(f"{left} for the {pixels} pixels of a patch")
    X, condition, _ = system.solve()
    images, count = vit.folded(X[:pixels].T, model, leak), partial(recovered, model, leak, noise)
    return Recovery(images, condition, system.system.shape[1], (QKV,), count)


class Equations(NamedTuple):
    """A X = B for the patches of an image, X: (unknowns, patches), with what is known of the errors in A and B."""

    system: Tensor  # (equations, patch pixels), and a column for sigma_i where beta is not 0
    right: Tensor  # (equations, patches)
    relative: float
    error: Tensor

    def solve(self, start: Tensor | float = 0.0) -> least_squares.Solved:
        """Damped towards `start`, (unknowns, patches); X is what is added to it."""
        start = torch.as_tensor(start).to(self.system).expand(self.system.shape[1], self.right.shape[1])
        return least_squares.solve(self.system, self.right - self.system @ start, self.relative, self.error)


def equations(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Equations:
    """The system of `subspace` for a batch of any size: each of its images satisfies it, see `search_spaces.family`."""
    vit.require_vit(model, leak)
    first: Any = model.blocks[0]
    if type(first) is not Block:
        raise ValueError("model: its first block has no norm before its attention, as a stock ViT has")
    (gamma, beta, centred), count = (
        _norm(model),
        leak.batch_size * model.patch_embed.num_patches + model.num_prefix_tokens,
    )
    if model.embed_dim <= count:
        raise ValueError(f"model: width {model.embed_dim} leaves no equation beside {count} tokens")
    gradient = least_squares.gradient(leak, model, QKV)  # (3 width, width)
    relative, noisy = least_squares.relative(leak, noise), least_squares.deviation(noise, QKV)
    rows = least_squares.row_sizes(gradient)
    gradient = gradient / ((relative * rows).hypot(torch.as_tensor(noisy).to(rows)) if noisy else rows)

    _, spectrum, Vh = torch.linalg.svd(gradient, full_matrices=False)  # Vh: (width, width)
    outside = Vh[count:]  # N^T: (width - tokens, width)
    fixed = known(model)[model.num_prefix_tokens :]  # (patches, width)
    linear = gamma[:, None] * centred(projection(model)[0].T).T  # (width, patch pixels)
    if beta.any():
        linear = torch.cat([linear, beta[:, None]], dim=1)  # sigma_i is unknown too
    error = relative * least_squares.rms(fixed)
    right = (gamma * centred(fixed)).T  # (width, patches)
    if noisy:
        # Every row errs by 1, so a direction of the row space is turned by 1 over its singular value; what that lets in errs like B.
        error = spectrum[:count].pow(-2).mean().sqrt() * least_squares.rms(right)
    return Equations(outside @ linear, -outside @ right, relative, error)


def recovered(model: VisionTransformer, leak: Leak, noise: Noise = None) -> int:
    """How many directions of a patch come back from such a gradient, off by less than half of their deviation, in a trial.

    The equations do not tell when noise has drowned the row space: the tokens' mean is left, and explains most of what is known of them.
    So uniform noise, which has every direction in it, is given a gradient as large as the leak's, damaged alike, and solved for.
    """
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(leak.batch_size, *leak.image_shape, generator=draw)
    labels = torch.zeros(leak.batch_size, dtype=torch.long) if leak.labels is None else leak.labels[: leak.batch_size]
    own = observe(model, images, labels, names=[QKV])
    clean = own[QKV].double()
    named, share = least_squares.deviation(noise, QKV), least_squares.share(noise)
    size = ((leak[QKV].double().square().mean() - named**2).clamp(min=0) / (1 + share**2)).sqrt()  # without its noise
    clean *= size / least_squares.rms(clean)
    damaged = clean + torch.randn(clean.shape, generator=draw).to(clean) * (named + share * size)
    damaged = damaged.to(leak.precision).to(leak[QKV].dtype)
    if not damaged.any():
        return 0
    system = equations(model, replace(leak, grads={QKV: damaged}), noise)
    true = own.normalise(images.to(clean))
    patch, numbers = model.patch_embed.patch_size, projection(model)[0].shape[1]
    off = system.solve().X[:numbers] - F.unfold(true, patch, stride=patch)  # (batch, numbers of a patch, patches)
    axes = torch.linalg.svd(system.system[:, :numbers]).Vh
    lost = (axes @ off).square().mean((0, 2)).sqrt() > true.std() / 2
    return system.system.shape[1] - int(lost.sum())


def hidden_directions(model: VisionTransformer, batch_size: int = 1) -> int:
    """How many directions of each patch the system of `subspace` cannot see, told from the model alone: the rank rule.

    Let a combination a of the tokens satisfy sum_t a_t C(k_t) = 0, where k_t is the part of token t that does not depend on the image:
    b + e_i for a patch, its value for a prefix token. Then gamma * C(W sum_i a_i x_i) is a combination of normed tokens (and of beta),
    hence no equation sees the direction sum_i a_i x_i. So hidden = min(patch pixels, tokens - rank[C k]) where width - tokens > patch
    pixels, and at least as many as equations are missing where the model is narrower. Images whose patches repeat hide less. In a batch
    of B the k_t of the n patches come B times and add no rank: n (B - 1) directions more are hidden.
    """
    fixed, unknowns = known(model), projection(model)[0].shape[1]
    (_, beta, centred), count = _norm(model), batch_size * model.patch_embed.num_patches + model.num_prefix_tokens
    rank = int(torch.linalg.matrix_rank(centred(fixed), rtol=1e-12))
    lost = isinstance(model.blocks[0].norm1, nn.LayerNorm) or bool(beta.any())
    missing = unknowns - (fixed.shape[1] - count - lost)
    return min(unknowns, max(count - rank, missing))


def _norm(model: VisionTransformer) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """What stands before the first attention makes gamma * C(z) / sigma + beta of a token z: gamma and beta, (width,), and C."""
    norm: Any = model.blocks[0].norm1
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm | RmsNorm):
        raise ValueError(f"model: a {type(norm).__name__} stands before its attention; give a LayerNorm or an RMSNorm")
    bias, zeros = getattr(norm, "bias", None), torch.zeros_like(projection(model)[1])  # (width,)
    gamma = zeros + 1 if norm.weight is None else norm.weight.detach().double()
    beta = zeros if bias is None else bias.detach().double()
    return gamma, beta, lambda rows: rows - isinstance(norm, nn.LayerNorm) * rows.mean(dim=-1, keepdim=True)
