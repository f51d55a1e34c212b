"""A lab's claims as a notebook shows them: verdict first, in plain words, eight of them, and readable without colours."""

import re
from dataclasses import replace
from itertools import pairwise

from colours import luminance
from judgements import IN_PRINT, judged
from markup import Page

from privlab.ledger import papers, report
from privlab.ledger.judging import INCONCLUSIVE, MEASURING, NOT_REPRODUCED, REPRODUCED
from privlab.notebook import widgets
from privlab.notebook.verdicts import Verdicts, plain

NASTY = r'a|b <script>&"\textbf{50%} $x_1$ #~^ `c` *d* [e](f)' + "\nnext"
THREE = judged("koh2024.three", NOT_REPRODUCED, numbers=IN_PRINT)


def test_it_can_be_read_without_seeing_colours_or_layout():
    page = Page(Verdicts("The title", [judged("privlab.ours"), judged(verdict=INCONCLUSIVE), THREE])._repr_html_())
    assert page.names[:3] == ["div", "table", "caption"] and "The title" in page.text
    assert [th["scope"] for th in page.all("th")] == ["col"] * 2 + ["row"] * 3
    for verdict in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE):
        assert f"{report.ICONS[verdict]}\u00a0{verdict}" in page.text and f"reason for {verdict}" in page.text
    assert page.text.count("more: claims/lu2022.html#lu2022.one in the book") == 1
    # colour only edges a cell: text keeps the page's own colours and contrast
    assert not any(re.search(r"(?<![-\w])(color|background)", attrs.get("style", "")) for _, attrs in page.tags)
    shades = sorted(map(luminance, {*report.EDGES.values()}))
    assert len(shades) == 4 and all(b - a > 0.03 for a, b in pairwise(shades))  # told apart in grey


def test_the_verdict_comes_first_with_its_scope_and_numbers_have_plain_names():
    html = Verdicts("", [THREE, judged("privlab.ours.two", exploratory="class")])._repr_html_()
    theirs, ours = re.findall(r"<tr [^>]*><td.*?</tr>", html)
    assert re.match(r"<tr [^>]*><td[^>]*><strong>✗\u00a0not reproduced</strong><br><small>a stand-in</small>", theirs)
    assert "<small>a stand-in, exploratory</small>" in ours and "a claim of this book" in ours
    before, _, folded = theirs.partition("<details>")
    assert "the paper (Table 1): PSNR (a) = 36.24 ± 5.21 dB; PSNR (b) = 40 dB; these contradict the claim" in before
    assert "here: PSNR (a) = 40 ± 1.5 (n=4); PSNR (b) = 20 (n=1)" in before and "psnr[" not in before
    assert "<code>psnr[a] &gt; psnr[b]</code>" in folded and "reason for not reproduced" in folded
    assert plain("psnr[gaussian, relative_0p01]") == "PSNR (gaussian, relative 0.01)"
    both = "MSE of normalised images (swin); MSE of pixels (closed form)"
    assert plain("mse[swin]; mse[closed_form]") == both


def test_eight_claims_are_shown_and_the_rest_is_folded():
    """A headline's before a paper's before ours, and what is judged before what is not; each of them once."""
    many = [judged(f"privlab.ours.c{i}") for i in range(9)] + [judged("lu2022.late", MEASURING)]
    many += [judged("lu2022.plain", NOT_REPRODUCED), judged("lu2022.asked", INCONCLUSIVE, headline=3)]
    html = Verdicts("The title", many)._repr_html_()
    shown, _, folded = html.partition("<details><summary>4 more claims</summary>")
    ids = [re.findall(r"Statement of ([\w.]+)\.<br>", part) for part in (shown, folded)]
    assert ids[0] == ["lu2022.asked", "lu2022.plain", *(f"privlab.ours.c{i}" for i in range(6))]
    assert ids[1] == [*(f"privlab.ours.c{i}" for i in range(6, 9)), "lu2022.late"]


def test_no_text_breaks_out_of_html_and_a_lab_shows_each_of_its_claims():
    one = replace(judged(statement=NASTY, where=NASTY, printed=NASTY, compare=NASTY), beside=[NASTY])
    page = Page(Verdicts(NASTY, [one])._repr_html_())
    ours = "div p em table caption thead tbody tr th td br small code strong details summary"
    assert {*page.names} == {*ours.split()} and page.text.count("<script>") == 6
    assert [j.claim.id for j in widgets.verdicts("05").judgements] == [claim.id for claim in papers.claims("05")]
