"""Metrics by hand, their laws, and SSIM and LPIPS against the libraries that define them."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.torch import load_file
from skimage.metrics import structural_similarity

from privlab import data, metrics
from privlab.data import sources

EACH = [metrics.mse, metrics.psnr, metrics.ssim, metrics.lpips, metrics.fft2d]
pixels = st.floats(0, 1, allow_nan=False, width=32)
batches = arrays(np.float64, (3, 2, 4, 5), elements=pixels).map(torch.from_numpy)


@pytest.fixture(scope="module")
def photos() -> torch.Tensor:
    return data.load("cifar10_samples").take(slice(0, 6))[0]


def noisy(images: torch.Tensor, scale: float, seed: int = 0) -> torch.Tensor:
    return images + scale * torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))


def test_mse_and_psnr_by_hand() -> None:
    truth = torch.full((5, 1, 2, 2), 0.5).double()
    off = torch.tensor([0.1, -0.1, 1.0, 1e-10, 0])  # the third leaves [0, 1], and is not clamped
    images = truth + off.view(5, 1, 1, 1)
    assert torch.allclose(metrics.mse(images, truth)[:3], torch.tensor([0.01, 0.01, 1.0]).double())
    assert metrics.psnr(images, truth).tolist() == pytest.approx([20, 20, 0, 200, math.inf], abs=1e-4)


def test_fft2d_by_hand() -> None:
    one, other, both = torch.zeros(3, 1, 2, 2).split(1)
    one[..., 0, 0] = other[..., 1, 1] = both[..., 0, 0] = both[..., 1, 1] = 1.0
    for a, b, distance in ((one, other, 1), (-one, one, 2), (one, both, 1 - math.sqrt(0.5))):  # the second: opposite
        assert metrics.fft2d(a, b).item() == pytest.approx(distance)
    black = 0 * one
    assert [metrics.fft2d(a, b).item() for a, b in ((black, black), (black, one), (one, black))] == [0, 1, 1]


@settings(max_examples=30)
@given(batches, batches, st.floats(0.1, 5))
def test_fft2d_is_the_cosine_distance_of_the_pixels(images: torch.Tensor, truth: torch.Tensor, contrast: float) -> None:
    images, truth = images + 1e-3, truth * 0.9 + 0.1  # not black
    cosine = torch.nn.functional.cosine_similarity(images.flatten(1), truth.flatten(1))
    assert torch.allclose(metrics.fft2d(images, truth), 1 - cosine, atol=1e-12)
    assert torch.allclose(metrics.fft2d(images * contrast, truth), metrics.fft2d(images, truth), atol=1e-9)


def test_ssim_is_the_library_s_gaussian_one(photos: torch.Tensor) -> None:
    images = noisy(photos, 0.05).clamp(0, 1)
    for value, image, true in zip(metrics.ssim(images, photos), images, photos, strict=True):
        how = dict(win_size=11, gaussian_weights=True, data_range=1.0, use_sample_covariance=False)
        channels = zip(image.double().numpy(), true.double().numpy(), strict=True)
        want = [structural_similarity(a, b, **how) for a, b in channels]
        assert value.item() == pytest.approx(np.mean(want), abs=1e-12)


def test_ssim_and_lpips_see_what_a_screen_shows(photos: torch.Tensor) -> None:
    images = noisy(photos, 0.5)
    for metric in (metrics.ssim, metrics.lpips):
        assert torch.equal(metric(images, photos), metric(images.clamp(0, 1), photos))
    assert (metrics.mse(images, photos) > metrics.mse(images.clamp(0, 1), photos)).all()


def test_lpips_is_the_library_s_on_the_fetched_trunk(photos: torch.Tensor) -> None:
    import lpips

    with warnings.catch_warnings(action="ignore"):  # an argument that torchvision renamed
        library = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
    trunk = load_file(sources.fetch("lpips") / "alex.safetensors")
    by_place = {name.split(".", 1)[1]: weight for name, weight in trunk.items()}  # slice2.3.weight is features.3.weight
    library.net.load_state_dict({name: by_place[name.split(".", 1)[1]] for name in library.net.state_dict()})
    images = noisy(photos, 0.1).clamp(0, 1)
    want = library(images, photos, normalize=True).flatten().double()
    assert torch.allclose(metrics.lpips(images, photos), want, atol=1e-6)
    assert torch.equal(metrics.lpips(photos, photos), torch.zeros(6).double())


@pytest.mark.parametrize("metric", EACH)
def test_bad_images(metric) -> None:
    good = torch.full((2, 3, 32, 32), 0.5)
    for images, truth, message in (
        (good[:1], good, r"images: got \(1, 3, 32, 32\) .* for a truth \(2, 3, 32, 32\); give floats"),
        (good[0], good[0], r"images: got \(3, 32, 32\) .*\(batch, channels, height, width\)"),
        ((good * 255).byte(), good, "of torch.uint8"),
        (good, good * 255, "truth: pixels go from 127.5 to 127.5; divide by 255, or undo the normalisation"),
    ):
        with pytest.raises(ValueError, match=message):
            metric(images, truth)
