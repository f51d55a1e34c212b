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
    made, left_out = assignment.edition(lab.path)
    kept = {cell.id for cell in made.cells}
    assert [cell for cell in whole if cell.id in kept] == made.cells
    assert [cell.metadata.get("tags") for cell in whole if cell.id not in kept] == [["solution"]] * left_out
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    exercises = assignment.exercises(whole)
    assert [one.name for one in exercises] == [name for cell in made.cells for name in assignment.checked(cell)]
    assert left_out == len(exercises)
    there = "\n".join(ast.unparse(ast.parse(source)) for source in code)
    for one in exercises:
        assert assignment.HEADING.search(one.text[0].source)
        for node in ast.parse(one.solution.source).body:
            answer = ast.unparse(node.body if isinstance(node, ast.FunctionDef) else getattr(node, "value", []))
            assert len(answer) < 15 or answer not in there, one.name


def test_nobodys_work_is_written_over(tmp_path, capsys):
    def run(*arguments: object) -> int:
        return cli.main(["student", "--labs", str(LABS), *map(str, arguments)])

    assert run("05", "--out", tmp_path) == 0
    assert f"notebooks into {tmp_path}, without " in capsys.readouterr().out
    assert run("05", "--out", tmp_path) == 0, "the same again differs nowhere"
    work = tmp_path / "05_april_closed_form.ipynb"
    mine = work.read_bytes().replace(b"largest_rank(patches, k): ...", b"largest_rank(patches, k): return k")
    assert mine != work.read_bytes()
    work.write_bytes(mine)
    assert run("00", "05", "--out", tmp_path) == 2 and not (tmp_path / "00_start_here.ipynb").exists()
    assert "there may be somebody's work in it; nothing was written. --keep" in capsys.readouterr().err
    assert run("00", "05", "--out", tmp_path, "--keep") == 0
    assert work.read_bytes() == mine and (tmp_path / "00_start_here.ipynb").exists()
    assert run("--out", LABS) == 2 and "nothing was written" in capsys.readouterr().err
