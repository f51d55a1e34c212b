"""The gradebook of a class, the reasons that a student gets, and marks of a class in progress."""

from __future__ import annotations

import csv
import getpass
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from privlab import __main__ as cli
from privlab.notebook import exercises
from privlab.teaching import marking
from privlab.teaching.marking import students, submission, watching

ROOT = Path(__file__).parents[3]
RIGHT, WRONG, OPEN = (
    {"state": state, "why": why} for state, why in (("right", ""), ("wrong", "It is 3."), ("open", ""))
)
OWN = exercises.parts("00")[0]


def row(file, *states, lab="00", student="", **more):
    """A marked notebook of lab 00 whose first exercises have these verdicts; the others are open."""
    verdicts = {name: OPEN for name in exercises.parts(lab)[0]} | dict(
        zip(exercises.parts(lab)[0], states, strict=False)
    )
    return marking.Row(file, lab, verdicts | more.pop("extra", {}), student=student, **more)


def scheme(tmp_path, text):
    (tmp_path / "marks.toml").write_text(text)
    return marking.scheme(tmp_path / "marks.toml")


DEFAULT = marking.Scheme()


def table(rows, scheme=DEFAULT):
    return list(csv.DictReader(students.text(students.collect(rows, scheme), scheme).splitlines()))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("ada/mine.ipynb", "ada"),
        ("Ada Lovelace_123_assignsubmission_file/04_x.ipynb", "Ada Lovelace"),
        ("anna.ipynb", "anna"),
        ("anna_04.IPYNB.txt", "anna"),
        ("04_gradient_inversion.ipynb", ""),
        ("=cmd\x1b[2J.ipynb", "=cmd [2J"),
    ],
)
def test_a_file_names_its_student(file, name):
    assert students.by_file(file) == name


def test_a_pattern_finds_the_identifier_of_an_lms(tmp_path):
    own = scheme(tmp_path, "[student]\npattern = '_(\\d+)_'\n")
    assert students.by_file("Ada_123_file/04_x.ipynb", own.pattern) == "123"
    assert students.by_file("mine.ipynb", own.pattern) == ""


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("Student: 12345", "12345"),
        ("# Lab 04\n\n**Student:** Ada Lovelace", "Ada Lovelace"),
        ("# student id: s-77", "s-77"),
        ("Student:\n# Title", ""),
        ("Students: all", ""),
        (["stu", "dent: x"], "x"),
    ],
)
def test_a_first_cell_names_its_student(tmp_path, cell, name):
    code = {"cell_type": "code", "source": 'checks.verify("00.psnr", ...)'}
    cells = [{"cell_type": "markdown", "source": cell}, {"cell_type": "markdown", "source": "Student: other"}, code]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert submission.read(str(tmp_path / "a.ipynb"))["student"] == name


def test_a_student_has_one_row_for_all_notebooks_and_the_best_answer_counts():
    rows = [
        row("ada/1.ipynb", WRONG, RIGHT),
        row("Ada/2.ipynb", RIGHT, OPEN),
        row("ada/x.ipynb", RIGHT, lab="04"),
        row("ben.ipynb"),
    ]
    ada, ben = table(rows)
    of = len(exercises.parts("04")[0])
    assert (ada["student"], ada["lab 00"], ada["lab 04"]) == ("ada", f"{200 / len(OWN):.0f}", f"{100 / of:.0f}")
    assert ada["total"] == f"{50 * (2 / len(OWN) + 1 / of):.1f}"
    assert (ben["student"], ben["lab 00"], ben["lab 04"], ben["total"], ben["of"]) == ("ben", "0", "", "0.0", "100")


def test_weights_points_and_titles_are_those_of_the_scheme(tmp_path):
    own = scheme(
        tmp_path,
        'total = 30\ncolumn = "ID number"\n[weights]\n"00" = 2\n"03" = 1\n"05" = 0\n'
        f'[points]\n"{OWN[0]}" = 3\n"04.push" = 9\n',
    )
    (ada,) = table([row("ada.ipynb", RIGHT)], own)
    whole = len(OWN) + 2
    assert list(ada) == ["ID number", "lab 00", "lab 03", "total", "of", "note"]
    assert (ada["lab 00"], ada["total"], ada["of"]) == (f"{300 / whole:.0f}", f"{30 * 2 / 3 * 3 / whole:.1f}", "30")


def test_a_deeper_exercise_counts_where_the_scheme_says_so_and_never_beyond_the_lab(tmp_path):
    names = exercises.parts("04")[0]
    whole = row("ada.ipynb", *[RIGHT] * len(names), lab="04", extra={"04.push": RIGHT})
    part = row("ben.ipynb", RIGHT, lab="04", extra={"04.push": RIGHT})
    own = scheme(tmp_path, '[points]\n"04.push" = 1\n')
    assert [one["lab 04"] for one in table([whole, part])] == ["100", f"{100 / len(names):.0f}"]
    assert [one["lab 04"] for one in table([whole, part], own)] == ["100", f"{200 / len(names):.0f}"]


def test_a_notebook_that_names_nobody_and_one_that_names_another_are_noted():
    noted = table([row("04_x.ipynb"), row("ada.ipynb", student="Ben"), row("cy.ipynb", lab="00", student="CY")])
    assert [one["student"] for one in noted] == ["?", "ada", "cy"]
    assert [one["note"] for one in noted] == [
        "04_x.ipynb names no student",
        "ada.ipynb: its file names ada, its first cell Ben",
        "",
    ]
    by_cell = marking.Scheme(by_cell=True)
    assert [one["student"] for one in table([row("ada.ipynb", RIGHT, student="Ben"), row("x.ipynb")], by_cell)] == [
        "?",
        "Ben",
    ]


def test_folders_that_are_taken_for_one_student_are_noted(tmp_path):
    rows = [
        row("ada_lovelace/a.ipynb"),
        row("ada_byron/b.ipynb"),
        row("ben/a.ipynb"),
        row("ben/b.ipynb"),
        row("04/x.ipynb"),
    ]
    assert [one["note"] for one in table(rows)] == [
        "x.ipynb names no student",
        "taken for one student: the folders ada_byron, ada_lovelace",
        "",
    ]
    whole = scheme(tmp_path, "[student]\npattern = '^([^/]+)/'\n")
    assert [one["student"] for one in table(rows[:2], whole)] == ["ada_byron", "ada_lovelace"]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", '"=1', "a;=1"])
def test_no_cell_of_the_gradebook_is_a_formula(name):
    rows = [row(f"{name}.ipynb", error=name), row("b.ipynb", student=name)]
    for scheme in (marking.Scheme(), marking.Scheme(by_cell=True), marking.Scheme(column=name)):
        text = students.text(students.collect(rows, scheme), scheme)
        cells = [part for line in csv.reader(text.splitlines()) for cell in line for part in cell.split(";")]
        assert not [cell for cell in cells if cell.strip(' "')[:1] in {"=", "+", "-", "@"}], text


def test_the_reasons_name_no_path_and_nothing_of_this_machine():
    why = (
        f"Your code stopped with OSError: {Path.home()}/marks of 1/x.csv, {sys.prefix}/lib, /tmp/privlab_marks_8/a.py, C:\\Users\\t\\x, "
        f"~/hand-ins on {platform.node()} of {getpass.getuser()}; 3/4 of it, and/or 1/2\x1b[2J"
    )
    student = students.collect([row("ada/deep/mine.ipynb", {"state": "wrong", "why": why}, RIGHT)], marking.Scheme())[0]
    told = students.reasons(student, {"00": 1, "07": 1}, marking.Scheme())
    for secret in (
        str(Path.home()),
        sys.prefix,
        "privlab_marks",
        "Users",
        "hand-ins",
        "\x1b",
        "deep/",
        platform.node(),
    ):
        assert secret not in told.replace("/...", ""), secret
    assert (
        "3/4 of it, and/or 1/2" in told
        and f"  {OWN[1]}: right\n" in told
        and f"  {OWN[2]}: nothing is written yet" in told
    )
    assert "Nothing was returned of: lab 07" in told and f"Lab 00: 1 of {len(OWN)} points" in told


@pytest.mark.parametrize("why", ["took longer than 20 seconds and was stopped", "its process ended itself"])
def test_why_there_is_no_mark_is_told_in_words_that_fit(why):
    (student,) = students.collect([row("ada.ipynb", {"state": "failed", "why": why})], DEFAULT)
    first = exercises.parts("00")[0][0]
    assert f"  {first}: no mark: {why}\n" in students.reasons(student, {"00": 1.0}, DEFAULT)


def test_each_student_has_a_file_of_their_own_whatever_their_name_is(tmp_path):
    names = ["ada", "Ada B", "../../etc/passwd", "ada b", "é", "CON", "."]
    rows = [row("x.ipynb", student=name) for name in names]
    count = students.write(rows, marking.Scheme(by_cell=True), tmp_path / "g.csv", tmp_path / "out")
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    # "Ada B" and "ada b" are one student, and "." is a name as good as any
    assert len(files) == count == 6 and "ada.txt" in files
    assert all(name.endswith(".txt") and name.isascii() for name in files) and len({f.casefold() for f in files}) == 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.csv", "out"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("total = ", "is no TOML"),
        ("totl = 3", "totl is no entry; did you mean 'total'?"),
        ('[student]\nfrom = "name"', 'try [student] with from = "file" or from = "cell"'),
        ("student = 3", "try [student]"),
        ("[student]\npattern = '('", "is no regular expression"),
        ("[student]\npattern = 'x'", "has no group (...)"),
        ('[weights]\n"4" = 1', "weights names '4', which is not there"),
        ('[weights]\n"04" = -1', "weights of 04 is -1; give a number, 0 or more"),
        ('[weights]\n"04" = 0', "leaves nothing to earn"),
        ('[points]\n"04.pusch" = 1', "points names '04.pusch', which is not there; did you mean '04.push'?"),
        ("total = nan", "total of total is nan"),
        ("total = true", "total of total is True"),
        ("weights = 1", "weights=1 is no table; try [weights]"),
        ('column = ""', "column='' is no title"),
    ],
)
def test_what_is_wrong_in_the_scheme_is_named(tmp_path, capsys, text, message):
    (tmp_path / "marks.toml").write_text(text)
    assert cli.main(["mark", str(tmp_path), "--scheme", str(tmp_path / "marks.toml")]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


# -- a class in progress ------------------------------------------------------------------------------------------------------


def rounds(folder, steps):
    """What `watch` asks to be marked, for each of these changes of a folder between two looks: the files that it marks anew."""
    asked, steps = [], iter(steps)

    class Over(Exception):
        pass

    def rest(seconds):
        step = next(steps, None)
        if step is None:
            raise Over
        step()

    def mark(rows):
        files = sorted(path.name for path in folder.glob("*.ipynb"))
        asked.append([file for file in files if file not in {row.file for row in rows}])
        return [*rows, *map(marking.Row, asked[-1])]

    with pytest.raises(Over):
        for _ in watching.watch(folder, mark, rest):
            pass
    return asked


def test_only_what_is_new_or_changed_is_marked_once_it_is_whole(tmp_path):
    def write(name, text):
        return lambda: (tmp_path / f"{name}.ipynb").write_text(text)

    wait = tmp_path.exists
    assert rounds(tmp_path, [wait, wait, write("a", "1"), wait, wait]) == [["a.ipynb"]]
    assert rounds(tmp_path, [wait, write("b", "1"), write("b", "22"), wait, wait]) == [["a.ipynb"], ["b.ipynb"]]
    changed = rounds(tmp_path, [wait, write("a", "333"), wait, (tmp_path / "b.ipynb").unlink, wait])
    assert changed == [["a.ipynb", "b.ipynb"], ["a.ipynb"], []]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="answers are marked in forked processes")
def test_the_command_follows_a_class_until_it_is_interrupted(tmp_path):
    answer = "def my_psnr(a, b):\n    return -10 * (a - b).square().mean().log10()\n"
    asked = [
        {"cell_type": "code", "source": answer},
        {"cell_type": "code", "source": 'checks.verify("00.psnr", my_psnr)'},
    ]
    folder, book = tmp_path / "returned", tmp_path / "book.csv"
    folder.mkdir()
    (folder / "report.pdf").write_bytes(b"%PDF")
    outs = ["--out", str(tmp_path / "marks.csv"), "--students", str(book), "--feedback", str(tmp_path / "told")]
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # also where these tests run in the background
    begin = hears + "from privlab.__main__ import main; raise SystemExit(main())"
    command = [sys.executable, "-c", begin, "mark", str(folder), "--watch", *outs]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for name, cells in (("ada", asked), ("ben", asked[1:])):
                (folder / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
                until = time.monotonic() + 600
                while not (tmp_path / "told" / f"{name}.txt").exists():  # the last that is written
                    assert time.monotonic() < until and process.poll() is None
                    time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 130 and "Traceback" not in err and "marks.csv has the 2 notebooks" in err
    assert out.count("ada.ipynb  lab 00, 1 of") == 1 and out.count("ben.ipynb  lab 00, 0 of") == 1
    assert out.count("not marked, because their names are not those of notebooks: report.pdf\n") == 1
    rows = {one["student"]: one for one in csv.DictReader(book.read_text().splitlines())}
    assert float(rows["ada"]["total"]) > float(rows["ben"]["total"]) == 0
    assert sorted(path.name for path in (tmp_path / "told").iterdir()) == ["ada.txt", "ben.txt"]


def test_a_scheme_that_notepad_saved_is_read(tmp_path):
    (tmp_path / "marks.toml").write_text("total = 20\n", encoding="utf-8-sig")
    assert marking.scheme(tmp_path / "marks.toml").total == 20
