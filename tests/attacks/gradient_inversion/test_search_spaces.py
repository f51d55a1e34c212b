"""The family of a batch holds its patches and has the dimension that the rule says; projections, whitening and components by definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from privlab import data, models
from privlab.attacks.gradient_inversion import search_spaces
from privlab.data import Normalise
from privlab.leak import observe

FIRST = ["blocks.0.attn.qkv.weight"]


def victim(width=384, **changes):
    return models.build("vit_cifar", embed_dim=width, depth=2, **changes).double()


def family_of(model, x):
    return search_spaces.family(model, observe(model, x, torch.zeros(len(x), dtype=torch.int64), names=FIRST))


def patches(images, side):
    return torch.nn.functional.unfold(images, side, stride=side).transpose(1, 2)


def latent_of(space, batch, seed):
    shape = (batch, len(space.origin), space.hidden)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def affine(hidden, seed):
    """A small space by hand: images of 1 x 4 x 3 pixels in 2 patches of 2 x 3, an oblique basis."""
    g = torch.Generator().manual_seed(seed)
    origin, basis = (torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((2, 6), (6, hidden)))
    return search_spaces.Affine(origin, basis, (1, 4, 3), (2, 3), Normalise((0.5,), (0.25,)))


@pytest.mark.parametrize(("width", "batch", "std"), [(192, 3, 1.0), (384, 2, 0.02), (384, 3, 1.0)])
def test_the_true_patches_lie_in_the_family(photos, width, batch, std):
    """n (B - 1) dimensions where the width allows; 192 - (192 - 16 B - 1 - 1) at width 192, where equations are missing."""
    model = victim(width, position_std=std)
    x = photos.take(range(batch))[0]
    space = family_of(model, x)
    assert space.hidden == (16 * (batch - 1) if width == 384 else 16 * batch + 2)
    assert space.origin.shape == (16, 192) and space.basis.shape == (192, space.hidden)
    normalised = model.normalise(x.double())
    assert (space.images(space.begin(normalised)) - normalised).abs().max() < 1e-10
    torch.testing.assert_close(space.basis.T @ space.basis, torch.eye(space.hidden).double(), rtol=0, atol=1e-12)
    other = model.normalise(photos.take([19])[0].double())  # it says something: another image is not in it
    assert (space.images(space.begin(other)) - other).abs().max() > 0.05


def test_the_origin_is_the_nearest_point_to_mid_grey(photos):
    model = victim()
    space = family_of(model, photos.take([0, 1])[0])
    grey = model.normalise(torch.full((1, 3, 32, 32), 0.5).double())
    assert space.begin(grey).abs().max() < 1e-10
    assert ((space.origin - patches(grey, 8)[0]) @ space.basis).abs().max() < 1e-10


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**31))
def test_begin_undoes_images_and_is_the_nearest_point(hidden, batch, seed):
    space = affine(hidden=hidden, seed=seed)
    z = latent_of(space, batch, seed)
    torch.testing.assert_close(space.begin(space.images(z)), z, rtol=1e-6, atol=1e-6)
    x = torch.randn(batch, 1, 4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    residual = patches(x - space.images(space.begin(x)), (2, 3))
    assert (residual @ space.basis).abs().max() < 1e-6 * (1 + residual.abs().max())  # at right angles to the family


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**31))
def test_expected_makes_the_density_of_a_patch_a_standard_normal_one(hidden, seed):
    """-log N(patch; mu, C) - |z|^2 / 2 does not depend on z, whatever the patch's known part."""
    space = affine(hidden=hidden, seed=seed)
    public = torch.rand(20, 1, 4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = patches(space.normalise(public), (2, 3)).flatten(0, 1)
    covariance = (1 - 1e-4) * torch.cov(rows.T) + 1e-4 * torch.cov(rows.T).diagonal().mean() * torch.eye(6)
    density, seen = torch.distributions.MultivariateNormal(rows.mean(0), covariance.double()), space.expected(public)
    levels = []
    for size in range(4):
        z = latent_of(seen, 1, size) * size
        levels.append(-density.log_prob(patches(seen.images(z), (2, 3))[0]) - z[0].square().sum(1) / 2)  # (patches,)
    torch.testing.assert_close(levels[1:], levels[:1] * 3, rtol=1e-6, atol=1e-6)
    inside = space.images(space.begin(seen.images(z)))  # and it is the same family
    torch.testing.assert_close(inside, seen.images(z), rtol=1e-6, atol=1e-6)


def test_components_are_scikit_learns(photos):
    normalise = data.NORMALISE["cifar10"]
    x = photos.take(range(20))[0]
    rows, space = normalise(x.double()).flatten(1).numpy(), search_spaces.components(x, 7, normalise)
    pca = PCA(7, whiten=True, svd_solver="full").fit(rows)
    z, wanted = space.begin(normalise(x.double())), pca.transform(rows)
    assert z.shape == (20, 1, 7) and space.hidden == 7
    signs = np.sign((z[:, 0].numpy() * wanted).sum(0))
    np.testing.assert_allclose(z[:, 0].numpy() * signs, wanted, atol=1e-9)
    np.testing.assert_allclose(space.images(z).flatten(1).numpy(), pca.inverse_transform(wanted), atol=1e-9)


def test_batches_that_leave_nothing_are_named(photos):
    x, y = photos.take(range(3))
    model = victim(384, patch_size=4)  # 64 patches of 48 pixels: one difference a patch is more than there are pixels
    with pytest.raises(ValueError, match="2 images leave all 48 pixels of a patch open.*give fewer images"):
        search_spaces.family(model, observe(model, x[:2], y[:2], names=FIRST))
