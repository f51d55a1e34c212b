"""Reports: what stands in which cell, and that nothing breaks out of its format."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from privlab.ledger import report
from privlab.ledger.papers import Claim, Printed
from privlab.ledger.records import Figure
from privlab.ledger.verdicts import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, VERDICTS, Judgement

NASTY = r'a|b <script>&"\textbf{50%} $x_1$ #~^ `c` *d* [e](f)' + "\nnext"


def claim(name: str = "lu2022.one", **changes) -> Claim:
    plain = {
        "where": "Table 1",
        "lab": "05",
        "kind": "ordering",
        "statement": f"Statement of {name}.",
        "compare": "psnr[a] > psnr[b]",
    }
    return Claim(
        **{"id": name, "paper": name.split(".")[0], **plain, "profile": "smoke", "profile_why": "W", **changes}
    )


def judged(name: str = "lu2022.one", verdict: str = REPRODUCED, profile: str = "smoke", **changes) -> Judgement:
    figures = (Figure("psnr[a]", 40.0, 1.5, 4), Figure("psnr[b]", 20.0, None, 1))
    return Judgement(claim(name, **changes), profile, verdict, f"reason for {verdict}", 0.97, figures)


SEVERAL = [
    judged("privlab.ours", REPRODUCED),
    judged("lu2022.two", INCONCLUSIVE, printed="a figure"),
    judged(
        "koh2024.three",
        NOT_REPRODUCED,
        numbers=(Printed("psnr[a]", 36.24, 5.21, "dB", "Table 5"),),
        holds_on_printed_numbers=False,
    ),
]


def test_the_tally_names_all_verdicts():
    assert report.tally(SEVERAL) == {REPRODUCED: 1, NOT_REPRODUCED: 1, INCONCLUSIVE: 1, NOT_RUN: 0}


# -- markdown ------------------------------------------------------------------------------------------------------------


def rows(markdown: str) -> list[list[str]]:
    """Cells of every table row, split at the pipes that are not escaped."""
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in markdown.splitlines() if line.startswith("|")]


def test_a_page_has_a_section_a_paper_and_a_row_a_claim():
    page = report.as_markdown({"smoke": SEVERAL})
    assert page.startswith(
        "# The ledger\n\n- **smoke**: 1 reproduced, 1 not reproduced, 1 inconclusive, 0 not run at this profile\n"
    )
    assert re.findall(r"^## (\w+)", page, re.M) == ["Koh", "Lu", "Beyond"]  # the papers' order, ours last
    table = rows(page)
    head = [c.strip() for c in table[0]]
    assert head == ["statement", "the paper's number", "ours", "verdict"] and {len(r) for r in table} == {4}
    (three,) = (r for r in table if "koh2024.three" in r[0])
    assert three[1].strip() == r"psnr\[a\] = 36.24 ± 5.21 dB; these contradict the claim"
    assert three[2].strip() == r"psnr\[a\] = 40 ± 1.5 (n=4); psnr\[b\] = 20 (n=1)"
    assert three[3].strip() == "not reproduced (reason for not reproduced)"
    (two,) = (r for r in table if "lu2022.two" in r[0])
    assert two[1].strip() == "a figure"


def test_several_runs_stand_side_by_side():
    smoke, larger = (
        [judged("lu2022.one", NOT_RUN)],
        [judged("lu2022.one", profile="class"), judged("lu2022.two", profile="class")],
    )
    table = rows(report.as_markdown({"smoke": smoke, "class": larger}))
    head = [c.strip() for c in table[0]]
    assert head[2:] == ["ours (smoke)", "verdict (smoke)", "ours (class)", "verdict (class)"]
    one, two = table[2:]
    assert one[3].strip().startswith(NOT_RUN) and one[5].strip().startswith(REPRODUCED)
    assert [c.strip() for c in two[2:4]] == ["nothing measured", "not in this run"]


@given(st.text())
def test_no_text_breaks_a_markdown_row(text):
    page = report.as_markdown({"smoke": [judged(statement=text, where=text)]})
    assert [len(r) for r in rows(page)] == [4, 4, 4]
    assert not re.search(r"(?<!\\)<(?!br>)", rows(page)[-1][0])  # no tag but ours


# -- html ----------------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    return tags


def test_a_panel_can_be_read_without_seeing_colours_or_layout():
    tags = parsed(report.Panel("The title", tuple(SEVERAL))._repr_html_())
    assert [t for t, _ in tags.seen[:2]] == ["table", "caption"] and "The title" in tags.words
    headers = [attrs["scope"] for tag, attrs in tags.seen if tag == "th"]
    assert headers == ["col"] * 4 + ["row"] * 3
    for verdict in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE):
        assert verdict in tags.words and f"reason for {verdict}" in tags.words
    # colour only edges a cell: text keeps the page's own colours and contrast
    assert not any(re.search(r"(?<![-\w])(color|background)", attrs.get("style") or "") for _, attrs in tags.seen)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(
        w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
        for w, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True)
    )


def test_every_verdict_has_an_edge_of_its_own_brightness():
    html = report.Panel("T", tuple(judged(f"lu2022.{i}", v) for i, v in enumerate(VERDICTS)))._repr_html_()
    colours = re.findall(r"border-left:[^#]*(#[0-9A-F]{6})", html)
    shades = sorted(luminance(c) for c in colours)
    assert len(set(colours)) == 4 and all(b - a > 0.03 for a, b in pairwise(shades))  # told apart in grey


def test_no_text_breaks_out_of_html():
    tags = parsed(
        report.Panel(NASTY, (judged(statement=NASTY, where=NASTY, printed=NASTY, compare=NASTY),))._repr_html_()
    )
    assert {t for t, _ in tags.seen} == {
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
    }
    assert tags.words.count("<script>") == 5


def test_a_panel_reads_in_a_terminal():
    text = repr(report.Panel("The title", (SEVERAL[2],)))
    assert text.splitlines() == [
        "The title",
        "  NOT REPRODUCED: Statement of koh2024.three.",
        "    Table 1: psnr[a] = 36.24 ± 5.21 dB; these contradict the claim",
        "    here: psnr[a] = 40 ± 1.5 (n=4); psnr[b] = 20 (n=1)",
        "    reason for not reproduced",
    ]


# -- csv and latex -------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")))
def test_csv_gives_back_what_went_in(text):
    runs = {"smoke": [judged(statement=text)], "class": [judged("lu2022.two", profile="class")]}
    found = list(csv.DictReader(io.StringIO(report.as_csv(runs))))
    assert [r["statement"] for r in found] == [text, "Statement of lu2022.two."]
    first = found[0]
    assert (first["run"], first["id"], first["verdict"], first["share"]) == (
        "smoke",
        "lu2022.one",
        REPRODUCED,
        "0.9700",
    )
    assert first["ours"] == "psnr[a] = 40 ± 1.5 (n=4); psnr[b] = 20 (n=1)" and first["printed"] == "no number in print"


def test_latex_is_a_booktabs_tabular():
    lines = report.as_latex({"smoke": SEVERAL, "gpu": SEVERAL[:1]}).splitlines()
    assert (
        lines[0] == r"\begin{tabular}{p{.4\linewidth}p{.2\linewidth}p{.2\linewidth}lp{.2\linewidth}l}"
        and lines[-1] == r"\end{tabular}"
    )
    assert lines[1] == r"\toprule" and lines[-2] == r"\bottomrule" and lines.count(r"\midrule") == 6
    assert lines[2] == r"claim & in print & ours, smoke & verdict, smoke & ours, gpu & verdict, gpu \\"
    body = [line for line in lines if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(body) == 4 and all(len(re.split(r"(?<!\\)&", line)) == 6 for line in body)
    assert r"psnr[a] = 40 $\pm$ 1.5 (n=4); psnr[b] = 20 (n=1) & reproduced" in "\n".join(lines)
    assert r"psnr[a] = 36.24 $\pm$ 5.21 dB" in "\n".join(lines)
    assert "not in this run" in next(line for line in body if "lu2022.two" in line)


def unescaped(tex: str) -> str:
    """What LaTeX would set, for the commands that the report uses."""
    marks = {
        "textbackslash": "\\",
        "textasciitilde": "~",
        "textasciicircum": "^",
        "textless": "<",
        "textgreater": ">",
        "textbar": "|",
    }
    tex = re.sub(r"\$\\(pm|times|div)\$", lambda m: {"pm": "±", "times": "×", "div": "÷"}[m[1]], tex)
    return re.sub(r"\\([&%$#_{}])|\\([a-z]+)\{\}", lambda m: m[1] or marks[m[2]], tex)


@given(st.text(st.sampled_from('ab \\&%$#_{}~^<>|"±×÷')))
def test_latex_sets_what_went_in(text):
    plain = " ".join(text.split())
    lines = report.as_latex({"smoke": [judged(statement=text, where="W")]}).splitlines()
    (row,) = (line for line in lines if line.endswith(r"& reproduced \\"))
    assert unescaped(row.split("(W) & ")[0]).strip() == plain
