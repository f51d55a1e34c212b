"""The labs as they stand: paired, without outputs, of one anatomy, and green at `smoke` with every claim of theirs judged."""

import json
import re
import statistics
from pathlib import Path

import nbformat
import pytest

from privlab.ledger import evidence
from privlab.runner import catalogue, pairing

ROOT = Path(__file__).parents[2]
LABS = sorted((ROOT / "labs").glob("[0-9]*.py"))
MEMORY_GB = 2.0  # Binder gives no more


def named(path):
    return path.stem


def lines(code):
    """Lines of code as a reader counts them: no blank ones, and none that only speaks to the formatter."""
    return sum(1 for line in code.replace("# fmt: skip", "").splitlines() if line.strip())


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_lab_is_green_within_its_memory(smoke, path):
    out, done = smoke
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    result = json.loads((out / f"{path.stem}.json").read_text())
    assert result["status"] == "ok" and result["error"] is None
    assert result["peak_gb"] < MEMORY_GB
    promised = catalogue.Lab(path).costs["smoke"]
    assert result["peak_gb"] < 1.2 * promised.gb, "the lab's first cell promises less memory than it takes"


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_lab_says_nothing_in_red(smoke, path):
    """A warning in a page of the book frightens its reader, and carries a path of the machine that built it."""
    cells = nbformat.read(smoke[0] / f"{path.stem}.ipynb", as_version=4).cells
    outputs = [o for cell in cells for o in cell.get("outputs", [])]
    assert len(outputs) > 10 and [o.text for o in outputs if o.get("name") == "stderr"] == []


def test_the_run_ends_in_one_screen(smoke):
    out, done = smoke
    screen = done.stdout.rpartition("\nlab ")[2].splitlines()
    assert len(screen) < 60 and all(any(line.startswith(path.stem) for line in screen) for path in LABS)
    assert any("claims about means" in line for line in screen) and (out / "index.html").stat().st_size > 100_000


@pytest.mark.parametrize("path", LABS, ids=named)
def test_every_control_was_moved(smoke, path):
    assert json.loads((smoke[0] / f"{path.stem}.json").read_text())["controls"]


@pytest.mark.parametrize("path", LABS, ids=named)
def test_the_committed_notebook_is_the_paired_one_and_empty(path):
    committed = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    made = pairing.notebook(path)
    assert [c.id for c in committed.cells] == [c.id for c in made.cells]
    assert [c.source for c in committed.cells] == [c.source for c in made.cells]
    assert len({c.id for c in committed.cells}) == len(committed.cells)
    assert not any(c.get("outputs") or c.get("execution_count") for c in committed.cells)


@pytest.mark.parametrize("path", LABS, ids=named)
def test_anatomy(path):
    lab = pairing.notebook(path)
    text = "\n".join(c.source for c in lab.cells if c.cell_type == "markdown")
    code = [c.source for c in lab.cells if c.cell_type == "code"]
    for heading in (
        "you can",
        "*You need*",
        "Words that are new here",
        "predict",
        "The paper, and here",
        "What we did differently",
        "Summary",
    ):
        assert heading in text, heading
    assert "Where to read on" in text and text.count("<details><summary>Hint") >= 3
    assert sum("checks.verify(" in c for c in code) >= 3 and any(
        "page.show()" in c or "ledger.show(" in c for c in code
    )
    assert {"smoke", "class"} <= set(catalogue.Lab(path).costs) <= set(evidence.SIZES)
    lengths = [lines(c) for c in code]
    assert statistics.median(lengths) <= 7 and max(lengths) <= 25
    exercises = [i for i, c in enumerate(lab.cells) if "exercise" in c.metadata.get("tags", [])]
    assert all("solution" in lab.cells[i + 1].metadata.get("tags", []) for i in exercises)
    assert not re.search(r"\bTODO\b|\bFIXME\b", text)
