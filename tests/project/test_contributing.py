"""The guide for contributors does what it says: its blocks are put where they belong in a copy of the repository, and run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / ".github/CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"^```(\w+)[ ]?([^\n]*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)  # language, file, content


@pytest.mark.check
def test_its_commands_do_what_it_says(tmp_path):
    """The attack passes its tests, the experiment is registered and measured, and the claim has a verdict on that."""
    house = tmp_path / "privlab"
    for name in ("privlab", "labs", "tests"):
        shutil.copytree(ROOT / name, house / name, ignore=shutil.ignore_patterns("__pycache__", "*.ipynb"))
    shutil.copy(ROOT / "pyproject.toml", house)
    (house / "book/evidence").mkdir(parents=True)
    own = {name: value for name, value in os.environ.items() if name not in ("PRIVLAB_EVIDENCE", "PRIVLAB_SMOKE")}
    own |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(house)}
    said = []
    for language, name, content in BLOCKS:
        if name:
            (house / name).parent.mkdir(exist_ok=True)
            (house / name).write_text(content, encoding="utf-8")
        elif language in ("bash", "python"):  # ```sh is shown and not run
            command = ["bash", "-eu", "-c", content] if language == "bash" else [sys.executable, "-c", content]
            done = subprocess.run(command, cwd=house, env=own, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, f"{content}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            said.append(done.stdout)
    attack, measured, shown, tested = said
    assert re.search(r"\d+ passed", attack) and "registered: even.attacks at class, repeats 0 to 7" in measured
    evidence = (house / "book/evidence/class/even.attacks.jsonl").read_text().splitlines()
    assert [json.loads(line)["repeat"] for line in evidence] == list(range(8))
    assert re.search(r"reproduced|inconclusive|not tested", shown) and "n=8" in shown
    assert "On a small, fresh ViT" in tested and len(re.findall(r"\d+ passed", tested)) == 2
