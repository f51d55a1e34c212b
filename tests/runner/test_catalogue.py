"""Labs by the names that people give them, and what each says that it costs."""

from pathlib import Path

import pytest

from privlab.__main__ import main
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]
LAB = """\
# %% [markdown]
# # 05 · APRIL
#
# | smoke | 0.4 | 1.1 GB |
# | class | 3 | 1.9 GB |

# %% tags=["parameters"]
profile = "smoke"  # one
seed: int = 0
faces = ()

# %% [markdown]
# | gpu | 99 | 99 GB |
"""
WHOLE = ["00_start_here", "deeper/00_more", "05_april", "deeper/05_noise", "deeper/05_width", "12_resist"]


@pytest.fixture
def shelf(tmp_path):
    """Three labs, two notebooks that go deeper into lab 05, one into lab 00."""
    (tmp_path / "deeper").mkdir()
    for name in (*WHOLE, "notes"):
        (tmp_path / f"{name}.py").write_text(LAB)
    return catalogue.everything(tmp_path)


def names(labs):
    return [lab.name for lab in labs]


@pytest.mark.parametrize(
    ("wanted", "deeper", "found"),
    [
        ([], False, ["00_start_here", "05_april", "12_resist"]),
        ([], True, WHOLE),
        (["5"], False, ["05_april"]),  # a number means the lab alone
        (["5"], True, WHOLE[2:5]),
        (["labs/05_april.py", "april"], False, ["05_april"]),
        (["12", "0", "12_resist", "deeper/05_width"], False, ["00_start_here", "deeper/05_width", "12_resist"]),
    ],
)
def test_a_lab_goes_by_several_names_and_comes_in_order(shelf, wanted, deeper, found):
    assert names(catalogue.pick(shelf, wanted, deeper)) == found
    with pytest.raises(ValueError, match="lab='05_aprli' is not a lab; did you mean '05_april'"):
        catalogue.pick(shelf, ["05_aprli"])


def test_what_a_lab_costs_and_takes_stands_in_its_source(shelf):
    assert shelf[0].costs == {"smoke": (0.4, 1.1), "class": (3.0, 1.9)}  # above the first code alone
    assert shelf[0].parameters == ["profile", "seed", "faces"]


def test_the_labs_are_copied_and_nobody_s_work_is_lost(tmp_path, capsys):
    shelf = catalogue.everything(ROOT / "labs")
    assert main(["labs", "--to", str(tmp_path / "mine")]) == 0
    assert f"wrote the labs into {tmp_path / 'mine'}" in capsys.readouterr().out
    assert len([*(tmp_path / "mine").rglob("*.ipynb")]) == len(shelf)
    assert names(catalogue.everything(tmp_path / "mine")) == names(shelf)
    with pytest.raises(FileExistsError, match=r"to='.*mine' is there already; choose a new folder"):
        catalogue.copy(tmp_path / "mine")
