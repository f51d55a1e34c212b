"""The findings: eleven short paragraphs with a figure, each resting on claims whose verdicts are those for which it was written."""

import html
import math
import re
from dataclasses import replace
from pathlib import Path

import dots
import findings_page
import pytest

from privlab.ledger import judging
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]
FINDINGS = findings_page.findings()
README = (ROOT / "README.md").read_text()
NAMES = re.compile(r"(?:DeiT-Ti|ViT-B|ResNet|ConvNeXt|float|bfloat)\W?\d+")  # digits that count nothing
FEWER = {"membership.architectures": 5}  # registered before a repeat was measured: a repeat is twelve trainings
by_lab = pytest.mark.parametrize("finding", FINDINGS, ids=[one.lab for one in FINDINGS])


@pytest.fixture(scope="module")
def judged():
    return judging.judgements()


@by_lab
def test_a_finding_is_read_in_a_minute(finding):
    words = f"{finding.short} {finding.text}"
    assert len(finding.filled(words).split()) <= 120
    for sentence in re.split(r"(?<=[.:;?]) ", NAMES.sub("", words)):
        assert len(re.findall(r"{{.*?}}|\d[\d.,]*\d|\d", sentence)) <= 2, sentence
    assert finding.alt and not re.search(r"\d", finding.alt), "what is seen; the numbers are told with the dots"


@by_lab
def test_every_number_of_a_finding_has_repeats_enough_for_an_interval(finding):
    for key in (*finding.rows, *finding.numbers):
        least = FEWER.get(finding.evidence(key).experiment, 8)
        assert finding.evidence(key).complete and len(finding.dots(key).values) >= least, key
    for key in finding.numbers:
        assert f"{{{{ {key} }}}}" in finding.short + finding.text, f"{key} is not quoted"


def test_the_claims_have_the_verdicts_for_which_the_words_were_written(judged):
    now = {j.claim.id: j.verdict for j in judged}
    assert len(FINDINGS) == 11
    for finding in FINDINGS:
        moved = {name: (then, now[name]) for name, then in finding.claims.items() if now[name] != then}
        assert not moved, f"read again what lab {finding.lab}'s finding says, then write the new verdict beside it"
    verdicts = {verdict for finding in FINDINGS for verdict in finding.claims.values()}
    assert verdicts >= {judging.REPRODUCED, judging.NOT_REPRODUCED, judging.INCONCLUSIVE, judging.NOT_TESTED}


def test_the_page_says_n_and_scope_and_where_a_verdict_moved(judged):
    labs = {lab.number: lab.name for lab in catalogue.labs(ROOT / "labs")}
    text = findings_page.page(judged, labs)
    assert text.count("<figure ") == text.count("<figcaption>") == 11 and "This was written when" not in text
    scopes = "|".join(map(re.escape, judging.SCOPES))
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL):
        assert re.search(rf"\d+ repeats at size \w+, ({scopes}): \w", html.unescape(caption))
    moved = [
        replace(j, verdict=judging.INCONCLUSIVE) if j.claim.id == "privlab.search.position_scale" else j for j in judged
    ]
    text = findings_page.page(moved, labs)
    assert "This was written when a claim was reproduced: it is now inconclusive (<a href=" in text


def test_a_number_has_as_many_digits_as_its_interval_bears_and_its_words():
    """1, 2, 3, 4: mean 2.5, 95% interval 2.5 ± 3.182 * 0.6455 = ± 2.054."""
    assert [dots.number(value, half) for value, half in ((0.512345, 0), (11_173_962, 0), (-3.0, 0), (11.2237, 0.61))] == [
        "0.512", "11,173,962", "−3", "11.22",
    ]  # fmt: skip
    one = dots.Dots("psnr[a]", [1.0, 2.0, 3.0, 4.0])
    assert (one.told, one.mean, one.error) == ("2.5 (0.4 to 4.6)", "2", "0.6")
    assert dots.Dots("mse[a]", [0.01, 0.1], logs=True).told.startswith("0.0316 (")
    assert [dots.within(*ends) for ends in ((-2, 2), (5, 0), (1, math.inf))] == [
        "above −2 and below 2", "above 5 or below 0", "above 1",
    ]  # fmt: skip


def test_the_rows_of_a_chart_stand_on_one_axis():
    drawn = dots.chart([dots.Dots("a", [0.0, 0.0, 10.0], printed=5.0, marks=[5.0]), dots.Dots("b", [10.0])])
    low, same, high, other = map(float, re.findall(r'<circle cx="([\d.]+)%"', drawn))
    (mark,) = map(float, re.findall(r'class="bound" x1="([\d.]+)%"', drawn))
    (paper,) = map(float, re.findall(r'<svg x="([\d.]+)%"', drawn))
    assert low == same < high == other and mark == paper == pytest.approx((low + high) / 2, abs=0.02)
    assert 'aria-label="a: ' in drawn and "the paper: 5" in drawn


def test_the_readme_quotes_four_findings_to_the_word():
    section = README.split("## What we found so far")[1].split("\n## ")[0]
    quoted = [line.removeprefix("- ") for line in section.splitlines() if line.startswith("- ")]
    said = [finding.filled(finding.short) for finding in FINDINGS]
    assert len(quoted) == 4 and set(quoted) <= set(said), "the sentences of the book are:\n- " + "\n- ".join(said)


def test_the_readme_s_picture_of_defences_shows_the_means_of_the_evidence():
    measured = findings_page.load("defences.one_update")
    (shown,) = re.findall(r'alt="Mean PSNR by defence and attack: (.*?)\."', README)
    keys = {
        "no defence": "none", "even noise": "even_1", "noise where it was measured": "measured_1", "noise on three tensors": "leaky_1",
        "noise on attention only": "attention_1", "largest 1%": "largest_1_percent", "position gradient withheld": "position_withheld",
    }  # fmt: skip
    told = dict(re.findall(r"(?:^|; )(.*?) (\d+, \d+, \d+, \d+)", shown))
    for words, key in keys.items():
        ways = ("algebra", "algebra_informed", "search", "search_informed")
        assert told[words] == ", ".join(f"{measured.mean(f'psnr[matrix, {key}, {way}]'):.0f}" for way in ways), words
    ranked = [f"{measured.mean(f'psnr[embedding, fixed_rank_4, {way}]'):.0f}" for way in ("algebra", "search")]
    assert told["fixed embedding, rank 4"].split(", ") == [way for way in ranked for _ in range(2)]
    assert "About 12 dB is what a baseline without any gradient reaches." in README
    assert measured.mean("psnr[guess]") == pytest.approx(12, abs=0.5)
