"""Membership scores against members: definitions, symmetries, ties, refusals, and how often the interval is right."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn import metrics

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


def at(*arguments, **settings):
    """`tpr_at` where few false positives are what the test is about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return roc.tpr_at(*arguments, **settings)


def counted(scores, members):
    """What a rate says apart from where its threshold lies; None where the non-members are too few for it."""
    if (~members).sum() < 2:
        return None
    rate = at(scores, members, 0.5)
    return rate.value, rate.low, rate.high, rate.true_positives, rate.false_positives


# -- the curve and its area ------------------------------------------------------------------------------------------------

SCORES = np.array([0.9, 0.8, 0.8, 0.5, 0.3, 0.1])
MEMBERS = np.array([True, True, False, True, False, False])


def test_a_curve_by_hand():
    found = roc.curve(SCORES, MEMBERS)
    assert found.thresholds.tolist() == [math.inf, 0.9, 0.8, 0.5, 0.3, 0.1]
    assert found.tpr.tolist() == [0, 1 / 3, 2 / 3, 1, 1, 1]
    assert found.fpr.tolist() == [0, 0, 1 / 3, 1 / 3, 2 / 3, 1]
    assert roc.auc(SCORES, MEMBERS) == pytest.approx((3 + 2.5 + 2) / 9)  # non-members below each member; a tie is half
    assert repr(found) == "Curve: 6 thresholds"


def test_no_threshold_is_dropped():
    scores, members = np.arange(10.0), np.arange(10) >= 5
    assert len(roc.curve(scores, members).thresholds) == 11  # 3 corners would do for the line


@given(scored())
def test_a_curve_counts_and_its_area_is_what_ranks_say(case):
    scores, members = case
    found = roc.curve(scores, members)
    for fpr, tpr, threshold in zip(found.fpr, found.tpr, found.thresholds, strict=True):
        assert tpr == (scores[members] >= threshold).mean() and fpr == (scores[~members] >= threshold).mean()
    above = scores[members][:, None] - scores[~members]
    assert roc.auc(scores, members) == pytest.approx(((above > 0) + (above == 0) / 2).mean(), abs=1e-12)


@given(scored())
def test_symmetries(case):
    scores, members = case
    area = roc.auc(scores, members)
    assert roc.auc(-scores, members) == pytest.approx(1 - area, abs=1e-12)
    assert roc.auc(scores, ~members) == pytest.approx(1 - area, abs=1e-12)
    assert roc.auc(np.exp(scores), members) == roc.auc(scores**3 - 7, members) == area
    best = roc.oracle_accuracy(scores, members)
    assert roc.oracle_accuracy(np.exp(scores), members) == best
    assert counted(np.exp(scores), members) == counted(scores, members)


def test_arrays_tensors_lists_and_whole_numbers_are_one():
    scores, members = drawn(400, 600)
    scores = scores.astype(np.float32)
    forms = [
        (scores, members),
        (torch.tensor(scores, requires_grad=True), torch.tensor(members)),
        (scores.tolist(), members.tolist()),
        (torch.tensor(scores), torch.tensor(members, dtype=torch.uint8)),
        (scores, members.astype(int)),
    ]
    for call in (roc.auc, roc.best_threshold, roc.oracle_accuracy, lambda s, m: at(s, m, 0.01)):
        assert len({call(*form) for form in forms}) == 1
    half = torch.tensor(scores).bfloat16()
    assert roc.auc(half, members) == roc.auc(half.double(), members)
    assert type(roc.auc(*forms[1])) is type(roc.best_threshold(*forms[1])) is float


# -- accuracy at a threshold -----------------------------------------------------------------------------------------------


def test_accuracy_by_hand():
    assert roc.accuracy(SCORES, MEMBERS, 0.5) == pytest.approx((3 / 3 + 2 / 3) / 2)  # at the score itself: called
    assert roc.accuracy(SCORES, MEMBERS, 0.51) == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert roc.accuracy(SCORES, MEMBERS, math.inf) == roc.accuracy(SCORES, MEMBERS, -math.inf) == 0.5
    unequal = np.array([1.0] * 9 + [0.0]), np.array([True] * 9 + [False])
    assert roc.accuracy(*unequal, -1) == 0.5  # 9 of 10 right, and yet a coin: balanced


@given(scored(), st.integers(-5, 5))
def test_accuracy_is_scikit_learns_balanced_accuracy(case, threshold):
    scores, members = case
    expected = metrics.balanced_accuracy_score(members, scores >= threshold)
    assert roc.accuracy(scores, members, threshold) == pytest.approx(expected, abs=1e-15)


def test_the_best_threshold_by_hand():
    assert roc.best_threshold(SCORES, MEMBERS) == pytest.approx((0.5 + 0.3) / 2)
    assert roc.best_threshold([0.0, 1.0, 5.0], [False, False, True]) == 3.0
    # Cuts at 3.5 and 1.5 are both .75: the highest is taken.
    assert roc.best_threshold([4.0, 3.0, 2.0, 1.0], [True, False, True, False]) == 3.5


def test_where_no_cut_helps_all_are_called_members():
    assert roc.best_threshold([2.0, 2.0, 2.0], [True, False, True]) == 2.0
    assert roc.best_threshold([1.0, 2.0, 3.0], [True, False, False]) == 1.0
    assert roc.oracle_accuracy([1.0, 2.0, 3.0], [True, False, False]) == 0.5
    # One cut inside is as good as a coin, none is better: it is the higher one, and taken.
    assert roc.best_threshold([4.0, 4.0, 3.0, 3.0], [True, False, True, False]) == 3.5


@given(scored())
def test_no_threshold_beats_the_best_and_higher_ones_are_worse(case):
    scores, members = case
    best = roc.best_threshold(scores, members)
    reached = roc.accuracy(scores, members, best)
    levels = np.unique(scores)
    for cut in [levels[0], *(levels[1:] + levels[:-1]) / 2]:
        assert roc.accuracy(scores, members, cut) <= reached + 1e-12
        assert cut <= best or roc.accuracy(scores, members, cut) < reached - 1e-12
    assert roc.oracle_accuracy(scores, members) == reached >= 0.5
    assert best == levels[0] or best in (levels[1:] + levels[:-1]) / 2


@pytest.mark.parametrize(
    ("below", "above"),
    [
        (1.0, np.nextafter(1.0, 2)),
        (np.nextafter(1.0, 0), 1.0),
        (0.0, 5e-324),
        (-5e-324, 0.0),
        (-1.7e308, 1.7e308),
        (1.6e308, 1.7e308),
    ],
)
def test_halfway_never_falls_on_the_wrong_side(below, above):
    threshold = roc.best_threshold([below, above], [False, True])
    assert below < threshold <= above and math.isfinite(threshold)
    assert roc.accuracy([below, above], [False, True], threshold) == 1


@given(st.integers(2, 4), st.integers(4, 12), st.integers(0, 2**32 - 1), st.booleans())
def test_the_others_thresholds_are_the_best_of_all_the_others(models, n, seed, tied):
    generator = np.random.default_rng(seed)
    members = np.stack([generator.permutation(n) < n // 2 for _ in range(models)])
    scores = generator.integers(0, 5, (models, n)) * 1.0 if tied else generator.normal(size=(models, n))
    found = roc.others_thresholds(scores, torch.tensor(members))
    for target in range(models):
        rest = np.arange(models) != target
        assert found[target] == roc.best_threshold(scores[rest].ravel(), members[rest].ravel())


def test_the_oracle_finds_something_where_there_is_nothing():
    generator = np.random.default_rng(0)
    members = np.stack([generator.permutation(20) < 10 for _ in range(400)])
    scores = generator.normal(size=members.shape)
    thresholds = roc.others_thresholds(scores, members)
    attacks = [roc.accuracy(s, m, t) for s, m, t in zip(scores, members, thresholds, strict=True)]
    oracles = [roc.oracle_accuracy(s, m) for s, m in zip(scores, members, strict=True)]
    assert abs(np.mean(attacks) - 0.5) < 0.02 and np.mean(oracles) > 0.6


# -- the TPR at a low FPR --------------------------------------------------------------------------------------------------


def test_a_rate_by_hand():
    scores = np.array([20, 19, *range(1, 19), 20.5, 19, 18.5, 17.5, 17, 2], float)
    members = np.arange(26) >= 20
    rate = at(scores, members, fpr=0.1)  # 2 of 20: 20 and 19, with the member at 19; 18 would be the third
    assert (rate.true_positives, rate.false_positives, rate.members, rate.non_members) == (3, 2, 6, 20)
    assert rate.value == 0.5 and rate.threshold == 18.5 and rate.fpr == 0.1
    assert (
        rate.low == 0
    )  # 19 is a member's and a non-member's: the bound that holds with ties. Binomial(20, .1) >= 0 in 99.5% ...
    assert rate.high == pytest.approx(
        stats.beta.ppf(0.9775, 6, 1)
    )  # ... and <= 7: above the eighth, 13, are 5 of the 6 members


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


def test_the_bound_for_ties_by_its_definition():
    scores, members = drawn(3_300, 10_000)
    scores = np.floor(4 * scores)
    rate = roc.tpr_at(scores, members, 0.01)
    outside = np.sort(scores[~members])[::-1]
    fewest, most = 73, 129  # of 10,000 at 1%: .25 and 99.75%
    assert stats.binom.ppf([0.0025, 0.9975], 10_000, 0.01).tolist() == [fewest, most]
    lowest, highest = ((scores[members] > outside[rank]).sum() for rank in (fewest - 1, most))
    assert rate.low == pytest.approx(stats.beta.ppf(0.0225, lowest, 3_300 - lowest + 1))
    assert rate.high == pytest.approx(stats.beta.ppf(0.9775, highest + 1, 3_300 - highest))


def test_equal_scores_are_called_all_or_none():
    scores = np.array([5.0] * 3 + [4.0] * 17 + [5.0, 5.0, 4.0, 4.0, 3.0])
    members = np.arange(25) >= 20
    none = at(scores, members, 0.1)  # 2 of 20 may be called, and the highest are 3
    assert (none.value, none.false_positives, none.true_positives, none.threshold) == (0, 0, 0, math.inf)
    some = at(scores, members, 0.15)
    assert (some.value, some.false_positives, some.true_positives, some.threshold) == (0.4, 3, 2, 5.0)


@settings(max_examples=200)
@given(scored(60), st.floats(0.01, 0.99))
def test_a_rate_is_the_highest_point_of_the_curve_within_the_fpr(case, fpr):
    scores, members = case
    if 1 / (~members).sum() > fpr:
        return
    rate, found = at(scores, members, fpr), roc.curve(scores, members)
    inside = found.fpr <= fpr
    assert rate.value == found.tpr[inside].max() and rate.false_positives / rate.non_members == found.fpr[inside].max()
    assert rate.threshold == found.thresholds[inside].min()
    called = scores >= rate.threshold
    assert (called[members].sum(), called[~members].sum()) == (rate.true_positives, rate.false_positives)
    assert 0 <= rate.low <= rate.value <= rate.high <= 1


def test_a_share_that_floats_miss_by_a_hair_counts():
    for n in (49, 100, 107):  # .29 * 100 is below 29, and 1 / (1 / 49) is not 49
        scores, members = np.arange(n + 1.0), np.arange(n + 1) == 0
        for count in range(1, n):
            assert at(scores, members, count / n).false_positives == count


def test_perfect_and_useless_scores():
    members = np.arange(20_000) < 10_000
    perfect = roc.tpr_at(members * 1.0, members)
    assert perfect.value == perfect.high == 1 and perfect.low > 0.999 and perfect.false_positives == 0
    useless = roc.tpr_at(np.zeros(20_000), members)
    assert useless.value == useless.low == 0 and useless.threshold == math.inf and useless.high < 0.001


def gaussian(generator, n, m):
    return generator.normal(size=n), generator.normal(1, 1, size=m)


def in_steps(generator, n, m):
    return tuple(np.floor(4 * s) for s in gaussian(generator, n, m))


def cliff(generator, n, m):
    """Half of the members far above all, half a hair below the threshold: the hardest case for the lower bound."""
    return generator.normal(size=n), np.where(generator.random(m) < 0.5, 9.0, stats.norm.isf(0.01) - 1e-9)


def coverage(draw, true, n, m, fpr, trials=200):
    """Shares of trials in which the interval, and Clopper and Pearson's at the counted threshold, hold the true TPR."""
    generator = np.random.default_rng(0)
    ours = plain = 0
    for _ in range(trials):
        outside, inside = draw(generator, n, m)
        rate = at(np.concatenate([outside, inside]), np.arange(n + m) >= n, fpr)
        ours += rate.low <= true <= rate.high
        k = rate.true_positives
        low = stats.beta.ppf(0.025, k, m - k + 1) if k else 0
        plain += low <= true <= stats.beta.ppf(0.975, k + 1, m - k)
    return ours / trials, plain / trials


@pytest.mark.parametrize(
    ("n", "m", "fpr", "measured"),  # what 5,000 trials gave for the plain interval
    [
        (2_000, 300, 0.001, 0.80),
        (2_000, 2_000, 0.001, 0.45),
        (2_000, 2_000, 0.01, 0.60),
        (10_000, 2_000, 0.001, 0.77),
        (10_000, 10_000, 0.01, 0.59),
    ],
)
def test_the_interval_covers_and_the_members_count_alone_does_not(n, m, fpr, measured):
    true = stats.norm.sf(stats.norm.isf(fpr) - 1)
    ours, plain = coverage(gaussian, true, n, m, fpr)
    assert ours >= 0.95
    assert plain == pytest.approx(measured, abs=0.1) and plain < 0.93  # three standard errors


@pytest.mark.parametrize(("n", "fpr", "auc"), [(200, 0.1, 0.6), (200, 0.1, 0.8), (1_000, 0.01, 0.8)])
def test_the_interval_covers_95_to_97_percent_and_not_all(n, fpr, auc):
    """4,000 trials gave .962, .967 and .959; three standard errors of 500 are .025. The interval of version 0.1 covered .9990 here."""
    shift = 2**0.5 * stats.norm.ppf(auc)
    true = stats.norm.sf(stats.norm.isf(fpr) - shift)
    ours, _ = coverage(lambda g, n, m: (g.normal(size=n), g.normal(shift, 1, size=m)), true, n, n, fpr, trials=500)
    assert 0.94 <= ours <= 0.986


SHAPES = {  # (members' scores of m, the true TPR at an FPR), by an AUC, for non-members that are normal
    "normal": lambda auc: lambda u: stats.norm.cdf(stats.norm.ppf(u) + 2**0.5 * stats.norm.ppf(auc)),
    "wide": lambda auc: lambda u: stats.norm.cdf((stats.norm.ppf(u) + 5**0.5 * stats.norm.ppf(auc)) / 2),
    "power": lambda auc: lambda u: u ** (1 / auc - 1),
    "some": lambda auc: lambda u: 2 * auc - 1 + (2 - 2 * auc) * u,  # that share of the members above all
}
SIZES = [(50, 0.1), (200, 0.1), (1_000, 0.1), (200, 0.01), (1_000, 0.01), (5_000, 0.01), (1_000, 0.001), (5_000, 0.001)]


@pytest.mark.weekly
@pytest.mark.parametrize("auc", [0.6, 0.95])
@pytest.mark.parametrize(("n", "fpr"), SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_covers_over_a_grid(shape, n, fpr, auc):
    """A member's true FPR at its own score is where a uniform number crosses the curve: any curve, drawn by inverting it."""
    curve, grid = SHAPES[shape](auc), np.concatenate([[0], np.geomspace(1e-12, 1, 200_000)])
    heights = curve(grid)
    heights[0] = heights[0] if shape == "some" else 0

    def draw(generator, n, m):
        return -generator.random(n), -np.interp(generator.random(m), heights, grid, left=-1)

    ours, _ = coverage(draw, curve(fpr), n, n, fpr, trials=300)
    assert ours >= 0.915  # nearly three standard errors below 95%
    if n * fpr >= 50:
        assert ours <= 0.99  # 4,000 trials gave at most .974; the interval of version 0.1 covered .995 and more


def test_the_interval_covers_ties_and_cliffs():
    """With ties the true rate is that of the lowest step whose FPR is within. 6,000 trials gave .978 on the cliff."""
    step = math.ceil(4 * stats.norm.isf(0.01)) / 4
    assert coverage(in_steps, stats.norm.sf(step - 1), 2_000, 2_000, 0.01)[0] >= 0.95
    ours, _ = coverage(cliff, 0.5, 2_000, 2_000, 0.01, trials=400)
    assert 0.95 <= ours < 0.995


def test_with_few_non_members_a_smooth_curve_has_a_lower_bound_and_a_leaping_one_has_none():
    scores, members = drawn(5_000, 4_300, shift=4)
    assert 0.7 < at(scores, members, 0.001).low < at(scores, members, 0.001).value
    assert at(np.floor(scores), members, 0.001).low == 0
    assert at(np.minimum(scores, 3), members, 0.001).low == 0  # saturated


def test_it_tells_from_chance_what_the_wide_one_did_not():
    """1,000 of each at .1%: the wide interval of version 0.1 began at 0 whatever the scores."""
    rate = at(*drawn(1_000, 1_000, shift=2), 0.001)
    assert rate.low > 0.001


def test_few_non_members_are_refused_or_warned_of():
    with pytest.raises(
        ValueError, match=r"fpr=0.001 needs 1,000 non-members, got 640; give more, or ask for fpr=0.01$"
    ):
        roc.tpr_at(*drawn(1_000, 640))
    with pytest.raises(ValueError, match=r"fpr=0.001 needs 1,000 non-members, got 999"):
        roc.tpr_at(*drawn(10, 999))
    with pytest.raises(ValueError, match=r"fpr=0.003 needs 334 non-members, got 333; give more, or ask for fpr=0.01$"):
        roc.tpr_at(*drawn(10, 333), 0.003)
    with pytest.raises(ValueError, match=r"fpr=0.5 needs 2 non-members, got 1; give more$"):
        roc.tpr_at(*drawn(10, 1), 0.5)
    with pytest.warns(
        UserWarning, match=r"fpr=0.001 of 1,000 non-members allows 1 false positive, so .* 10,000 .* 10$"
    ):
        roc.tpr_at(*drawn(10, 1_000))
    with pytest.warns(UserWarning, match=r"of 9,999 non-members allows 9 false positives") as caught:
        roc.tpr_at(*drawn(10, 9_999))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roc.tpr_at(*drawn(10, 10_000))
        roc.tpr_at(*drawn(10, 1_000), 0.01)


def test_a_rate_says_all_of_it_in_one_line():
    rate = roc.Rate(123 / 3_300, 0.0213, 0.0561, 2.51234, 123, 3_300, 10, 10_000, 0.001)
    assert repr(rate) == (
        "TPR 3.73% at FPR 0.1% (95%: 2.13% to 5.61%; 123 of 3,300 members, 10 of 10,000 non-members at or above the "
        "threshold 2.512)"
    )
    assert "TPR 100% at FPR 0.001% (95%: 99.9% to 100%" in repr(roc.Rate(1.0, 0.999, 1.0, 0.0, 5, 5, 0, 10**6, 1e-5))


# -- several curves -------------------------------------------------------------------------------------------------------


def test_a_band_by_hand():
    one = roc.curve([4.0, 3.0, 2.0, 1.0], [True, False, True, False])  # (0, .5), (.5, .5), (.5, 1), (1, 1)
    two = roc.curve([4.0, 3.0, 2.0, 1.0], [False, True, True, False])  # (.5, 0), (.5, .5), (.5, 1), (1, 1)
    low, mean, high = roc.band([one, two], [0.0, 0.49, 0.5, 1.0])
    assert low.tolist() == [0, 0, 1, 1] and high.tolist() == [0.5, 0.5, 1, 1] and mean.tolist() == [0.25, 0.25, 1, 1]
    assert [b.tolist() for b in roc.band([one], [0.2])] == [[0.5]] * 3


@given(scored(), st.floats(0, 1))
def test_a_band_of_one_is_the_rate(case, fpr):
    scores, members = case
    low, mean, high = roc.band([roc.curve(scores, members)], [fpr])
    if 1 / (~members).sum() <= fpr < 1:
        assert low[0] == mean[0] == high[0] == at(scores, members, fpr).value


@pytest.mark.parametrize("count", [39, 40])
def test_a_band_leaves_out_extremes_once_there_are_enough(count):
    curves = [
        roc.Curve(np.array([0.0, 1.0]), np.array([i / 100, 1.0]), np.array([math.inf, 0.0])) for i in range(count)
    ]
    low, mean, high = roc.band(curves, [0.5])
    assert mean[0] == pytest.approx((count - 1) / 200)
    cut = 0.025 * (count - 1) / 100 if count == 40 else 0
    assert low[0] == pytest.approx(cut) and high[0] == pytest.approx((count - 1) / 100 - cut)


# -- refusals --------------------------------------------------------------------------------------------------------------

ALL = [
    roc.curve,
    roc.auc,
    lambda s, m: roc.accuracy(s, m, 0.5),
    roc.best_threshold,
    roc.oracle_accuracy,
    lambda s, m: roc.tpr_at(s, m, 0.5),
]


@pytest.mark.parametrize(
    ("scores", "members", "message"),
    [
        (
            [1.0, 2.0, 3.0],
            [True, False],
            r"members: got shape \(2,\) of bool for scores \(3,\); give one for each score",
        ),
        ([1.0, math.nan, math.inf], [1, 0, 1], "scores: 2 of 3 are NaN or infinite; drop them"),
        ([[1.0, 2.0]], [[True, False]], r"scores: got shape \(1, 2\); give \(n,\), and 1 or more of each"),
        ([], [], r"scores: got shape \(0,\); give \(n,\)"),
        ([1.0, 2.0], [1, 2], r"members: .* give one for each score, True \(or 1\) for a member"),
        ([1.0, 2.0], [1.0, 0.0], "members: got shape .* of float64"),
        ([1.0] * 500, [True] * 500, r"members: all 500 are members; give some non-members too"),
        ([1.0] * 1500, [False] * 1500, r"members: all 1,500 are non-members; give some members too"),
    ],
)
def test_scores_and_members_that_do_not_fit_are_refused(scores, members, message):
    for call in ALL:
        with pytest.raises(ValueError, match=message):
            call(scores, members)


def test_other_arguments_are_refused_by_name():
    scores, members = drawn(20, 20)
    for fpr in (0, 1, -0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=rf"fpr={fpr} is no rate between 0 and 1; try 0.001, which is 0.1%"):
            roc.tpr_at(scores, members, fpr)
    with pytest.raises(ValueError, match="threshold=nan calls nobody anything; give a number"):
        roc.accuracy(scores, members, math.nan)
    found = roc.curve(scores, members)
    with pytest.raises(ValueError, match=r"grid goes from 0.1 to 1.5; give false-positive rates in \[0, 1\]"):
        roc.band([found], [0.1, 1.5])
    with pytest.raises(ValueError, match="grid: 1 of 1 are NaN"):
        roc.band([found], [math.nan])


def test_models_without_others_are_refused():
    half = np.arange(6) < 3
    with pytest.raises(ValueError, match=r"scores: got shape \(6,\); give \(models, n\)"):
        roc.others_thresholds(np.zeros(6), half)
    with pytest.raises(ValueError, match="scores: 1 model has no others to choose its threshold on; give 2 or more"):
        roc.others_thresholds(np.zeros((1, 6)), half[None])
