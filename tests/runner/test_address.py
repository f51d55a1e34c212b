"""One command sets the address, and everything that follows from it: forth and back."""

import shutil
from pathlib import Path

import nbformat
import pytest
import yaml

from privlab.__main__ import main
from privlab.runner import address, launch_buttons, pairing
from privlab.runner.launch_buttons import Repository

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "README.md")
LABS = ("labs/00_start_here", "labs/deeper/04_gauss_newton")
PLACE = Repository("https://github.com/someone/a-fork", "release")


@pytest.fixture
def root(tmp_path):
    """A repository with one lab and one that goes deeper."""
    (tmp_path / "labs/deeper").mkdir(parents=True)
    for name in (*FILES, *(f"{lab}{suffix}" for lab in LABS for suffix in (".py", ".ipynb"))):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def state(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_follows_and_goes_back_to_the_byte(root):
    before = state(root)
    address.settle(root, PLACE)
    changed = {path.as_posix() for path, content in state(root).items() if content != before[path]}
    assert changed == {*FILES, *(f"{lab}.ipynb" for lab in LABS)}
    assert launch_buttons.repository(root) == PLACE
    assert yaml.safe_load((root / "CITATION.cff").read_text())["repository-code"] == PLACE.address
    assert launch_buttons.links(PLACE, address.DOOR)["Colab"] in (root / "README.md").read_text()
    cells = nbformat.read(root / f"{LABS[1]}.ipynb", as_version=4).cells
    assert launch_buttons.setup(PLACE) in [cell.source for cell in cells] and not pairing.stale(root / "labs")
    address.settle(root, Repository("https://git.example.org/team/privlab"))
    assert "[the repository](https://git.example.org" in (root / "README.md").read_text()
    address.settle(root, None)
    assert state(root) == before


@pytest.mark.parametrize("wrong", [Repository("someone/a-fork"), Repository(PLACE.address, 'x"; y')])
def test_what_is_no_address_changes_nothing(root, wrong):
    before = state(root)
    with pytest.raises(ValueError, match=r"address='.*; try https://github.com/OWNER/NAME"):
        address.settle(root, wrong)
    assert state(root) == before


def test_the_command_shows_sets_and_takes_out(root, capsys):
    labs = str(root / "labs")
    assert main(["address", "--labs", labs]) == 0 and "no address yet" in capsys.readouterr().out
    assert main(["address", PLACE.address, "--labs", labs]) == 0 and "wrote CITATION.cff" in capsys.readouterr().out
    assert main(["address", "--labs", labs]) == 0 and f"{PLACE.address}, branch main" in capsys.readouterr().out
    assert main(["address", "--none", "--labs", labs]) == 0 and launch_buttons.repository(root) is None
