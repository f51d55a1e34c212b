"""No result is typed into the prose of a lesson or of the findings: it is written with the numbers of the evidence, so that it cannot be
out of date. README.md has no result but those that tests/project/test_findings.py holds against the evidence.

What looks like a result is a number with dB, %, points, times, or one of the metrics. Such a number may stand in prose where the paper
prints it, to as many digits, and the paragraph says so (names a table, a figure, the paper or its authors); or in a cell with the tag
`printed`, for what is no measurement of ours: a setting, a law, what an exercise makes up.
"""

import json
import re
from functools import cache
from pathlib import Path

from privlab.ledger import papers

ROOT = Path(__file__).parents[2]
NUMBER = r"[-−+]?\d[\d,]*(?:\.\d+)?"
METRIC = r"(?:PSNR|SSIM|LPIPS|MSE|AUC|FID|KNN distance|accurac(?:y|ies)|recall|precision|F1|advantage|TPR|FPR)"
COUNT = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty|a hundred|a thousand)"
UNIT = rf"(?:dB\b|%|percent\b|(?:percentage )?points?\b|times\b|×|of AUC\b|{METRIC}\b)"
LINK = r"(?: of| is| was| were| are| at| around| about| from| to| above| below|:| =)+"
RATIO = r"times (?:as|more|less|larger|smaller|longer|better|worse|higher|lower)\b"
RESULT = re.compile(
    rf"(?<![\w.,])({NUMBER})\s*{UNIT}"
    rf"|\b{METRIC}\b(?: values?| scores?)?{LINK} ({NUMBER})(?![\d,]*\w)"
    rf"|\b({COUNT}) (?:dB\b|percent\b|points\b|{RATIO})",
    re.IGNORECASE,
)
SOURCE = re.compile(r"\b(?:Table|Figure|Theorem|paper|papers|et al|authors?|in print|prints?|printed)\b")


@cache
def printed(lab):
    """Every number that the papers of a lab print: in their tables, and in prose where a claim rests on it."""
    named = {claim.paper for claim in papers.claims(lab)} - {"privlab"}
    tables = [papers.table(file.stem) for paper in named for file in papers.TABLES.glob(f"{paper}_*.csv")]
    cells = [value for table in tables if "mean" in table for value in (*table["mean"], *table["std"])]
    return {float(value) for value in cells if value == value} | {n.mean for c in papers.claims(lab) for n in c.numbers}


def is_printed(number, lab):
    """Whether a paper of the lab has this number, to the digits that are given of it; a word is none."""
    digits = re.sub(r"[-−+,]", "", number)
    return digits[0].isdigit() and any(abs(float(digits) - abs(each)) < 1e-9 for each in printed(lab))


def typed(text, lab):
    """What looks like a result of ours in a cell's Markdown."""
    plain = re.sub(r"\$\s*([-−+]?[\d.,]+)\s*\$", r"\1", text)  # a number alone is no formula
    plain = re.sub(r"\\?%", "%", re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$|`[^`]*`", " · ", plain, flags=re.DOTALL))
    found = []
    for paragraph in re.split(r"\n\s*\n", plain):
        one = re.sub(r"\*+", "", " ".join(paragraph.split()))
        for match in RESULT.finditer(one):
            number = next(filter(None, match.groups()))
            if not (SOURCE.search(one) and is_printed(number, lab)):
                found.append(match[0])
    return found


def test_minutes_and_memory_are_those_of_make_bench(notebook):
    """tests/bench/test_labs_bench.py measures them, and writes them into the heads; a lab that is not measured yet has an estimate."""
    took = json.loads((ROOT / "book/baselines/labs.json").read_text()).get(notebook.lab.name, {})
    costs = notebook.lab.costs
    assert costs == costs | {profile: tuple(took[profile]) for profile in took.keys() & costs}
    assert notebook.lab.goes_deeper or costs["smoke"][1] <= 2, "Binder gives no more"


def test_no_result_is_typed_by_hand(notebook):
    cells = [c for c in notebook.cells if c.cell_type == "markdown" and "printed" not in c.metadata.get("tags", [])]
    cure = "let a cell write it (notebook.text), or tag it `printed` if it is a setting, a law, or made up"
    assert [one for cell in cells for one in typed(cell.source, notebook.number)] == [], cure


def test_what_looks_like_a_result_is_found_and_nothing_else():
    text = "It is $14.2$ dB ahead at an SSIM of 0.51, three times as much. With 60 steps, 3.5 GB, lab 04, `14 dB`."
    assert typed(text, "04") == ["14.2 dB", "SSIM of 0.51", "three times as"]


def test_no_result_is_typed_in_the_findings_and_none_in_the_readme_that_is_not_quoted():
    clean = "30 dB"  # what looks clean to the eye, which is a convention
    assert typed((ROOT / "book/findings.md").read_text(), "00") == [clean]
    words = re.sub(r"^ *#.*$|{{.*?}}", "", (ROOT / "book/_templates/findings.yaml").read_text(), flags=re.MULTILINE)
    assert typed(words, "00") == []
    readme = re.sub(r"<img[^>]+>|^- .*$", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert typed(readme, "00") == ["12 dB", clean]
