"""The findings: short paragraphs with a figure, each resting on claims whose verdicts are those for which it was written."""

import math
import re
from dataclasses import replace
from pathlib import Path

import claim_pages
import dots
import findings_page
import pandas as pd
import pytest

from privlab.ledger import judging, papers
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]
FINDINGS = findings_page.findings()
README = (ROOT / "README.md").read_text()
FEWER = {"membership.architectures": 5}  # registered before a repeat was measured: a repeat is twelve trainings


@pytest.fixture(scope="module")
def judged():
    return judging.judgements()


@pytest.mark.parametrize("finding", FINDINGS, ids=[one.lab for one in FINDINGS])
def test_every_number_of_a_finding_has_repeats_enough_for_an_interval(finding):
    assert len(finding.filled(f"{finding.short} {finding.text}").split()) <= 120, "it is read in a minute"
    assert finding.alt and not re.search(r"\d", finding.alt), "what is seen; the numbers are told with the dots"
    for key in (*finding.rows, *finding.numbers):
        least = FEWER.get(finding.evidence(key).experiment, 8)
        assert finding.evidence(key).complete and len(finding.dots(key).values) >= least, key
    for key in finding.numbers:
        assert f"{{{{ {key} }}}}" in finding.short + finding.text, f"{key} is not quoted"


def test_the_claims_have_the_verdicts_for_which_the_words_were_written(judged):
    now = {j.claim.id: j.verdict for j in judged}
    for finding in FINDINGS:
        moved = {name: (then, now[name]) for name, then in finding.claims.items() if now[name] != then}
        assert not moved, f"read again what lab {finding.lab}'s finding says, then write the new verdict beside it"


def test_the_page_says_n_and_scope_and_where_a_verdict_moved(judged):
    labs = {lab.number: lab.name for lab in catalogue.pick(catalogue.everything(ROOT / "labs"))}
    text = findings_page.page(judged, labs)
    assert text.count("<figure ") == len(FINDINGS) and "This was written when" not in text
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL):
        assert re.search(r"\d+ repeats at size \w+, ", caption)
    one = "privlab.search.position_scale"
    moved = [replace(j, verdict=judging.INCONCLUSIVE) if j.claim.id == one else j for j in judged]
    words = "This was written when a claim was reproduced: it is now inconclusive (<a href="
    assert words in findings_page.page(moved, labs)


def test_a_number_has_as_many_digits_as_its_interval_bears_and_its_words():
    """1, 2, 3, 4: mean 2.5, 95% interval 2.5 ± 3.182 * 0.6455 = ± 2.054."""
    told = [dots.number(value, half) for value, half in ((0.512345, 0), (11_173_962, 0), (-3.0, 0), (11.2237, 0.61))]
    assert told == ["0.512", "11,173,962", "−3", "11.22"]
    one = dots.Dots("psnr[a]", [1.0, 2.0, 3.0, 4.0])
    assert (one.told, one.mean, one.error) == ("2.5 (0.4 to 4.6)", "2", "0.6")
    assert dots.within(-2, 2) == "above −2 and below 2" and dots.within(1, math.inf) == "above 1"


def test_the_rows_of_a_chart_stand_on_one_axis():
    drawn = dots.chart([dots.Dots("a", [0.0, 0.0, 10.0], printed=5.0, marks=[5.0]), dots.Dots("b", [10.0])])
    low, same, high, other = map(float, re.findall(r'<circle cx="([\d.]+)%"', drawn))
    (mark,) = map(float, re.findall(r'class="bound" x1="([\d.]+)%"', drawn))
    (paper,) = map(float, re.findall(r'<svg x="([\d.]+)%"', drawn))
    assert low == same < high == other and mark == paper == pytest.approx((low + high) / 2, abs=0.02)


def test_the_readme_quotes_findings_to_the_word():
    section = README.split("## What we found so far")[1].split("\n## ")[0]
    quoted = {line.removeprefix("- ") for line in section.splitlines() if line.startswith("- ")}
    said = {finding.filled(finding.short) for finding in FINDINGS}
    assert quoted and quoted <= said, "the sentences of the book are:\n- " + "\n- ".join(sorted(said))


def test_a_chart_of_a_claim_has_one_row_for_a_number_that_is_wanted_between_two():
    claim = papers.Claim("lu2022.x.y", "Table 1", "05", "ordering", "S.", "abs(psnr[a] - 24.9) < 5")
    (row,) = claim_pages.rows(claim, [pd.DataFrame({"psnr[a]": [20.0, 30.0]})])
    assert (row.label, row.marks) == ("psnr[a] - 24.9", [-5, 5]) and row.wanted == "above −5 and below 5"
