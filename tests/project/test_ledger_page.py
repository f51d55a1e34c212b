"""The ledger's page of the book: every claim once, verdict first, in plain names; and its charts, by hand."""

import dataclasses
import html
import re

import ledger_charts as charts
import ledger_page
import pytest
from plain_names import plain

from privlab import ledger
from privlab.ledger import papers
from privlab.ledger.figures import Figure
from privlab.ledger.judging import VERDICTS


@pytest.fixture(scope="module")
def judged():
    return ledger.judgements()


def items(page):
    return re.findall(r"<li (data-.*?)</li>", page, re.DOTALL)


def test_every_claim_is_there_once_with_its_verdict_first_and_what_the_menus_ask_for(judged):
    page = ledger_page.page(judged)
    shown = {re.search(r'href="\.\./claims/(.*?)\.html"', item)[1]: item for item in items(page)}
    assert shown.keys() == {j.claim.id for j in judged} and len(items(page)) == len(judged)
    for j in judged:
        item = html.unescape(shown[j.claim.id])
        assert item.index(f"<strong>{j.verdict}") < item.index(j.claim.statement), j.claim.id
        assert (
            f'data-lab="{j.claim.lab}" data-verdict="{j.verdict}"' in item
            and "[" not in item.partition("<p>The paper")[2]
        )
    menus = dict(re.findall(r'<select name="(\w+)">(.*?)</select>', page))
    for name in ("paper", "lab", "verdict", "scope"):
        offered = set(re.findall(r"<option>(.*?)</option>", menus[name]))
        assert offered == set(re.findall(rf'data-{name}="(.*?)"', page)), name


def test_the_counts_of_a_paper_are_its_verdicts_each_with_an_icon(judged):
    (row,) = re.findall(r"<li>.*?</li>", charts.bars({"Lu": [j for j in judged if j.claim.paper == "lu2022"]}))
    told = {
        verdict: (icon, int(n))
        for icon, n, verdict in re.findall(r'hidden="true">(.)</span> (\d+) ([\w ]+)</span>', row)
    }
    for verdict in VERDICTS:
        count = sum(j.claim.paper == "lu2022" and j.verdict == verdict for j in judged)
        assert told.get(verdict, ("", 0))[1] == count
    assert len({icon for icon, _ in told.values()}) == len(told)


def test_what_a_claim_says_stays_text(judged):
    nasty = '"><script>alert(1)</script>\n``````\n# no heading'
    claim = dataclasses.replace(judged[0].claim, statement=nasty, where=nasty, printed=nasty, numbers=())
    page = ledger_page.page([dataclasses.replace(judged[0], claim=claim, reason=nasty, stands_for="")])
    assert "<script" not in page and page.count("\n``````\n") == 2 and "\n# no heading" not in page


def test_numbers_of_a_kind_are_held_against_each_other_and_equal_ones_lie_on_the_line(judged):
    numbers = tuple(
        papers.Printed(name, mean, None, unit, "")
        for name, mean, unit in (
            ("psnr[a]", 10.0, "dB"),
            ("psnr[b]", 30.0, "dB"),
            ("mse[a]", 0.01, None),
            ("steps[a]", 5.0, None),
        )
    )
    ours = tuple(
        Figure.of(name, [value])
        for name, value in (("psnr[a]", 20.0), ("psnr[b]", 30.0), ("mse[a]", 1.0), ("steps[a]", 7.0))
    )
    j = dataclasses.replace(judged[0], claim=dataclasses.replace(judged[0].claim, numbers=numbers), ours=ours)
    found = charts.pairs([j])
    assert found == {
        "PSNR in dB": {"psnr[a]": (10.0, 20.0), "psnr[b]": (30.0, 30.0)},
        "errors": {"mse[a]": (0.01, pytest.approx(1.0))},
    }
    drawing = charts.panel("PSNR in dB", found["PSNR in dB"])
    (ax, ay), (bx, by) = ((float(x), float(y)) for x, y in re.findall(r'<circle cx="(.*?)" cy="(.*?)"', drawing))
    (x1, y1, x2, y2) = map(float, re.search(r'"equal" x1="(.*?)" y1="(.*?)" x2="(.*?)" y2="(.*?)"', drawing).groups())
    assert (ax, bx, by) == (x1, x2, y2) and y2 < ay == pytest.approx((y1 + y2) / 2, abs=0.1)
    assert "PSNR (a): the paper 10, here 20" in drawing and "ours is below the paper&#x27;s for none of them" in drawing


def test_names_are_plain():
    assert plain("psnr[gradvit, vit_std_0p02] is above") == "PSNR (gradvit, vit std 0.02) is above"
    assert plain("slope_share[a]") == "slope share (a)"
