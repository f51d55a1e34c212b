"""Run one lab in this process, keep its notebook, and find every error in it, those inside widgets included.

The lab runs in its own folder, as it does in JupyterLab, in a kernel of the Python that runs this; `import privlab` finds the installed
package (`pip install -e .`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from privlab.compute.atomic import write_atomic
from privlab.runner import kernel, pairing

RUN_MIME = "application/vnd.privlab.run+json"
PROBE_TAG = "privlab-run"
# Seconds of the processor for the page of each explorer: at smoke few, since `make run` is to stay under five minutes.
DRAWING, DRAWING_LONGER = {"smoke": 2.5}, 20.0
_WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def _probe(seconds: float) -> str:
    """The last cell of every run, and no part of the lab: it moves the controls, leaves pages, then says what the kernel took."""
    return f"""\
from IPython.display import display as _display
from privlab.compute import machine as _machine
from privlab.notebook import control_sweep as _control_sweep, live as _live

_found = {{}}
try:
    _found["controls"] = _control_sweep.sweep()
    _live.leave_pages({seconds})
finally:
    _found["peak_gb"] = _machine.peak_gb()
    _display({{"{RUN_MIME}": _found, "text/plain": "the run's own notes"}}, raw=True)
"""


def execute(
    source: Path,
    out: Path,
    parameters: dict[str, Any],
    timeout: int | None = None,
    started: Callable[[int, int, str], None] = lambda cell, cells, heading: None,
) -> dict[str, Any]:
    """Run a lab and write its notebook to `out`, up to and including the cell that failed.

    parameters: what goes into its cell tagged "parameters".  timeout: seconds a cell may take, None for no limit.
    started(cell, cells, heading) is called as each cell begins.
    Returns error (one line, or None), traceback, controls (seconds of each one's slowest answer), peak_gb.
    """
    lab = pairing.notebook(source)
    _check(lab, source, parameters)
    last = _probe(DRAWING.get(parameters.get("profile", ""), DRAWING_LONGER))
    lab.cells.append(nbformat.v4.new_code_cell(last, id=PROBE_TAG, metadata={"tags": [PROBE_TAG]}))
    begun: list[NotebookNode] = []

    def on_cell_start(cell: NotebookNode, cell_index: int) -> None:
        begun.append(cell)
        started(cell_index + 1, len(lab.cells) + 1, _heading(begun))

    fatal = ""
    with kernel.alone() as config:
        try:
            papermill.execute_notebook(
                lab,
                str(out).replace("{", "{{").replace("}", "}}"),  # papermill takes it for a format
                parameters=parameters,
                kernel_name=kernel.NAME,
                cwd=source.parent,
                execution_timeout=timeout,
                progress_bar=False,
                shutdown_kernel="immediate",  # it has told all; to take torch down in order takes seconds
                on_cell_start=on_cell_start,
                config=config,
            )
        except PapermillExecutionError:
            pass  # it is in the notebook, and found there
        except CellTimeoutError:
            fatal = f"CellTimeoutError: the cell did not end within {timeout} s; give a longer --timeout if it is meant to take longer"
        except DeadKernelError:
            fatal = "DeadKernelError: the kernel died, as it does when memory runs out; see what doctor says of memory"
    done = nbformat.read(out, as_version=4)
    if fatal and begun:
        _mark(done, begun[-1], fatal)
    probe = _take_probe(done)
    errors = list(_errors(done))
    done.metadata.papermill |= {"input_path": source.name, "output_path": out.name}
    write_atomic(out, pairing.as_bytes(done))
    return {
        "error": errors[0][0] + (f" (and {len(errors) - 1} more)" if errors[1:] else "") if errors else None,
        "traceback": errors[0][1] if errors else None,
        "controls": probe.get("controls", {}),
        "peak_gb": probe.get("peak_gb"),
    }


def _check(lab: NotebookNode, source: Path, parameters: dict[str, Any]) -> None:
    tagged = [cell.source for cell in lab.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise ValueError(
            f'{source.name} has {len(tagged)} cells tagged "parameters"; it needs one, with {", ".join(parameters)}'
        )
    for name in parameters:
        if not re.search(rf"^{name}\s*(:.*)?=", tagged[0], re.MULTILINE):
            raise ValueError(
                f'{source.name} sets no {name} in its cell tagged "parameters"; it needs {", ".join(parameters)}'
            )


# -- what went wrong ---------------------------------------------------------------------------------------------------


def _errors(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """(one line, traceback) for each error in a cell's outputs, then for each inside a widget's."""
    before: list[NotebookNode] = []
    for cell in notebook.cells:
        before.append(cell)
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                yield _line(_place(before), output), _plain(output)
    cells = _shown_by(notebook)
    for model, widget in _widgets(notebook).items():
        for output in widget["state"].get("outputs") or []:
            if output["output_type"] == "error":
                yield _line(f"widget of {cells.get(model, 'no cell')}", output), _plain(output)


def _line(place: str, output: dict[str, Any]) -> str:
    lines = [line.strip() for line in _ANSI.sub("", output["evalue"]).splitlines() if line.strip()]
    return ": ".join([place, output["ename"], *lines[-1:]])


def _plain(output: dict[str, Any]) -> str:
    return _ANSI.sub("", "\n".join(output["traceback"]))


def _place(before: list[NotebookNode]) -> str:
    if before[-1].get("id") == PROBE_TAG:
        return "moving the controls"
    return f"In [{before[-1].get('execution_count') or '?'}], under {_heading(before)!r}"


def _heading(before: list[NotebookNode]) -> str:
    """The heading that a reader sees last above a cell."""
    for cell in reversed(before):
        if cell.cell_type == "markdown" and (lines := re.findall(r"^#+\s+(.*)$", cell.source, re.MULTILINE)):
            return lines[-1]
    return "no heading"


def _widgets(notebook: NotebookNode) -> dict[str, Any]:
    return notebook.metadata.get("widgets", {}).get(_WIDGET_STATE, {}).get("state", {})


def _shown_by(notebook: NotebookNode) -> dict[str, str]:
    """Widget model -> the cell that shows it, itself or inside the boxes around it."""
    models, place, before = _widgets(notebook), {}, []
    for cell in notebook.cells:
        before.append(cell)
        views = [
            o.data.get("application/vnd.jupyter.widget-view+json", {}) for o in cell.get("outputs", []) if "data" in o
        ]
        reach = [view["model_id"] for view in views if view]
        while reach:
            model = reach.pop()
            if model in models and model not in place:
                place[model] = _place(before)
                reach += re.findall(r"IPY_MODEL_(\w+)", json.dumps(models[model]["state"].get("children", [])))
    return place


def _mark(notebook: NotebookNode, at: NotebookNode, message: str) -> None:
    """Write what stopped the kernel into the cell where it happened, in place of the interrupt that it may show."""
    name, _, why = message.partition(": ")
    cell = next(cell for cell in notebook.cells if cell.id == at.id)
    outputs = [output for output in cell.get("outputs", []) if output["output_type"] != "error"]
    where = [line for output in cell.get("outputs", []) for line in output.get("traceback", [])]
    cell.outputs = [*outputs, nbformat.v4.new_output("error", ename=name, evalue=why, traceback=[*where, message])]


def _take_probe(notebook: NotebookNode) -> dict[str, Any]:
    """What the last cell found; the cell itself goes, unless it is the one that failed."""
    for i, cell in enumerate(notebook.cells):
        if cell.get("id") == PROBE_TAG:
            outputs = cell.outputs
            if not any(output.output_type == "error" for output in outputs):
                del notebook.cells[i]
            return next((dict(o.data[RUN_MIME]) for o in outputs if RUN_MIME in o.get("data", {})), {})
    return {}
