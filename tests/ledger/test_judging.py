"""Verdicts from evidence, with values that were worked out by hand: needs, measuring, scope, tries, identities, exact values."""

import pytest

from privlab.ledger import evidence, judging, papers, report
from privlab.ledger.evidence import FIRST, Registration, Repeat
from privlab.ledger.judging import OWN, READING, STAND_IN, VERDICTS

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTED, MEASURING = VERDICTS
ONE = "lab.one"
# 1, 2, 3, 4: mean 2.5, standard deviation 1.291, standard error 0.6455; t of 3 degrees of freedom has 0.05 above 2.353, 0.025 above 3.182
STEPS = [1.0, 2.0, 3.0, 4.0]
TURNED = [-v for v in STEPS]


def claim(compare, experiments=(ONE,), kind="ordering", **more):
    return papers.Claim("lu2022.table1.best", "Table 1", "06", kind, "One is best.", compare, experiments, **more)


@pytest.fixture
def measured(tmp_path):
    """measured(size, {name: values}) registers that many repeats and writes them; of them, what `there` says."""

    def put(size, values, experiment=ONE, there=None, protocol=1, first=None, own=False):
        (n,) = {len(v) for v in values.values()}
        start, digest = FIRST[size] if first is None else first, f"digest{protocol}"
        about = (experiment, size, protocol, digest, start, n, "small networks", own, "2026-11-24")
        evidence.register([Registration(*about)], tmp_path)
        for i in range(n if there is None else there):
            measured = {name: v[i] for name, v in values.items() if v[i] is not None}
            evidence.append(experiment, size, Repeat(start + i, digest, measured, 1.0, i), tmp_path)
        return judging.shelf(tmp_path)

    return put


def test_the_repeats_own_differences_decide(measured):
    shelf = measured("class", {"psnr[a]": [11.0, 22.0, 33.0, 44.0], "psnr[b]": [10.0, 20.0, 30.0, 40.0]})
    for compare, verdict in (
        ("psnr[a] > psnr[b] + 0.98", REPRODUCED),  # t = 1.52 / 0.6455 = 2.355
        ("psnr[a] > psnr[b] + 1", INCONCLUSIVE),  # 2.324
        ("psnr[a] > psnr[b] + 4", INCONCLUSIVE),  # -2.324
        ("abs(psnr[a] - psnr[b]) < 4.03", REPRODUCED),  # two one-sided tests: 2.5 + 2.353 x 0.6455 = 4.02
        ("abs(psnr[a] - psnr[b]) < 4", INCONCLUSIVE),
        ("abs(psnr[a] - psnr[b]) < 0.46", INCONCLUSIVE),  # 2.5 - 3.182 x 0.6455 = 0.45: one of two parts, so at 0.025
        ("abs(psnr[a] - psnr[b]) < 0.44", NOT_REPRODUCED),
        ("abs(psnr[a] - psnr[b] - 2.5) < 0.001", INCONCLUSIVE),  # equal means never refute that they are alike
        ("psnr[a] > psnr[b] + 4.02", NOT_REPRODUCED),  # -2.355
    ):
        judged = judging.judge(claim(compare), shelf)
        assert (judged.verdict, judged.scope, judged.profile) == (verdict, STAND_IN, "class"), compare
    assert judged.reason.startswith("does not appear in small networks: p = 0.95 for it, 0.05 against it")
    assert [(f.name, f.centre, f.n) for f in judged.ours] == [("psnr[a]", 27.5, 4), ("psnr[b]", 25.0, 4)]
    assert 0.94 < judged.p < 1 and [len(table) for table in judged.tables] == [4]


@pytest.mark.parametrize("own, reading, scope", [(True, "", OWN), (True, "Eval.", READING), (False, "Eval.", STAND_IN)])
def test_the_paper_s_networks_as_we_read_them_are_a_scope_of_their_own(measured, own, reading, scope):
    judged = judging.judge(claim("psnr[a] > 0", reading=reading), measured("night", {"psnr[a]": STEPS}, own=own))
    assert (judged.verdict, judged.scope) == (REPRODUCED, scope)
    assert (f"our reading: {reading}" in report.reasons(judged)) == (scope == READING)


def test_nothing_is_judged_before_all_registered_repeats_are_there_nor_by_others(measured, tmp_path):
    asked = claim("psnr[a] > 0")
    assert judging.judge(asked, judging.shelf(tmp_path)).reason == "nothing is registered of lab.one yet"
    assert judging.judge(asked, measured("smoke", {"psnr[a]": STEPS})).verdict == MEASURING
    judged = judging.judge(asked, measured("class", {"psnr[a]": STEPS}, there=3))
    assert (judged.verdict, judged.reason) == (MEASURING, "3 of 4 repeats of lab.one")
    for number, value in ((3, 4.0), (-1, -1e6), (4, -1e6)):  # the one that lacked, a pilot, and one too many
        evidence.append(ONE, "class", Repeat(number, "digest1", {"psnr[a]": value}, 1.0, 9.0), tmp_path)
    judged = judging.judge(asked, judging.shelf(tmp_path))
    assert judged.verdict == REPRODUCED and judged.ours[0].n == 4


def test_a_name_that_some_repeat_lacks_is_waited_for(measured):
    shelf = measured("class", {"psnr[a]": [1.0, 2.0, None], "ssim[b]": [1.0] * 3})
    judged = judging.judge(claim("lpips[a] > lpips[b]", needs=("psnr[a] > ssim[b]",)), shelf)
    assert (judged.verdict, judged.reason) == (MEASURING, "lpips[a], lpips[b], psnr[a] not measured")


def test_the_highest_complete_size_counts_and_the_others_stand_beside(measured):
    measured("class", {"psnr[a]": TURNED})
    measured("night", {"psnr[a]": STEPS}, own=True)
    judged = judging.judge(claim("psnr[a] > 0"), measured("gpu", {"psnr[a]": STEPS}, there=1))
    assert (judged.verdict, judged.profile, judged.scope) == (REPRODUCED, "night", OWN)
    beside = [text.partition(" (")[0] for text in judged.beside]
    assert beside == ["gpu: measuring", "class: not reproduced"]


def test_a_further_try_is_judged_at_half_the_level_and_the_earlier_stands_beside(measured, tmp_path):
    measured("class", {"psnr[a]": TURNED})
    shelf = measured("class", {"psnr[a]": [v - 0.5 for v in STEPS]}, protocol=2, first=8, there=2)
    judged = judging.judge(claim("psnr[a] > 0"), shelf)  # the first stands until the second is complete
    assert judged.verdict == NOT_REPRODUCED and judged.beside == ["class: measuring (2 of 4 repeats of lab.one)"]
    for number in (10, 11):
        evidence.append(ONE, "class", Repeat(number, "digest2", {"psnr[a]": number - 7.5}, 1.0, 9.0), tmp_path)
    shelf = judging.shelf(tmp_path)
    judged = judging.judge(claim("psnr[a] > 0"), shelf)  # t = 2 / 0.6455 = 3.098, below 3.182
    assert judged.verdict == INCONCLUSIVE and judged.reason.startswith("try 2, judged at 0.025: ")
    assert judging.judge(claim("psnr[a] + 0.06 > 0"), shelf).verdict == REPRODUCED  # 3.191
    assert [text.partition(" (")[0] for text in judged.beside] == ["class: not reproduced"]


@pytest.mark.parametrize("need, verdict, why", [
    ("psnr[grey] > psnr[a]", NOT_TESTED, "needs psnr[grey] > psnr[a] does not hold (psnr[grey] = 0 ± 0 (n=4)"),
    ("psnr[a] > 1", INCONCLUSIVE, "needs psnr[a] > 1 is undecided (psnr[a] = 2.5 ± 1.3 (n=4): p = 0.051 for it"),
    ("train_acc[a] > 0.99", NOT_TESTED, "needs train_acc[a] > 0.99 does not hold (train_acc[a] = 0.9975 ± 0.005 (n=4): holds in 3"),
    ("train_acc[a] >= 0.99", REPRODUCED, "p = 0.015"),
])  # fmt: skip
def test_a_need_goes_before_the_question(measured, need, verdict, why):
    values = {"psnr[a]": STEPS, "psnr[grey]": [0.0] * 4, "train_acc[a]": [1.0, 1.0, 1.0, 0.99]}
    judged = judging.judge(claim("psnr[a] > 0", needs=(need,)), measured("class", values))
    assert judged.verdict == verdict and judged.reason.startswith(why)
    both = judging.judge(claim("psnr[a] > 0", needs=("psnr[a] > 1", need)), measured("class", values))
    assert both.verdict == (NOT_TESTED if verdict == NOT_TESTED else INCONCLUSIVE)  # the refuted one speaks


@pytest.mark.parametrize("kind, compare, verdict, why", [
    ("identity", "relative_error[a] < 1e-7 and count[a] == 3", REPRODUCED, "holds in 4 of 4 repeats"),
    ("identity", "relative_error[a] < 1e-8", NOT_REPRODUCED, "does not appear in small networks: holds in 3 of 4 repeats"),
    ("ordering", "psnr[a] > 0 and count[a] > 2", INCONCLUSIVE, "a part has the same value in every repeat, which"),
    ("ordering", "psnr[a] / count[none] > 1", INCONCLUSIVE, "a part has one repeat, or is not finite"),
])  # fmt: skip
def test_an_identity_holds_in_every_repeat_and_what_no_mean_speaks_of_is_open(measured, kind, compare, verdict, why):
    errors = {"relative_error[a]": [1e-9, 1e-8, 0.0, 0.0]}
    shelf = measured("class", errors | {"psnr[a]": STEPS, "count[a]": [3.0] * 4, "count[none]": [0.0] * 4})
    judged = judging.judge(claim(compare, kind=kind), shelf)
    assert (judged.verdict, judged.p) == (verdict, None) and judged.reason.startswith(why)


def test_two_experiments_are_independent_samples_at_the_size_that_both_have(measured):
    other = claim("psnr[a] > psnr[b]", (ONE, "lab.other"))
    measured("night", {"psnr[a]": STEPS})
    assert judging.judge(other, measured("class", {"psnr[a]": STEPS})).verdict == MEASURING
    shelf = measured("class", {"psnr[b]": [0.0, -1.0, 1.0]}, "lab.other")
    judged = judging.judge(other, shelf)  # 2.5 over hypot(0.6455, 0.5774) = 2.887, of 4.96 degrees of freedom
    assert (judged.verdict, judged.profile, round(judged.p, 4)) == (REPRODUCED, "class", 0.0173)


@pytest.mark.parametrize("looked, size, after", [("class", "class", 1), ("class", "night", 0), ("night", "class", 1)])
def test_a_comparison_is_exploratory_at_the_sizes_that_were_looked_at(looked, size, after, measured):
    judged = judging.judge(claim("psnr[a] > 0", exploratory=looked), measured(size, {"psnr[a]": STEPS}))
    assert (judged.profile, judged.exploratory) == (size, bool(after))
