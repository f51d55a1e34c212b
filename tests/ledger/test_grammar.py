"""The grammar against Python's own evaluation, and the papers' own numbers against their claims."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privlab.ledger import panel, papers, report
from privlab.ledger.grammar import parse
from privlab.ledger.judging import Judgement
from privlab.ledger.papers import Claim, holds_on_printed_numbers


def claim(compare: str, kind: str = "ordering", **changes) -> Claim:
    return Claim("lu2022.x", "lu2022", "Table 1", "05", kind, "S.", compare, **changes)


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


# -- the papers' own numbers ----------------------------------------------------------------------------------------------


def test_printed_numbers_are_held_against_the_claim():
    april, dlg = (papers.Printed(f"mse[{k}]", m, None, None, "Table 1") for k, m in (("april", 0.002), ("dlg", 0.017)))
    assert holds_on_printed_numbers(claim("mse[april] < mse[dlg]", numbers=(april, dlg))) is True
    assert holds_on_printed_numbers(claim("mse[april] > mse[dlg]", numbers=(april, dlg))) is False
    assert holds_on_printed_numbers(claim("mse[april] < mse[dlg]", numbers=(april,))) is None
    assert holds_on_printed_numbers(claim("mse[april] < 1 and mse[tag] < 1", numbers=(april,))) is None
    assert (
        holds_on_printed_numbers(claim("mse[april] > 1 and mse[tag] < 1", numbers=(april,))) is False
    )  # one part is enough


DENIED = [c for c in papers.claims() if c.holds_on_printed_numbers is False]


@pytest.mark.parametrize("denied", DENIED, ids=lambda c: c.id)
def test_what_a_paper_s_own_numbers_deny_says_so_wherever_it_is_shown(denied):
    assert re.search(r"\b(denies|deny|contradicts?)\b", f"{denied.statement} {denied.note}"), "say it in the note"
    judged = [Judgement(denied, "class", "measuring", "")]
    shown = [report.render(judged, form) for form in report.FORMS if form != "json"]
    for text in (*shown, repr(panel.Panel("", tuple(judged))), panel.Panel("", tuple(judged))._repr_html_()):
        assert "these contradict the claim" in text
