"""Patches from the row space of the first attention's weight gradient: no gradient of the position embedding is needed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.layers import PatchDropout, RmsNorm
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form import least_squares, tokens
from privlab.attacks.gradient_inversion.closed_form.least_squares import Noise
from privlab.attacks.gradient_inversion.closed_form.tokens import Recovery, projection
from privlab.leak import Leak, observe

QKV = "blocks.0.attn.qkv.weight"
CLEAR = 30  # times the noise: a singular value that is no effect of it


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
    noise: see `attention`.
    Warns where too few equations are left.  Raises ValueError for a batch, width <= tokens, a model without pre-norm, bad gradients.
    """
    tokens.require_one(leak)
    system = equations(model, leak, noise)
    width, count, unknowns = model.embed_dim, len(tokens.known(model)), projection(model)[0].shape[1]
    if width - count <= unknowns:
        warnings.warn(
            f"width {width} less {count} tokens leaves {width - count - 1} equations for the {unknowns} pixels of a patch: "
            "the image is one of many solutions",
            stacklevel=2,
        )
    solved = system.solve()
    return tokens.recovery(solved.X[:unknowns].T, model, leak, solved, system.system.shape[1])


class Equations(NamedTuple):
    """A X = B for the patches of an image, X: (unknowns, patches), with what is known of the errors in A and B."""

    system: Tensor  # (equations, patch pixels), and a column for sigma_i where beta is not 0
    right: Tensor  # (equations, patches)
    relative: float
    error: Tensor
    linear: Tensor  # (width, unknowns): a normed token, times its deviation, is linear X + fixed
    fixed: Tensor  # (width, patches)
    turned: Tensor  # (tokens, unknowns): linear along each direction of S, times the angle by which this errs
    most: int  # that the rank can be

    def solve(self, start: Tensor | float = 0.0) -> least_squares.Solved:
        """Damped towards `start`, (unknowns, patches); X is what is added to it, and the rank counts what is recovered of it."""
        start = torch.as_tensor(start).to(self.system).expand(self.system.shape[1], self.right.shape[1])
        solved = least_squares.solve(self.system, self.right - self.system @ start, self.relative, self.error)
        return solved._replace(rank=self._rank(start + solved.X))

    def _rank(self, X: Tensor) -> int:
        """Singular values of A above the errors of A v along their direction v, and of B.

        Foreseen: the directions of S are turned, each by the noise in the gradient over its own singular value. And, whatever the cause,
        what the equations leave over for X: it says by how much a token in S leaves it. Where that is as large as B, they explain nothing.
        """
        _, spectrum, Vh = torch.linalg.svd(self.system, full_matrices=False)
        equations, most = len(self.system), len(spectrum)
        left = (self.right - self.system @ X).square().sum() / (max(equations - most, 1) * self.right.shape[1])
        explained = 1 - (left / self.right.square().mean().clamp(min=1e-300)).clamp(max=1.0)
        angle = left / (self.linear @ X + self.fixed).square().sum(0).mean().clamp(min=1e-300)  # squared, of a number
        foreseen = (self.turned @ Vh.T).square().sum(0) * (equations**0.5 + most**0.5) ** 2
        errors = foreseen + equations * angle * (self.linear @ Vh.T).square().sum(0) + left
        return min(self.most, int((spectrum**2 * explained > errors).sum()))


def equations(model: VisionTransformer, leak: Leak, noise: Noise = None) -> Equations:
    """The system of `subspace` for a batch of any size: each of its images satisfies it, see `search_spaces.family`.

    With B images S is spanned by B * patches normed tokens and those of the prefix, which are the same in all images. Arguments and
    errors as there, but for the number of images. Where errors beyond float32's are in the gradient, a trial bounds the rank.
    """
    system = _equations(model, leak, noise)
    certain = least_squares.relative(leak, noise, backward=0)
    if certain > torch.finfo(torch.float32).eps or (isinstance(noise, Mapping) and noise.get(QKV)):
        system = system._replace(most=min(system.most, _recovered_in_a_trial(model, leak, noise)))
    return system


def _recovered_in_a_trial(model: VisionTransformer, leak: Leak, noise: Noise) -> int:
    """Directions that come back from such a gradient of images that the attacker knows, under the same rounding and noise.

    Noise that drowns the row space cannot be told from the equations: the tokens' mean is left of it, and explains most of what is known
    of the tokens. So the attacker takes images that have every direction of a patch in them, uniform noise, makes their gradient as large
    as the leak's, damages it alike, and solves. A direction came back if it is off by less than half of its deviation.
    """
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(leak.batch_size, *leak.image_shape, generator=draw)
    labels = torch.zeros(leak.batch_size, dtype=torch.long) if leak.labels is None else leak.labels
    clean = observe(model, images, labels, leak.normalise, [QKV])[QKV].double()
    named = noise.get(QKV, 0.0) if isinstance(noise, Mapping) else 0.0
    share = 0.0 if noise is None or isinstance(noise, Mapping) else noise
    size = ((leak[QKV].double().square().mean() - named**2).clamp(min=0) / (1 + share**2)).sqrt()  # without its noise
    clean *= size / least_squares.rms(clean)
    damaged = clean + torch.randn(clean.shape, generator=draw).to(clean) * (named + share * size)
    damaged = damaged.to(leak.precision).to(leak[QKV].dtype)
    if not damaged.any():
        return 0
    system = _equations(model, replace(leak, grads={QKV: damaged}), noise)
    true = leak.normalise(images.to(clean))
    patch, numbers = model.patch_embed.patch_size, projection(model)[0].shape[1]
    off = system.solve().X[:numbers] - F.unfold(true, patch, stride=patch)  # (batch, numbers of a patch, patches)
    axes = torch.linalg.svd(system.system[:, :numbers]).Vh
    lost = (axes @ off).square().mean((0, 2)).sqrt() > true.std() / 2
    return system.system.shape[1] - int(lost.sum())


def _equations(model: VisionTransformer, leak: Leak, noise: Noise) -> Equations:
    tokens.require_patches(model, leak)
    first: Any = model.blocks[0]
    if type(first) is not Block or not all(map(_idle, (model.norm_pre, model.pos_drop, model.patch_drop))):
        raise ValueError(
            f"model: its first block, {type(first).__name__}, does not stand right behind the embedding with a norm before its attention; "
            "try a stock timm ViT or DeiT, or closed_form.attention for architecture A"
        )
    norm, count = Norm.of(first.norm1, model), _tokens(model, leak.batch_size)
    if model.embed_dim <= count:
        images = "its" if leak.batch_size == 1 else f"the {leak.batch_size} images'"
        raise ValueError(
            f"model: width {model.embed_dim} leaves no equation beside {images} {count} tokens; the form needs width > tokens"
        )
    gradient = tokens.gradient(leak, model, QKV)  # (3 width, width)
    relative, noisy = least_squares.relative(leak, noise), least_squares.deviation(leak, noise, QKV)
    rows = least_squares.row_sizes(gradient)
    gradient = gradient / ((relative * rows).hypot(torch.as_tensor(noisy).to(rows)) if noisy else rows)

    _, spectrum, Vh = torch.linalg.svd(gradient, full_matrices=False)  # Vh: (width, width)
    inside, outside = Vh[:count], Vh[count:]  # S, and N^T: (width - tokens, width)
    known = tokens.known(model)[model.num_prefix_tokens :]  # (patches, width)
    linear = norm.gamma[:, None] * norm.centred(projection(model)[0].T).T  # (width, patch pixels)
    if norm.beta.any():
        linear = torch.cat([linear, norm.beta[:, None]], dim=1)  # sigma_i is unknown too
    fixed = (norm.gamma * norm.centred(known)).T  # (width, patches)
    error = relative * least_squares.rms(known)
    if noisy:
        # Every row errs by 1, so a direction of S is turned by 1 over its singular value; what that lets in errs like B.
        error = spectrum[:count].pow(-2).mean().sqrt() * least_squares.rms(fixed)
    # The noise shows in the singular values that would be 0 without it, where these are not too few to tell.
    sent = max(int(gradient.any(1).sum()) - count, 1)
    shows = (spectrum[count:].square().sum() / (sent * len(outside))).sqrt()
    certain = 1.0 if noisy else least_squares.relative(leak, noise, backward=0)
    turned = (shows.clamp(min=certain) / spectrum[:count])[:, None] * (inside @ linear)
    # Dependent tokens, such as equal patches, leave out directions of S, and hide as many less; unless the noise drowns what is there.
    clear = int((spectrum[:count] > CLEAR * shows * (sent**0.5 + len(outside) ** 0.5)).sum())
    absent = count - clear if 0 < clear < count and spectrum[clear - 1] > CLEAR * spectrum[clear] else 0
    most = linear.shape[1] - max(hidden_directions(model, leak.batch_size) - absent, 0)
    return Equations(outside @ linear, -outside @ fixed, relative, error, linear, fixed, turned, most)


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
    the ones, and hides (n - 1)^2. Images whose patches repeat, such as a digit on black, hide less.
    In a batch the k_t of the patches come once for each of the B images and add no rank: n (B - 1) directions more are hidden.
    """
    fixed, unknowns = tokens.known(model), projection(model)[0].shape[1]
    block: Any = model.blocks[0]
    norm, count = Norm.of(block.norm1, model), _tokens(model, batch_size)
    rank = int(torch.linalg.matrix_rank(norm.centred(fixed), rtol=1e-12))
    missing = unknowns - (fixed.shape[1] - count - (norm.centres or bool(norm.beta.any())))
    return min(unknowns, max(count - rank, missing))


class Norm(NamedTuple):
    """A LayerNorm or an RMSNorm of a token z of the width: gamma * C(z) / sigma + beta, with or without each of its parts."""

    gamma: Tensor  # (width,), 1 where there is none
    beta: Tensor  # (width,), 0 where there is none
    centres: bool  # whether C takes the mean out

    @classmethod
    def of(cls, module: nn.Module, model: VisionTransformer) -> Norm:
        if not isinstance(module, nn.LayerNorm | nn.RMSNorm | RmsNorm):
            raise ValueError(
                f"model: what stands before its first attention is a {type(module).__name__}; the form needs a LayerNorm or an RMSNorm"
            )
        one = torch.ones(model.embed_dim, dtype=torch.float64, device=model.patch_embed.proj.weight.device)
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        gamma = one if weight is None else weight.detach().double()
        beta = 0 * one if bias is None else bias.detach().double()
        return cls(gamma, beta, isinstance(module, nn.LayerNorm))

    def centred(self, rows: Tensor) -> Tensor:
        """Rows of (..., width) less their mean, where the norm takes that out."""
        return rows - rows.mean(dim=-1, keepdim=True) if self.centres else rows


def _idle(layer: nn.Module) -> bool:
    """Whether a layer between the embedding and the first block gives tokens back as they were."""
    if isinstance(layer, nn.Dropout | PatchDropout):
        return not layer.training or getattr(layer, "p", None) == 0
    return isinstance(layer, nn.Identity)


def _tokens(model: VisionTransformer, batch_size: int) -> int:
    """Different tokens that enter the first block: those of the prefix are the same in all images."""
    return batch_size * model.patch_embed.num_patches + model.num_prefix_tokens
