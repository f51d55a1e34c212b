"""The house: a module is read in one sitting, imports take what they need, and no text names a module that is gone."""

import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from privlab.ledger import papers

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "privlab").rglob("*.py"))


def test_a_module_is_read_in_one_sitting_and_its_name_says_something():
    assert {path.stem for path in (ROOT / "privlab").glob("*.py")} == {"__init__", "__main__", "leak"}
    assert not {path.stem for path in MODULES} & {"utils", "helpers", "common", "base", "misc", "core"}
    assert not [path for path in MODULES if len(path.read_text().splitlines()) > 400]


def test_imports_bring_only_what_they_need():
    """The package nothing with OpenMP, whose variables it sets; a worker neither networks nor tables."""

    def brought(code: str) -> set[str]:
        told = f"{code}\nimport json, sys; print(json.dumps([*sys.modules]))"
        done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
        return {*json.loads(done.stdout)}

    new = brought("import privlab") - brought("pass")
    assert {name.split(".")[0] for name in new} - {*sys.stdlib_module_names} <= {"privlab", "psutil", "lazy_loader"}
    rooms = {"privlab", "privlab.compute", "privlab.compute.machine"}
    assert {name for name in new if name.startswith("privlab")} == rooms
    heavy = {"torch", "timm", "pandas", "scipy", "matplotlib", "IPython", "jupytext"}
    assert not brought("import privlab.__main__, privlab.compute.tasks") & heavy
    assert not brought("import privlab.runner.runner") & {"torch"}


def test_an_import_that_the_house_forbids_breaks_its_contract(tmp_path):
    """In a copy; the house as it is has `lint-imports` in `make test`."""
    shutil.copytree(ROOT / "privlab", tmp_path / "privlab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    bad = {
        "data/upward.py": "privlab.attacks.gradient_inversion.search",
        "attacks/model_inversion/beside.py": "privlab.attacks.membership_inference.lira",
        "course/lab_01/beside.py": "privlab.course.lab_02.checks",
    }
    for place, imported in bad.items():
        (tmp_path / "privlab" / place).write_text(f"import {imported}\n")
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    own = os.environ | {"PYTHONPATH": ".", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and said.count(" BROKEN ") == 4
    for place, imported in bad.items():
        importing = "privlab." + place.removesuffix(".py").replace("/", ".")
        assert f"{importing} -> {imported} " in said


@cache
def resolves(dotted: str) -> bool:
    """Whether a dotted name is of the package: a module, something in one, or a file beside one (sources.toml)."""
    with suppress(ImportError, AttributeError):
        pkgutil.resolve_name(dotted)
        return True
    *folders, name = dotted.split(".")
    return any(ROOT.joinpath(*folders).glob(f"{name}.*"))


MADE_UP = re.compile(
    r"privlab\.(git|record|run|audit|py|invented|ours|even|defences\.nothing|attacks\.\w+\.even|course\.lab_)"
)


def test_no_text_names_a_module_that_is_gone():
    """Pages and sources; the changelog tells where things went, and the sixteenth lab has a house of its own."""
    kinds = ("*.py", "*.md", "*.toml", "*.yml", "*.yaml", "*.sh")
    listed = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    own = re.compile(r"book/changelog.md|tests/project/.*")
    gone = papers.entries("claims", ROOT / "book/evidence/retired.yaml")
    claims = {claim.id for claim in papers.claims()} | gone.keys()
    lost = []
    for name in (name for name in listed.split() if not own.fullmatch(name) and (ROOT / name).is_file()):
        text = (ROOT / name).read_text(encoding="utf-8")
        for dotted in set(re.findall(r"(?<![\w/.-])privlab(?:\.[a-z_]\w*)+", text)):
            claimed = any(claim == dotted or claim.startswith(f"{dotted}.") for claim in claims)
            lost += [] if claimed or MADE_UP.match(dotted) or resolves(dotted) else [f"{name}: {dotted}"]
        for place in set(re.findall(r"(?<![\w/.-])privlab/[\w/]+\.(?:py|yaml|toml)", text)):
            made_up = re.search(r"lab_(NN|99)|/even\.py|ledger/papers/claims\.yaml", place)
            lost += [] if made_up or (ROOT / place).is_file() else [f"{name}: {place}"]
    assert not lost, "\n".join(sorted(lost))
