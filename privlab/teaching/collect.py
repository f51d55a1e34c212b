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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import nbformat
from nbformat import NotebookNode

from privlab.compute import reading
from privlab.compute.atomic import make_folder, write_atomic
from privlab.runner import pairing
from privlab.runner.catalogue import Lab
from privlab.teaching.assignment import ANSWER, HEADING, SENTENCE, VERIFY

LARGEST = 20  # MB that a notebook may have
_CANVAS = re.compile(r"(.+?)_(?:LATE_)?(\d+)_\d+_")  # name, user, hand-in
_MOODLE = re.compile(r"(.+?)_\d+_assignsubmission_")


@dataclass(frozen=True)
class HandIn:
    """A returned notebook. head: the outermost folder, or the file, by which it names its student."""

    path: Path
    head: str
    student: str
    assignment: str
    notebook: NotebookNode


def collect(returned: Path, course: Path, shelf: list[Lab]) -> Iterator[str]:
    """Write a submission for each student and assignment; a line for each file.

    returned: a folder of notebooks, in folders of students or not.  course: with nbgrader's `release`.  shelf: the labs given out.
    Raises NotADirectoryError for a `returned` that is none; FileNotFoundError where no assignment is released.
    """
    if not returned.is_dir():
        raise NotADirectoryError(
            f"returned={str(returned)!r} is not a folder; give the one with the returned notebooks"
        )
    sheets = {path.stem: nbformat.read(path, as_version=4) for path in sorted(course.glob("release/*/*.ipynb"))}
    if not sheets:
        raise FileNotFoundError(f"into={str(course)!r} has no release; run nbgrader generate_assignment there")
    taken: dict[tuple[str, str], list[HandIn]] = defaultdict(list)
    for path in reading.visible(returned, "**/*"):
        name = path.relative_to(returned).as_posix()
        if path.is_dir() or re.search(r"guesses.*\.json\Z", path.name, re.IGNORECASE):
            continue
        try:
            hand_in = _read(path, returned, sheets)
            taken[hand_in.student, hand_in.assignment].append(hand_in)
        except (OSError, ValueError) as error:
            yield f"{name}: not taken, {error}"
    theirs = {
        lab.path.stem: {c.source for c in pairing.notebook(lab.path).cells} for lab in shelf if lab.path.stem in sheets
    }
    for hand_in, note in _one_each(taken):
        made = filled(sheets[hand_in.assignment], hand_in.notebook, theirs.get(hand_in.assignment, set()))
        where = course / "submitted" / hand_in.student / hand_in.assignment
        text = pairing.as_bytes(made)
        new = where / f"{hand_in.assignment}.ipynb"
        if not new.exists() or new.read_bytes() != text:
            make_folder(where)
            write_atomic(new, text)
            write_atomic(where / "timestamp.txt", datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC").encode())
        yield f"{hand_in.path.relative_to(returned).as_posix()} -> {hand_in.student}, {hand_in.assignment}{note}"


def _read(path: Path, returned: Path, sheets: dict[str, NotebookNode]) -> HandIn:
    """Raises ValueError, in a few words, for what is no notebook of a released assignment or names no student."""
    if ".ipynb" not in path.name.lower():
        raise ValueError("its name is not that of a notebook")
    if path.is_symlink() or not path.resolve().is_relative_to(returned.resolve()) or not path.is_file():
        raise ValueError("it is no plain file")
    if path.stat().st_size > LARGEST * 1e6:
        raise ValueError(f"it has more than {LARGEST} MB; clear its outputs")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(path.read_text(encoding="utf-8-sig"), as_version=4)
        for cell in notebook.cells:
            cell.source = str(cell.source).encode("utf-8", "replace").decode()
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    except Exception as error:  # whatever bytes that anyone may have written lead to
        raise ValueError(f"it cannot be read as a notebook ({' '.join(str(error).split())[:100]})") from None
    asked = {name for source in code for name in VERIFY.findall(source)}
    common = Counter({name: len(asked.intersection(_names(sheet))) for name, sheet in sheets.items()})
    assignment, count = common.most_common(1)[0]
    if not count:
        raise ValueError("it checks no exercise of a released assignment")
    head = PurePosixPath(path.relative_to(returned).as_posix()).parts[0]
    if not (student := student_of(head, assignment[:2])):
        raise ValueError("it names no student; put it into a folder named after them")
    return HandIn(path, head, student, assignment, notebook)


def student_of(head: str, lab: str) -> str:
    """The student that a folder or file names, as nbgrader writes it; "" for none.  lab: two digits, which name no student.

    Canvas writes name_user_handin_file, Moodle name_participant_assignsubmission_file; else it is what stands before the lab's number.
    """
    stem = re.sub(r"\.ipynb.*$", "", head, flags=re.IGNORECASE)
    if match := _CANVAS.match(stem):
        name = f"{match[1]}_{match[2]}"
    elif match := _MOODLE.match(stem):
        name = match[1]
    else:
        name = re.sub(rf"(^|[ _-]+){lab}([ _-].*)?$", "", stem)
    return _as_id(name)


def _as_id(name: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", name).strip("-.")[:100]


def _one_each(taken: dict[tuple[str, str], list[HandIn]]) -> Iterator[tuple[HandIn, str]]:
    """One hand-in for each student and assignment, with a note where there was a choice: the newest of a folder.

    Where several folders or files name one student, they are two of a name, and each is told by its whole name.
    """
    for (student, assignment), all_ in taken.items():
        for head in dict.fromkeys(one.head for one in all_):
            *older, newest = sorted((one for one in all_ if one.head == head), key=lambda one: one.path.stat().st_mtime)
            note = f"; the newest of {len(older) + 1}" if older else ""
            if len({one.head for one in all_}) > 1:
                whole = _as_id(re.sub(r"\.ipynb.*$", "", head, flags=re.IGNORECASE))
                newest = HandIn(newest.path, head, whole, assignment, newest.notebook)
                note += f"; {student} is named by more than one"
            yield newest, note


# -- what goes into the sheet ---------------------------------------------------------------------------------------------------


def filled(sheet: NotebookNode, returned: NotebookNode, given: set[str]) -> NotebookNode:
    """A released sheet with a student's answers.  given: the texts of the lab's own cells, which are no student's sentences."""
    made = nbformat.from_dict(sheet)
    code = [_plain(cell.source) for cell in returned.cells if cell.cell_type == "code"]
    grade_ids = {cell.metadata.get("nbgrader", {}).get("grade_id", ""): cell for cell in made.cells}
    given = given | {cell.source for cell in made.cells}
    known = names_of(grade_ids["imports"].source)[0]
    for grade_id, cell in grade_ids.items():
        if grade_id.endswith(ANSWER):
            check = grade_ids[grade_id.removesuffix(ANSWER)]
            cell.source = "\n\n".join(dict.fromkeys([cell.source, *_answer(code, check.source, cell.source, known)]))
        elif grade_id.endswith(SENTENCE):
            name = VERIFY.findall(grade_ids[grade_id.removesuffix(SENTENCE)].source)[0]
            cell.source = "\n\n".join(_sentences(returned.cells, name, given))[:10_000] or cell.source
    return made


def _names(sheet: NotebookNode) -> set[str]:
    return {name for cell in sheet.cells if cell.cell_type == "code" for name in VERIFY.findall(cell.source)}


def _plain(source: str) -> str:
    """Code without a magic of the whole cell, and with others as Python."""
    from IPython.core.inputtransformer2 import TransformerManager

    source = re.sub(r"\A\s*%%(time|timeit|capture)\b.*\n", "", source)
    try:
        return TransformerManager().transform_cell(source).rstrip("\n")
    except Exception:  # it is no code that could run, either
        return source


def _answer(code: list[str], check: str, stub: str, known: set[str]) -> list[str]:
    """The cells that an exercise needs, and where a student's check asks for another name than the sheet's, one line that gives it.

    code: all cells of the notebook, in order.  check: the sheet's.  stub: what the student was given to fill in.
    """
    name = VERIFY.findall(check)[0]
    places = [k for k, source in enumerate(code) if name in VERIFY.findall(source)]
    cells = code[: places[-1] + 1] if places else code
    asked = argument(check, name)
    theirs = (argument(cells[-1], name) if places else "") or asked
    wanted = names_of(theirs)[1]
    chosen = needed(cells, wanted, known)
    if not any(wanted & names_of(source)[0] for source in chosen if source != stub):
        chosen += [s for s in cells if _compiled(s) is None and wanted.intersection(re.findall(r"\w+", s))][-1:]
    return [*chosen, *([f"{asked} = {theirs}"] if theirs != asked else [])]


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
    tree, module = _compiled(source) or (ast.Module([], []), compile("", "cell", "exec"))
    bound, read, inside = set(), set(), [c for c in module.co_consts if isinstance(c, types.CodeType)]
    for step in dis.get_instructions(module):
        if step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            bound.add(step.argval)
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in bound:
            read.add(step.argval)
    later: set[str] = set()
    for part in inside:  # it grows: functions, and those in them
        inside += [c for c in part.co_consts if isinstance(c, types.CodeType)]
        later |= {s.argval for s in dis.get_instructions(part) if s.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    changed = {_base(node) for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store)}
    return bound | ((changed & read) - {""}), read | (later - bound)


def _compiled(source: str) -> tuple[ast.Module, types.CodeType] | None:
    """Code that is not run, as a tree and compiled; None where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            return ast.parse(source), module
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _base(node: ast.AST) -> str:
    """The name that x[i] or x.y begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def argument(source: str, name: str) -> str:
    """What a cell gives to the check of an exercise, as code; "" where it gives nothing that can be read."""
    tree, _ = _compiled(source) or (ast.Module([], []), None)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1]
    given = [c.args[1] for c in calls if isinstance(c.args[0], ast.Constant) and c.args[0].value == name]
    try:
        return ast.unparse(given[-1]) if given else ""
    except RecursionError:  # of a thousand dots
        return ""


def _sentences(cells: list[NotebookNode], name: str, given: set[str]) -> Iterator[str]:
    """The Markdown that a student wrote between the heading of an exercise and that of the next."""
    part: list[NotebookNode] = []
    for cell in [*cells, nbformat.v4.new_markdown_cell("# Exercise 0")]:
        if cell.cell_type == "markdown" and HEADING.search(cell.source):
            if any(name in VERIFY.findall(one.source) for one in part if one.cell_type == "code"):
                yield from (one.source for one in part if one.cell_type == "markdown" and one.source not in given)
            part = []
        part.append(cell)
