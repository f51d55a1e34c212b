"""An exercise of a lesson says how hard it is and how long it takes, and one at least asks for no formula."""

import re

from privlab.notebook import checks

MANY = (3, 5)


def test_an_exercise_says_its_number_its_difficulty_and_its_minutes(notebook):
    """`### Exercise 2: why the sign? *(difficulty 2, 15 minutes)*`"""
    exercises = notebook.exercises
    assert [one for one in exercises if one.number is None] == [], (
        "headed: ### Exercise N: title *(difficulty D, M minutes)*"
    )
    assert [one.number for one in exercises] == list(range(1, len(exercises) + 1))
    assert {one.difficulty for one in exercises} <= {1, 2, 3} and all(1 <= one.minutes <= 30 for one in exercises)
    assert all("<details><summary>Hint</summary>" in one.text for one in exercises)


def test_a_lesson_has_three_to_five_and_not_all_at_its_end(lab):
    low, high = MANY
    assert low <= len(lab.exercises) <= high
    first = next(k for k, cell in enumerate(lab.cells) if "exercise" in cell.metadata.get("tags", []))
    assert first < 2 / 3 * len(lab.cells), "put them where their idea is"


def test_one_exercise_of_a_lesson_asks_for_no_formula(lab):
    """To read a figure, find the flaw in a claim, design an experiment, break a defence: its cell has the tag `reading` too."""
    assert [one for one in lab.exercises if "reading" in one.cell.metadata["tags"]]


def test_every_exercise_keeps_the_name_of_its_lab(notebook):
    asked = [name for code in notebook.code for name in re.findall(r'checks\.verify\("([^"]+)"', code)]
    assert len(asked) == len(set(asked)) == len(notebook.exercises)
    assert set(asked) <= {name for name in checks.names() if name.startswith(f"{notebook.number}.")}


def test_a_heading_is_read_as_it_is_written(written):
    cells = '\n# %% tags=["exercise"]\nanswer = ...\n'
    headings = [
        "Exercise 1: a b *(difficulty 3, 20 minutes)*",
        "Exercise 2: no minutes *(difficulty 1)*",
        "Before you go on",
    ]
    made = written("".join(f"# %% [markdown]\n# ### {heading}\n#\n# Text.\n{cells}\n" for heading in headings))
    assert [(one.number, one.difficulty, one.minutes) for one in made.exercises] == [
        (1, 3, 20),
        (None, None, 0),
        (None, None, 0),
    ]
    assert [one.text.strip() for one in made.exercises] == ["Text."] * 3
