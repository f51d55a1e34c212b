"""A lab's notebook is a function of its source, a small edit makes a small difference, and a page needs no kernel."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from privlab.__main__ import main
from privlab.runner import catalogue, pairing

LAB = """\
# %% [markdown]
# # 01 · title

# %% tags=["parameters"]
profile = "smoke"

# %% tags=["solution"]
answer = 42
"""


@pytest.fixture
def labs(tmp_path):
    """A folder of one lab and one that goes deeper."""
    for name in ("labs/01_lab.py", "labs/deeper/01_more.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LAB)
    return tmp_path / "labs"


def test_an_edit_changes_one_id_and_an_insertion_none(tmp_path):
    def ids(*sources):
        (tmp_path / "01_lab.py").write_text("".join(f"# %%\n{source}\n\n" for source in sources))
        return {cell.id for cell in pairing.notebook(tmp_path / "01_lab.py").cells}

    before, after = ids("a = 1", "b = 2", "a = 1", "c\n\n\nd"), ids("a = 1", "edited", "a = 1", "c\n\n\nd")
    assert len(before) == 4 and len(before - after) == 1 == len(after - before)  # two are equal
    assert before < ids("inserted", "a = 1", "b = 2", "a = 1", "c\n\n\nd")


def test_pair_writes_what_is_stale_and_nothing_else(labs, capsys):
    def pair(*words):
        status, lines = main(["pair", "--labs", str(labs), *words]), capsys.readouterr().out.splitlines()
        return status, [line.removeprefix("wrote ").split(" differs")[0] for line in lines]

    lab, more, left = (str(labs / name) for name in ("01_lab.ipynb", "deeper/01_more.ipynb", "02_left_over.ipynb"))
    assert pair("--check") == (1, [lab, more]) and pair() == (0, [lab, more])
    assert pair("--check") == (0, []) == pair()
    (labs / "01_lab.py").write_text(LAB.replace("42", "43"))
    assert pair("--check") == (1, [lab]) and pair() == (0, [lab])
    with open(more, "a") as file:
        file.write("\n")
    (labs / "02_left_over.ipynb").write_text("{}")
    assert pair("--check") == (1, [more, left])
    assert pair() == (0, [more]) and (labs / "02_left_over.ipynb").read_text() == "{}"


def test_on_a_page_a_widget_is_its_html_and_one_without_goes(labs):
    view, lab = {pairing.VIEW: {"model_id": "one"}}, catalogue.Lab(labs / "01_lab.py")
    outputs = [
        new_output("display_data", view | {"text/html": "<p>frames</p>", "text/plain": "Controls"}),
        new_output("display_data", view | {"text/plain": "a bar of progress"}),
        new_output("stream", text="words"),
    ]
    cells = [
        new_code_cell("seed = 1", metadata={"tags": ["injected-parameters"]}),
        new_code_cell("...", outputs=outputs),
    ]
    nbformat.write(new_notebook(cells=cells, metadata={"widgets": {}, "papermill": {}}), labs / "01_lab.ipynb")
    for status, source, there in (("ok", lab.digest, True), ("failed", lab.digest, False), ("ok", "another", False)):
        (labs / "01_lab.json").write_text(json.dumps({"status": status, "source": source}))
        assert bool(pairing.executed(lab, labs)) == there
    (labs / "01_lab.json").write_text(json.dumps({"status": "ok", "source": lab.digest}))
    notebook = pairing.executed(lab, labs)
    (cell,) = notebook.cells
    words = {"text/html": "<p>frames</p>", "text/plain": "Controls"}
    assert [dict(o.get("data", {})) for o in cell.outputs] == [words, {}] and not notebook.metadata
