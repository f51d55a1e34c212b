"""What is assumed about images: each prior by hand, its slope, what it cannot see, and what it refuses."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privlab import data, models
from privlab.attacks.gradient_inversion.priors import (
    BatchNormStatistics,
    Classification,
    PatchJoints,
    Registration,
    pixel_norm,
    squared_variation,
    total_variation,
    total_variation_norm,
)
from privlab.data import Normalise
from privlab.leak import Leak
from privlab.models import zoo

HALF = Normalise((0.5,), (0.25,))


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def leak_of(shape=(3, 8, 8), batch=1, normalise=HALF, labels=None):
    return Leak({}, batch, shape, labels, normalise)


IMAGES = torch.tensor([[[[0.0, 1.0], [3.0, 5.0]]]], dtype=torch.float64)  # across 1, 2; down 3, 4; falling 5; rising 2


def test_values_by_hand():
    assert total_variation(IMAGES).item() == (1 + 2) / 2 + (3 + 4) / 2
    assert total_variation_norm(IMAGES).item() == pytest.approx(math.sqrt(1 + 4) + math.sqrt(9 + 16) + 5 + 2)
    assert pixel_norm(IMAGES).item() == pytest.approx(math.sqrt(0 + 1 + 9 + 25))
    assert squared_variation(IMAGES).item() == pytest.approx((1 + 4) / 2 + (9 + 16) / 2)


def test_joints_by_the_sum_of_the_paper():
    images = noise(2, 3, 12, 8)
    expected = 0.0
    for k in range(1, 12 // 4):
        expected += (images[:, :, 4 * k] - images[:, :, 4 * k - 1]).square().sum().sqrt().item()
    for k in range(1, 8 // 4):
        expected += (images[:, :, :, 4 * k] - images[:, :, :, 4 * k - 1]).square().sum().sqrt().item()
    assert PatchJoints(4)(images).item() == pytest.approx(expected)


def test_patches_are_read_from_the_model():
    assert PatchJoints().prepare(models.build("swin_cifar"), leak_of((3, 32, 32))) == PatchJoints((4, 4))
    assert PatchJoints(4).prepare(models.build("resnet_cifar"), leak_of((3, 32, 32))) == PatchJoints(4)
    with pytest.raises(ValueError, match="patch=None: ResNet has no patches"):
        PatchJoints().prepare(models.build("resnet_cifar"), leak_of((3, 32, 32)))


def two_layers(seed=0):
    """A small trained-looking network: two convolutions, two BatchNorm layers, smooth."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Tanh(), nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5)]
        network = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2)).double()
        network(torch.rand(2, 3, 8, 8).double())
        for layer in (network[1], network[4]):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    network.normalise = Normalise((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    return network.eval().requires_grad_(False)


def by_hand(network, x):
    """Equation 4 as a loop over layers and channels; x as the network takes it."""
    total = 0.0
    for i, layer in enumerate(network):
        if isinstance(layer, nn.BatchNorm2d):
            means, variances = 0.0, 0.0
            for c in range(x.shape[1]):
                values = x[:, c].flatten().tolist()
                mean = sum(values) / len(values)
                variance = sum((v - mean) ** 2 for v in values) / len(values)
                means += (mean - layer.running_mean[c].item()) ** 2
                variances += (variance - layer.running_var[c].item()) ** 2
            total += math.sqrt(means) + math.sqrt(variances)
        x = network[i](x)
    return total


def test_statistics_by_hand():
    network, pixels = two_layers(), noise(3, 3, 8, 8).sigmoid()
    prior = BatchNormStatistics(network)
    assert prior(HALF(pixels), {}, leak_of()).item() == pytest.approx(by_hand(network, network.normalise(pixels)))
    small = noise(3, 3, 5, 5).sigmoid()
    larger = F.interpolate(small, size=(8, 8), mode="bilinear")
    resized = BatchNormStatistics(network, size=8)(HALF(small), {}, leak_of((3, 5, 5)))
    assert resized.item() == pytest.approx(by_hand(network, network.normalise(larger)))


def test_relative_statistics_by_hand():
    """Doubling a layer's running deviation halves the mean's gap and quarters the variance's, but for what they are gaps of."""
    network = nn.Sequential(nn.BatchNorm2d(3, eps=0.0)).double().eval()
    network.normalise = Normalise((0.0,) * 3, (1.0,) * 3)
    network[0].running_mean.copy_(torch.tensor([0.1, 0.2, 0.3]))
    network[0].running_var.copy_(torch.tensor([1.0, 4.0, 9.0]))
    pixels = noise(3, 3, 8, 8).sigmoid()
    mean, variance = pixels.mean((0, 2, 3)), pixels.var((0, 2, 3), correction=0)
    gaps = (mean - network[0].running_mean) / torch.tensor([1.0, 2.0, 3.0])
    spreads = variance / torch.tensor([1.0, 4.0, 9.0]) - 1
    found = BatchNormStatistics(network, relative=True)(HALF(pixels), {}, leak_of())
    assert found.item() == pytest.approx((gaps.norm() + spreads.norm()).item())
    assert "relative" in repr(BatchNormStatistics(network, relative=True))


def hooks(network):
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in network.modules())


def test_the_network_stays_as_it_was():
    network = two_layers().train().requires_grad_(True)
    before = {n: t.clone() for n, t in network.state_dict().items()}
    prior = BatchNormStatistics(network)
    assert network.training and network[0].weight.requires_grad, "a copy is what is made still"
    assert not prior.network.training and not any(p.requires_grad for p in prior.network.parameters())
    prior(noise(2, 3, 8, 8), {}, leak_of())
    after = network.state_dict()
    assert all(torch.equal(after[n], before[n]) for n in before) and hooks(network) == hooks(prior.network) == 0
    with pytest.raises(RuntimeError):
        prior(noise(2, 3, 9, 9), {}, leak_of())
    assert hooks(prior.network) == 0, "nor after a failure"


def test_efficientnet_lite0_knows_photographs():
    before = torch.get_rng_state()
    network = zoo.efficientnet_lite0()
    assert torch.equal(torch.get_rng_state(), before)
    photos = data.load("imagenet_samples")
    images = torch.cat([photos.one(i, 224)[0] for i in range(4)])
    torch.testing.assert_close(network.normalise(images), (255 * images - 127) / 128)
    with torch.no_grad():
        assert (network(network.normalise(images)).argmax(1) == photos.labels[:4]).sum() >= 3


def test_classification_is_the_cross_entropy_of_the_victim():
    model = two_layers()
    labels = torch.tensor([1, 0])
    images, leak = noise(2, 3, 8, 8), leak_of(labels=labels, batch=2)
    value = Classification().prepare(model, leak)
    logits = model(images)
    expected = sum(torch.logsumexp(row, 0) - row[y] for row, y in zip(logits, labels, strict=True)) / 2
    assert value(images, {}, leak).item() == pytest.approx(expected.item())
    with pytest.raises(ValueError, match=r"leak\.labels=None, and Classification\(\) needs to know what to look for"):
        Classification().prepare(two_layers(), leak_of())


def smooth(size=24, batch=2, seed=0):
    """Smooth images (batch, 3, size, size) that go on at the other side."""
    waves = noise(batch, 3, size, size, seed=seed)
    spectrum = torch.fft.fft2(waves)
    low = torch.fft.fftfreq(size).abs() < 2.5 / size
    return torch.fft.ifft2(spectrum * (low[:, None] & low)).real * 4


def test_registration_by_hand():
    group = torch.tensor([0.0, 6.0, 3.0]).view(3, 1, 1, 1, 1).expand(3, 2, 1, 1, 2)  # mean 3, four numbers each
    assert Registration("none")(group).tolist() == [6, 6, 0]


def test_a_shift_moves_whole_pixels_the_right_way():
    image = smooth(batch=1)
    group = torch.stack([image] * 5 + [image.roll((2, -1), (2, 3))])
    aligned = Registration("shift").aligned(group)
    assert torch.allclose(aligned[:5], group[:5], atol=1e-9), "those that fit stay"
    assert torch.allclose(aligned[5][..., 3:-3, 3:-3], image[..., 3:-3, 3:-3], atol=1e-9)
    # row 0 of the original came from row 2 of the moved one; the last rows repeat the border
    assert torch.allclose(aligned[5][..., -1, 3:-3], group[5][..., -1, 2:-4], atol=1e-9)


def test_slopes_reach_member_and_consensus():
    group = torch.stack([smooth(8, 1), smooth(8, 1).roll((1, 0), (2, 3)), smooth(8, 1, seed=1)]).requires_grad_()
    registration = Registration()
    assert torch.autograd.gradcheck(registration, (group,))


def test_noise_is_not_torn_about():
    """Early in a search there is nothing to align: the members must stay where they are, without a word."""
    group = noise(3, 2, 3, 16, 16)
    assert torch.allclose(Registration("shift").aligned(group), group)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = torch.zeros(2, 1, 3, 8, 8, requires_grad=True)
        (slope,) = torch.autograd.grad(Registration()(flat).sum(), flat)
        assert not slope.any()
        broken = Registration()(noise(2, 1, 3, 8, 8) * math.nan)
        assert broken.isnan().all(), "a search that went wrong ends with its own reason"
