"""BiDO and MID: dependence of two and three points by hand, laws of independence, the loss of a step, and what changes in a training."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_training import LABELS, PIXELS, build, fit
from torch import nn
from torch.distributions import Normal, kl_divergence

from privlab.defences.regularisers import MID, BiDO, hsic
from privlab.models import forward, representations
from privlab.training import Recipe, trainer

STILL = Recipe(epochs=1, batch_size=20, optimiser="sgd", lr=1e-300, weight_decay=0)  # one batch, and no step


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kernel(x, sigma):
    """exp(-|x_i - x_j|^2 / (2 sigma^2 d)) entry by entry, or of labels whether they are the same; centred by H K H."""
    m = len(x)
    if x.is_floating_point():
        rows = x.detach().flatten(1).numpy()
        k = [[math.exp(-((a - b) ** 2).sum() / (2 * sigma**2 * rows.shape[1])) for a in rows] for b in rows]
    else:
        k = [[float(a == b) for a in x] for b in x]
    h = np.eye(m) - 1 / m
    return h @ np.array(k) @ h


def by_hand(x, y, sigma):
    m = len(x)
    shares = [k @ np.linalg.inv(k + 1e-5 * m * np.eye(m)) for k in (kernel(x, sigma), kernel(y, sigma))]
    return np.trace(shares[0] @ shares[1])


@pytest.mark.parametrize("labels", [True, False])
def test_more_points_by_explicit_kernel_matrices(labels):
    x = drawn(9, 2, 3)
    y = torch.arange(9) % 2 if labels else drawn(9, 4, seed=1)
    for sigma in (0.5, 5.0):
        assert hsic(x, y, sigma).item() == pytest.approx(by_hand(x, y, sigma), rel=1e-7)


@pytest.mark.parametrize(("a1", "a2"), [(0.3, 0.7), (0.3, 0.0)])
def test_the_loss_of_bido_by_hand(a1, a2):
    """Cross-entropy + a1 d(X, Z) - a2 d(Z, Y) over the five stages of a ResNet, passed through one after the other."""
    model = build().double()
    objective = fit(copy.deepcopy(model), BiDO(a1, a2, sigma=2.0), recipe=STILL)
    model.train()
    z = x = forward.preprocessing(model)(PIXELS.double() / 255)
    expected = 0.0
    stem, first = nn.Sequential(model.conv1, model.bn1, model.act1), nn.Sequential(model.maxpool, model.layer1)
    for step in (stem, first, model.layer2, model.layer3, model.layer4):
        z = step(z)
        expected += a1 * by_hand(x, z, 2.0) - a2 * by_hand(z, LABELS, 2.0)
    expected += F.cross_entropy(model.fc(model.global_pool(z)), LABELS).item()
    assert objective == [pytest.approx(expected, rel=1e-6)]


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "vit_cifar"])
@pytest.mark.parametrize("defence", [BiDO(0.5, 0.5), MID(0.1, 4)], ids=["bido", "mid"])
def test_a_regulariser_changes_training_in_every_family(name, defence):
    plain, defended = build(name), build(name)
    with torch.random.fork_rng():
        defence.shape(plain, 0)  # MID's form alone, without its penalty
        if defence.shape(defended, 0):
            defended.load_state_dict(plain.state_dict())
            assert defended.get_submodule(representations.last_linear(defended)).in_features == 4
    assert not defence.shape(defended, 1)
    one, other = fit(plain), fit(defended, defence)
    assert one[0] != other[0] and all(map(math.isfinite, other))
    assert not torch.equal(next(plain.parameters()), next(defended.parameters()))  # the slope reaches the stem


def test_the_loss_of_mid_by_hand():
    """Cross-entropy of the head on a drawn z, and weight times the mean divergence; the noise is the only draw of the pass."""
    model = build().double()
    MID(0.25, 4).shape(model, 0)
    objective = fit(copy.deepcopy(model), MID(0.25, 4), recipe=STILL)
    channel, head = model.fc
    model.train()
    with trainer._own_generators(torch.device("cpu")):
        generator = trainer._seed(torch.device("cpu"), 0, 0)
        rows = trainer.batches.order(20, STILL, generator)[0]
        x = forward.preprocessing(model)(PIXELS[rows].double() / 255)
        code = channel.code(model.global_pool(model.forward_features(x)))
        mu, sigma = code[:, :4], F.softplus(code[:, 4:] - 5)
        z = mu + sigma * torch.randn(20, 4, dtype=torch.float64)
    expected = F.cross_entropy(head(z), LABELS[rows])
    expected = expected + 0.25 * kl_divergence(Normal(mu, sigma), Normal(0.0, 1.0)).sum(1).mean()
    assert objective == [pytest.approx(expected.item(), rel=1e-9)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit(nn.Sequential(nn.Flatten(), nn.Linear(3072, 3)), BiDO(1, 1)), "does not say where its stages end"),
        (lambda: fit(nn.Sequential(nn.Conv2d(3, 3, 32), nn.Flatten()), MID(1, 4)), "has no Linear layer"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
