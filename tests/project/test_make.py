"""What `make lab` opens, and what it says to root, whom JupyterLab refuses."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not shutil.which("make"), reason="this machine has no make")
@pytest.mark.parametrize(
    ("user", "more", "status", "line"),
    [
        (
            1000,
            (),
            0,
            "python -m privlab student --keep --out student\njupyter lab --ServerApp.ip=127.0.0.1 --notebook-dir=student\n",
        ),
        (1000, ("SOLUTIONS=1",), 0, "jupyter lab --ServerApp.ip=127.0.0.1 --notebook-dir=labs\n"),
        (0, (), 2, "make lab: you are root, and a notebook could change anything here, so JupyterLab refuses; "),
        (
            0,
            ("ROOT=1", "SOLUTIONS=1"),
            0,
            "jupyter lab --ServerApp.ip=127.0.0.1 --notebook-dir=labs --allow-root\n",
        ),
    ],
)
def test_make_lab_tells_root_what_would_do(tmp_path, user, more, status, line):
    for name, text in (("jupyter", 'echo jupyter "$@"'), ("python", 'echo python "$@"'), ("id", f"echo {user}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command = ["make", "-s", "-o", "env", "lab", f"BIN={tmp_path}", *more]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == status
    assert (done.stdout + done.stderr).startswith(line)
