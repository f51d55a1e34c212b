"""The book builds without a warning, with a run and without one, and shows what a page without a kernel can show."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output

from privlab import catalogue, ledger, pairing

LAB = """\
# %% [markdown]
# # 05 · a lab
# | smoke | 0.1 | 0.2 GB |

# %% tags=["parameters"]
profile = "smoke"

# %% [markdown]
# ## A theorem
# $$ a = b $$

# %% tags=["solution"]
answer = 42

# %%
box
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def run_of(lab: catalogue.Lab, out: Path) -> None:
    """A run's folder as the runner leaves it, with a slider and a figure in the widget's output."""
    notebook = pairing.notebook(lab.path)
    view = {"model_id": "box", "version_major": 2, "version_minor": 0}
    bundle = {"application/vnd.jupyter.widget-view+json": view, "text/plain": "VBox()"}
    notebook.cells[-1].outputs = [new_output("display_data", bundle)]
    figure = {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "a pixel"}, "metadata": {}}
    state = {
        "box": {"state": {"children": ["IPY_MODEL_slider", "IPY_MODEL_out"]}},
        "slider": {"state": {"description": "width"}},
        "out": {"state": {"outputs": [figure]}},
    }
    notebook.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"state": state}}
    nbformat.write(notebook, out / f"{lab.name}.ipynb")
    (out / f"{lab.name}.json").write_text(json.dumps({"status": "ok", "source": lab.digest}))
    ledger.write(out / "ledger.json", ledger.summarise([], "smoke", ran=["05"]))


def bench(**row: object) -> dict:
    plain = dict(
        median=61.0, low=55.0, high=None, n=8, unit="steps", promise=None, holds=None, note="7 of 8 runs reach it"
    )
    return plain | row


BENCH = [
    bench(what="steps, ours", promise="< half of theirs", holds=True),
    bench(what="steps, theirs", median=None, low=None),
    bench(what="seconds a step", median=1.0234, low=0.98, high=1.2, unit="×", promise="≤ 1.0 ×", holds=False),
    bench(what="seconds, ours", median=4.25, unit="s", promise="< half of theirs"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the book beside small labs: one was run, one was changed after its run, one was not run."""
    place = tmp_path_factory.mktemp("house")
    here = Path(__file__).parent.parent / "book"
    shutil.copytree(here, place / "book", ignore=shutil.ignore_patterns("_build", "_generated"))
    machine = json.loads((here / "baselines/bench_closed_form.json").read_text())["machine"]
    found = dict(date="2026-11-21", machine=machine, rows=BENCH, runs=[])
    (place / "book/baselines/bench_gradient.json").write_text(json.dumps(found))
    (place / "labs").mkdir()
    for name in ("05_run", "06_changed", "07_not_run"):
        (place / "labs" / f"{name}.py").write_text(LAB)
    (place / "runs/smoke").mkdir(parents=True)
    for name in ("05_run", "06_changed"):
        run_of(catalogue.Lab(place / f"labs/{name}.py"), place / "runs/smoke")
    (place / "labs/06_changed.py").write_text(LAB + "\n# %%\n'new'\n")
    return place


def build(place: Path, out: str, **environment: str) -> Path:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "book", out]
    done = subprocess.run(command, cwd=place, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / out


def test_the_book_of_a_run(house):
    pages = build(house, "with")
    shown = (pages / "_generated/labs/05_run.html").read_text()
    assert "Live in the notebook, with controls for width." in shown and "<img" in shown
    assert "application/vnd.jupyter" not in shown and "VBox()" not in shown
    folded = re.search(r"<details[^>]*>.*?</details>", shown, re.DOTALL)
    assert folded and ">42<" in folded[0]  # a solution is folded away
    assert "as it is before it runs" not in shown
    for other in ("06_changed", "07_not_run"):
        text = (pages / f"_generated/labs/{other}.html").read_text()
        assert "as it is before it runs" in text and "Live in the notebook" not in text
    assert "lu2022.theorem1.linear_system" in (pages / "_generated/ledger.html").read_text()

    rows = cells(pages / "_generated/benchmarks.html")
    assert rows["steps, ours"] == ["61 steps", "55 to never", "< half of theirs: holds", "7 of 8 runs reach it"]
    assert rows["steps, theirs"] == ["never", "never to never", "", "7 of 8 runs reach it"]
    assert rows["seconds a step"][:3] == ["1.023 ×", "0.980 to 1.200", "≤ 1.0 ×: does not hold"]
    assert rows["seconds, ours"][0] == "4.2 s" and rows["seconds, ours"][2] == "< half of theirs: not decided"
    closed = rows["patch_embedding, vit_base_patch16_224, float32"]
    assert closed[0].endswith(" dB") and closed[2] == "≥ 100 dB" and "ours takes" in closed[3]


def cells(page: Path) -> dict[str, list[str]]:
    """First cell of a row -> the others, as a reader sees them."""
    rows = re.findall(r"<tr.*?</tr>", page.read_text(), re.DOTALL)
    text = [
        [html.unescape(re.sub(r"<.*?>", "", c)).strip() for c in re.findall(r"<td.*?</td>", r, re.DOTALL)] for r in rows
    ]
    return {row[0]: row[1:] for row in text if row}


def test_the_book_without_a_run(house):
    pages = build(house, "without", PRIVLAB_RUN="runs/nothing")
    assert "No run to show yet" in (pages / "_generated/ledger.html").read_text()
    assert "as it is before it runs" in (pages / "_generated/labs/05_run.html").read_text()
