"""Returned notebooks, whole and under any name, as nbgrader's submissions: the released sheet with what the student wrote in its cells.

A notebook is known by the exercises that it checks, `verify("04.cosine", ...)`, since an LMS renames files and Colab drops metadata.
Nothing of it is run here.
"""

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from privlab.compute.files import visible, write_atomic
from privlab.runner import pairing
from privlab.runner.catalogue import Lab
from privlab.teaching.assignment import HEADING, checked, edition

LARGEST = 20  # MB that a file may have
GUESSES = re.compile(r"guesses.*\.json\Z", re.IGNORECASE)  # files of `class_guesses`, which may lie with the notebooks
_LMS = re.compile(r"(.+?)_(?:(?:LATE_)?(\d+)_\d+_|\d+_assignsubmission_)")  # name, and of Canvas the user


def collect(returned: Path, course: Path, shelf: list[Lab]) -> Iterator[str]:
    """Write a submission for each student and assignment; a line for each file.

    returned: a folder of notebooks, in folders of students or not.  course: with nbgrader's `release`.  shelf: the labs given out.
    Of a student's notebooks in one folder the newest counts. Where two folders or files name one student, each gets its whole name.
    Raises NotADirectoryError for a `returned` that is none; FileNotFoundError where no assignment is released.
    """
    if not returned.is_dir():
        raise NotADirectoryError(f"returned={str(returned)!r} is not a folder; give that of the returned notebooks")
    sheets = {path.stem: nbformat.read(path, as_version=4) for path in sorted(course.glob("release/*/*.ipynb"))}
    if not sheets:
        raise FileNotFoundError(f"into={str(course)!r} has no release; run nbgrader generate_assignment there")
    asked = {assignment: _names(sheet) for assignment, sheet in sheets.items()}
    taken = defaultdict(list)  # student, outermost folder or file, assignment -> its notebooks
    for path in visible(returned, "**/*"):
        name = path.relative_to(returned)
        if path.is_dir() or GUESSES.search(name.name):
            continue
        try:
            notebook = _read(path)
            answered = _names(notebook)
            assignment = max(asked, key=lambda one: len(asked[one] & answered))
            if not asked[assignment] & answered:
                raise ValueError("it checks no exercise of a released assignment")
            if not (student := student_of(name.parts[0], assignment[:2])):
                raise ValueError("it names no student; put it into a folder named after them")
            taken[student, name.parts[0], assignment].append((path.stat().st_mtime, name.as_posix(), notebook))
        except (OSError, ValueError) as error:
            yield f"{name.as_posix()}: not taken, {error}"
    named = Counter((student, assignment) for student, _, assignment in taken)
    editions = {lab.path.stem: edition(lab.path).cells for lab in shelf if lab.path.stem in sheets}
    for (student, head, assignment), found in taken.items():
        _, place, notebook = max(found, key=lambda one: one[0])
        note = f"; the newest of {len(found)}" if len(found) > 1 else ""
        if named[student, assignment] > 1:
            student, note = _as_id(head), f"{note}; {student} is named by more than one"
        text = pairing.as_bytes(filled(sheets[assignment], notebook, editions.get(assignment, [])))
        folder = course / "submitted" / student / assignment
        if not (new := folder / f"{assignment}.ipynb").exists() or new.read_bytes() != text:
            write_atomic(new, text)
            write_atomic(folder / "timestamp.txt", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} UTC".encode())
        yield f"{place} -> {student}, {assignment}{note}"


def content(path: Path) -> bytes:
    """What a file that was handed in holds.  Raises ValueError, in a few words, for a link, a pipe, or what is too large."""
    if path.is_symlink() or not path.is_file():
        raise ValueError("it is no plain file")
    if path.stat().st_size > LARGEST * 1e6:
        raise ValueError(f"it has more than {LARGEST} MB; clear a notebook's outputs")
    return path.read_bytes()


def _read(path: Path) -> NotebookNode:
    """A returned notebook.  Raises ValueError, in a few words, for anything else."""
    if ".ipynb" not in path.name.lower():
        raise ValueError("its name is not that of a notebook")
    text = content(path)
    try:
        with warnings.catch_warnings(action="ignore"):
            notebook = nbformat.reads(text.decode("utf-8-sig"), as_version=4)
        "".join(cell.source for cell in notebook.cells).encode()  # what is no text, or could not be written again
        _names(notebook)
    except Exception as error:  # whatever bytes that anyone may have written lead to
        raise ValueError(f"it cannot be read as a notebook ({' '.join(str(error).split())[:100]})") from None
    return notebook


def _names(notebook: NotebookNode) -> set[str]:
    """The exercises that a notebook checks."""
    return {name for cell in notebook.cells for name in checked(cell)}


def student_of(head: str, lab: str) -> str:
    """The student that a folder or file names, as nbgrader writes it; "" for none.  lab: two digits, which name no student.

    Canvas writes name_user_handin_file, Moodle name_participant_assignsubmission_file; else it is what stands before the lab's number.
    """
    if match := _LMS.match(head):
        return _as_id("_".join(filter(None, match.groups())))
    return _as_id(re.sub(rf"(^|[ _-]+){lab}([ _.-].*)?$", "", head))


def _as_id(name: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", re.sub(r"\.ipynb.*$", "", name, flags=re.IGNORECASE)).strip("-.")[:100]


def filled(sheet: NotebookNode, returned: NotebookNode, lab: list[NotebookNode]) -> NotebookNode:
    """A released sheet with a student's answers.  lab: the cells that were given out; what reads like one is no student's.

    An exercise gets the code from its heading, or the check before it, to its check, each time that it is checked; where that asks for
    another name than the sheet's, a last line gives the sheet's name its value. Its sentences reach to the next exercise's heading.
    """
    made = nbformat.from_dict(sheet)
    given = {cell.source for cell in (*lab, *made.cells)}
    asked = {name: value for cell in made.cells for name, value in checked(cell).items()}
    code, sentences = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    above, words = list[str](), list[str]()
    for cell in returned.cells:
        if cell.cell_type == "markdown" and HEADING.search(cell.source):
            above, words = [], []
        for name, value in checked(cell).items():
            other = bool(value) and value != asked.get(name, value)
            code[name] += above + [f"{asked.get(name)} = {value}"] * other
            sentences[name] = words  # which grows on until the next heading
        if checked(cell):
            above = []
        elif cell.cell_type == "code" and cell.source not in given:
            # lines of IPython, which a cell of another program cannot hold
            timed = re.sub(r"^%%?time\b *", "", cell.source, flags=re.MULTILINE)
            above.append(re.sub(r"^[%!].*", "pass", timed, flags=re.MULTILINE))
        elif cell.source not in given:
            words.append(cell.source)
    for cell in made.cells:  # whose ids are 04-cosine-answer, 04-cosine-sentence
        name, _, part = cell.metadata.get("nbgrader", {}).get("grade_id", "").replace("-", ".", 1).partition("-")
        if part == "answer":
            cell.source = "\n\n".join([cell.source, *code[name]])
        elif part == "sentence":
            cell.source = "\n\n".join(sentences[name])[:10_000] or cell.source
    return made
