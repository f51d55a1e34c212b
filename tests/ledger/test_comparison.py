"""The grammar against Python's own evaluation, what is outside of it, and the papers' own numbers against their claims."""

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privlab.ledger import papers, report
from privlab.ledger.comparison import NAME, atoms, bar, names, parse, value
from privlab.ledger.judging import Judgement
from privlab.notebook.verdicts import Verdicts

NAMES = ["psnr[a]", "psnr[b]", "mse[a, b_2]", "ssim[relative_0p01, x, y]"]
number = st.recursive(
    st.sampled_from(NAMES) | st.integers(0, 9).map(str) | st.floats(0, 100).map(repr),
    lambda x: st.builds("({} {} {})".format, x, st.sampled_from("+-*/"), x),
)
extreme = st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), number, number)
side = number | extreme
operators = st.sampled_from(["<", "<=", ">", ">="])
truth = st.recursive(
    st.builds("{} {} {}".format, side, operators, side)
    | st.builds("{} == {}".format, number, number)
    | st.builds("abs({}) {} {}".format, number, st.sampled_from(["<", "<="]), side)
    | st.builds("{} >= abs({})".format, number, number)
    | st.builds("{} {} {} {} {}".format, number, operators, number, operators, number),
    lambda x: st.builds("({} {} {})".format, x, st.sampled_from(["and", "or"]), x),
)


@settings(max_examples=50, deadline=None)
@given(truth, st.lists(st.integers(-3, 3) | st.floats(-1e3, 1e3), min_size=len(NAMES), max_size=len(NAMES)))
def test_a_comparison_means_what_it_means_in_python(text, numbers):
    values = dict(zip(NAMES, map(float, numbers), strict=True))
    try:
        expected = eval(NAME.sub(lambda name: f"({values[name[0]]!r})", text))
    except ZeroDivisionError:
        assume(False)
    assert bool(value(text, values)) == expected
    arrays = {name: np.array([number, number]) for name, number in values.items()}
    assert np.broadcast_to(value(text, arrays), 2).tolist() == [expected] * 2
    assert {*names(*atoms(parse(text)))} == {*names(text)} == {n for n in NAMES if n in text}


@pytest.mark.parametrize(
    "text", ["__import__('os').system('true') > 1", "psnr.real > 1", "sum(psnr[a], 1) > 1", "psnr[a] ** 2 > 1", "abs(psnr[a]) > 1"]
)  # fmt: skip
def test_anything_else_is_refused_by_name_and_never_run(text):
    with pytest.raises(ValueError, match="is outside of the grammar"):
        value(text, {"psnr[a]": 1.0})


@pytest.mark.parametrize("compare, denied", [
    ("mse[april] < mse[dlg]", False), ("mse[april] > mse[dlg]", True), ("mse[april] > mse[dlg] and mse[tag] < 1", True),
])  # fmt: skip
def test_printed_numbers_are_held_against_the_claim(compare, denied):
    numbers = [papers.Printed(f"mse[{k}]", m, None, None, "Table 1") for k, m in (("april", 0.002), ("dlg", 0.017))]
    one = papers.Claim("lu2022.x.y", "Table 1", "05", "ordering", "S.", compare, numbers=numbers)
    assert ("these contradict the claim" in report.printed(one)) is denied


def test_what_a_paper_s_own_numbers_deny_says_so_wherever_it_is_shown():
    denied = [c for c in papers.claims() if "contradict the claim" in report.printed(c)]
    for claim in denied:
        assert re.search(r"\b(denies|deny|contradicts?)\b", f"{claim.statement} {claim.note}"), f"say it of {claim.id}"
    judged = [Judgement(claim, "class", "measuring", "") for claim in denied]
    for text in (report.render(judged), report.render(judged, "csv"), Verdicts("", judged)._repr_html_()):
        assert text.count("these contradict the claim") == len(denied) > 0


@pytest.mark.parametrize("compare, wanted", [
    ("psnr[a] < psnr[b] < 9", [("psnr[b] - psnr[a]", 0, math.inf), ("psnr[b]", -math.inf, 9)]),
    ("abs(psnr[a] - 24.9) < 5", [("psnr[a] - 24.9", -math.inf, 5), ("psnr[a] - 24.9", -5, math.inf)]),
    ("psnr[a] > max(3 * psnr[b], 2)", [("psnr[a] - 3 * psnr[b]", 0, math.inf), ("psnr[a]", 2, math.inf)]),
])  # fmt: skip
def test_what_an_atom_is_about_and_where_it_is_wanted(compare, wanted):
    assert [*map(bar, atoms(parse(compare)))] == wanted
