"""From an assignment to marks: whole notebooks come back under any name, and their code reaches nothing of the teacher's."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

pytest.importorskip("nbgrader", reason="pip install -e '.[teach]' brings nbgrader")

from privlab import __main__ as cli
from privlab.data import sources
from privlab.runner import catalogue
from privlab.teaching import assignment, collect, grade

bwrap = shutil.which("bwrap", path=f"{sys.prefix}/bin:{os.environ['PATH']}")
needs_bwrap = pytest.mark.skipif(not bwrap, reason=f"bwrap is missing: {grade._CURE}")

ROOT = Path(__file__).parents[2]
LAB = "00_start_here"
SOURCE = ROOT / f"labs/{LAB}.py"
SHELF = catalogue.everything(ROOT / "labs")
SENT, PSNR, ENOUGH = "known_to_the_server = ...", "def my_psnr(images, truth): ...", "enough = ..."
RIGHT = {
    SENT: f'{SENT[:-3]}{{"architecture", "weights", "gradients", "batch size", "preprocessing"}}',
    PSNR: "def my_psnr(images, truth):\n    return -10 * (images - truth).square().mean().log10()",
    ENOUGH: 'enough = {"pos_embed", "patch_embed.proj.weight"}',
    "false = ...": 'false = {"B", "C", "D"}',
}
SCRIPT = "<script>alert(1)</script>"


def returned(answers, sentence=""):
    """The edition of the lab as a student returns it.  answers: what stands in place of the stubs; sentence: below the last exercise."""
    made = assignment.edition(SOURCE)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.source = answers.get(cell.source, cell.source)
    if sentence:
        last = max(k for k, cell in enumerate(made.cells) if "00.leaflet" in cell.source)
        made.cells.insert(last + 1, new_markdown_cell(sentence))
    return nbformat.writes(made)


def new_course(folder):
    course = folder / "course"
    assert cli.main(["assignment", "00", "--sentences", "--to", str(course), "--labs", str(ROOT / "labs")]) == 0
    assert grade.nbgrader(course, "generate_assignment", LAB) == ""
    return course


def collected(course, hand_ins):
    """The lines of collecting hand-ins, file -> content."""
    back = course.parent / "returned"
    for name, content in hand_ins.items():
        (back / name).parent.mkdir(parents=True, exist_ok=True)
        (back / name).write_text(content)
    return list(collect.collect(back, course, SHELF))


def feedback(course, student):
    return (course / f"feedback/{student}/{LAB}/{LAB}.html").read_text()


@needs_bwrap
def test_right_wrong_and_empty_are_told_apart_and_only_what_is_new_is_graded(tmp_path):
    course = new_course(tmp_path)
    answers = {PSNR: RIGHT[PSNR], ENOUGH: 'enough = {"pos_embed"}', "false = ...": "false = {'A'"}
    taken = collected(course, {"ada/mine.ipynb": returned(answers, f"Because {SCRIPT}.")})
    assert taken == [f"ada/mine.ipynb -> ada, {LAB}"]
    assert [*grade.grade(course)] == [f"ada, {LAB}: 1 of 13; a sentence waits for you", f"feedback for {LAB}"]
    shown = feedback(course, "ada")
    assert SCRIPT not in shown and "alert(1)" in shown and str(ROOT) not in shown and "<summary>Hint" in shown
    assert "SyntaxError" in shown and "Nothing is written yet" in shown
    assert [*grade.grade(course)] == [f"feedback for {LAB}"]


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


@needs_bwrap
@pytest.mark.check
def test_each_hand_in_gets_what_it_earns_and_a_hostile_one_reaches_nothing(tmp_path, monkeypatch):
    course, target, server = new_course(tmp_path), tmp_path / "target.txt", socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("PRIVLAB_DATA", str(sources.folder()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TOKEN", "of the teacher")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/secret.txt").write_text("a secret of the teacher")
    places = dict(SECRET=str(tmp_path / "home/secret.txt"), PROCESS=os.getpid(), TARGET=str(target))
    places |= dict(PORT=server.getsockname()[1], BOOK=str(course / "gradebook.db"))
    places["OTHER"] = str(course / f"submitted/ada/{LAB}/{LAB}.ipynb")
    attack = "\n".join(f"{name} = {value!r}" for name, value in places.items()) + "\n" + HOSTILE
    colab = nbformat.reads(returned(RIGHT), as_version=4)
    colab.cells.insert(0, new_code_cell("!pip install privlab"))
    for cell in colab.cells:
        cell.metadata = {"id": "x"}
    hand_ins = {
        "ada/00_start_here.ipynb": returned(RIGHT),
        "leewei_111_1_00.ipynb": returned(RIGHT),
        "leewei_222_2_00.ipynb": returned({}),
        "renamed/Copy of lab (2).ipynb.txt": nbformat.writes(colab),
        "endless/00.ipynb": returned(RIGHT | {PSNR: "def my_psnr(images, truth):\n    while True: pass"}),
        "stubborn/00.ipynb": returned({ENOUGH: "import itertools\nenough = sum(itertools.repeat(0))"}),
        "gone/00.ipynb": returned(RIGHT | {ENOUGH: "import os\nenough = os._exit(1)"}),
        "eve/00.ipynb": returned(RIGHT | {SENT: attack}),
    }
    assert len(collected(course, hand_ins)) == len(hand_ins)
    *lines, _ = grade.grade(course, seconds=30)
    said = {line.split(",")[0]: line.split(": ", 1)[1] for line in lines}
    assert said.pop("stubborn").startswith("not graded, "), "no interrupt ends it"
    assert said.pop("gone") == "not graded, nbclient.exceptions.DeadKernelError: Kernel died"
    right = dict.fromkeys(("ada", "leewei_111", "renamed"), "4 of 13")
    assert said == right | {"leewei_222": "0 of 13", "endless": "3 of 13", "eve": "3 of 13"}
    assert "CellTimeoutError" in feedback(course, "endless")
    shown = feedback(course, "eve")
    assert "reached: nothing" in shown and "<img src=x" not in shown and "a secret of the teacher" not in shown
    server.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.accept()
    assert not target.exists()
    outside = subprocess.run([sys.executable, "-c", attack], capture_output=True, text=True)
    server.close()
    reached = outside.stdout.rpartition("reached: ")[2].split(", ")
    assert len(reached) == HOSTILE.count("attempt(") - 1, "what it does works where nothing shuts it in"


def test_a_sheet_has_all_exercises_and_stays_where_its_points_were_changed(tmp_path):
    (path,) = assignment.write(SHELF[:1], tmp_path, sentences=True)
    sheet = nbformat.read(path, as_version=4)
    nbformat.validate(sheet)
    marks = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader for c in sheet.cells if "nbgrader" in c.metadata}
    assert list(marks)[:4] == ["imports", "00-threat-answer", "00-threat", "00-threat-sentence"]
    assert sum(mark.get("points", 0) for mark in marks.values()) == 4 + 3 * 3
    text = "\n".join(cell.source for cell in sheet.cells)
    assert "### BEGIN SOLUTION\nenough = {" in text and "### Exercise 4" in text and "observe(vit" not in text
    path.write_text(path.read_text().replace('"points": 1', '"points": 2', 1))
    with pytest.raises(FileExistsError, match="differs from what would be written.* Move it away"):
        assignment.write(SHELF[:1], tmp_path, sentences=True)


def test_a_name_of_a_file_names_a_student():
    heads = {
        "ada 04_gradient_inversion (1).ipynb": "ada",
        "leewei_LATE_222_2_04_gradient_inversion.ipynb": "leewei_222",
        "Ada Lovelace_123_assignsubmission_file": "Ada-Lovelace",
        "04_gradient_inversion.ipynb": "",
        "../Zoë*": "Zoë",
    }
    assert {head: collect.student_of(head, "04") for head in heads} == heads


ASKED = 'checks.verify("00.enough", enough)'


def answer_to_enough(*code, asked=ASKED):
    """What the sheet gets below its stub, where a student has these cells of code in place of the lab's stub."""
    notebook = nbformat.reads(returned({ASKED: asked}, "Mine."), as_version=4)
    place = next(k for k, cell in enumerate(notebook.cells) if cell.source == ENOUGH)
    notebook.cells[place : place + 1] = map(new_code_cell, code)
    made = collect.filled(assignment.sheet(SOURCE, sentences=True), notebook, assignment.edition(SOURCE).cells)
    cells = {c.metadata.nbgrader.grade_id: c.source for c in made.cells if "nbgrader" in c.metadata}
    assert cells["00-leaflet-sentence"] == "Mine." and cells["00-enough-sentence"] == "Nothing yet."
    assert cells["00-enough"] == ASKED and cells["00-psnr-answer"].endswith("### END SOLUTION")
    return cells["00-enough-answer"].partition("### END SOLUTION")[2].strip().split("\n\n")


def test_what_a_student_wrote_above_a_check_gets_into_the_sheet():
    helper, answer, broken = "def mine():\n    return {'pos_embed'}", "enough = mine()", "enough = = 2"
    assert answer_to_enough(helper, ENOUGH, answer, broken) == [helper, answer, broken], "but the lab's own cells"
    timed = answer_to_enough("%%time\nhers = 1", "!ls", asked='%time checks.verify("00.enough", hers)')
    assert timed == ["hers = 1", "pass", "enough = hers"]
    assert answer_to_enough(helper, ASKED, answer) == [helper, answer], "a further try"


def test_what_is_no_hand_in_is_named_and_the_newest_of_a_student_counts(tmp_path):
    course, back = tmp_path / "course", tmp_path / "returned"
    (course / f"release/{LAB}").mkdir(parents=True)
    nbformat.write(assignment.sheet(SOURCE), course / f"release/{LAB}/{LAB}.ipynb")
    for folder in ("eve", "twice"):
        (back / folder).mkdir(parents=True)
    (back / "eve/link.ipynb").symlink_to(tmp_path / "outside")
    (back / "twice/1.ipynb").write_text(returned({}))
    os.utime(back / "twice/1.ipynb", (0, 0))
    unreadable, twin = ": not taken, it cannot be read as a notebook", f"{LAB}; L is named by more than"
    no_text = returned({ENOUGH: "'SIGN'"}).replace("SIGN", r"\ud800")
    hand_ins = {
        "00_start_here.ipynb": (returned(RIGHT), ": not taken, it names no student; put it into a folder"),
        "ada/notes.docx": ("", ": not taken, its name is not that of a notebook"),
        "cleo/deep.ipynb": ("[" * 100_000, unreadable),
        "dan/other.ipynb": (nbformat.writes(nbformat.v4.new_notebook()), ": not taken, it checks no exercise of a"),
        "eve/link.ipynb": ("", ": not taken, it is no plain file"),
        "L_1_assignsubmission_x/a.ipynb": (returned({}), f" -> L_1_assignsubmission_x, {twin}"),
        "L_2_assignsubmission_x/a.ipynb": (returned({}), f" -> L_2_assignsubmission_x, {twin}"),
        "odder/00.ipynb": (no_text, unreadable),
        "twice/2.ipynb": (returned(RIGHT), f" -> twice, {LAB}; the newest of 2"),
    }
    said = collected(course, {name: content for name, (content, _) in hand_ins.items()})
    assert len(said) == len(hand_ins)
    for name, (_, told) in hand_ins.items():
        assert [line for line in said if line.startswith(name + told)], name


def test_without_a_release_a_submission_or_a_kernel_that_can_be_shut_in_nothing_is_done(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="has no release; run nbgrader generate_assignment there"):
        list(collect.collect(tmp_path, tmp_path, SHELF))
    with pytest.raises(FileNotFoundError, match="has no submission; python -m privlab collect brings some"):
        list(grade.grade(tmp_path))
    (tmp_path / "submitted/ada/x").mkdir(parents=True)
    (tmp_path / "submitted/ada/x/timestamp.txt").write_text("now")
    (tmp_path / "nbgrader_config.py").write_text("")
    for found, message in ((None, "which is missing: sudo apt-get install"), ("/bin/false", "which cannot run here")):
        monkeypatch.setattr(grade.shutil, "which", lambda *_, found=found, **__: found)
        with pytest.raises(OSError, match=f"bwrap, {message}"):
            list(grade.grade(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(ValueError, match="which students' code can read; move it"):
        list(grade.grade(tmp_path))
