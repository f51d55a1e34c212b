"""The rule against scipy's tests, against the definitions of `and` and `or`, and against simulation where nothing is true."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privlab.ledger.comparison import parse
from privlab.ledger.evidence import LEVEL
from privlab.ledger.rule import Figure, p_values

RNG = np.random.default_rng(0)
OPEN = (1.0, 1.0)


def chance(text, experiments=None, people=0, **values):
    tables = {}
    for name, v in values.items():
        tables.setdefault((experiments or {}).get(name), {})[f"{name}[x]"] = np.asarray(v, float)
    return p_values(parse(text), list(tables.values()), people)[:2]  # without the words


def decided(*arguments, **values):
    holds, fails = chance(*arguments, **values)
    return "holds" if holds < LEVEL else "fails" if fails < LEVEL else "open"


def test_an_atom_is_the_paired_t_test():
    a, b = RNG.normal(1, 1, 9), RNG.normal(0.4, 1, 9)
    result = chance("a[x] > b[x] + 0.1", a=a, b=b)
    assert result[0] == pytest.approx(stats.ttest_rel(a, b + 0.1, alternative="greater").pvalue)
    assert result[1] == pytest.approx(1 - result[0])
    assert chance("a[x] < b[x] + 0.1", a=a, b=b) == result[::-1]


def test_names_of_two_experiments_are_welchs():
    a, b = RNG.normal(1, 1, 9), RNG.normal(0.4, 3, 5)
    result = chance("a[x] > b[x]", experiments={"a": "one", "b": "other"}, a=a, b=b)
    assert result[0] == pytest.approx(stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue)
    doubled = chance("2 * a[x] - 1 > 3 * b[x]", experiments={"a": "one", "b": "other"}, a=a, b=b)
    expected = stats.ttest_ind(2 * a - 1, 3 * b, equal_var=False, alternative="greater").pvalue
    assert doubled[0] == pytest.approx(expected)


def test_errors_are_tested_in_logs():
    a, b = np.exp(RNG.normal(0, 2, 8)), np.exp(RNG.normal(1, 2, 8))
    result = chance("mse[x] * 10 < from_grey[x]", mse=a, from_grey=b)
    assert result[0] == pytest.approx(stats.ttest_rel(np.log(10 * a), np.log(b), alternative="less").pvalue)
    # logs to base 10: -2, -3, -4, and -32 for the exact one; mean -10.25, standard error 7.26; below -1 by t = 1.274
    assert chance("mse[x] < 0.1", mse=[1e-2, 1e-3, 1e-4, 0.0])[0] == pytest.approx(0.1461, abs=1e-3)
    assert str(Figure.of("mse[x]", [1e-2, 0.0])) == "mse[x] = 1e-17 ×÷ 1.6e+21 (n=2, 1 of them exact)"


def test_compounds_by_hand():
    a, b, c = RNG.normal(1, 1, (3, 6))
    holds, fails = zip(*(chance(f"{n}[x] > 0", **{n: v}) for n, v in (("a", a), ("b", b), ("c", c))), strict=True)
    every, some = (chance(f" {joint} ".join(f"{n}[x] > 0" for n in "abc"), a=a, b=b, c=c) for joint in ("and", "or"))
    assert every == pytest.approx((max(holds), min(1, 3 * min(fails))))
    assert some == pytest.approx((min(1, 3 * min(holds)), max(fails)))


def test_values_without_spread_decide_only_where_they_are_exact():
    assert chance("psnr[x] > 60", psnr=[61.0, 61, 61]) == OPEN
    assert decided("psnr[x] > 60", psnr=[320.0, 320, 320]) == "holds"
    assert decided("mse[x] > 0.1", mse=[0.0, 0.0]) == "fails"
    assert chance("a[x] > 0", a=[3.0]) == chance("a[x] > 0", a=[3.0, float("inf")]) == OPEN


@pytest.mark.parametrize("count", [0, 1, 20, 39, 40])
def test_a_share_that_is_the_same_in_every_repeat_is_tested_exactly_where_people_are_counted(count):
    share = [100 * count / 40] * 8
    for alternative, text in (("greater", "acc[x] > 90"), ("less", "acc[x] < 90")):
        result = chance(text, people=40, acc=share)
        assert result[0] == pytest.approx(stats.binomtest(count, 40, 0.9, alternative=alternative).pvalue, abs=1e-12)
    alone, both = chance("acc[x] > 90", acc=share), chance("acc[x] > attacc[x]", people=40, acc=share, attacc=[50] * 8)
    assert alone == both == chance("psnr[x] > 20", people=40, psnr=[30] * 8) == OPEN
    assert chance("acc[x] > 90", people=40, acc=[88, 91, 95]) == chance("acc[x] > 90", acc=[88, 91, 95])


@given(st.lists(st.tuples(*[st.floats(-5, 5, width=32)] * 2), min_size=2, max_size=9), st.floats(0.1, 9))
def test_laws(rows, scale):
    """Turned round, the chances change places; units do not matter; both can never be small."""
    a, b = np.array(rows).T
    result = chance("a[x] > b[x]", a=a, b=b)
    assert chance("b[x] > a[x]", a=a, b=b) == result[::-1]
    if np.abs(a - b).std() > 1e-6:
        assert chance(f"{scale} * a[x] > {scale} * b[x]", a=a, b=b) == pytest.approx(result, abs=1e-6)
    for text in ("a[x] > b[x]", "a[x] > 0 and b[x] > 0", "a[x] > 0 or b[x] > 0", "abs(a[x] - b[x]) < 1"):
        both = chance(text, a=a, b=b)
        assert not (both[0] < LEVEL and both[1] < LEVEL) and min(both[0], both[1]) >= 0


NULLS = {  # comparison -> on which side of its border the truth, all means 0, lies: "" on it, so that any decision is wrong
    "a[x] > b[x]": "",
    "a[x] > 0 and b[x] > 0": "",
    "a[x] > b[x] > c[x] > d[x] > e[x]": "",
    "max(a[x], b[x], c[x], d[x]) > 0": "",
    "abs(a[x] - b[x]) < 0.2": "holds",
    "max(a[x], 0 - a[x]) > 0.2": "fails",
}

DRAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape),
    "skewed": lambda rng, shape: rng.gamma(4, size=shape) / 2 - 2,  # skewness 1, standard deviation 1
}
CASES = [(text, kind, n) for text in NULLS for kind, n in (("normal", 8), ("heavy", 4))]


@pytest.mark.parametrize(("text", "kind", "n"), [*CASES, ("a[x] > b[x]", "skewed", 8), ("a[x] > b[x]", "skewed", 16)])
def test_with_no_effect_at_most_5_percent_are_decided_wrongly_each_way(text, kind, n):
    """600 rounds: 5% is exceeded by 2.3 points with a chance of about 1 in 200 where it is the truth; 10% of skewed values."""
    rng, bound = np.random.default_rng(1), 0.1 if kind == "skewed" else LEVEL + 0.023
    told = [decided(text, **dict(zip("abcde", DRAWS[kind](rng, (5, n)), strict=True))) for _ in range(600)]
    assert NULLS[text] == "holds" or told.count("holds") / 600 < bound
    assert NULLS[text] == "fails" or told.count("fails") / 600 < bound
