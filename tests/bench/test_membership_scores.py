"""Likelihood-ratio and relative attacks with every model as the target: seconds beside plain NumPy and SciPy, target by target.

That the two compute the same, to 1e-10, is asserted. Seconds are not; a ratio is of one round, in which both took turns.
"""

import resource
from statistics import median

import numpy as np
import psutil
import pytest
import torch
from measured_on import timed
from scipy.special import log_ndtr
from scipy.stats import norm

from privlab.attacks.membership_inference import lira, rmia

MODELS, SAMPLES, QUERIES, POPULATION = 64, 50_000, 2, 10_000
ROUNDS = 5  # in each of them, ours for all targets and the peer for one


def paper_fit(scores, side, variance):
    """Mean and std over the models of a side, (n, queries); scores (models, n, queries), side (models, n)."""
    inside = side[..., None]
    size = inside.sum(0)
    mean = np.sum(scores, 0, where=inside) / size
    if variance == "fixed":
        return mean, np.std(scores, where=np.broadcast_to(inside, scores.shape), ddof=1)
    squares = np.sum((scores - mean) ** 2, 0, where=inside)
    if variance == "per-example":
        return mean, np.sqrt(squares / (size - 1))
    return mean, np.sqrt(squares.sum() / ((size - 1).sum() * scores.shape[2]))


def one_target(phi, keep, t, online, variance, pairs):
    """What a reader would write first."""
    others = np.delete(np.arange(len(phi)), [t, t ^ 1] if pairs else t)
    scores, member = phi[others], keep[others]
    mean_out, std_out = paper_fit(scores, ~member, variance)
    if online:
        mean_in, std_in = paper_fit(scores, member, variance)
        evidence = norm.logpdf(phi[t], mean_in, std_in) - norm.logpdf(phi[t], mean_out, std_out)
    else:
        evidence = -log_ndtr((mean_out - phi[t]) / std_out)
    return evidence.mean(1)


@pytest.fixture(scope="module")
def data():
    """Margins, (models, n, queries), of samples with levels and widths of their own; half of the models on each, in pairs."""
    g = np.random.default_rng(0)
    first = g.random((MODELS // 2, SAMPLES)) < 0.5
    keep = np.stack([first, ~first], 1).reshape(MODELS, SAMPLES)
    level, width = 3 * g.standard_normal((SAMPLES, 1)) + 4, np.exp(0.3 * g.standard_normal((SAMPLES, 1)))
    phi = level + width * (g.standard_normal((MODELS, SAMPLES, QUERIES)) + keep[..., None])
    return phi, keep


def test_memory(data, table):
    """At most: from what the process holds before the call to the most that it ever held."""
    phi, keep = map(torch.from_numpy, data)
    before = psutil.Process().memory_info().rss
    lira.every_target(phi, keep, pairs=True)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 2**30
    note = f"margins {phi.numel() * 8 / 2**30:.2f} GiB"
    table.row("memory beside the arguments, pairs", [peak], "GiB", "< 1 GiB", peak < 1, note)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("variance", lira.VARIANCES)
@pytest.mark.parametrize("online", [True, False])
def test_lira_every_target(data, online, variance, pairs, table):
    phi, keep = map(torch.from_numpy, data)
    options = dict(online=online, variance=variance, pairs=pairs)
    seconds, theirs, apart = [], [], 0.0
    for turn in range(-1, ROUNDS):  # the first one warms up
        found, s = timed(lira.every_target, phi, keep, **options)
        t = 7 * turn % MODELS
        expected, one = timed(one_target, *data, t, **options)
        apart = max(apart, (np.abs(found[t].numpy() - expected) / np.maximum(1, np.abs(expected))).max())
        if turn >= 0:
            seconds.append(s)
            theirs.append(MODELS * one)
    assert apart < 1e-10
    what = f"{'online' if online else 'offline'}, {variance}{', pairs' if pairs else ''}"
    size = f"{MODELS} x {SAMPLES:,} x {QUERIES}"
    table.row(f"lira.every_target, {what}", seconds, "s", "< 5 s", median(seconds) < 5, size)
    ratios = [b / a for a, b in zip(seconds, theirs, strict=True)]
    note = f"NumPy and SciPy: {median(theirs):.1f} s, one target a round, times {MODELS}; scores {apart:.0e} apart"
    if not online:
        note += "; the tail of a Gaussian, the same function for both, is a third of our time"
    table.row(f"times as fast as target by target, {what}", ratios, "×", "at least 5", median(ratios) >= 5, note)


def test_rmia_every_target(data, table):
    phi, keep = map(torch.from_numpy, data)
    population = torch.from_numpy(np.random.default_rng(1).standard_normal((MODELS, POPULATION)) * 3 + 4).sigmoid()
    confidence = phi[..., 0].sigmoid()
    rmia.every_target(confidence, keep, population, pairs=True)
    seconds = [timed(rmia.every_target, confidence, keep, population, pairs=True)[1] for _ in range(ROUNDS)]
    size = f"{MODELS} x {SAMPLES:,}, population {POPULATION:,}"
    table.row("rmia.every_target, online, pairs", seconds, "s", note=size)
