"""The student edition lacks the solutions and nothing else, and is written over nobody's work."""

import ast
from pathlib import Path

import nbformat
import pytest

from privlab import __main__ as cli
from privlab.runner import catalogue, launch_buttons, pairing
from privlab.teaching import assignment, student_edition
from privlab.teaching.assignment import VERIFY

LABS = Path(__file__).parents[2] / "labs"


def run(*arguments: object) -> int:
    return cli.main(["student", "--labs", str(LABS), *map(str, arguments)])


@pytest.mark.parametrize("lab", catalogue.everything(LABS), ids=lambda lab: lab.name)
def test_only_the_solutions_are_left_out(lab):
    made, left_out = student_edition.edition(lab.path)
    whole, kept = pairing.notebook(lab.path).cells, {cell.id for cell in made.cells}
    assert [cell for cell in whole if cell.id in kept] == made.cells
    assert [cell.metadata.get("tags") for cell in whole if cell.id not in kept] == [["solution"]] * left_out
    assert left_out == sum(len(VERIFY.findall(cell.source)) for cell in made.cells if cell.cell_type == "code")
    nbformat.validate(made)


@pytest.mark.parametrize("lab", catalogue.everything(LABS), ids=lambda lab: lab.name)
def test_no_code_of_the_edition_has_an_answer(lab):
    """Neither the body of a function that is asked for, nor the value."""
    code = [cell.source for cell in student_edition.edition(lab.path)[0].cells if cell.cell_type == "code"]
    there = "\n".join(ast.unparse(ast.parse(source)) for source in code)
    for one in assignment.exercises(pairing.notebook(lab.path).cells):
        for node in ast.parse(one.solution.source).body:
            answer = ast.unparse(node.body if isinstance(node, ast.FunctionDef) else getattr(node, "value", []))
            assert len(answer) < 15 or answer not in there, one.name


def test_on_colab_the_edition_sets_itself_up():
    place = launch_buttons.Repository("https://github.com/someone/privlab")
    made, _ = student_edition.edition(LABS / "00_start_here.py", place)
    first = next(cell for cell in made.cells if cell.cell_type == "code")
    assert "github.com/someone/privlab" in first.source and not any("badge" in cell.source for cell in made.cells)


def test_nobodys_work_is_written_over(tmp_path, capsys):
    assert run("05", "--out", tmp_path) == 0
    assert f"notebooks into {tmp_path}, without " in capsys.readouterr().out
    assert run("05", "--out", tmp_path) == 0, "the same again differs nowhere"
    work = tmp_path / "05_april_closed_form.ipynb"
    before = work.read_bytes()
    work.write_bytes(before.replace(b"largest_rank(patches, k): ...", b"largest_rank(patches, k): return k"))
    mine = work.read_bytes()
    assert mine != before
    capsys.readouterr()
    assert run("00", "05", "--out", tmp_path) == 2 and not (tmp_path / "00_start_here.ipynb").exists()
    assert "there may be somebody's work in it; nothing was written. --keep" in capsys.readouterr().err
    assert run("00", "05", "--out", tmp_path, "--keep") == 0
    assert work.read_bytes() == mine and (tmp_path / "00_start_here.ipynb").exists()
    assert run("--out", LABS) == 2 and "holds the labs themselves" in capsys.readouterr().err
