"""Run one lab, keep its notebook, and find every error in it, those inside widgets included.

It runs in its own folder, as in JupyterLab; `import privlab` finds the installed package (`pip install -e .`).
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
import papermill
import zmq
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets import Type

from privlab.compute.files import write_atomic
from privlab.runner import pairing

PROBE_TAG = "privlab-run"
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
    source: Path, out: Path, parameters: Mapping[str, Any], timeout: int | None = None, **environment: str
) -> dict[str, Any]:
    """Run a lab and write its notebook to `out` as it goes on, up to and including the cell that failed.

    parameters: what goes into its cell tagged "parameters".  timeout: seconds a cell may take, None for no limit.
    environment: what the kernel inherits beside that of this process.
    Returns status ("ok", "failed"), seconds, error (one line, or None), controls (names of those that were moved), peak_gb.
    """
    lab, began, ended = pairing.notebook(source), time.monotonic(), ""
    # of the processor, for the page of each explorer: at smoke few, since `make run` is to stay under five minutes
    seconds = 2.5 if parameters.get("profile") == "smoke" else 20.0
    probe = _PROBE.format(mime=_MIME, seconds=seconds)
    lab.cells.append(nbformat.v4.new_code_cell(probe, id=PROBE_TAG, metadata={"tags": [PROBE_TAG]}))
    with patch.dict(os.environ, environment):
        try:
            papermill.execute_notebook(
                lab,
                str(out).replace("{", "{{").replace("}", "}}"),  # papermill takes it for a format
                parameters=parameters,
                kernel_name="python3",
                kernel_manager_class=Kernel,
                cwd=source.parent,
                execution_timeout=timeout,
                progress_bar=False,
                shutdown_kernel="immediate",  # it has told all; to take torch down in order takes seconds
            )
        except PapermillExecutionError:
            pass  # it is in the notebook, and found there
        except CellTimeoutError:
            ended = f"the cell did not end within {timeout} s"
        except DeadKernelError:
            ended = "the kernel died, as it does when memory runs out"
    done = nbformat.read(out, as_version=4)
    begun = [cell for cell in done.cells if cell.metadata.get("papermill", {}).get("start_time")]
    errors = [f"{_place(begun)}: {ended}"] * bool(ended) + [*_errors(done)]
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
    """Where the last of these cells stands, with the heading that a reader sees last above it."""
    if cells[-1].get("id") == PROBE_TAG:
        return "moving the controls"
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    heading = (re.findall(r"^#+\s+(.*)$", text, re.MULTILINE) or ["no heading"])[-1]
    return f"In [{cells[-1].get('execution_count') or '?'}], under {heading!r}"


class PatientChannel(AsyncZMQSocketChannel):
    """A channel that looks for messages after it has sent one.

    nbclient answers an Output widget on the very socket on which it awaits the end of the cell, by a send that pyzmq's
    asyncio does not know of. Such a send can swallow the socket's wake-up for a reply that has just come in; the wait
    then lasts until the cell's timeout, or for ever. One run in ten of a lab with a widget stood still so.
    """

    def send(self, msg: dict[str, Any]) -> None:
        super().send(msg)
        self.socket.get(zmq.EVENTS)  # pyzmq wakes whoever waits for what it finds so


class PatientClient(AsyncKernelClient):
    """A kernel client whose channels on which it sends are patient."""

    shell_channel_class = Type(PatientChannel)
    control_channel_class = Type(PatientChannel)


class Kernel(AsyncKernelManager):
    """A kernel that is this very Python, with no port, user's profile or history, and with clients that miss no message."""

    client_factory = Type(PatientClient)
    interrupts = "signal"

    def __init__(self, **kwargs: Any) -> None:
        # the path of a socket may have about a hundred characters
        self.folder = tempfile.TemporaryDirectory(prefix="privlab-", dir="/tmp", ignore_cleanup_errors=True)
        super().__init__(transport="ipc", connection_file=f"{self.folder.name}/kernel.json", **kwargs)
        argv = self.command(self.folder.name)
        self._kernel_spec = KernelSpec(argv=argv, language="python", interrupt_mode=self.interrupts)

    def command(self, folder: str) -> list[str]:
        """How it is started.  folder: its own, with the files by which it is reached."""
        return [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", f"--ipython-dir={folder}"]
