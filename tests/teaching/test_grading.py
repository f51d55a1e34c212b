"""From an assignment to marks: whole notebooks come back under any name, and their code reaches nothing of the teacher's."""

from __future__ import annotations

import csv
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from privlab import __main__ as cli
from privlab.data import sources
from privlab.runner import catalogue, pairing
from privlab.teaching import assignment, collect, grade, student_edition

nbgrader = pytest.importorskip("nbgrader", reason="pip install -e '.[teach]' brings nbgrader")
needs_bwrap = pytest.mark.skipif(
    not shutil.which("bwrap", path=f"{sys.prefix}/bin:{os.environ['PATH']}"), reason=f"bwrap is missing: {grade._CURE}"
)

ROOT = Path(__file__).parents[2]
LAB = "00_start_here"
SOURCE = ROOT / f"labs/{LAB}.py"
RIGHT = {
    "known_to_the_server = ...": 'known_to_the_server = {"architecture", "weights", "gradients", "batch size", "preprocessing"}',
    "def my_psnr(images, truth): ...": "def my_psnr(images, truth):\n    return -10 * (images - truth).square().mean().log10()",
    "enough = ...": 'enough = {"pos_embed", "patch_embed.proj.weight"}',
    "false = ...": 'false = {"B", "C", "D"}',
}
WRONG = dict.fromkeys(RIGHT, "") | {"enough = ...": 'enough = {"pos_embed"}', "false = ...": "false = {'A'"}
DEEP = f'checks.verify("00.enough", a{".b" * 2000})'
LOOP = "def my_psnr(images, truth):\n    while True: pass"
SCRIPT = "<script>alert(1)</script>"


def returned(answers, sentence=""):
    """The edition of the lab as a student returns it.  answers: what stands in place of the stubs; sentence: below the last exercise."""
    made, _ = student_edition.edition(SOURCE)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.source = answers.get(cell.source, "") or cell.source
    if sentence:
        last = max(k for k, cell in enumerate(made.cells) if "00.leaflet" in cell.source)
        made.cells.insert(last + 1, new_markdown_cell(sentence))
    return nbformat.writes(made)


def nbgrader_in(course, *words):
    path = f"{sys.prefix}/bin:{os.environ['PATH']}"
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(command, cwd=course, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def new_course(folder):
    course = folder / "course"
    assert cli.main(["assignment", "00", "--sentences", "--to", str(course), "--labs", str(ROOT / "labs")]) == 0
    nbgrader_in(course, "generate_assignment", LAB)
    return course


def graded(course, hand_ins, seconds=60):
    """The lines of collecting hand-ins, file -> content, and of grading them."""
    back = course.parent / "returned"
    for name, content in hand_ins.items():
        (back / name).parent.mkdir(parents=True, exist_ok=True)
        (back / name).write_text(content)
    taken = list(collect.collect(back, course, catalogue.everything(ROOT / "labs")))
    return taken, list(grade.grade(course, seconds))


def feedback(course, student):
    return (course / f"feedback/{student}/{LAB}/{LAB}.html").read_text()


# -- a class ------------------------------------------------------------------------------------------------------------------------


@needs_bwrap
def test_right_wrong_and_empty_are_told_apart(tmp_path):
    course = new_course(tmp_path)
    hand_ins = {
        "ada/mine.ipynb": returned(RIGHT, f"Because {SCRIPT}."),
        "ben_00.ipynb": returned(WRONG),
        "cleo/00.ipynb": returned({}),
    }
    taken, lines = graded(course, hand_ins)
    assert taken == [f"ada/mine.ipynb -> ada, {LAB}", f"ben_00.ipynb -> ben, {LAB}", f"cleo/00.ipynb -> cleo, {LAB}"]
    assert lines == [
        f"ada, {LAB}: 4 of 13; a sentence waits for you",
        f"ben, {LAB}: 0 of 13",
        f"cleo, {LAB}: 0 of 13",
        f"feedback for {LAB}",
    ]
    assert SCRIPT not in feedback(course, "ada") and "alert(1)" in feedback(course, "ada")
    assert str(ROOT) not in feedback(course, "ben") and "<summary>Hint" in feedback(course, "ben")
    assert "SyntaxError" in feedback(course, "ben") and "Nothing is written yet" in feedback(course, "cleo")
    nbgrader_in(course, "export", "--to", "grades.csv")
    rows = list(csv.DictReader((course / "grades.csv").open()))
    assert {row["student_id"]: float(row["score"]) for row in rows} == {"ada": 4, "ben": 0, "cleo": 0}

    _, again = graded(course, {"cleo/00.ipynb": returned(RIGHT)})
    assert again == [f"cleo, {LAB}: 4 of 13", f"feedback for {LAB}"], "only what came anew"


HOSTILE = """\
import os, pathlib, socket, sqlite3
import privlab
from IPython.display import HTML, display
reached = []
def attempt(what, act):
    try:
        act()
        reached.append(what)
    except Exception:
        pass
attempt("a secret", lambda: open(SECRET).read())
attempt("HOME", lambda: list(pathlib.Path(SECRET).parent.iterdir()))
attempt("the environment", lambda: os.environ["TOKEN"])
attempt("another process", lambda: open(f"/proc/{PROCESS}/cmdline").read().index("python"))
attempt("a file outside", lambda: open(TARGET, "w").write("mine"))
attempt("the package", lambda: open(privlab.__file__, "r+").close())
attempt("a socket", lambda: socket.create_connection(("127.0.0.1", PORT), timeout=2).close())
attempt("another's hand-in", lambda: open(OTHER).read())
attempt("a mark", lambda: sqlite3.connect(f"file:{BOOK}?mode=rw", uri=True).execute("update grade set auto_score = 9"))
display(HTML("<img src=x onerror=alert(2)>"))
known_to_the_server = reached
print("reached:", ", ".join(reached) or "nothing")
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A class with hand-ins of every kind, graded once: the course, what was said, and what the hostile one could have reached."""
    folder = tmp_path_factory.mktemp("class")
    data, secret = sources.folder(), folder / "home/secret.txt"
    secret.parent.mkdir()
    secret.write_text("a secret of the teacher")
    course, target, server = new_course(folder), folder / "target.txt", socket.create_server(("127.0.0.1", 0))
    places = dict(SECRET=str(secret), TARGET=str(target), PORT=server.getsockname()[1])
    places |= dict(
        PROCESS=os.getpid(), OTHER=str(course / f"submitted/ada/{LAB}/{LAB}.ipynb"), BOOK=str(course / "gradebook.db")
    )
    attack = "\n".join(f"{name} = {value!r}" for name, value in places.items()) + "\n" + HOSTILE
    stubborn = "import itertools\nenough = sum(itertools.repeat(0))"  # which no interrupt ends
    colab = nbformat.reads(returned(RIGHT), as_version=4)
    colab.cells.insert(0, new_code_cell("!pip install privlab"))
    for cell in colab.cells:
        cell.metadata = {"id": "x"}
    hand_ins = {
        "ada/00_start_here.ipynb": returned(RIGHT),
        "leewei_111_1_00.ipynb": returned(RIGHT),
        "leewei_222_2_00.ipynb": returned({}),
        "renamed/Copy of lab (2).ipynb.txt": nbformat.writes(colab),
        "broken/00.ipynb": returned(RIGHT)[:5000],
        "endless/00.ipynb": returned(RIGHT | {"def my_psnr(images, truth): ...": LOOP}),
        "stubborn/00.ipynb": returned(RIGHT | {"enough = ...": stubborn}),
        "gone/00.ipynb": returned(RIGHT | {"enough = ...": "import os\nenough = os._exit(1)"}),
        "eve/00.ipynb": returned(RIGHT | {"known_to_the_server = ...": attack}),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HOME": str(secret.parent), "TOKEN": "of the teacher", "PRIVLAB_DATA": str(data)}.items():
            patch.setenv(name, value)
        taken, lines = graded(course, hand_ins, seconds=15)
        server.settimeout(0)
        try:
            server.accept()
            called = True
        except BlockingIOError:
            called = False
        wrote = target.exists()
        outside = subprocess.run([sys.executable, "-c", attack], capture_output=True, text=True)
    server.close()
    return dict(course=course, taken=taken, lines=lines, called=called, wrote=wrote, outside=outside.stdout)


@needs_bwrap
@pytest.mark.check
def test_each_hand_in_gets_what_it_earns(hostile):
    assert "broken/00.ipynb: not taken, it cannot be read as a notebook" in " ".join(hostile["taken"])
    said = {line.split(",")[0]: line.split(": ", 1)[1] for line in hostile["lines"][:-1]}
    right = {name: "4 of 13" for name in ("ada", "leewei_111", "renamed")}
    assert said == right | {
        "leewei_222": "0 of 13",
        "endless": "3 of 13",
        "eve": "3 of 13",
        "gone": "not graded, nbclient.exceptions.DeadKernelError: Kernel died",
        "stubborn": said["stubborn"],
    }
    assert said["stubborn"].startswith("not graded, ")


@needs_bwrap
@pytest.mark.check
def test_a_hostile_notebook_reaches_nothing(hostile):
    assert hostile["outside"].endswith(
        "reached: a secret, HOME, the environment, another process, a file outside, the package, a socket, "
        "another's hand-in, a mark\n"
    ), "what it does works where nothing shuts it in"
    assert "CellTimeoutError" in feedback(hostile["course"], "endless")
    shown = feedback(hostile["course"], "eve")
    assert "reached: nothing" in shown and "<img src=x" not in shown and "a secret of the teacher" not in shown
    assert not hostile["called"] and not hostile["wrote"]


# -- the parts -----------------------------------------------------------------------------------------------------------------------


def test_a_sheet_has_all_exercises_and_what_nbgrader_asks_for():
    sheet = assignment.sheet(SOURCE, sentences=True)
    marks = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader for c in sheet.cells if "nbgrader" in c.metadata}
    assert list(marks)[:4] == ["imports", "00-threat-answer", "00-threat", "00-threat-sentence"]
    assert [name for name in marks if name.endswith("-sentence")] == [
        f"00-{n}-sentence" for n in ("threat", "enough", "leaflet")
    ]
    assert sum(mark.get("points", 0) for mark in marks.values()) == 4 + 3 * 3
    text = "\n".join(cell.source for cell in sheet.cells)
    assert "### BEGIN SOLUTION\nenough = {" in text and "### Exercise 4" in text and "observe(vit" not in text


@pytest.mark.parametrize("lab", catalogue.everything(ROOT / "labs"), ids=lambda lab: lab.name)
def test_each_exercise_of_a_lab_gets_into_its_sheet(lab):
    asked = assignment.VERIFY.findall(lab.path.read_text())
    found = assignment.exercises(pairing.notebook(lab.path).cells)
    assert [one.name for one in found] == asked
    assert all(assignment.HEADING.search(one.text[0].source) for one in found)


def test_a_sheet_whose_points_were_changed_stays(tmp_path, capsys):
    assert cli.main(["assignment", "00", "--to", str(tmp_path), "--labs", str(ROOT / "labs")]) == 0
    path = tmp_path / f"source/{LAB}/{LAB}.ipynb"
    path.write_text(path.read_text().replace('"points": 1', '"points": 2', 1))
    assert cli.main(["assignment", "00", "--to", str(tmp_path), "--labs", str(ROOT / "labs")]) == 2
    assert "is another there; move it away" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("head", "student"),
    [
        ("ada", "ada"),
        ("ada_04.ipynb", "ada"),
        ("ada 04_gradient_inversion (1).ipynb", "ada"),
        ("s1234504.ipynb", "s1234504"),
        ("leewei_111_1_00.ipynb", "leewei_111"),
        ("leewei_LATE_222_2_04_gradient_inversion.ipynb", "leewei_222"),
        ("Ada Lovelace_123_assignsubmission_file", "Ada-Lovelace"),
        ("04_gradient_inversion.ipynb", ""),
        ("../Zoë*", "Zoë"),
    ],
)
def test_a_name_of_a_file_names_a_student(head, student):
    assert collect.student_of(head, "04") == student


@pytest.mark.parametrize(
    ("cells", "chosen"),
    [
        (["a = 1", "b = a + 1", "c = 5", "answer = b"], [0, 1, 3]),
        (["answer = 1", "answer = 2"], [1]),
        (["loss = train()", "def answer(x):\n    loss = x\n    return loss"], [1]),
        (["k = 3", "def answer(x):\n    return [k * y for y in x]"], [0, 1]),
        (["answer = {}", "answer['a'] = 1"], [0, 1]),
        (["answer = 0", "answer = answer + 1"], [0, 1]),
        (["import numpy as np", "answer = np.pi"], [1]),
        (["answer = 1", "answer = = 2"], [0]),
    ],
)
def test_an_answer_comes_with_what_it_needs_and_no_more(cells, chosen):
    assert collect.needed(cells, {"answer"}, known={"np"}) == [cells[k] for k in chosen]


def test_what_a_student_wrote_gets_into_the_sheet(tmp_path):
    sheet = assignment.sheet(SOURCE, sentences=True)
    text = returned(
        {
            "enough = ...": "mine = {'pos_embed'}",
            'checks.verify("00.enough", enough)': '%time checks.verify("00.enough", mine)',
        },
        "Mine.",
    )
    lab = {cell.source for cell in pairing.notebook(SOURCE).cells}
    made = collect.filled(sheet, nbformat.reads(text, as_version=4), lab)
    cells = {c.metadata.nbgrader.grade_id: c.source for c in made.cells if "nbgrader" in c.metadata}
    assert cells["00-leaflet-sentence"] == "Mine." and cells["00-enough-sentence"] == "Nothing yet."
    assert cells["00-enough"] == 'checks.verify("00.enough", enough)'


def test_what_is_no_hand_in_is_named(tmp_path):
    release, back = tmp_path / f"course/release/{LAB}", tmp_path / "returned"
    release.mkdir(parents=True)
    nbformat.write(assignment.sheet(SOURCE), release / f"{LAB}.ipynb")
    for name, content in {
        "ada/notes.docx": "",
        "ben/empty.ipynb": "",
        "cleo/deep.ipynb": "[" * 100_000,
        "odd/00.ipynb": returned(
            {"enough = ...": "enough = 'SIGN'", 'checks.verify("00.enough", enough)': DEEP}
        ).replace("SIGN", r"\ud800"),
        "dan/other.ipynb": nbformat.writes(pairing.notebook(ROOT / "labs/05_april_closed_form.py")),
        "00_start_here.ipynb": returned(RIGHT),
        "twice/1.ipynb": returned({}),
        "twice/2.ipynb": returned(RIGHT),
        "Ada L_1_assignsubmission_file/x.ipynb": returned({}),
        "Ada L_2_assignsubmission_file/x.ipynb": returned({}),
    }.items():
        (back / name).parent.mkdir(parents=True, exist_ok=True)
        (back / name).write_text(content)
    (back / "eve").mkdir()
    (back / "eve/link.ipynb").symlink_to(back / "twice/2.ipynb")
    os.utime(back / "twice/1.ipynb", (0, 0))
    said = list(collect.collect(back, tmp_path / "course", catalogue.everything(ROOT / "labs")))
    assert [line for line in said if "not taken" not in line] == [
        f"Ada L_1_assignsubmission_file/x.ipynb -> Ada-L_1_assignsubmission_file, {LAB}; Ada-L is named by more than one",
        f"Ada L_2_assignsubmission_file/x.ipynb -> Ada-L_2_assignsubmission_file, {LAB}; Ada-L is named by more than one",
        f"odd/00.ipynb -> odd, {LAB}",
        f"twice/2.ipynb -> twice, {LAB}; the newest of 2",
    ]
    why = {line.split(": not taken, ")[0]: line.split(": not taken, ")[1][:30] for line in said if "not taken" in line}
    assert why == {
        "00_start_here.ipynb": "it names no student; put it in",
        "ada/notes.docx": "its name is not that of a note",
        "ben/empty.ipynb": "it cannot be read as a noteboo",
        "cleo/deep.ipynb": "it cannot be read as a noteboo",
        "dan/other.ipynb": "it checks no exercise of a rel",
        "eve/link.ipynb": "it is no plain file",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collect", "nowhere", "--into", "x"], "returned='nowhere' is not a folder"),
        (["collect", ".", "--into", "x"], "into='x' has no release; run nbgrader generate_assignment there"),
        (["grade", "nowhere"], "has no submission; python -m privlab collect brings some"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*arguments, *(["--labs", str(ROOT / "labs")] if arguments[0] == "collect" else [])]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_where_no_kernel_can_be_shut_in_nothing_is_run(tmp_path, monkeypatch):
    (tmp_path / "submitted/ada/x").mkdir(parents=True)
    (tmp_path / "submitted/ada/x/timestamp.txt").write_text("now")
    (tmp_path / "nbgrader_config.py").write_text("")
    monkeypatch.setattr(grade.shutil, "which", lambda *_, **__: None)
    with pytest.raises(OSError, match="bwrap, which is missing: sudo apt-get install bubblewrap"):
        list(grade.grade(tmp_path))
    monkeypatch.setattr(grade.shutil, "which", lambda *_, **__: "/bin/false")
    with pytest.raises(OSError, match="bwrap, which cannot run here"):
        list(grade.grade(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(ValueError, match="which students' code can read; move it"):
        list(grade.grade(tmp_path))
