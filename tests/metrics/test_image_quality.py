from __future__ import annotations

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
from privlab.metrics import image_quality

EACH = [metrics.mse, metrics.psnr, metrics.ssim, metrics.lpips, metrics.fft2d]
pixels = st.floats(0, 1, allow_nan=False, width=32)
batches = arrays(np.float64, (3, 2, 4, 5), elements=pixels).map(torch.from_numpy)


@pytest.fixture(scope="module")
def photos() -> torch.Tensor:
    return data.load("cifar10_samples").take(slice(0, 6))[0]


def noisy(images: torch.Tensor, scale: float, seed: int = 0) -> torch.Tensor:
    return images + scale * torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))


# -- values known by hand ----------------------------------------------------------------------------------------------


def test_mse_and_psnr_by_hand() -> None:
    truth = torch.full((3, 1, 2, 2), 0.5)
    images = truth + torch.tensor([0.1, -0.1, 1.0]).view(3, 1, 1, 1)  # the last leaves [0, 1], and is not clamped
    assert torch.allclose(metrics.mse(images, truth), torch.tensor([0.01, 0.01, 1.0]).double())
    assert torch.allclose(metrics.psnr(images, truth), torch.tensor([20.0, 20.0, 0.0]).double(), atol=1e-5)


def test_mse_averages_over_channels_and_pixels() -> None:
    images = torch.zeros(1, 3, 2, 2)
    images[0, 1, 0, 1] = 0.6
    assert metrics.mse(images, torch.zeros(1, 3, 2, 2)).item() == pytest.approx(0.36 / 12)


def test_psnr_of_an_exact_image_is_infinite() -> None:
    truth = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    images = truth.clone()
    images[1] += 0.01
    assert metrics.psnr(images, truth)[0] == math.inf
    assert metrics.psnr(images, truth)[1] == pytest.approx(40, abs=1e-4)


def test_computed_in_float64() -> None:
    truth = torch.full((1, 1, 2, 2), 0.5, dtype=torch.float64)
    assert metrics.psnr(truth + 1e-10, truth).item() == pytest.approx(200, abs=1e-4)
    for metric in (metrics.mse, metrics.psnr, metrics.fft2d):
        assert metric(truth.bfloat16(), truth.bfloat16()).dtype == torch.float64


def test_fft2d_by_hand() -> None:
    one, other, both = torch.zeros(3, 1, 2, 2).split(1)
    one[..., 0, 0] = other[..., 1, 1] = both[..., 0, 0] = both[..., 1, 1] = 1.0
    assert metrics.fft2d(one, other).item() == pytest.approx(1)  # orthogonal
    assert metrics.fft2d(-one, one).item() == pytest.approx(2)  # opposite
    assert metrics.fft2d(one, both).item() == pytest.approx(1 - math.sqrt(0.5))


def test_fft2d_of_black_images() -> None:
    black, grey = torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.5)
    assert metrics.fft2d(black, black).item() == 0
    assert metrics.fft2d(black, grey).item() == metrics.fft2d(grey, black).item() == 1


# -- laws --------------------------------------------------------------------------------------------------------------


@given(batches, batches)
def test_psnr_falls_as_mse_grows(images: torch.Tensor, truth: torch.Tensor) -> None:
    error, decibels = metrics.mse(images, truth), metrics.psnr(images, truth)
    assert (error >= 0).all()
    assert torch.allclose(10 ** (-decibels / 10), error, rtol=1e-9, atol=0)
    assert decibels[error.argmin()] == decibels.max() and decibels[error.argmax()] == decibels.min()


@given(batches, batches)
def test_symmetric(images: torch.Tensor, truth: torch.Tensor) -> None:
    for metric in (metrics.mse, metrics.psnr, metrics.fft2d):
        assert torch.equal(metric(images, truth), metric(truth, images))


@given(batches, batches, st.floats(-0.5, 0.5))
def test_mse_ignores_what_is_added_to_both(images: torch.Tensor, truth: torch.Tensor, offset: float) -> None:
    images, truth = images / 2 + 0.25, truth / 2 + 0.25
    offset /= 2
    assert torch.allclose(metrics.mse(images + offset, truth + offset), metrics.mse(images, truth), atol=1e-12)


@given(batches, batches, st.permutations(range(3)))
def test_a_batch_in_another_order_has_its_values_in_that_order(
    images: torch.Tensor, truth: torch.Tensor, order: list[int]
) -> None:
    for metric in (metrics.mse, metrics.psnr, metrics.fft2d):
        assert torch.allclose(metric(images[order], truth[order]), metric(images, truth)[order])


@given(batches, batches)
def test_fft2d_is_the_cosine_distance_of_the_pixels(images: torch.Tensor, truth: torch.Tensor) -> None:
    images, truth = images + 1e-3, truth * 0.9 + 0.1  # not black
    cosine = torch.nn.functional.cosine_similarity(images.flatten(1), truth.flatten(1))
    distance = metrics.fft2d(images, truth)
    assert torch.allclose(distance, 1 - cosine, atol=1e-12)
    assert (distance >= 0).all() and (distance <= 2).all()


def test_fft2d_sees_circular_shifts(photos: torch.Tensor) -> None:
    assert (metrics.fft2d(photos.roll(8, dims=3), photos) > 0.01).all()


@given(batches, batches, st.floats(0.1, 5))
def test_fft2d_ignores_contrast(images: torch.Tensor, truth: torch.Tensor, factor: float) -> None:
    assert torch.allclose(metrics.fft2d(images * factor, truth), metrics.fft2d(images, truth), atol=1e-9)


# -- SSIM and LPIPS ----------------------------------------------------------------------------------------------------


def test_ssim_is_the_library_s_gaussian_one(photos: torch.Tensor) -> None:
    images = noisy(photos, 0.05).clamp(0, 1)
    for value, image, true in zip(metrics.ssim(images, photos), images, photos, strict=True):
        want = [
            structural_similarity(
                a.double().numpy(), b.double().numpy(), win_size=11, gaussian_weights=True, data_range=1.0,
                use_sample_covariance=False,
            )
            for a, b in zip(image, true, strict=True)
        ]  # fmt: skip
        assert value.item() == pytest.approx(np.mean(want), abs=1e-12)


def test_ssim_of_flat_images_by_hand() -> None:
    dark, bright = torch.full((1, 1, 11, 11), 0.2), torch.full((1, 1, 11, 11), 0.6)
    want = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)  # no structure: only the luminance term is left
    assert metrics.ssim(dark, bright).item() == pytest.approx(want, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_ssim_laws(one: int, other: int) -> None:
    a, b = (torch.rand(2, 3, 12, 13, generator=torch.Generator().manual_seed(s)) for s in (one, other))
    assert torch.allclose(metrics.ssim(a, a), torch.ones(2).double())
    assert torch.allclose(metrics.ssim(a, b), metrics.ssim(b, a), atol=1e-12)
    assert (metrics.ssim(a, b).abs() <= 1 + 1e-12).all()
    assert torch.allclose(metrics.ssim(a.flip(0), b.flip(0)), metrics.ssim(a, b).flip(0))


def test_ssim_and_lpips_see_what_a_screen_shows(photos: torch.Tensor) -> None:
    images = noisy(photos, 0.5)
    assert images.min() < 0 and images.max() > 1
    for metric in (metrics.ssim, metrics.lpips):
        assert torch.equal(metric(images, photos), metric(images.clamp(0, 1), photos))
    assert (metrics.mse(images, photos) > metrics.mse(images.clamp(0, 1), photos)).all()


def test_lpips_is_the_library_s_on_the_fetched_trunk(photos: torch.Tensor) -> None:
    import lpips

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an argument that torchvision renamed
        library = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
    trunk = list(load_file(sources.fetch("lpips") / "alex.safetensors").items())
    for name, parameter in library.net.named_parameters():  # by place: slice2.3.weight is features.3.weight
        (weight,) = [w for n, w in trunk if n.split(".", 1)[1] == name.split(".", 1)[1]]
        parameter.data.copy_(weight)
    images = noisy(photos, 0.1).clamp(0, 1)
    want = library(images, photos, normalize=True).flatten().double()
    assert torch.allclose(metrics.lpips(images, photos), want, atol=1e-6)


def test_lpips_laws(photos: torch.Tensor) -> None:
    images = noisy(photos, 0.1)
    values = metrics.lpips(images, photos)
    assert values.dtype == torch.float64 and values.shape == (6,) and (values > 0).all()
    assert torch.equal(metrics.lpips(photos, photos), torch.zeros(6).double())
    assert torch.allclose(metrics.lpips(photos, images.clamp(0, 1)), values, atol=1e-6)
    assert torch.allclose(metrics.lpips(images.flip(0), photos.flip(0)), values.flip(0), atol=1e-6)


def test_lpips_takes_grey_images_as_colour(photos: torch.Tensor) -> None:
    grey = photos.mean(dim=1, keepdim=True)
    images = noisy(grey, 0.1)
    colour = metrics.lpips(images.expand(-1, 3, -1, -1), grey.expand(-1, 3, -1, -1))
    assert torch.equal(metrics.lpips(images, grey), colour)


def test_lpips_at_its_smallest_sizes() -> None:
    images = torch.rand(2, 1, 31, 31, generator=torch.Generator().manual_seed(0))
    assert metrics.lpips(images[:1], images[1:]).item() > 0
    with pytest.raises(ValueError, match=r"30 x 31 pixels.*needs sides of 31"):
        metrics.lpips(images[:, :, 1:], images[:, :, 1:])


def test_lpips_draws_no_random_numbers(photos: torch.Tensor) -> None:
    before = torch.random.get_rng_state()
    image_quality.perceptual_network.cache_clear()
    metrics.lpips(photos[:1], photos[:1])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_lpips_says_what_sources_say_when_the_trunk_is_missing(
    photos: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(name: str) -> None:
        raise RuntimeError(f"{name} could not be had")

    image_quality.perceptual_network.cache_clear()
    monkeypatch.setattr(sources, "fetch", unreachable)
    with pytest.raises(RuntimeError, match="lpips could not be had"):
        metrics.lpips(photos, photos)


def test_every_metric_gets_worse_with_noise_on_real_images(photos: torch.Tensor) -> None:
    noise = noisy(torch.zeros_like(photos), 1.0)
    at = [photos + scale * noise for scale in (0.02, 0.05, 0.1, 0.2, 0.4)]
    for metric, better in ((metrics.mse, -1), (metrics.psnr, 1), (metrics.ssim, 1), (metrics.fft2d, -1)):
        values = torch.stack([metric(images, photos) for images in at]) * better  # (levels, batch)
        assert (values.diff(dim=0) < 0).all(), metric.__name__
    means = [metrics.lpips(images, photos).mean().item() for images in at]
    assert means == sorted(means)


# -- summaries ---------------------------------------------------------------------------------------------------------


def test_summary_by_hand() -> None:
    found = metrics.summary([1.0, 2.0, 3.0, 6.0])
    assert (found.mean, found.median, found.n, found.exact) == (3.0, 2.5, 4, 0)
    assert found.std == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3))


def test_an_exact_image_does_not_spoil_the_batch() -> None:
    found = metrics.summary(torch.tensor([20.0, math.inf, 22.0, 24.0]))
    assert (found.mean, found.std, found.median, found.n, found.exact) == (22.0, 2.0, 22.0, 4, 1)
    assert str(found) == "22.0 ± 2.0 (median 22.0, n=3, and 1 exact)"


def test_all_exact() -> None:
    found = metrics.summary([math.inf, math.inf])
    assert found.mean == found.median == math.inf and math.isnan(found.std) and found.exact == found.n == 2
    assert str(found) == "exact (n=2)"


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.integers(0, 5))
def test_exact_images_change_nothing_but_their_count(values: list[float], exact: int) -> None:
    plain, mixed = metrics.summary(values), metrics.summary([*values, *[math.inf] * exact])
    assert (mixed.mean, mixed.median, mixed.n, mixed.exact) == (plain.mean, plain.median, len(values) + exact, exact)
    assert min(values) - 1e-9 <= plain.mean <= max(values) + 1e-9 and min(values) <= plain.median <= max(values)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([24.1], "24.1 (n=1)"),
        ([24.123, math.inf], "24.1 (n=1, and 1 exact)"),
        ([0.0123], "0.0123 (n=1)"),
        ([0.0, 0.0], "0 ± 0 (median 0, n=2)"),
        ([21.8, 24.0, 26.4], "24.1 ± 2.3 (median 24.0, n=3)"),
        ([7e-9, 9e-9], "8.0e-09 ± 1.4e-09 (median 8.0e-09, n=2)"),
        ([0.11, 0.12, 0.14], "0.123 ± 0.015 (median 0.120, n=3)"),
    ],
)
def test_summaries_read_well(values: list[float], want: str) -> None:
    assert str(metrics.summary(values)) == repr(metrics.summary(values)) == want


def test_compare(photos: torch.Tensor) -> None:
    images = photos.clone()
    images[1:] = noisy(photos, 0.1)[1:]
    found = metrics.compare(images, photos)
    assert list(found) == ["mse", "psnr", "ssim", "fft2d_complex"]
    assert found["psnr"].exact == 1 and 19 < found["psnr"].mean < 21
    assert found["mse"].mean == pytest.approx(metrics.mse(images, photos).mean().item())


# -- bad input ---------------------------------------------------------------------------------------------------------

GOOD = torch.full((2, 3, 32, 32), 0.5)
HOLED = GOOD.clone()
HOLED[1, 0, 3, 3] = math.nan


@pytest.mark.parametrize("metric", EACH)
@pytest.mark.parametrize(
    ("images", "truth", "message"),
    [
        (GOOD[:1], GOOD, r"images: \(1, 3, 32, 32\) is not the shape of truth, \(2, 3, 32, 32\)"),
        (GOOD[0], GOOD, r"images: got shape \(3, 32, 32\) .*\(batch, channels, height, width\)"),
        (GOOD, GOOD[0], r"truth: got shape \(3, 32, 32\)"),
        (GOOD[:0], GOOD[:0], r"images: got shape \(0, 3, 32, 32\) .* at least one image"),
        (
            GOOD,
            (GOOD * 255).byte(),
            r"of torch.uint8; give floats in \[0, 1\]",
        ),
        (HOLED, GOOD, "images: NaN or infinity among the pixels; leave out the images that failed"),
        (GOOD, HOLED / 0, "truth: NaN or infinity"),
        (GOOD, GOOD * 255, r"truth: 128 to 128 leaves \[0, 1\]; divide by 255, or undo the normalisation"),
        (GOOD, GOOD - 2, r"truth: -1.5 to -1.5 leaves \[0, 1\]"),
        (GOOD.numpy(), GOOD, "images: got ndarray; give floats"),
    ],
)
def test_bad_images(metric, images, truth, message) -> None:
    with pytest.raises(ValueError, match=message) as error:
        metric(images, truth)
    assert "\n" not in str(error.value)


def test_other_bad_input() -> None:
    with pytest.raises(ValueError, match="got 2 channels; LPIPS takes 3"):
        metrics.lpips(GOOD[:, :2], GOOD[:, :2])
    with pytest.raises(ValueError, match="10 x 32 pixels are less than SSIM's 11 x 11 window; use mse or psnr"):
        metrics.ssim(GOOD[:, :, :10], GOOD[:, :, :10])
    with pytest.raises(ValueError, match=r"values: got shape \(0,\); give one value an image"):
        metrics.summary([])
    with pytest.raises(ValueError, match=r"values: got shape \(2, 3\)"):
        metrics.summary(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="values: 1 of 2 are nan; leave out what failed and say so"):
        metrics.summary([1.0, math.nan])
    with pytest.raises(ValueError, match="values: 1 of 1 are -inf"):
        metrics.summary([-math.inf])
