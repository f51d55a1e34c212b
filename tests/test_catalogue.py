"""Labs by the names that people give them, and what each says that it costs."""

from __future__ import annotations

import re

import pytest

from privlab import catalogue, papers
from privlab.catalogue import Cost

COSTS = """\
# %% [markdown]
# # 05 · APRIL
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | laptop | 3 | 1.9 GB |

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


def test_no_labs_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no lab .*--labs"):
        catalogue.labs(tmp_path)


def test_costs_are_read_from_the_first_cell_only(folder):
    lab = catalogue.labs(folder)[0]
    assert lab.costs == {"smoke": Cost(0.4, 1.1), "laptop": Cost(3.0, 1.9)}


def test_the_digest_follows_the_source(folder):
    before = catalogue.labs(folder)[0].digest
    assert catalogue.labs(folder)[0].digest == before
    (folder / "00_start_here.py").write_text(COSTS + "\n# %%\n1\n")
    assert catalogue.labs(folder)[0].digest != before


def test_profiles():
    assert [catalogue.profile(name) for name in papers.PROFILES] == list(papers.PROFILES)
    with pytest.raises(ValueError, match="profile='lapdog' is not a profile; did you mean 'laptop'"):
        catalogue.profile("lapdog")


def test_the_lab_of_a_claim(folder):
    claim = papers.claims("05")[0]
    labs = catalogue.labs(folder)
    assert names(catalogue.labs_of_claim(labs, claim.id)) == ["05_april"]
    with pytest.raises(ValueError, match=f"is not a claim; did you mean '{re.escape(claim.id)}'"):
        catalogue.labs_of_claim(labs, claim.id + "s")
    with pytest.raises(ValueError, match=r"is measured by lab 05, which is not among 00_start_here, 12_resist"):
        catalogue.labs_of_claim([labs[0], labs[2]], claim.id)
