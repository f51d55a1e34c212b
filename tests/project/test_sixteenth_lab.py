"""A sixteenth lab costs no other file: who adds its own files and says `pair` has changed nothing else by hand."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAB = Path(__file__).parent / "sixteenth"  # the files of a small lab 15, each where it belongs
FILES = {path.relative_to(LAB).as_posix() for path in LAB.rglob("*") if path.is_file()}
WRITTEN = {"README.md", "book/teaching.md", "labs/15_example.ipynb"}  # by `pair`
FOUND = """
from privlab import ledger
from privlab.notebook import checks, drawings
assert [checks.verify("15.fewer", n).passed for n in (16, 4)] == [True, False] and checks.verify("15.baseline", "mean").passed
assert [j.verdict for j in ledger.judgements("15")] == ["measuring"]
assert drawings.show("15.smaller").alt.startswith("A large square")
"""


def run(place, *command):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PRIVLAB_", "PYTEST_"))}
    own = clean | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=place, env=own, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.check
def test_pair_writes_all_that_changes_its_pieces_are_found_and_it_runs(tmp_path):
    """In a copy of what git tracks, or would, committed anew."""
    house = tmp_path / "privlab"
    for name in run(ROOT, "git", "ls-files", "-zco", "--exclude-standard").strip("\0").split("\0"):
        if (ROOT / name).is_file():
            (house / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, house / name)
    run(house, "git", "init", "--quiet")
    run(house, "git", "add", "--all")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null"]
    run(house, "git", *who, "commit", "--quiet", "--message", "fifteen labs")
    shutil.copytree(LAB, house, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    run(house, sys.executable, "-m", "privlab", "pair")
    lines = run(house, "git", "status", "--porcelain", "--untracked-files=all").splitlines()
    assert {line[3:] for line in lines} == FILES | WRITTEN
    assert "[Does a smaller photograph leak more?](labs/15_example.ipynb)" in (house / "README.md").read_text()
    assert "| 15 Does a smaller photograph leak more? |" in (house / "book/teaching.md").read_text()
    run(house, sys.executable, "-c", FOUND)
    run(house, sys.executable, "-m", "privlab", "run", "15", "--profile", "smoke", "--out", "runs/mine")
    result = json.loads((house / "runs/mine/15_example.json").read_text())
    assert result["status"] == "ok" and result["controls"]
