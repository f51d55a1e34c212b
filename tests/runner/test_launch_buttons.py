"""Buttons follow from one address, which one command sets, forth and back; without one there is none."""

import shutil
from pathlib import Path

import nbformat
import pytest
import yaml

from privlab.__main__ import main
from privlab.runner import launch_buttons, pairing

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "README.md")
LABS = ("labs/00_start_here", "labs/deeper/04_gauss_newton")
ADDRESS = "https://github.com/someone/a-fork"


@pytest.fixture
def root(tmp_path):
    """A repository with one lab and one that goes deeper."""
    (tmp_path / "labs/deeper").mkdir(parents=True)
    for name in (*FILES, *(f"{lab}.py" for lab in LABS)):
        shutil.copy(ROOT / name, tmp_path / name)
    pairing.pair(tmp_path / "labs")
    return tmp_path


def state(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_follows_and_goes_back_to_the_byte(root, capsys):
    def run(*words):
        assert main(["address", *words, "--labs", str(root / "labs")]) == 0
        return capsys.readouterr().out

    before = state(root)
    assert "no address yet" in run() and "wrote CITATION.cff" in run(ADDRESS)
    changed = {path for path, content in state(root).items() if content != before[path]}
    assert changed == {*FILES, *(f"{lab}.ipynb" for lab in LABS)}
    assert run() == f"{ADDRESS}\n"
    assert yaml.safe_load((root / "CITATION.cff").read_text())["repository-code"] == ADDRESS
    made = nbformat.read(root / f"{LABS[1]}.ipynb", as_version=4)
    nbformat.validate(made)
    assert launch_buttons.setup(ADDRESS) == next(cell.source for cell in made.cells if cell.cell_type == "code")
    plain = [cell for cell in made.cells[1:] if "setup" not in cell.metadata.get("tags", [])]
    assert plain == pairing.notebook(root / f"{LABS[1]}.py").cells  # ids included
    for file, lab in (("README.md", LABS[0]), (f"{LABS[1]}.ipynb", LABS[1])):
        text, page = (root / file).read_text(), f"{ADDRESS}/blob/main/{lab}.ipynb"
        assert f"](https://mybinder.org/v2/gh/someone/a-fork/main?urlpath=lab/tree/{lab}.ipynb)" in text
        assert f"](https://colab.research.google.com/github/someone/a-fork/blob/main/{lab}.ipynb)" in text
        assert f"[GitHub]({page})" in text
    run("none")
    assert state(root) == before


@pytest.mark.parametrize("wrong", ["someone/a-fork", f'{ADDRESS}"; y', "https://example.org/o/n"])
def test_what_is_no_address_on_github_changes_nothing(root, wrong):
    before = state(root)
    with pytest.raises(ValueError, match=r"address='.*; try https://github.com/OWNER/NAME"):
        launch_buttons.settle(root, wrong)
    assert state(root) == before
