"""Ranks by hand, and each space against the library that defines it."""

import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from privlab import data, metrics
from privlab.data import sources
from privlab.metrics import identification


@pytest.fixture(scope="module")
def photos():
    return data.load("cifar10_samples").pixels  # uint8 (20, 3, 32, 32)


def flat(*values):
    """Images of 1 x 2 x 2 pixels, each of one grey."""
    return torch.tensor(values).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)


def noise(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# -- by hand --------------------------------------------------------------------------------------------------------------


def test_ranks_by_hand():
    """On a line: truths at 2/8 and 5/8, distractors at 3/8, 4/8 and 7/8."""
    truth, distractors = flat(0.25, 0.625), flat(0.375, 0.5, 0.875)
    for at, expected in (
        ((0.26, 0.64), [1, 1]),
        ((0.34, 0.54), [2, 2]),
        ((0.3125, 0.5625), [2, 2]),  # as near to 3/8 as to 2/8, to 4/8 as to 5/8: ties, which count against
        (
            (0.625, 0.25),
            [5, 4],
        ),  # swapped: the other true image stands before one's own, with all that lies between, and 7/8 as a tie
        ((9.0, -9.0), [5, 4]),  # far outside of [0, 1], and not clamped
    ):
        found = identification.ranks(flat(*at), truth, distractors, by="pixels")
        assert found.dtype == torch.int64 and found.tolist() == expected, at
    assert metrics.iip(flat(0.26, 0.54), truth, distractors, by="pixels") == 0.5


def test_a_recovery_that_says_nothing_is_not_lucky():
    """The same distance from all: the last place, not the first."""
    truth, distractors = torch.eye(4)[:2].view(2, 1, 2, 2), torch.eye(4)[2:].view(2, 1, 2, 2)
    assert identification.ranks(torch.full((2, 1, 2, 2), 0.5), truth, distractors, by="pixels").tolist() == [4, 4]


@pytest.mark.parametrize("by", ["pixels", "lpips", "features"])
def test_exact_and_noisy_recoveries_among_photographs(photos, by):
    truth, distractors = photos[:4].float() / 255, photos[4:]
    assert identification.ranks(truth, truth, distractors, by).tolist() == [1, 1, 1, 1]
    assert metrics.iip((truth + 0.05 * noise(truth.shape)).clamp(0, 1), truth, distractors, by) == 1
    assert identification.ranks(truth.flip(0), truth, distractors, by).min() > 1


# -- the spaces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("channels", "size"), [(3, (32, 32)), (1, (32, 32)), (3, (48, 40))])
def test_squared_distances_of_perceptual_points_are_lpips(photos, channels, size):
    images = torch.nn.functional.interpolate(photos[:6].float() / 255, size, mode="bilinear")
    images = images.mean(1, keepdim=True) if channels == 1 else images
    a, b = images[:3], images[3:]
    distances = torch.cdist(identification.perceptual(a).double(), identification.perceptual(b).double()).square()
    for i in range(3):
        want = metrics.lpips(a, b.roll(i, 0))
        torch.testing.assert_close(distances[range(3), [(j - i) % 3 for j in range(3)]], want, rtol=1e-5, atol=1e-6)


def test_ranks_by_lpips_are_those_of_the_metric(photos):
    pixels = photos.float() / 255
    truth, distractors = pixels[:3], pixels[3:]
    found = (truth + 0.4 * noise(truth.shape)).clamp(0, 1)
    candidates = torch.cat([truth, distractors])
    table = torch.stack([metrics.lpips(f.expand_as(candidates), candidates) for f in found])  # (3, 20)
    want = (table <= table.diagonal()[:, None]).sum(1)
    assert want.max() > 1
    assert identification.ranks(found, truth, distractors, by="lpips").tolist() == want.tolist()


def test_pooled_features_are_timms(photos):
    """The features that timm's own head reads, of enlarged images under the network's own preprocessing."""
    model = timm.create_model("tf_efficientnet_lite0").eval()
    model.load_state_dict(load_file(sources.fetch("efficientnet_lite0") / "tf_efficientnet_lite0.safetensors"))
    caught = []
    model.classifier.register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    images = photos[:2].float() / 255
    for x, size in ((images, (128, 128)), (images[..., :16], (256, 128))):
        large = torch.nn.functional.interpolate(x, size, mode="bilinear")
        with torch.no_grad():
            model((large * 255 - 127) / 128)
        torch.testing.assert_close(identification.pooled(x), caught[-1])


def test_a_blurred_face_is_still_its_owners_in_pixels_less_so_in_features():
    """ORL, one picture of each of 40 people, 4 recovered at half the resolution. ImageNet's features look at texture, and lose some."""
    faces = data.load("orl").pixels[::10]  # (40, 1, 112, 92)
    truth, distractors = faces[:4].float() / 255, faces[4:]
    small = torch.nn.functional.interpolate(truth, (56, 46), mode="bilinear", antialias=True)
    found = torch.nn.functional.interpolate(small, (112, 92), mode="bilinear")
    ranks = {by: identification.ranks(found, truth, distractors, by) for by in ("pixels", "lpips", "features")}
    assert ranks["pixels"].tolist() == ranks["lpips"].tolist() == [1, 1, 1, 1]
    assert 1 < ranks["features"].max() < 10


# -- laws -----------------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 2**31), st.randoms(use_true_random=False))
def test_ranks_by_definition_whatever_the_pieces_and_the_order(size, others, seed, random):
    g = torch.Generator().manual_seed(seed)
    truth, found = (torch.rand(size, 1, 3, 3, generator=g, dtype=torch.float64) for _ in range(2))
    distractors = torch.rand(others, 1, 3, 3, generator=g, dtype=torch.float64)
    got = identification.ranks(found, truth, distractors, by="pixels")
    candidates = torch.cat([truth, distractors])
    for i in range(size):
        distances = (candidates - found[i]).square().sum((1, 2, 3))
        assert got[i] == (distances <= distances[i] * (1 + 1e-12)).sum()
    order = list(range(others))
    random.shuffle(order)
    pieces, identification.PIXELS_AT_ONCE = identification.PIXELS_AT_ONCE, 9 * random.randint(1, 4)
    try:
        assert identification.ranks(found, truth, distractors[order], by="pixels").tolist() == got.tolist()
    finally:
        identification.PIXELS_AT_ONCE = pieces
    more = torch.cat([distractors, torch.rand(3, 1, 3, 3, generator=g, dtype=torch.float64)])
    assert (identification.ranks(found, truth, more, by="pixels") >= got).all()


def test_no_random_number_is_drawn(photos):
    before = torch.random.get_rng_state()
    identification.imagenet_network.cache_clear()
    identification.ranks(photos[:1], photos[:1], photos[1:3], by="features")
    assert torch.equal(torch.random.get_rng_state(), before)


# -- errors ---------------------------------------------------------------------------------------------------------------


def test_a_picture_that_is_there_twice_is_found_in_bytes_and_floats(photos):
    floats = photos.float() / 255
    for truth, distractors in ((floats[[0, 0]], floats[1:]), (floats[5:6], photos), (photos[5:6], floats)):
        with pytest.raises(ValueError, match="truth: an image is there twice, in the batch or among the"):
            metrics.iip(truth, truth, distractors, by="pixels")
    with pytest.raises(ValueError, match=r"truth: pixels go from .*; give bytes, or values in \[0, 1\]"):
        metrics.iip(floats[:1], floats[:1] * 255, photos[1:], by="pixels")
