"""The house: rooms stand in one order, names say something, nothing is too long, and no text names a module that is gone."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import privlab
from privlab.ledger import papers

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "privlab").rglob("*.py"))
# what modules were called before there were rooms
GONE = set(
    re.findall(
        r"\w+",
        """
        adversaries attribute audit_checks audit_inputs audit_page audit_report budget campaign compiled conditional crossing drawing
        drift facenet fleet flow hosted identify inversion_losses inversions ir jail judge launch layouts marking messages nursery plane
        positions preference pretrained private processes protection recognition recording returned ridge rounds second_order shadows
        shelf skips spaces stills student study views
        """,
    )
)


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(folder)}
    )


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("data/images.py", "from privlab.models import zoo"),
        ("compute/store.py", "import privlab.data.images"),
        ("attacks/model_inversion/losses.py", "from privlab.attacks.gradient_inversion import objectives"),
        ("data/sources.py", "from privlab.data import images"),
    ],
)
def test_an_import_that_points_up_breaks_a_contract(tmp_path, room, line):
    shutil.copytree(ROOT / "privlab", tmp_path / "privlab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint_imports(tmp_path).returncode == 0
    with (tmp_path / "privlab" / room).open("a") as file:
        file.write(f"\n{line}\n")
    broken = lint_imports(tmp_path)
    assert broken.returncode == 1 and "BROKEN" in broken.stdout


def test_only_rooms_lie_in_the_package():
    loose = {path.stem for path in (ROOT / "privlab").glob("*.py")}
    assert loose == {"__init__", "__main__", "leak"}


def test_names_say_something():
    assert not {path.stem for path in MODULES} & {"utils", "helpers", "common", "base", "misc", "core"}


def test_a_module_is_read_in_one_sitting():
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: n for name, n in lines.items() if n > 400}


def test_the_syntax_is_that_of_3_11():
    for path in MODULES:
        ast.parse(path.read_text(), path, feature_version=(3, 11))


def test_every_name_at_a_door_is_there():
    for path in MODULES:
        if path.with_suffix(".pyi").is_file():
            room = importlib.import_module(".".join(path.parent.relative_to(ROOT).parts))
            assert all(hasattr(room, name) for name in room.__all__), room


# -- what text names ------------------------------------------------------------------------------------------------------


def texts():
    """Prose, docstrings, comments and messages: pages and sources, but for the changelog, which tells where things went."""
    kinds = (".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".cff")
    command = ["git", "ls-files", "-co", "--exclude-standard", *(f"*{kind}" for kind in kinds)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    left_out = {
        "book/changelog.md",
        "tests/runner/test_catalogue.py",
        str(Path(__file__).relative_to(ROOT)),
    }  # the second has a small house
    for name in set(listed) - left_out:
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8")


@cache
def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module of the package, or something in one."""
    here, *rest = dotted.split(".")
    value = privlab
    for i, part in enumerate(rest):
        inside = ROOT.joinpath(here, *rest[: i + 1])
        if inside.with_suffix(".py").is_file() or (inside / "__init__.py").is_file():
            value = importlib.import_module(".".join([here, *rest[: i + 1]]))
        elif not hasattr(value, part):
            return inside.parent.is_dir() and next(inside.parent.glob(f"{part}.*"), None) is not None  # sources.toml
        else:
            return True  # what is behind an attribute is not looked at
    return True


def test_no_text_names_a_module_that_is_gone():
    gone = papers.entries("claims", ROOT / "book/evidence/retired.yaml")
    claims = {claim.id for claim in papers.claims()} | gone.keys()
    made_up = re.compile(
        r"privlab\.(git|record|run|audit|py|invented|ours|even|defences\.nothing|attacks\.gradient_inversion\.even|(notebook\.exercises|course)\.lab_)"
    )
    lost = []
    for name, text in texts():
        for dotted in set(re.findall(r"(?<![\w/.-])privlab(?:\.[a-z_]\w*)+", text)):
            claimed = any(claim == dotted or claim.startswith(f"{dotted}.") for claim in claims)
            if not (claimed or made_up.match(dotted) or resolves(dotted)):
                lost.append(f"{name}: {dotted}")
        for place in set(re.findall(r"(?<![\w/.-])privlab/[\w/]+\.(?:py|yaml|toml)", text)):
            if not (ROOT / place).is_file() and not re.search(
                r"lab_(NN|99)|/even\.py|ledger/papers/claims\.yaml", place
            ):
                lost.append(f"{name}: {place}")
        lost += [
            f"{name}: `{old}`" for old in set(re.findall(r"`(\w+)\.\w+[\w.]*(?:\([^`]*\))?`", text)) if old in GONE
        ]
    assert not lost, "\n".join(sorted(lost))
