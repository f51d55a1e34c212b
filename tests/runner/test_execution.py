"""One lab in a real kernel: what goes in, what is kept, and every kind of failure where it happened."""

import asyncio
import json
import re
import sys
from queue import Empty

import nbformat
import pytest
import zmq
import zmq.asyncio
from jupyter_client.session import Session

from privlab.runner import execution, pairing

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
def lab(execute_lab):
    """Run a lab with these cells after the usual head; (result, kept notebook)."""
    return lambda *cells, **more: execute_lab(HEAD + "".join(f"# %%\n{cell}\n\n" for cell in cells), **more)


def text_of(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def test_a_green_lab_whose_explorer_leaves_its_page_beside_the_widget(lab, tmp_path):
    found, kept = lab(
        "import sys, os\nprint(profile, seed, device, sys.executable, os.getcwd(), os.environ['A'], sep='\\n')",
        "from privlab.notebook import widgets\n"
        "widgets.explore(lambda n, way: widgets.Sentence(f'{way} {n}'), start={'n': 2}, n=(1, 2, 3), way='ab')",
        A="given",
    )
    assert found["error"] is None and found["status"] == "ok" and found["peak_gb"] > 0
    assert sorted(found["controls"]) == ["n", "way"]
    # the lab saw this run's parameters, this very Python, its own folder, and what the runner sets
    assert text_of(kept.cells[4]).split("\n")[:6] == ["smoke", "3", "cpu", sys.executable, str(tmp_path), "given"]
    # the run's own cell is gone, the notebook says where it came from without naming a folder, and it is valid
    assert [c.metadata.tags for c in kept.cells] == [[], ["parameters"], ["injected-parameters"], [], [], []]
    about = kept.metadata.papermill
    assert about.input_path == "01_lab.py" and str(tmp_path) not in json.dumps(about)
    nbformat.validate(kept)
    (shown,) = kept.cells[-1].outputs
    assert shown.data["text/html"].count("data-frame=") == 6 and pairing.VIEW in shown.data
    assert '<div data-frame="1-0"><p>a 2</p>' in shown.data["text/html"]


def test_a_cell_that_raises(lab):
    found, kept = lab("print('before')", "def f():\n    raise ValueError('line one\\nline two')\nf()", "print('after')")
    assert found["error"] == "In [4], under 'Where it happens': ValueError: line two"
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert text_of(cells[2]) == "before\n" and cells[3].outputs[0].ename == "ValueError"
    assert cells[4].outputs == [] and cells[4].source == "print('after')"  # not run, still there


def test_callbacks_that_raise_although_papermill_stays_green(lab):
    """One in a control that the sweep leaves alone, so that only the state of the widgets can tell; one at an upper end."""
    found, kept = lab(
        "import ipywidgets\n"
        "k = ipywidgets.IntSlider(2).add_class('no_sweep')\n"
        "ipywidgets.VBox([ipywidgets.interactive(lambda k: 1 / (k - 2), k=k)])",
        "ipywidgets.interact(lambda depth: 1 / (depth - 9), depth=(0, 9))",
    )
    sweep, widget = execution._errors(kept)
    assert sweep == "moving the controls: RuntimeError: depth at 9: ZeroDivisionError: division by zero"
    assert found["error"] == f"{sweep} (and 1 more)" and widget == "in a widget: ZeroDivisionError: division by zero"
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


async def hears_after_a_lost_wakeup() -> bool:
    """Whether a channel that waits without limit gets a message although a send beside it took the socket's wake-up."""
    context = zmq.asyncio.Context()
    here, there = context.socket(zmq.DEALER), zmq.Context.shadow(context.underlying).socket(zmq.DEALER)
    try:
        there.bind("inproc://shell")
        here.connect("inproc://shell")
        session = Session()
        channel = execution.PatientChannel(here, session)
        with pytest.raises(Empty):
            await channel.get_msg(timeout=0.3)
        waiting = asyncio.ensure_future(channel.get_msg())
        await asyncio.sleep(0.05)  # it waits now
        session.send(there, session.msg("execute_reply", {"status": "ok"}))
        channel.send(session.msg("comm_msg", {}))  # the Output widget answers before the loop has looked at the socket
        done, _ = await asyncio.wait([waiting], timeout=3)
        waiting.cancel()
        return bool(done) and waiting.result()["msg_type"] == "execute_reply"
    finally:
        here.close(0)
        there.close(0)
        context.term()


def test_a_reply_whose_wake_up_got_lost_is_heard():
    assert asyncio.run(hears_after_a_lost_wakeup())


def test_a_kernel_has_a_folder_of_its_own_with_no_port_and_no_profile_of_the_user_and_patient_clients():
    one = execution.Kernel(kernel_name="python3")
    assert f"--ipython-dir={one.folder.name}" in one.format_kernel_cmd() and one.ip.startswith(one.folder.name)
    assert one.transport == "ipc" and issubclass(one.client_factory, execution.PatientClient)
