"""A lab is a lesson: one question and its answer, exercises where their idea is, and no more than fits into seventy-five minutes."""

import re
import statistics
from itertools import pairwise

from privlab.ledger import evidence

ENDS = ["The answer", "The paper, and here", "What would change our mind", "Read on"]


def test_anatomy(notebook):
    """What every lab has, and what goes deeper."""
    text = "\n".join(notebook.markdown)
    assert "you can" in text and re.search(r"\bpredict\b", text, re.IGNORECASE)
    assert {"smoke", "class"} <= set(notebook.lab.costs) <= set(evidence.SIZES)
    uses = [line for code in notebook.code for line in code.splitlines() if re.search(r"\bprofile\b", line)]
    assert uses[:2] == ['profile = "class"', "profile = experiments.profile(profile)"], "what is no profile: told first"
    levels = [(len(heading.partition(" ")[0]), heading) for heading in notebook.headings]
    assert [heading for (above, _), (level, heading) in pairwise(levels) if level > above + 1] == []


def test_anatomy_of_a_lesson(lab):
    """One question in the first lines, a prediction, two drawings; and at its end the answer, the verdicts, what would change them."""
    title, *below = lab.cells[0].source.splitlines()
    assert title.startswith(f"# {lab.number} · ") and "?" in "".join([title, *below[:4]]), "ask the question first"
    assert re.search(r"\*About \d+ minutes\.", "\n".join(lab.markdown[:3]))
    assert any(re.search(r"widgets\.(choose|predict)\(", c) for c in lab.code), "ask for a guess before a result"
    drawn = sum(len(re.findall(r"\bdrawings\.show\(|\bplots\.morph_block\(", c)) for c in lab.code)
    assert drawn + len(lab.tagged("drawing")) >= 2, "drawings.show(...), or a cell's own, tagged drawing"
    assert [heading[3:] for heading in lab.headings if heading.startswith("## ")][-4:] == ENDS
    assert any(f'widgets.verdicts("{lab.number}"' in cell.source for cell in lab.below(ENDS[1]))


def test_what_goes_deeper_and_its_lab_lead_to_each_other(deeper, shelf):
    (lab,) = (lab for lab in shelf["lab"] if lab.number == deeper.number)
    assert f"](../{lab.path.stem}.ipynb)" in deeper.markdown[0], "say where its reader comes from"
    assert f"](deeper/{deeper.path.stem}.ipynb)" in "\n".join(lab.markdown), "link to it where it would have stood"
    assert len(deeper.cells) <= 40, "make two of it"
    assert deeper.markdown[0].startswith(f"# {deeper.number}, deeper · ") and deeper.headings[-1] == "## Read on"


def test_an_exercise_says_its_number_its_difficulty_and_its_minutes(notebook):
    exercises = notebook.exercises
    assert [one.number for one in exercises] == list(range(1, len(exercises) + 1))
    assert len(exercises) == len(notebook.tagged("exercise")) == sum("checks.verify(" in c for c in notebook.code)
    assert {one.difficulty for one in exercises} <= {1, 2, 3} and all(1 <= one.minutes <= 30 for one in exercises)
    assert all("<details><summary>Hint</summary>" in one.text for one in exercises)
    after = [notebook.cells[notebook.cells.index(one.cell) + 1] for one in exercises]
    assert all("solution" in cell.metadata.get("tags", []) for cell in after)


def test_a_lesson_has_three_to_five_not_all_at_its_end_and_one_that_asks_for_no_formula(lab):
    """That is to read a figure, find the flaw in a claim, design an experiment, break a defence: its cell has the tag `reading` too."""
    assert 3 <= len(lab.exercises) <= 5 and [one for one in lab.exercises if "reading" in one.cell.metadata["tags"]]
    assert lab.cells.index(lab.exercises[0].cell) < 2 / 3 * len(lab.cells), "put them where their idea is"


def test_a_lesson_fits_into_an_hour(lab):
    words, lines = sum(map(lab.words, lab.markdown)), sum(map(lab.lines, lab.code))
    assert len(lab.cells) <= 60 and lines <= 250 and words <= 2200, "what does not fit goes to labs/deeper"
    assert sum(heading.startswith("## ") for heading in lab.headings) <= 10
    assert words / 140 + lines / 12 + sum(one.minutes for one in lab.exercises) <= 75  # minutes: to read, and to try


def test_code_is_one_screen_wide_and_a_cell_is_a_thought(notebook):
    assert max(len(line) for code in notebook.code for line in code.splitlines()) <= 88
    lengths, words = list(map(notebook.lines, notebook.code)), list(map(notebook.words, notebook.markdown))
    assert statistics.median(lengths) <= 7 and max(lengths) <= 25
    assert statistics.median(words) <= 60 and max(words) <= 250, "split it where a new idea begins"
