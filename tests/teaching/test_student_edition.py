"""The student edition lacks the solutions and nothing else; a sheet of solutions runs by itself."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from pathlib import Path

import nbformat
import pytest

from privlab import __main__ as cli
from privlab.notebook import checks
from privlab.runner import catalogue, launch_buttons, pairing
from privlab.teaching import student_edition
from privlab.teaching.marking import slicing

LABS = Path(__file__).parents[2] / "labs"
SHELF = catalogue.everything(LABS)
GOES_ON = {
    "05": {"right_hand_side"},
    "08": {"shares"},
    "11": {"convince", "delta"},
    "14": {"verdict"},
}  # answers that later cells work with


def run(*arguments: object) -> int:
    return cli.main(["student", "--labs", str(LABS), *map(str, arguments)])


@pytest.mark.parametrize("lab", SHELF, ids=lambda lab: lab.name)
def test_only_the_solutions_are_left_out(lab):
    made, left_out = student_edition.edition(lab.path)
    whole, kept = pairing.notebook(lab.path).cells, {cell.id for cell in made.cells}
    assert [cell for cell in whole if cell.id in kept] == made.cells
    gone = [cell.metadata.get("tags") for cell in whole if cell.id not in kept]
    asked = [name for c in made.cells if c.cell_type == "code" for name, _ in slicing.checked(ast.parse(c.source))]
    assert gone == [["solution"]] * left_out and left_out == len(asked)
    assert asked == student_edition.exercises(lab.path) and set(asked) <= set(checks.names())
    nbformat.validate(made)


def test_the_command_writes_what_is_asked_for_and_says_so(tmp_path, capsys):
    assert run("05", "0", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert f"wrote {tmp_path / '05_april_closed_form.ipynb'}, without 4 solutions\n" in said
    assert sorted(p.name for p in tmp_path.glob("*.ipynb")) == ["00_start_here.ipynb", "05_april_closed_form.ipynb"]
    before = (tmp_path / "05_april_closed_form.ipynb").read_bytes()
    assert b'"outputs": []' in before and b"largest_rank(patches, k): ..." in before
    assert run("05", "--out", tmp_path) == 0
    assert (tmp_path / "05_april_closed_form.ipynb").read_bytes() == before


def test_what_is_there_may_be_kept(tmp_path, capsys):
    mine = tmp_path / "05_april_closed_form.ipynb"
    mine.write_text("half filled in")
    assert run("05", "--keep", "--out", tmp_path) == 0
    assert mine.read_text() == "half filled in"
    below = sorted(path.name for path in tmp_path.glob("deeper/*"))
    assert below and capsys.readouterr().out == (
        f"wrote {len(below)} notebooks into {tmp_path}; those that were there are as they were\n"
    )
    assert run("05", "--overwrite", "--out", tmp_path) == 0
    assert mine.read_text() != "half filled in"


def test_nobodys_work_is_written_over_unless_one_says_so(tmp_path, capsys):
    mine = tmp_path / "05_april_closed_form.ipynb"
    mine.write_text("half filled in")
    assert run("00", "05", "--out", tmp_path) == 2
    said = capsys.readouterr().err
    assert f"{mine} differs from what would be written" in said and "--keep" in said and "--overwrite" in said
    assert mine.read_text() == "half filled in" and list(tmp_path.iterdir()) == [mine]
    (tmp_path / "00_start_here.ipynb").write_text("mine as well")
    assert run("00", "05", "--out", tmp_path) == 2
    assert "00_start_here.ipynb and 1 more differ from" in capsys.readouterr().err


def test_a_sheet_grows_from_week_to_week(tmp_path):
    sheet = tmp_path / "05_april_closed_form_solutions.ipynb"
    assert run("--out", tmp_path, "--solutions", "05.noise") == 0
    before = sheet.read_text()
    assert run("--out", tmp_path, "--solutions", "05.noise", "05.rank") == 0
    assert sheet.read_text() != before


def test_what_goes_deeper_has_its_edition_where_the_links_of_the_lab_lead(tmp_path, capsys):
    assert run("04", "--out", tmp_path) == 0
    below = tmp_path / "deeper/04_gauss_newton.ipynb"
    said = capsys.readouterr().out
    left_out = {"first_attack": 2, "gauss_newton": 1, "hidden_choices": 2, "larger_networks": 0}
    assert said.splitlines()[1:] == [
        f"wrote {tmp_path / f'deeper/04_{name}.ipynb'}, without {count} solution{'s' * (count != 1)}"
        for name, count in left_out.items()
    ]
    text = below.read_text()
    assert "def push(r, x, v): ..." in text and "pulled" not in text and "](../04_gradient_inversion.ipynb)" in text
    (edition,) = tmp_path.glob("04_*.ipynb")
    assert "](deeper/04_gauss_newton.ipynb)" in edition.read_text()


@pytest.mark.parametrize("wanted", ["04", "04_gauss_newton", "04.push"])
def test_solutions_of_what_goes_deeper_go_to_a_sheet_of_their_own(tmp_path, wanted):
    assert run("--out", tmp_path, "--solutions", wanted) == 0
    made = nbformat.read(tmp_path / "deeper/04_gauss_newton_solutions.ipynb", 4)
    assert "pulled = torch.autograd.grad" in "\n".join(cell.source for cell in made.cells)
    assert (tmp_path / "04_gradient_inversion_solutions.ipynb").exists() == (wanted == "04")


def test_where_there_is_an_address_it_sets_itself_up_on_colab_and_links_to_no_solution(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_REPOSITORY", "https://github.com/o/n")
    assert run("00", "--out", tmp_path, "--solutions", "00") == 0
    for name in ("00_start_here", "00_start_here_solutions"):
        cells = nbformat.read(tmp_path / f"{name}.ipynb", 4).cells
        first = next(cell.source for cell in cells if cell.cell_type == "code")
        assert first == launch_buttons.setup(launch_buttons.Repository("https://github.com/o/n", "main"))
        assert not any("labs/00_start_here.ipynb" in cell.source for cell in cells)


def test_solutions_go_to_a_sheet_and_leave_the_students_notebook_alone(tmp_path, capsys):
    mine = tmp_path / "05_april_closed_form.ipynb"
    mine.write_text("half filled in")
    assert run("--out", tmp_path, "--solutions", "05.noise", "00") == 0
    said = capsys.readouterr().out
    assert f"wrote {tmp_path / '05_april_closed_form_solutions.ipynb'}, with 1 solution\n" in said
    assert mine.read_text() == "half filled in"
    made = nbformat.read(tmp_path / "05_april_closed_form_solutions.ipynb", 4)
    text = "\n".join(cell.source for cell in made.cells)
    assert "how large is the noise" in text and "relative * g.norm() / g.numel() ** 0.5" in text
    assert "05.theorem" not in text
    assert (tmp_path / "00_start_here_solutions.ipynb").exists() and not (tmp_path / "00_start_here.ipynb").exists()


@pytest.mark.parametrize("lab", SHELF, ids=lambda lab: lab.name)
def test_a_sheet_runs_by_itself_and_every_check_in_it_passes(lab, monkeypatch):
    passed = []
    verify = checks.verify
    monkeypatch.setattr(checks, "verify", lambda *given: passed.append(verify(*given)) or passed[-1])
    scope = {"__name__": "__main__"}
    for cell in student_edition.sheet(lab.path, student_edition.exercises(lab.path)).cells:
        if cell.cell_type == "code":
            exec(cell.source, scope)
    assert sorted(outcome.name for outcome in passed) == sorted(student_edition.exercises(lab.path))
    assert all(outcome.passed for outcome in passed), passed


@pytest.mark.parametrize("lab", SHELF, ids=lambda lab: lab.name)
def test_an_open_exercise_stops_no_other_cell(lab):
    """A name that an exercise binds to dots is read by its check alone, or is given a value again before."""
    cells = student_edition.edition(lab.path)[0].cells
    found, _ = slicing.statements([(k, c.source) for k, c in enumerate(cells) if c.cell_type == "code"])
    dots = [k for k, s in enumerate(found) if ast.unparse(s.node).endswith(("...", "{...}")) and s.binds]
    for k in dots:
        (name,) = found[k].binds
        for s in found[k + 1 :]:
            if name in s.binds:
                break
            if name not in GOES_ON.get(lab.number, ()) and not list(slicing.checked(s.node)):
                assert name not in s.reads | s.later, f"{name} in: {ast.unparse(s.node)[:80]}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99"], "lab='99' is not a lab"),
        (["--solutions", "05.nois"], "solutions='05.nois' is no exercise; did you mean '05.noise'?"),
        (["--solutions", "nothing"], "lab='nothing' is not a lab"),
        (["--out", LABS], "holds the labs themselves"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, capsys, arguments, message):
    assert run("--out", tmp_path, *arguments) == 2
    complained = capsys.readouterr().err
    assert message in complained and complained.count("\n") == 1
    assert not list(tmp_path.iterdir())


# -- no answer stands elsewhere -----------------------------------------------------------------------------------------------


EDITIONS = {lab.name: student_edition.edition(lab.path)[0].cells for lab in SHELF}


def solutions():
    """(exercise, the statements of its solution) for every exercise."""
    for lab in SHELF:
        for name, cells in student_edition.solved(pairing.notebook(lab.path).cells):
            (solution,) = [cell for cell in cells if "solution" in cell.metadata.get("tags", [])]
            yield name, ast.parse(solution.source).body


def literal(node):
    """The value of a literal, sets and lists alike as a frozenset; None for what is none, or holds no word that could tell anything."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    words = (
        frozenset(value) if isinstance(value, set | list | tuple) and all(isinstance(v, str) for v in value) else None
    )
    return words if words and any(len(word) > 2 for word in words) else None


def shape(node):
    """An expression without the names of its variables, so that one that was renamed is seen too."""
    node = copy.deepcopy(node)
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            each.id = "_"
    return ast.dump(node)


def shapes(source):
    return {shape(node): node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr)}


def returned(body):
    """The expressions that functions of a solution return, or that it assigns; only those that are long enough to be an answer."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    values = [node.value for node in nodes if isinstance(node, ast.Return | ast.Assign) and node.value is not None]
    return [value for value in values if sum(1 for _ in ast.walk(value)) >= 14]


def printed_sources(cells):
    """The code that a notebook prints of the package, with getsource."""
    for cell in cells:
        if cell.cell_type == "code" and "getsource(" in cell.source:
            code = [c.source for c in cells if c.cell_type == "code"]
            statements, _ = slicing.statements(list(enumerate(code)))
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "getsource":
                    names = {each.id for each in ast.walk(node.args[0]) if isinstance(each, ast.Name)}
                    scope = {}
                    exec(compile(slicing.needed(statements, names, len(statements)), "<needed>", "exec"), scope)
                    yield textwrap.dedent(inspect.getsource(eval(ast.unparse(node.args[0]), scope)))


@pytest.fixture(scope="module")
def code_of():
    """Edition -> the expressions of its code, by shape."""
    made = {}
    for name, cells in EDITIONS.items():
        given = [c for c in cells if c.cell_type == "code" and "exercise" not in c.metadata.get("tags", [])]
        sources = [cell.source for cell in given] + list(printed_sources(cells))
        made[name] = {key: node for source in sources for key, node in shapes(source).items()}
    return made


def test_no_code_of_an_edition_has_the_answer_to_an_exercise(code_of):
    found = {}
    for exercise, body in solutions():
        for value in returned(body):
            for edition, code in code_of.items():  # later labs may use what this one taught
                if shape(value) in code and edition.removeprefix("deeper/")[:2] <= exercise[:2]:
                    found[exercise, edition] = ast.unparse(code[shape(value)])
    assert found == {}


def test_an_answer_under_other_names_would_be_seen():
    planted = shapes("def angle(u, v):\n    p = flat(u)\n    return 1 - p @ v / (p.norm() * v.norm())")
    (values,) = [returned(body) for name, body in solutions() if name == "04.cosine"]
    assert any(shape(value) in planted for value in values)


def test_no_collection_of_words_in_an_edition_is_an_answer(code_of):
    answers = {
        words: name for name, body in solutions() for node in ast.walk(ast.Module(body)) if (words := literal(node))
    }
    assert len(answers) >= 3
    found = {}
    for edition, code in code_of.items():
        for node in code.values():
            if (words := literal(node)) in answers:
                found[answers[words], edition] = ast.unparse(node)
    assert found == {}


def test_no_text_of_an_edition_names_the_parameters_that_an_exercise_asks_for():
    dotted = re.compile(r"^[a-z_]+(\.[a-z_]+)*$")
    answers = {
        name: words
        for name, body in solutions()
        for node in ast.walk(ast.Module(body))
        if (words := literal(node)) and any("." in word for word in words) and all(map(dotted.match, words))
    }
    assert {"00.enough", "08.label"} <= set(answers)
    for exercise, words in answers.items():
        for edition, cells in EDITIONS.items():
            for cell in cells if edition.removeprefix("deeper/")[:2] == exercise[:2] else ():
                assert not all(word in cell.source for word in words), f"{exercise} in {edition}: {cell.source[:80]}"
