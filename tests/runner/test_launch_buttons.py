"""Buttons follow from one address, which one command sets, forth and back; without one there is none."""

import shutil
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
import yaml

from privlab.__main__ import main
from privlab.runner import launch_buttons, pairing
from privlab.runner.launch_buttons import Repository

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "README.md")
LABS = ("labs/00_start_here", "labs/deeper/04_gauss_newton")
PLACE = Repository("https://github.com/someone/a-fork", "release")


def test_the_project_has_no_address_yet_so_nobody_is_sent_anywhere(tmp_path):
    assert launch_buttons.repository(ROOT) is None is launch_buttons.repository(tmp_path)
    assert launch_buttons.links(None, "labs/00_start_here.ipynb") == {}


def test_each_link_leads_to_the_lab_on_the_branch_and_loads_no_picture():
    place = Repository("https://github.com/o/n", "a/branch")
    found, line = (tell(place, "labs/05_april.ipynb") for tell in (launch_buttons.links, launch_buttons.badges))
    assert list(found) == ["Binder", "Colab", "Kaggle", "GitHub"]
    assert found["GitHub"] == "https://github.com/o/n/blob/a/branch/labs/05_april.ipynb"
    assert found["Binder"] == "https://mybinder.org/v2/gh/o/n/a%2Fbranch?urlpath=lab/tree/labs/05_april.ipynb"
    for name in ("Colab", "Kaggle"):
        assert unquote(found[name]).endswith("/o/n/blob/a/branch/labs/05_april.ipynb"), name
    assert line.count("](https://") == 4 and "![" not in line


@pytest.fixture
def root(tmp_path):
    """A repository with one lab and one that goes deeper."""
    (tmp_path / "labs/deeper").mkdir(parents=True)
    for name in (*FILES, *(f"{lab}.py" for lab in LABS)):
        shutil.copy(ROOT / name, tmp_path / name)
    pairing.pair(tmp_path / "labs")
    return tmp_path


def state(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_follows_and_goes_back_to_the_byte(root, capsys):
    def run(*words):
        assert main(["address", *words, "--labs", str(root / "labs")]) == 0
        return capsys.readouterr().out

    before = state(root)
    assert "no address yet" in run() and "wrote CITATION.cff" in run(PLACE.address, "--branch", PLACE.branch)
    changed = {path.as_posix() for path, content in state(root).items() if content != before[path]}
    assert changed == {*FILES, *(f"{lab}.ipynb" for lab in LABS)}
    assert launch_buttons.repository(root) == PLACE and run() == f"{PLACE.address}, branch {PLACE.branch}\n"
    assert yaml.safe_load((root / "CITATION.cff").read_text())["repository-code"] == PLACE.address
    assert launch_buttons.links(PLACE, launch_buttons.DOOR)["Colab"] in (root / "README.md").read_text()
    cells = nbformat.read(root / f"{LABS[1]}.ipynb", as_version=4).cells
    assert launch_buttons.setup(PLACE) in [cell.source for cell in cells]
    run("--none")
    assert state(root) == before


@pytest.mark.parametrize(
    "wrong", [("someone/a-fork",), (PLACE.address, 'x"; y'), ("https://example.org/o/n",), (f"{PLACE.address}.git",)]
)
def test_what_is_no_address_on_github_changes_nothing(root, wrong):
    before = state(root)
    with pytest.raises(ValueError, match=r"address='.*; try https://github.com/OWNER/NAME"):
        launch_buttons.settle(root, Repository(*wrong))
    assert state(root) == before
