"""Where a search looks: in the affine `family` that a batch's gradient leaves open, or along the `components` of public images."""

from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from privlab.attacks.gradient_inversion import closed_form
from privlab.data import Normalise
from privlab.leak import Leak

SHRINKAGE = 1e-4  # of the covariance of public patches, see `Affine.expected`


@dataclass(frozen=True, repr=False)
class Affine:
    """Images whose patches are origin + latent basis^T; a latent is (batch, patches, hidden).

    origin: (patches, numbers of a patch), normalised.  basis: (numbers of a patch, hidden), of full column rank.
    shape: (channels, height, width) of an image.  patch: (height, width) of a patch.  normalise: the preprocessing of public images.
    """

    origin: Tensor
    basis: Tensor
    shape: tuple[int, int, int]
    patch: tuple[int, int]
    normalise: Normalise

    @property
    def hidden(self) -> int:
        """Dimensions in which a patch is free."""
        return self.basis.shape[1]

    def to(self, like: Tensor) -> Self:
        """The same family on another tensor's device and in its float format; do it once, before a search in float32."""
        return replace(self, origin=self.origin.to(like), basis=self.basis.to(like))

    def begin(self, images: Tensor) -> Tensor:
        """The latent (batch, patches, hidden) of the images in the family that are nearest to these normalised ones."""
        inverse = torch.linalg.pinv(self.basis)  # (hidden, numbers of a patch)
        return ((self._cut(images.to(self.origin)) - self.origin) @ inverse.T).to(images)

    def images(self, latent: Tensor) -> Tensor:
        """Normalised images (batch, channels, height, width), affine in the latent."""
        patches = self.origin.to(latent) + latent @ self.basis.to(latent).T  # (batch, patches, numbers of a patch)
        return F.fold(patches.transpose(1, 2), self.shape[1:], self.patch, stride=self.patch)

    def expected(self, images: Tensor) -> Self:
        """The same family, in which a Gaussian over the patches of public images is the standard one: latent 0 is the patch to expect.

        Of N(mu, C) the density on the family is a Gaussian in the latent, of covariance (basis^T C^-1 basis)^-1. A share of `SHRINKAGE`
        of C gives way to as much of the mean variance.  images: (n, channels, height, width) in [0, 1], with more patches than `hidden`.
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

    The equations of `closed_form.subspace` hold for every image of the batch, and so for x_i + a (x_jb - x_j1), whatever the number a and
    the patch j: differences between the images' patches at the same place are hidden, and `closed_form.hidden_directions`. All else of
    each patch is known, but for what does not stand above the errors in the gradient. The origin is, of each patch's family, the point
    nearest to mid-grey; the basis is orthonormal. Not in the papers.

    model: a timm VisionTransformer with pre-norm blocks, two or more.  leak: of B images, `blocks.0.attn.qkv.weight` among its gradients,
    with width > B n + prefix tokens.  noise: as in `closed_form.subspace`.
    Raises ValueError as `closed_form.subspace` does, and where no direction is determined.
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
        what = f"{leak.batch_size} images leave all {pixels} pixels of a patch open, or the noise does"
        raise ValueError(f"leak: {what}; give fewer images, larger patches, a wider model, or a less noisy leak")
    free = torch.linalg.svd(equations.system).Vh[rank:, :pixels]  # (unknowns - rank, pixels): sigma goes along
    _, sizes, axes = torch.linalg.svd(free, full_matrices=False)
    basis = axes[sizes > 1e-9].T  # (pixels, hidden)
    shift = solved.X[:pixels].T  # (patches, pixels)
    origin = grey + shift - shift @ basis @ basis.T
    return Affine(origin, basis, leak.image_shape, patch, leak.normalise)


def components(images: Tensor, count: int, normalise: Normalise | None = None) -> Affine:
    """The first principal components of public images, as a generator: mean + latent, in units of each component's deviation.

    images: (n, channels, height, width) in [0, 1].  count: 1 to n - 1.  normalise: of the model that is attacked; none if not given.
    The latent is (batch, 1, count): the whole image is one patch. A standard normal latent is a typical image.
    """
    normalise = normalise or Normalise()
    _, channels, height, width = images.shape
    rows = normalise(images.double()).flatten(1)  # (n, numbers)
    mean = rows.mean(0, keepdim=True)
    _, spectrum, axes = torch.linalg.svd(rows - mean, full_matrices=False)
    deviations = spectrum[:count] / (len(images) - 1) ** 0.5
    basis = (axes[:count] * deviations[:, None]).T  # (numbers, count)
    return Affine(mean, basis, (channels, height, width), (height, width), normalise)
