"""One lab in a real kernel: what goes in, what is kept for a page without a kernel, and every kind of failure where it happened."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from privlab.runner import execution, kernel, static_pages

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
def lab(tmp_path):
    """Run a lab with these cells after the usual head; (result, kept notebook)."""

    def run(*cells: str, out: str = "out.ipynb", **more):
        source, out = tmp_path / "01_lab.py", tmp_path / out
        source.write_text(HEAD + "".join(f"# %%\n{cell}\n\n" for cell in cells))
        found = execution.execute(source, out, {"profile": "smoke", "seed": 3, "device": "cpu"}, **more)
        return found, nbformat.read(out, as_version=4)

    return run


def text_of(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def test_a_green_lab(lab, tmp_path, monkeypatch):
    places, seen = [], []  # of this test's kernels alone: labs of other processes have theirs beside them

    class Watched(tempfile.TemporaryDirectory):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            places.append(Path(self.name))

    monkeypatch.setattr(kernel.tempfile, "TemporaryDirectory", Watched)
    found, kept = lab(
        "import sys, os\nprint(profile, seed, device, sys.executable, os.getcwd(), os.environ['A'], sep='\\n')",
        "import ipywidgets\nipywidgets.interact(lambda depth: depth + 1, depth=(0, 4))",
        out="{seed} of {weeks}.ipynb",  # papermill takes braces for a format
        environment={"A": "given"},
        started=lambda *at: seen.append(at),
    )
    assert found["error"] is None and found["peak_gb"] > 0
    assert found["controls"] == ["depth"]
    # the lab saw this run's parameters, this very Python, its own folder, and what the runner sets
    assert text_of(kept.cells[4]).split("\n")[:6] == ["smoke", "3", "cpu", sys.executable, str(tmp_path), "given"]
    # the run's own cell is gone, the notebook says where it came from without naming a folder, and it is valid
    assert [c.metadata.tags for c in kept.cells] == [[], ["parameters"], ["injected-parameters"], [], [], []]
    about = kept.metadata.papermill
    assert about.input_path == "01_lab.py" and str(tmp_path) not in json.dumps(about)
    nbformat.validate(kept)
    # 6 cells and the run's own, each announced as it begins
    assert [at[:2] for at in seen] == [(i, 7) for i in range(1, 8)]
    assert seen[0][2] == "01 · a lab" and seen[4][2] == "Where it happens"
    # nothing is left behind
    assert [place.name.startswith("privlab-") for place in places] == [True] and not places[0].exists()
    assert sorted(os.listdir(tmp_path)) == ["01_lab.py", "{seed} of {weeks}.ipynb"]


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


def test_a_cell_that_raises(lab):
    found, kept = lab("print('before')", "def f():\n    raise ValueError('line one\\nline two')\nf()", "print('after')")
    assert found["error"] == "In [4], under 'Where it happens': ValueError: line two"
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert text_of(cells[2]) == "before\n" and cells[3].outputs[0].ename == "ValueError"
    assert cells[4].outputs == [] and cells[4].source == "print('after')"  # not run, still there


def test_a_callback_that_raises_although_papermill_stays_green(lab):
    """The control is kept out of the sweep, so that only the state of the widgets can tell."""
    found, kept = lab(
        "import ipywidgets\n"
        "k = ipywidgets.IntSlider(2).add_class('no_sweep')\n"
        "ipywidgets.VBox([ipywidgets.interactive(lambda k: 1 / (k - 2), k=k)])"
    )
    assert kept.metadata.papermill.exception is None  # papermill and nbclient saw nothing
    assert found["error"] == "in a widget: ZeroDivisionError: division by zero"


def test_a_control_that_fails_at_its_upper_end_only(lab):
    found, kept = lab("import ipywidgets\nipywidgets.interact(lambda depth: 1 / (depth - 9), depth=(0, 9))")
    assert found["error"] == "moving the controls: RuntimeError: depth at 9: ZeroDivisionError: division by zero"
    assert found["peak_gb"] > 0
    assert kept.cells[-1].metadata.tags == [execution.PROBE_TAG]  # kept, and marked as not the lab's


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("import time\ntime.sleep(600)", "the cell did not end within 2 s"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "the kernel died"),
    ],
)
def test_a_cell_that_does_not_end_or_takes_the_kernel_with_it(lab, cell, why):
    found, kept = lab("print('before')", cell, timeout=2)
    assert re.match(rf"In \[.\], under 'Where it happens': {why}", found["error"])
    assert text_of(kept.cells[4]) == "before\n"


def test_a_widget_is_its_html_and_one_without_goes():
    view = {static_pages.VIEW: {"model_id": "one"}}
    outputs = [
        new_output("display_data", view | {"text/html": "<p>frames</p>", "text/plain": "Controls"}),
        new_output("display_data", view | {"text/plain": "a bar of progress"}),
        new_output("display_data", {"text/plain": "a number"}),
        new_output("stream", text="words"),
    ]
    about = {"widgets": {"state": {}}, "papermill": {"version": "2"}}
    injected = new_code_cell("seed = 1", metadata={"tags": ["injected-parameters"]})
    notebook = new_notebook(cells=[injected, new_code_cell("...", outputs=outputs)], metadata=about)
    static_pages.rest(notebook)
    (cell,) = notebook.cells
    assert [dict(o.get("data", {})) for o in cell.outputs] == [
        {"text/html": "<p>frames</p>", "text/plain": "Controls"},
        {"text/plain": "a number"},
        {},
    ]
    assert not notebook.metadata
