"""Run one lab, keep its notebook, and find every error in it, those inside widgets included.

It runs in its own folder, as in JupyterLab, in a kernel that is this very Python, reached through files of its own, by a client that misses
no message; `import privlab` finds the installed package (`pip install -e .`).
"""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any
from unittest.mock import patch

import nbformat
import papermill
from ipykernel.kernelspec import write_kernel_spec
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets import Type
from traitlets.config import Config

from privlab.compute.files import write_atomic
from privlab.runner import pairing

KERNEL, PROBE_TAG = "python3", "privlab-run"
SAYS = 30  # seconds between the lines that a lab prints on its way
# Seconds of the processor for the page of each explorer: at smoke few, since `make run` is to stay under five minutes.
DRAWING, DRAWING_LONGER = {"smoke": 2.5}, 20.0
_MIME = "application/vnd.privlab.run+json"
_WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
# The last cell of every run, and no part of the lab: it moves the controls, leaves pages, then says what the kernel took.
_PROBE = """\
from IPython.display import display as _display
from privlab.compute import machine as _machine
from privlab.notebook import control_sweep as _control_sweep, live as _live

_found = {{}}
try:
    _found["controls"] = _control_sweep.sweep()
    _live.leave_pages({seconds})
finally:
    _found["peak_gb"] = _machine.peak_gb()
    _display({{"{mime}": _found, "text/plain": "the run's own notes"}}, raw=True)
"""


def execute(
    source: Path,
    out: Path,
    parameters: Mapping[str, Any],
    timeout: int | None = None,
    environment: Mapping[str, str] | None = None,
    name: str = "",
) -> dict[str, Any]:
    """Run a lab and write its notebook to `out`, up to and including the cell that failed.

    parameters: what goes into its cell tagged "parameters".  timeout: seconds a cell may take, None for no limit.
    environment: see `alone`.  name: of the lab, in the lines that say from time to time where it is; "" for none.
    Returns status ("ok", "failed"), seconds, error (one line, or None), controls (names of those that were moved), peak_gb.
    """
    lab, begun = pairing.notebook(source), list[NotebookNode]()
    probe = _PROBE.format(mime=_MIME, seconds=DRAWING.get(parameters.get("profile", ""), DRAWING_LONGER))
    lab.cells.append(nbformat.v4.new_code_cell(probe, id=PROBE_TAG, metadata={"tags": [PROBE_TAG]}))
    began = told = time.monotonic()

    def on_cell_start(cell: NotebookNode, cell_index: int) -> None:
        nonlocal told
        begun.append(cell)
        if name and (cell_index == 0 or time.monotonic() - told > SAYS):
            told = time.monotonic()
            at = f"cell {cell_index + 1} of {len(lab.cells) + 1}, {_heading(begun)}"  # with that of the parameters
            print(f"{name}  {told - began:.0f} s, {at}", flush=True)

    errors = list[str]()
    with alone(environment) as config:
        try:
            papermill.execute_notebook(
                lab,
                str(out).replace("{", "{{").replace("}", "}}"),  # papermill takes it for a format
                parameters=parameters,
                kernel_name=KERNEL,
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
            errors.append(f"{_place(begun)}: the cell did not end within {timeout} s; a longer --timeout may do")
        except DeadKernelError:
            errors.append(f"{_place(begun)}: the kernel died, as it does when memory runs out")
    done = nbformat.read(out, as_version=4)
    errors += _errors(done)
    outputs = done.cells[-1].outputs
    found: dict[str, Any] = next((output.data[_MIME] for output in outputs if _MIME in output.get("data", {})), {})
    if not any(output.output_type == "error" for output in outputs):
        del done.cells[-1]
    done.metadata.papermill |= {"input_path": source.name, "output_path": out.name}
    write_atomic(out, pairing.as_bytes(done))
    return {
        "status": "failed" if errors else "ok",
        "seconds": round(time.monotonic() - began, 1),
        "error": errors[0] + f" (and {len(errors) - 1} more)" * (len(errors) > 1) if errors else None,
        "controls": found.get("controls", []),
        "peak_gb": found.get("peak_gb"),
    }


def _errors(notebook: NotebookNode) -> Iterator[str]:
    """A line for each error in a cell's outputs, then for each inside a widget's; their tracebacks are in the notebook."""
    places = [(_place(notebook.cells[:at]), cell.get("outputs")) for at, cell in enumerate(notebook.cells, start=1)]
    widgets = notebook.metadata.get("widgets", {}).get(_WIDGET_STATE, {}).get("state", {}).values()
    for place, outputs in [*places, *(("in a widget", widget["state"].get("outputs")) for widget in widgets)]:
        for output in outputs or []:
            if output["output_type"] == "error":
                lines = [line.strip() for line in _ANSI.sub("", output["evalue"]).splitlines() if line.strip()]
                yield ": ".join([place, output["ename"], *lines[-1:]])


def _place(cells: Sequence[NotebookNode]) -> str:
    """Where the last of these cells stands."""
    if cells[-1].get("id") == PROBE_TAG:
        return "moving the controls"
    return f"In [{cells[-1].get('execution_count') or '?'}], under {_heading(cells)!r}"


def _heading(cells: Sequence[NotebookNode]) -> str:
    """The heading that a reader sees last above the last of these cells."""
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return (re.findall(r"^#+\s+(.*)$", text, re.MULTILINE) or ["no heading"])[-1]


class PatientChannel(AsyncZMQSocketChannel):
    """A channel that looks again for messages while it waits.

    nbclient answers an Output widget on the very socket on which it awaits the end of the cell, by a send that pyzmq's
    asyncio does not know of. Such a send can swallow the socket's wake-up for a reply that has just come in; the wait
    then lasts until the cell's timeout, or for ever. One run in ten of a lab with a widget stood still so.
    """

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return await super().get_msg(min(0.2, max(0.0, end - time.monotonic())))
            except Empty:
                if time.monotonic() >= end:
                    raise


class PatientClient(AsyncKernelClient):
    """A kernel client whose shell, iopub and control channels are patient."""

    shell_channel_class = Type(PatientChannel)
    iopub_channel_class = Type(PatientChannel)
    control_channel_class = Type(PatientChannel)


@contextmanager
def alone(environment: Mapping[str, str] | None = None) -> Iterator[Config]:
    """Settings for nbclient under which the kernel KERNEL is `sys.executable`, with no port, user's profile or history.

    environment: what the kernel inherits beside that of this process, which is changed for the length of the context.
    """
    # the path of a socket may have about a hundred characters; "ip" is its stem, by default a name that parallel labs would share
    with tempfile.TemporaryDirectory(prefix="privlab-", dir="/tmp", ignore_cleanup_errors=True) as place:
        write_kernel_spec(Path(place) / "kernels" / KERNEL)
        own = {"JUPYTER_PATH": place, "JUPYTER_RUNTIME_DIR": place, "IPYTHONDIR": f"{place}/ipython"}
        with patch.dict(os.environ, own | dict(environment or {})):
            yield Config(KernelManager={"client_factory": PatientClient, "transport": "ipc", "ip": f"{place}/kernel"})
