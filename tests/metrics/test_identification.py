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


@pytest.mark.parametrize("by", ["pixels", "lpips", "features"])
def test_noisy_recoveries_among_photographs(photos, by):
    truth, distractors = photos[:3].float() / 255, photos[3:10]
    noisy = truth + 0.05 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    assert metrics.iip(noisy.clamp(0, 1), photos[:3], distractors, by) == 1  # bytes as well
    assert identification.ranks(truth.roll(1, 0), truth, distractors, by).min() > 1


@pytest.mark.parametrize(("channels", "size"), [(3, (32, 32)), (1, (48, 40))])
def test_squared_distances_of_perceptual_points_are_lpips(photos, channels, size):
    images = torch.nn.functional.interpolate(photos[:4].float() / 255, size, mode="bilinear")[:, :channels]
    a, b = images[:2], images[2:]
    distances = torch.cdist(identification.perceptual(a).double(), identification.perceptual(b).double()).square()
    for i in range(2):
        want = metrics.lpips(a, b.roll(i, 0))
        torch.testing.assert_close(distances[range(2), [i, 1 - i]], want, rtol=1e-5, atol=1e-6)


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


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 2**31), st.integers(1, 4))
def test_ranks_by_definition_whatever_the_pieces(size, others, seed, at_once):
    g = torch.Generator().manual_seed(seed)
    found, truth, distractors = (torch.rand(n, 1, 3, 3, generator=g, dtype=torch.float64) for n in (size, size, others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identification, "PIXELS_AT_ONCE", 9 * at_once)
        got = identification.ranks(found, truth, distractors, by="pixels")
    candidates = torch.cat([truth, distractors])
    for i in range(size):
        distances = (candidates - found[i]).square().sum((1, 2, 3))
        assert got[i] == (distances <= distances[i] * (1 + 1e-12)).sum()
