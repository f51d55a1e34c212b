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
pytestmark = pytest.mark.check


def run(place, *command):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PRIVLAB_", "PYTEST_"))}
    own = clean | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=place, env=own, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What git tracks, or would, committed anew, and the files of the lab."""
    house = tmp_path_factory.mktemp("sixteen") / "privlab"
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
    return house


def test_nothing_changes_but_its_own_files_and_what_pair_writes(copy):
    lines = run(copy, "git", "status", "--porcelain", "--untracked-files=all").splitlines()
    assert {line[3:] for line in lines} == FILES | WRITTEN
    assert "[Does a smaller photograph leak more?](labs/15_example.ipynb)" in (copy / "README.md").read_text()
    assert " | `fewer` 5, `baseline` 3 |\n" in (copy / "book/teaching.md").read_text()


def test_exercises_claim_and_drawing_are_found(copy):
    program = """
from pathlib import Path
from privlab import ledger
from privlab.notebook import checks, drawings
from privlab.runner import catalogue
assert [checks.verify("15.fewer", n).passed for n in (16, 4)] == [True, False] and checks.verify("15.baseline", "mean").passed
assert [j.verdict for j in ledger.judgements("15")] == ["measuring"]
assert drawings.show("15.smaller").alt.startswith("A large square")
assert catalogue.labs(Path("labs"))[-1].name == "15_example"
"""
    run(copy, sys.executable, "-c", program)


def test_it_runs(copy):
    run(copy, sys.executable, "-m", "privlab", "run", "15", "--profile", "smoke", "--out", "runs/mine")
    result = json.loads((copy / "runs/mine/15_example.json").read_text())
    assert result["status"] == "ok" and result["controls"]
