"""A lab is a lesson: one sitting, one screen wide, and no more than a student reads and tries in seventy-five minutes."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = {"cells": 60, "lines of code": 250, "words": 2200, "sections": 10, "columns": 88, "minutes": 75}
DEEPER = {"cells": 40, "columns": 88}
SENTENCE = 18  # words, the median


def size(notebook):
    return {
        "cells": len(notebook.cells),
        "lines of code": notebook.lines,
        "words": notebook.words,
        "sections": len(notebook.sections),
        "columns": notebook.columns,
        "minutes": notebook.minutes,
    }


def beyond(notebook, most):
    """What is more than it may be: name -> (how much it is, how much it may be)."""
    return {name: (n, most[name]) for name, n in size(notebook).items() if name in most and n > most[name]}


def test_a_lesson_fits_into_an_hour(lab):
    assert beyond(lab, MOST) == {}, "what does not fit goes to labs/deeper"


def test_what_goes_deeper_is_short(deeper):
    assert beyond(deeper, DEEPER) == {}, "make two of it"


def test_sentences_are_short(shelf, median_sentence):
    assert median_sentence(shelf["notebook"]) <= SENTENCE


# -- the measures, by hand -----------------------------------------------------------------------------------------------

MADE = """\
# %% [markdown]
# # 05 · A question?
#
# One two three, $x + y$ four. Is it [five](six.ipynb)?
#
# | smoke | 0.1 | 0.2 GB |

# %%
one = 1

two = 2  # a comment counts, a blank line does not

# %% [markdown]
# ## A section
#
# It says $$a = b$$ here, as in Zhang et al. 2024. A list:
#
# - no sentence
# - A sentence in a list.

# %% [markdown]
# ### Exercise 1: easy *(difficulty 2, 15 minutes)*
#
# What is it? <details><summary>Hint</summary>Think twice.</details>

# %% tags=["exercise", "reading"]
it = ...

# %% tags=["solution"]
it = 3
"""


def test_a_notebook_is_measured_as_its_reader_would(written):
    made = written(MADE)
    sentences = [
        "One two three, x four.",
        "Is it [five]?",
        "It says x here, as in Zhang et al 2024.",
        "A sentence in a list.",
    ]
    assert made.sentences == [*sentences, "What is it?", "Think twice."]
    assert made.headings == ["# 05 · A question?", "## A section", "### Exercise 1: easy *(difficulty 2, 15 minutes)*"]
    assert (
        made.sections == ["A section"]
        and made.lines == 4
        and made.columns == len("two = 2  # a comment counts, a blank line does not")
    )
    assert made.words == 3 + 5 + 3 + 2 + 9 + 2 + 2 + 5 + 7 + 3 + 3  # no table, no displayed formula, no sign alone
    (exercise,) = made.exercises
    assert (exercise.number, exercise.difficulty, exercise.minutes) == (1, 2, 15) and "Think twice" in exercise.text
    assert made.minutes == made.words / 140 + 4 / 12 + 15
    assert [cell.source.splitlines()[0] for cell in made.below("A section")] == [
        "## A section", "### Exercise 1: easy *(difficulty 2, 15 minutes)*", "it = ...", "it = 3"
    ]  # fmt: skip


def test_what_is_too_much_is_named(written):
    long = written(MADE + "".join(f"\n# %%\n{'x' * 89} = {k % 10}\n" for k in range(60)))
    assert beyond(long, MOST) == {"cells": (66, 60), "columns": (93, 88)}
    assert beyond(long, DEEPER) == {"cells": (66, 40), "columns": (93, 88)}
    assert beyond(written(MADE), MOST) == {}
    slow = written(MADE.replace("15 minutes", "75 minutes"))
    assert list(beyond(slow, MOST)) == ["minutes"] and re.fullmatch(r"75\.\d+", str(slow.minutes))
