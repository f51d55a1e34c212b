"""One thread a process: on shared cores two threads of one small solve wait for each other more than they help."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; the processes that tests start inherit it

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("privlab", deadline=None, print_blob=True)  # first calls import, fetch and compile
settings.load_profile("privlab")


@pytest.fixture
def figures(monkeypatch):
    """The matplotlib figures behind the pictures that a test draws."""
    from privlab.notebook.plots import picture  # not at the top: few tests draw

    seen = []
    render = picture.render
    monkeypatch.setattr(picture, "render", lambda figure, alt: seen.append(figure) or render(figure, alt))
    return seen


@pytest.fixture
def execute_lab(tmp_path, monkeypatch):
    """Runs the source of a lab, jupytext's, as the headless runner does: what was found, and the notebook as text."""
    from privlab.runner import execution

    for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # so that what execute() sets is gone after the test

    def run(text):
        source, out = tmp_path / "01_lab.py", tmp_path / "out.ipynb"
        source.write_text(text)
        return execution.execute(source, out, {"profile": "smoke", "seed": 0, "device": "cpu"}), out.read_text()

    return run
