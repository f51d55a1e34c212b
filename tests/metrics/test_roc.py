"""Membership scores against members: definitions, symmetries, ties, and how often the interval is right."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from privlab.metrics import roc


@st.composite
def scored(draw, most=30):
    """Scores with many ties, and members of both classes."""
    n = draw(st.integers(2, most))
    scores = draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n))
    members = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda m: 0 < sum(m) < len(m)))
    return np.array(scores, float), np.array(members)


def drawn(members, non_members, seed=0, shift=1.0):
    """Members from N(shift, 1), non-members from N(0, 1), shuffled."""
    generator = np.random.default_rng(seed)
    truth = generator.permutation(np.arange(members + non_members) < members)
    return generator.normal(size=len(truth)) + shift * truth, truth


SCORES = np.array([0.9, 0.8, 0.8, 0.5, 0.3, 0.1])
MEMBERS = np.array([True, True, False, True, False, False])


def test_a_curve_by_hand():
    found = roc.curve(SCORES, MEMBERS)
    assert found.thresholds.tolist() == [math.inf, 0.9, 0.8, 0.5, 0.3, 0.1]
    assert found.tpr.tolist() == [0, 1 / 3, 2 / 3, 1, 1, 1]
    assert found.fpr.tolist() == [0, 0, 1 / 3, 1 / 3, 2 / 3, 1]
    assert roc.auc(SCORES, MEMBERS) == pytest.approx((3 + 2.5 + 2) / 9)  # non-members below each member; a tie is half
    assert found.at([0.0, 0.3, 1 / 3, 0.5, 1.0]).tolist() == [2 / 3 - 1 / 3, 1 / 3, 1, 1, 1]


@settings(max_examples=50)
@given(scored())
def test_a_curve_counts_and_its_area_is_what_ranks_say(case):
    scores, members = case
    found = roc.curve(scores, members)
    for fpr, tpr, threshold in zip(found.fpr, found.tpr, found.thresholds, strict=True):
        assert tpr == (scores[members] >= threshold).mean() and fpr == (scores[~members] >= threshold).mean()
    above = scores[members][:, None] - scores[~members]
    assert roc.auc(scores, members) == pytest.approx(((above > 0) + (above == 0) / 2).mean(), abs=1e-12)


def test_arrays_tensors_lists_and_whole_numbers_are_one():
    scores, members = drawn(400, 600)
    scores = scores.astype(np.float32)
    tensors = torch.tensor(scores, requires_grad=True), torch.tensor(members)
    forms = [(scores, members), tensors, (scores.tolist(), members.astype(int).tolist())]
    for call in (roc.auc, roc.best_threshold, lambda s, m: roc.tpr_at(s, m, 0.01)):
        assert len({call(*form) for form in forms}) == 1


def test_accuracy_and_the_best_threshold_by_hand():
    assert roc.accuracy(SCORES, MEMBERS, 0.5) == pytest.approx((3 / 3 + 2 / 3) / 2)  # at the score itself: called
    assert roc.accuracy([1.0] * 9 + [0.0], [True] * 9 + [False], -1) == 0.5  # 9 of 10 right, and yet a coin: balanced
    assert roc.best_threshold(SCORES, MEMBERS) == pytest.approx((0.5 + 0.3) / 2)
    # Cuts at 3.5 and 1.5 are both .75: the highest is taken.
    assert roc.best_threshold([4.0, 3.0, 2.0, 1.0], [True, False, True, False]) == 3.5
    # where no cut helps all are called members
    assert roc.best_threshold([2.0, 2.0, 2.0], [True, False, True]) == 2.0
    assert roc.best_threshold([1.0, 2.0, 3.0], [True, False, False]) == 1.0


@given(scored())
def test_no_threshold_beats_the_best_and_higher_ones_are_worse(case):
    scores, members = case
    best = roc.best_threshold(scores, members)
    reached = roc.accuracy(scores, members, best)
    levels = np.unique(scores)
    for cut in [levels[0], *(levels[1:] + levels[:-1]) / 2]:
        assert roc.accuracy(scores, members, cut) <= reached + 1e-12
        assert cut <= best or roc.accuracy(scores, members, cut) < reached - 1e-12
    assert reached >= 0.5


@pytest.mark.parametrize(("below", "above"), [(1.0, np.nextafter(1.0, 2)), (-5e-324, 0.0), (1.6e308, 1.7e308)])
def test_halfway_never_falls_on_the_wrong_side(below, above):
    threshold = roc.best_threshold([below, above], [False, True])
    assert below < threshold <= above and math.isfinite(threshold)
    assert roc.accuracy([below, above], [False, True], threshold) == 1


def test_the_others_thresholds_are_the_best_of_all_the_others():
    generator = np.random.default_rng(0)
    members = np.stack([generator.permutation(8) < 4 for _ in range(3)])
    scores = generator.integers(0, 5, (3, 8)) * 1.0
    by_hand = [roc.best_threshold(np.delete(scores, i, 0).ravel(), np.delete(members, i, 0).ravel()) for i in range(3)]
    assert roc.others_thresholds(scores, torch.tensor(members)).tolist() == by_hand


def test_a_rate_by_hand():
    scores = np.array([20, 19, *range(1, 19), 20.5, 19, 18.5, 17.5, 17, 2], float)
    members = np.arange(26) >= 20
    rate = roc.tpr_at(scores, members, fpr=0.1)  # 2 of 20: 20 and 19, with the member at 19; 18 would be the third
    assert (rate.true_positives, rate.false_positives, rate.members, rate.non_members) == (3, 2, 6, 20)
    assert rate.value == 0.5
    # 19 is a member's and a non-member's: the bound that holds with ties. Binomial(20, .1) is from 0 to 7 in 99.5%;
    assert rate.low == 0
    assert rate.high == pytest.approx(stats.beta.ppf(0.9775, 6, 1))  # above the eighth, 13, are 5 of the 6 members


def test_the_interval_by_its_definition():
    """Both tails are 2.5% where the TPR is an end of it; here by quadrature, and the slope by hand."""
    scores, members = drawn(3_300, 10_000)
    rate = roc.tpr_at(scores, members)
    outside = np.sort(scores[~members])[::-1]
    count = [(scores[members] > outside[rank - 1]).sum() for rank in (3, 11, 44)]  # 11 / 4 and 4 * 11
    deviates = stats.norm.ppf([(count[0] + 0.5) / 3_301, (count[2] + 0.5) / 3_301, 3 / 10_001, 44 / 10_001])
    rise = (deviates[1] - deviates[0]) / (deviates[3] - deviates[2])
    weight = 41 * (count[2] - count[0]) / (41 + count[2] - count[0])
    slope = max(rise, (weight * rise + 3) / (weight + 3)) + 0.3 / 11**0.5

    def tail(chance, tpr):
        def integrand(u):
            shifted = stats.norm.ppf(tpr) + slope * (stats.norm.ppf(u) - stats.norm.ppf(0.001))
            return chance(stats.norm.cdf(shifted)) * stats.beta.pdf(u, 11, 9_990)

        return integrate.quad(integrand, 0, 0.006, limit=200)[0]

    assert rate.true_positives == count[1] and rate.false_positives == 10
    assert tail(lambda p: stats.binom.sf(count[1] - 1, 3_300, p), rate.low) == pytest.approx(0.025, abs=5e-4)
    assert tail(lambda p: stats.binom.cdf(count[1], 3_300, p), rate.high) == pytest.approx(0.025, abs=5e-4)


@settings(max_examples=60)
@given(scored(60), st.floats(0.01, 0.99))
def test_a_rate_is_the_highest_point_of_the_curve_within_the_fpr(case, fpr):
    scores, members = case
    if 1 / (~members).sum() > fpr:
        return
    rate, found = roc.tpr_at(scores, members, fpr), roc.curve(scores, members)
    inside = found.fpr <= fpr
    assert rate.value == found.tpr[inside].max() == found.at(fpr)
    assert rate.false_positives / rate.non_members == found.fpr[inside].max()
    assert 0 <= rate.low <= rate.value <= rate.high <= 1


def test_a_share_that_floats_miss_by_a_hair_counts():
    for n in (49, 100, 107):  # .29 * 100 is below 29, and 1 / (1 / 49) is not 49
        scores, members = np.arange(n + 1.0), np.arange(n + 1) == 0
        for count in range(1, n):
            assert roc.tpr_at(scores, members, count / n).false_positives == count


def gaussian(generator, n, m):
    return generator.normal(size=n), generator.normal(1, 1, size=m)


def in_steps(generator, n, m):
    return tuple(np.floor(4 * s) for s in gaussian(generator, n, m))


def cliff(generator, n, m):
    """Half of the members far above all, half a hair below the threshold: the hardest case for the lower bound."""
    return generator.normal(size=n), np.where(generator.random(m) < 0.5, 9.0, stats.norm.isf(0.01) - 1e-9)


def coverage(draw, true, n, m, fpr, trials=200):
    """Shares of trials in which the interval, and Clopper and Pearson's at the counted threshold, hold the true TPR."""
    generator, held = np.random.default_rng(0), []
    for _ in range(trials):
        outside, inside = draw(generator, n, m)
        rate = roc.tpr_at(np.concatenate([outside, inside]), np.arange(n + m) >= n, fpr)
        plain = stats.binomtest(rate.true_positives, m).proportion_ci()
        held.append((rate.low <= true <= rate.high, plain.low <= true <= plain.high))
    return np.mean(held, 0)


@pytest.mark.parametrize(
    ("n", "m", "fpr", "measured"),  # what 5,000 trials gave for the plain interval
    [(2_000, 2_000, 0.001, 0.45), (10_000, 10_000, 0.01, 0.59)],
)
def test_the_interval_covers_and_the_members_count_alone_does_not(n, m, fpr, measured):
    true = stats.norm.sf(stats.norm.isf(fpr) - 1)
    ours, plain = coverage(gaussian, true, n, m, fpr)
    assert ours >= 0.95
    assert plain == pytest.approx(measured, abs=0.1) and plain < 0.93  # three standard errors


@pytest.mark.parametrize("n, fpr, curve", [  # members' true TPR at an FPR, for non-members that are uniform
    (200, 0.1, lambda u: stats.norm.cdf((stats.norm.ppf(u) + 5**0.5 * stats.norm.ppf(0.95)) / 2)),
    (1_000, 0.01, lambda u: u ** (1 / 0.6 - 1)),
    (50, 0.1, lambda u: 0.2 + 0.8 * u),  # a fifth of the members stands above all
])  # fmt: skip
def test_the_interval_covers_curves_of_other_shapes_and_small_samples(n, fpr, curve):
    """A member's true FPR at its own score is where a uniform number crosses the curve: any curve, drawn by inverting it."""
    grid = np.concatenate([[0], np.geomspace(1e-12, 1, 200_000)])
    heights = curve(grid)

    def draw(generator, n, m):
        return -generator.random(n), -np.interp(generator.random(m), heights, grid, left=-1)

    ours, _ = coverage(draw, curve(fpr), n, n, fpr, trials=300)
    assert ours >= 0.915  # nearly three standard errors below 95%


def test_the_interval_covers_ties_and_cliffs():
    """With ties the true rate is that of the lowest step whose FPR is within. 6,000 trials gave .978 on the cliff."""
    step = math.ceil(4 * stats.norm.isf(0.01)) / 4
    assert coverage(in_steps, stats.norm.sf(step - 1), 2_000, 2_000, 0.01, trials=100)[0] >= 0.95
    assert 0.95 <= coverage(cliff, 0.5, 2_000, 2_000, 0.01, trials=400)[0] < 0.995


@pytest.mark.parametrize("fpr", [0.001, 1, -0.1, math.nan])
def test_few_non_members_are_refused(fpr):
    with pytest.raises(ValueError, match=rf"fpr={fpr} of 999 non-members .*; give 1 / fpr or more, fpr in \(0, 1\)"):
        roc.tpr_at(*drawn(10, 999), fpr)


@pytest.mark.parametrize(
    ("scores", "members"),
    [([1.0, 2.0, 3.0], [True, False]), ([1.0, math.nan, math.inf], [1, 0, 1]), ([1.0] * 5, [True] * 5)],
)
def test_scores_and_members_that_do_not_fit_are_refused(scores, members):
    for call in (roc.curve, roc.auc, lambda s, m: roc.accuracy(s, m, 0.5), roc.best_threshold, roc.tpr_at):
        with pytest.raises(ValueError, match="scores, members: got shapes .* give a finite score and a truth value"):
            call(scores, members)
