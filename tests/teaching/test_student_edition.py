"""The student edition lacks the solutions and nothing else, and is written over nobody's work."""

import ast
from pathlib import Path

import pytest

from privlab import __main__ as cli
from privlab.runner import catalogue, pairing
from privlab.teaching import assignment

LABS = Path(__file__).parents[2] / "labs"


@pytest.mark.parametrize("lab", catalogue.everything(LABS), ids=lambda lab: lab.name)
def test_only_the_solutions_are_left_out_and_each_exercise_gets_into_a_sheet(lab):
    """Neither the body of a function that is asked for, nor the value, stands in what is left."""
    whole = pairing.notebook(lab.path).cells
    made, exercises = assignment.edition(lab.path), assignment.exercises(whole)
    kept = {cell.id for cell in made.cells}
    assert [cell for cell in whole if cell.id in kept] == made.cells
    assert [cell.metadata.get("tags") for cell in whole if cell.id not in kept] == [["solution"]] * len(exercises)
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    assert [one.name for one in exercises] == [name for cell in made.cells for name in assignment.checked(cell)]
    there = "\n".join(ast.unparse(ast.parse(source)) for source in code)
    for one in exercises:
        assert assignment.HEADING.search(one.text[0].source)
        for node in ast.parse(one.solution.source).body:
            answer = ast.unparse(node.body if isinstance(node, ast.FunctionDef) else getattr(node, "value", []))
            assert len(answer) < 15 or answer not in there, one.name


def test_nobodys_work_is_written_over(tmp_path, capsys):
    work, command = tmp_path / "05_april_closed_form.ipynb", ["student", "--labs", str(LABS), "--out", str(tmp_path)]
    work.write_text("mine")
    assert cli.main([*command, "00", "05"]) == 0 and work.read_text() == "mine"
    assert capsys.readouterr().out.endswith(f" notebooks into {tmp_path}; what was there stays\n")
    assert (tmp_path / "00_start_here.ipynb").exists() and len([*tmp_path.rglob("05_*.ipynb")]) > 1
