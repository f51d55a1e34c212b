"""The labs as they stand: paired, without outputs, of one anatomy, and green at `smoke` with every claim of theirs judged."""

import ast
import json
import re
import statistics
from itertools import pairwise

import nbformat
import pytest

from privlab.ledger import evidence
from privlab.runner import pairing

ENDS = ["The answer", "The paper, and here", "What would change our mind", "Read on"]


def is_green(notebook, out):
    """Whether a run left a result of a notebook without an error."""
    result = json.loads((out / f"{notebook.lab.name}.json").read_text())
    assert result["status"] == "ok" and result["error"] is None


def says_nothing_in_red(notebook, out):
    """A warning in a page of the book frightens its reader, and carries a path of the machine that built it."""
    cells = nbformat.read(out / f"{notebook.lab.name}.ipynb", as_version=4).cells
    outputs = [o for cell in cells for o in cell.get("outputs", [])]
    assert len(outputs) > 3 and [o.text for o in outputs if o.get("name") == "stderr"] == []


def test_a_lab_is_green(smoke, lab):
    out, done = smoke
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    is_green(lab, out)


def test_a_lab_says_nothing_in_red(smoke, lab):
    says_nothing_in_red(lab, smoke[0])


def test_the_run_ends_in_one_screen(smoke, shelf):
    out, done = smoke
    screen = done.stdout.rpartition("\nlab ")[2].splitlines()
    assert len(screen) < 60 and all(any(line.startswith(lab.lab.name) for line in screen) for lab in shelf["lab"])
    assert any("claims about means" in line for line in screen) and (out / "index.html").stat().st_size > 100_000


def test_every_control_was_moved(smoke, lab):
    assert json.loads((smoke[0] / f"{lab.lab.name}.json").read_text())["controls"]


# One of what goes deeper is run by `make check`, all by `make weekly`, which has run them before the tests begin.


@pytest.mark.check
def test_one_that_goes_deeper_is_green_and_says_nothing_in_red(run_deeper, shelf):
    of_check = min(shelf["deeper"], key=lambda one: one.lab.costs["smoke"].minutes)
    out = run_deeper(of_check.lab.name)
    is_green(of_check, out)
    says_nothing_in_red(of_check, out)


@pytest.mark.weekly
def test_what_goes_deeper_is_green_and_says_nothing_in_red(run_deeper, deeper):
    out = run_deeper(deeper.lab.name)
    is_green(deeper, out)
    says_nothing_in_red(deeper, out)


# -- what is written ------------------------------------------------------------------------------------------------------


def test_the_committed_notebook_is_the_paired_one_and_empty(notebook):
    committed = nbformat.read(notebook.path.with_suffix(".ipynb"), as_version=4)
    made = pairing.notebook(notebook.path)
    assert [c.id for c in committed.cells] == [c.id for c in made.cells]
    assert [c.source for c in committed.cells] == [c.source for c in made.cells]
    assert len({c.id for c in committed.cells}) == len(committed.cells)
    assert not any(c.get("outputs") or c.get("execution_count") for c in committed.cells)


def test_anatomy(notebook):
    """What every lab has, and what goes deeper."""
    text = "\n".join(notebook.markdown)
    assert "you can" in text and re.search(r"\bpredict\b", text, re.IGNORECASE)
    assert {"smoke", "class"} <= set(notebook.lab.costs) <= set(evidence.SIZES)
    uses = [line for code in notebook.code for line in code.splitlines() if re.search(r"\bprofile\b", line)]
    assert uses[:2] == ['profile = "class"', "profile = experiments.profile(profile)"], (
        "what is no profile is told first"
    )
    lengths = [notebook.lines_of(c) for c in notebook.code]
    assert statistics.median(lengths) <= 7 and max(lengths) <= 25
    exercises = [i for i, c in enumerate(notebook.cells) if "exercise" in c.metadata.get("tags", [])]
    assert all("solution" in notebook.cells[i + 1].metadata.get("tags", []) for i in exercises)
    assert text.count("<details><summary>Hint") >= len(exercises) == sum("checks.verify(" in c for c in notebook.code)
    assert not re.search(r"\bTODO\b|\bFIXME\b", text)


def test_headings_go_down_one_level_at_a_time(notebook):
    levels = [(len(heading.partition(" ")[0]), heading) for heading in notebook.headings]
    assert [heading for (above, _), (level, heading) in pairwise(levels) if level > above + 1] == []


def test_anatomy_of_a_lesson(lab):
    check_anatomy(lab)


def check_anatomy(lesson):
    """One question in the first lines, a prediction, two drawings; and at its end the answer, the verdicts, what would change them."""
    title, *below = lesson.cells[0].source.splitlines()
    assert title.startswith(f"# {lesson.number} · ") and "?" in "".join([title, *below[:4]]), "ask the question first"
    assert re.search(r"\*About \d+ minutes\.", "\n".join(lesson.markdown[:3]))
    assert any(re.search(r"widgets\.(choose|predict)\(", c) for c in lesson.code), "ask for a guess before a result"
    drawings = sum(len(re.findall(r"\bdrawings\.show\(|\bplots\.morph_block\(", c)) for c in lesson.code) + len(
        lesson.tagged("drawing")
    )
    assert drawings >= 2, "of the package (drawings.show(...)), or a cell's own, tagged drawing"
    assert lesson.sections[-4:] == ENDS
    assert len(answer(lesson)) == 2
    assert any(f'ledger.show("{lesson.number}"' in cell.source for cell in lesson.below(ENDS[1]))


def answer(lesson):
    """The sentences of the answer: in markdown, or as a cell writes them with the numbers of the evidence."""
    found = []
    for cell in lesson.below(ENDS[0]):
        if cell.cell_type == "markdown":
            found += lesson.sentences_of(cell.source)
        else:
            calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
            told = [call.args[0] for call in calls if ast.unparse(call.func).split(".")[-1] == "text" and call.args]
            found += [one for text in told if isinstance(text, ast.Constant) for one in lesson.sentences_of(text.value)]
    return found


LESSON = """\
# %% [markdown]
# # 05 · When is no search needed?
#
# A question in one line.

# %% [markdown]
# *About 60 minutes. You need lab 00.*

# %% tags=["drawing"]
draw()

# %%
drawings.show("00.client_and_server")

# %%
guess = widgets.choose("Which?", ["a", "b"])

# %% [markdown]
# ## The answer
#
# Often it is none.

# %%
notebook.text("It is by {:.1f} dB.", kept.mean("psnr[a]"))

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("05")

# %% [markdown]
# ## What would change our mind
#
# A search that fails.

# %% [markdown]
# ## Read on
#
# A book.
"""


def test_a_lesson_as_it_is_meant_has_all_of_it(written):
    made = written(LESSON)
    check_anatomy(made)
    assert answer(made) == ["Often it is none.", "It is by {:.1f} dB."]


@pytest.mark.parametrize(
    ("stands", "instead"),
    [
        ("needed?", "needed"),
        ("About 60 minutes", "Long"),
        ('"drawing"', '"other"'),
        ("widgets.choose(", "other("),
        ("# ## Read on", "# ## More"),
        ("Often it is none.", "Often. It is none."),
        ('ledger.show("05")', 'ledger.show("06")'),
        ("# A search that fails.", "# ## Another section"),
    ],
)
def test_what_a_lesson_lacks_is_found(written, stands, instead):
    assert LESSON.count(stands) == 1
    with pytest.raises(AssertionError):
        check_anatomy(written(LESSON.replace(stands, instead)))


def test_what_goes_deeper_and_its_lab_lead_to_each_other(deeper, shelf):
    (lab,) = (lab for lab in shelf["lab"] if lab.number == deeper.number)
    assert f"](../{lab.path.stem}.ipynb)" in deeper.markdown[0], "say where its reader comes from"
    assert any(f"](deeper/{deeper.path.stem}.ipynb)" in text for text in lab.markdown), (
        "link to it where it would have stood"
    )
    assert deeper.markdown[0].startswith(f"# {deeper.number}, deeper · ") and deeper.sections[-1] == "Read on"
