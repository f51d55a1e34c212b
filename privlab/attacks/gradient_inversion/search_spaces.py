"""Where a search looks: at all pixels, in the affine family that a batch's gradient leaves open, or along the components of public images.

A space maps latents to normalised images, differentiably, and images to the nearest latent, for noise and for starts that are given:

    Pixels()                              the latent is the image
    family(model, leak)                   each patch on an affine family of few dimensions, from the first attention's weight gradient
    components(images, count, normalise)  the principal components of public images: the simplest generator there is

The last two are one class, `Affine`: patches = origin + latent basis^T, where the patches of `components` are whole images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.gradient_inversion import closed_form
from privlab.data import Normalise
from privlab.data.images import check_range
from privlab.leak import Leak

if TYPE_CHECKING:  # timm takes seconds to import, and a player waits for searches only
    from timm.models.vision_transformer import VisionTransformer

SHRINKAGE = 1e-4  # of the covariance of public patches, see `Affine.expected`


class Space(Protocol):
    """What a search needs of a space."""

    def begin(self, images: Tensor) -> Tensor:
        """The latent whose images are nearest to these normalised ones, (batch, channels, height, width)."""

    def images(self, latent: Tensor) -> Tensor:
        """The normalised images, (batch, channels, height, width), of a latent."""


@dataclass(frozen=True)
class Pixels:
    """All images: the latent is the normalised image itself."""

    def begin(self, images: Tensor) -> Tensor:
        return images

    def images(self, latent: Tensor) -> Tensor:
        return latent


@dataclass(frozen=True, repr=False)
class Affine:
    """Images whose patches are origin + latent basis^T.

    origin: (patches, numbers of a patch), normalised.  basis: (numbers of a patch, hidden), of full column rank.
    shape: (channels, height, width) of an image.  patch: (height, width) of a patch; the image's own where a patch is the whole image.
    normalise: the preprocessing, by which public images are brought here.
    A latent is (batch, patches, hidden). All images of a batch live in the same family.
    """

    origin: Tensor
    basis: Tensor
    shape: tuple[int, int, int]
    patch: tuple[int, int]
    normalise: Normalise

    def __repr__(self) -> str:
        return f"Affine: {len(self.origin)} patches of {len(self.basis)} numbers, {self.hidden} of them hidden"

    @property
    def hidden(self) -> int:
        """Dimensions in which a patch is free."""
        return self.basis.shape[1]

    def to(self, like: Tensor) -> Affine:
        """The same family on another tensor's device and in its float format; do it once, before a search in float32."""
        return replace(self, origin=self.origin.to(like), basis=self.basis.to(like))

    def begin(self, images: Tensor) -> Tensor:
        """The latent (batch, patches, hidden) of the nearest images in the family, in the Euclidean distance of normalised pixels."""
        return ((self._cut(images.to(self.origin)) - self.origin) @ self._inverse.T).to(images)

    def images(self, latent: Tensor) -> Tensor:
        """Normalised images (batch, channels, height, width), affine in the latent."""
        patches = self.origin.to(latent) + latent @ self.basis.to(latent).T  # (batch, patches, numbers of a patch)
        return F.fold(patches.transpose(1, 2), self.shape[1:], self.patch, stride=self.patch)

    def expected(self, images: Tensor) -> Affine:
        """The same family as a Gaussian over the patches of public images sees it: latent 0 is the patch to expect, given what is known.

        Let N(mu, C) be that Gaussian. On the family its density is a Gaussian in the latent z, of covariance (basis^T C^-1 basis)^-1; here
        origin and basis are chosen so that it is the standard one. So |z|^2 / 2 is the negative logarithm of the density, but for a
        constant, whatever the known part of a patch: a prior for a search. Latent 0 is its best guess without any search, the same for all
        images of the batch: on CIFAR-10 (ViT of width 384, patch 8, 8 batches) 15.6 dB for 2 images and 13.5 for 3, 2.1 and 0.8 dB above
        the point nearest to grey.

        A share of `SHRINKAGE` of the covariance gives way to as much of the mean variance, so that no direction is left without any.

        images: (n, channels, height, width) in [0, 1], as large as this family's; their patches have to be more than `hidden`.
        Raises ValueError for images of another shape.
        """
        patches = self._cut(self.normalise(images.to(self.origin))).flatten(0, 1)  # (n * patches, numbers of a patch)
        if self.hidden == 0:
            return self
        mean, covariance = patches.mean(0), _covariance(patches)
        weights = torch.linalg.solve(covariance, self.basis)  # C^-1 basis: (numbers of a patch, hidden)
        spread = torch.linalg.inv(self.basis.T @ weights)  # (hidden, hidden): covariance of the latent
        likely = (mean - self.origin) @ weights @ spread  # (patches, hidden)
        return replace(self, origin=self.origin + likely @ self.basis.T, basis=self.basis @ _root(spread))

    @cached_property
    def _inverse(self) -> Tensor:
        return torch.linalg.pinv(self.basis)  # (hidden, numbers of a patch)

    def _cut(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or tuple(images.shape[1:]) != self.shape:
            raise ValueError(
                f"images: shape {tuple(images.shape)} is not (batch, {', '.join(map(str, self.shape))}), as this space has"
            )
        return F.unfold(images, self.patch, stride=self.patch).transpose(1, 2)  # (batch, patches, numbers of a patch)


def _covariance(rows: Tensor) -> Tensor:
    covariance = torch.cov(rows.T).view(rows.shape[1], rows.shape[1])
    variance = covariance.diagonal().mean()
    return (1 - SHRINKAGE) * covariance + SHRINKAGE * variance * torch.eye(len(covariance)).to(covariance)


def _root(covariance: Tensor) -> Tensor:
    """A matrix R with R R^T = covariance, its columns orthogonal, the longest first."""
    variances, axes = torch.linalg.eigh(covariance)
    return (axes * variances.sqrt()).flip(1)


def family(model: VisionTransformer, leak: Leak, noise: closed_form.Noise = None) -> Affine:
    """What a batch's gradient says of its patches without a search: each lies on an affine family of n (B - 1) dimensions.

    The equations of `closed_form.subspace` hold for every image of the batch. They no longer have one solution, since they also hold for
    x_i + a (x_jb - x_j1), whatever the number a and the patch j: the differences between the images' patches at the same place are the
    hidden directions, n (B - 1) of them for n patches, the same for every patch; and those that the rank rule adds, and as many as
    equations are missing where the model is narrow, see `closed_form.hidden_directions`. All else of each patch is known.

    The origin is, of each patch's family, the point nearest to mid-grey. The basis is orthonormal. Singular values that do not stand above
    the errors in the gradient determine nothing, so a leak in a shorter float format, or a noisy one, leaves a larger family.
    One image has no hidden direction (on a wide enough model with an embedding of full rank), and the origin is the closed form's answer.

    model: a timm VisionTransformer with pre-norm blocks, two or more.  leak: of B images, `blocks.0.attn.qkv.weight` among its gradients,
    with width > B n + prefix tokens.  noise: as in `closed_form.subspace`.
    Raises ValueError as `closed_form.subspace` does, and where no direction is determined: n (B - 1) fills the pixels of a patch, say.
    Not in the papers.
    """
    equations = closed_form.equations(model, leak, noise)
    unknowns = equations.system.shape[1]
    pixels = model.patch_embed.proj.weight[0].numel()
    patch = model.patch_embed.patch_size
    grey = leak.normalise(torch.full((1, *leak.image_shape), 0.5).to(equations.system))
    grey = F.unfold(grey, patch, stride=patch)[0].T  # (patches, pixels)
    start = F.pad(grey, (0, unknowns - pixels))  # and sigma 0, where it is unknown
    solved = equations.solve(start.T)
    hidden = closed_form.hidden_directions(model, leak.batch_size)
    rank = min(solved.rank, unknowns - hidden)
    if rank <= unknowns - pixels:
        raise ValueError(
            f"leak: its {leak.batch_size} images leave {min(hidden, pixels)} of the {pixels} pixels of a patch open, and no other "
            f"stands above the noise (width {model.embed_dim}, {model.patch_embed.num_patches} patches); "
            "give fewer images, larger patches, a wider model, or a less noisy leak"
        )
    free = torch.linalg.svd(equations.system).Vh[
        rank:, :pixels
    ]  # (unknowns - rank, pixels): sigma goes along, where it is unknown
    _, sizes, axes = torch.linalg.svd(free, full_matrices=False)
    basis = axes[sizes > 1e-9].T  # (pixels, hidden)
    shift = solved.X[:pixels].T  # (patches, pixels)
    origin = grey + shift - shift @ basis @ basis.T
    return Affine(origin, basis, leak.image_shape, patch, leak.normalise)


def components(images: Tensor, count: int, normalise: Normalise | None = None) -> Affine:
    """The first principal components of public images, as a generator: mean + latent, in units of each component's deviation.

    images: (n, channels, height, width) in [0, 1], public ones.  count: components, 1 to n - 1 and at most the numbers of an image.
    normalise: the preprocessing of the model that is attacked; none if not given.
    Returns a space whose latent is (batch, 1, count): the whole image is one patch. The latents of the public images have mean 0 and
    covariance 1, so a standard normal latent is a typical image, as far as covariances tell.
    Raises ValueError for images out of [0, 1], or more components than the images have.
    """
    normalise = normalise or Normalise()
    check_range("images", images, "give public images in [0, 1]; they are normalised here")
    _, channels, height, width = images.shape
    rows = normalise(images.double()).flatten(1)  # (n, numbers)
    mean = rows.mean(0, keepdim=True)
    _, spectrum, axes = torch.linalg.svd(rows - mean, full_matrices=False)
    rank = int((spectrum > 1e-9 * spectrum[0]).sum())
    if not 1 <= count <= rank:
        raise ValueError(f"count={count}: these {len(images)} images vary in {rank} directions; give 1 to {rank}")
    deviations = spectrum[:count] / (len(images) - 1) ** 0.5
    basis = (axes[:count] * deviations[:, None]).T  # (numbers, count)
    return Affine(mean, basis, (channels, height, width), (height, width), normalise)
