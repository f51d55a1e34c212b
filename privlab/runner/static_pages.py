"""A lab that was run, for pages without a kernel: each widget as the HTML that the run left beside it (`notebook.live`)."""

import json
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from privlab.runner import catalogue

VIEW = "application/vnd.jupyter.widget-view+json"


def executed(lab: catalogue.Lab, run: Path) -> NotebookNode | None:
    """The notebook that a run left of a lab, if it is green and of the source as it stands."""
    note = run / f"{lab.name}.json"
    result = json.loads(note.read_text()) if note.exists() else {}
    if result.get("status") != "ok" or result.get("source") != lab.digest:
        return None
    return nbformat.read(run / f"{lab.name}.ipynb", as_version=4)


def rest(notebook: NotebookNode) -> None:
    """Take out of a notebook, in place, what needs a kernel or is the runner's. A widget without HTML, such as a bar of progress, goes."""
    for name in ("widgets", "papermill"):
        notebook.metadata.pop(name, None)
    notebook.cells = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if VIEW not in o.get("data", {}) or "text/html" in o.data]
            for output in cell.outputs:
                output.get("data", {}).pop(VIEW, None)
