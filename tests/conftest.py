"""One thread a process: on shared cores two threads of one small solve wait for each other more than they help."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; the processes that tests start inherit it

import filelock
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("privlab", deadline=None, print_blob=True)  # first calls import, fetch and compile
settings.load_profile("privlab")
ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items):
    """Two processes must collect the same tests: an address in a name is another in each."""
    if addresses := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"{addresses[0]}: an object's address is in its name; give ids to parametrize")


@pytest.fixture
def figures(monkeypatch):
    """The matplotlib figures behind the pictures that a test draws."""
    from privlab.notebook.plots import picture  # not at the top: few tests draw

    seen, render = [], picture.render

    def seeing(figure, *told, **look):
        seen.append(figure)
        return render(figure, *told, **look)

    monkeypatch.setattr(picture, "render", seeing)
    return seen


@pytest.fixture
def no_widgets_of_other_tests():
    import ipywidgets  # not at the top: few tests have widgets

    ipywidgets.Widget.close_all()
    yield
    ipywidgets.Widget.close_all()


@pytest.fixture
def shell():
    """IPython's shell, as a kernel has one, for this test alone."""
    from IPython.core.interactiveshell import InteractiveShell  # not at the top: as above

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.fixture
def execute_lab(tmp_path):
    """Runs the source of a lab, jupytext's, as the headless runner does: what was found, and the notebook."""
    import nbformat

    from privlab.runner import execution

    def run(text, **more):
        source, out = tmp_path / "01_lab.py", tmp_path / "out.ipynb"
        source.write_text(text)
        found = execution.execute(source, out, {"profile": "smoke", "seed": 3, "device": "cpu"}, **more)
        return found, nbformat.read(out, as_version=4)

    return run


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of this session, the same in every process of pytest-xdist; who makes something in it holds a lock."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def run_labs():
    """Labs at smoke from the command line, two at once: run_labs(out, "05", "--resume", PRIVLAB_DATA="...")."""

    def run(out, *arguments, **environment):
        command = [sys.executable, "-m", "privlab", "run", *arguments, "--profile", "smoke", "--jobs", "2"]
        return subprocess.run(
            [*command, "--out", str(out)],
            cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=2300,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def smoke(shared, run_labs):
    """Every lab at smoke: the folder of the run, and what the runner said.

    PRIVLAB_SMOKE names the folder, as the Makefile does; without it the run is made in this session's. A lab that is there, of
    this very source, is not run again.
    """
    out = ROOT / os.environ.get("PRIVLAB_SMOKE", shared / "smoke")
    with filelock.FileLock(shared / "smoke.lock"):
        return out, run_labs(out, "--resume")


@pytest.fixture(scope="session")
def run_deeper(shared, smoke, run_labs):
    """A function that runs one notebook that goes deeper, such as "deeper/04_x", beside the labs; the folder of the run."""

    def run(name):
        with filelock.FileLock(shared / "smoke.lock"):
            done = run_labs(smoke[0], name, "--resume")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        return smoke[0]

    return run


@pytest.fixture(scope="session")
def built_book(shared, smoke):
    """The book as `make book` builds it after `make run`, in a copy: -W, so no warning."""
    place, (run, _) = shared / "book", smoke
    with filelock.FileLock(shared / "book.lock"):
        if not (place / "complete").exists():
            subprocess.run([sys.executable, ROOT / "data_scripts/vendor.py"], capture_output=True)
            for name in ("book", "labs"):
                left_out = shutil.ignore_patterns("_build", "_generated", "__pycache__")
                shutil.copytree(ROOT / name, place / name, ignore=left_out, dirs_exist_ok=True)
            shutil.copy(ROOT / "pyproject.toml", place)  # the house is drawn from it
            command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "book", "built"]
            clean = {name: value for name, value in os.environ.items() if not name.startswith("PRIVLAB_")}
            clean["PRIVLAB_RUN"] = str(run)
            done = subprocess.run(command, cwd=place, env=clean, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
            (place / "complete").touch()
    return place / "built"
