"""A student who leaves an exercise open still gets to the end of the lab, also where later cells use the answer."""

import ast
from pathlib import Path

import jupytext
import pytest

from privlab.runner import catalogue, pairing
from privlab.teaching import student_edition

LABS = [lab.path for lab in catalogue.everything(Path(__file__).parents[2] / "labs")]


def answers_used(source):
    """Names that an exercise leaves to the student and that a cell which checks nothing uses."""
    asked, used = set(), set()
    for cell in (cell for cell in pairing.notebook(source).cells if cell.cell_type == "code"):
        tree, tags = ast.parse(cell.source), cell.metadata.get("tags", [])
        if "exercise" in tags:
            asked |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            asked |= {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets}
        elif "solution" not in tags and "checks.verify" not in cell.source:
            used |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return asked & used


USING = [path for path in LABS if answers_used(path)]


def test_the_labs_that_go_on_with_an_answer_are_found():
    assert {"05", "08"} <= {path.name[:2] for path in USING} < {path.name[:2] for path in LABS}


@pytest.mark.check
@pytest.mark.parametrize(
    "path",
    [USING[0], *(pytest.param(path, marks=pytest.mark.weekly) for path in USING[1:])],
    ids=lambda path: path.stem,
)
def test_an_edition_with_every_exercise_open_runs_to_its_end(path, execute_lab):
    made, left_out = student_edition.edition(path)
    found, _ = execute_lab(jupytext.writes(made, "py:percent"))
    assert left_out and found["error"] is None, found["traceback"]
