"""Judging: the grammar against Python's own evaluation, and verdicts against textbook tests and simulated repeats."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from privlab.ledger import papers, verdicts
from privlab.ledger.papers import Claim
from privlab.ledger.records import record
from privlab.ledger.verdicts import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    holds_on_printed_numbers,
    judge,
    parse,
)


def claim(compare: str, kind: str = "ordering", profile: str = "smoke", **changes) -> Claim:
    plain = {
        "id": "lu2022.x",
        "paper": "lu2022",
        "where": "Table 1",
        "lab": "05",
        "kind": kind,
        "statement": "S.",
        "compare": compare,
    }
    return Claim(**{**plain, "profile": profile, "profile_why": "a reason", **changes})


def rec(metric: str, values, *keys: str, lab: str = "05", profile: str = "smoke"):
    unit = "pixels" if metric == "mse" else None
    where = {"lab": lab, "profile": profile, "seed": 0, "device": "cpu", "mode": "eval", "victim": "fresh"}
    return record(metric, list(keys or ["x"]), values, unit=unit, **where)


def verdict(compare: str, *records, kind: str = "ordering") -> str:
    return judge(claim(compare, kind), records, "smoke").verdict


# -- the grammar ---------------------------------------------------------------------------------------------------------

NAMES = ["psnr[a]", "psnr[b]", "mse[a, b_2]", "ssim[relative_0p01, x, y]"]
number = st.deferred(
    lambda: (
        st.sampled_from(NAMES)
        | st.integers(0, 9).map(str)
        | st.floats(0, 100).map(repr)
        | st.builds("({} {} {})".format, number, st.sampled_from("+-*/"), number)
        | st.builds("-{}".format, number)
        | st.builds("abs({})".format, number)
        | st.builds(
            "{}({})".format, st.sampled_from(["min", "max"]), st.lists(number, min_size=2, max_size=3).map(", ".join)
        )
    )
)
operators = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
truth = st.deferred(
    lambda: (
        st.builds("{} {} {}".format, number, operators, number)
        | st.builds("{} {} {} {} {}".format, number, operators, number, operators, number)
        | st.builds("({} {} {})".format, truth, st.sampled_from(["and", "or"]), truth)
        | st.builds("(not {})".format, truth)
    )
)


class Lookup:
    """Makes `psnr[a, b]` work in Python, where every key evaluates to its own name."""

    def __init__(self, metric: str, values: dict[str, float]) -> None:
        self.metric, self.values = metric, values

    def __getitem__(self, keys) -> float:
        return self.values[f"{self.metric}[{', '.join(keys if isinstance(keys, tuple) else (keys,))}]"]


def by_python(text: str, values: dict[str, float]) -> bool:
    words = set(re.findall(r"[a-z]\w*", " ".join(NAMES)))
    # Python's own drop a nan that does not stand first
    ends = {"min": lambda *of: float(np.min(of)), "max": lambda *of: float(np.max(of))}
    return eval(text, {**{w: w for w in words}, **ends, **{m: Lookup(m, values) for m in ("psnr", "mse", "ssim")}})


@pytest.mark.parametrize("examples", [60, pytest.param(300, marks=pytest.mark.weekly)])
def test_a_comparison_means_what_it_means_in_python(examples):
    @settings(max_examples=examples, deadline=None)
    @given(truth, st.lists(st.integers(-3, 3) | st.floats(-1e3, 1e3), min_size=len(NAMES), max_size=len(NAMES)))
    def check(text, numbers):
        values = dict(zip(NAMES, map(float, numbers), strict=True))
        try:
            expected = by_python(text, values)
        except ZeroDivisionError:
            assume(False)
        comparison = parse(text)
        assert bool(comparison(values)) == expected
        arrays = {name: np.array([value, value]) for name, value in values.items()}
        assert np.broadcast_to(comparison(arrays), 2).tolist() == [expected] * 2
        assert set(comparison.names) == {n for n in NAMES if n in text}

    check()


# Expressions of the draft for the other labs, the longest and the oddest of them.
TRICKY = [
    ("abs(log10_mse[gradient_scale_1, relative_0p1] - log10_mse[gradient_scale_100, relative_0p1]) < 0.5", 2),
    ("psnr[swin_t] > psnr[resnet_50] + 10", 2),
    ("max(lpips[swin_t], lpips[swin_s]) < min(lpips[resnet_50], lpips[resnet_101])", 4),
    ("mse[cifar_10, april] < min(mse[cifar_10, dlg], mse[cifar_10, ig], mse[cifar_10, tag])", 4),
    ("label_accuracy[dot_product_rule, batch_1] == 1", 1),
    ("iip[gradvit, batch_4] == 100 and iip[gradvit, batch_8] >= 75", 2),
    (
        "psnr[step_10] - psnr[step_9] > max(psnr[step_4] - psnr[step_3], psnr[step_7] - psnr[step_6], "
        "psnr[step_8] - psnr[step_7], psnr[step_11] - psnr[step_10], psnr[step_12] - psnr[step_11])",
        9,
    ),
    ("abs(params_m[step_1] - 23.52) < 0.02 and abs(params_m[step_14] - 27.83) < 0.005", 2),
    ("relative_error[block_gradient, skip_part_plus_branch_part] < 1e-6", 1),
    (
        "max(delta_ratio[resnet_34, rolss], delta_ratio[resnet_34, rolss_plus]) > "
        "max(delta_ratio[resnet_34, mid], delta_ratio[resnet_34, dp], delta_ratio[resnet_34, bido])",
        5,
    ),
    (
        "attack_acc[swapped] < attack_acc[original] and psnr[swapped] < psnr[original] "
        "and abs(task_acc[original] - task_acc[swapped]) < 0.02",
        6,
    ),
    ("min_roc_gap[cifar100, swin_t, resnet_50] >= 0 and min_roc_gap[cifar100, swin_s, resnet_101] >= 0", 2),
]


@pytest.mark.parametrize("text, names", TRICKY)
def test_the_draft_s_expressions_parse(text, names):
    parsed = parse(text).names
    assert len(parsed) == names and all(name in text for name in parsed)


GRID = [
    1e-35, 1e-12, 1e-7, 1e-3, 0.05, 0.3, 0.5, 0.9, 1.0, 15.0, 30.0, 60.0, 98.0, 130.0, 250.0, 23.52, 27.83, 0.0, -1.0, -2.0, 5.0,
]  # fmt: skip


def test_every_claim_of_the_book_parses_and_can_go_either_way(subtests):
    for one in papers.claims():
        with subtests.test(one.id):
            comparison = parse(one.compare, one.id)
            assert comparison.names
            rng = np.random.default_rng(0)
            outcomes = comparison({name: rng.choice(GRID, 20_000) for name in comparison.names})
            assert outcomes.any() and not outcomes.all()  # a claim that cannot fail, or cannot hold, decides nothing


NO_NUMBERS = [
    "__import__('os').system('true')", "psnr.real", "psnr", "psnr[0]", "psnr['a']", "psnr[a:b]", "psnr[a, 1]", "psnr[()]",
    "psnr[a][b]", "psnr[max(a, b)]", "psnr[A]", "PSNR[a]", "psnr[a] ** 2", "psnr[a] // 2", "psnr[a] % 2", "+psnr[a]", "~psnr[a]",
    "sum(psnr[a], 1)", "max(psnr[a])", "min(*psnr[a])", "max(psnr[a], 1, key=abs)", "abs(psnr[a], 1)", "psnr[a] > 1",
    "'a'", "True", "None", "1j", "9" * 400, "x := psnr[a]", "psnr[a] if mse[b] > 1 else 2", "lambda: 1", "[psnr[a]]",
    "{psnr[a] for a in b}", "f'{psnr}'", "not psnr[a] > 1", "psnr[a] and psnr[b]",
]  # fmt: skip
NO_TRUTHS = [
    "psnr[a] in mse[b]", "psnr[a] is mse[b]", "psnr[a] + 1", "psnr[a]", "True", "1", "max(psnr[a], 2)", "psnr[a] > 1, psnr[b] > 2",
    "print(1)",
]  # fmt: skip


@pytest.mark.parametrize(
    "text, piece",
    [
        *[(f"({piece}) > 1", piece) for piece in NO_NUMBERS],
        *[(f"max(1, 2 * abs(({piece}))) < mse[b]", piece) for piece in NO_NUMBERS],
        *[(piece, piece) for piece in NO_TRUTHS],
        *[(f"mse[b] > 1 and not ({piece})", piece) for piece in NO_TRUTHS],
        ("psnr[*a] > 1", "psnr[*a"),
        ("psnr[a] < 1e999", "1e309"),
    ],
)
def test_anything_else_is_refused_by_name(text, piece):
    with pytest.raises(
        ValueError, match=rf"^claim koh2024.y: .*{re.escape(piece)}.* is outside of the grammar; expected"
    ):
        parse(text, "koh2024.y")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "psnr[a] >",
        "psnr[a] > 1; psnr[b] > 1",
        "psnr[a] > 1\npsnr[b]",
        "psnr[a]] > 1",
        "a = 1",
        "\0",
        "import os",
        "1 <> 2",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ValueError, match=r"claim koh2024.y: compare=.* does not parse \(\w+\)"):
        parse(text, "koh2024.y")


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "1" + ")" * 5000 + " > 0", "-" * 30_000 + "1 > 0", "not " * 30_000 + "1 > 0"]
)
def test_depth_without_end_is_refused(text):
    with pytest.raises(ValueError, match=r"claim koh2024.y: compare=.* (does not parse|is nested too deeply)"):
        parse(text, "koh2024.y")


def test_a_division_by_zero_does_not_hold():
    ratio = parse("psnr[a] / psnr[b] > 1")
    assert not ratio({"psnr[a]": 0.0, "psnr[b]": 0.0}) and ratio({"psnr[a]": 1.0, "psnr[b]": 0.0})


# -- verdicts ------------------------------------------------------------------------------------------------------------


def test_the_four_verdicts():
    good, bad = rec("psnr", [40, 41, 42, 43], "a"), rec("psnr", [20, 21, 22, 23], "b")
    assert verdict("psnr[a] > psnr[b]", good, bad) == REPRODUCED
    assert verdict("psnr[a] < psnr[b]", good, bad) == NOT_REPRODUCED
    assert verdict("psnr[a] > psnr[b] + 20", good, bad) == INCONCLUSIVE
    judged = judge(claim("psnr[a] > psnr[b]", profile="class"), [good, bad], "smoke")
    assert (judged.verdict, judged.reason) == (NOT_RUN, "needs the profile class: a reason")
    assert [str(f) for f in judged.ours] == ["psnr[a] = 41.5 ± 1.3 (n=4)", "psnr[b] = 21.5 ± 1.3 (n=4)"]


def test_the_reason_says_how_sure():
    records = [rec("psnr", [40, 41, 42, 43], "a"), rec("psnr", [20, 21, 22, 23], "b")]
    judged = judge(claim("psnr[a] > psnr[b] + 20"), records, "smoke")
    assert judged.share == pytest.approx(0.5, abs=0.03)
    assert re.fullmatch(
        r"holds in \d\d\.\d% of 4,000 draws of the means: the spread covers the difference", judged.reason
    )
    assert judge(claim("psnr[a] > 0"), records, "smoke").reason == "holds in 100.0% of 4,000 draws of the means"


def test_a_lab_that_was_not_run_and_a_lab_that_did_not_record():
    other = rec("psnr", [40, 41], "a", lab="04")
    at_laptop = rec("psnr", [40, 41], "a", profile="class")
    asked = claim("psnr[a] > 30")
    assert judge(asked, [], "smoke").reason == judge(asked, [other, at_laptop], "smoke").reason == "lab 05 was not run"
    ran = judge(asked, [other], "smoke", ran=True)
    assert (ran.verdict, ran.reason) == (INCONCLUSIVE, "not recorded: psnr[a]")
    near = judge(claim("psnr[closed_form, arch_a] > 30"), [rec("psnr", [40, 41], "closed_form", "arch_b")], "smoke")
    assert near.reason == "not recorded: psnr[closed_form, arch_a]; there is psnr[closed_form, arch_b]"
    with pytest.raises(ValueError, match=r"profile='huge'; try one of smoke"):
        judge(asked, [], "huge")


def test_a_higher_profile_judges_the_claims_of_the_lower_ones():
    assert judge(claim("psnr[x] > 30"), [rec("psnr", [40, 41, 42], profile="gpu")], "gpu").verdict == REPRODUCED


def test_a_single_value_has_no_spread_to_judge_by():
    judged = judge(claim("psnr[a] > psnr[b]"), [rec("psnr", 90.0, "a"), rec("psnr", [20, 21], "b")], "smoke")
    assert (judged.verdict, judged.reason) == (INCONCLUSIVE, "one value of psnr[a], so no spread; repeat it")


def test_repeats_without_spread_decide_by_themselves():
    assert verdict("label_accuracy[x] == 1", rec("label_accuracy", [1, 1, 1])) == REPRODUCED
    assert verdict("label_accuracy[x] == 1", rec("label_accuracy", [1, 1, 0.9])) == NOT_REPRODUCED
    assert verdict("psnr[x] > 300", rec("psnr", [float("inf"), float("inf")])) == REPRODUCED


def test_an_identity_must_hold_in_every_repeat():
    error = "relative_error[x] < 1e-6"
    good = judge(claim(error, "identity"), [rec("relative_error", [1e-9, 2e-9, 1e-16])], "smoke")
    bad = judge(claim(error, "identity"), [rec("relative_error", [1e-9] * 99 + [1e-5])], "smoke")
    assert (good.verdict, good.reason) == (REPRODUCED, "holds in all 3 repeats")
    assert (bad.verdict, bad.reason) == (NOT_REPRODUCED, "fails in 1 of 100 repeats")
    one = judge(claim(error, "identity"), [rec("relative_error", 1e-9)], "smoke")
    assert (one.verdict, one.reason) == (REPRODUCED, "holds in the one repeat")
    assert verdict("null_space_gap[x] == 0", rec("null_space_gap", [0, -1, 1]), kind="identity") == NOT_REPRODUCED


def test_repeats_of_an_identity_belong_together_in_their_order():
    a, b = rec("params_m", [1, 2, 3], "a"), rec("params_m", [1, 2, 3], "b")
    assert verdict("params_m[a] == params_m[b]", a, b, kind="identity") == REPRODUCED
    assert verdict("params_m[a] == params_m[b]", a, rec("params_m", [3, 2, 1], "b"), kind="identity") == NOT_REPRODUCED
    assert verdict("params_m[a] >= params_m[b]", a, rec("params_m", 1, "b"), kind="identity") == REPRODUCED
    odd = judge(claim("params_m[a] == params_m[b]", "identity"), [a, rec("params_m", [1, 2], "b")], "smoke")
    assert (odd.verdict, odd.reason) == (INCONCLUSIVE, "2 and 3 repeats cannot be held against each other")


def test_an_outlier_does_not_speak_for_an_mse_on_its_own():
    # Every repeat is above 0.01, one of them far: the arithmetic mean's interval reaches below 0, the logs' does not.
    diverged = [0.2, 0.5, 30.0, 1e4]
    assert verdict("mse[x] > 0.01", rec("mse", diverged)) == REPRODUCED
    assert verdict("mean_error[x] > 0.01", rec("mean_error", diverged)) == INCONCLUSIVE  # the same, on the plain scale


def test_an_exact_image_does_not_spoil_what_all_repeats_agree_in():
    psnr = [80.0, 85.0, float("inf"), 88.0, 90.0]
    assert verdict("psnr[x] > 60", rec("psnr", psnr)) == REPRODUCED
    assert verdict("mse[x] < 1e-6", rec("mse", [0.0, 3e-9, 1e-9, 2e-9, 4e-9])) == REPRODUCED
    assert verdict("psnr[x] > 60", rec("psnr", psnr[:4])) == INCONCLUSIVE  # four on one side may be luck
    assert (
        verdict("psnr[x] < 20", rec("psnr", [10.0, 11.0, float("inf"), 12.0, 11.5])) == INCONCLUSIVE
    )  # nor is it overlooked


def test_judging_mse_is_judging_psnr():
    rng = np.random.default_rng(1)
    for _ in range(20):
        psnr = rng.normal(20, 3, size=(2, 4))
        named = zip("ab", psnr, strict=True)
        shares = [
            judge(claim(text), [rec(metric, scale(v), key) for key, v in named_copy], "smoke").share
            for text, metric, scale, named_copy in [
                ("psnr[a] > psnr[b]", "psnr", lambda v: v, list(named)),
                ("mse[a] < mse[b]", "mse", lambda v: 10 ** (-v / 10), list(zip("ab", psnr, strict=True))),
            ]
        ]
        assert shares[0] == pytest.approx(shares[1], abs=0.03)  # the draws of two names are shuffled differently


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=12), st.floats(-5, 5))
def test_a_threshold_is_judged_as_by_student_s_t_test(values, threshold):
    assume(np.std(values) > 1e-3 and threshold not in values)
    share = judge(
        claim(f"auc[x] > {threshold!r}" if threshold >= 0 else f"auc[x] > -{-threshold!r}"),
        [rec("auc", values)],
        "smoke",
    ).share
    p = stats.ttest_1samp(values, threshold, alternative="greater").pvalue
    if len(values) >= 5 and not min(values) < threshold < max(values):
        p = float(threshold >= max(values))
    assert share == pytest.approx(1 - p, abs=1 / 4000)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-20, 20), min_size=2, max_size=8),
    st.lists(st.integers(-20, 20), min_size=2, max_size=8),
    st.integers(0, 30),
)
def test_more_of_what_is_claimed_never_makes_it_less_sure(a, b, shift):
    before, after = (
        judge(claim("auc[a] > auc[b]"), [rec("auc", [v + s for v in a], "a"), rec("auc", b, "b")], "smoke").share
        for s in (0, shift)
    )
    against = judge(claim("not auc[a] > auc[b]"), [rec("auc", a, "a"), rec("auc", b, "b")], "smoke").share
    assert after >= before - 1e-3
    assert against == pytest.approx(1 - before)


def test_a_verdict_is_the_same_in_every_run_and_order():
    a, b = rec("psnr", [1.0, 2.0, 4.0], "a"), rec("psnr", [1.5, 2.0, 2.5], "b")
    shares = {
        judge(claim("psnr[a] > psnr[b]"), records, "smoke").share
        for records in ([a, b], [b, a], [a, rec("ssim", [0, 1]), b])
    }
    assert len(shares) == 1


OTHER_SIZES = [pytest.param(sizes, marks=pytest.mark.weekly) for sizes in ((4, 4), (3, 8), (5, 5), (8, 8))]


@pytest.mark.parametrize("sizes", [(2, 2), *OTHER_SIZES])
def test_equal_means_seldom_end_in_a_decision(sizes):
    rng = np.random.default_rng(2)
    ends = []
    for _ in range(400):
        a, b = (rec("psnr", rng.normal(20, sd, size=n), key) for n, sd, key in zip(sizes, (1, 2), "ab", strict=True))
        ends.append(verdict("psnr[a] > psnr[b]", a, b))
    for decisive in (REPRODUCED, NOT_REPRODUCED):  # 5% each way at most; 400 draws have a standard error of 1.1%
        assert ends.count(decisive) / 400 <= 0.05 + 0.03
    assert ends.count(INCONCLUSIVE) > 0.85 * 400


def test_a_true_difference_is_found():
    rng = np.random.default_rng(3)
    ends = [
        verdict("psnr[a] > psnr[b]", *(rec("psnr", rng.normal(m, 1, 8), k) for m, k in ((22, "a"), (20, "b"))))
        for _ in range(100)
    ]
    assert ends.count(REPRODUCED) > 90 and ends.count(NOT_REPRODUCED) == 0


def test_errors_over_decades_are_judged_at_their_true_rate():
    rng = np.random.default_rng(4)
    ends = [verdict("mse[a] < mse[b]", *(rec("mse", 10 ** rng.normal(-4, 2, 4), k) for k in "ab")) for _ in range(400)]
    assert ends.count(REPRODUCED) / 400 <= 0.08 and ends.count(NOT_REPRODUCED) / 400 <= 0.08


def test_a_conjunction_is_no_surer_than_its_halves():
    records = [rec("psnr", [1.0, 2.0, 4.0], "a"), rec("psnr", [1.5, 2.0, 2.5], "b")]
    share = {
        t: judge(claim(t), records, "smoke").share
        for t in ("psnr[a] > 2", "psnr[b] > 1.9", "psnr[a] > 2 and psnr[b] > 1.9")
    }
    first, second, both = share.values()
    assert max(first + second - 1, 0) <= both <= min(first, second)
    assert both == pytest.approx(first * second, abs=0.02)  # each mean is drawn by itself


# -- the papers' own numbers ----------------------------------------------------------------------------------------------


def test_printed_numbers_are_held_against_the_claim():
    april, dlg = (papers.Printed(f"mse[{k}]", m, None, None, "Table 1") for k, m in (("april", 0.002), ("dlg", 0.017)))
    assert holds_on_printed_numbers(claim("mse[april] < mse[dlg]", numbers=(april, dlg))) is True
    assert holds_on_printed_numbers(claim("mse[april] > mse[dlg]", numbers=(april, dlg))) is False
    assert holds_on_printed_numbers(claim("mse[april] < mse[dlg]", numbers=(april,))) is None


def test_the_book_s_claims_say_rightly_whether_the_printed_numbers_bear_them_out():
    for one in papers.claims():
        assert holds_on_printed_numbers(one) is one.holds_on_printed_numbers, one.id


def test_the_verdicts_are_four():
    assert set(verdicts.VERDICTS) == {REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN}
