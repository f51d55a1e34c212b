"""One command sets the address, and everything that follows from it: forth and back, and nothing by halves."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml

from privlab.__main__ import main
from privlab.runner import address, launch_buttons, pairing
from privlab.runner.launch_buttons import Repository

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "README.md")
PLACE = Repository("https://github.com/someone/a-fork", "release")


@pytest.fixture
def root(tmp_path):
    """A repository with one lab and one that goes deeper."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    for name in ("00_start_here", "deeper/04_gauss_newton"):
        (tmp_path / "labs/deeper").mkdir(parents=True, exist_ok=True)
        for suffix in (".py", ".ipynb"):
            shutil.copy(ROOT / f"labs/{name}{suffix}", tmp_path / f"labs/{name}{suffix}")
    return tmp_path


def state(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_follows_and_goes_back_to_the_byte(root):
    before = state(root)
    written = {path.relative_to(root).as_posix() for path in address.settle(root, PLACE)}
    assert written == {*FILES, "labs/00_start_here.ipynb", "labs/deeper/04_gauss_newton.ipynb"}
    assert launch_buttons.repository(root, {}) == PLACE
    assert yaml.safe_load((root / "CITATION.cff").read_text())["repository-code"] == PLACE.address
    assert launch_buttons.links(PLACE, address.DOOR)["Colab"] in (root / "README.md").read_text()
    cells = nbformat.read(root / "labs/deeper/04_gauss_newton.ipynb", as_version=4).cells
    assert launch_buttons.setup(PLACE) in [cell.source for cell in cells]
    assert not pairing.stale(root / "labs")
    assert address.settle(root, PLACE) == []  # said already
    address.settle(root, Repository("https://git.example.org/team/privlab"))
    assert "not on GitHub" in (root / "README.md").read_text()
    address.settle(root, None)
    assert state(root) == before


def test_the_rest_of_the_settings_stays(root):
    before = tomllib.loads((root / "pyproject.toml").read_text())
    address.settle(root, PLACE)
    after = tomllib.loads((root / "pyproject.toml").read_text())
    assert after["tool"].pop("privlab") == {"repository": PLACE.address, "branch": "release"}
    before["tool"].pop("privlab")
    assert after == before


@pytest.mark.parametrize(
    "wrong", [Repository("someone/a-fork"), Repository(PLACE.address, 'x"; y'), Repository("https://a b")]
)
def test_what_is_no_address_changes_nothing(root, wrong):
    before = state(root)
    with pytest.raises(ValueError, match=r"(repository|branch)='.*; try "):
        address.settle(root, wrong)
    assert state(root) == before


def test_a_file_without_its_line_is_named_and_nothing_is_written(root):
    (root / "README.md").write_text("# another book\n")
    before = state(root)
    with pytest.raises(ValueError, match=r"README\.md has no line like .*git checkout README\.md"):
        address.settle(root, PLACE)
    assert state(root) == before


def test_the_command_shows_sets_and_takes_out(root, capsys):
    labs = str(root / "labs")
    assert main(["address", "--labs", labs]) == 0 and "no address yet" in capsys.readouterr().out
    assert main(["address", PLACE.address, "--labs", labs]) == 0 and "wrote CITATION.cff" in capsys.readouterr().out
    assert main(["address", "--labs", labs]) == 0 and f"{PLACE.address}, branch main" in capsys.readouterr().out
    assert (
        main(["address", PLACE.address, "--none", "--labs", labs]) == 2
        and "give one of them" in capsys.readouterr().err
    )
    assert main(["address", "--none", "--labs", labs]) == 0
    assert launch_buttons.repository(root, {}) is None
