"""Data: what an image set hands out, how it is normalised, and what it says to a bad request."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab import data
from privlab.data import Images, Normalise, sources


@pytest.fixture
def few() -> Images:
    """Ten images of 2x3 pixels and 3 channels; image i holds 10 i, 10 i + 1, ... in its red plane."""
    pixels = torch.arange(10, dtype=torch.uint8).view(10, 1, 1, 1) * 10 + torch.arange(6, dtype=torch.uint8).view(2, 3)
    return Images("few", "train", pixels.repeat(1, 3, 1, 1), torch.arange(10) % 4, tuple("abcd"), Normalise())


def test_normalise_by_hand():
    normalise = Normalise((0.5, 0.0), (0.5, 2.0))
    image = torch.tensor([[[[0.0, 1.0]], [[1.0, 0.5]]]])  # (1, 2, 1, 2)
    assert normalise(image).tolist() == [[[[-1.0, 1.0]], [[0.5, 0.25]]]]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 10)), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_the_inverse_undoes_it(channels, seed):
    normalise = Normalise(*zip(*channels, strict=True))
    images = torch.rand(2, len(channels), 3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(normalise.inverse(normalise(images)), images, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(normalise(normalise.inverse(images)), images, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize(("mean", "std"), [((0.0, 0.0), (1.0,)), ((0.0, 0.0), (1.0, 0.0))])
def test_a_normalisation_without_inverse_is_refused(mean, std):
    with pytest.raises(ValueError, match="give one of each a channel, and a std above 0"):
        Normalise(mean, std)


@pytest.mark.parametrize("shape", [(1, 1, 4, 4), (3, 4, 4)])
def test_images_of_other_channels_are_refused(shape):
    with pytest.raises(ValueError, match=r"do not fit a normalisation of 3 channels; give \(batch, 3, height, width\)"):
        data.NORMALISE["cifar10"](torch.zeros(shape))


def test_take_keeps_the_order_and_scales_to_one(few):
    images, labels = few.take([7, 0, 7])
    assert images.dtype == torch.float32 and images.shape == (3, 3, 2, 3)
    assert images[:, 0, 0, 1].tolist() == pytest.approx([71 / 255, 1 / 255, 71 / 255])
    assert labels.tolist() == [3, 0, 3] and labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        (slice(-2, None), [8, 9]),
        (range(3), [0, 1, 2]),
        (np.array([4, 1]), [4, 1]),
        (torch.tensor([-1]), [9]),
    ],
)
def test_take_understands(few, indices, expected):
    images, labels = few.take(indices)
    assert (images[:, 0, 0, 0] * 255).round().tolist() == [10.0 * i for i in expected]
    assert labels.tolist() == [i % 4 for i in expected]


def test_one_resizes_with_antialiasing():
    # A checkerboard finer than the new grid has one mean everywhere: without antialiasing, stripes would appear.
    board = (torch.arange(64).view(-1, 1) + torch.arange(64)).remainder(2).mul(255).to(torch.uint8)
    images = Images("board", "train", board.expand(1, 3, 64, 64), torch.zeros(1).long(), ("a",), Normalise())
    small, _ = images.one(0, size=8)
    assert small.shape == (1, 3, 8, 8) and (small - 0.5).abs().max() < 0.01
    assert torch.equal(images.one(0)[0], images.take([0])[0])


def test_sample_is_distinct_and_follows_its_seed_alone(few):
    torch.manual_seed(1)
    first = few.sample(10, seed=5)
    torch.manual_seed(2)
    assert torch.equal(few.sample(10, seed=5)[0], first[0])
    assert sorted((first[0][:, 0, 0, 0] * 25.5).round().tolist()) == list(range(10))
    assert not torch.equal(few.sample(10, seed=6)[0], first[0])
    assert torch.equal(few.sample(3, seed=5)[0], first[0][:3])


def test_a_set_says_what_it_is():
    samples = data.load("mnist_samples")
    assert repr(samples) == "Images(mnist_samples, train: 20 of 1x28x28, 10 classes)"
    assert samples.normalise == data.NORMALISE["mnist_samples"]


def test_a_set_or_split_that_does_not_exist():
    with pytest.raises(ValueError, match=r"name='cifar1O' is not a known image set; did you mean 'cifar10'\?"):
        data.load("cifar1O")
    with pytest.raises(ValueError, match=r"split='validation' does not exist in 'cifar10'; it has 'train' and 'test'"):
        data.load("cifar10", "validation")


def test_every_image_set_has_an_origin_and_every_image_source_a_normalisation():
    images = {name for name in sources.names() if "train.safetensors" in sources.describe(name).layout}
    assert set(data.names()) == images


@pytest.mark.parametrize("name", ["cifar10", "mnist", "orl"])
def test_normalisation_is_that_of_the_training_pixels(name):
    images = data.load(name)
    for channel, (mean, std) in enumerate(zip(images.normalise.mean, images.normalise.std, strict=True)):
        counts = torch.zeros(256, dtype=torch.float64)
        for chunk in images.pixels[:, channel].split(10_000):  # a histogram holds all that the moments need
            counts += chunk.flatten().int().bincount(minlength=256)
        levels = torch.arange(256, dtype=torch.float64) / 255
        average = (counts * levels).sum() / counts.sum()
        spread = ((counts * (levels - average).square()).sum() / counts.sum()).sqrt()
        assert (average.item(), spread.item()) == (pytest.approx(mean, abs=6e-5), pytest.approx(std, abs=6e-5))


def test_pixels_are_mapped_from_the_file_and_not_read():
    images = data.load("cifar10")
    path = sources.folder() / "cifar10" / "train.safetensors"
    with open("/proc/self/maps") as maps:  # Linux says which files are mapped, and where
        spans = [line.split()[0].split("-") for line in maps if line.rstrip().endswith(str(path.resolve()))]
    start = images.pixels.data_ptr()
    assert any(int(low, 16) <= start < int(high, 16) for low, high in spans)
