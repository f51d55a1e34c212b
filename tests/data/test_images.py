"""Data: what an image set hands out, how it is normalised, and what it says to a bad request."""

import numpy as np
import pytest
import torch

from privlab import data
from privlab.data import Images, Normalise, sources


@pytest.fixture
def few() -> Images:
    """Ten images of 2x3 pixels and 3 channels; image i holds 10 i, 10 i + 1, ... in its red plane."""
    pixels = torch.arange(10, dtype=torch.uint8).view(10, 1, 1, 1) * 10 + torch.arange(6, dtype=torch.uint8).view(2, 3)
    return Images("few", "train", pixels.repeat(1, 3, 1, 1), torch.arange(10) % 4, tuple("abcd"), Normalise())


def test_normalise_and_its_inverse_by_hand():
    normalise = Normalise((0.5, 0.0), (0.5, 2.0))
    image = torch.tensor([[[[0.0, 1.0]], [[1.0, 0.5]]]])  # (1, 2, 1, 2)
    assert normalise(image).tolist() == [[[[-1.0, 1.0]], [[0.5, 0.25]]]]
    assert torch.equal(normalise.inverse(normalise(image)), image)


@pytest.mark.parametrize("shape", [(1, 1, 4, 4), (3, 4, 4)])
def test_images_of_other_channels_are_refused(shape):
    with pytest.raises(ValueError, match=r"do not fit a normalisation of 3 channels; give \(batch, 3, height, width\)"):
        data.NORMALISE["cifar10"](torch.zeros(shape))


@pytest.mark.parametrize(
    ("indices", "expected"),
    [([7, 0, 7], [7, 0, 7]), (slice(-2, None), [8, 9]), (np.array([4, 1]), [4, 1]), (torch.tensor([-1]), [9])],
)
def test_take_keeps_the_order_and_scales_to_one(few, indices, expected):
    images, labels = few.take(indices)
    assert images.dtype == torch.float32 and images.shape == (len(expected), 3, 2, 3)
    assert images[:, 0, 0, 1].tolist() == pytest.approx([(10 * i + 1) / 255 for i in expected])
    assert labels.tolist() == [i % 4 for i in expected] and labels.dtype == torch.int64


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
        chunks = images.pixels[:, channel].split(10_000)
        share = sum(chunk.flatten().int().bincount(minlength=256) for chunk in chunks).double()  # of each of 256 levels
        share, levels = share / share.sum(), torch.arange(256) / 255
        average = (share * levels).sum()
        spread = (share * (levels - average).square()).sum().sqrt()
        assert (average.item(), spread.item()) == (pytest.approx(mean, abs=6e-5), pytest.approx(std, abs=6e-5))


def test_pixels_are_mapped_from_the_file_and_not_read():
    images = data.load("cifar10")
    path = sources.folder() / "cifar10" / "train.safetensors"
    with open("/proc/self/maps") as maps:  # Linux says which files are mapped, and where
        spans = [line.split()[0].split("-") for line in maps if line.rstrip().endswith(str(path.resolve()))]
    start = images.pixels.data_ptr()
    assert any(int(low, 16) <= start < int(high, 16) for low, high in spans)
