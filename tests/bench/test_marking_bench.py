"""A class of thirty, graded: one lab, its answers right, wrong, open, or an endless loop."""

import shutil
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import nbformat

from privlab.runner import catalogue, pairing
from privlab.teaching import collect, grade

ROOT = Path(__file__).parents[2]
LAB, STUDENTS, MINUTES = "00_start_here", 30, 8
LOOP = "def my_psnr(images, truth):\n    while True: pass"
HABITS = ["", "", "", "enough = {'pos_embed'}", "enough = None", "def my_psnr(images, truth): return 0 * images"]


def returned(number):
    """The solved lab, with an answer of the student's own before its check; the last student's never ends."""
    notebook = pairing.notebook(ROOT / f"labs/{LAB}.py")
    own = LOOP if number == STUDENTS - 1 else HABITS[number % len(HABITS)]
    name = "00.psnr" if "psnr" in own else "00.enough"
    place = next(k for k, cell in enumerate(notebook.cells) if f'checks.verify("{name}"' in cell.source)
    notebook.cells.insert(place, nbformat.v4.new_code_cell(own))
    return nbformat.writes(notebook)


def graded(folder):
    course, back = folder / "course", folder / "returned"
    for number in range(STUDENTS):
        (back / f"s{number:02}").mkdir(parents=True)
        (back / f"s{number:02}/mine.ipynb").write_text(returned(number))
    command = [sys.executable, "-m", "privlab", "assignment", "00", "--to", str(course)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert grade.nbgrader(course, "generate_assignment", LAB) == ""
    began = time.perf_counter()
    list(collect.collect(back, course, catalogue.pick(catalogue.everything(ROOT / "labs"))))
    lines = list(grade.grade(course))
    seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    return dict(seconds=seconds, marks=dict(Counter(line.split(": ")[1] for line in lines if ": " in line)))


def test_a_class_of_thirty(table, tmp_path):
    run = table.kept(partial(graded, tmp_path / "class"), lab=LAB, students=STUDENTS)
    assert run["marks"] == {"4 of 4": 15, "3 of 4": 15}
    limit = 60 * MINUTES
    holds = True if run["seconds"] <= limit else False if table.quiet([run]) else None
    what = f"{STUDENTS} notebooks of lab 00, collected and graded one after another"
    note = "half of them right; one has an endless loop"
    table.row(what, [run["seconds"]], "s", f"≤ {limit} s", holds, note, [run])
