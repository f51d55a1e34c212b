"""What is assumed about images: each prior by hand, its slope, what it cannot see, and what it refuses."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from weights import same

from privlab import models
from privlab.attacks.gradient_inversion import priors
from privlab.data import Normalise
from privlab.leak import Leak

HALF = Normalise((0.5,), (0.25,))


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def leak_of(shape=(3, 8, 8), batch=1, normalise=HALF, labels=None):
    return Leak({}, batch, shape, labels, normalise)


IMAGES = torch.tensor([[[[0.0, 1.0], [3.0, 5.0]]]], dtype=torch.float64)  # across 1, 2; down 3, 4; falling 5; rising 2


def test_values_by_hand():
    assert priors.total_variation(IMAGES).item() == (1 + 2) / 2 + (3 + 4) / 2
    assert priors.total_variation_norm(IMAGES).item() == pytest.approx(math.sqrt(1 + 4) + math.sqrt(9 + 16) + 5 + 2)
    assert priors.pixel_norm(IMAGES).item() == pytest.approx(math.sqrt(0 + 1 + 9 + 25))
    assert priors.squared_variation(IMAGES).item() == pytest.approx((1 + 4) / 2 + (9 + 16) / 2)


def test_joints_by_the_sum_of_the_paper():
    images, expected = noise(2, 3, 12, 8), 0.0
    for turned, side in ((images, 12), (images.mT, 8)):
        for k in range(1, side // 4):
            expected += (turned[:, :, 4 * k] - turned[:, :, 4 * k - 1]).square().sum().sqrt().item()
    assert priors.PatchJoints(4)(images).item() == pytest.approx(expected)


def test_patches_are_read_from_the_model():
    resnet, leak = models.build("resnet_cifar"), leak_of((3, 32, 32))
    assert priors.PatchJoints().prepare(models.build("swin_cifar"), leak) == priors.PatchJoints((4, 4))
    assert priors.PatchJoints(4).prepare(resnet, leak) == priors.PatchJoints(4)
    with pytest.raises(ValueError, match="patch=None: ResNet has no patches"):
        priors.PatchJoints().prepare(resnet, leak)


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


def by_hand(network, x, relative):
    """Equation 4, layer by layer; x as the network takes it. Relative: in units of the running deviation, and variance."""
    total = 0.0
    for layer in network:
        if isinstance(layer, nn.BatchNorm2d):
            entering = x.transpose(0, 1).flatten(1)  # (channels, values)
            variance = (entering - entering.mean(1, keepdim=True)).square().mean(1)
            unit = layer.running_var + layer.eps if relative else torch.ones(len(variance))
            total += ((entering.mean(1) - layer.running_mean).square() / unit).sum().sqrt().item()
            total += ((variance - layer.running_var) / unit).square().sum().sqrt().item()
        x = layer(x)
    return total


@pytest.mark.parametrize("relative", [False, True])
def test_statistics_by_hand(relative):
    network, pixels, small = two_layers(), noise(3, 3, 8, 8).sigmoid(), noise(3, 3, 5, 5).sigmoid()
    prior = priors.BatchNormStatistics(network, relative=relative)
    expected = by_hand(network, network.normalise(pixels), relative)
    assert prior(HALF(pixels), {}, leak_of()).item() == pytest.approx(expected)
    larger, prior = F.interpolate(small, size=(8, 8), mode="bilinear"), priors.BatchNormStatistics(network, 8, relative)
    expected = by_hand(network, network.normalise(larger), relative)
    assert prior(HALF(small), {}, leak_of((3, 5, 5))).item() == pytest.approx(expected)
    assert ("relative" in repr(prior)) == relative


def hooks(network):
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in network.modules())


def test_the_network_stays_as_it_was():
    network = two_layers().train().requires_grad_(True)
    before, prior = copy.deepcopy(network.state_dict()), priors.BatchNormStatistics(network)
    assert network.training and network[0].weight.requires_grad, "a copy is what is made still"
    assert not prior.network.training and not any(p.requires_grad for p in prior.network.parameters())
    prior(noise(2, 3, 8, 8), {}, leak_of())
    assert same(network, before) and hooks(network) == hooks(prior.network) == 0
    with pytest.raises(RuntimeError):
        prior(noise(2, 3, 9, 9), {}, leak_of())
    assert hooks(prior.network) == 0, "nor after a failure"


def test_classification_is_the_cross_entropy_of_the_victim():
    model, labels, images = two_layers(), torch.tensor([1, 0]), noise(2, 3, 8, 8)
    value = priors.Classification().prepare(model, leak_of(labels=labels, batch=2))
    expected = sum(row.logsumexp(0) - row[y] for row, y in zip(model(images), labels, strict=True)) / 2
    assert value(images).item() == pytest.approx(expected.item())
    with pytest.raises(ValueError, match=r"leak\.labels=None, and Classification\(\) needs to know what to look for"):
        priors.Classification().prepare(model, leak_of())


def smooth(size=24, batch=1, seed=0):
    """Smooth images (batch, 3, size, size) that go on at the other side."""
    spectrum = torch.fft.fft2(noise(batch, 3, size, size, seed=seed))
    low = torch.fft.fftfreq(size).abs() < 2.5 / size
    return torch.fft.ifft2(spectrum * (low[:, None] & low)).real * 4


def test_registration_by_hand():
    group = torch.tensor([0.0, 6.0, 3.0]).view(3, 1, 1, 1, 1).expand(3, 2, 1, 1, 2)  # mean 3, four numbers each
    assert priors.Registration("none")(group).tolist() == [6, 6, 0]


def test_a_shift_moves_whole_pixels_the_right_way():
    image = smooth()
    group = torch.stack([image] * 5 + [image.roll((2, -1), (2, 3))])
    aligned = priors.Registration("shift").aligned(group)
    assert torch.allclose(aligned[:5], group[:5], atol=1e-9), "those that fit stay"
    assert torch.allclose(aligned[5][..., 3:-3, 3:-3], image[..., 3:-3, 3:-3], atol=1e-9)
    # row 0 of the original came from row 2 of the moved one; the last rows repeat the border
    assert torch.allclose(aligned[5][..., -1, 3:-3], group[5][..., -1, 2:-4], atol=1e-9)


def test_slopes_reach_member_and_consensus():
    group = torch.stack([smooth(6), smooth(6).roll((1, 0), (2, 3)), smooth(6, seed=1)]).requires_grad_()
    assert torch.autograd.gradcheck(priors.Registration(), (group,))


def test_noise_is_not_torn_about():
    """Early in a search there is nothing to align: the members must stay where they are."""
    group = noise(3, 2, 3, 16, 16)
    assert torch.allclose(priors.Registration("shift").aligned(group), group)
    flat = torch.zeros(2, 1, 3, 8, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(priors.Registration()(flat).sum(), flat)
    assert not slope.any()
    wrong = noise(2, 1, 3, 8, 8) * math.nan  # a search that went wrong ends by itself
    assert priors.Registration()(wrong).isnan().all()
