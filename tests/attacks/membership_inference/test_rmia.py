"""RMIA against its definition, pair by pair; its ties; confidences at both ends of float64; and what it scores on noise."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from privlab import data
from privlab.attacks.membership_inference import rmia


def confidences(keep, m=50, gain=1.0, seed=0):
    """Audited ones, (models, n), members `gain` higher in log-odds; and the population's, (models, m). Each sample has its own level."""
    g = torch.Generator().manual_seed(seed)
    models, n = keep.shape
    level = 2 * torch.randn(n + m, generator=g, dtype=torch.float64)
    noise = torch.randn(models, n + m, generator=g, dtype=torch.float64)
    p = (level + noise + gain * torch.cat([keep, torch.zeros(models, m).bool()], 1)).sigmoid()
    return p[:, :n], p[:, n:]


def definition(x, keep, z, t, online, gamma, a, pairs):
    """One attack by the text: sample by sample, z by z."""
    others = [m for m in range(len(x)) if m != t and not (pairs and m == t ^ 1)]

    def offline_mean(scores):
        return ((1 + a) * np.mean(scores) + (1 - a)) / 2

    ratios_z = [z[t, j] / offline_mean(z[others, j]) for j in range(z.shape[1])]
    found = []
    for i in range(x.shape[1]):
        inside = [x[m, i] for m in others if keep[m, i]]
        outside = [x[m, i] for m in others if not keep[m, i]]
        p = (np.mean(inside) + np.mean(outside)) / 2 if online else offline_mean(outside)
        found.append(np.mean([x[t, i] / p / r >= gamma for r in ratios_z]))
    return found


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("models, pairs", [(4, False), (4, True), (8, False), (8, True)])
@pytest.mark.parametrize("gamma, a", [(2.0, 1 / 3), (1.0, 0.0), (1.3, 1.0)])
def test_every_target_is_the_definition_target_by_target(online, models, pairs, gamma, a):
    keep = data.in_out(15, models, 0, pairs)
    x, z = confidences(keep)
    options = dict(online=online, gamma=gamma, a=a, pairs=pairs)
    found = rmia.every_target(x, keep, z, **options)
    assert found.shape == (models, 15) and found.dtype == torch.float64
    expected = [definition(x.numpy(), keep.numpy(), z.numpy(), t, **options) for t in range(models)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert 0 < found.mean() < 1  # it is not all one


def test_samples_need_not_be_in_half_of_the_models():
    keep = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 0, 1]]).bool()
    x, z = confidences(keep)
    for online in (True, False):
        options = dict(online=online, gamma=1.0, a=0.5, pairs=False)
        expected = [definition(x.numpy(), keep.numpy(), z.numpy(), t, **options) for t in range(5)]
        np.testing.assert_allclose(rmia.every_target(x, keep, z, **options), expected, atol=1e-12)


def test_ratio_by_hand():
    target, inside, outside = (torch.tensor([p]) for p in (0.75, 0.9, 0.3))
    assert rmia.ratio(target, inside, outside).item() == pytest.approx(0.75 / 0.6)
    assert rmia.ratio(target, None, outside, a=0.0).item() == pytest.approx(0.75 / 0.65)  # in-shadows: sure
    assert rmia.ratio(target, None, outside, a=1.0).item() == pytest.approx(0.75 / 0.3)  # in-shadows: as out-shadows
    assert rmia.ratio(target, None, outside).item() == pytest.approx(0.75 / (0.3 * 2 / 3 + 1 / 3))
    guess = 0.2 * 0.3 + 0.8  # the mean that a=.2 supposes of in-shadows: then online and offline are one
    assert rmia.ratio(target, torch.tensor([guess]), outside) == pytest.approx(rmia.ratio(target, None, outside, 0.2))


def test_score_by_hand():
    """Of z = 1, 2, 3, 4 a ratio of 6 dominates 1, 2 and 3 by a factor of 2 or more; 3 counts, for the paper has >=."""
    z = torch.tensor([3.0, 1.0, 4.0, 2.0])
    assert rmia.score(torch.tensor([6.0, 5.999, 8.0, 2.0, 1.0, 0.0]), z).tolist() == [0.75, 0.5, 1, 0.25, 0, 0]
    assert rmia.score(torch.tensor([3.0, 2.5]), z, gamma=1.0).tolist() == [0.75, 0.5]
    assert rmia.score(torch.tensor([0.5]), z, gamma=0.25).tolist() == [0.5]


@given(st.integers(0, 10**6), st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from([True, False]))
def test_score_is_the_pairwise_definition_to_the_last_tie(seed, gamma, whole):
    """Whole numbers, so that many pairs sit on the threshold; and any numbers, over 60 orders of magnitude."""
    g = torch.Generator().manual_seed(seed)
    if whole:
        x, z = torch.randint(1, 13, (40,), generator=g).double(), torch.randint(1, 13, (30,), generator=g).double()
    else:
        x, z = (torch.randn(k, generator=g, dtype=torch.float64) * 35 for k in (40, 30))
        x, z = x.exp(), z.exp()
    pairwise = (x[:, None] / z >= gamma).double().mean(1)
    assert torch.equal(rmia.score(x, z, gamma), pairwise)
    order = torch.randperm(40, generator=g)
    assert torch.equal(rmia.score(x[order], z.flip(0), gamma), pairwise[order])
    assert torch.equal(rmia.score(8 * x, 8 * z, gamma), pairwise)
    assert (rmia.score(x, z, 2 * gamma) <= pairwise).all()


def test_both_ends_of_float64():
    """1 - 1e-17 (which float64 holds as 1) beside 1e-40 and 1e-300: sums of the others keep the small ones to the last digit."""
    keep = torch.tensor([[1, 0]] * 2 + [[0, 1]] * 2).bool()
    x = torch.tensor([[1 - 1e-17, 1e-40], [1e-300, 3e-40], [2e-300, 1 - 1e-17], [1.0, 1e-40]], dtype=torch.float64)
    z = torch.tensor([[0.5, 1e-40, 1e-20]] * 4, dtype=torch.float64)
    for online, pairs in itertools.product([True, False], [True, False]):
        k = keep[[0, 2, 1, 3]] if pairs else keep  # rows 0 and 1, and 2 and 3, become complements
        options = dict(online=online, gamma=2.0, a=1.0, pairs=pairs)
        expected = [definition(x.numpy(), k.numpy(), z.numpy(), t, **options) for t in range(4)]
        np.testing.assert_allclose(rmia.every_target(x, k, z, **options), expected, atol=1e-12)


@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_the_order_of_samples_and_models_does_not_matter(seed, online, pairs):
    g = torch.Generator().manual_seed(seed)
    keep = data.in_out(8, 6, seed, pairs)
    x, z = confidences(keep, seed=seed)
    samples, models = torch.randperm(8, generator=g), torch.randperm(6, generator=g)
    if pairs:
        first = 2 * torch.randperm(3, generator=g) + torch.randint(2, (3,), generator=g)
        models = torch.stack([first, first ^ 1], 1).flatten()
    options = dict(online=online, pairs=pairs, gamma=1.5)
    scores = rmia.every_target(x, keep, z, **options)
    moved = rmia.every_target(x[models][:, samples], keep[models][:, samples], z[models].flip(1), **options)
    torch.testing.assert_close(moved, scores[models][:, samples], rtol=0, atol=1e-12)


def auc(scores, keep):
    return roc_auc_score(keep.numpy().ravel(), scores.numpy().ravel())


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("models", [4, 16])
def test_higher_means_member(online, models):
    """Members are 2 higher in log-odds, among levels that vary by 2: confidence alone ranks them badly."""
    keep = data.in_out(3000, models, 0, pairs=True)
    x, z = confidences(keep, m=2000, gain=2.0)
    scores = rmia.every_target(x, keep, z, online=online, gamma=1.0, pairs=True)
    assert auc(scores, keep) > auc(x, keep) + 0.02 > 0.7


@pytest.mark.parametrize("online, pairs", [(True, True), (False, True), (True, False), (False, False)])
def test_on_noise(online, pairs):
    """The trap of lira: an offline p(x) is the mean of one shadow more for a member. Standard errors .002 and .0006; 4 of each."""
    found = []
    for seed in (0, 1):
        keep = data.in_out(10_000, 8, seed, pairs)
        g = torch.Generator().manual_seed(100 + seed)
        x, z = ((2 * torch.randn(8, k, generator=g, dtype=torch.float64) + 2).sigmoid() for k in (10_000, 3000))
        scores = rmia.every_target(x, keep, z, online=online, pairs=pairs)
        threshold = np.quantile(scores[~keep], 0.99)
        found.append((auc(scores, keep), (scores[keep] > threshold).double().mean().item()))
    found, tpr = np.mean(found, 0)
    assert found == pytest.approx(0.5, abs=0.008)
    assert tpr == pytest.approx(0.0042 if not online and not pairs else 0.01, abs=0.0024)


# -- errors ---------------------------------------------------------------------------------------------------------------


def bad(**changes):
    keep = data.in_out(5, 6, 0)
    x, z = confidences(keep, m=7)
    return dict(confidence=x, keep=keep, population=z) | changes


def hole(value):
    x = bad()["confidence"].clone()
    x[1, 2] = value
    return x


OUTSIDE = (
    r"of 30 values, of torch.float64, are not in \(0, 1\]; give probabilities of the true class, as signals.confidence"
)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (bad(confidence=hole(0.0)), "confidence: 1 " + OUTSIDE),
        (bad(confidence=hole(1.01)), "confidence: 1 " + OUTSIDE),
        (bad(confidence=hole(torch.nan)), "confidence: 1 " + OUTSIDE),
        (bad(population=-bad()["population"]), "population: 42 of 42 values"),
        (bad(confidence=torch.ones(6, 5).long()), "confidence: 0 of 30 values, of torch.int64, are not"),
        (bad(confidence=torch.ones(6)), r"confidence: got shape \(6,\); give \(models, samples\)"),
        (bad(population=torch.ones(6, 0)), r"population: got shape \(6, 0\); give \(models, samples\)"),
        (bad(population=torch.ones(5, 7)), r"population: got shape \(5, 7\); give .* as many models in confidence as in population"),
        (bad(keep=torch.zeros(5, 6).bool()), r"keep: got shape \(5, 6\) of torch.bool; give bools of shape \(6, 5\), a row for each model"),
        (bad(keep=torch.zeros(6, 5)), r"keep: got shape \(6, 5\) of torch.float32"),
        (bad(keep=torch.zeros(6, 5).bool()), "sample 0 is in for 0 of 6 models, one of which can be the target, and an online attack"),
        (bad(keep=torch.ones(6, 5).bool(), online=False), "sample 0 is out for 0 of 6 models, .* and an offline attack needs 2; 5 of 5"),
        (dict(confidence=torch.ones(1, 5), keep=torch.ones(1, 5).bool(), population=torch.ones(1, 7)), "keep: 1 model has no shadows"),
        (bad(pairs=True), "pairs=True, but rows 2k and 2k . 1 of keep agree on some sample; draw complementary halves"),
        (bad(gamma=0.0), "gamma=0.0 is no threshold for a ratio; give a number above 0, 2 in the paper"),
        (bad(gamma=torch.inf), "gamma=inf is no threshold"),
        (bad(a=1.5), r"a=1.5 is not in \[0, 1\]"),
    ],
)  # fmt: skip
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        rmia.every_target(**arguments)


@pytest.mark.parametrize("name", ["target", "mean_in", "mean_out"])
def test_errors_of_ratio(name):
    arguments = dict(target=torch.ones(2), mean_in=torch.ones(2), mean_out=torch.ones(2)) | {
        name: torch.tensor([0.5, 0.0])
    }
    with pytest.raises(ValueError, match=rf"{name}: 1 of 2 values, of torch.float32, are not in \(0, 1\]"):
        rmia.ratio(**arguments)
