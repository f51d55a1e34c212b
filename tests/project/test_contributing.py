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
GUIDE = ROOT / ".github" / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```(\w+)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # language, file, content
EVIDENCE = "book/evidence/class/even.attacks.jsonl"  # of its experiment
LEFT = shutil.ignore_patterns("__pycache__", "*.ipynb", "vendor", "_build", "_generated")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository with the files of the guide in it."""
    house = tmp_path_factory.mktemp("guide") / "privlab"
    for name in ("privlab", "labs", "tests"):
        shutil.copytree(ROOT / name, house / name, ignore=LEFT)
    shutil.copy(ROOT / "pyproject.toml", house)
    (house / "book/evidence").mkdir(parents=True)
    for _, name, content in BLOCK.findall(GUIDE.read_text()):
        if name:
            (house / name).parent.mkdir(exist_ok=True)
            with open(house / name, "a", encoding="utf-8") as file:
                file.write(content)
    return house


@pytest.fixture(scope="module")
def said(copy):
    """What each block without a file printed, in order; none of them failed."""
    here = Path(sys.executable).parent
    environment = {n: v for n, v in os.environ.items() if n not in ("PRIVLAB_EVIDENCE", "PRIVLAB_SMOKE")} | {
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(copy),
    }
    texts = []
    for language, name, content in BLOCK.findall(GUIDE.read_text()):
        if name or language not in ("bash", "python"):  # ```sh is shown and not run
            continue
        command = ["bash", "-eu", "-c", content] if language == "bash" else [sys.executable, "-c", content]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{content}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        texts.append(done.stdout)
    return texts


def test_the_guide_has_an_example_of_each_kind():
    names = [name for _, name, _ in BLOCK.findall(GUIDE.read_text()) if name]
    for wanted in (
        r"privlab/attacks/\w+/\w+\.py",
        r"tests/attacks/\w+/test_\w+\.py",
        r"privlab/experiments/\w+\.py",
        r".*claims\.yaml",
        r"labs/99_\w+\.py",
    ):
        assert any(re.fullmatch(wanted, name) for name in names), wanted
    assert GUIDE.read_text().count("```") == 2 * len(BLOCK.findall(GUIDE.read_text()))


@pytest.mark.check
def test_the_attack_passes_its_tests(said):
    assert re.search(r"\d+ passed", said[0]) and "failed" not in said[0]


@pytest.mark.check
def test_the_experiment_is_registered_and_measured(copy, said):
    assert "registered: even.attacks at class, repeats 0 to 7" in said[1]
    assert re.search(r"even.attacks +class +8 of 8", said[1])
    lines = (copy / EVIDENCE).read_text().splitlines()
    assert [json.loads(line)["repeat"] for line in lines] == list(range(8))


@pytest.mark.check
def test_the_claim_has_a_verdict_on_what_was_measured(said):
    (verdict,) = re.findall(r"REPRODUCED|NOT REPRODUCED|INCONCLUSIVE|NOT TESTED|MEASURING", said[2])
    assert verdict != "MEASURING" and "n=8" in said[2]


@pytest.mark.check
def test_the_claim_and_the_canary_pass_the_tests_that_are_named(said):
    assert "On a small, fresh ViT" in said[3] and len(re.findall(r"\d+ passed", said[3])) == 2


@pytest.mark.check
def test_the_lab_is_green_and_shows_the_evidence(copy, said):
    result = json.loads((copy / "runs/mine/99_even.json").read_text())
    assert result["status"] == "ok" and result["controls"]
    notebook = (copy / "labs/99_even.ipynb").read_text()
    assert "experiments.load" in notebook and (copy / "runs/mine/live/99_even/smoke/even.attacks.jsonl").exists()


def test_the_check_of_its_exercise_turns_three_wrong_answers_away(copy):
    program = "from privlab.notebook import checks; print([checks.verify('99.half', a).passed for a in (6.02, 3.01, -6.02, 2, '6')])"
    done = subprocess.run([sys.executable, "-c", program], cwd=copy, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[True, False, False, False, False]", done.stderr


def test_the_files_of_the_examples_are_formatted_as_the_rest(copy):
    ruff = Path(sys.executable).parent / "ruff"
    names = [name for language, name, _ in BLOCK.findall(GUIDE.read_text()) if name and language == "python"]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([ruff, *command, "--no-cache", *names], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_the_files_that_the_guide_names_are_there(copy):
    """In backticks: paths of the repository, or of its examples; the evidence of these is measured in a test above."""
    text = re.sub(r"^```.*?^```$", "", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`((?:privlab|tests|book|data_scripts|\.ci)/[\w./]+)`", text):
        assert "NN" in name or (ROOT / name).exists() or (copy / name).exists() or name == EVIDENCE, name
