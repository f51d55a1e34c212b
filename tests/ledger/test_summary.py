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
    assert not any(
        j.verdict == "reproduced" for j in made.judgements if j.claim.lab == "05" and not j.claim.experiments
    )
