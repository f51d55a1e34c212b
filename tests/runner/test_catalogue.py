"""Labs by the names that people give them, and what each says that it costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privlab.ledger import evidence
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
