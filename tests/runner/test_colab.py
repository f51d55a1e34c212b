"""A simulated Colab: a fresh environment that sees the packages of this one, torch among them, and lacks privlab and two more.

What is real: the setup cell, pip, git, torch, the first cells of lab 00. What is not: `google.colab` is an empty module, the
repository is a clone on this disk, and the packages that "Colab" has are links to those of this environment.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from privlab.runner import catalogue, doctor, launch_buttons, pairing

ROOT = Path(__file__).parents[2]
ABSENT = ("lpips", "opacus", "privlab", "_privlab", "_editable_impl_privlab", "__editable__")


def call(*command: object, cwd: Path | None = None, **more: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment | more, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.check
def test_the_cell_installs_privlab_with_its_labs_and_evidence_and_leaves_torch_alone(tmp_path):
    """Lab 00 up to its first import, as a notebook on Colab would run it, and then what the test wants to know."""
    theirs = tmp_path / "dist-packages"
    (theirs / "google/colab").mkdir(parents=True)
    (theirs / "google/colab/__init__.py").touch()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(ABSENT) and entry.name not in ("google", "__pycache__") and entry.suffix != ".pth":
            (theirs / entry.name).symlink_to(entry)
    call(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python, repository = tmp_path / "venv/bin/python", tmp_path / "repository"
    own = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "theirs.pth").write_text(f"{theirs}\n")
    call("git", "clone", "--quiet", "--shared", ROOT, repository)
    call("git", "-C", repository, "checkout", "-q", "-B", "main")

    address = f"file://{repository}"
    lab = pairing.notebook(ROOT / "labs/00_start_here.py", address)
    code = [cell.source for cell in lab.cells if cell.cell_type == "code"][:2]
    assert code[0] == launch_buttons.setup(address) and "from privlab import" in code[1]
    told = "import lpips, opacus, privlab, torch\nprint(torch.__file__, privlab.__file__, lpips.__file__, sep='\\n')"
    *_, torch, package, lpips = call(python, "-c", "\n".join([*code, told]), cwd=tmp_path).splitlines()
    assert torch == str(theirs / "torch/__init__.py") and package.startswith(str(own)) and lpips.startswith(str(own))
    new = {path.name.split("-")[0] for path in own.glob("*.dist-info")}
    assert new == {"privlab", "lpips", "opacus"}, "nothing that was there is installed again"
    call(python, "-m", "privlab", "labs", "--to", "mine", cwd=tmp_path)
    labs = [[one.name for one in catalogue.everything(of)] for of in (tmp_path / "mine", ROOT / "labs")]
    assert labs[0] == labs[1] and "reproduced" in call(python, "-m", "privlab", "report", cwd=tmp_path)


def test_the_cell_does_nothing_where_privlab_is(tmp_path):
    (tmp_path / "google/colab").mkdir(parents=True)
    no_pip = "import subprocess\nsubprocess.run = None"  # calling it would raise
    cell = f"{no_pip}\n{launch_buttons.setup('https://x.org')}"
    call(sys.executable, "-c", cell, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")


def test_what_does_not_fit_is_told_and_torch_is_never_installed(monkeypatch, capsys):
    monkeypatch.setenv("PIP_DRY_RUN", "1")  # should the constraint be lost, nothing here may change
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    asked = [(Requirement("packaging==21.0"), ""), (Requirement("numpy>=1"), "2.0"), (Requirement("nbclient"), "")]
    monkeypatch.setattr(doctor, "needed", lambda extra: asked)
    doctor.complete()
    said = capsys.readouterr().out
    assert said.startswith("privlab: packaging==21.0 could not be installed beside what is here: ERROR: ")
    assert "conflicting dependencies" in said, "pip is held to what is here"
    monkeypatch.setattr(doctor, "needed", lambda extra: [(Requirement("torch>=2"), "")])
    with pytest.raises(RuntimeError, match="torch or torchvision is not installed here"):
        doctor.complete()
