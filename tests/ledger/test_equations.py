"""The papers' equations: each is named in a lab, or has the reason why none does; and no lab names one that is not there."""

from pathlib import Path
from types import SimpleNamespace

import equations
import ledger_pages
import templates

from privlab.ledger import papers
from privlab.runner import catalogue

SHELF = catalogue.everything(Path(__file__).parents[2] / "labs")
SHORT = {"Zhang et al.": "zhang2024", "Koh et al.": "koh2024", "APRIL": "lu2022", "GradViT": "hatamizadeh2022"}
NUMBERED = {"Koh et al.": 8, "APRIL": 12, "GradViT": 11}  # equations; Zhang et al. number none


def test_a_mark_is_found_across_lines_with_its_section(tmp_path):
    lab = SimpleNamespace(name="05_x", path=tmp_path / "x.py")
    lab.path.write_text(
        "# ---\n# See APRIL,\n# eq. 7, eq. 8 and (Koh et al., Table\n# 2).\n\n# ## Why, then?\n# GradViT, eq. 11.\n"
    )
    assert list(equations.marks([lab])) == [
        ("APRIL", "eq. 7", "05_x", ""),
        ("Koh et al.", "Table 2", "05_x", ""),
        ("GradViT", "eq. 11", "05_x", "why-then"),
    ]


def test_each_place_is_listed_once_and_every_equation_is():
    listed = [(one["paper"], one["place"]) for one in papers.entries("equations")]
    assert len(listed) == len({*listed}) and all(one["shows"] for one in papers.entries("equations"))
    numbered = [(paper, f"eq. {n}") for paper, count in NUMBERED.items() for n in range(1, count + 1)]
    assert {*numbered} == {(paper, place) for paper, place in listed if place.startswith("eq.")}
    theorems = {(p["paper"], p["place"]) for p in ledger_pages.places() if p["place"].startswith(("Theorem", "Algo"))}
    assert theorems == {(SHORT[p], place) for p, place in listed if place.startswith(("Theorem", "Algo"))}


def test_each_is_named_in_a_lab_or_says_why_not_and_never_both():
    in_labs = {(paper, place) for paper, place, lab, _ in equations.marks(SHELF) if "/" not in lab}
    wrong = {one["place"]: one["paper"] for one in papers.entries("equations")
             if ((one["paper"], one["place"]) in in_labs) == bool(one.get("why_not"))}  # fmt: skip
    assert wrong == {}, "name it in a lab's text (APRIL, eq. 7), or say why_not in equations.yaml, and not both"


def test_no_notebook_names_what_the_papers_do_not_have():
    listed = {(SHORT[one["paper"]], one["place"]) for one in papers.entries("equations")}
    listed |= {(place["paper"], place["place"]) for place in ledger_pages.places()}
    assert [mark for mark in equations.marks(SHELF) if (SHORT[mark[0]], mark[1]) not in listed] == []


def test_the_page_has_a_link_for_each_lab_and_the_reason_for_the_rest():
    listed = [
        dict(paper="APRIL", place="eq. 1", shows="A."),
        dict(paper="APRIL", place="eq. 2", shows="B.", why_not="No."),
    ]
    marks = [
        ("APRIL", "eq. 1", "05_x", "why-then"),
        ("APRIL", "eq. 1", "05_x", "why-then"),
        ("APRIL", "eq. 2", "deeper/05_y", ""),
    ]
    text = templates.fill("equations.md", listed=listed, marks=marks)
    assert "| **eq. 1** | A. | [lab 05: why then](labs/05_x.ipynb#why-then) |" in text
    assert "| **eq. 2** | B. | [deeper, lab 05](labs/deeper/05_y.ipynb) <br>No. |" in text
    assert "A lab shows 1 of them. Each of the other 1 has the reason." in text
