"""The tables at the end of a run."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from privlab import ledger
from privlab.ledger import papers, summary
from privlab.ledger.records import record

CLAIM = "lu2022.theorem1.linear_system"


def notebook(path, *values, times=1):
    made = record(
        "relative_residual",
        ["theorem_1", "float64"],
        values,
        lab="05",
        profile="smoke",
        seed=0,
        device="cpu",
        mode="eval",
        victim="fresh",
    )
    bundle = json.loads(json.dumps(made.bundle()))
    cells = [new_code_cell("record", outputs=[new_output("display_data", bundle)]) for _ in range(times)]
    nbformat.write(new_notebook(cells=cells), path)


@pytest.fixture
def made(tmp_path):
    notebook(tmp_path / "05_april.ipynb", 1e-14, 2e-14)
    return summary.book(tmp_path, ["05_april"], "smoke")[0]


def test_the_book_reads_notebooks_judges_and_writes(made, tmp_path):
    (judged,) = [j for j in made.judgements if j.claim.id == CLAIM]
    assert judged.verdict == "reproduced"
    assert ledger.read(tmp_path / "ledger.json") == made
    assert len(made.judgements) == len(papers.claims())


def test_records_that_cannot_be_read_are_that_labs_failure(tmp_path):
    notebook(tmp_path / "05_april.ipynb", 1e-14, times=2)
    made, unread = summary.book(tmp_path, ["05_april"], "smoke")
    assert list(unread) == ["05_april"] and "twice" in unread["05_april"]
    assert not any(j.verdict == "reproduced" for j in made.judgements)


def test_the_table_of_labs(made):
    results = {
        "05_april": {"status": "ok", "seconds": 23.04, "peak_gb": 1.114, "error": None},
        "99_other": {"status": "failed", "seconds": 1.0, "peak_gb": None, "error": "In [3]: boom"},
    }
    lines = summary.of_labs(results, made).splitlines()
    assert lines[0].split() == [
        "lab",
        "status",
        "seconds",
        "peak",
        "GB",
        "reproduced",
        "not",
        "reproduced",
        "inconclusive",
        "not",
        "run",
    ]
    claims = papers.claims("05")
    assert lines[2].split()[:5] == ["05_april", "ok", "23.0", "1.11", "1"]
    assert sum(int(n) for n in lines[2].split()[4:] if n != "-") == len(claims)
    assert lines[3].split() == ["99_other", "failed", "1.0", "?", "-", "-", "-", "-"]
    assert lines[4] == "99_other: In [3]: boom"


@pytest.mark.parametrize("width", [72, 80, 100, 120, 200])
def test_the_table_of_claims_fits_the_terminal(made, width):
    text = summary.of_claims(made, ["05_april"], width)
    assert max(map(len, text.splitlines())) <= width
    assert text.split()[:5] == ["claim", "the", "paper", "here", "verdict"]
    for claim in papers.claims("05"):
        assert claim.id in text
    assert "REPRODUCED:" in text and "INCONCLUSIVE:" in text


def test_claims_of_other_labs_are_only_counted(made):
    text = summary.of_claims(made, ["05_april"], 120)
    others = [claim for claim in papers.claims() if claim.lab != "05"]
    assert others and text.endswith(f"and {len(others)} claims of labs that were not run")
    assert not any(claim.id in text for claim in others)
    assert summary.of_claims(made, ["77_none"]) == "no claim is tested by these labs"


def test_columns_align_numbers_to_the_right():
    assert summary.columns([["lab", "n"], ["a", "1.5"], ["bcde", "22"]]) == "lab     n\n----  ---\na     1.5\nbcde   22"


def test_claims_whose_names_nobody_recorded_are_listed_for_the_labs_that_ended(made):
    said = summary.unrecorded(made, ["05_april"])
    lines = said.splitlines()
    wanted = [c for c in papers.claims("05") if c.profile == "smoke" and c.id != CLAIM]
    assert len(lines) == len(wanted)
    assert (
        "claim lu2022.section33.pixels_by_pseudoinverse names what lab 05 did not record: mse[pixels_from_embedding]"
        in lines
    )
    assert not any(CLAIM in line for line in lines)
    assert summary.unrecorded(made, ["00_start"]) == summary.unrecorded(made, []) == ""
