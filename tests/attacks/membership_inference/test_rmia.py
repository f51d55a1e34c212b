"""RMIA against its definition, pair by pair; its ties; and confidences at both ends of float64."""

import numpy as np
import pytest
import torch

from privlab import data
from privlab.attacks.membership_inference import rmia


def confidences(keep, m=50):
    """Audited ones, (models, n), members 1 higher in log-odds; and the population's, (models, m). Each sample has its own level."""
    g = torch.Generator().manual_seed(0)
    models, n = keep.shape
    level = 2 * torch.randn(n + m, generator=g, dtype=torch.float64)
    noise = torch.randn(models, n + m, generator=g, dtype=torch.float64)
    p = (level + noise + torch.cat([keep, torch.zeros(models, m).bool()], 1)).sigmoid()
    return p[:, :n], p[:, n:]


def definition(x, keep, z, t, pairs):
    """One attack by the text: sample by sample, z by z."""
    others = [m for m in range(len(x)) if m != t and not (pairs and m == t ^ 1)]
    ratios_z = [z[t, j] / ((4 / 3 * np.mean(z[others, j]) + 2 / 3) / 2) for j in range(z.shape[1])]
    found = []
    for i in range(x.shape[1]):
        inside = [x[m, i] for m in others if keep[m, i]]
        outside = [x[m, i] for m in others if not keep[m, i]]
        p = (np.mean(inside) + np.mean(outside)) / 2
        found.append(np.mean([x[t, i] / p / r >= 2 for r in ratios_z]))
    return found


@pytest.mark.parametrize("models, pairs", [(6, False), (4, True), (8, True)])
def test_every_target_is_the_definition_target_by_target(models, pairs):
    keep = data.in_out(15, models, 0, pairs)
    x, z = confidences(keep)
    found = rmia.every_target(x, keep, z, pairs=pairs)
    assert found.shape == (models, 15) and found.dtype == torch.float64
    expected = [definition(x.numpy(), keep.numpy(), z.numpy(), t, pairs) for t in range(models)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert 0 < found.mean() < 1  # it is not all one


def test_by_hand_with_ties():
    """Two pairs, the others' confidences such that every p is 1/2: then ratio(x) = 2 p(x | victim) may be twice ratio(z), or just not."""
    keep = torch.tensor([[1], [0], [1], [0]]).bool()
    x = torch.tensor([[0.5], [0.25], [0.5], [0.5]], dtype=torch.float64)
    z = torch.tensor([[0.25, 0.249, 0.251, 0.125], *[[0.25] * 4] * 3], dtype=torch.float64)
    # of the first target: p(x) = 1/2, ratio 1; p(z) = (4/3 / 4 + 2/3) / 2 = 1/2, ratios .5, .498, .502 and .25
    assert rmia.every_target(x, keep, z, pairs=True)[0].item() == 0.75


def test_both_ends_of_float64():
    """1 - 1e-17 (which float64 holds as 1) beside 1e-40 and 1e-300: sums of the others keep the small ones to the last digit."""
    keep = torch.tensor([[1, 0], [0, 1]] * 2).bool()
    x = torch.tensor([[1 - 1e-17, 1e-40], [2e-300, 1 - 1e-17], [1e-300, 3e-40], [1.0, 1e-40]], dtype=torch.float64)
    z = torch.tensor([[0.5, 1e-40, 1e-20]] * 4, dtype=torch.float64)
    expected = [definition(x.numpy(), keep.numpy(), z.numpy(), t, True) for t in range(4)]
    np.testing.assert_allclose(rmia.every_target(x, keep, z, pairs=True), expected, atol=1e-12)


def test_errors():
    keep = data.in_out(5, 6, 0)
    x, z = confidences(keep, m=7)
    with pytest.raises(ValueError, match=r"confidence, population: give probabilities in \(0, 1\]"):
        rmia.every_target(x.where(x > 0.5, 0), keep, z)
