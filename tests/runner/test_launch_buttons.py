"""Buttons follow from one address; without one there is none."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from privlab.runner import launch_buttons
from privlab.runner.launch_buttons import Repository

ROOT = Path(__file__).parents[2]
PLACE = Repository("https://github.com/someone/a-fork")


def written(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_the_project_has_no_address_yet_so_nobody_is_sent_anywhere():
    assert launch_buttons.repository(ROOT, {}) is None
    assert launch_buttons.links(None, "labs/00_start_here.ipynb") == {}


def test_the_environment_goes_before_the_setting(tmp_path):
    root = written(tmp_path, '[tool.privlab]\nrepository = "https://github.com/a/b"\nbranch = "release"\n')
    assert launch_buttons.repository(root, {}) == Repository("https://github.com/a/b", "release")
    fork = launch_buttons.repository(root, {"PRIVLAB_REPOSITORY": "https://github.com/c/d"})
    assert fork == Repository("https://github.com/c/d", "release")


def test_no_file_and_no_setting_is_no_address(tmp_path):
    assert launch_buttons.repository(tmp_path, {}) is None
    assert launch_buttons.repository(written(tmp_path, '[project]\nname = "x"\n'), {}) is None


@pytest.mark.parametrize(
    "wrong", ["someone/a-fork", "https://x y", 'https://github.com/a/b"; import os', "ssh://git@x/y"]
)
def test_what_is_no_address_is_named(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"repository=.* is not an address; try https://github.com/OWNER/NAME"):
        launch_buttons.repository(tmp_path, {"PRIVLAB_REPOSITORY": wrong})


def test_each_link_leads_to_the_lab_on_the_branch():
    found = launch_buttons.links(Repository("https://github.com/o/n.git", "a/branch"), "labs/05_april.ipynb")
    assert list(found) == ["Binder", "Colab", "Kaggle", "GitHub"]
    assert found["GitHub"] == "https://github.com/o/n/blob/a/branch/labs/05_april.ipynb"
    assert found["Binder"] == "https://mybinder.org/v2/gh/o/n/a%2Fbranch?urlpath=lab/tree/labs/05_april.ipynb"
    for name in ("Colab", "Kaggle"):
        assert unquote(found[name]).endswith("/o/n/blob/a/branch/labs/05_april.ipynb"), name


def test_a_place_that_is_not_github_has_no_buttons_and_still_installs():
    elsewhere = Repository("https://git.example.org/team/privlab")
    assert (
        launch_buttons.links(elsewhere, "labs/05.ipynb") == {}
        and launch_buttons.badges(elsewhere, "labs/05.ipynb") == ""
    )
    assert '"git+https://git.example.org/team/privlab@main"' in launch_buttons.setup(elsewhere)


def test_the_badges_load_no_picture():
    line = launch_buttons.badges(PLACE, "labs/05.ipynb")
    assert line.count("](https://") == 4 and "![" not in line


def test_the_setup_cell_is_short_and_is_python():
    cell = launch_buttons.setup(PLACE)
    compile(cell, "setup", "exec")
    assert len(cell.splitlines()) <= 25
