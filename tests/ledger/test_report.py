"""Reports: what stands in which cell, and that nothing breaks out of its format."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from colours import luminance
from hypothesis import given
from hypothesis import strategies as st
from markup import Page

from privlab.ledger import panel, report
from privlab.ledger.figures import Figure
from privlab.ledger.judging import (
    INCONCLUSIVE,
    MEASURING,
    NOT_REPRODUCED,
    OWN,
    REPRODUCED,
    STAND_IN,
    VERDICTS,
    Judgement,
    Need,
)
from privlab.ledger.papers import Claim, Printed

NASTY = r'a|b <script>&"\textbf{50%} $x_1$ #~^ `c` *d* [e](f)' + "\nnext"


def claim(name: str = "lu2022.one", **changes) -> Claim:
    plain = {
        "where": "Table 1",
        "lab": "05",
        "kind": "ordering",
        "statement": f"Statement of {name}.",
        "compare": "psnr[a] > psnr[b]",
    }
    return Claim(**{"id": name, **plain, **changes})


def judged(name: str = "lu2022.one", verdict: str = REPRODUCED, scope: str = STAND_IN, p=None, **changes) -> Judgement:
    figures = (Figure("psnr[a]", 40.0, 1.5, 4, 0, False, (38, 42)), Figure("psnr[b]", 20.0, None, 1, 0, False, None))
    about = dict(ours=figures, scope=scope, stands_for="small networks", p=p)
    return Judgement(claim(name, **changes), "class", verdict, f"reason for {verdict}", **about)


SEVERAL = [
    judged("privlab.ours", REPRODUCED),
    judged("lu2022.two", INCONCLUSIVE, printed="a figure"),
    judged(
        "koh2024.three",
        NOT_REPRODUCED,
        numbers=(Printed("psnr[a]", 36.24, 5.21, "dB", "Table 5"), Printed("psnr[b]", 40.0, None, "dB", "Table 5")),
    ),
]


def test_claims_are_counted_by_paper_scope_and_verdict_and_what_was_chosen_after_a_look_apart():
    more = [judged("lu2022.x", scope=OWN), judged("lu2022.y", exploratory="class"), judged("lu2022.z", MEASURING, "")]
    assert report.counts([*SEVERAL, *more]) == [
        ["paper", "scope", *VERDICTS],
        ["koh2024", STAND_IN, "-", "1", "-", "-", "-"],
        ["lu2022", OWN, "1", "-", "-", "-", "-"],
        ["lu2022", STAND_IN, "-", "-", "1", "-", "-"],
        ["lu2022", "-", "-", "-", "-", "-", "1"],
        ["privlab", STAND_IN, "1", "-", "-", "-", "-"],
        ["chosen after a look", STAND_IN, "1", "-", "-", "-", "-"],
    ]


def test_holms_count_by_hand():
    """0.05 over four, three, two: 0.0125 and 0.01667 are passed, 0.025 is not, and what comes behind it is not asked."""
    tested = [judged(f"lu2022.c{i}", p=p) for i, p in enumerate((0.026, 0.012, 0.0166, 0.04))]
    assert report.holm([*tested, judged(p=None), judged(p=1e-9, exploratory="class")]) == (4, 4, 2)
    assert report.holm([]) == (0, 0, 0)


def test_what_moved_since_other_evidence_names_the_worse_first():
    before = [
        judged("lu2022.a"),
        judged("lu2022.b", INCONCLUSIVE),
        judged("lu2022.c", INCONCLUSIVE),
        judged("lu2022.d"),
    ]
    now = [judged("lu2022.a"), judged("lu2022.b", REPRODUCED), judged("lu2022.c", NOT_REPRODUCED), judged("lu2022.new")]
    assert report.changes(now, before)[1:] == [
        ["worse", "lu2022.c", INCONCLUSIVE, "not reproduced, a stand-in: reason for not reproduced"],
        ["worse", "lu2022.d", REPRODUCED, "no longer a claim"],
        ["other", "lu2022.b", INCONCLUSIVE, "reproduced, a stand-in: reason for reproduced"],
    ]


# -- markdown ------------------------------------------------------------------------------------------------------------


def rows(markdown: str) -> list[list[str]]:
    """Cells of every table row, split at the pipes that are not escaped."""
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in markdown.splitlines() if line.startswith("|")]


def test_a_page_has_its_counts_a_section_a_paper_and_a_row_a_claim():
    page = report.render(SEVERAL)
    assert page.startswith("# The ledger\n\n| paper | scope | reproduced |")
    assert "Of 0 claims about means 0 reproduced; 0 of them do if all are asked together" in page
    assert re.findall(r"^## (\w+)", page, re.M) == ["Koh", "Lu", "Beyond"]  # the papers' order, ours last
    table = [row for row in rows(page) if len(row) == 4]
    assert [c.strip() for c in table[0]] == ["statement", "the paper's number", "ours", "verdict"]
    (three,) = (r for r in table if "koh2024.three" in r[0])
    assert three[1].strip() == r"psnr\[a\] = 36.24 ± 5.21 dB; psnr\[b\] = 40 dB; these contradict the claim"
    assert three[2].strip() == r"psnr\[a\] = 40 ± 1.5 (n=4); psnr\[b\] = 20 (n=1)"
    assert three[3].strip() == "**not reproduced, a stand-in** <br>reason for not reproduced <br>class: small networks"
    (two,) = (r for r in table if "lu2022.two" in r[0])
    assert two[1].strip() == "a figure"
    assert "`lu2022.two`" in two[0] and "<a " not in page


@given(st.text())
def test_no_text_breaks_a_markdown_row(text):
    page = report.render([judged(statement=text, where=text)])
    assert [len(r) for r in rows(page)] == [7, 7, 7, 4, 4, 4]
    assert not re.search(r"(?<!\\)<(?!br>)", rows(page)[-1][0])  # no tag but ours


# -- html ----------------------------------------------------------------------------------------------------------------


def test_a_panel_can_be_read_without_seeing_colours_or_layout():
    page = Page(panel.Panel("The title", tuple(SEVERAL))._repr_html_())
    assert page.names[:3] == ["div", "table", "caption"] and "The title" in page.text
    headers = [th["scope"] for th in page.all("th")]
    assert headers == ["col"] * 2 + ["row"] * 3
    for verdict in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE):
        assert f"{report.ICONS[verdict]}\u00a0{verdict}" in page.text and f"reason for {verdict}" in page.text
    assert page.text.count("more: claims/lu2022.html#lu2022.two in the book") == 1
    # colour only edges a cell: text keeps the page's own colours and contrast
    assert not any(re.search(r"(?<![-\w])(color|background)", attrs.get("style", "")) for _, attrs in page.tags)


def test_a_panel_says_the_verdict_first_and_numbers_by_plain_names():
    html = panel.Panel("", (SEVERAL[2], judged("privlab.ours.two")))._repr_html_()
    theirs, ours = re.findall(r"<tr [^>]*><td.*?</tr>", html)
    first = (
        r"<tr [^>]*><td[^>]*><strong>✗\u00a0not reproduced</strong><br><small>a stand-in</small></td><th scope=\"row\""
    )
    assert re.match(first, theirs)
    before, _, folded = theirs.partition("<details>")
    assert "the paper (Table 1): PSNR (a) = 36.24 ± 5.21 dB; PSNR (b) = 40 dB; these contradict the claim" in before
    assert "here: PSNR (a) = 40 ± 1.5 (n=4); PSNR (b) = 20 (n=1)" in before and "psnr[" not in before
    assert "<code>psnr[a] &gt; psnr[b]</code>" in folded and "reason for not reproduced" in folded
    assert "a claim of this book" in ours


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("psnr[gaussian, relative_0p01]", "PSNR (gaussian, relative 0.01)"),
        (
            "tpr_at_fpr_0p001[cifar10, swin] = 0.2",
            "TPR at FPR 0.001 (CIFAR-10, swin) = 0.2",
        ),
        ("attacc[orl, skip_4] > 1; acc[vit_b_16]", "attack accuracy (ORL, skip 4) > 1; accuracy (ViT b 16)"),
        (
            "mse[cifar10, swin]; mse[closed_form, arch_b]",
            "MSE of normalised images (CIFAR-10, swin); MSE of pixels (closed form, arch b)",
        ),
        ("no name [of a value]", "no name [of a value]"),
    ],
)
def test_names_are_said_in_words(name, words):
    assert panel.plain(name) == words


def test_a_panel_shows_eight_claims_and_folds_the_rest():
    """A headline's before a paper's before ours, and what is judged before what is not; each of them once."""
    many = [judged(f"privlab.ours.c{i}") for i in range(9)] + [judged("lu2022.late", MEASURING, "")]
    many += [judged("lu2022.plain", NOT_REPRODUCED), judged("lu2022.asked", INCONCLUSIVE, headline=3)]
    html = panel.Panel("The title", tuple(many))._repr_html_()
    shown, _, folded = html.partition("<details><summary>4 more claims</summary>")
    ids = [re.findall(r"Statement of ([\w.]+)\.<br>", part) for part in (shown, folded)]
    assert ids[0] == ["lu2022.asked", "lu2022.plain", *(f"privlab.ours.c{i}" for i in range(6))]
    assert ids[1] == [*(f"privlab.ours.c{i}" for i in range(6, 9)), "lu2022.late"]
    assert "more claims" not in panel.Panel("", tuple(many[:8]))._repr_html_()
    assert "<summary>6 more claims" in panel.Panel("", tuple(many[:8]), 2)._repr_html_()


def test_a_row_names_four_numbers_at_most():
    names = [f"psnr[n{i}]" for i in range(6)]
    one = judged(compare=" and ".join(f"{name} > 1" for name in names))
    one = replace(
        one, ours=tuple(Figure(name, 10.0 + i, 1.0, 8, 0, False, None) for i, name in enumerate([*names, "acc[need]"]))
    )
    before, _, folded = panel.Panel("", (one,))._repr_html_().partition("<details>")
    assert "PSNR (n3) = 13 ± 1 and 2 more in 8 repeats" in before and "n4" not in before and "need" not in before
    assert all(name in folded for name in (*names, "acc[need]"))


@pytest.mark.parametrize("form", ["md", "csv", "panel", "terminal"])
def test_needs_are_shown_with_their_state_and_without_one_while_measuring(form):
    with_needs = dict(needs=("psnr[a] > 20", "psnr[b] > 20"))
    states = (Need("psnr[a] > 20", "holds", "why"), Need("psnr[b] > 20", "is undecided", "why"))
    one, two = replace(judged(**with_needs), needs=states), judged("lu2022.two", MEASURING, "", **with_needs)
    both = panel.Panel("", (one, two))
    text = {"panel": both._repr_html_, "terminal": lambda: repr(both)}.get(
        form, lambda: report.render([one, two], form)
    )()
    plain = html.unescape(text).replace("\\", "")
    assert "needs: psnr[a] > 20 holds; psnr[b] > 20 is undecided" in plain
    assert "needs: psnr[a] > 20; psnr[b] > 20" in plain


def test_every_decision_has_an_edge_of_its_own_brightness():
    decided = [REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, MEASURING]
    html = panel.Panel("T", tuple(judged(f"lu2022.{i}", v) for i, v in enumerate(decided)))._repr_html_()
    colours = re.findall(r"border-left:[^#]*(#[0-9A-F]{6})", html)
    shades = sorted(luminance(c) for c in colours)
    assert len(set(colours)) == 4 and all(b - a > 0.03 for a, b in pairwise(shades))  # told apart in grey


def test_no_text_breaks_out_of_html():
    page = Page(panel.Panel(NASTY, (judged(statement=NASTY, where=NASTY, printed=NASTY, compare=NASTY),))._repr_html_())
    assert set(page.names) == {
        "div",
        "p",
        "em",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "br",
        "small",
        "code",
        "strong",
        "details",
        "summary",
    }
    assert page.text.count("<script>") == 5


def test_a_panel_reads_in_a_terminal():
    text = repr(panel.Panel("The title", (SEVERAL[2],)))
    assert text.splitlines() == [
        "The title",
        "  NOT REPRODUCED, A STAND-IN: Statement of koh2024.three.",
        "    Table 1: psnr[a] = 36.24 ± 5.21 dB; psnr[b] = 40 dB; these contradict the claim",
        "    here: psnr[a] = 40 ± 1.5 (n=4); psnr[b] = 20 (n=1)",
        "    reason for not reproduced",
        "    class: small networks",
        "    more: claims/koh2024.html#koh2024.three in the book",
    ]


# -- csv and latex -------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")))
def test_csv_gives_back_what_went_in(text):
    found = list(
        csv.DictReader(io.StringIO(report.render([judged(statement=text, p=0.03), judged("lu2022.two")], "csv")))
    )
    assert [r["statement"] for r in found] == [text, "Statement of lu2022.two."]
    first = found[0]
    assert [first[k] for k in ("size", "id", "verdict", "p")] == ["class", "lu2022.one", REPRODUCED, "0.03"]
    assert first["ours"] == "psnr[a] = 40 ± 1.5 (n=4); psnr[b] = 20 (n=1)" and first["printed"] == "no number in print"
