"""Reports: what stands in which cell, and that nothing breaks out of its format."""

import csv
import io
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from judgements import IN_PRINT, judged

from privlab.ledger import judging, report
from privlab.ledger.judging import INCONCLUSIVE, MEASURING, NOT_REPRODUCED, REPRODUCED, STAND_IN

SEVERAL = [
    judged("privlab.ours", REPRODUCED),
    judged("lu2022.two", INCONCLUSIVE, printed="a figure"),
    judged("koh2024.three", NOT_REPRODUCED, numbers=IN_PRINT),
]


def test_claims_are_counted_by_paper_scope_and_verdict_and_what_was_chosen_after_a_look_apart():
    looked, waits = judged("lu2022.y", exploratory="class"), judged("lu2022.z", MEASURING, "")
    assert report.counts([*SEVERAL, judged("lu2022.x", scope=judging.OWN), looked, waits]) == [
        ["paper", "scope", *judging.VERDICTS],
        ["koh2024", STAND_IN, "-", "1", "-", "-", "-"],
        ["lu2022", judging.OWN, "1", "-", "-", "-", "-"],
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
    before = [judged(f"lu2022.{name}", old) for name, old in zip("abcd", (REPRODUCED, INCONCLUSIVE) * 2, strict=True)]
    after = (REPRODUCED, REPRODUCED, INCONCLUSIVE, NOT_REPRODUCED)
    now = [judged(f"lu2022.{name}", new) for name, new in zip("abcd", after, strict=True)]
    assert report.changes(now, before)[1:] == [
        ["worse", "lu2022.c", REPRODUCED, "inconclusive, a stand-in: reason for inconclusive"],
        ["worse", "lu2022.d", INCONCLUSIVE, "not reproduced, a stand-in: reason for not reproduced"],
        ["other", "lu2022.b", INCONCLUSIVE, "reproduced, a stand-in: reason for reproduced"],
    ]


def rows(markdown: str) -> list[list[str]]:
    """Cells of every table row, split at the pipes that are not escaped."""
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in markdown.splitlines() if line.startswith("|")]


def test_a_page_has_its_counts_a_section_a_paper_and_a_row_a_claim():
    page = report.render(SEVERAL)
    assert page.startswith("# The ledger\n\n| paper | scope | reproduced |")
    assert "Of 0 claims about means 0 reproduced; 0 of them do if all are asked together" in page
    assert re.findall(r"^## (\w+)", page, re.M) == ["Koh", "Lu", "Beyond"]  # the papers' order, ours last
    table = [[cell.strip() for cell in row] for row in rows(page) if "statement" in row[0].lower()]
    assert table[0] == ["statement", "where", "printed", "ours", "verdict", "why", "id"]
    (three,) = (row for row in table if row[-1] == "koh2024.three")
    assert three[1:-1] == [
        "Table 1; lab 05",
        r"psnr\[a\] = 36.24 ± 5.21 dB; psnr\[b\] = 40 dB; these contradict the claim",
        r"psnr\[a\] = 40 ± 1.5 (n=4); psnr\[b\] = 20 (n=1)",
        "not reproduced, a stand-in",
        "reason for not reproduced; class: small networks",
    ]
    assert [row[2] for row in table if row[-1] == "lu2022.two"] == ["a figure"]


@given(st.text())
def test_no_text_breaks_a_markdown_row(text):
    table = rows("\n".join(report.grid([["a", "b"], [text, text]])))
    assert [len(row) for row in table] == [2, 2, 2] and not re.search(r"(?<!\\)<", table[-1][0])


def test_csv_gives_back_what_went_in():
    nasty = 'a|b "c", $x_1$; <d>'
    (row,) = csv.DictReader(io.StringIO(report.render([judged(statement=nasty, p=0.03)], "csv")))
    told = [row[k] for k in ("statement", "size", "id", "verdict", "p", "printed", "ours")]
    ours = "psnr[a] = 40 ± 1.5 (n=4); psnr[b] = 20 (n=1)"
    assert told == [nasty, "class", "lu2022.one", f"{REPRODUCED}, {STAND_IN}", "0.03", "no number in print", ours]


def test_needs_are_shown_with_their_state_and_without_one_while_measuring():
    both = ("psnr[a] > 20", "psnr[b] > 20")
    states = {both[0]: "holds (why)", both[1]: "is undecided (why)"}
    told = report.reasons(replace(judged(needs=both), needs=states))
    assert told[1] == "needs: psnr[a] > 20 holds; psnr[b] > 20 is undecided"
    assert report.reasons(judged(verdict=MEASURING, needs=both))[1] == "needs: psnr[a] > 20; psnr[b] > 20"
