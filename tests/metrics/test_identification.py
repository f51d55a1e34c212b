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


# -- by hand --------------------------------------------------------------------------------------------------------------


def test_ranks_by_hand():
    """On a line: truths at 2/8 and 5/8, distractors at 3/8, 4/8 and 7/8."""
    truth, distractors = flat(0.25, 0.625), flat(0.375, 0.5, 0.875)
    for at, expected in (
        ((0.26, 0.64), [1, 1]),
        ((0.34, 0.54), [2, 2]),
        ((0.3125, 0.5625), [2, 2]),  # as near to 3/8 as to 2/8, to 4/8 as to 5/8: ties, which count against
        # swapped: the other true image stands before one's own, with all that lies between, and 7/8 as a tie
        ((0.625, 0.25), [5, 4]),
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
    noisy = truth + 0.05 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    assert metrics.iip(noisy.clamp(0, 1), truth, distractors, by) == 1
    assert identification.ranks(truth.flip(0), photos[:4], distractors, by).min() > 1  # bytes as well


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identification, "PIXELS_AT_ONCE", 9 * random.randint(1, 4))
        assert identification.ranks(found, truth, distractors[order], by="pixels").tolist() == got.tolist()
