"""The gradebook of a class: a row a student, a column a lab, totals, and for each student a file with the reasons.

A small TOML file, marks.toml, says what counts; every part of it may be left out:

    total = 100                       # what all labs are worth together
    column = "ID number"              # how the LMS calls the column of identifiers

    [student]
    from = "file"                     # or "cell": the line "Student: 12345" in the first cell of the notebook
    pattern = '^[^/]*?_(\\d+)_'        # the identifier in the path of the file; what group 1 matches

    [weights]                         # of labs; if there are some, a lab that is not named does not count
    "04" = 2

    [points]                          # of exercises; 1 for those of a lab, 0 for those of deeper notebooks
    "02.four_bugs" = 3

A student's share of a lab is the points earned over the points of the lab's own exercises, at most 1: points of a deeper notebook make up
for others. If a student returned an exercise more than once, the best answer counts. A path comes from the LMS and a first cell from the
student, who can write any name there: so the file is asked unless the teacher decides otherwise, and the note tells where the two differ.
"""

from __future__ import annotations

import csv
import getpass
import hashlib
import io
import math
import platform
import re
import sys
import tempfile
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from privlab.compute.atomic import make_folder, write_atomic
from privlab.data.sources import nearest
from privlab.notebook import exercises
from privlab.teaching.marking.gradebook import Row, plain_cell, shown

_ORDER = ("right", "wrong", "failed", "open")  # the best first
_ENDING = re.compile(r"\.ipynb.*$", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.)/\\])(?:~|[A-Za-z]:)?(?:[/\\]+[\w.+@~-]+)+[/\\]?")


@dataclass(frozen=True)
class Scheme:
    """What marks.toml says, see the top of this file. weights, points: None and {} for its defaults."""

    total: float = 100.0
    column: str = "student"
    by_cell: bool = False
    pattern: re.Pattern[str] | None = None
    weights: Mapping[str, float] | None = None
    points: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Student:
    """What one student returned. verdicts: exercise -> its best {"state", "why"}; labs: those of which there is a notebook."""

    name: str
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    labs: set[str] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def scheme(path: Path) -> Scheme:
    """What a marks.toml says.  Raises OSError, and ValueError that names the entry for what is wrong in it."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Notepad puts a mark of byte order first
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML ({error})") from error
    asked = content.get("student", {})
    for known, table, name in (
        (("total", "column", "student", "weights", "points"), content, ""),
        (("from", "pattern"), asked if isinstance(asked, dict) else {}, "student."),
    ):
        if odd := [key for key in table if key not in known]:
            raise ValueError(f"{path}: {name}{odd[0]} is no entry{nearest(odd[0], list(known))}")
    if not isinstance(asked, dict) or asked.get("from", "file") not in ("file", "cell"):
        raise ValueError(f'{path}: student={asked!r}; try [student] with from = "file" or from = "cell"')
    column = content.get("column", "student")
    if not isinstance(column, str) or not column.strip():
        raise ValueError(f'{path}: column={column!r} is no title; try "ID number"')
    weights = _numbers(path, content, "weights", exercises.labs())
    names = [name for lab in exercises.labs() for name in exercises.of(lab)] if "points" in content else []
    total = _numbers(path, {"total": {"total": content.get("total", 100)}}, "total", ["total"])["total"]
    if not total or (weights and not sum(weights.values())):
        raise ValueError(f"{path}: total={total:g} with weights={weights} leaves nothing to earn; give more than 0")
    return Scheme(
        total,
        column,
        asked.get("from") == "cell",
        _pattern(path, asked.get("pattern")),
        weights or None,
        _numbers(path, content, "points", names),
    )


def _numbers(path: Path, content: Mapping[str, Any], entry: str, known: list[str]) -> dict[str, float]:
    table = content.get(entry, {})
    if not isinstance(table, dict):
        raise ValueError(f"{path}: {entry}={table!r} is no table; try [{entry}]")
    for name, value in table.items():
        if name not in known:
            raise ValueError(f"{path}: {entry} names {name!r}, which is not there{nearest(name, known)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{path}: {entry} of {name} is {value!r}; give a number, 0 or more")
    return {name: float(value) for name, value in table.items()}


def _pattern(path: Path, text: object) -> re.Pattern[str] | None:
    try:
        found = None if text is None else re.compile(text if isinstance(text, str) else "")
    except re.error as error:
        raise ValueError(f"{path}: student.pattern={text!r} is no regular expression ({error})") from error
    if found and not found.groups:
        raise ValueError(f"{path}: student.pattern={text!r} has no group (...) around the identifier")
    return found


# -- who and what ---------------------------------------------------------------------------------------------------------------


def by_file(file: str, pattern: re.Pattern[str] | None = None) -> str:
    """The student that a path within the folder of hand-ins names, as an LMS does; "" where it names none.

    Without a pattern: what stands before the first _ of the outermost folder, or of the file where it lies in none (ada/mine.ipynb,
    "Ada Lovelace_123_file/04_x.ipynb", anna.ipynb); the number of a lab is no student.
    """
    if pattern:
        match = pattern.search(file)
        return _tidy(match[1] or "") if match else ""
    head = _ENDING.sub("", PurePosixPath(file).parts[0]).split("_")[0]
    return "" if re.fullmatch(r"\d\d", head) else _tidy(head)


def _tidy(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", shown(name)).split())[:100]


def collect(rows: list[Row], scheme: Scheme) -> list[Student]:
    """The students of marked notebooks, by name; a notebook that names no student is one by itself, with a note."""
    class_: dict[str, Student] = {}
    folders: dict[str, set[str]] = {}
    for row in rows:
        file, cell = by_file(row.file, scheme.pattern), _tidy(row.student)
        name = cell if scheme.by_cell else file
        student = class_.setdefault(name.casefold() or f"/{row.file}", Student(name))
        top, *inside = PurePosixPath(row.file).parts
        title = inside[-1] if inside else top
        if inside and file and not scheme.by_cell and not scheme.pattern:
            folders.setdefault(name.casefold(), set()).add(top)
        if not name:
            student.notes.append(f"{title} names no student")
        elif file and cell and file.casefold() != cell.casefold():
            student.notes.append(f"{title}: its file names {file}, its first cell {cell}")
        if row.error:
            student.notes.append(f"{title}: {row.error}")
        if not row.lab:
            student.unread.append(f"{title}: {row.error}")
            continue
        student.labs.add(row.lab)
        for exercise, verdict in row.verdicts.items():
            before = student.verdicts.get(exercise)
            if before is None or _ORDER.index(verdict["state"]) < _ORDER.index(before["state"]):
                student.verdicts[exercise] = verdict
    for name, tops in folders.items():
        if len(tops) > 1:  # ada_lovelace and ada_byron, as easily as two hand-ins of one Ada
            class_[name].notes.insert(0, f"taken for one student: the folders {', '.join(sorted(tops))}")
    return [class_[name] for name in sorted(class_)]


def counting(students: list[Student], scheme: Scheme) -> dict[str, float]:
    """Lab -> weight: those of the scheme, or 1 for each lab of which somebody returned a notebook."""
    if scheme.weights:
        return {lab: weight for lab, weight in sorted(scheme.weights.items()) if weight}
    return dict.fromkeys(sorted({lab for student in students for lab in student.labs}), 1.0)


def share(student: Student, lab: str, scheme: Scheme) -> tuple[float, float]:
    """(points that a student earned in a lab, points of the lab's own exercises); earned is never more than those."""
    own = exercises.parts(lab)[0]
    points = {name: scheme.points.get(name, float(name in own)) for name in exercises.of(lab)}
    possible = sum(points[name] for name in own)
    earned = sum(
        points[name] for name, verdict in student.verdicts.items() if verdict["state"] == "right" and name in points
    )
    return min(earned, possible), possible


def total(student: Student, weights: Mapping[str, float], scheme: Scheme) -> float:
    """What a student earned in all, out of scheme.total; a lab that was not returned gives nothing."""
    parts = {lab: share(student, lab, scheme) for lab in weights}
    whole = sum(weights[lab] for lab, (_, possible) in parts.items() if possible)
    earned = sum(weights[lab] * points / possible for lab, (points, possible) in parts.items() if possible)
    return scheme.total * earned / whole if whole else 0.0


# -- what is written ------------------------------------------------------------------------------------------------------------


def text(students: list[Student], scheme: Scheme) -> str:
    """The gradebook as CSV: identifier, each lab in percent (empty where none was returned), total, out of, note."""
    weights = counting(students, scheme)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    header = [scheme.column, *(f"lab {lab}" for lab in weights), "total", "of", "note"]
    writer.writerow([plain_cell(cell) for cell in header])
    for student in students:
        marks = []
        for lab in weights:
            earned, possible = share(student, lab, scheme)
            marks.append(f"{100 * earned / possible:.0f}" if lab in student.labs and possible else "")
        in_all = f"{total(student, weights, scheme):.1f}"
        row = [student.name or "?", *marks, in_all, f"{scheme.total:g}", "; ".join(student.notes)]
        writer.writerow([plain_cell(cell) for cell in row])
    return lines.getvalue()


def reasons(student: Student, weights: Mapping[str, float], scheme: Scheme) -> str:
    """What a student may read about their marks, as plain text: each exercise with its verdict, no path and no name of this machine."""
    lines = [f"Marks of {student.name or 'a notebook that names no student'}", ""]
    for lab in sorted(student.labs):
        earned, possible = share(student, lab, scheme)
        lines.append(f"Lab {lab}: {earned:g} of {possible:g} points")
        for name in [name for name in exercises.of(lab) if name in student.verdicts]:
            state, why = student.verdicts[name]["state"], student.verdicts[name]["why"]
            told = {"open": "nothing is written yet", "failed": f"no mark: {why}"}.get(state, state)
            lines.append(f"  {name}: {told}" + (f". {why}" if state == "wrong" and why else ""))
        lines.append("")
    lines += [f"Not marked: {line}" for line in student.unread]
    if missing := [lab for lab in weights if lab not in student.labs]:
        lines.append(f"Nothing was returned of: {', '.join(f'lab {lab}' for lab in missing)}")
    lines.append(f"Total: {total(student, weights, scheme):.1f} of {scheme.total:g}")
    return "".join(f"{impersonal(line)}\n" for line in lines)


def impersonal(line: str) -> str:
    """A line without absolute paths, and without the names of this machine and of its user, which an answer's error may quote.

    What an answer *computes* from such a name, it may still print: the sandbox decides what an answer can read.
    """
    places = {str(Path.home()), tempfile.gettempdir(), sys.prefix, str(Path(__file__).parents[3])} - {"/"}
    for place in sorted(places, key=len, reverse=True):
        line = line.replace(place, "/...")
    line = shown(_PATH.sub("...", line))
    for name in _here():
        line = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "...", line)
    return line


def _here() -> list[str]:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        user = ""
    names = {platform.node(), platform.node().split(".")[0], user} - {"root", "user", "localhost"}
    return sorted((name for name in names if len(name) > 1), key=len, reverse=True)


def file_name(student: Student) -> str:
    """A name for a student's file, whatever the identifier is: its letters, digits and -; a digest where others could have the same."""
    safe = re.sub(r"[^\w-]+", "_", student.name, flags=re.ASCII).strip("_")[:60]
    if safe == student.name and safe == safe.casefold():
        return f"{safe}.txt"
    key = student.name or "/".join(student.notes)
    return f"{safe or 'unnamed'}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.txt"


def write(rows: list[Row], scheme: Scheme, table: Path | None = None, feedback: Path | None = None) -> int:
    """Write the gradebook and a file a student into the folder `feedback`, each where asked for; how many students there are."""
    students = collect(rows, scheme)
    if table:
        write_atomic(table, text(students, scheme).encode("utf-8"))
    if feedback:
        make_folder(feedback)
        weights = counting(students, scheme)
        for student in students:
            write_atomic(feedback / file_name(student), reasons(student, weights, scheme).encode("utf-8"))
    return len(students)
