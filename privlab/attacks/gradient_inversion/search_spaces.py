"""Where a search looks: at all pixels, in the affine family that a batch's gradient leaves open, or along the components of public images.

A space maps latents to normalised images, differentiably, and images to the nearest latent, for noise and for starts that are given:

    Pixels()                              the latent is the image
    family(model, leak)                   each patch on an affine family of few dimensions, from the first attention's weight gradient
    components(images, count, normalise)  the principal components of public images: the simplest generator there is

The last two are one class, `Affine`: patches = origin + latent basis^T, where the patches of `components` are whole images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """Images whose patches are origin + latent basis^T; a latent is (batch, patches, hidden).

    origin: (patches, numbers of a patch), normalised.  basis: (numbers of a patch, hidden), of full column rank.
    shape: (channels, height, width) of an image.  patch: (height, width) of a patch; the image's own where a patch is the whole image.
    normalise: the preprocessing, by which public images are brought here.
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
        inverse = torch.linalg.pinv(self.basis)  # (hidden, numbers of a patch)
        return ((self._cut(images.to(self.origin)) - self.origin) @ inverse.T).to(images)

    def images(self, latent: Tensor) -> Tensor:
        """Normalised images (batch, channels, height, width), affine in the latent."""
        patches = self.origin.to(latent) + latent @ self.basis.to(latent).T  # (batch, patches, numbers of a patch)
        return F.fold(patches.transpose(1, 2), self.shape[1:], self.patch, stride=self.patch)

    def expected(self, images: Tensor) -> Affine:
        """The same family as a Gaussian over the patches of public images sees it: latent 0 is the patch to expect, given what is known.

        Let N(mu, C) be that Gaussian. On the family its density is a Gaussian in the latent z, of covariance (basis^T C^-1 basis)^-1; here
        origin and basis are chosen so that it is the standard one. So |z|^2 / 2 is the negative logarithm of the density, but for a
        constant: a prior for a search. Latent 0 is its best guess without any search, the same for all images of the batch.
        A share of `SHRINKAGE` of the covariance gives way to as much of the mean variance, so that no direction is left without any.

        images: (n, channels, height, width) in [0, 1], as large as this family's; their patches have to be more than `hidden`.
        """
        if self.hidden == 0:
            return self
        patches = self._cut(self.normalise(images.to(self.origin))).flatten(0, 1)  # (n * patches, numbers of a patch)
        covariance = torch.cov(patches.T).view(patches.shape[1], -1)
        shrunk = SHRINKAGE * covariance.diagonal().mean() * torch.eye(len(covariance)).to(covariance)
        weights = torch.linalg.solve((1 - SHRINKAGE) * covariance + shrunk, self.basis)  # C^-1 basis
        spread = torch.linalg.inv(self.basis.T @ weights)  # (hidden, hidden): covariance of the latent
        likely = (patches.mean(0) - self.origin) @ weights @ spread  # (patches, hidden)
        variances, axes = torch.linalg.eigh(spread)
        root = (axes * variances.sqrt()).flip(1)  # root root^T = spread, the longest column first
        return replace(self, origin=self.origin + likely @ self.basis.T, basis=self.basis @ root)

    def _cut(self, images: Tensor) -> Tensor:
        return F.unfold(images, self.patch, stride=self.patch).transpose(1, 2)  # (batch, patches, numbers of a patch)


def family(model: VisionTransformer, leak: Leak, noise: closed_form.Noise = None) -> Affine:
    """What a batch's gradient says of its patches without a search: each lies on an affine family of n (B - 1) dimensions.

    The equations of `closed_form.subspace` hold for every image of the batch. They no longer have one solution, since they also hold for
    x_i + a (x_jb - x_j1), whatever the number a and the patch j: the differences between the images' patches at the same place are the
    hidden directions, n (B - 1) of them for n patches; and those of `closed_form.hidden_directions`. All else of each patch is known.
    Singular values that do not stand above the errors in the gradient determine nothing, so a noisy leak leaves a larger family.
    The origin is, of each patch's family, the point nearest to mid-grey. The basis is orthonormal. Not in the papers.

    model: a timm VisionTransformer with pre-norm blocks, two or more.  leak: of B images, `blocks.0.attn.qkv.weight` among its gradients,
    with width > B n + prefix tokens.  noise: as in `closed_form.subspace`.
    Raises ValueError as `closed_form.subspace` does, and where no direction is determined: n (B - 1) fills the pixels of a patch, say.
    """
    equations = closed_form.equations(model, leak, noise)
    unknowns = equations.system.shape[1]
    pixels, patch = model.patch_embed.proj.weight[0].numel(), model.patch_embed.patch_size
    grey = leak.normalise(torch.full((1, *leak.image_shape), 0.5).to(equations.system))
    grey = F.unfold(grey, patch, stride=patch)[0].T  # (patches, pixels)
    solved = equations.solve(F.pad(grey, (0, unknowns - pixels)).T)  # from sigma 0, where it is unknown
    hidden = closed_form.hidden_directions(model, leak.batch_size)
    rank = min(closed_form.recovered(model, leak, noise), unknowns - hidden)
    if rank <= unknowns - pixels:
        raise ValueError(
            f"leak: its {leak.batch_size} images leave {min(hidden, pixels)} of the {pixels} pixels of a patch open, and no other "
            f"stands above the noise (width {model.embed_dim}, {model.patch_embed.num_patches} patches); "
            "give fewer images, larger patches, a wider model, or a less noisy leak"
        )
    free = torch.linalg.svd(equations.system).Vh[rank:, :pixels]  # (unknowns - rank, pixels): sigma goes along
    _, sizes, axes = torch.linalg.svd(free, full_matrices=False)
    basis = axes[sizes > 1e-9].T  # (pixels, hidden)
    shift = solved.X[:pixels].T  # (patches, pixels)
    origin = grey + shift - shift @ basis @ basis.T
    return Affine(origin, basis, leak.image_shape, patch, leak.normalise)


def components(images: Tensor, count: int, normalise: Normalise | None = None) -> Affine:
    """The first principal components of public images, as a generator: mean + latent, in units of each component's deviation.

    images: (n, channels, height, width) in [0, 1], public ones.  count: components, 1 to n - 1 and at most the numbers of an image.
    normalise: the preprocessing of the model that is attacked; none if not given.
    Returns a space whose latent is (batch, 1, count): the whole image is one patch. A standard normal latent is a typical image, as far as
    covariances tell.  Raises ValueError for images out of [0, 1], or more components than the images have.
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
