"""Labs by the names that people give them, and what each says that it costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from privlab.ledger import evidence, papers
from privlab.runner import catalogue
from privlab.runner.catalogue import Cost

ROOT = Path(__file__).parents[2]
COSTS = """\
# %% [markdown]
# # 05 · APRIL
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 3 | 1.9 GB |

# %%
1

# %% [markdown]
# | gpu | 99 | 99 GB |
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("05_april", "00_start_here", "12_resist"):
        (tmp_path / f"{name}.py").write_text(COSTS)
    (tmp_path / "notes.py").write_text("x = 1\n")
    (tmp_path / "00_start_here.ipynb").write_text("{}")
    return tmp_path


def names(labs):
    return [lab.name for lab in labs]


def test_labs_are_numbered_sources_in_order(folder):
    assert names(catalogue.labs(folder)) == ["00_start_here", "05_april", "12_resist"]


@pytest.mark.parametrize("wanted", ["05", "5", "05_april", "april", "labs/05_april.py", "05_april.ipynb"])
def test_a_lab_goes_by_several_names(folder, wanted):
    assert names(catalogue.pick(catalogue.labs(folder), [wanted])) == ["05_april"]


def test_picks_come_in_order_and_once(folder):
    labs = catalogue.labs(folder)
    assert names(catalogue.pick(labs, ["12", "0", "12_resist"])) == ["00_start_here", "12_resist"]
    assert catalogue.pick(labs, []) == labs


@pytest.mark.parametrize(("wanted", "nearest"), [("05_aprli", "05_april"), ("13_resist", "12_resist")])
def test_an_unknown_lab_gets_the_nearest(folder, wanted, nearest):
    with pytest.raises(ValueError, match=f"lab='{wanted}' is not a lab; did you mean '{nearest}'"):
        catalogue.pick(catalogue.labs(folder), [wanted])


@pytest.fixture
def with_deeper(folder):
    """Two notebooks that go deeper into lab 05, one into lab 00."""
    (folder / "deeper").mkdir()
    for name in ("05_width", "05_noise", "00_more"):
        (folder / "deeper" / f"{name}.py").write_text(COSTS)
    return folder


def test_what_goes_deeper_is_no_lab_and_stands_behind_its_own(with_deeper):
    assert names(catalogue.labs(with_deeper)) == ["00_start_here", "05_april", "12_resist"]
    below = catalogue.deeper(with_deeper)
    assert names(below) == ["deeper/00_more", "deeper/05_noise", "deeper/05_width"]
    assert [lab.number for lab in below] == ["00", "05", "05"] and all(lab.goes_deeper for lab in below)
    assert below[0].costs == catalogue.labs(with_deeper)[0].costs
    whole = ["00_start_here", "deeper/00_more", "05_april", "deeper/05_noise", "deeper/05_width", "12_resist"]
    assert names(catalogue.everything(with_deeper)) == whole


def test_nothing_goes_deeper_where_there_is_no_folder_for_it(folder):
    assert catalogue.deeper(folder) == [] and catalogue.everything(folder) == catalogue.labs(folder)


def test_what_goes_deeper_into_no_lab_is_said(with_deeper):
    (with_deeper / "deeper/07_lost.py").write_text(COSTS)
    with pytest.raises(ValueError, match=r"07_lost\.py goes deeper into lab 07, and there is no .*/07_\*\.py"):
        catalogue.everything(with_deeper)


@pytest.mark.parametrize(
    "wanted", ["deeper/05_width", "05_width", "width", "labs/deeper/05_width.py", "05_width.ipynb"]
)
def test_what_goes_deeper_goes_by_its_name_and_not_by_a_number(with_deeper, wanted):
    shelf = catalogue.everything(with_deeper)
    assert names(catalogue.pick(shelf, [wanted])) == ["deeper/05_width"]
    assert names(catalogue.pick(shelf, ["5"])) == ["05_april"]
    with pytest.raises(ValueError, match="lab='05_widht' is not a lab; did you mean '05_width'"):
        catalogue.pick(shelf, ["05_widht"])


def test_no_labs_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no lab .*--labs"):
        catalogue.labs(tmp_path)


def test_costs_are_read_above_the_first_code_only(folder):
    lab = catalogue.labs(folder)[0]
    assert lab.costs == {"smoke": Cost(0.4, 1.1), "class": Cost(3.0, 1.9)}


def test_the_digest_follows_the_source(folder):
    before = catalogue.labs(folder)[0].digest
    assert catalogue.labs(folder)[0].digest == before
    (folder / "00_start_here.py").write_text(COSTS + "\n# %%\n1\n")
    assert catalogue.labs(folder)[0].digest != before


def test_profiles():
    assert [evidence.checked(name) for name in evidence.SIZES] == list(evidence.SIZES)
    with pytest.raises(ValueError, match="profile='clas' is not a profile; did you mean 'class'"):
        evidence.checked("clas", "profile")


def test_the_lab_of_a_claim(folder):
    claim = papers.claims("05")[0]
    labs = catalogue.labs(folder)
    assert names(catalogue.labs_of_claim(labs, claim.id)) == ["05_april"]
    with pytest.raises(ValueError, match=f"is not a claim; did you mean '{re.escape(claim.id)}'"):
        catalogue.labs_of_claim(labs, claim.id + "s")
    with pytest.raises(ValueError, match=r"belongs to lab 05, which is not among 00_start_here, 12_resist"):
        catalogue.labs_of_claim([labs[0], labs[2]], claim.id)


# -- what a lab is made of -----------------------------------------------------------------------------------------------

HOUSE = {
    "__init__.py": "from privlab import offered\n",  # what the package offers counts for those who ask for it
    "direct.py": "from __future__ import annotations\nimport privlab.deep.leaf as leaf\n",
    "deep/__init__.py": "",
    "deep/claims.yaml": "",
    "deep/leaf.py": "def late():\n    from privlab.last import value\n",
    "last.py": "value = 1\n",
    "room/__init__.py": "import lazy_loader\n",
    "room/__init__.pyi": "from . import whole\nfrom .one import first, second\nfrom .two import third\n",
    "room/one.py": "",
    "room/two.py": "",
    "room/whole.py": "",
    "offered.py": "",
    "stranger.py": "from privlab import direct\n",
    "notebook/exercises/__init__.py": "import importlib\n",
    "notebook/exercises/lab_05.py": "",
    "notebook/exercises/lab_06.py": "",
}


@pytest.fixture
def house(tmp_path, monkeypatch):
    for name, text in HOUSE.items():
        path = tmp_path / "privlab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(catalogue, "_HOUSE", tmp_path / "privlab")
    (tmp_path / "05_lab.py").write_text("# %%\nfrom privlab import direct, checks\nfrom os import path\n")
    return tmp_path


def digest(folder, lab="05_lab"):
    catalogue._imports.cache_clear()
    return catalogue.Lab(folder / f"{lab}.py").package


@pytest.mark.parametrize("name", HOUSE)
def test_a_lab_is_made_of_what_it_imports_and_what_that_imports(house, name):
    before = digest(house)
    (house / "privlab" / name).write_text(HOUSE[name] + "# edited\n")
    others = {
        "offered.py",
        "stranger.py",
        *(name for name in HOUSE if name.startswith("room/")),
        "notebook/exercises/lab_06.py",
        "notebook/exercises/__init__.py",
    }
    assert (digest(house) != before) == (name not in others)


@pytest.mark.parametrize(
    ("code", "behind"),
    [
        ("from privlab import room\nroom.second(1)\n", "one"),
        ("from privlab import room as hall\nhall.third.attribute\n", "two"),
        ("from privlab.room import third\n", "two"),
        ("import privlab.room\nprivlab.room.first\n", "one"),
        ("from privlab import room\nroom.whole.nothing\n", "whole"),
        ("from privlab.room import whole\n", "whole"),
    ],
)
def test_what_is_taken_through_a_rooms_door_brings_the_module_behind_it_and_not_its_neighbours(house, code, behind):
    (house / "05_lab.py").write_text(f"# %%\n{code}")
    before = digest(house)
    brought = set()
    for name in ("__init__", "one", "two", "whole"):
        path = house / f"privlab/room/{name}.py"
        text = path.read_text()
        path.write_text(text + "# edited\n")
        brought |= {name} if digest(house) != before else set()
        path.write_text(text)
    assert brought == {"__init__", behind}


def test_a_module_that_is_gone_or_new_is_a_change(house):
    before = digest(house)
    (house / "privlab/checks.py").write_text("")
    now = digest(house)
    assert now != before
    (house / "privlab/checks.py").unlink()
    assert digest(house) == before


def test_a_lab_that_does_not_parse_has_a_digest_all_the_same(house):
    (house / "05_lab.py").write_text("# %%\nfrom privlab import (\n")
    assert len(digest(house)) == 64


def test_every_lab_of_the_book_reaches_its_own_exercises_and_not_the_whole_house():
    for lab in catalogue.everything(Path(__file__).parents[2] / "labs"):
        assert any(map(catalogue._module, lab.own)), lab.name
        reached, asks = catalogue._imports(lab.path), "checks.verify(" in lab.path.read_text()
        assert ("privlab.notebook.checks" in reached) == asks and "privlab.runner.runner" not in reached


def test_the_parameters_of_a_lab_are_what_its_cell_sets(tmp_path):
    lab = tmp_path / "05_lab.py"
    lab.write_text('# %%\nother = 1\n\n# %% tags=["parameters"]\nprofile = "smoke"  # one\nseed: int = 0\nfaces = ()\n')
    assert catalogue.Lab(lab).parameters == ("profile", "seed", "faces")
    lab.write_text("# %%\nother = 1\n")
    assert catalogue.Lab(lab).parameters == ()


def test_the_labs_are_copied_and_nobody_s_work_is_lost(tmp_path):
    everything = catalogue.everything(ROOT / "labs")
    written = catalogue.copy(tmp_path / "mine")
    assert len(written) == 2 * len(everything)
    assert [lab.name for lab in catalogue.everything(tmp_path / "mine")] == [lab.name for lab in everything]
    mine = tmp_path / "mine/00_start_here.ipynb"
    before = mine.read_bytes()
    assert catalogue.copy(tmp_path / "mine") == []
    mine.unlink()
    assert catalogue.copy(tmp_path / "mine") == [mine] and mine.read_bytes() == before
    mine.write_text("my work")
    (tmp_path / "mine/01_membership.py").unlink()
    with pytest.raises(FileExistsError, match=r"holds another 00_start_here\.ipynb; choose a new folder"):
        catalogue.copy(tmp_path / "mine")
    assert mine.read_text() == "my work" and not (tmp_path / "mine/01_membership.py").exists()


@pytest.mark.check
def test_a_wheel_installed_alone_has_claims_evidence_and_labs(tmp_path):
    def run(*command, **environment):
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("privlab-*.whl")
    assert wheel.stat().st_size < 30e6
    site = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel))
    alone = {"PYTHONPATH": str(site), "PRIVLAB_EVIDENCE": ""}
    assert str(site) in run(sys.executable, "-c", "import privlab; print(privlab.__file__)", **alone)
    run(sys.executable, "-m", "privlab", "labs", "--to", "mine", **alone)
    assert len(catalogue.everything(tmp_path / "mine")) == len(catalogue.everything(ROOT / "labs"))
    said = "from privlab import experiments; print(len(experiments.load('start_here.closed_form', 'smoke')))"
    assert int(run(sys.executable, "-c", said, **alone)) > 0
    assert "reproduced" in run(sys.executable, "-m", "privlab", "report", **alone)
