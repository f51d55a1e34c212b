"""LiRA against its definition, sample by sample in NumPy and SciPy; its laws; and what it scores on noise, where it must score nothing."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from privlab import data
from privlab.attacks.membership_inference import lira

MODES = [dict(online=online, variance=variance) for online in (True, False) for variance in lira.VARIANCES]
every_mode = pytest.mark.parametrize("mode", MODES, ids=str)


def margins(keep, queries=2):
    """Gaussian scores, (models, n, queries): each sample with a level and a width of its own, members one width higher."""
    g = torch.Generator().manual_seed(0)
    level, width = (torch.randn(keep.shape[1], 1, generator=g, dtype=torch.float64) for _ in range(2))
    noise = torch.randn(*keep.shape, queries, generator=g, dtype=torch.float64)
    return 3 * level + (0.3 * width).exp() * (noise + keep[..., None])


def definition(target, shadows, keep, online, variance):
    """One attack, sample by sample and query by query; arrays (n, queries), (models, n, queries), (models, n)."""
    places = [*np.ndindex(target.shape)]

    def fits(side):
        """A normal distribution for each sample and query."""
        scores = {(i, q): shadows[keep[:, i] == side, i, q] for i, q in places}
        if variance == "fixed":
            std = np.concatenate(list(scores.values())).std(ddof=1)
        elif variance == "pooled":
            std = np.sqrt(sum(s.var() * len(s) for s in scores.values()) / sum(len(s) - 1 for s in scores.values()))
        return {iq: norm(s.mean(), s.std(ddof=1) if variance == "per-example" else std) for iq, s in scores.items()}

    outside, inside, found = fits(False), fits(True) if online else {}, np.empty(target.shape)
    for iq in places:
        against = outside[iq]
        found[iq] = inside[iq].logpdf(target[iq]) - against.logpdf(target[iq]) if online else -against.logsf(target[iq])
    return found.mean(1)


def by_definition(phi, keep, mode, pairs=False):
    phi, keep = phi.numpy(), keep.numpy()
    rows = np.arange(len(phi))
    others = [(rows != t) & ((rows != t ^ 1) if pairs else True) for t in rows]
    return np.stack([definition(phi[t], phi[o], keep[o], **mode) for t, o in enumerate(others)])


def close(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


@every_mode
@pytest.mark.parametrize("models, pairs", [(6, False), (8, True)])
def test_every_target_is_the_definition_target_by_target(mode, models, pairs):
    keep = data.in_out(6, models, 0, pairs)
    phi = margins(keep)
    found = lira.every_target(phi, keep, **mode, pairs=pairs)
    assert found.shape == (models, 6) and found.dtype == torch.float64
    close(found, by_definition(phi, keep, mode, pairs))


@pytest.mark.parametrize("variance", lira.VARIANCES)
def test_an_offline_attack_needs_no_shadow_that_knows_the_sample(variance):
    """Not one is trained on any: the usual case."""
    never, mode = torch.zeros(5, 6, dtype=torch.bool), dict(online=False, variance=variance)
    phi = margins(never)
    close(lira.every_target(phi, never, **mode), by_definition(phi, never, mode))


@every_mode
def test_a_model_that_diverged_does_not_blur_the_others(mode):
    """One model's scores are 1e9 times as large. Once it is the target, nothing of it is left in the sums of its shadows."""
    keep = data.in_out(10, 8, 0)
    phi = margins(keep)
    phi[3] *= 1e9
    close(lira.every_target(phi, keep, **mode)[3], by_definition(phi, keep, mode)[3], 1e-5)  # squares of 1e18


@every_mode
def test_the_floor(mode):
    """Where shadows agree to the last digit, a std is 2^-24 of what they say, or of 1 if that is more; scores are large, but finite."""
    keep = data.in_out(6, 8, 0)
    phi = margins(keep, queries=1)
    phi[:, 2], phi[:, 3] = 0.1, -30.0
    fit = lira.gaussians(phi, keep, "per-example")
    for std in (fit.std_in, fit.std_out):
        assert std[2] == 2.0**-24 and std[3] == 30 * 2.0**-24 and (std[[0, 1, 4, 5]] > 1e-3).all()
    phi[0, 2:4] += 1
    assert lira.every_target(phi, keep, **mode).isfinite().all()
    assert lira.every_target(torch.zeros(8, 6, 1), keep, **mode).isfinite().all()


def test_the_tail_does_not_saturate():
    """-log P[Z > phi] at 10, 30, 100 and 1000 stds: 1 - cdf is 0 from 9 on."""
    phi = margins(torch.zeros(5, 4).bool(), queries=1)
    fit = lira.gaussians(phi, torch.zeros(5, 4).bool())
    z = torch.tensor([10.0, 30, 100, 1000]).double()[:, None]
    close(lira.statistic(fit.mean_out + z * fit.std_out, fit, online=False), -norm.logsf(z.numpy()), 1e-9)


@every_mode
@pytest.mark.parametrize("pairs", [True, False])
def test_on_noise(mode, pairs):
    """Pairs score nothing; without them the number of shadows on a side shows. Standard errors .001 and .0004; 4 of each."""
    found = []
    for seed in range(2):
        keep = data.in_out(20_000, 8, seed, pairs)
        phi = torch.randn(8, 20_000, 1, generator=torch.Generator().manual_seed(100 + seed), dtype=torch.float64)
        scores = lira.every_target(phi, keep, **mode, pairs=pairs)
        threshold = np.quantile(scores[~keep], 0.99)
        found.append((roc_auc_score(keep.ravel(), scores.ravel()), (scores[keep] > threshold).double().mean().item()))
    area, tpr = np.mean(found, 0)
    alone = mode["variance"] == "per-example"
    if pairs:
        assert area == pytest.approx(0.5, abs=0.004) and tpr == pytest.approx(0.01, abs=0.0016)
    elif mode["online"]:
        assert area == pytest.approx(0.445 if alone else 0.475, abs=0.006)
    else:  # the AUC does not tell
        assert area == pytest.approx(0.5, abs=0.004) and tpr == pytest.approx(0.0027 if alone else 0.0079, abs=0.0015)


def test_margins_on_a_card_are_held_against_a_keep_matrix_on_the_cpu():
    """The device "meta" stands for a card."""
    keep = data.in_out(5, 8, 0)
    fit = lira._fit(margins(keep).to("meta"), keep, lira.shadows_of_each(keep, 2, True, False), "fixed")
    assert fit.std_out.shape == (8, 5, 2) and fit.std_out.device.type == "meta"


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(phi=torch.zeros(6, 5)), r"phi: got shape \(6, 5\); give finite \(models, n, queries\)"),
        (dict(pairs=True), "keep: pairs=True, but rows 2k and 2k . 1 are no complementary halves"),
        (dict(keep=torch.ones(6, 5).bool(), online=False), "keep: some sample is on one side of fewer than 2 models"),
        (dict(phi=torch.zeros(4, 5, 1), keep=data.in_out(5, 4, 0), variance="per-example"), "fewer than 3 models"),
    ],
)
def test_errors(changes, message):
    with pytest.raises(ValueError, match=message):
        lira.every_target(**(dict(phi=torch.zeros(6, 5, 1), keep=data.in_out(5, 6, 0)) | changes))
