"""The commands of the guides that no room's tests run: as they stand there. Those of CONTRIBUTING.md have tests of their own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.check
def test_from_an_assignment_to_grades(tmp_path):
    """The guide's block, on the notebook of a student who has answered nothing."""
    pytest.importorskip("nbgrader", reason="pip install -e '.[teach]' brings nbgrader")
    path = f"{sys.prefix}/bin:{os.environ['PATH']}"
    if not shutil.which("bwrap", path=path):
        pytest.skip("bwrap is missing: sudo apt-get install bubblewrap")
    guide = (ROOT / "book/teaching.md").read_text().split("## From an assignment to grades")[1]
    activate, *commands = re.search(r"```bash\n(.*?)```", guide, re.DOTALL)[1].splitlines()
    assert activate == "source .venv/bin/activate"
    (tmp_path / "labs").symlink_to(ROOT / "labs")
    script = "\n".join(["python -m privlab student 04 --out returned/ada", *commands])
    own = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    own |= {"PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "ada/04_gradient_inversion.ipynb -> ada, 04_gradient_inversion" in done.stdout
    assert re.search(r"^ada, 04_gradient_inversion: 0 of \d+", done.stdout, re.MULTILINE)
    assert ",ada," in (tmp_path / "course/grades.csv").read_text()
