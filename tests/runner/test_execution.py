"""One lab in a real kernel: what goes in, what is kept, and every kind of failure found where it happened."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from privlab.runner import execution, kernel, static_pages

PARAMETERS = {"profile": "smoke", "seed": 3, "device": "cpu"}
HEAD = """\
# %% [markdown]
# # 01 · a lab

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %% [markdown]
# ## Where it happens
# some words

"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Run a lab with these cells after the usual head; (result, kept notebook)."""
    for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # so that what execute() sets is gone after the test

    def run(*cells: str, timeout: int | None = None, started=lambda *at: None):
        source, out = tmp_path / "01_lab.py", tmp_path / "out.ipynb"
        source.write_text(HEAD + "".join(f"# %%\n{cell}\n\n" for cell in cells))
        found = execution.execute(source, out, PARAMETERS, timeout, started)
        return found, nbformat.read(out, as_version=4)

    return run


def text_of(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def test_a_folder_of_results_may_have_braces_in_its_name(tmp_path, monkeypatch):
    for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")
    source, out = tmp_path / "01_lab.py", tmp_path / "{seed} of {weeks}" / "out.ipynb"
    source.write_text(HEAD)
    out.parent.mkdir()
    assert execution.execute(source, out, PARAMETERS)["error"] is None and out.exists()


def test_a_green_lab(lab, tmp_path):
    seen = []
    found, kept = lab(
        "import sys, os\nprint(profile, seed, device, sys.executable, os.getcwd(), sep='\\n')",
        "import ipywidgets\nipywidgets.interact(lambda depth: depth + 1, depth=(0, 4))",
        started=lambda cell, cells, heading: seen.append((cell, cells, heading)),
    )
    assert found["error"] is None and found["traceback"] is None
    assert list(found["controls"]) == ["depth"] and found["controls"]["depth"] >= 0
    assert found["peak_gb"] > 0
    # the lab saw this run's parameters, this very Python, and its own folder
    assert text_of(kept.cells[4]).split("\n")[:5] == ["smoke", "3", "cpu", sys.executable, str(tmp_path)]
    # the run's own cell is gone, the notebook says where it came from without naming a folder, and it is valid
    assert [c.metadata.tags for c in kept.cells] == [[], ["parameters"], ["injected-parameters"], [], [], []]
    assert kept.metadata.papermill.input_path == "01_lab.py" and str(tmp_path) not in json.dumps(
        kept.metadata.papermill
    )
    nbformat.validate(kept)
    # 6 cells and the run's own, each announced as it begins
    assert [(cell, cells) for cell, cells, _ in seen] == [(i, 7) for i in range(1, 8)]
    assert seen[0][2] == "01 · a lab" and seen[4][2] == "Where it happens"


def test_an_explorer_leaves_its_page_beside_the_widget(lab):
    code = "from privlab.notebook import widgets\n"
    code += (
        "box = widgets.explore(lambda n, way: widgets.Sentence(f'{way} {n}'), start={'n': 2}, n=(1, 2, 3), way='ab')"
    )
    found, kept = lab(code + "\nbox", "box.controls['n'].value")
    assert found["error"] is None
    ((shown,), _) = (cell.outputs for cell in kept.cells[-2:])
    assert shown.data["text/html"].count("data-frame=") == 6 and static_pages.VIEW in shown.data
    assert '<div data-frame="1-0"><p>a 2</p>' in shown.data["text/html"]


def test_a_setting_that_fails_only_when_pages_are_made_fails_the_lab(lab):
    code = "from privlab.notebook import widgets\nwidgets.explore(lambda n, m: 1 / (3 - n * m), n=(1, 2, 3), m=(0, 1))"
    found, _ = lab(code)
    assert "moving the controls: RuntimeError: an explorer at n=3, m=1: ZeroDivisionError" in found["error"]


def test_a_cell_that_raises(lab):
    found, kept = lab("print('before')", "def f():\n    raise ValueError('line one\\nline two')\nf()", "print('after')")
    assert found["error"] == "In [4], under 'Where it happens': ValueError: line two"
    assert "ValueError" in found["traceback"] and "\x1b" not in found["traceback"]
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert text_of(cells[2]) == "before\n"
    assert cells[3].outputs[0].ename == "ValueError"
    assert cells[4].outputs == [] and cells[4].source == "print('after')"  # not run, still there


def test_a_callback_that_raises_although_papermill_stays_green(lab):
    """The control is kept out of the sweep, so that only the state of the widgets can tell."""
    found, kept = lab(
        "import ipywidgets\n"
        "k = ipywidgets.IntSlider(2).add_class('no_sweep')\n"
        "box = ipywidgets.VBox([ipywidgets.HBox([ipywidgets.interactive(lambda k: 1 / (k - 2), k=k)])])\n"
        "box"
    )
    assert kept.metadata.papermill.exception is None  # papermill and nbclient saw nothing
    assert found["error"] == "widget of In [3], under 'Where it happens': ZeroDivisionError: division by zero"
    assert "1 / (k - 2)" in found["traceback"]


def test_a_control_that_fails_at_its_upper_end_only(lab):
    found, kept = lab("import ipywidgets\nipywidgets.interact(lambda depth: 1 / (depth - 9), depth=(0, 9))")
    assert found["error"] == "moving the controls: RuntimeError: depth at 9: ZeroDivisionError: division by zero"
    assert "1 / (depth - 9)" in found["traceback"]
    assert kept.cells[-1].metadata.tags == [
        execution.PROBE_TAG
    ]  # the cell that failed is kept, and marked as not the lab's
    assert found["peak_gb"] > 0


def test_a_cell_that_does_not_end(lab):
    found, kept = lab("print('before')", "import time\ntime.sleep(600)", timeout=2)
    assert re.match(
        r"In \[.\], under .Where it happens.: CellTimeoutError: the cell did not end within 2 s", found["error"]
    )
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert text_of(cells[2]) == "before\n"
    assert cells[3].outputs[-1].ename == "CellTimeoutError"


def test_a_kernel_that_dies(lab):
    found, kept = lab("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert "DeadKernelError: the kernel died" in found["error"] and "'Where it happens'" in found["error"]
    assert [c for c in kept.cells if c.cell_type == "code"][2].outputs[-1].ename == "DeadKernelError"


def test_nothing_is_left_behind(lab, tmp_path, monkeypatch):
    places = []  # of this test's kernels alone: labs of other processes have theirs beside them, for as long as they run

    class Watched(tempfile.TemporaryDirectory):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            places.append(Path(self.name))

    monkeypatch.setattr(kernel.tempfile, "TemporaryDirectory", Watched)
    lab("print('a')")
    assert [place.name.startswith("privlab-") for place in places] == [True]
    assert not places[0].exists()
    assert sorted(os.listdir(tmp_path)) == ["01_lab.py", "out.ipynb"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# %%\nprofile = 1", r'01_lab\.py has 0 cells tagged "parameters"; it needs one, with profile, seed, device'),
        ('# %% tags=["parameters"]\nprofile = 1\nseed = 2', r"01_lab\.py sets no device in its cell"),
    ],
)
def test_a_lab_without_its_parameters_is_refused(tmp_path, text, message):
    source = tmp_path / "01_lab.py"
    source.write_text(text)
    with pytest.raises(ValueError, match=message):
        execution.execute(source, tmp_path / "out.ipynb", PARAMETERS)
