"""Buttons follow from one address; without one there is none."""

from pathlib import Path
from urllib.parse import unquote

from privlab.runner import launch_buttons
from privlab.runner.launch_buttons import Repository


def test_the_project_has_no_address_yet_so_nobody_is_sent_anywhere(tmp_path):
    assert launch_buttons.repository(Path(__file__).parents[2]) is None is launch_buttons.repository(tmp_path)
    assert launch_buttons.links(None, "labs/00_start_here.ipynb") == {}


def test_each_link_leads_to_the_lab_on_the_branch_and_loads_no_picture():
    place = Repository("https://github.com/o/n.git", "a/branch")
    found, line = (tell(place, "labs/05_april.ipynb") for tell in (launch_buttons.links, launch_buttons.badges))
    assert list(found) == ["Binder", "Colab", "Kaggle", "GitHub"]
    assert found["GitHub"] == "https://github.com/o/n/blob/a/branch/labs/05_april.ipynb"
    assert found["Binder"] == "https://mybinder.org/v2/gh/o/n/a%2Fbranch?urlpath=lab/tree/labs/05_april.ipynb"
    for name in ("Colab", "Kaggle"):
        assert unquote(found[name]).endswith("/o/n/blob/a/branch/labs/05_april.ipynb"), name
    assert line.count("](https://") == 4 and "![" not in line


def test_a_place_that_is_not_github_has_no_buttons_and_still_installs():
    elsewhere = Repository("https://git.example.org/team/privlab")
    assert launch_buttons.badges(elsewhere, "labs/05.ipynb") == ""
    cell = launch_buttons.setup(elsewhere)
    compile(cell, "setup", "exec")
    assert '"git+https://git.example.org/team/privlab@main"' in cell
