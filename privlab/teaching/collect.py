"""Returned notebooks, whole and under any name, as nbgrader's submissions: the released sheet with what the student wrote in its cells.

A notebook is known by the exercises that it checks, `verify("04.cosine", ...)`, since an LMS renames files and Colab drops metadata. Of its
code, the sheet gets the cells that give the answer its value and, in turn, what they need. Nothing of it is run here.
"""

from __future__ import annotations

import ast
import dis
import re
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from privlab.compute import reading
from privlab.compute.atomic import write_atomic
from privlab.runner import pairing
from privlab.runner.catalogue import Lab
from privlab.teaching.assignment import ANSWER, HEADING, SENTENCE, checked

LARGEST = 20  # MB that a file may have
GUESSES = re.compile(r"guesses.*\.json\Z", re.IGNORECASE)  # files of `class_guesses`, which may lie with the notebooks
_CANVAS = re.compile(r"(.+?)_(?:LATE_)?(\d+)_\d+_")  # name, user, hand-in
_MOODLE = re.compile(r"(.+?)_\d+_assignsubmission_")


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
    taken = defaultdict(list)  # outermost folder or file, assignment -> its notebooks
    for path in reading.visible(returned, "**/*"):
        name = path.relative_to(returned)
        if path.is_dir() or GUESSES.search(name.name):
            continue
        try:
            notebook = _read(path)
            assignment = max(asked, key=lambda one: len(asked[one] & _names(notebook)))
            if asked[assignment].isdisjoint(_names(notebook)):
                raise ValueError("it checks no exercise of a released assignment")
            if not student_of(name.parts[0], assignment[:2]):
                raise ValueError("it names no student; put it into a folder named after them")
            taken[name.parts[0], assignment].append((path.stat().st_mtime, name.as_posix(), notebook))
        except (OSError, ValueError) as error:
            yield f"{name.as_posix()}: not taken, {error}"
    named = Counter((student_of(head, assignment[:2]), assignment) for head, assignment in taken)
    own = {lab.path.stem: {cell.source for cell in pairing.notebook(lab.path).cells} for lab in shelf}
    for (head, assignment), found in taken.items():
        _, place, notebook = max(found, key=lambda one: one[0])
        student, note = student_of(head, assignment[:2]), f"; the newest of {len(found)}" if len(found) > 1 else ""
        if named[student, assignment] > 1:
            student, note = _as_id(head), f"{note}; {student} is named by more than one"
        text = pairing.as_bytes(filled(sheets[assignment], notebook, own.get(assignment, set())))
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
    if match := _CANVAS.match(head) or _MOODLE.match(head):
        return _as_id("_".join(match.groups()))
    return _as_id(re.sub(rf"(^|[ _-]+){lab}([ _.-].*)?$", "", head))


def _as_id(name: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", re.sub(r"\.ipynb.*$", "", name, flags=re.IGNORECASE)).strip("-.")[:100]


# -- what goes into the sheet ------------------------------------------------------------------------------------------


def filled(sheet: NotebookNode, returned: NotebookNode, lab: set[str]) -> NotebookNode:
    """A released sheet with a student's answers.  lab: the texts of the lab's own cells, which are no student's sentences."""
    made = nbformat.from_dict(sheet)
    said = _sentences(returned.cells, lab | {cell.source for cell in made.cells})
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id", ""): cell for cell in made.cells}
    known = names_of(cells["imports"].source)[0]
    for grade_id, cell in cells.items():
        if grade_id.endswith(ANSWER):
            answer = _answer(returned.cells, cells[grade_id.removesuffix(ANSWER)], cell.source, known)
            cell.source = "\n\n".join(dict.fromkeys([cell.source, *answer]))
        elif grade_id.endswith(SENTENCE):
            (name,) = checked(cells[grade_id.removesuffix(SENTENCE)])
            cell.source = "\n\n".join(said[name])[:10_000] or cell.source
    return made


def _answer(returned: list[NotebookNode], check: NotebookNode, stub: str, known: set[str]) -> list[str]:
    """The cells that an exercise needs, and where a student's check asks for another name than the sheet's, one line that gives it.

    returned: all cells of the notebook.  check: the sheet's.  stub: what the student was given to fill in.
    """
    ((name, asked),) = checked(check).items()
    cells = [cell for cell in returned if cell.cell_type == "code"]
    places = [k for k, cell in enumerate(cells) if name in checked(cell)]
    theirs = (checked(cells[places[-1]])[name] if places else "") or asked
    code = [_plain(cell.source) for cell in cells[: places[-1] if places else None]]
    last = [f"{asked} = {theirs}"] if theirs != asked else []
    chosen = needed([*code, *last], {asked}, known)
    if not {*chosen} - {stub, *last}:  # what is no Python is shown, too
        chosen += [source for source in code if re.search(rf"\b{asked}\b", source)][-1:]
    return chosen


def _plain(source: str) -> str:
    """Code without the magics of IPython."""
    return re.sub(r"^[%!].*", "pass", re.sub(r"^%%?time\b *", "", source, flags=re.MULTILINE), flags=re.MULTILINE)


def needed(cells: list[str], wanted: set[str], known: set[str]) -> list[str]:
    """Of code cells, in order, those that last give names their values, and what these cells need in turn.  known: names that need none."""
    chosen: list[str] = []
    wanted = wanted - known
    for source in reversed(cells):
        bound, read = names_of(source)
        if bound & wanted:
            chosen.insert(0, source)
            wanted = (wanted - bound) | (read - known)
    return chosen


def names_of(source: str) -> tuple[set[str], set[str]]:
    """(the global names that code gives values or changes, those that it reads before it gives them one); none where it is no Python."""
    try:
        with warnings.catch_warnings(action="ignore"):
            module = compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):  # what it says of anyone's text
        return set(), set()
    bound, read, parts = set[str](), set[str](), [module]
    for part in parts:  # it grows: functions, and those in them, which read when they are called
        parts += [const for const in part.co_consts if isinstance(const, types.CodeType)]
        for step in dis.get_instructions(part):
            if step.opname in ("STORE_NAME", "STORE_GLOBAL") and part is module:
                bound.add(step.argval)
            elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in bound:
                read.add(step.argval)
    changed = read.intersection(re.findall(r"^(\w+)[.\[]", source, re.MULTILINE))  # x[0] = 1, x.append(1)
    return bound | changed, read


def _sentences(cells: list[NotebookNode], given: set[str]) -> dict[str, list[str]]:
    """Exercise -> the Markdown that a student wrote between its heading and that of the next.  given: what is not theirs."""
    said: dict[str, list[str]] = defaultdict(list)
    part: list[str] = []
    for cell in cells:
        if cell.cell_type == "markdown" and HEADING.search(cell.source):
            part = []
        if cell.cell_type == "markdown" and cell.source not in given:
            part.append(cell.source)
        said |= dict.fromkeys(checked(cell), part)  # which grows on until the next heading
    return said
