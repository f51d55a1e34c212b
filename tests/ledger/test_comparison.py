"""The grammar against Python's own evaluation, what is outside of it, and the papers' own numbers against their claims."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privlab.ledger import panel, papers, report
from privlab.ledger.comparison import atoms, each, names, parse, ranges
from privlab.ledger.judging import Judgement

NAMES = ["psnr[a]", "psnr[b]", "mse[a, b_2]", "ssim[relative_0p01, x, y]"]
number = st.deferred(
    lambda: (
        st.sampled_from(NAMES)
        | st.integers(0, 9).map(str)
        | st.floats(0, 100).map(repr)
        | st.builds("({} {} {})".format, number, st.sampled_from("+-*/"), number)
        | st.builds("-{}".format, number)
    )
)
side = (
    number
    | st.builds("abs({})".format, number)
    | st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), number, number)
)
operators = st.sampled_from(["<", "<=", ">", ">=", "=="])
truth = st.deferred(
    lambda: (
        st.builds("{} {} {}".format, side, st.sampled_from(["<", "<=", ">", ">="]), side)
        | st.builds("{} == {}".format, number, number)
        | st.builds("{} {} {} {} {}".format, number, operators, number, operators, number)
        | st.builds("({} {} {})".format, truth, st.sampled_from(["and", "or"]), truth)
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
    return eval(text, {**{w: w for w in words}, **{m: Lookup(m, values) for m in ("psnr", "mse", "ssim")}})


@settings(max_examples=100, deadline=None)
@given(truth, st.lists(st.integers(-3, 3) | st.floats(-1e3, 1e3), min_size=len(NAMES), max_size=len(NAMES)))
def test_a_comparison_means_what_it_means_in_python(text, numbers):
    values = dict(zip(NAMES, map(float, numbers), strict=True))
    try:
        expected = by_python(text, values)
    except ZeroDivisionError:
        assume(False)
    assert bool(each(parse(text), values)) == expected
    arrays = {name: np.array([value, value]) for name, value in values.items()}
    assert np.broadcast_to(each(parse(text), arrays), 2).tolist() == [expected] * 2
    assert set(names(text)) == {n for atom in atoms(parse(text)) for n in atom.names} == {n for n in NAMES if n in text}


@pytest.mark.parametrize(
    "piece",
    [
        "__import__('os').system('true')", "psnr.real", "psnr", "psnr[0]", "psnr['a']", "psnr[a:b]", "psnr[a][b]", "psnr[A]",
        "psnr[a] ** 2", "+psnr[a]", "sum(psnr[a], 1)", "max(psnr[a])", "2 * max(psnr[a], 1)", "max(psnr[a], 1, key=abs)",
        "True", "'a'", "1j", "9" * 400, "psnr[a] if mse[b] > 1 else 2", "lambda: 1", "[psnr[a]]", "not psnr[a] > 1",
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(piece):
    with pytest.raises(ValueError, match=r" is outside of the grammar; expected"):
        parse(f"({piece}) > 1")


@pytest.mark.parametrize(
    "text", ["", "psnr[a] >", "a = 1", "import os", "1 <> 2", "\0", "(" * 5000 + "1" + ")" * 5000 + " > 0"]
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ValueError, match=r"does not parse \(\w+\)|null bytes"):
        parse(text)


@pytest.mark.parametrize("text", ["psnr[a] in mse[b]", "psnr[a] + 1", "psnr[a]", "max(psnr[a], 2)", "not psnr[a] > 1"])
def test_what_is_no_comparison_is_refused(text):
    with pytest.raises(ValueError, match="expected a comparison, and, or"):
        parse(text)


END = math.inf


@pytest.mark.parametrize(
    ("compare", "wanted"),
    [
        ("psnr[a] > psnr[b]", [("psnr[a] - psnr[b]", 0, END)]),
        ("psnr[a] < psnr[b] < psnr[c]", [("psnr[b] - psnr[a]", 0, END), ("psnr[c] - psnr[b]", 0, END)]),
        ("psnr[a] > psnr[b] + 10", [("psnr[a] - psnr[b]", 10, END)]),
        ("psnr[a] - 3 >= psnr[b] - 1", [("psnr[a] - psnr[b]", 2, END)]),
        ("abs(psnr[a] - psnr[b]) < 2", [("psnr[a] - psnr[b]", -2, 2)]),
        ("abs(psnr[a] - psnr[b] - 24.9) < 5", [("psnr[a] - psnr[b]", 19.9, 29.9)]),
        ("0 < psnr[a] - psnr[b] < 5", [("psnr[a] - psnr[b]", 0, 5)]),
        ("psnr[a] > 20 and ssim[a] - ssim[b] < 0.1", [("psnr[a]", 20, END), ("ssim[a] - ssim[b]", -END, 0.1)]),
        ("psnr[a] > max(psnr[b], psnr[c])", [("psnr[a] - psnr[b]", 0, END), ("psnr[a] - psnr[c]", 0, END)]),
        ("psnr[a] > 3 * psnr[b]", [("psnr[a] - 3 * psnr[b]", 0, END)]),
        ("gap[a] == 0", []),
    ],
)
def test_what_a_comparison_is_about_and_where_it_is_wanted(compare, wanted):
    assert ranges(parse(compare)) == [(text, pytest.approx(low), pytest.approx(high)) for text, low, high in wanted]


# -- the papers' own numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compare", "known", "holds"),
    [
        ("mse[april] < mse[dlg]", 2, True),
        ("mse[april] > mse[dlg]", 2, False),
        ("mse[april] < mse[dlg]", 1, None),
        ("mse[april] < 1 and mse[tag] < 1", 1, None),
        ("mse[april] > 1 and mse[tag] < 1", 1, False),  # one part is enough
    ],
)
def test_printed_numbers_are_held_against_the_claim(compare, known, holds):
    numbers = [papers.Printed(f"mse[{k}]", m, None, None, "Table 1") for k, m in (("april", 0.002), ("dlg", 0.017))]
    one = papers.Claim("lu2022.x.y", "Table 1", "05", "ordering", "S.", compare, numbers=numbers[:known])
    assert one.holds_on_printed_numbers is holds


DENIED = [c for c in papers.claims() if c.holds_on_printed_numbers is False]


@pytest.mark.parametrize("denied", DENIED, ids=lambda c: c.id)
def test_what_a_paper_s_own_numbers_deny_says_so_wherever_it_is_shown(denied):
    assert re.search(r"\b(denies|deny|contradicts?)\b", f"{denied.statement} {denied.note}"), "say it in the note"
    judged = [Judgement(denied, "class", "measuring", "")]
    shown = panel.Panel("", tuple(judged))
    for text in (*(report.render(judged, form) for form in report.FORMS), repr(shown), shown._repr_html_()):
        assert "these contradict the claim" in text
